// Package addon installs add-ons. It applies their objects, monitors the health of their pods,
// scales CoreDNS, and deletes objects that an update or deletion makes obsolete. The add-ons are
// defined in internal/catalog/addons.
package addon

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/podidentity"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations on add-ons and reconciles them.
type Service struct {
	*base.Service
	identities *podidentity.Service
}

// New returns the part of EKS that manages add-ons.
func New(b *base.Service, identities *podidentity.Service) *Service { return &Service{b, identities} }

// CreateAddon records an add-on. The reconciler applies its objects.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html
func (s *Service) CreateAddon(ctx context.Context, in *awseks.CreateAddonInput) (*awseks.CreateAddonOutput, error) {
	key, cluster, err := s.ActiveCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	a, err := lookup(key.ID, in.AddonName)
	if err != nil {
		return nil, err
	}
	id := ids.UUID()
	rec := record.Addon{Token: aws.ToString(in.ClientRequestToken), Request: record.Fingerprint(in), Resolve: in.ResolveConflicts, Untouched: true}
	rec.Addon = ekstypes.Addon{
		AddonArn:  new(arn.New("eks", key.Region, key.Account, "addon/"+key.ID+"/"+a.Name+"/"+id)),
		AddonName: &a.Name, ClusterName: &key.ID, Publisher: &a.Publisher, Owner: &a.Owner, Tags: base.TagsOrEmpty(in.Tags),
	}
	rec.Enter(ekstypes.AddonStatusCreating, s.Clock.Now())
	rec.Addon.CreatedAt = rec.Addon.ModifiedAt
	spec := record.AddonSpec{Version: aws.ToString(in.AddonVersion), Configuration: aws.ToString(in.ConfigurationValues), Role: aws.ToString(in.ServiceAccountRoleArn)}
	if in.NamespaceConfig != nil {
		spec.Namespace = aws.ToString(in.NamespaceConfig.Namespace)
		if err := checkNamespace(key.ID, a, spec.Namespace); err != nil {
			return nil, err
		}
		rec.Addon.NamespaceConfig = &ekstypes.AddonNamespaceConfigResponse{Namespace: &spec.Namespace}
	}
	if spec.Version == "" {
		if v := a.Default(*cluster.Cluster.Version); v != nil {
			spec.Version = v.Version
		}
	}
	rec.Set(spec)
	if err := check(key, cluster, a, spec, in.ResolveConflicts); err != nil {
		return nil, err
	}
	if err := base.CheckTags(key.ID, in.Tags); err != nil {
		return nil, err
	}
	owned, err := s.newOwned(ctx, key, a, spec.NamespaceOrDefault(), *rec.Addon.AddonArn, in.PodIdentityAssociations)
	if err != nil {
		return nil, err
	}
	made, err := base.Add(ctx, s.Service, record.Addons, key, key.Below(a.Name), rec,
		func(r *record.Addon) (token, request string) { return r.Token, r.Request },
		func(*record.Addon) error { return errExists(key.ID, a.Name) },
		func(tx *store.Tx, made *record.Addon) (err error) {
			made.Addon.PodIdentityAssociations, err = podidentity.PutOwned(tx, key, owned)
			return err
		})
	return &awseks.CreateAddonOutput{Addon: &made.Addon}, err
}

// TryAddon returns the error that CreateAddon would return for an add-on in its default version.
func (s *Service) TryAddon(ctx context.Context, cluster, name string) error {
	key, c, err := s.ActiveCluster(ctx, &cluster)
	if err != nil {
		return err
	}
	a, err := lookup(key.ID, &name)
	if err != nil {
		return err
	}
	if _, err := record.Addons.Get(s.Store, key.Below(name)); !store.IsNotFound(err) {
		return errors.Join(err, errExists(key.ID, name))
	}
	var spec record.AddonSpec
	if v := a.Default(*c.Cluster.Version); v != nil {
		spec.Version = v.Version
	}
	return check(key, c, a, spec, "")
}

// DescribeAddon returns an add-on.
func (s *Service) DescribeAddon(ctx context.Context, in *awseks.DescribeAddonInput) (*awseks.DescribeAddonOutput, error) {
	_, rec, err := s.find(ctx, in.ClusterName, in.AddonName)
	return &awseks.DescribeAddonOutput{Addon: &rec.Addon}, err
}

// find returns the named add-on of the named cluster, and its key.
func (s *Service) find(ctx context.Context, cluster, name *string) (store.Key, record.Addon, error) {
	return base.Find(ctx, s.Service, record.Addons, cluster, name, "addonName", NotFound)
}

