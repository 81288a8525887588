package addon

import (
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

func invalid(cluster, addon, format string, args ...any) error {
	return &ekstypes.InvalidParameterException{Message: new(fmt.Sprintf(format, args...)), ClusterName: record.Optional(cluster), AddonName: record.Optional(addon)}
}

// [seen] aws/containers-roadmap#1429
func errUnknown(cluster, name string) error {
	return invalid(cluster, name, "Addon specified is not supported")
}

// [seen] hashicorp/terraform-provider-aws#32238
func errVersion(cluster, name string) error {
	return invalid(cluster, name, "Addon version specified is not supported")
}

// [seen] crossplane-contrib/provider-aws#1310
func errExists(cluster, name string) error {
	return &ekstypes.ResourceInUseException{Message: new("Addon already exists."), ClusterName: &cluster, AddonName: &name}
}

// [seen] eksctl-io/eksctl#8091
func errBusy(cluster, name string, status ekstypes.AddonStatus) error {
	return &ekstypes.ResourceInUseException{
		Message:     new(fmt.Sprintf("Addon %s cannot be updated as it is currently in %s state", name, status)),
		ClusterName: &cluster, AddonName: &name,
	}
}

// [seen]
func NotFound(cluster, name string) error {
	return &ekstypes.ResourceNotFoundException{Message: new(fmt.Sprintf("No addon: %s found in cluster: %s", name, cluster)), ClusterName: &cluster, AddonName: &name}
}

// [seen] aws/containers-roadmap#2216
func errConfiguration(cluster, name string, wrong []string) error {
	return invalid(cluster, name, "ConfigurationValue provided in request is not supported: Json schema validation failed with error: [%s]", strings.Join(wrong, ", "))
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-addon-configuration-values-json
func errConfigurationFormat(cluster, name string) error {
	return invalid(cluster, name, "The ConfigurationValues provided is not in valid YAML or JSON format.")
}

// from memory
func errConfigurationSize(cluster, name string) error {
	return invalid(cluster, name, "ConfigurationValue provided in request is not supported: it is too long")
}

// from memory
func errRole(cluster, name, role string) error {
	return invalid(cluster, name, "Invalid serviceAccountRoleArn: %s", role)
}

// [seen] terraform-aws-modules/terraform-aws-eks#3520
func errServiceAccount(cluster, name, account string) error {
	return invalid(cluster, name, "Service account %s in pod identity configuration is not supported for addon %s", account, name)
}

// from memory
func errAssociationTwice(cluster, name, account string) error {
	return invalid(cluster, name, "Service account %s is given more than once in pod identity configuration", account)
}

// from memory
func errNoServiceAccount(cluster, name string) error {
	return invalid(cluster, name, "ServiceAccountRoleArn is not supported for addon %s", name)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-addon-namespace-config-format
func errNamespaceName(cluster, name string) error {
	return invalid(cluster, name, "Provided namespace value is not a valid RFC 1123 DNS label")
}

// https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html
func errNamespace(cluster, name string) error {
	return invalid(cluster, name, "Custom namespace is not supported for addon %s", name) // from memory
}

// errValue refuses values of AWS's configuration schema that would have no effect in Drydock.
func errValue(name string, values []string) error {
	return awserr.NotImplemented("configurationValues of add-on " + name + ": " + strings.Join(values, ", "))
}
