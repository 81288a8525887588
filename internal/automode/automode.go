// Package automode defines the messages between a cluster's control plane and EKS about EKS Auto Mode. The control
// plane's process runs Karpenter's controllers, which decide which nodes a cluster needs. EKS finds the networks and
// launches and terminates the instances, in the account of the cluster's owner and with the permissions of the
// cluster role.
//
// Both sides import it: controlplane and its sub-packages, and service/eks. It contains only types.
package automode

import (
	"encoding/json"
	"time"
)

// Condition types of a NodeClass.
const (
	SubnetsReady         = "SubnetsReady"
	SecurityGroupsReady  = "SecurityGroupsReady"
	InstanceProfileReady = "InstanceProfileReady"
)

// Tags of everything that EKS Auto Mode creates.
// https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonEKSComputePolicy.html
const (
	TagCluster   = "eks:eks-cluster-name"
	TagNodeClass = "eks:kubernetes-node-class-name"
	TagNodePool  = "eks:kubernetes-node-pool-name"
)

// A Setting is what the controllers need to know about their cluster. They are restarted when it changes.
type Setting struct {
	Region string
	// Version is the Kubernetes version of new nodes, such as 1.36. Nodes with another image have drifted.
	Version string
	// NodePools are the built-in node pools: general-purpose, system.
	NodePools []string `json:",omitempty"`
	// NodeRole is the name of the role of the default NodeClass, and Subnets and SecurityGroup are its network. There is
	// no default NodeClass if NodeRole is empty.
	NodeRole      string   `json:",omitempty"`
	Subnets       []string `json:",omitempty"`
	SecurityGroup string   `json:",omitempty"`
}

// A NodeClass is a NodeClass of a cluster.
type NodeClass struct {
	Name string
	NodeClassSpec
}

// A NodeClassSpec is the spec of a NodeClass.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html
type NodeClassSpec struct {
	Role                       string              `json:"role,omitempty"`
	InstanceProfile            string              `json:"instanceProfile,omitempty"`
	SubnetSelectorTerms        []Term              `json:"subnetSelectorTerms,omitempty"`
	SecurityGroupSelectorTerms []Term              `json:"securityGroupSelectorTerms,omitempty"`
	EphemeralStorage           *EphemeralStorage   `json:"ephemeralStorage,omitempty"`
	NetworkPolicy              string              `json:"networkPolicy,omitempty"`
	NetworkPolicyEventLogs     string              `json:"networkPolicyEventLogs,omitempty"`
	SNATPolicy                 string              `json:"snatPolicy,omitempty"`
	Tags                       map[string]string   `json:"tags,omitempty"`
	AdvancedNetworking         *AdvancedNetworking `json:"advancedNetworking,omitempty"`

	// The following are not supported: a NodeClass that sets one is not ready.
	PodSubnetSelectorTerms           json.RawMessage `json:"podSubnetSelectorTerms,omitempty"`
	PodSecurityGroupSelectorTerms    json.RawMessage `json:"podSecurityGroupSelectorTerms,omitempty"`
	CapacityReservationSelectorTerms json.RawMessage `json:"capacityReservationSelectorTerms,omitempty"`
	AdvancedSecurity                 json.RawMessage `json:"advancedSecurity,omitempty"`
	CertificateBundles               json.RawMessage `json:"certificateBundles,omitempty"`
}

// AdvancedNetworking has less common settings of a node's network.
type AdvancedNetworking struct {
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`

	// The following are not supported either.
	IPv4PrefixSize string   `json:"ipv4PrefixSize,omitempty"`
	HTTPSProxy     string   `json:"httpsProxy,omitempty"`
	NoProxy        []string `json:"noProxy,omitempty"`
}

// A Term selects subnets or security groups. All of its fields must match.
type Term struct {
	ID   string            `json:"id,omitempty"`
	Name string            `json:"name,omitempty"`
	Tags map[string]string `json:"tags,omitempty"`
}

// EphemeralStorage is a node's volume for images, logs and pods.
type EphemeralStorage struct {
	Size       string `json:"size,omitempty"` // such as 80Gi
	IOPS       int32  `json:"iops,omitempty"`
	Throughput int32  `json:"throughput,omitempty"`
	KMSKeyID   string `json:"kmsKeyID,omitempty"`
}

// A Subnet is one that a NodeClass selects.
type Subnet struct {
	ID     string `json:"id"`
	Zone   string `json:"zone"`
	ZoneID string `json:"zoneID,omitempty"`
}

// A SecurityGroup is one that a NodeClass selects.
type SecurityGroup struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// Resolved is what a NodeClass means in AWS.
type Resolved struct {
	Subnets         []Subnet
	SecurityGroups  []SecurityGroup
	InstanceProfile string
	// Problems has the conditions that are not met.
	Problems map[string]Problem `json:",omitempty"`
}

// A Problem is why something is not possible.
type Problem struct {
	Reason  string // in one word, such as InstanceProfileCreationFailed
	Message string
}

// A Launch describes an instance to launch.
type Launch struct {
	NodeClass NodeClass
	Resolved  Resolved
	NodePool  string
	NodeClaim string
	// Token makes a repeated launch return the same instance.
	Token string
	Arch  string // amd64 or arm64
	// Spot asks for a Spot Instance. Options are the pools to launch from, the preferred one first.
	Spot    bool
	Options []Option
	Labels  map[string]string
	Taints  []Taint
	MaxPods int32
}

// An Option is an instance type in a subnet.
type Option struct{ Type, Subnet, Zone string }

// A Taint is a taint that a node has from the start.
type Taint struct{ Key, Value, Effect string }

// An Instance is an instance of EKS Auto Mode.
type Instance struct {
	ID, Type, Zone, ZoneID string
	Image                  string
	Spot                   bool
	NodePool, NodeClass    string
	SecurityGroups         []string
	Subnet                 string
	State                  string // EC2's
	Launched               time.Time
}

// A Call is a request of the controllers. Exactly one field is set.
type Call struct {
	// Enabled asks whether EKS Auto Mode is still enabled. All calls fail if it is not.
	Enabled bool       `json:",omitempty"`
	Resolve *NodeClass `json:",omitempty"`
	// Forget removes the instance profile of a deleted NodeClass.
	Forget    *NodeClass `json:",omitempty"`
	Launch    *Launch    `json:",omitempty"`
	Get       string     `json:",omitempty"` // instance ID
	Terminate string     `json:",omitempty"` // instance ID
	List      bool       `json:",omitempty"`
}

// A Kind is the kind of a failure.
type Kind string

// The kinds of failures.
const (
	NotFound     Kind = "NotFound"             // there is no such instance, or no longer
	NoCapacity   Kind = "InsufficientCapacity" // none of a launch's options has capacity
	LaunchFailed Kind = "LaunchFailed"         // the launch was refused
	Other        Kind = "Other"
)

// An Answer is the answer to a Call.
type Answer struct {
	Resolved  *Resolved  `json:",omitempty"`
	Instance  *Instance  `json:",omitempty"`
	Instances []Instance `json:",omitempty"`
	// Failed is empty if the call succeeded. Problem explains it.
	Failed  Kind     `json:",omitempty"`
	Problem *Problem `json:",omitempty"`
	// Exhausted are the options without capacity.
	Exhausted []Option `json:",omitempty"`
}
