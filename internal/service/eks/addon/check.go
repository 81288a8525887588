package addon

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/podidentity"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxConfiguration limits configuration values, and maxEncoded their size in a record: an update
// writes them three times in one transaction, and etcd limits those to 1.5 MiB. AWS publishes no
// limit.
const maxConfiguration, maxEncoded = 128 << 10, 384 << 10

// check validates the new specification of an add-on.
func check(cluster store.Key, c record.Cluster, a *addons.AddOn, p record.AddonSpec, resolve ekstypes.ResolveConflicts) error {
	v := a.Version(p.Version)
	if v == nil || !slices.Contains(v.Kubernetes, *c.Cluster.Version) {
		return errVersion(cluster.ID, a.Name)
	}
	if resolve != "" && !slices.Contains(resolve.Values(), resolve) {
		return invalid(cluster.ID, a.Name, "Invalid resolveConflicts: %s", resolve) // from memory
	}
	if p.Role != "" {
		switch role, ok := podidentity.ParseRoleARN(p.Role); {
		case !ok:
			return errRole(cluster.ID, a.Name, p.Role)
		case role.Account != cluster.Account:
			return ekserr.CrossAccountRole()
		}
		objects, err := a.Objects(v, addons.Cluster{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(objects, isServiceAccount) {
			return errNoServiceAccount(cluster.ID, a.Name)
		}
	}
	values, err := parseConfiguration(cluster.ID, a, v, p.Configuration)
	if err != nil {
		return err
	}
	if refused := a.Unsupported(values); len(refused) > 0 {
		return errValue(a.Name, refused)
	}
	return nil
}

// checkNamespace checks an add-on's namespace.
func checkNamespace(cluster string, a *addons.AddOn, namespace string) error {
	switch {
	case len(validation.IsDNS1123Label(namespace)) > 0:
		return errNamespaceName(cluster, a.Name)
	case namespace != addons.Namespace && !a.Movable:
		return errNamespace(cluster, a.Name)
	}
	return nil
}

// parseConfiguration parses and validates configuration values.
func parseConfiguration(cluster string, a *addons.AddOn, v *addons.Version, configuration string) (map[string]any, error) {
	if configuration == "" {
		return nil, nil
	}
	if len(configuration) > maxConfiguration {
		return nil, errConfigurationSize(cluster, a.Name)
	}
	encoded, err := json.Marshal(configuration)
	if err != nil {
		return nil, err
	}
	if len(encoded) > maxEncoded {
		return nil, errConfigurationSize(cluster, a.Name)
	}
	values, err := addons.Parse(configuration)
	if err != nil {
		return nil, errConfigurationFormat(cluster, a.Name)
	}
	if wrong := a.Validate(v, values); len(wrong) > 0 {
		return nil, errConfiguration(cluster, a.Name, wrong)
	}
	out, _ := values.(map[string]any) // the schema requires an object
	return out, nil
}

// newOwned returns the Pod Identity associations that an add-on will own.
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
