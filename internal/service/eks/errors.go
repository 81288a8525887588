package eks

import (
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// Every message of the service is built here. Those marked [seen] are quoted in
// public issues or matched by clients (terraform-provider-aws, eksctl, CDK,
// Karpenter); the others follow the wording of the API reference.

func invalidParameter(cluster, format string, args ...any) error {
	return &ekstypes.InvalidParameterException{Message: new(fmt.Sprintf(format, args...)), ClusterName: nonEmpty(cluster)}
}

func invalidNodegroup(cluster, nodegroup, format string, args ...any) error {
	return &ekstypes.InvalidParameterException{Message: new(fmt.Sprintf(format, args...)), ClusterName: nonEmpty(cluster), NodegroupName: nonEmpty(nodegroup)}
}

func invalidRequest(cluster, format string, args ...any) error {
	return &ekstypes.InvalidRequestException{Message: new(fmt.Sprintf(format, args...)), ClusterName: nonEmpty(cluster)}
}

func inUse(cluster, format string, args ...any) error {
	return &ekstypes.ResourceInUseException{Message: new(fmt.Sprintf(format, args...)), ClusterName: nonEmpty(cluster)}
}

func notFound(format string, args ...any) error {
	return &ekstypes.ResourceNotFoundException{Message: new(fmt.Sprintf(format, args...))}
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// [seen] terraform-provider-aws and eksctl match the code; kubectl users see the text.
func errNoCluster(name string) error { return notFound("No cluster found for name: %s.", name) }

// [seen]
func errClusterExists(name string) error {
	return inUse(name, "Cluster already exists with name: %s", name)
}

// [seen]
func errNoNodegroup(cluster, name string) error {
	return &ekstypes.ResourceNotFoundException{Message: new(fmt.Sprintf("No node group found for name: %s.", name)), ClusterName: &cluster, NodegroupName: &name}
}

// [seen]
func errNodegroupExists(cluster, name string) error {
	return &ekstypes.ResourceInUseException{
		Message:     new(fmt.Sprintf("NodeGroup already exists with name %s and cluster name %s", name, cluster)),
		ClusterName: &cluster, NodegroupName: &name,
	}
}

// [seen] cluster-api-provider-aws, aws-nuke
func errNodegroupsAttached(cluster, nodegroup string) error {
	return &ekstypes.ResourceInUseException{Message: new("Cluster has nodegroups attached"), ClusterName: &cluster, NodegroupName: &nodegroup}
}

// [seen] terraform-provider-aws retries DeleteCluster and updates on "in progress".
func errUpdateInProgress(what, cluster, update string) error {
	return inUse(cluster, "Cannot %s because cluster %s currently has update %s in progress", what, cluster, update)
}

// terraform-provider-aws retries on "in progress".
func errClusterBusy(cluster string, status ekstypes.ClusterStatus) error {
	return inUse(cluster, "Cluster %s has an operation in progress: it is currently %s", cluster, status)
}

func errClusterNotActive(cluster string, status ekstypes.ClusterStatus) error {
	return invalidRequest(cluster, "Cluster '%s' is not in ACTIVE status. Current status: %s", cluster, status)
}

// [seen]
func errNodegroupNotActive(cluster, nodegroup string) error {
	return &ekstypes.ResourceInUseException{Message: new("Nodegroup cannot be updated as it is currently not in Active State"), ClusterName: &cluster, NodegroupName: &nodegroup}
}

func errNodegroupBusy(cluster, nodegroup string, status ekstypes.NodegroupStatus) error {
	return &ekstypes.ResourceInUseException{Message: new(fmt.Sprintf("Nodegroup %s has an operation in progress: it is currently %s", nodegroup, status)), ClusterName: &cluster, NodegroupName: &nodegroup}
}

func errDeletionProtected(cluster string) error {
	return invalidRequest(cluster, "Cluster %s has deletion protection enabled. Disable deletion protection before deleting the cluster.", cluster)
}

// The codes of the next two are those of
// https://docs.aws.amazon.com/eks/latest/APIReference/API_ListClusters.html; the words
// are from memory.
func errNextToken() error { return invalidParameter("", "Invalid nextToken") }

func errMaxResults() error {
	return invalidParameter("", "maxResults must be between 1 and 100")
}

func errTokenReused(cluster string) error {
	return invalidRequest(cluster, "The clientRequestToken was used before with different parameters.")
}

func errClusterLimit(limit int) error {
	return &ekstypes.ResourceLimitExceededException{Message: new(fmt.Sprintf("Cluster limit exceeded for account: at most %d clusters are allowed in a region.", limit))}
}

func errNodegroupLimit(cluster string, limit int) error {
	return &ekstypes.ResourceLimitExceededException{Message: new(fmt.Sprintf("Node groups limit exceeded for cluster: at most %d node groups are allowed.", limit)), ClusterName: &cluster}
}

func errNodesLimit(cluster, nodegroup string, limit int) error {
	return &ekstypes.ResourceLimitExceededException{
		Message:     new(fmt.Sprintf("The maximum number of nodes per node group is %d.", limit)),
		ClusterName: &cluster, NodegroupName: &nodegroup,
	}
}

// [seen] for clusterName and nodegroupName.
func errBadName(cluster, parameter string) error {
	return invalidParameter(cluster, "The %s parameter contains invalid characters. It should begin with letter or digit and can have any of the following characters: the set of Unicode letters, digits, hyphens and underscores.", parameter)
}

func errLongName(cluster, parameter string, limit int) error {
	return invalidParameter(cluster, "The %s parameter is too long. It can have at most %d characters.", parameter, limit)
}

func errMissing(parameter string) error {
	return &ekstypes.InvalidParameterException{Message: new(parameter + " cannot be null or empty.")}
}

// [seen]
func errUnsupportedVersion(cluster string) error {
	return invalidParameter(cluster, "unsupported Kubernetes version")
}

// [seen] terraform-provider-aws retries on "does not exist" and "trusted entity is not correct".
func errRoleNotAssumable(cluster, role string) error {
	return invalidParameter(cluster, "Role with arn: %s, could not be assumed because it does not exist or the trusted entity is not correct", role)
}

func errRoleARN(cluster, role string) error {
	return invalidParameter(cluster, "roleArn, %s, is not a valid role ARN of this account", role)
}

// [seen]
func errOneZone(cluster string) error {
	return invalidParameter(cluster, "Subnets specified must be in at least two different AZs")
}

// [seen] EKS hands through EC2's text.
func errSubnetNotFound(cluster, id string) error {
	return invalidParameter(cluster, "The subnet ID '%s' does not exist (Service: Ec2, Status Code: 400)", id)
}

func errSecurityGroupNotFound(cluster, id string) error {
	return invalidParameter(cluster, "The security group '%s' does not exist (Service: Ec2, Status Code: 400)", id)
}

func errSubnetVPCs(cluster string) error {
	return invalidParameter(cluster, "Subnets specified must be in the same VPC")
}

func errSecurityGroupVPC(cluster, id, vpc string) error {
	return invalidParameter(cluster, "Security group %s does not belong to the VPC %s of the subnets", id, vpc)
}

func errTooManySecurityGroups(cluster string) error {
	return invalidParameter(cluster, "You can specify at most 5 security groups.")
}

// [seen] eksctl validates the same combination with this reason.
func errNoEndpointAccess(cluster string) error {
	return invalidParameter(cluster, "Private and public endpoint access cannot be false")
}

func errBadPublicCIDR(cluster string, cidrs []string) error {
	return invalidParameter(cluster, "The following CIDRs are invalid in publicAccessCidrs: [%s]", strings.Join(cidrs, ", "))
}

// https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
func errServiceCIDRRange(cluster, cidr string) error {
	return invalidParameter(cluster, "The service CIDR %s is invalid. It must be within one of the following private IP address blocks: 10.0.0.0/8, 172.16.0.0/12, or 192.168.0.0/16.", cidr)
}

func errServiceCIDRSize(cluster, cidr string) error {
	return invalidParameter(cluster, "The service CIDR %s is invalid. It must be between /24 and /12.", cidr)
}

func errServiceCIDROverlap(cluster, cidr, vpcCIDR string) error {
	return invalidParameter(cluster, "The service CIDR %s overlaps with the VPC CIDR %s.", cidr, vpcCIDR)
}

// [seen] terraform-aws-eks, CDK
func errModeChange(cluster string, from, to ekstypes.AuthenticationMode) error {
	return invalidParameter(cluster, "Unsupported authentication mode update from %s to %s", from, to)
}

// [seen] terraform-aws-modules/terraform-aws-eks#3048
func errNotInAPIMode(cluster string) error {
	return invalidRequest(cluster, "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.")
}

// [seen]
func errBootstrapRequired(cluster string) error {
	return invalidParameter(cluster, "bootstrapClusterCreatorAdminPermissions must be true if cluster authentication mode is set to CONFIG_MAP")
}

// [seen] aws-controllers-k8s/community#1855
func errSameEndpointAccess(cluster string, private, public bool, cidrs []string) error {
	return invalidParameter(cluster, "Cluster is already at the desired configuration with endpointPrivateAccess: %t , endpointPublicAccess: %t, and Public Endpoint Restrictions: [%s]", private, public, strings.Join(cidrs, ", "))
}

// [seen]
func errSameLogging(cluster string) error {
	return invalidParameter(cluster, "No changes needed for the logging config provided")
}

func errOneUpdate(cluster string) error {
	return invalidParameter(cluster, "Only one type of update can be allowed.")
}

func errNoUpdate(id string) error { return notFound("No update found for ID: %s", id) }

// [seen]
func errNoAccessEntry() error {
	return notFound("The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.")
}

// [seen]
func errAccessEntryExists(cluster string) error {
	return inUse(cluster, "The specified access entry resource is already in use on this cluster.")
}

// [seen] hashicorp/terraform-provider-aws#36447
func errServiceLinkedPrincipal(cluster string) error {
	return invalidParameter(cluster, "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role")
}

// [seen] terraform-aws-modules/terraform-aws-eks#2969
func errInvalidPrincipal(cluster, why string) error {
	return invalidParameter(cluster, "The specified principalArn is invalid: %s.", why)
}

// [seen] terraform-aws-modules/terraform-aws-eks#2915
func errGroupName(cluster, group, prefix string) error {
	return invalidParameter(cluster, "The kubernetes group name %s is invalid, it cannot start with %s", group, prefix)
}

// [seen] aws-ia/terraform-aws-eks-blueprints#1920
func errUsernamePrefix(cluster, prefix string) error {
	return invalidParameter(cluster, "The username must not begin with %s", prefix)
}

func errUsernameSession(cluster string) error {
	return invalidParameter(cluster, "The username must contain {{SessionName}} or {{SessionNameRaw}} after a colon, since the principal is an IAM role")
}

func errEntryType(cluster, typ string) error {
	return invalidParameter(cluster, "The specified access entry type %s is invalid.", typ)
}

func errNodeEntryFields(cluster, field, typ string) error {
	return invalidParameter(cluster, "The %s parameter can't be specified for access entries of type %s.", field, typ)
}

func errNodeEntryPrincipal(cluster, typ string) error {
	return invalidParameter(cluster, "The principalArn of access entries of type %s must be an IAM role.", typ)
}

func errNodeEntryPolicy(cluster, typ string) error {
	return invalidRequest(cluster, "Access policies can't be associated with access entries of type %s.", typ)
}

func errNoPolicy(cluster, arn string) error {
	return invalidParameter(cluster, "The policyArn %s is invalid: no such access policy. You can view available access policies with 'list-access-policies'.", arn)
}

func errPolicyNotAssociated(arn string) error {
	return notFound("The specified policyArn %s is not associated with the access entry.", arn)
}

func errServiceLinkedPolicy(cluster, arn string) error {
	return invalidParameter(cluster, "The policyArn %s is designated for AWS service-linked roles only.", arn)
}

func errScope(cluster, why string) error {
	return invalidParameter(cluster, "The accessScope is invalid: %s.", why)
}

// [seen] viya4-iac-aws#298
func errMinAboveDesired(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "minSize can't be greater than desiredSize")
}

// [seen] cloud-platform-infrastructure#4595
func errDesiredAboveMax(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "desiredSize can't be greater than maxSize")
}