// ListAddons returns the names of the cluster's add-ons.
func (s *Service) ListAddons(ctx context.Context, in *awseks.ListAddonsInput) (*awseks.ListAddonsOutput, error) {
	names, next, err := base.ListNames(ctx, s.Service, record.Addons, in.ClusterName, in.MaxResults, in.NextToken)
	return &awseks.ListAddonsOutput{Addons: names, NextToken: next}, err
}

// DeleteAddon marks an add-on for the reconciler to remove. With preserve, its objects stay.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DeleteAddon.html
func (s *Service) DeleteAddon(ctx context.Context, in *awseks.DeleteAddonInput) (*awseks.DeleteAddonOutput, error) {
	key, _, err := s.find(ctx, in.ClusterName, in.AddonName)
	if err != nil {
		return nil, err
	}
	var out awseks.DeleteAddonOutput
	err = record.Addons.UpdateOne(ctx, s.Store, key, func(r *record.Addon) error {
		if r.Addon.Status != ekstypes.AddonStatusDeleting {
			r.Preserve = in.Preserve
			r.Enter(ekstypes.AddonStatusDeleting, s.Clock.Now())
		}
		out.Addon = &r.Addon
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, NotFound(*in.ClusterName, *in.AddonName)
	}
	return &out, err
}

// UpdateAddon changes an add-on's version, configuration or roles. Omitted
// parameters keep their values.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateAddon.html
func (s *Service) UpdateAddon(ctx context.Context, in *awseks.UpdateAddonInput) (*awseks.UpdateAddonOutput, error) {
	ckey, cluster, err := s.ActiveCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	key, rec, err := s.find(ctx, in.ClusterName, in.AddonName)
	if err != nil {
		return nil, err
	}
	a, err := lookup(ckey.ID, in.AddonName)
	if err != nil {
		return nil, err
	}
	// next is the add-on after the update. It is checked now and again when it is stored, because
	// another update may have finished in between.
	next := func(spec record.AddonSpec) (*record.AddonSpec, error) {
		for field, value := range map[*string]*string{&spec.Version: in.AddonVersion, &spec.Role: in.ServiceAccountRoleArn, &spec.Configuration: in.ConfigurationValues} {
			if value != nil {
				*field = *value
			}
		}
		return &spec, check(ckey, cluster, a, spec, in.ResolveConflicts)
	}
	if _, err := next(rec.Spec()); err != nil {
		return nil, err
	}
	up := s.NewUpdate(ekstypes.UpdateTypeAddonUpdate)
	base.Note(up, ekstypes.UpdateParamTypeAddonVersion, in.AddonVersion)
	base.Note(up, ekstypes.UpdateParamTypeServiceAccountRoleArn, in.ServiceAccountRoleArn)
	base.Note(up, ekstypes.UpdateParamTypeConfigurationValues, in.ConfigurationValues)
	base.Note(up, ekstypes.UpdateParamTypeResolveConflicts, record.Optional(string(in.ResolveConflicts)))
	var owned []record.PodIdentity
	if in.PodIdentityAssociations != nil {
		if owned, err = s.newOwned(ctx, ckey, a, rec.Spec().NamespaceOrDefault(), *rec.Addon.AddonArn, in.PodIdentityAssociations); err != nil {
			return nil, err
		}
		base.Note(up, ekstypes.UpdateParamTypePodIdentityAssociations, new(associationsText(in.PodIdentityAssociations)))
	}
	up.Addon, up.Token, up.Request = a.Name, aws.ToString(in.ClientRequestToken), record.Fingerprint(in)
	out := &awseks.UpdateAddonOutput{}
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		old, err := s.RepeatedUpdate(tx, ckey, in.ClientRequestToken, up.Request)
		if err != nil || old != nil {
			out.Update = old
			return err
		}
		var associations []string
		if in.PodIdentityAssociations != nil {
			if associations, err = podidentity.ReplaceOwned(tx, ckey, *rec.Addon.AddonArn, owned); err != nil {
				return err
			}
		}
		err = record.Addons.Update(tx, key, func(r *record.Addon) error {
			switch r.Addon.Status {
			case ekstypes.AddonStatusCreating, ekstypes.AddonStatusUpdating, ekstypes.AddonStatusDeleting:
				return errBusy(ckey.ID, a.Name, r.Addon.Status)
			}
			if *r.Addon.AddonArn != *rec.Addon.AddonArn {
				return store.ErrNotFound // it was deleted and created again
			}
			spec, err := next(r.Spec())
			if err != nil {
				return err
			}
			if in.PodIdentityAssociations != nil {
				r.Addon.PodIdentityAssociations = associations
			}
			r.Next, r.Resolve, r.UpdateID, r.Applied = spec, in.ResolveConflicts, *up.Update.Id, false
			r.Enter(ekstypes.AddonStatusUpdating, s.Clock.Now())
			return nil
		})
		if err != nil {
			return store.NotFoundAs(err, NotFound(ckey.ID, a.Name))
		}
		out.Update = &up.Update
		return record.Updates.Create(tx, ckey.Below(*up.Update.Id), *up)
	})
	return out, err
}

