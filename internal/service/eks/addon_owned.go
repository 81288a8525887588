package eks

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/store"
)

// newOwned returns the Pod Identity associations that an add-on is to own.
// https://docs.aws.amazon.com/eks/latest/userguide/update-addon-role.html
func (s *Service) newOwned(ctx context.Context, cluster store.Key, a *addons.AddOn, namespace, owner string, wanted []ekstypes.AddonPodIdentityAssociations) ([]podIdentityRecord, error) {
	var out []podIdentityRecord
	for _, w := range wanted {
		account := text(w.ServiceAccount)
		if !slices.ContainsFunc(a.ServiceAccounts, func(sa addons.ServiceAccount) bool { return sa.Name == account }) {
			return nil, errAddonServiceAccount(cluster.ID, a.Name, account)
		}
		if slices.ContainsFunc(out, func(r podIdentityRecord) bool { return *r.Association.ServiceAccount == account }) {
			return nil, errAddonAssociationTwice(cluster.ID, a.Name, account)
		}
		association, err := s.newPodIdentity(ctx, cluster, &awseks.CreatePodIdentityAssociationInput{
			Namespace: &namespace, ServiceAccount: &account, RoleArn: w.RoleArn,
		})
		if err != nil {
			return nil, err
		}
		association.OwnerArn = &owner
		out = append(out, podIdentityRecord{Association: association})
	}
	return out, nil
}

// putOwned stores associations of an add-on and returns their ARNs.
func putOwned(tx *store.Tx, cluster store.Key, owned []podIdentityRecord) ([]string, error) {
	var arns []string
	for _, r := range owned {
		key := podIdentityKey(cluster, *r.Association.Namespace, *r.Association.ServiceAccount)
		old, err := podIdentities.Get(tx, key)
		switch {
		case err == nil:
			return nil, errPodIdentityExists(cluster.ID, *old.Association.AssociationId)
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
		if err := podIdentities.Create(tx, key, r); err != nil {
			return nil, err
		}
		arns = append(arns, *r.Association.AssociationArn)
	}
	return arns, nil
}

// replaceOwned stores associations in place of those the add-on owns. One that
// stays keeps its identity.
func replaceOwned(tx *store.Tx, cluster store.Key, owner string, owned []podIdentityRecord) ([]string, error) {
	arns := []string{}
	old, err := ownedBy(tx, cluster, owner)
	if err != nil {
		return nil, err
	}
	for _, o := range old {
		i := slices.IndexFunc(owned, func(r podIdentityRecord) bool {
			return *r.Association.ServiceAccount == *o.Value.Association.ServiceAccount
		})
		if i < 0 {
			podIdentities.Delete(tx, o.Key)
			continue
		}
		role, at := owned[i].Association.RoleArn, owned[i].Association.ModifiedAt
		if err := podIdentities.Update(tx, o.Key, func(r *podIdentityRecord) error {
			r.Association.RoleArn, r.Association.ModifiedAt = role, at
			return nil
		}); err != nil {
			return nil, err
		}
		arns = append(arns, *o.Value.Association.AssociationArn)
		owned = slices.Delete(slices.Clone(owned), i, i+1)
	}
	added, err := putOwned(tx, cluster, owned)
	return append(arns, added...), err
}

// ownedBy returns the associations of an add-on.
func ownedBy(r store.Reader, cluster store.Key, owner string) ([]store.Item[podIdentityRecord], error) {
	items, err := podIdentities.List(r, allBelow(cluster))
	return slices.DeleteFunc(items, func(i store.Item[podIdentityRecord]) bool { return text(i.Value.Association.OwnerArn) != owner }), err
}

func associationsText(wanted []ekstypes.AddonPodIdentityAssociations) string {
	type association struct {
		ServiceAccount string `json:"serviceAccount"`
		RoleARN        string `json:"roleArn"`
	}
	out := []association{}
	for _, w := range wanted {
		out = append(out, association{text(w.ServiceAccount), text(w.RoleArn)})
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return "" // strings always marshal
	}
	return string(raw)
}
