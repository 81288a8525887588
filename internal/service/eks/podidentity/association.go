// Package podidentity gives pods the roles of their service accounts. It has EKS Pod Identity
// associations, the webhook that injects tokens and variables into pods, and the review of these
// tokens. STS and EKS Auth issue the credentials.
package podidentity

import (
	"context"
	"crypto/rand"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations on Pod Identity associations.
type Service struct{ *base.Service }

// New returns the part of EKS that handles pod identities.
func New(b *base.Service) *Service { return &Service{b} }

// trustedService is the service that the role of an association must trust.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
const trustedService = "pods.eks.amazonaws.com"

// CreatePodIdentityAssociation gives a role to the pods of a service account. Neither the namespace
// nor the service account need exist.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html
func (s *Service) CreatePodIdentityAssociation(ctx context.Context, in *awseks.CreatePodIdentityAssociationInput) (*awseks.CreatePodIdentityAssociationOutput, error) {
	key, _, err := s.ActiveCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	rec := record.PodIdentity{Token: aws.ToString(in.ClientRequestToken), Request: record.Fingerprint(in)}
	if rec.Association, err = s.NewAssociation(ctx, key, in); err != nil {
		return nil, err
	}
	made, err := base.Add(ctx, s.Service, record.PodIdentities, key, record.PodIdentityKey(key, *in.Namespace, *in.ServiceAccount), rec,
		func(r *record.PodIdentity) (token, request string) { return r.Token, r.Request },
		func(old *record.PodIdentity) error { return errExists(key.ID, *old.Association.AssociationId) },
		func(*store.Tx, *record.PodIdentity) error { return nil })
	return &awseks.CreatePodIdentityAssociationOutput{Association: &made.Association}, err
}

// NewAssociation checks a request and returns the association to be stored.
func (s *Service) NewAssociation(ctx context.Context, cluster store.Key, in *awseks.CreatePodIdentityAssociationInput) (ekstypes.PodIdentityAssociation, error) {
	var none ekstypes.PodIdentityAssociation
	if err := checkKubernetesName(cluster.ID, "namespace", aws.ToString(in.Namespace), labelRE, 63); err != nil {
		return none, err
	}
	if err := checkKubernetesName(cluster.ID, "serviceAccount", aws.ToString(in.ServiceAccount), subdomainRE, 253); err != nil {
		return none, err
	}
	if aws.ToString(in.RoleArn) == "" {
		return none, ekserr.Missing("roleArn")
	}
	if err := base.CheckTags(cluster.ID, in.Tags); err != nil {
		return none, err
	}
	id := associationID()
	now := s.Now()
	a := ekstypes.PodIdentityAssociation{
		AssociationArn: new(arn.New("eks", cluster.Region, cluster.Account, "podidentityassociation/"+cluster.ID+"/"+id)),
		AssociationId:  &id,
		ClusterName:    &cluster.ID, Namespace: in.Namespace, ServiceAccount: in.ServiceAccount, RoleArn: in.RoleArn,
		DisableSessionTags: new(in.DisableSessionTags != nil && *in.DisableSessionTags),
		Tags:               base.TagsOrEmpty(in.Tags), CreatedAt: &now, ModifiedAt: &now,
	}
	setTargetRole(&a, aws.ToString(in.TargetRoleArn))
	a.Policy = record.Optional(aws.ToString(in.Policy))
	return a, s.check(ctx, cluster, &a)
}

// setTargetRole sets the second role of a chain, or removes it if given "". Its external ID, which
// lets the target's trust policy tell associations apart, stays the same as long as the association
// has a target.
func setTargetRole(a *ekstypes.PodIdentityAssociation, role string) {
	a.TargetRoleArn = record.Optional(role)
	switch {
	case role == "":
		a.ExternalId = nil
	case a.ExternalId == nil:
		a.ExternalId = new(ids.UUID()) // the format is from memory
	}
}

// check validates an association's roles and policies.
func (s *Service) check(ctx context.Context, cluster store.Key, a *ekstypes.PodIdentityAssociation) error {
	role, ok := ParseRoleARN(*a.RoleArn)
	switch {
	case !ok:
		return errRoleARN(cluster.ID, "roleArn", *a.RoleArn)
	case role.Account != cluster.Account:
		return ekserr.CrossAccountRole()
	}
	id, err := s.Identity(ctx, *a.RoleArn)
	switch {
	case errors.Is(err, base.ErrNoIdentity):
		return errNoRole(cluster.ID)
	case err != nil:
		return err
	case !slices.Contains(id.TrustedServices, trustedService):
		return errTrust(cluster.ID)
	}
	if a.TargetRoleArn != nil {
		if _, ok := ParseRoleARN(*a.TargetRoleArn); !ok {
			return errRoleARN(cluster.ID, "targetRoleArn", *a.TargetRoleArn)
		}
	}
	if a.Policy == nil {
		return nil
	}
	if !*a.DisableSessionTags {
		return errPolicyTags(cluster.ID)
	}
	if _, err := policy.Parse(policy.Identity, *a.Policy); err != nil {
		return errPolicy(cluster.ID, err)
	}
	return nil
}

// Syntax of Kubernetes names: namespaces and service accounts.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
var (
	labelRE     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomainRE = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

func checkKubernetesName(cluster, parameter, name string, form *regexp.Regexp, longest int) error {
	switch {
	case name == "":
		return ekserr.Missing(parameter)
	case len(name) > longest || !form.MatchString(name):
		return errKubernetesName(cluster, parameter, form.String())
	}
	return nil
}

// ParseRoleARN parses the ARN of a role. It returns false if it is not one.
func ParseRoleARN(s string) (arn.ARN, bool) {
	a, err := arn.Parse(s)
	name, isRole := strings.CutPrefix(a.Resource, "role/")
	return a, err == nil && a.Partition == awsapi.Partition && a.Service == "iam" && len(a.Account) == 12 && isRole && name != ""
}

// associationID returns a new ID: a- and 17 lower-case letters and digits, as in
// a-9njjin9gfghecgocd.
func associationID() string {
	return "a-" + strings.ToLower(rand.Text()[:17])
}

// DescribePodIdentityAssociation returns an association.
func (s *Service) DescribePodIdentityAssociation(ctx context.Context, in *awseks.DescribePodIdentityAssociationInput) (*awseks.DescribePodIdentityAssociationOutput, error) {
	key, _, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	_, rec, err := Find(s.Store, key, in.AssociationId)
	return &awseks.DescribePodIdentityAssociationOutput{Association: &rec.Association}, err
}

// Find finds an association by its ID.
func Find(r store.Reader, cluster store.Key, id *string) (store.Key, record.PodIdentity, error) {
	if len(aws.ToString(id)) != 19 {
		return store.Key{}, record.PodIdentity{}, errAssociationID(cluster.ID)
	}
	for _, i := range record.PodIdentities.All(r, cluster.AllBelow()) {
		if *i.Value.Association.AssociationId == *id {
			return i.Key, i.Value, nil
		}
	}
	return store.Key{}, record.PodIdentity{}, errNotFound(*id)
}

// ListPodIdentityAssociations returns the cluster's associations, optionally only those of a
// namespace or a service account.
func (s *Service) ListPodIdentityAssociations(ctx context.Context, in *awseks.ListPodIdentityAssociationsInput) (*awseks.ListPodIdentityAssociationsOutput, error) {
	key, _, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	found, next, err := base.PageBelow(s.Service, record.PodIdentities, key, func(r *record.PodIdentity) bool {
		a := &r.Association
		return (in.Namespace == nil || *a.Namespace == *in.Namespace) && (in.ServiceAccount == nil || *a.ServiceAccount == *in.ServiceAccount)
	}, func(i store.Item[record.PodIdentity]) ekstypes.PodIdentityAssociationSummary {
		a := &i.Value.Association
		return ekstypes.PodIdentityAssociationSummary{
			AssociationArn: a.AssociationArn, AssociationId: a.AssociationId, ClusterName: a.ClusterName,
			Namespace: a.Namespace, ServiceAccount: a.ServiceAccount, OwnerArn: a.OwnerArn,
		}
	}, in.MaxResults, in.NextToken)
	return &awseks.ListPodIdentityAssociationsOutput{Associations: found, NextToken: next}, err
}

// UpdatePodIdentityAssociation changes the roles, the policy or the session tags of
// an association; an empty target role or policy removes it.
func (s *Service) UpdatePodIdentityAssociation(ctx context.Context, in *awseks.UpdatePodIdentityAssociationInput) (*awseks.UpdatePodIdentityAssociationOutput, error) {
	key, _, err := s.ActiveCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	id, rec, err := Find(s.Store, key, in.AssociationId)
	switch {
	case err != nil:
		return nil, err
	case in.RoleArn == nil && in.TargetRoleArn == nil && in.DisableSessionTags == nil && in.Policy == nil:
		return nil, errNoChange(key.ID)
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
			a.Policy = record.Optional(*in.Policy)
		}
		a.ModifiedAt = new(s.Now())
	}
	if rec.Association.OwnerArn != nil {
		return nil, errOwned(key.ID, *in.AssociationId, *rec.Association.OwnerArn)
	}
	wanted := rec.Association
	change(&wanted)
	if err := s.check(ctx, key, &wanted); err != nil {
		return nil, err
	}
	var out awseks.UpdatePodIdentityAssociationOutput
	err = record.PodIdentities.UpdateOne(ctx, s.Store, id, func(r *record.PodIdentity) error {
		if *r.Association.AssociationId != *in.AssociationId {
			return store.ErrNotFound // the association was deleted and created again
		}
		change(&r.Association)
		a := r.Association
		out.Association = &a
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNotFound(*in.AssociationId)
	}
	return &out, err
}

// DeletePodIdentityAssociation removes a service account's role. Pods keep their credentials until
// those expire.
func (s *Service) DeletePodIdentityAssociation(ctx context.Context, in *awseks.DeletePodIdentityAssociationInput) (*awseks.DeletePodIdentityAssociationOutput, error) {
	key, _, err := s.ActiveCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	var out awseks.DeletePodIdentityAssociationOutput
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		id, rec, err := Find(tx, key, in.AssociationId)
		if err != nil {
			return err
		}
		if rec.Association.OwnerArn != nil {
			return errOwned(key.ID, *in.AssociationId, *rec.Association.OwnerArn)
		}
		out.Association = &rec.Association
		record.PodIdentities.Delete(tx, id)
		return nil
	})
	return &out, err
}

