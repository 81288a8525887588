package eks

import (
	"fmt"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

func invalidFargate(cluster, profile, format string, args ...any) error {
	return &ekstypes.InvalidParameterException{Message: new(fmt.Sprintf(format, args...)), ClusterName: nonEmpty(cluster), FargateProfileName: nonEmpty(profile)}
}

// [seen]
func errNoFargateProfile(cluster, name string) error {
	return &ekstypes.ResourceNotFoundException{Message: new(fmt.Sprintf("No Fargate Profile found with name: %s.", name)), ClusterName: &cluster, FargateProfileName: &name}
}

// [seen] eksctl
func errFargateProfileExists(cluster string) error {
	return inUse(cluster, "A Fargate Profile already exists with this name in this cluster.")
}

// [seen] terraform-provider-aws and eksctl make one profile after the other for it.
func errFargateProfileBusy(verb, name, cluster, other string, status ekstypes.FargateProfileStatus) error {
	return inUse(cluster, "Cannot %s Fargate Profile %s because cluster %s currently has Fargate profile %s in status %s", verb, name, cluster, other, status)
}

// [seen] terraform-aws-modules/terraform-aws-eks#2194
func errFargateClusterUpdating(verb, name, cluster string) error {
	return inUse(cluster, "Cannot %s Fargate Profile %s because cluster %s currently has an update in progress", verb, name, cluster)
}

// [seen] kubernetes-sigs/cluster-api-provider-aws#4728
func errFargateProfilesAttached(cluster string) error {
	return inUse(cluster, "Cluster has Fargate Profiles in ACTIVE/CREATING state")
}

// [seen] in Terraform's output of a cluster with ten profiles
func errFargateProfileLimit(cluster string) error {
	return &ekstypes.ResourceLimitExceededException{Message: new("Fargate Profile limit exceeded for cluster."), ClusterName: &cluster}
}

// [seen]
func errFargateReservedName(cluster, name string) error {
	return invalidFargate(cluster, name, "The fargate profile name starts with the reserved prefix: 'eks-'.")
}

// [seen] moto, from AWS's answers
func errFargateNoSelector(cluster, name string) error {
	return invalidFargate(cluster, name, "Fargate Profile requires at least one selector.")
}

// [seen] moto, from AWS's answers
func errFargateNoNamespace(cluster, name string) error {
	return invalidFargate(cluster, name, "Fargate Profile must have at least one selector with at least one namespace value.")
}

// [seen] moto, from AWS's answers
func errFargateLabelPairs(cluster, name string) error {
	return invalidFargate(cluster, name, "Request contains Selector with more than %d Label pairs", maxSelectorLabels)
}

// from memory
func errFargateSelectors(cluster, name string) error {
	return invalidFargate(cluster, name, "Request contains more than %d Selectors", maxSelectors)
}

// from memory
func errFargateSelector(cluster, name, why string) error {
	return invalidFargate(cluster, name, "Invalid Selector: %s", why)
}

// [seen]
func errFargateSubnetPublic(cluster, name, subnet string) error {
	return invalidFargate(cluster, name, "Subnet %s provided in Fargate Profile is not a private subnet", subnet)
}

// from memory
func errFargateNoPrivateSubnet(cluster, name string) error {
	return invalidFargate(cluster, name, "No subnets were provided in Fargate Profile and cluster %s has no private subnet", cluster)
}

// from memory
func errFargateSubnetNotFound(cluster, name, subnet string) error {
	return invalidFargate(cluster, name, "Subnet %s provided in Fargate Profile does not exist", subnet)
}

// from memory
func errFargateSubnetVPC(cluster, name, subnet string) error {
	return invalidFargate(cluster, name, "Subnet %s provided in Fargate Profile does not belong to the VPC of cluster %s", subnet, cluster)
}

// [seen] terraform-provider-aws retries on the part before the semicolon.
func errFargateRoleTrust(cluster, name string) error {
	return invalidFargate(cluster, name, "Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service Principal")
}

// from memory
func errFargateRoleARN(cluster, name, role string) error {
	return invalidFargate(cluster, name, "podExecutionRoleArn, %s, is not a valid role ARN of this account", role)
}

// from memory
func errFargateRoleNotFound(cluster, name, role string) error {
	return invalidFargate(cluster, name, "The PodExecutionRole %s could not be found.", role)
}
