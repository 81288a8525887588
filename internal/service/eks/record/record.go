// Package record has what EKS stores: a type and a collection for each kind of resource, and their
// keys. It is below all other packages of EKS, so that each part can look up the resources of
// others without importing them. It only derives values from records and never changes them.
package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// The service's records. Descriptions of clusters and node groups are kept as SDK types, next to
// internal data that AWS does not show. The IDs of everything in a cluster begin with "CLUSTER/".
var (
	Clusters      = store.NewCollection[Cluster]("eks", "cluster")
	Nodegroups    = store.NewCollection[Nodegroup]("eks", "nodegroup")
	AccessEntries = store.NewCollection[AccessEntry]("eks", "accessentry")
	Updates       = store.NewCollection[Update]("eks", "update")
)

// ClusterKey returns the key of the caller's cluster with a name.
func ClusterKey(call *awsapi.Call, name string) store.Key {
	return store.Key{Account: call.Account, Region: call.Region, ID: name}
}

// Below returns the key of something that belongs to a cluster.
func Below(cluster store.Key, id string) store.Key {
	cluster.ID += "/" + id
	return cluster
}

// AllBelow is the scope of what belongs to a cluster.
func AllBelow(cluster store.Key) store.Scope {
	return store.Scope{Account: cluster.Account, Region: cluster.Region, Prefix: cluster.ID + "/"}
}

// ClusterOf returns the key of the cluster that k's record belongs to.
func ClusterOf(k store.Key) store.Key {
	k.ID, _, _ = strings.Cut(k.ID, "/")
	return k
}

// Fingerprint identifies the content of a request, except for its token.
func Fingerprint[T any](in *T) string {
	untokened := *in
	if token := reflect.ValueOf(&untokened).Elem().FieldByName("ClientRequestToken"); token.IsValid() {
		token.SetZero()
	}
	raw, err := json.Marshal(untokened)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// deleteBatch keeps transactions below a hundred operations.
const deleteBatch = 90

// DeleteAll deletes records of a scope in small transactions: all of them, or those that match
// which.
func DeleteAll[T any](ctx context.Context, st *store.Store, c store.Collection[T], scope store.Scope, which func(*T) bool) error {
	items := c.All(st, scope)
	if which != nil {
		items = slices.DeleteFunc(items, func(i store.Item[T]) bool { return !which(&i.Value) })
	}
	for batch := range slices.Chunk(items, deleteBatch) {
		if err := st.Update(ctx, func(tx *store.Tx) error {
			for _, i := range batch {
				c.Delete(tx, i.Key)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Optional returns nil for "", for members that AWS omits if they are empty.
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Other returns the key of another record of the same cluster for which is reports true, or nil
// if there is none.
func Other[T any](r store.Reader, c store.Collection[T], key store.Key, is func(*T) bool) *store.Key {
	all := c.All(r, AllBelow(ClusterOf(key)))
	i := slices.IndexFunc(all, func(o store.Item[T]) bool { return o.Key != key && is(&o.Value) })
	if i < 0 {
		return nil
	}
	return &all[i].Key
}