// PutOwned stores an add-on's associations and returns their ARNs.
func PutOwned(tx *store.Tx, cluster store.Key, owned []record.PodIdentity) ([]string, error) {
	var arns []string
	for _, r := range owned {
		key := record.PodIdentityKey(cluster, *r.Association.Namespace, *r.Association.ServiceAccount)
		old, err := record.PodIdentities.Get(tx, key)
		switch {
		case err == nil:
			return nil, errExists(cluster.ID, *old.Association.AssociationId)
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
		if err := record.PodIdentities.Create(tx, key, r); err != nil {
			return nil, err
		}
		arns = append(arns, *r.Association.AssociationArn)
	}
	return arns, nil
}

// ReplaceOwned replaces the associations that an add-on owns. Those for the same service account
// keep their ID.
func ReplaceOwned(tx *store.Tx, cluster store.Key, owner string, owned []record.PodIdentity) ([]string, error) {
	arns := []string{}
	old := OwnedBy(tx, cluster, owner)
	for _, o := range old {
		i := slices.IndexFunc(owned, func(r record.PodIdentity) bool {
			return *r.Association.ServiceAccount == *o.Value.Association.ServiceAccount
		})
		if i < 0 {
			record.PodIdentities.Delete(tx, o.Key)
			continue
		}
		role, at := owned[i].Association.RoleArn, owned[i].Association.ModifiedAt
		if err := record.PodIdentities.Update(tx, o.Key, func(r *record.PodIdentity) error {
			r.Association.RoleArn, r.Association.ModifiedAt = role, at
			return nil
		}); err != nil {
			return nil, err
		}
		arns = append(arns, *o.Value.Association.AssociationArn)
		owned = slices.Delete(slices.Clone(owned), i, i+1)
	}
	added, err := PutOwned(tx, cluster, owned)
	return append(arns, added...), err
}

// OwnedBy returns the associations of an add-on.
func OwnedBy(r store.Reader, cluster store.Key, owner string) []store.Item[record.PodIdentity] {
	items := record.PodIdentities.All(r, cluster.AllBelow())
	return slices.DeleteFunc(items, func(i store.Item[record.PodIdentity]) bool {
		return aws.ToString(i.Value.Association.OwnerArn) != owner
	})
}
