// Package node brings EC2 instances to life as Kubernetes nodes.
//
// Package machine is an instance as a computer. This package holds what Kubernetes adds to it: the kubelet and the
// steps by which it joins a cluster ([Kubelets]), and what those need from the rest of Drydock ([Config]). The
// sub-package simulated has kubelets that are goroutines on simulated machines.
//
// A node joins a cluster by its user data and with its own identity (its instance role's credentials), never by a
// back door: if AWS would not let it in, it does not get in. The package also holds what EKS's own controllers do to
// nodes from outside: [Lifecycle] removes the Node objects of instances that are gone.
//
// It does not depend on the AWS services or the control plane: internal/compute connects them through [Config]. May
// be imported by internal/app and by the packages that it is made of (docs/architecture.md).
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

// Kubelets are the kubelets on the machines of one runtime.
type Kubelets interface {
	// Info returns the status of an instance, or false if it does not run there.
	Info(instanceID string) (Info, bool)
	// PodSteps returns what holds a pod back on its node, in the order of a pod's life: failed steps named by the
	// StepPod… constants. It returns none if nothing on the node uses them, or if the instance or the pod is
	// unknown.
	PodSteps(instanceID, namespace, name string) []Step
}

// Fargate is the configuration that a Fargate machine gets instead of user data. The machine does not boot an AMI,
// has no CNI plugin, and gives its only pod its own address.
type Fargate struct {
	machine.Instance
	ClusterName string
	Profile     string // Fargate profile
	Cluster     ClusterInfo
	NodeName    string
	ProviderID  string
	Labels      map[string]string
	Taints      []corev1.Taint
	// Runtime is the name of the machine runtime; empty means simulated.
	Runtime string
	// Namespace, Pod and PodUID name the pod.
	Namespace, Pod, PodUID string
	// Logging is the ConfigMap aws-logging as it was when the pod was placed, or nil if its logs are not sent.
	Logging map[string]string
}

// Config is what runtimes need from the rest of Drydock. The functions are called from many goroutines at once and
// must be quick, because thousands of nodes call them.
type Config struct {
	// Credentials returns the temporary credentials of an instance's role, for a role session named after the
	// instance ID, as the instance metadata service does. Required.
	Credentials func(ctx context.Context, instanceID string) (aws.Credentials, error)
	// DialEndpoint connects an instance to a host and port outside of it, such as a cluster's API endpoint by its AWS
	// name. An error says why AWS's network would not connect them. Required.
	DialEndpoint func(ctx context.Context, in machine.Instance, host string, port int) (net.Conn, error)
	// Authority returns the certificate authorities, in PEM, that a node trusts for the API server at a host if its user
	// data names others: those of a copied cluster in place of its source's. Nil returns what user data names.
	Authority func(host string, named []byte) []byte
	// Call decides at once whether a program on the instance may call an AWS API. Nil allows all calls.
	Call func(ctx context.Context, in machine.Instance, c Call) error
	// ManagedCall decides about a call that EKS makes for the network of an instance that it manages, as the role of the
	// cluster. Nil allows all calls.
	ManagedCall func(ctx context.Context, in machine.Instance, cluster string, c Call) error
	// Connect decides at once about a connection as DialEndpoint would, without making one. Nil allows all
	// connections.
	Connect func(ctx context.Context, in machine.Instance, host string, port int) error
	// Image decides whether a registry has an image, which is named by tag or digest. Nil means that it has.
	Image func(ctx context.Context, in machine.Instance, registry, repository, reference string) error
	// Patience is how long a program waits for the answer of a host that Call or Connect reports as unreachable.
	Patience time.Duration
	// WhyUnauthorized says why the cluster at a host does not accept a token. It may be nil, or return nil if it does
	// not know.
	WhyUnauthorized func(ctx context.Context, in machine.Instance, host, token string) *Decision
	// ControlPlaneVersion returns the Kubernetes version of the cluster at a host, such as 1.33. It may be nil, or
	// return "" if it does not know.
	ControlPlaneVersion func(host string) string
	// PodCredentials returns credentials for the token of a pod's service account. If nil, no pod gets any.
	PodCredentials func(ctx context.Context, in machine.Instance, id PodIdentity) (aws.Credentials, error)
	// PodNetwork is EC2 for the VPC CNI plugin. EC2 itself releases addresses when an instance ends. Required.
	PodNetwork PodNetwork
	// Step records a step of an instance's life for `drydock why`. A step that fails again for the same reason is
	// recorded once. Nil records nothing.
	Step func(ctx context.Context, s Step)
	// Clock is the clock to use; nil means the system's.
	Clock clock.WithTicker
	// Log is for messages to Drydock's operator; nil means slog.Default().
	Log *slog.Logger
}

// A Call is a program's call of an AWS API on an instance, as far as policies look at it.
type Call struct {
	Action string // one of the Action… constants
	// Credentials sign it; nil means those of the instance's role.
	Credentials *aws.Credentials
	// Region and Host are the endpoint's. If empty, it is the service's endpoint in the instance's region.
	Region, Host string
	// Account owns the resource of the call. Empty means the instance's account.
	Account string
	// The resource of the call, as far as the action needs it.
	Interface, Attachment, Subnet, Repository, Bucket, Cluster string
	Tags                                                       map[string]string
}

// PodIdentity is the AWS identity of a pod.
type PodIdentity struct {
	Cluster, Namespace, ServiceAccount string
	// RoleARN is the role of IAM roles for service accounts. If empty, EKS Pod Identity determines the role.
	RoleARN string
	Token   string
}

// A Route describes how a connection was made.
type Route struct {
	Name    string
	Address netip.Addr // the address that the name resolved to
	By      string     // which server resolved it: "public DNS"
}

// Routed is a connection with a known route. DialEndpoint may return one.
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
	PhaseJoining    Phase = "Joining" // trying to reach and join its cluster
	PhaseRegistered Phase = "Registered"
	PhaseReady      Phase = "Ready"
)

// Info is what a runtime knows about an instance.
type Info struct {
	InstanceID string
	Phase      Phase
	Since      time.Time
	Cluster    string
	NodeName   string
	// Pods is how many pods the node has, including ended ones.
	Pods int
	// Problem says what keeps the instance from its next phase, or is empty.
	Problem string
	// NextTry is when the kubelet tries again what Problem is about; zero: not by itself.
	NextTry time.Time
	// Steps are the last step of each name, in order, and all scripts.
	Steps []Step
}
