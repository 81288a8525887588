package node

import (
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
)

// Step is one step of an instance's way into its cluster.
type Step struct {
	Account, Region string
	InstanceID      string
	// Name is one of the Step… constants.
	Name string
	// Pod is the pod that the step concerns, default/web, and Container its container, if the step concerns one.
	Pod, Container string
	OK             bool
	// Warning marks a step that succeeded but should not have.
	Warning bool
	// Cluster is the cluster that the user data names, once known.
	Cluster string
	// Evidence describes what was observed: an error's text, a version, a count.
	Evidence string
	// Cause is what failed, as data, if no decision says it: see CauseOf.
	Cause string
	// Decision is the decision behind a step that failed or warns, if it is known.
	Decision *Decision
	Time     time.Time
}

// The steps of an instance's life, in order.
const (
	StepBoot        = machine.EventBoot     // the machine is on
	StepMetadata    = machine.EventMetadata // the instance metadata service answers
	StepDescribe    = "describe-cluster"    // endpoint and certificate authority came from EKS
	StepScript      = machine.EventScript   // a script in user data, which may have asked for them
	StepUserData    = machine.EventUserData // user data was read and understood
	StepName        = "private-dns-name"    // the node's name came from EC2
	StepBootstrap   = "bootstrap"           // the node's configuration is complete
	StepCredentials = "credentials"         // instance role credentials
	StepDNS         = "dns"                 // the API endpoint's name resolves
	StepEndpoint    = "endpoint"            // the API endpoint can be reached, including TLS
	StepIdentity    = "identity"            // the cluster accepts the node's role
	StepRegister    = "register"            // the Node object exists
	StepVersion     = "version"             // the kubelet's version suits the control plane
	StepImage       = "image"               // the images of aws-node, the CNI, have been pulled
	StepNetwork     = "network"             // the CNI has addresses for pods
	StepReady       = "ready"               // the node is Ready
	StepLogs        = "logs"                // the log router of a Fargate pod sends its logs
	StepStop        = machine.EventStop     // the machine is off
)

// The steps of a pod's life on its node; [Step.Pod] names the pod.
const (
	StepPodAdmission = "pod-admission" // the kubelet accepts the pod
	StepPodVolumes   = "pod-volumes"   // what its volumes are made from exists
	StepPodAddress   = "pod-address"   // the CNI has an address for it
	StepPodConfig    = "pod-config"    // what its containers' configuration refers to exists
	StepPodImage     = "pod-image"     // a container's image was pulled
)

// Steps returns the names of the steps in order.
func Steps() []string {
	return []string{
		StepBoot, StepMetadata, StepDescribe, StepScript, StepUserData, StepName, StepBootstrap, StepCredentials, StepDNS,
		StepEndpoint, StepIdentity, StepRegister, StepVersion, StepImage, StepNetwork, StepReady, StepLogs, StepStop,
	}
}

// SortSteps sorts steps in the order of an instance's life.
func SortSteps(steps []Step) {
	order := Steps()
	slices.SortStableFunc(steps, func(a, b Step) int {
		if d := slices.Index(order, a.Name) - slices.Index(order, b.Name); d != 0 {
			return d
		}
		return a.Time.Compare(b.Time)
	})
}

// The calls of AWS APIs that programs of EKS's images make as the node's role.
const (
	ActionDescribeInstances  = "ec2:DescribeInstances"
	ActionDescribeInterfaces = "ec2:DescribeNetworkInterfaces"
	ActionCreateInterface    = "ec2:CreateNetworkInterface"
	ActionAttachInterface    = "ec2:AttachNetworkInterface"
	ActionAssignAddresses    = "ec2:AssignPrivateIpAddresses"
	ActionAssignIPv6         = "ec2:AssignIpv6Addresses"
	ActionUnassignAddresses  = "ec2:UnassignPrivateIpAddresses"
	ActionDescribeSubnets    = "ec2:DescribeSubnets"
	ActionDetachInterface    = "ec2:DetachNetworkInterface"
	ActionDeleteInterface    = "ec2:DeleteNetworkInterface"
	ActionModifyInterface    = "ec2:ModifyNetworkInterfaceAttribute"
	ActionCreateTags         = "ec2:CreateTags"
	ActionGetObject          = "s3:GetObject" // by a URL that ECR has signed
	ActionAssumeForPod       = "eks-auth:AssumeRoleForPodIdentity"
	ActionGetToken           = "ecr:GetAuthorizationToken"
	ActionGetImage           = "ecr:BatchGetImage"
	ActionGetLayer           = "ecr:GetDownloadUrlForLayer"
	ActionRegisterAgent      = "ssm:UpdateInstanceInformation" // Systems Manager's agent
	ActionControlChannel     = "ssmmessages:CreateControlChannel"
	ActionGetMessages        = "ec2messages:GetMessages"
)
