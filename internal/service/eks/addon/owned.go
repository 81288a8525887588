package addon

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// newOwned returns the Pod Identity associations that an add-on is to own.
// https://docs.aws.amazon.com/eks/latest/userguide/update-addon-role.html
func (s *Service) newOwned(ctx context.Context, cluster store.Key, a *addons.AddOn, namespace, owner string, wanted []ekstypes.AddonPodIdentityAssociations) ([]record.PodIdentity, error) {
	var out []record.PodIdentity
	for _, w := range wanted {
		account := aws.ToString(w.ServiceAccount)
		if !slices.ContainsFunc(a.ServiceAccounts, func(sa addons.ServiceAccount) bool { return sa.Name == account }) {
			return nil, errServiceAccount(cluster.ID, a.Name, account)
		}
		if slices.ContainsFunc(out, func(r record.PodIdentity) bool { return *r.Association.ServiceAccount == account }) {
			return nil, errAssociationTwice(cluster.ID, a.Name, account)
		}
		association, err := s.identities.NewAssociation(ctx, cluster, &awseks.CreatePodIdentityAssociationInput{
			Namespace: &namespace, ServiceAccount: &account, RoleArn: w.RoleArn,
		})
		if err != nil {
			return nil, err
		}
		association.OwnerArn = &owner
		out = append(out, record.PodIdentity{Association: association})
	}
	return out, nil
}

func associationsText(wanted []ekstypes.AddonPodIdentityAssociations) string {
	type association struct {
		ServiceAccount string `json:"serviceAccount"`
		RoleARN        string `json:"roleArn"`
	}
	out := []association{}
	for _, w := range wanted {
		out = append(out, association{aws.ToString(w.ServiceAccount), aws.ToString(w.RoleArn)})
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return "" // strings always marshal
	}
	return string(raw)
}
