// Package controlplane runs the Kubernetes control planes of EKS clusters: one
// child process per cluster (package child), its certificates, its stable
// address, its webhooks back into the daemon and its OIDC issuer.
//
// It knows nothing of the EKS API: who may come in is asked of the functions in
// Hooks. internal/app imports it and connects those functions; services see it
// only through the small interfaces they declare themselves. It never imports
// k8s.io/kubernetes; only its child package does, which runs in another process.
package controlplane

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/store"
)

// Config says how a Manager works. Dir and Store are required.
type Config struct {
	// Dir is a folder of the Manager's own: per plane, the certificates handed to
	// its child and the child's log. Everything in it can be made again from Store.
	Dir string
	// Store keeps the planes, and their Kubernetes state under a prefix each.
	Store *store.Store
	// Executable is the program run as child; by default this one.
	Executable string
	// ChildArgs are put before the arguments that make the program a child.
	ChildArgs []string
	// KeyPause is the longest time until a plane that waits for its key tries it
	// again; by default 30 seconds.
	KeyPause time.Duration
	// DialCluster connects a control plane to a node's or pod's HOST:PORT for
	// logs, exec, port-forward, webhooks and aggregated APIs. An error's text is
	// shown to the user. nil refuses everything, saying that pods run nothing.
	DialCluster func(ctx context.Context, planeID, address string) (net.Conn, error)
	// OnRefused is called for connections that a plane's endpoint access
	// refused.
	OnRefused func(planeID string, from netip.Addr, reason string)
	// ListenAddress is where the planes' endpoints listen; by default 127.0.0.1.
	ListenAddress string
	// ClientAddress is the public address of this machine's users; by default
	// 203.0.113.10. Public access CIDRs are matched against it.
	ClientAddress netip.Addr
	// Silence is how long a process may answer nothing before it is killed and started
	// again; by default 2 minutes.
	Silence time.Duration
	// WarmSpares is how many planes are kept running for the key claimed last.
	WarmSpares int
	// Clock is the time for certificates; by default the real one.
	Clock clock.Clock
	// Log receives what the Manager does; by default slog.Default().
	Log *slog.Logger
}

// Hooks are what control planes ask of the rest of Drydock. Authenticate is required.
// They are called concurrently, and from the moment Start begins.
type Hooks struct {
	// Authenticate decides a bearer token that is neither a service account's nor
	// a client certificate's. An error means unauthenticated.
	Authenticate func(ctx context.Context, planeID, token string) (authnv1.UserInfo, error)
	// Authorize is asked after RBAC has had no opinion. nil: no opinion.
	Authorize func(ctx context.Context, planeID string, spec *authzv1.SubjectAccessReviewSpec) (allowed, denied bool, reason string)
	// MutatePod returns the JSON patch of a new pod, or nil, as the pod identity
	// webhook of EKS does. A pod that cannot be checked is admitted unchanged.
	// If it is nil, no pods are changed.
	MutatePod func(ctx context.Context, planeID, namespace string, pod *corev1.Pod) (jsonPatch []byte, err error)
	// MutateFargatePod is the same for the webhook of Fargate, see
	// Manager.FargateWebhook.
	MutateFargatePod func(ctx context.Context, planeID, namespace string, pod *corev1.Pod) (jsonPatch []byte, err error)
	// Cloud gives the cloud provider in a plane's process its location and fresh
	// credentials. An error about the credentials is returned with the rest, and the
	// provider's calls then fail with it. If it is nil, there is no cloud.
	Cloud func(ctx context.Context, planeID string) (Cloud, error)
	// KMS encrypts and decrypts for planes with encryption. nil: no plane can have it.
	KMS KMS
}

// KMS calls the key that encrypts a plane's data as the role of its cluster.
type KMS interface {
	Encrypt(ctx context.Context, planeID, keyARN string, plaintext []byte) ([]byte, error)
	Decrypt(ctx context.Context, planeID, keyARN string, ciphertext []byte) ([]byte, error)
}

// A Key says what kind of control plane is wanted. All but Account and Name are
// fixed when the plane is created, so only a spare with the same values fits.
type Key struct {
	Account     string
	Name        string
	Region      string
	Version     string // "1.33"
	ServiceCIDR string
	IPFamily    string // "ipv4" or "ipv6"
}

// A Plane describes a claimed control plane.
type Plane struct {
	// ID is 32 upper-case hexadecimal digits, the last part of Issuer.
	ID    string
	Owner string
	Key   Key
	// Endpoint is where users of this machine reach it: https://127.0.0.1:PORT.
	Endpoint string
	// AWSHost is the name it has on AWS; its certificate is valid for it, too.
	AWSHost string
	// CAPEM is its certificate authority.
	CAPEM []byte
	// Issuer is the issuer of its service account tokens.
	Issuer string
	// GitVersion is what /version reports: v1.N.P-eks-1234567.
	GitVersion string
	CreatedAt  time.Time
}

// Access is who may connect to a plane's endpoint.
type Access struct {
	Public bool
	// PublicCIDRs are the client addresses let in when Public; none means all.
	PublicCIDRs []netip.Prefix
	// Private lets in clients inside the cluster's network, see Manager.Dial.
	Private bool
}

// A State is the phase a plane's process is in.
type State string

// The states of a plane's process.
const (
	Starting State = "starting"
	Ready    State = "ready"
	// Failed is a process that ended and will be started again after a delay.
	Failed State = "failed"
)

// A Status is how a plane is.
type Status struct {
	State State
	// Reason says why the plane is not ready.
	Reason string
	// LogTail holds the last lines of the log of a failed plane.
	LogTail string
	// Restarts counts how often the process was started again.
	Restarts int
	PID      int
	// Since is when the state was entered.
	Since time.Time
}
