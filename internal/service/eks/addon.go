package eks

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// addonRecords are kept under CLUSTER/NAME.
var addonRecords = store.NewCollection[addonRecord]("eks", "addon")

type addonRecord struct {
	// Addon is DescribeAddon's answer.
	Addon          ekstypes.Addon
	Token, Request string
	// Since is when Status was entered.
	Since time.Time
	// Resolve says what becomes of fields that others set.
	Resolve ekstypes.ResolveConflicts
	// Next is what an update makes of the add-on; UpdateID is the update.
	Next     *addonSpec `json:",omitempty"`
	UpdateID string     `json:",omitempty"`
	// Untouched says that nothing was applied yet: objects of the add-on's that are
	// there are the user's own, and deleting the add-on leaves them.
	Untouched bool `json:",omitempty"`
	// Applied says that the objects are as wanted, and wait for their pods; Had, that
	// all objects of what the add-on is were applied once.
	Applied bool
	Had     bool `json:",omitempty"`
	// Ailing is since when pods of an ACTIVE add-on are missing.
	Ailing time.Time
	// Preserve says that deleting leaves the objects.
	Preserve bool `json:",omitempty"`
	// Scaling is how far EKS has scaled the add-on, nil if it has not.
	Scaling *addonScaling `json:",omitempty"`
}

// An addonSpec is what can be changed of an add-on.
type addonSpec struct {
	Version       string
	Configuration string
	Role          string
	// Namespace, which stays, is empty for the usual one. Replicas, if not 0, is what
	// EKS has scaled it to.
	Namespace string `json:",omitempty"`
	Replicas  int    `json:"-"`
}

func (p addonSpec) namespace() string { return cmp.Or(p.Namespace, addons.Namespace) }

func (r *addonRecord) spec() addonSpec {
	p := addonSpec{Version: text(r.Addon.AddonVersion), Configuration: text(r.Addon.ConfigurationValues), Role: text(r.Addon.ServiceAccountRoleArn)}
	if r.Addon.NamespaceConfig != nil {
		p.Namespace = text(r.Addon.NamespaceConfig.Namespace)
	}
	if r.Scaling != nil {
		p.Replicas = r.Scaling.Replicas
	}
	return p
}

func (r *addonRecord) set(p addonSpec) {
	r.Addon.AddonVersion = &p.Version
	r.Addon.ConfigurationValues, r.Addon.ServiceAccountRoleArn = nonEmpty(p.Configuration), nonEmpty(p.Role)
}

func (r *addonRecord) enter(st ekstypes.AddonStatus, now time.Time, issues ...ekstypes.AddonIssue) {
	if issues == nil {
		issues = []ekstypes.AddonIssue{}
	}
	now = now.UTC().Truncate(time.Millisecond)
	r.Addon.Status, r.Since, r.Ailing, r.Addon.ModifiedAt = st, now, time.Time{}, &now
	r.Addon.Health = &ekstypes.AddonHealth{Issues: issues}
}

