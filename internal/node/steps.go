package node

import (
	"slices"
	"time"
)

// Step is one step of an instance's way into its cluster.
type Step struct {
	Account, Region string
	InstanceID      string
	// Name is one of the Step… constants.
	Name string
	OK   bool
	// Warning says of a step that went well that it should not have.
	Warning bool
	// Cluster is the cluster that the user data names, once known.
	Cluster string
	// Evidence says what was seen, for people: an error's text, a version, a count.
	Evidence string
	// Decision is what stands behind a step that failed or warns, if it is known.
	Decision *Decision
	Time     time.Time
}

// The steps of an instance's life, in order.
const (
	StepBoot        = "boot"             // the machine is on
	StepMetadata    = "metadata"         // the instance metadata service answers
	StepScript      = "script"           // a script in user data
	StepDescribe    = "describe-cluster" // EKS told endpoint and certificate authority
	StepUserData    = "user-data"        // user data read and understood
	StepName        = "private-dns-name" // EC2 told the node's name
	StepBootstrap   = "bootstrap"        // the node's configuration is complete
	StepCredentials = "credentials"      // instance role credentials
	StepDNS         = "dns"              // the API endpoint's name resolves
	StepEndpoint    = "endpoint"         // the API endpoint can be reached, TLS included
	StepIdentity    = "identity"         // the cluster knows the node's role
	StepRegister    = "register"         // the Node object exists
	StepVersion     = "version"          // the kubelet suits the control plane
	StepImage       = "image"            // the image of aws-node, the CNI, is there
	StepNetwork     = "network"          // the CNI has addresses for pods
	StepReady       = "ready"            // the node is Ready
	StepStop        = "stop"             // the machine is off
)

// Steps returns the names of the steps in order.
func Steps() []string {
	return []string{
		StepBoot, StepMetadata, StepScript, StepDescribe, StepUserData, StepName, StepBootstrap, StepCredentials, StepDNS,
		StepEndpoint, StepIdentity, StepRegister, StepVersion, StepImage, StepNetwork, StepReady, StepStop,
	}
}

// SortSteps puts steps in the order of an instance's life.
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
	ActionGetToken           = "ecr:GetAuthorizationToken"
	ActionGetImage           = "ecr:BatchGetImage"
	ActionGetLayer           = "ecr:GetDownloadUrlForLayer"
)

// Registry is the account of the registry of EKS's add-on images.
//
// AWS deviation: a few regions have another one.
// https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html
const Registry = "602401143452"

// CNIRepository and CNITag are the image of aws-node, the VPC CNI plugin.
const (
	CNIRepository = "amazon-k8s-cni"
	CNITag        = "v1.20.4-eksbuild.2"
)
