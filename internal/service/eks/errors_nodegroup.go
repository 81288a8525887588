package eks

import ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

// [seen] repost.aws/knowledge-center/eks-managed-node-group-update
func errNodegroupHealth(cluster, ng string) error {
	return &ekstypes.InvalidRequestException{
		Message:     new("Nodegroup health has issues other than AsgInstanceLaunchFailures, InstanceLimitExceeded, InsufficientFreeAddresses, ClusterUnreachable"),
		ClusterName: &cluster, NodegroupName: &ng,
	}
}

// [seen] aws-samples/eks-cluster-upgrade#123
func errCustomNeedsTemplate(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "Launch template details can't be null for Custom ami type node group")
}

// [seen] eksctl-io/eksctl#5999, of kubernetesVersion
func errCustomField(cluster, ng, field string) error {
	return invalidNodegroup(cluster, ng, "You cannot specify the field %s when using custom AMIs.", field)
}

// [seen] pulumi/pulumi-eks#1283: CreateNodegroup says it in other words than UpdateNodegroupVersion.
func errImageAndVersion(cluster, ng, what string) error {
	return invalidNodegroup(cluster, ng, "You cannot specify a %s version to use when specifying an image id to use within the launch template.", what)
}

// [seen] rancher/eks-operator#161
func errImageAndType(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch template.")
}

// [seen] eksctl-io/eksctl#7976
func errReleaseOfVersion(cluster, ng, release, version string) error {
	return invalidNodegroup(cluster, ng, "Requested release version %s is not valid for kubernetes version %s.", release, version)
}

// [seen] terraform-aws-modules/terraform-aws-eks#1386
func errInstanceTypesTwice(cluster, ng string) error {
	return &ekstypes.InvalidRequestException{Message: new("Cannot specify instance types in launch template and API request"), ClusterName: &cluster, NodegroupName: &ng}
}

// [seen] terraform-aws-modules/terraform-aws-eks#2219
func errRemoteAccessAndTemplate(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "Remote access configuration cannot be specified with a launch template.")
}

// [seen] aws-controllers-k8s/community#2645
func errTemplateSpec(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "Either provide launch template ID or launch template name in the request.")
}

// [seen] in users' reports of CloudFormation and Terraform.
func errTemplateProfile(cluster, ng, template string) error {
	return invalidNodegroup(cluster, ng, "Launch template %s should not specify an instance profile. The noderole in your request will be used to construct an instance profile.", template)
}

// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-basics
func errTemplateForbids(cluster, ng, template, what string) error {
	return invalidNodegroup(cluster, ng, "Launch template %s should not specify %s.", template, what) // from memory
}

func errTemplateInterfaces(cluster, ng, template string) error {
	return invalidNodegroup(cluster, ng, "Launch template %s can only have a max of one network interface.", template) // from memory
}

// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
func errTemplateAdded(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "You can only update a node group using a launch template if the node group was originally deployed with a launch template.")
}

func errTemplateOther(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "You must specify the same launch template ID or name that was used to create the node group.") // from memory
}

func errTemplateImage(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "You can't change a node group between an Amazon EKS optimized AMI and a custom AMI.") // from memory
}

func errTemplateNoType(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "The launch template must specify an instance type, as the node group has none.") // from memory
}

// EKS hands through EC2's text.
func errKeyPair(cluster, ng, name string) error {
	return invalidNodegroup(cluster, ng, "The key pair '%s' does not exist (Service: Ec2, Status Code: 400)", name) // from memory
}

// [seen] in Terraform's output of node groups without a key
func errRemoteAccessKey(cluster, ng string) error {
	return invalidNodegroup(cluster, ng, "ec2SshKey in remote-access can't be empty")
}

func errNodegroupSecurityGroup(cluster, ng, id string) error {
	return invalidNodegroup(cluster, ng, "The security group '%s' does not exist (Service: Ec2, Status Code: 400)", id)
}

func errNodeRepair(cluster, ng, why string) error {
	return invalidNodegroup(cluster, ng, "Invalid nodeRepairConfig: %s", why) // from memory
}
