package resource

import (
	"context"
	"strings"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/service/eks/podidentity"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A kind gives access to the resources of one kind. Their ARNs are KIND/CLUSTER/…, those of
// clusters KIND/CLUSTER, and those of subscriptions KIND/ID.
type kind struct {
	// get returns the resource at a key.
	get func(store.Reader, store.Key) (tagged, error)
	// list returns the resources that belong to a cluster.
	list func(store.Reader, store.Key) []tagged
	// retag changes the tags of the resource at a key.
	retag func(*store.Tx, store.Key, func(tags map[string]string) error) error
}

// A tagged is a resource that has an ARN and tags.
type tagged struct {
	key  store.Key
	arn  string
	tags map[string]string
}

var kinds = map[string]kind{
	"cluster": kindOf(record.Clusters, func(r *record.Cluster) (*string, *map[string]string) { return r.Cluster.Arn, &r.Cluster.Tags }),
	"eks-anywhere-subscription": kindOf(record.Subscriptions, func(r *record.Subscription) (*string, *map[string]string) {
		return r.Subscription.Arn, &r.Subscription.Tags
	}),
	"nodegroup": kindOf(record.Nodegroups, func(r *record.Nodegroup) (*string, *map[string]string) {
		return r.Nodegroup.NodegroupArn, &r.Nodegroup.Tags
	}),
	"fargateprofile": kindOf(record.FargateProfiles, func(r *record.FargateProfile) (*string, *map[string]string) {
		return r.Profile.FargateProfileArn, &r.Profile.Tags
	}),
	"addon": kindOf(record.Addons, func(r *record.Addon) (*string, *map[string]string) { return r.Addon.AddonArn, &r.Addon.Tags }),
	"access-entry": kindOf(record.AccessEntries, func(r *record.AccessEntry) (*string, *map[string]string) {
		return r.Entry.AccessEntryArn, &r.Entry.Tags
	}),
	"identityproviderconfig": kindOf(record.IdentityProviders, func(r *record.IdentityProvider) (*string, *map[string]string) {
		return r.Config.IdentityProviderConfigArn, &r.Config.Tags
	}),
	"capability": kindOf(record.Capabilities, func(r *record.Capability) (*string, *map[string]string) {
		return r.Capability.Arn, &r.Capability.Tags
	}),
	"podidentityassociation": kindOf(record.PodIdentities, func(r *record.PodIdentity) (*string, *map[string]string) {
		return r.Association.AssociationArn, &r.Association.Tags
	}),
}

// connected has the clusters from elsewhere, whose names and ARNs are like those of other clusters.
var connected = kindOf(record.ConnectedClusters, func(r *record.ConnectedCluster) (*string, *map[string]string) {
	return r.Cluster.Arn, &r.Cluster.Tags
})

// kindAt returns the kind of the resource at a key: the named one, or that of connected clusters.
func kindAt(r store.Reader, name string, key store.Key) kind {
	if _, ok := record.Connected(r, key); ok && name == "cluster" {
		return connected
	}
	return kinds[name]
}

func kindOf[T any](c store.Collection[T], of func(*T) (arn *string, tags *map[string]string)) kind {
	read := func(key store.Key, rec *T) tagged {
		arn, tags := of(rec)
		return tagged{key, *arn, *tags}
	}
	return kind{
		get: func(r store.Reader, key store.Key) (tagged, error) {
			rec, err := c.Get(r, key)
			if err != nil {
				return tagged{}, err
			}
			return read(key, &rec), nil
		},
		list: func(r store.Reader, cluster store.Key) (out []tagged) {
			for _, i := range c.All(r, cluster.AllBelow()) {
				out = append(out, read(i.Key, &i.Value))
			}
			return out
		},
		retag: func(tx *store.Tx, key store.Key, change func(map[string]string) error) error {
			return c.Update(tx, key, func(rec *T) error {
				_, tags := of(rec)
				if *tags == nil {
					*tags = map[string]string{}
				}
				return change(*tags)
			})
		},
	}
}

// byARN finds the resource with an ARN. path is the resource part of that ARN.
func byARN(r store.Reader, account, region, path, arn string) (kind, tagged, error) {
	name, rest, _ := strings.Cut(path, "/")
	k, ok := kinds[name]
	cluster, _, _ := strings.Cut(rest, "/")
	if !ok || cluster == "" {
		return kind{}, tagged{}, store.ErrNotFound
	}
	key := store.Key{Account: account, Region: region, ID: cluster}
	var all []tagged
	if name == "cluster" || name == "eks-anywhere-subscription" {
		k = kindAt(r, name, key)
		c, err := k.get(r, key)
		if err != nil {
			return kind{}, tagged{}, err
		}
		all = []tagged{c}
	} else {
		all = k.list(r, key)
	}
	for _, t := range all {
		if t.arn == arn {
			return k, t, nil
		}
	}
	return kind{}, tagged{}, store.ErrNotFound
}

// Authz returns what package authz needs to know about EKS's resources.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Resource implements authz.Resolver. It identifies a cluster by name, anything in a cluster by
// CLUSTER/NAME, and both by ARN.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	if strings.HasPrefix(id, "arn:") {
		return r.byARN(account, region, id)
	}
	key := store.Key{Account: account, Region: region, ID: id}
	switch kind {
	case "cluster", "nodegroup", "fargateprofile", "addon", "identityproviderconfig", "capability", "eks-anywhere-subscription":
		t, err := kindAt(r.s.Store, kind, key).get(r.s.Store, key)
		if err != nil {
			return authz.Resource{}, false
		}
		out := authz.Resource{ARN: t.arn, Tags: t.tags}
		if kind == "cluster" {
			out.Keys = map[string][]string{"eks:clustername": {id}}
		}
		return out, true
	case "access-entry":
		e, err := record.AccessEntries.Get(r.s.Store, key)
		if err != nil {
			return authz.Resource{ARN: missingEntryARN(account, region, id)}, true
		}
		return authz.Resource{ARN: *e.Entry.AccessEntryArn, Tags: e.Entry.Tags, Keys: entryKeys(&e)}, true
	case "podidentityassociation":
		cluster, association, _ := strings.Cut(id, "/")
		key.ID = cluster
		_, rec, err := podidentity.Find(r.s.Store, key, &association)
		if err != nil {
			return authz.Resource{}, false
		}
		return authz.Resource{ARN: *rec.Association.AssociationArn, Tags: rec.Association.Tags}, true
	}
	return authz.Resource{}, false
}

