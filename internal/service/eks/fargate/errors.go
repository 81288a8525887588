package fargate

import (
	"fmt"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

func invalid(cluster, profile, format string, args ...any) error {
	return &ekstypes.InvalidParameterException{Message: new(fmt.Sprintf(format, args...)), ClusterName: record.Optional(cluster), FargateProfileName: record.Optional(profile)}
}

// [seen]
func errNotFound(cluster, name string) error {
	return &ekstypes.ResourceNotFoundException{Message: new(fmt.Sprintf("No Fargate Profile found with name: %s.", name)), ClusterName: &cluster, FargateProfileName: &name}
}

// [seen] eksctl
func errExists(cluster string) error {
	return ekserr.InUse(cluster, "A Fargate Profile already exists with this name in this cluster.")
}

// [seen] Because of it, terraform-provider-aws and eksctl create profiles one after the other.
func errBusy(verb, name, cluster, other string, status ekstypes.FargateProfileStatus) error {
	return ekserr.InUse(cluster, "Cannot %s Fargate Profile %s because cluster %s currently has Fargate profile %s in status %s", verb, name, cluster, other, status)
}

// [seen] terraform-aws-modules/terraform-aws-eks#2194
func errClusterUpdating(verb, name, cluster string) error {
	return ekserr.InUse(cluster, "Cannot %s Fargate Profile %s because cluster %s currently has an update in progress", verb, name, cluster)
}

// [seen] in Terraform's output of a cluster with ten profiles
func errLimit(cluster string) error {
	return &ekstypes.ResourceLimitExceededException{Message: new("Fargate Profile limit exceeded for cluster."), ClusterName: &cluster}
}

// [seen]
func errReservedName(cluster, name string) error {
	return invalid(cluster, name, "The fargate profile name starts with the reserved prefix: 'eks-'.")
}

// [seen] moto, from AWS's answers
func errNoSelector(cluster, name string) error {
	return invalid(cluster, name, "Fargate Profile requires at least one selector.")
}

// [seen] moto, from AWS's answers
func errNoNamespace(cluster, name string) error {
	return invalid(cluster, name, "Fargate Profile must have at least one selector with at least one namespace value.")
}

// [seen] moto, from AWS's answers
func errLabelPairs(cluster, name string) error {
	return invalid(cluster, name, "Request contains Selector with more than %d Label pairs", maxSelectorLabels)
}

// from memory
func errSelectors(cluster, name string) error {
	return invalid(cluster, name, "Request contains more than %d Selectors", maxSelectors)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-fargate-selector-namespace-format
func errNamespace(cluster, name string) error {
	return invalid(cluster, name, "The namespace provided is invalid.")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-fargate-selector-label-key-format, for a key
func errLabel(cluster, name string) error {
	return invalid(cluster, name, "Selector label provided is invalid.")
}

// [seen]
func errSubnetPublic(cluster, name, subnet string) error {
	return invalid(cluster, name, "Subnet %s provided in Fargate Profile is not a private subnet", subnet)
}

// from memory
func errNoPrivateSubnet(cluster, name string) error {
	return invalid(cluster, name, "No subnets were provided in Fargate Profile and cluster %s has no private subnet", cluster)
}

// from memory
func errSubnetNotFound(cluster, name, subnet string) error {
	return invalid(cluster, name, "Subnet %s provided in Fargate Profile does not exist", subnet)
}

// from memory
func errSubnetVPC(cluster, name, subnet string) error {
	return invalid(cluster, name, "Subnet %s provided in Fargate Profile does not belong to the VPC of cluster %s", subnet, cluster)
}

// [seen] terraform-provider-aws retries on the part before the semicolon.
func errRoleTrust(cluster, name string) error {
	return invalid(cluster, name, "Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service Principal")
}

// from memory
func errRoleARN(cluster, name, role string) error {
	return invalid(cluster, name, "podExecutionRoleArn, %s, is not a valid role ARN of this account", role)
}

// from memory
func errRoleNotFound(cluster, name, role string) error {
	return invalid(cluster, name, "The PodExecutionRole %s could not be found.", role)
}
