// Package node brings EC2 instances to life as Kubernetes nodes.
//
// It holds the seam between the AWS services and whatever runs an instance: a
// [Runtime]. Package simulated runs instances as goroutines, any number, on any
// operating system; a runtime of containers comes later. A [Manager] owns the
// runtimes and chooses one per instance.
//
// A node joins a cluster by its user data and with its own identity (its instance
// role's credentials), never by a back door: if AWS would not let it in, it does
// not get in. The package also holds what EKS's own controllers do about nodes
// from outside of them: [Lifecycle] removes the Node objects of instances that
// are gone.
//
// It does not know the AWS services nor the control plane: internal/machines
// connects them through [Config]. May be imported by internal/app and by the packages that
// it is made of (docs/architecture.md).
package node

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node/guest/shell"
)

// Runtime runs instances. All methods may be called concurrently, and for
// different instances independently of one another.
type Runtime interface {
	// Name says which runtime this is: "simulated" or "containers".
	Name() string
	// Start boots an instance and returns when its boot has begun, not when it has
	// joined a cluster. The instance lives until Stop or Shutdown; ctx is only the
	// call's. Starting an instance that already runs does nothing, so callers may
	// start all running instances anew after a restart of the daemon: the node
	// then goes on with the pods it had.
	Start(ctx context.Context, in machine.Instance) error
	// Stop powers an instance off at once: heartbeats end, and whatever ran there
	// is gone. It returns when nothing of the instance runs any more. Stopping an
	// unknown instance does nothing.
	Stop(ctx context.Context, instanceID string) error
	// Reboot stops and starts an instance; its containers start anew. An unknown
	// instance is ErrNotRunning.
	Reboot(ctx context.Context, instanceID string) error
	// Info says how far an instance has come; false when it does not run here.
	Info(instanceID string) (Info, bool)
	// Shutdown ends all instances without a trace in their clusters, as when the
	// daemon ends: they are expected to be started again.
	Shutdown(ctx context.Context) error
}

// Fargate is what a machine of Fargate is told in place of user data. It boots no image
// of anybody's, has no CNI plugin, and gives its one pod its own address.
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
	// Metadata is an instance's way to its metadata service, from the instance
	// itself: user data is read there, as cloud-init does. nil takes it from
	// Instance.UserData.
	Metadata func(instanceID string) http.RoundTripper
	// RunScript runs a script of user data: sandbox.Pool.Run. nil runs none, and says
	// so in a step.
	RunScript func(ctx context.Context, job shell.Job) (shell.Result, error)
	// HTTP is an instance's way to AWS and to everything else by HTTP. An error says
	// why its network would not let it there. nil: it has no network.
	HTTP func(in machine.Instance) http.RoundTripper
	// DescribeCluster asks EKS as the instance's role, through its network, for what
	// a node must know of a cluster. nil: EKS cannot be reached.
	DescribeCluster func(ctx context.Context, in machine.Instance, region, name string) (ClusterInfo, error)
	// Disks keeps what instances have written, over restarts of the daemon and stops
	// of the instance. nil: what a script wrote is forgotten then, and it runs again.
	Disks Disks
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
	// What it is about, as the action needs it.
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

// Disks keeps the root volumes of instances.
type Disks interface {
	// Load returns what Save saved last, and false if it saved nothing.
	Load(instanceID string) ([]byte, bool, error)
	Save(instanceID string, data []byte) error
}

// Phase is how far an instance has come.
type Phase string

// The phases, in order. An instance may stay in any of them.
const (
	PhaseBooting    Phase = "Booting"
	PhaseRunning    Phase = "Running" // on, but its user data joins no cluster
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
