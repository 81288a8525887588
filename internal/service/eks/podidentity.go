package eks

import (
	"context"
	"crypto/rand"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// podIdentityService is whom the role of an association must trust.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
const podIdentityService = "pods.eks.amazonaws.com"

// podIdentities are kept under CLUSTER/NAMESPACE/SERVICEACCOUNT, of which there can
// be one: the names of Kubernetes have no slash.
var podIdentities = store.NewCollection[podIdentityRecord]("eks", "podidentity")

type podIdentityRecord struct {
	Association ekstypes.PodIdentityAssociation
	// Token and Request make CreatePodIdentityAssociation idempotent.
	Token, Request string
}

func podIdentityKey(cluster store.Key, namespace, serviceAccount string) store.Key {
	return below(cluster, namespace+"/"+serviceAccount)
}

// CreatePodIdentityAssociation gives the pods of a service account a role. Neither
// the namespace nor the service account need be there.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html
func (s *Service) CreatePodIdentityAssociation(ctx context.Context, in *awseks.CreatePodIdentityAssociationInput) (*awseks.CreatePodIdentityAssociationOutput, error) {
	key, _, err := s.activeCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	untokened := *in
	untokened.ClientRequestToken = nil
	rec := podIdentityRecord{Token: text(in.ClientRequestToken), Request: fingerprint(untokened)}
	if rec.Association, err = s.newPodIdentity(ctx, key, in); err != nil {
		return nil, err
	}
	out := &awseks.CreatePodIdentityAssociationOutput{Association: &rec.Association}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if c, err := clusters.Get(tx, key); err != nil {
			return store.NotFoundAs(err, errNoCluster(key.ID))
		} else if c.Cluster.Status == ekstypes.ClusterStatusDeleting {
			return errNoCluster(key.ID)
		}
		id := podIdentityKey(key, *in.Namespace, *in.ServiceAccount)
		old, err := podIdentities.Get(tx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			out.Association = &rec.Association
			return podIdentities.Create(tx, id, rec)
		case err != nil:
			return err
		case rec.Token != "" && old.Token == rec.Token && old.Request == rec.Request:
			out.Association = &old.Association
			return nil
		}
		return errPodIdentityExists(key.ID, *old.Association.AssociationId)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Service) newPodIdentity(ctx context.Context, cluster store.Key, in *awseks.CreatePodIdentityAssociationInput) (ekstypes.PodIdentityAssociation, error) {
	var none ekstypes.PodIdentityAssociation
	if err := checkKubernetesName(cluster.ID, "namespace", text(in.Namespace), labelRE, 63); err != nil {
		return none, err
	}
	if err := checkKubernetesName(cluster.ID, "serviceAccount", text(in.ServiceAccount), subdomainRE, 253); err != nil {
		return none, err
	}
	if text(in.RoleArn) == "" {
		return none, errMissing("roleArn")
	}
	if err := validateTags(cluster.ID, in.Tags); err != nil {
		return none, err
	}
	id := associationID()
	now := s.clock.Now().UTC().Truncate(time.Millisecond)
	a := ekstypes.PodIdentityAssociation{
		AssociationArn: new(arn.New("eks", cluster.Region, cluster.Account, "podidentityassociation/"+cluster.ID+"/"+id)),
		AssociationId:  &id,
		ClusterName:    &cluster.ID, Namespace: in.Namespace, ServiceAccount: in.ServiceAccount, RoleArn: in.RoleArn,
		DisableSessionTags: new(in.DisableSessionTags != nil && *in.DisableSessionTags),
		Tags:               tagsOrEmpty(in.Tags), CreatedAt: &now, ModifiedAt: &now,
	}
	setTargetRole(&a, text(in.TargetRoleArn))
	a.Policy = nonEmpty(text(in.Policy))
	return a, s.checkPodIdentity(ctx, cluster, &a)
}

// setTargetRole sets or, with "", removes the second role of a chain. The external
// ID, by which the target's trust policy tells associations apart, is as long-lived
// as the association has a target.
func setTargetRole(a *ekstypes.PodIdentityAssociation, role string) {
	a.TargetRoleArn = nonEmpty(role)
	switch {
	case role == "":
		a.ExternalId = nil
	case a.ExternalId == nil:
		a.ExternalId = new(ids.UUID()) // its form is from memory
	}
}

// checkPodIdentity judges what an association asks of roles and policies.
func (s *Service) checkPodIdentity(ctx context.Context, cluster store.Key, a *ekstypes.PodIdentityAssociation) error {
	role, ok := parseRoleARN(*a.RoleArn)
	switch {
	case !ok:
		return errPodIdentityRoleARN(cluster.ID, "roleArn", *a.RoleArn)
	case role.Account != cluster.Account:
		return errCrossAccountRole()
	}
	id, err := s.cfg.Identity(ctx, *a.RoleArn)
	switch {
	case errors.Is(err, ErrNoIdentity):
		return errPodIdentityNoRole(cluster.ID)
	case err != nil:
		return err
	case !slices.Contains(id.TrustedServices, podIdentityService):
		return errPodIdentityTrust(cluster.ID)
	}
	if a.TargetRoleArn != nil {
		if _, ok := parseRoleARN(*a.TargetRoleArn); !ok {
			return errPodIdentityRoleARN(cluster.ID, "targetRoleArn", *a.TargetRoleArn)
		}
	}
	if a.Policy == nil {
		return nil
	}
	if !*a.DisableSessionTags {
		return errPodIdentityPolicyTags(cluster.ID)
	}
	if _, err := policy.Parse(policy.Identity, *a.Policy); err != nil {
		return errPodIdentityPolicy(cluster.ID, err)
	}
	return nil
}

// The forms of Kubernetes' names: those of namespaces and those of service accounts.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
var (
	labelRE     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomainRE = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

func checkKubernetesName(cluster, parameter, name string, form *regexp.Regexp, longest int) error {
	switch {
	case name == "":
		return errMissing(parameter)
	case len(name) > longest || !form.MatchString(name):
		return errKubernetesName(cluster, parameter)
	}
	return nil
}

func parseRoleARN(s string) (arn.ARN, bool) {
	a, err := arn.Parse(s)
	name, isRole := strings.CutPrefix(a.Resource, "role/")
	return a, err == nil && a.Partition == awsapi.Partition && a.Service == "iam" && len(a.Account) == 12 && isRole && name != ""
}

// associationID is a- and 17 lower-case letters and digits: a-9njjin9gfghecgocd.
func associationID() string {
	return "a-" + strings.ToLower(rand.Text()[:17])
}

// DescribePodIdentityAssociation returns an association.
func (s *Service) DescribePodIdentityAssociation(ctx context.Context, in *awseks.DescribePodIdentityAssociationInput) (*awseks.DescribePodIdentityAssociationOutput, error) {
	key, _, err := s.cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	_, rec, err := findPodIdentity(s.store, key, in.AssociationId)
	if err != nil {
		return nil, err
	}
	return &awseks.DescribePodIdentityAssociationOutput{Association: &rec.Association}, nil
}

// findPodIdentity finds an association by its ID.
func findPodIdentity(r store.Reader, cluster store.Key, id *string) (store.Key, podIdentityRecord, error) {
	if len(text(id)) != 19 {
		return store.Key{}, podIdentityRecord{}, errAssociationID(cluster.ID)
	}
	items, err := podIdentities.List(r, allBelow(cluster))
	if err != nil {
		return store.Key{}, podIdentityRecord{}, err
	}
	for _, i := range items {
		if *i.Value.Association.AssociationId == *id {
			return i.Key, i.Value, nil
		}
	}
	return store.Key{}, podIdentityRecord{}, errNoPodIdentity(*id)
}

// ListPodIdentityAssociations returns the cluster's associations, on demand only
// those of a namespace or a service account.
func (s *Service) ListPodIdentityAssociations(ctx context.Context, in *awseks.ListPodIdentityAssociationsInput) (*awseks.ListPodIdentityAssociationsOutput, error) {
	key, _, err := s.cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	items, err := podIdentities.List(s.store, allBelow(key))
	if err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(items, func(i store.Item[podIdentityRecord]) bool {
		a := &i.Value.Association
		return in.Namespace != nil && *a.Namespace != *in.Namespace || in.ServiceAccount != nil && *a.ServiceAccount != *in.ServiceAccount
	})
	items, next, err := page(items, func(i store.Item[podIdentityRecord]) string { return i.Key.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awseks.ListPodIdentityAssociationsOutput{Associations: []ekstypes.PodIdentityAssociationSummary{}, NextToken: next}
	for _, i := range items {
		a := &i.Value.Association
		out.Associations = append(out.Associations, ekstypes.PodIdentityAssociationSummary{
			AssociationArn: a.AssociationArn, AssociationId: a.AssociationId, ClusterName: a.ClusterName,
			Namespace: a.Namespace, ServiceAccount: a.ServiceAccount, OwnerArn: a.OwnerArn,
		})
	}
	return out, nil
}

// UpdatePodIdentityAssociation changes the roles, the policy or the session tags of
// an association; an empty target role or policy removes it.
func (s *Service) UpdatePodIdentityAssociation(ctx context.Context, in *awseks.UpdatePodIdentityAssociationInput) (*awseks.UpdatePodIdentityAssociationOutput, error) {
	key, _, err := s.activeCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	id, rec, err := findPodIdentity(s.store, key, in.AssociationId)
	switch {
	case err != nil:
		return nil, err
	case in.RoleArn == nil && in.TargetRoleArn == nil && in.DisableSessionTags == nil && in.Policy == nil:
		return nil, errNoPodIdentityChange(key.ID)
	}
	change := func(a *ekstypes.PodIdentityAssociation) {
		if in.RoleArn != nil {
			a.RoleArn = in.RoleArn
		}
		if in.TargetRoleArn != nil {
			setTargetRole(a, *in.TargetRoleArn)
		}
		if in.DisableSessionTags != nil {
			a.DisableSessionTags = in.DisableSessionTags
		}
		if in.Policy != nil {
			a.Policy = nonEmpty(*in.Policy)
		}
		a.ModifiedAt = new(s.clock.Now().UTC().Truncate(time.Millisecond))
	}
	if rec.Association.OwnerArn != nil {
		return nil, errPodIdentityOwned(key.ID, *in.AssociationId, *rec.Association.OwnerArn)
	}
	wanted := rec.Association
	change(&wanted)
	if err := s.checkPodIdentity(ctx, key, &wanted); err != nil {
		return nil, err
	}
	var out awseks.UpdatePodIdentityAssociationOutput
	err = podIdentities.UpdateOne(ctx, s.store, id, func(r *podIdentityRecord) error {
		if *r.Association.AssociationId != *in.AssociationId {
			return store.ErrNotFound // deleted and made anew meanwhile
		}
		change(&r.Association)
		a := r.Association
		out.Association = &a
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNoPodIdentity(*in.AssociationId)
	}
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// DeletePodIdentityAssociation takes a service account's role away. Pods keep the
// credentials that they have until those expire.
func (s *Service) DeletePodIdentityAssociation(ctx context.Context, in *awseks.DeletePodIdentityAssociationInput) (*awseks.DeletePodIdentityAssociationOutput, error) {
	key, _, err := s.activeCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	var out awseks.DeletePodIdentityAssociationOutput
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		id, rec, err := findPodIdentity(tx, key, in.AssociationId)
		if err != nil {
			return err
		}
		if rec.Association.OwnerArn != nil {
			return errPodIdentityOwned(key.ID, *in.AssociationId, *rec.Association.OwnerArn)
		}
		out.Association = &rec.Association
		podIdentities.Delete(tx, id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}
