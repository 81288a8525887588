package resource

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A kind gives access to the resources of one kind. Their ARNs are KIND/CLUSTER/…, those of
// clusters KIND/CLUSTER.
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
	"podidentityassociation": kindOf(record.PodIdentities, func(r *record.PodIdentity) (*string, *map[string]string) {
		return r.Association.AssociationArn, &r.Association.Tags
	}),
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
			for _, i := range c.All(r, record.AllBelow(cluster)) {
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
	if name == "cluster" {
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