// CreateAddon records an add-on whose objects the reconciler then applies.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html
func (s *Service) CreateAddon(ctx context.Context, in *awseks.CreateAddonInput) (*awseks.CreateAddonOutput, error) {
	key, cluster, err := s.activeCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	a, err := lookupAddon(key.ID, in.AddonName)
	if err != nil {
		return nil, err
	}
	untokened := *in
	untokened.ClientRequestToken = nil
	id := ids.UUID()
	rec := addonRecord{Token: text(in.ClientRequestToken), Request: fingerprint(untokened), Resolve: in.ResolveConflicts, Untouched: true}
	rec.Addon = ekstypes.Addon{
		AddonArn:  new(arn.New("eks", key.Region, key.Account, "addon/"+key.ID+"/"+a.Name+"/"+id)),
		AddonName: &a.Name, ClusterName: &key.ID, Publisher: &a.Publisher, Owner: &a.Owner, Tags: tagsOrEmpty(in.Tags),
	}
	rec.enter(ekstypes.AddonStatusCreating, s.clock.Now())
	rec.Addon.CreatedAt = rec.Addon.ModifiedAt
	spec := addonSpec{Version: text(in.AddonVersion), Configuration: text(in.ConfigurationValues), Role: text(in.ServiceAccountRoleArn)}
	if in.NamespaceConfig != nil {
		spec.Namespace = text(in.NamespaceConfig.Namespace)
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
	rec.set(spec)
	if err := checkAddon(key, cluster, a, spec, in.ResolveConflicts); err != nil {
		return nil, err
	}
	if err := validateTags(key.ID, in.Tags); err != nil {
		return nil, err
	}
	owned, err := s.newOwned(ctx, key, a, spec.namespace(), *rec.Addon.AddonArn, in.PodIdentityAssociations)
	if err != nil {
		return nil, err
	}
	out := &awseks.CreateAddonOutput{}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if c, err := clusters.Get(tx, key); err != nil {
			return store.NotFoundAs(err, errNoCluster(key.ID))
		} else if c.Cluster.Status == ekstypes.ClusterStatusDeleting {
			return errNoCluster(key.ID)
		}
		old, err := addonRecords.Get(tx, below(key, a.Name))
		switch {
		case err == nil && rec.Token != "" && old.Token == rec.Token && old.Request == rec.Request:
			out.Addon = describeAddon(&old)
			return nil
		case err == nil:
			return errAddonExists(key.ID, a.Name)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		made := rec
		if made.Addon.PodIdentityAssociations, err = putOwned(tx, key, owned); err != nil {
			return err
		}
		out.Addon = describeAddon(&made)
		return addonRecords.Create(tx, below(key, a.Name), made)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// describeAddon returns the add-on as AWS shows it.
func describeAddon(r *addonRecord) *ekstypes.Addon {
	a := r.Addon
	return &a
}

// DescribeAddon returns an add-on as it is now.
func (s *Service) DescribeAddon(ctx context.Context, in *awseks.DescribeAddonInput) (*awseks.DescribeAddonOutput, error) {
	_, rec, err := s.addon(ctx, in.ClusterName, in.AddonName)
	if err != nil {
		return nil, err
	}
	return &awseks.DescribeAddonOutput{Addon: describeAddon(&rec)}, nil
}

// addon returns the named add-on of the named cluster, and its key.
func (s *Service) addon(ctx context.Context, cluster, name *string) (store.Key, addonRecord, error) {
	key, _, err := s.cluster(ctx, cluster)
	if err != nil {
		return key, addonRecord{}, err
	}
	if text(name) == "" {
		return key, addonRecord{}, errMissing("addonName")
	}
	key = below(key, *name)
	rec, err := addonRecords.Get(s.store, key)
	if errors.Is(err, store.ErrNotFound) {
		return key, rec, errNoAddon(*cluster, *name)
	}
	return key, rec, err
}

// ListAddons returns the names of the cluster's add-ons.
func (s *Service) ListAddons(ctx context.Context, in *awseks.ListAddonsInput) (*awseks.ListAddonsOutput, error) {
	key, _, err := s.cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	items, err := addonRecords.List(s.store, allBelow(key))
	if err != nil {
		return nil, err
	}
	items, next, err := page(items, func(i store.Item[addonRecord]) string { return i.Key.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awseks.ListAddonsOutput{Addons: []string{}, NextToken: next}
	for _, i := range items {
		out.Addons = append(out.Addons, *i.Value.Addon.AddonName)
	}
	return out, nil
}

// DeleteAddon marks an add-on for the reconciler to remove, with preserve without
// its objects.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DeleteAddon.html
func (s *Service) DeleteAddon(ctx context.Context, in *awseks.DeleteAddonInput) (*awseks.DeleteAddonOutput, error) {
	key, _, err := s.addon(ctx, in.ClusterName, in.AddonName)
	if err != nil {
		return nil, err
	}
	var out awseks.DeleteAddonOutput
	err = addonRecords.UpdateOne(ctx, s.store, key, func(r *addonRecord) error {
		if r.Addon.Status != ekstypes.AddonStatusDeleting {
			r.Preserve = in.Preserve
			r.enter(ekstypes.AddonStatusDeleting, s.clock.Now())
		}
		out.Addon = describeAddon(r)
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNoAddon(*in.ClusterName, *in.AddonName)
	}
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// UpdateAddon changes an add-on's version, configuration or roles. What is left
// out stays.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateAddon.html
func (s *Service) UpdateAddon(ctx context.Context, in *awseks.UpdateAddonInput) (*awseks.UpdateAddonOutput, error) {
	ckey, cluster, err := s.activeCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	key, rec, err := s.addon(ctx, in.ClusterName, in.AddonName)
	if err != nil {
		return nil, err
	}
	a, err := lookupAddon(ckey.ID, in.AddonName)
	if err != nil {
		return nil, err
	}
	// next is what becomes of an add-on: judged now, and once more for what it is when
	// it is stored, for another update may have ended meanwhile.
	next := func(spec addonSpec) (*addonSpec, error) {
		for field, value := range map[*string]*string{&spec.Version: in.AddonVersion, &spec.Role: in.ServiceAccountRoleArn, &spec.Configuration: in.ConfigurationValues} {
			if value != nil {
				*field = *value
			}
		}
		return &spec, checkAddon(ckey, cluster, a, spec, in.ResolveConflicts)
	}
	if _, err := next(rec.spec()); err != nil {
		return nil, err
	}
	up := s.newUpdate(ekstypes.UpdateTypeAddonUpdate)
	param := func(t ekstypes.UpdateParamType, value *string) {
		if value != nil {
			up.Update.Params = append(up.Update.Params, ekstypes.UpdateParam{Type: t, Value: value})
		}
	}
	param(ekstypes.UpdateParamTypeAddonVersion, in.AddonVersion)
	param(ekstypes.UpdateParamTypeServiceAccountRoleArn, in.ServiceAccountRoleArn)
	param(ekstypes.UpdateParamTypeConfigurationValues, in.ConfigurationValues)
	param(ekstypes.UpdateParamTypeResolveConflicts, nonEmpty(string(in.ResolveConflicts)))
	var owned []podIdentityRecord
	if in.PodIdentityAssociations != nil {
		if owned, err = s.newOwned(ctx, ckey, a, rec.spec().namespace(), *rec.Addon.AddonArn, in.PodIdentityAssociations); err != nil {
			return nil, err
		}
		param(ekstypes.UpdateParamTypePodIdentityAssociations, new(associationsText(in.PodIdentityAssociations)))
	}
	untokened := *in
	untokened.ClientRequestToken = nil
	up.Addon, up.Token, up.Request = a.Name, text(in.ClientRequestToken), fingerprint(untokened)
	out := &awseks.UpdateAddonOutput{}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		old, err := s.repeatedUpdate(tx, ckey, in.ClientRequestToken, up.Request)
		if err != nil || old != nil {
			out.Update = old
			return err
		}
		var associations []string
		if in.PodIdentityAssociations != nil {
			if associations, err = replaceOwned(tx, ckey, *rec.Addon.AddonArn, owned); err != nil {
				return err
			}
		}
		err = addonRecords.Update(tx, key, func(r *addonRecord) error {
			switch r.Addon.Status {
			case ekstypes.AddonStatusCreating, ekstypes.AddonStatusUpdating, ekstypes.AddonStatusDeleting:
				return errAddonBusy(ckey.ID, a.Name, r.Addon.Status)
			}
			if *r.Addon.AddonArn != *rec.Addon.AddonArn {
				return store.ErrNotFound // deleted and made anew meanwhile
			}
			spec, err := next(r.spec())
			if err != nil {
				return err
			}
			if in.PodIdentityAssociations != nil {
				r.Addon.PodIdentityAssociations = associations
			}
			r.Next, r.Resolve, r.UpdateID, r.Applied = spec, in.ResolveConflicts, *up.Update.Id, false
			r.enter(ekstypes.AddonStatusUpdating, s.clock.Now())
			return nil
		})
		if errors.Is(err, store.ErrNotFound) {
			return errNoAddon(ckey.ID, a.Name)
		} else if err != nil {
			return err
		}
		out.Update = &up.Update
		return updates.Create(tx, below(ckey, *up.Update.Id), *up)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// lookupAddon finds an add-on in the catalogue.
func lookupAddon(cluster string, name *string) (*addons.AddOn, error) {
	if text(name) == "" {
		return nil, errMissing("addonName")
	}
	a, ok := addons.Lookup(*name)
	if !ok {
		return nil, errUnknownAddon(cluster, *name)
	}
	return a, nil
}

// addonByARN finds an add-on of the caller's by its ARN: addon/CLUSTER/NAME/UUID. It
// returns store.ErrNotFound if there is none.
func addonByARN(r store.Reader, account, region, resource string) (store.Key, addonRecord, error) {
	f := strings.SplitN(resource, ":", 6)
	if len(f) != 6 || f[3] != region || f[4] != account {
		return store.Key{}, addonRecord{}, store.ErrNotFound
	}
	path := strings.Split(f[5], "/")
	if len(path) != 4 || path[0] != "addon" {
		return store.Key{}, addonRecord{}, store.ErrNotFound
	}
	key := store.Key{Account: account, Region: region, ID: path[1] + "/" + path[2]}
	rec, err := addonRecords.Get(r, key)
	if err == nil && *rec.Addon.AddonArn != resource {
		err = store.ErrNotFound
	}
	return key, rec, err
}

// settledAddon reports whether nothing is under way with an add-on.
func settledAddon(out *awseks.DescribeAddonOutput) bool {
	switch out.Addon.Status {
	case ekstypes.AddonStatusCreating, ekstypes.AddonStatusUpdating, ekstypes.AddonStatusDeleting:
		return false
	}
	return true
}
