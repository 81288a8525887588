package podidentity

import (
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// PutOwned stores associations of an add-on and returns their ARNs.
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

// ReplaceOwned stores associations in place of those the add-on owns. One that
// stays keeps its identity.
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
	items := record.PodIdentities.All(r, record.AllBelow(cluster))
	return slices.DeleteFunc(items, func(i store.Item[record.PodIdentity]) bool {
		return aws.ToString(i.Value.Association.OwnerArn) != owner
	})
}