func errMinAboveMax(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "minSize can't be greater than maxSize")
}

func errNegativeSize(cluster, ng, field string) error {
	return invalidNodegroup(cluster, ng, "%s must be greater than or equal to 0", field)
}

func errZeroMax(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "maxSize must be greater than or equal to 1")
}

// [seen] terraform-aws-eks#2508, #3306: UpdateNodegroupConfig says it in other words than CreateNodegroup.
func errUpdateMinAboveDesired(cluster, ng string, minimum, desired int32) error {
	return invalidNodegroup(cluster, ng, "Minimum capacity %d can't be greater than desired size %d", minimum, desired)
}

func errUpdateDesiredAboveMax(cluster, ng string, desired, maximum int32) error {
	return invalidNodegroup(cluster, ng, "desired capacity %d can't be greater than max size %d", desired, maximum)
}

// [seen] scylla-cluster-tests#12524
func errAL2(cluster, ng, amiType string) error {
	return invalidNodegroup(cluster, ng, "AMI Type %s is only supported for kubernetes versions 1.32 or earlier", amiType)
}

func errAMIType(cluster, ng, amiType, version string) error {
	return invalidNodegroup(cluster, ng, "AMI Type %s is not supported for kubernetes version %s", amiType, version)
}

// [seen] eksctl and CDK issues
func errInstanceTypeArchitecture(cluster, ng, types, amiType string) error {
	return invalidNodegroup(cluster, ng, "[%s] is not a valid instance type for requested amiType %s", types, amiType)
}