// entryKeys returns the condition keys of a stored access entry. Keys from the request take
// precedence.
func entryKeys(e *record.AccessEntry) map[string][]string {
	keys := map[string][]string{
		"eks:clustername":      {*e.Entry.ClusterName},
		"eks:principalarn":     {*e.Entry.PrincipalArn},
		"eks:kubernetesgroups": e.Entry.KubernetesGroups,
		"eks:accessentrytype":  nil,
		"eks:username":         nil,
	}
	if e.Entry.Type != nil {
		keys["eks:accessentrytype"] = []string{*e.Entry.Type}
	}
	if e.Entry.Username != nil {
		keys["eks:username"] = []string{*e.Entry.Username}
	}
	return keys
}

// missingEntryARN returns the ARN that an access entry would have if it existed. id is CLUSTER and
// the principal's ARN.
func missingEntryARN(account, region, id string) string {
	cluster, principal, _ := strings.Cut(id, "/")
	path := "*"
	if a, err := arn.Parse(principal); err == nil {
		kind, name, _ := strings.Cut(a.Resource, "/")
		path = kind + "/" + a.Account + "/" + name[strings.LastIndexByte(name, '/')+1:]
	}
	return arn.New("eks", region, account, "access-entry/"+cluster+"/"+path+"/*")
}

// byARN returns the tags of the resource with an ARN.
func (r resolver) byARN(account, region, id string) (authz.Resource, bool) {
	f := strings.SplitN(id, ":", 6)
	if len(f) != 6 || f[3] != region || f[4] != account {
		return authz.Resource{}, false
	}
	_, t, err := byARN(r.s.Store, account, region, f[5], id)
	return authz.Resource{ARN: id, Tags: t.tags}, err == nil
}
