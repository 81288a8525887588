// Package node brings EC2 instances to life as Kubernetes nodes.
//
// An instance as a computer is package machine's. This package holds what Kubernetes adds
// to it: the kubelet with the steps of its way into a cluster ([Kubelets]), and what that
// needs of the rest of Drydock ([Config]). Package simulated below has kubelets that are
// goroutines on simulated machines.
//
// A node joins a cluster by its user data and with its own identity (its instance
// role's credentials), never by a back door: if AWS would not let it in, it does
// not get in. The package also holds what EKS's own controllers do about nodes
// from outside of them: [Lifecycle] removes the Node objects of instances that
// are gone.
//
// It does not know the AWS services nor the control plane: internal/compute
// connects them through [Config]. May be imported by internal/app and by the packages that
// it is made of (docs/architecture.md).
package node

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
)

// Kubelets are those of the machines of one runtime.
type Kubelets interface {
	// Info returns how far an instance has come; false if it does not run there.
	Info(instanceID string) (Info, bool)
	// PodSteps returns what holds a pod back on its node, in the order of a pod's life:
	// steps named by one of the StepPod… constants, each failed. There are none if nothing
	// on the node uses them, or if the instance or the pod is unknown.
	PodSteps(instanceID, namespace, name string) []Step
}

// Fargate is the configuration that a Fargate machine gets instead of user data. It
// does not boot an AMI, has no CNI plugin, and gives its only pod its own address.
type Fargate struct {
	machine.Instance
	ClusterName string
	Cluster     ClusterInfo
	NodeName    string
	ProviderID  string
	Labels      map[string]string
	Taints      []corev1.Taint
}

// Config is what runtimes need of the rest of Drydock. Functions are called from
// many goroutines at once and must be quick: thousands of nodes call them.
type Config struct {
	// Credentials gives an instance its role's temporary credentials, of a role
	// session named by the instance ID, as the instance metadata service does.
	// Required.
	Credentials func(ctx context.Context, instanceID string) (aws.Credentials, error)
	// DialEndpoint connects an instance with a host and port outside of it, such as
	// a cluster's API endpoint by its AWS name. An error says why AWS's network
	// would not connect them. Required.
	DialEndpoint func(ctx context.Context, in machine.Instance, host string, port int) (net.Conn, error)
	// Call decides, at once, a call that a program on the instance makes of an AWS
	// API. nil allows all.
	Call func(ctx context.Context, in machine.Instance, c Call) error
	// Connect decides, at once, a connection like DialEndpoint, and makes none. nil
	// allows all.
	Connect func(ctx context.Context, in machine.Instance, host string, port int) error
	// Patience is how long a program waits for the answer of a host that Call or
	// Connect says is out of reach.
	Patience time.Duration
	// WhyUnauthorized says why the cluster at a host does not know a token; nil, or a
	// nil answer, says nothing.
	WhyUnauthorized func(ctx context.Context, in machine.Instance, host, token string) *Decision
	// ControlPlaneVersion is the Kubernetes version of the cluster at a host, 1.33;
	// empty, or a nil function: not known.
	ControlPlaneVersion func(host string) string
	// PodCredentials gives a pod credentials for the token of its service account. nil:
	// no pod gets any.
	PodCredentials func(ctx context.Context, in machine.Instance, id PodIdentity) (aws.Credentials, error)
	// PodNetwork is EC2 for the VPC CNI plugin. Releasing addresses when an instance
	// ends is EC2's own work. Required.
	PodNetwork PodNetwork
	// Step records a step of an instance's life for `drydock why`; nil records
	// nothing. A step that fails again for the same reason is recorded once.
	Step func(ctx context.Context, s Step)
	// Clock is the time; nil means the system's.
	Clock clock.WithTicker
	// Log is for what concerns Drydock's operator; nil means slog.Default().
	Log *slog.Logger
}

// A Call is a call of an AWS API by a program on an instance, as far as policies
// see it.
type Call struct {
	Action string // one of the Action… constants
	// Credentials sign it; nil: those of the instance's role.
	Credentials *aws.Credentials
	// Region and Host are of the endpoint; empty: the service's in the instance's region.
	Region, Host string
	// Account owns what is called for; empty: the instance's.
	Account string
	// The resource of the call, as the action needs it.
	Interface, Attachment, Subnet, Repository, Bucket, Cluster string
	Tags                                                       map[string]string
}

// PodIdentity is who a pod is to AWS.
type PodIdentity struct {
	Cluster, Namespace, ServiceAccount string
	// RoleARN is the role of IAM roles for service accounts; empty: EKS Pod Identity
	// says which it is.
	RoleARN string
	Token   string
}

// A Route is how a connection came about.
type Route struct {
	Name    string
	Address netip.Addr // that the name resolved to
	By      string     // whose answer that was: "public DNS"
}

// Routed is a connection that knows its route. DialEndpoint may return one.
type Routed interface {
	net.Conn
	Route() Route
}

// ClusterInfo is what eks:DescribeCluster tells a node.
type ClusterInfo struct {
	Endpoint    string
	CA          []byte // PEM
	ServiceCIDR string
	IPFamily    string // ipv4 or ipv6
}

// Phase is how far an instance has come.
type Phase string

// The phases, in order. An instance may stay in any of them.
const (
	PhaseBooting    Phase = "Booting"
	PhaseRunning    Phase = "Running" // on, but its user data does not join a cluster
	PhaseJoining    Phase = "Joining" // trying to reach and enter its cluster
	PhaseRegistered Phase = "Registered"
	PhaseReady      Phase = "Ready"
)

// Info is what a runtime knows of an instance.
type Info struct {
	InstanceID string
	Phase      Phase
	Since      time.Time
	Cluster    string
	NodeName   string
	// Pods is how many pods the node has, ended ones included.
	Pods int
	// Problem says what keeps the instance from its next phase; empty if nothing.
	Problem string
	// Steps are the last of each name, in order: all scripts.
	Steps []Step
}