// lookup finds an add-on in the catalogue.
func lookup(cluster string, name *string) (*addons.AddOn, error) {
	if aws.ToString(name) == "" {
		return nil, ekserr.Missing("addonName")
	}
	a, ok := addons.Lookup(*name)
	if !ok {
		return nil, errUnknown(cluster, *name)
	}
	return a, nil
}

// Settled reports whether nothing is in progress on an add-on.
func Settled(out *awseks.DescribeAddonOutput) bool {
	switch out.Addon.Status {
	case ekstypes.AddonStatusCreating, ekstypes.AddonStatusUpdating, ekstypes.AddonStatusDeleting:
		return false
	}
	return true
}

// DescribeAddonVersions returns the available add-ons, their versions, and the Kubernetes releases
// that they support.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeAddonVersions.html
func (s *Service) DescribeAddonVersions(_ context.Context, in *awseks.DescribeAddonVersionsInput) (*awseks.DescribeAddonVersionsOutput, error) {
	if in.AddonName != nil {
		if _, err := lookup("", in.AddonName); err != nil {
			return nil, err
		}
	}
	among := func(wanted []string, have string) bool { return len(wanted) == 0 || slices.Contains(wanted, have) }
	found := []ekstypes.AddonInfo{}
	for i := range addons.All() {
		a := &addons.All()[i]
		if in.AddonName != nil && a.Name != *in.AddonName || !among(in.Types, a.Type) || !among(in.Publishers, a.Publisher) || !among(in.Owners, a.Owner) {
			continue
		}
		if info := infoOf(a, in.KubernetesVersion); len(info.AddonVersions) > 0 {
			found = append(found, info)
		}
	}
	found, next, err := base.Page(found, func(a ekstypes.AddonInfo) string { return *a.AddonName }, in.MaxResults, in.NextToken)
	return &awseks.DescribeAddonVersionsOutput{Addons: found, NextToken: next}, err
}

// infoOf describes an add-on, optionally for one Kubernetes release only.
func infoOf(a *addons.AddOn, kubernetes *string) ekstypes.AddonInfo {
	info := ekstypes.AddonInfo{
		AddonName: &a.Name, Type: &a.Type, Publisher: &a.Publisher, Owner: &a.Owner, DefaultNamespace: new(addons.Namespace),
	}
	for i := range a.Versions {
		v := &a.Versions[i]
		var runs []ekstypes.Compatibility
		for k := range v.Kubernetes {
			if kubernetes == nil || v.Kubernetes[k] == *kubernetes {
				runs = append(runs, ekstypes.Compatibility{
					ClusterVersion: &v.Kubernetes[k], PlatformVersions: []string{"*"}, DefaultVersion: slices.Contains(v.DefaultFor, v.Kubernetes[k]),
				})
			}
		}
		if len(runs) > 0 {
			info.AddonVersions = append(info.AddonVersions, ekstypes.AddonVersionInfo{
				AddonVersion: &v.Version, Architecture: []string{"amd64", "arm64"}, ComputeTypes: a.ComputeTypes,
				Compatibilities: runs, RequiresIamPermissions: a.RequiresIAMPermissions,
			})
		}
	}
	return info
}

// DescribeAddonConfiguration returns an add-on's configuration schema and the policies that its
// service accounts should have.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeAddonConfiguration.html
func (s *Service) DescribeAddonConfiguration(_ context.Context, in *awseks.DescribeAddonConfigurationInput) (*awseks.DescribeAddonConfigurationOutput, error) {
	a, err := lookup("", in.AddonName)
	if err != nil {
		return nil, err
	}
	if aws.ToString(in.AddonVersion) == "" {
		return nil, ekserr.Missing("addonVersion")
	}
	v := a.Version(*in.AddonVersion)
	if v == nil {
		return nil, errVersion("", a.Name)
	}
	out := &awseks.DescribeAddonConfigurationOutput{AddonName: in.AddonName, AddonVersion: in.AddonVersion, ConfigurationSchema: new(a.Schema(v))}
	for i := range a.ServiceAccounts {
		sa := &a.ServiceAccounts[i]
		c := ekstypes.AddonPodIdentityConfiguration{ServiceAccount: &sa.Name}
		for _, p := range sa.Policies {
			c.RecommendedManagedPolicies = append(c.RecommendedManagedPolicies, "arn:"+awsapi.Partition+":iam::aws:policy/"+p)
		}
		out.PodIdentityConfiguration = append(out.PodIdentityConfiguration, c)
	}
	return out, nil
}