// [seen]
func errInstanceTypeUnknown(cluster, ng, types string) error {
	return invalidNodegroup(cluster, ng, "The following supplied instance types do not exist: [%s]", types)
}

// [seen] awslabs/amazon-eks-ami#435
func errReleaseVersion(cluster, ng, release, allowed string) error {
	return invalidNodegroup(cluster, ng, "Requested Nodegroup release version %s is invalid. Allowed release version is %s", release, allowed)
}

// [seen]
func errNodegroupVersion(cluster, ng, version string) error {
	return invalidNodegroup(cluster, ng, "Requested nodegroup version %s is not the cluster's version", version)
}

// [seen]
func errNodeRoleTrust(cluster, ng, role string) error {
	return invalidNodegroup(cluster, ng, "Following required service principals [ec2.amazonaws.com] were not found in the trust relationships of nodeRole %s", role)
}

// [seen] EKS hands through IAM's text.
func errNodeRoleNotFound(cluster, ng, name string) error {
	return invalidNodegroup(cluster, ng, "The role with name %s cannot be found. (Service: AmazonIdentityManagement; Status Code: 404; Error Code: NoSuchEntity)", name)
}

func errNodegroupSubnetNotFound(cluster, ng, id string) error {
	return invalidNodegroup(cluster, ng, "The subnet ID '%s' does not exist (Service: Ec2, Status Code: 400)", id)
}

