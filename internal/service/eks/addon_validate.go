package eks

import (
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxConfiguration bounds configuration values. AWS publishes no limit.
const maxConfiguration = 1 << 20

// checkAddon judges what an add-on is to become.
func checkAddon(cluster store.Key, c clusterRecord, a *addons.AddOn, p addonSpec, resolve ekstypes.ResolveConflicts) error {
	v := a.Version(p.Version)
	if v == nil || !slices.Contains(v.Kubernetes, *c.Cluster.Version) {
		return errAddonVersion(cluster.ID, a.Name)
	}
	if resolve != "" && !slices.Contains(resolve.Values(), resolve) {
		return invalidAddon(cluster.ID, a.Name, "Invalid resolveConflicts: %s", resolve) // from memory
	}
	if p.Role != "" {
		if _, ok := parseRoleARN(p.Role); !ok {
			return errAddonRole(cluster.ID, a.Name, p.Role)
		}
		if !slices.ContainsFunc(a.Objects(v, addons.Cluster{}), isServiceAccount) {
			return errAddonNoServiceAccount(cluster.ID, a.Name)
		}
	}
	_, err := parseConfiguration(cluster.ID, a, p.Configuration)
	return err
}

// parseConfiguration returns checked configuration values.
func parseConfiguration(cluster string, a *addons.AddOn, configuration string) (map[string]any, error) {
	if configuration == "" {
		return nil, nil
	}
	if len(configuration) > maxConfiguration {
		return nil, errAddonConfigurationSize(cluster, a.Name)
	}
	values, err := addons.Parse(configuration)
	if err != nil {
		return nil, errAddonConfigurationFormat(cluster, a.Name)
	}
	if wrong := a.Validate(values); len(wrong) > 0 {
		return nil, errAddonConfiguration(cluster, a.Name, wrong)
	}
	out, _ := values.(map[string]any) // the schema asks for an object
	return out, nil
}
