package capability

import (
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// The rules and codes are from the API reference. Texts that are not marked are from memory.

// [seen] in Terraform's output
func errTrust(cluster string) error {
	return ekserr.InvalidParameter(cluster, "The trust policy for the provided role is invalid. The policy must include sts:AssumeRole and sts:TagSession actions granting access to the AWS service %s", trustedService)
}

func errRoleARN(cluster, role string) error {
	return ekserr.InvalidParameter(cluster, "The roleArn %s is not a valid IAM role ARN", role)
}

func errNoRole(cluster, role string) error {
	return ekserr.InvalidParameter(cluster, "The role %s does not exist.", role)
}

func errExists(cluster, name string) error {
	return ekserr.InUse(cluster, "Capability already exists with name: %s", name)
}

func errTypeExists(cluster string, t ekstypes.CapabilityType) error {
	return ekserr.InUse(cluster, "A capability of type %s already exists in cluster %s.", t, cluster)
}

func errAuthentication(cluster string) error {
	return ekserr.InvalidRequest(cluster, "The authentication mode of the cluster must be API or API_AND_CONFIG_MAP to create a capability.")
}

func errNoConfiguration(cluster string) error {
	return ekserr.InvalidParameter(cluster, "The argoCd configuration is required for capabilities of type ARGOCD.")
}

func errConfiguration(cluster string, t ekstypes.CapabilityType) error {
	return ekserr.InvalidParameter(cluster, "The argoCd configuration is not supported for capabilities of type %s.", t)
}

func errInstance(cluster, arn string) error {
	return ekserr.InvalidParameter(cluster, "The idcInstanceArn %s is not a valid IAM Identity Center instance ARN.", arn)
}

func errNoChange(cluster string) error {
	return ekserr.InvalidParameter(cluster, "At least one of roleArn, configuration and deletePropagationPolicy must be specified.")
}

// NotFound says that a cluster has no capability of a name.
func NotFound(_, name string) error {
	return ekserr.NotFound("No capability found for name: %s.", name)
}