func errNodegroupSubnetVPC(cluster, ng string, ids []string) error {
	return invalidNodegroup(cluster, ng, "Subnets [%s] are not in the same VPC as the cluster", strings.Join(ids, ", "))
}

// [seen]
func errLabelPrefix(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "Label cannot contain reserved prefixes [kubernetes.io/, k8s.io/, eks.amazonaws.com/]")
}

func errLabel(cluster, ng, why string) error {
	return invalidNodegroup(cluster, ng, "Invalid label: %s", why)
}

func errTaint(cluster, ng, why string) error {
	return invalidNodegroup(cluster, ng, "Invalid taint: %s", why)
}

// [seen] aws-controllers-k8s/community#2047
func errTaintEffect(cluster, ng string, effect ekstypes.TaintEffect) error {
	return invalidNodegroup(cluster, ng, "Invalid taint effect: %s, must be one of these [NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE]", effect)
}

// [seen] hashicorp/terraform-provider-aws#26535
func errMaxUnavailable(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "max-unavailable must be within the range 1 and max size of the node group")
}

func errUpdateConfig(cluster, ng, why string) error {
	return invalidNodegroup(cluster, ng, "Invalid updateConfig: %s", why)
}

// The tagging operations know other exceptions.
func errTagResource(arn string) error {
	return &ekstypes.NotFoundException{Message: new(fmt.Sprintf("The specified resource could not be found: %s", arn))}
}

func errBadTag(format string, args ...any) error {
	return &ekstypes.BadRequestException{Message: new(fmt.Sprintf(format, args...))}
}

// [seen] eksctl-io/eksctl#7753, awslabs/crossplane-on-eks#168
func errPodIdentityExists(cluster, id string) error {
	return inUse(cluster, "Association already exists: %s", id)
}

// [seen] terraform-provider-aws retries CreatePodIdentityAssociation on it.
func errPodIdentityNoRole(cluster string) error {
	return invalidParameter(cluster, "Role provided in the request does not exist.")
}

// [seen] hashicorp/terraform-provider-aws#41483, aws/aws-cdk#31522
func errPodIdentityTrust(cluster string) error {
	return invalidParameter(cluster, "Trust policy of the role provided is invalid. Follow the official documentation to resolve the issue.")
}

// [seen] aws-samples/eks-workshop-v2#882
func errAssociationID(cluster string) error {
	return invalidParameter(cluster, "The parameter associationId should be 19 characters long.")
}

func errNoPodIdentity(id string) error {
	return notFound("No association found for id: %s", id) // from memory
}

func errPodIdentityRoleARN(cluster, parameter, role string) error {
	return invalidParameter(cluster, "The %s %s is not a valid IAM role ARN", parameter, role) // from memory
}

// [seen] hashicorp/terraform-provider-aws#30645, of an add-on's role
func errCrossAccountRole() error {
	return &ekstypes.AccessDeniedException{Message: new("Cross-account pass role is not allowed.")}
}

// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html
func errPodIdentityPolicyTags(cluster string) error {
	return invalidParameter(cluster, "disableSessionTags must be set to true when a policy is specified.") // from memory
}

func errPodIdentityPolicy(cluster string, why error) error {
	return invalidParameter(cluster, "The policy is invalid: %v", why) // from memory
}

// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdatePodIdentityAssociation.html
func errNoPodIdentityChange(cluster string) error {
	return invalidParameter(cluster, "You must change at least one of roleArn, targetRoleArn, disableSessionTags and policy.") // from memory
}

func errKubernetesName(cluster, parameter string) error {
	return invalidParameter(cluster, "The %s parameter is not a valid Kubernetes name.", parameter) // from memory
}

func errPodIdentityOwned(cluster, id, owner string) error {
	return invalidRequest(cluster, "Association %s is owned by addon %s", id, owner)
}
