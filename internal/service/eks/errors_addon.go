package eks

import (
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

func invalidAddon(cluster, addon, format string, args ...any) error {
	return &ekstypes.InvalidParameterException{Message: new(fmt.Sprintf(format, args...)), ClusterName: nonEmpty(cluster), AddonName: nonEmpty(addon)}
}

// [seen] aws/containers-roadmap#1429
func errUnknownAddon(cluster, name string) error {
	return invalidAddon(cluster, name, "Addon specified is not supported")
}

// [seen] hashicorp/terraform-provider-aws#32238
func errAddonVersion(cluster, name string) error {
	return invalidAddon(cluster, name, "Addon version specified is not supported")
}

// [seen] crossplane-contrib/provider-aws#1310
func errAddonExists(cluster, name string) error {
	return &ekstypes.ResourceInUseException{Message: new("Addon already exists."), ClusterName: &cluster, AddonName: &name}
}

// [seen] eksctl-io/eksctl#8091
func errAddonBusy(cluster, name string, status ekstypes.AddonStatus) error {
	return &ekstypes.ResourceInUseException{
		Message:     new(fmt.Sprintf("Addon %s cannot be updated as it is currently in %s state", name, status)),
		ClusterName: &cluster, AddonName: &name,
	}
}

// [seen]
func errNoAddon(cluster, name string) error {
	return &ekstypes.ResourceNotFoundException{Message: new(fmt.Sprintf("No addon: %s found in cluster: %s", name, cluster)), ClusterName: &cluster, AddonName: &name}
}

// [seen] aws/containers-roadmap#2216
func errAddonConfiguration(cluster, name string, wrong []string) error {
	return invalidAddon(cluster, name, "ConfigurationValue provided in request is not supported: Json schema validation failed with error: [%s]", strings.Join(wrong, ", "))
}

// The three texts below are from memory.
func errAddonConfigurationFormat(cluster, name string) error {
	return invalidAddon(cluster, name, "ConfigurationValue provided in request is not supported: it is neither JSON nor YAML")
}

func errAddonConfigurationSize(cluster, name string) error {
	return invalidAddon(cluster, name, "ConfigurationValue provided in request is not supported: it is too long")
}

func errAddonRole(cluster, name, role string) error {
	return invalidAddon(cluster, name, "Invalid serviceAccountRoleArn: %s", role)
}

// [seen] terraform-aws-modules/terraform-aws-eks#3520
func errAddonServiceAccount(cluster, name, account string) error {
	return invalidAddon(cluster, name, "Service account %s in pod identity configuration is not supported for addon %s", account, name)
}

// The three texts below are from memory.
func errAddonAssociationTwice(cluster, name, account string) error {
	return invalidAddon(cluster, name, "Service account %s is given more than once in pod identity configuration", account)
}

func errAddonNoServiceAccount(cluster, name string) error {
	return invalidAddon(cluster, name, "ServiceAccountRoleArn is not supported for addon %s", name)
}

// https://docs.aws.amazon.com/eks/latest/APIReference/API_AddonNamespaceConfigRequest.html
func errAddonNamespaceName(cluster, name, namespace string) error {
	return invalidAddon(cluster, name, "Invalid namespace: %s must be a valid RFC 1123 DNS label", namespace) // from memory
}

// https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html
func errAddonNamespace(cluster, name string) error {
	return invalidAddon(cluster, name, "Custom namespace is not supported for addon %s", name) // from memory
}

// errAddonValue refuses configuration values that EKS has and that would change nothing.
func errAddonValue(name string, values []string) error {
	return awserr.NotImplemented("configurationValues of add-on " + name + ": " + strings.Join(values, ", "))
}
