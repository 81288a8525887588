package nodegroup

import (
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

func invalid(cluster, nodegroup, format string, args ...any) error {
	return &ekstypes.InvalidParameterException{Message: new(fmt.Sprintf(format, args...)), ClusterName: record.Optional(cluster), NodegroupName: record.Optional(nodegroup)}
}

// [seen]
func NotFound(cluster, name string) error {
	return &ekstypes.ResourceNotFoundException{Message: new(fmt.Sprintf("No node group found for name: %s.", name)), ClusterName: &cluster, NodegroupName: &name}
}

// [seen]
func errExists(cluster, name string) error {
	return &ekstypes.ResourceInUseException{
		Message:     new(fmt.Sprintf("NodeGroup already exists with name %s and cluster name %s", name, cluster)),
		ClusterName: &cluster, NodegroupName: &name,
	}
}

// [seen]
func errNotActive(cluster, nodegroup string) error {
	return &ekstypes.ResourceInUseException{Message: new("Nodegroup cannot be updated as it is currently not in Active State"), ClusterName: &cluster, NodegroupName: &nodegroup}
}

func errBusy(cluster, nodegroup string, status ekstypes.NodegroupStatus) error {
	return &ekstypes.ResourceInUseException{Message: new(fmt.Sprintf("Nodegroup %s has an operation in progress: it is currently %s", nodegroup, status)), ClusterName: &cluster, NodegroupName: &nodegroup}
}

func errLimit(cluster string, limit int) error {
	return &ekstypes.ResourceLimitExceededException{Message: new(fmt.Sprintf("Node groups limit exceeded for cluster: at most %d node groups are allowed.", limit)), ClusterName: &cluster}
}

func errNodesLimit(cluster, nodegroup string, limit int) error {
	return &ekstypes.ResourceLimitExceededException{
		Message:     new(fmt.Sprintf("The maximum number of nodes per node group is %d.", limit)),
		ClusterName: &cluster, NodegroupName: &nodegroup,
	}
}

// [seen] viya4-iac-aws#298
func errMinAboveDesired(cluster, ng string) error {
	return invalid(cluster, ng, "minSize can't be greater than desiredSize")
}

// [seen] cloud-platform-infrastructure#4595
func errDesiredAboveMax(cluster, ng string) error {
	return invalid(cluster, ng, "desiredSize can't be greater than maxSize")
}

func errMinAboveMax(cluster, ng string) error {
	return invalid(cluster, ng, "minSize can't be greater than maxSize")
}

func errNegativeSize(cluster, ng, field string) error {
	return invalid(cluster, ng, "%s must be greater than or equal to 0", field)
}

func errZeroMax(cluster, ng string) error {
	return invalid(cluster, ng, "maxSize must be greater than or equal to 1")
}

// [seen] terraform-aws-eks#2508, #3306: UpdateNodegroupConfig and CreateNodegroup have different
// texts.
func errUpdateMinAboveDesired(cluster, ng string, minimum, desired int32) error {
	return invalid(cluster, ng, "Minimum capacity %d can't be greater than desired size %d", minimum, desired)
}

func errUpdateDesiredAboveMax(cluster, ng string, desired, maximum int32) error {
	return invalid(cluster, ng, "desired capacity %d can't be greater than max size %d", desired, maximum)
}

// [seen] scylla-cluster-tests#12524
func errAL2(cluster, ng, amiType string) error {
	return invalid(cluster, ng, "AMI Type %s is only supported for kubernetes versions 1.32 or earlier", amiType)
}

func errAMIType(cluster, ng, amiType, version string) error {
	return invalid(cluster, ng, "AMI Type %s is not supported for kubernetes version %s", amiType, version)
}

// [seen] eksctl and CDK issues
func errInstanceTypeArchitecture(cluster, ng, types, amiType string) error {
	return invalid(cluster, ng, "[%s] is not a valid instance type for requested amiType %s", types, amiType)
}

// [seen]
func errInstanceTypeUnknown(cluster, ng, types string) error {
	return invalid(cluster, ng, "The following supplied instance types do not exist: [%s]", types)
}

// [seen] awslabs/amazon-eks-ami#435
func errReleaseVersion(cluster, ng, release, allowed string) error {
	return invalid(cluster, ng, "Requested Nodegroup release version %s is invalid. Allowed release version is %s", release, allowed)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-version-matches-cluster
func errVersionSkew(cluster, ng, of string, supported []string) error {
	return invalid(cluster, ng, "Cluster Kubernetes version %s supports the following Nodegroup Kubernetes versions: [%s]", of, strings.Join(supported, ", "))
}

// [seen]
func errVersion(cluster, ng, version string) error {
	return invalid(cluster, ng, "Requested nodegroup version %s is not the cluster's version", version)
}

// [seen]
func errNodeRoleTrust(cluster, ng, role string) error {
	return invalid(cluster, ng, "Following required service principals [ec2.amazonaws.com] were not found in the trust relationships of nodeRole %s", role)
}

// [seen] EKS passes on IAM's text.
func errNodeRoleNotFound(cluster, ng, name string) error {
	return invalid(cluster, ng, "The role with name %s cannot be found. (Service: AmazonIdentityManagement; Status Code: 404; Error Code: NoSuchEntity)", name)
}

func errSubnetNotFound(cluster, ng, id string) error {
	return invalid(cluster, ng, "The subnet ID '%s' does not exist (Service: Ec2, Status Code: 400)", id)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-subnets-match-cluster-vpc
func errSubnetVPC(cluster, ng, vpc string) error {
	return invalid(cluster, ng, "Subnets specified must belong to the VPC: %s", vpc)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-name-length
func errLongName(cluster, ng string) error {
	return invalid(cluster, ng, "nodeGroupName can't be longer than 63 characters!")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-label-reserved-prefix
func errLabelPrefix(cluster, ng string) error {
	return invalid(cluster, ng, "Label cannot start with reserved prefixes [kubernetes.io/, k8s.io/, eks.amazonaws.com/]")
}

// qualified is how EKS continues a text about a name that has characters that Kubernetes does not allow.
const qualified = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-label-key-format
func errLabelKey(cluster, ng, key string) error {
	return invalid(cluster, ng, "Invalid value: %s : field %s", key, qualified)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-taint-key-format
func errTaintKey(cluster, ng, key string) error {
	return invalid(cluster, ng, "invalid taint spec: %s , a qualified name %s", key, qualified)
}

func errLabel(cluster, ng, why string) error {
	return invalid(cluster, ng, "Invalid label: %s", why)
}

func errTaint(cluster, ng, why string) error {
	return invalid(cluster, ng, "Invalid taint: %s", why)
}

// [seen] aws-controllers-k8s/community#2047
func errTaintEffect(cluster, ng string, effect ekstypes.TaintEffect) error {
	return invalid(cluster, ng, "Invalid taint effect: %s, must be one of these [NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE]", effect)
}

// [seen] hashicorp/terraform-provider-aws#26535
func errMaxUnavailable(cluster, ng string) error {
	return invalid(cluster, ng, "max-unavailable must be within the range 1 and max size of the node group")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-update-config-required
func errUpdateConfigEmpty(cluster, ng string) error {
	return invalid(cluster, ng, "UpdateConfig cannot be empty if set in the request.")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-update-config-xor
func errUpdateConfigBoth(cluster, ng string) error {
	return invalid(cluster, ng, "Either provide max-unavailable or max-unavailable-percentage in the request.")
}

func errUpdateConfig(cluster, ng, why string) error {
	return invalid(cluster, ng, "Invalid updateConfig: %s", why)
}

// [seen] repost.aws/knowledge-center/eks-managed-node-group-update
func errHealth(cluster, ng string) error {
	return &ekstypes.InvalidRequestException{
		Message:     new("Nodegroup health has issues other than AsgInstanceLaunchFailures, InstanceLimitExceeded, InsufficientFreeAddresses, ClusterUnreachable"),
		ClusterName: &cluster, NodegroupName: &ng,
	}
}

// [seen] aws-samples/eks-cluster-upgrade#123
func errCustomNeedsTemplate(cluster, ng string) error {
	return invalid(cluster, ng, "Launch template details can't be null for Custom ami type node group")
}

// [seen] eksctl-io/eksctl#5999, about kubernetesVersion
func errCustomField(cluster, ng, field string) error {
	return invalid(cluster, ng, "You cannot specify the field %s when using custom AMIs.", field)
}

// [seen] pulumi/pulumi-eks#1283: CreateNodegroup and UpdateNodegroupVersion have different texts.
func errImageAndVersion(cluster, ng, what string) error {
	return invalid(cluster, ng, "You cannot specify a %s version to use when specifying an image id to use within the launch template.", what)
}

// [seen] rancher/eks-operator#161
func errImageAndType(cluster, ng string) error {
	return invalid(cluster, ng, "You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch template.")
}

// [seen] eksctl-io/eksctl#7976
func errReleaseOfVersion(cluster, ng, release, version string) error {
	return invalid(cluster, ng, "Requested release version %s is not valid for kubernetes version %s.", release, version)
}

// [seen] terraform-aws-modules/terraform-aws-eks#1386
func errInstanceTypesTwice(cluster, ng string) error {
	return &ekstypes.InvalidRequestException{Message: new("Cannot specify instance types in launch template and API request"), ClusterName: &cluster, NodegroupName: &ng}
}

// [seen] terraform-aws-modules/terraform-aws-eks#2219
func errRemoteAccessAndTemplate(cluster, ng string) error {
	return invalid(cluster, ng, "Remote access configuration cannot be specified with a launch template.")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-lt-id-or-name-required
func errTemplateUnnamed(cluster, ng string) error {
	return invalid(cluster, ng, "Either a launch template ID or a launch template name must be specified in the request.")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-lt-forbids-subnet-id
func errTemplateSubnet(cluster, ng string) error {
	return invalid(cluster, ng, "You must not specify a subnet in your launch template. All subnets must be specified in the API.")
}

// [seen] aws-controllers-k8s/community#2645
func errTemplateSpec(cluster, ng string) error {
	return invalid(cluster, ng, "Either provide launch template ID or launch template name in the request.")
}

// [seen] in user reports about CloudFormation and Terraform.
func errTemplateProfile(cluster, ng, template string) error {
	return invalid(cluster, ng, "Launch template %s should not specify an instance profile. The noderole in your request will be used to construct an instance profile.", template)
}

// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-basics
func errTemplateForbids(cluster, ng, template, what string) error {
	return invalid(cluster, ng, "Launch template %s should not specify %s.", template, what) // from memory
}

func errTemplateInterfaces(cluster, ng, template string) error {
	return invalid(cluster, ng, "Launch template %s can only have a max of one network interface.", template) // from memory
}

// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
func errTemplateAdded(cluster, ng string) error {
	return invalid(cluster, ng, "You can only update a node group using a launch template if the node group was originally deployed with a launch template.")
}

func errTemplateOther(cluster, ng string) error {
	return invalid(cluster, ng, "You must specify the same launch template ID or name that was used to create the node group.") // from memory
}

func errTemplateImage(cluster, ng string) error {
	return invalid(cluster, ng, "You can't change a node group between an Amazon EKS optimized AMI and a custom AMI.") // from memory
}

func errTemplateNoType(cluster, ng string) error {
	return invalid(cluster, ng, "The launch template must specify an instance type, as the node group has none.") // from memory
}

// EKS passes on EC2's text.
func errKeyPair(cluster, ng, name string) error {
	return invalid(cluster, ng, "The key pair '%s' does not exist (Service: Ec2, Status Code: 400)", name) // from memory
}

// [seen] in Terraform's output of node groups without a key
func errRemoteAccessKey(cluster, ng string) error {
	return invalid(cluster, ng, "ec2SshKey in remote-access can't be empty")
}

func errSecurityGroup(cluster, ng, id string) error {
	return invalid(cluster, ng, "The security group '%s' does not exist (Service: Ec2, Status Code: 400)", id)
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-nodegroup-repair-parallel-xor and -threshold-xor
func errNodeRepairBoth(cluster, ng string) error {
	return invalid(cluster, ng, "Either provide max parallel nodes to repair count or percentage in the request.")
}

func errNodeRepair(cluster, ng, why string) error {
	return invalid(cluster, ng, "Invalid nodeRepairConfig: %s", why) // from memory
}
