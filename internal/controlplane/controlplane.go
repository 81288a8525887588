// Package controlplane runs the Kubernetes control planes of EKS clusters: one child process per cluster (package
// child), its certificates, its stable address, its webhooks back into the daemon and its OIDC issuer.
//
// It does not depend on the EKS API: the functions in Hooks decide who has access. internal/app imports it and
// connects those functions; services see it only through the small interfaces that they declare themselves. It never
// imports k8s.io/kubernetes; only its child package does, which runs in another process.
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

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config configures a Manager. Dir and Store are required.
type Config struct {
	// Dir is a folder that only the Manager uses. For each plane it holds the certificates for its child and the
	// child's log. Everything in it can be recreated from Store.
	Dir string
	// Store holds the planes, and each plane's Kubernetes state under a prefix of its own.
	Store *store.Store
	// Executable is the program to run as a child; by default this one.
	Executable string
	// ChildArgs come before the arguments that make the program a child.
	ChildArgs []string
	// KeyPause is the longest pause between two attempts of a plane that waits for its KMS key; by default 30
	// seconds.
	KeyPause time.Duration
	// OnRefused is called for connections that a plane's endpoint access settings refused.
	OnRefused func(planeID string, from netip.Addr, reason string)
	// RefusalPatience is how long a connection that endpoint access refuses is left without
	// an answer before it is reset; by default 30 seconds, negative: not at all.
	RefusalPatience time.Duration
	// ListenAddress is the address on which the planes' endpoints listen; by default 127.0.0.1.
	ListenAddress string
	// ClientAddress is the public address that this machine's users appear to have, for matching public access CIDRs;
	// by default 203.0.113.10.
	ClientAddress netip.Addr
	// Silence is how long a process may fail to answer before it is killed and restarted; by default 2 minutes.
	Silence time.Duration
	// WarmSpares is how many spare planes are kept running for the key that was claimed last.
	WarmSpares int
	// Faults are the faults that users set; nil means that there are none.
	Faults *fault.Set
	// Clock is the clock for certificates; by default the real one.
	Clock clock.Clock
	// Log is for messages about the Manager's work; by default slog.Default().
	Log *slog.Logger
}

// Hooks are the parts of Drydock that control planes call. Authenticate is required. They are called concurrently,
// from the moment Start begins.
type Hooks struct {
	// Authenticate checks a bearer token that is not a service account's. Client certificates do not reach it. An
	// error means unauthenticated.
	Authenticate func(ctx context.Context, planeID, token string) (authnv1.UserInfo, error)
	// Authorize is called if RBAC has no opinion. Nil means no opinion.
	Authorize func(ctx context.Context, planeID string, spec *authzv1.SubjectAccessReviewSpec) (allowed, denied bool, reason string)
	// MutatePod returns the JSON patch of a new pod, or nil, as the pod identity
	// webhook of EKS does. A pod that cannot be checked is admitted unchanged.
	// If it is nil, no pods are changed.
	MutatePod func(ctx context.Context, planeID, namespace string, pod *corev1.Pod) (jsonPatch []byte, err error)
	// MutateFargatePod is the same for Fargate's webhook, see Manager.FargateWebhook.
	MutateFargatePod func(ctx context.Context, planeID, namespace string, pod *corev1.Pod) (jsonPatch []byte, err error)
	// Cloud returns the location and fresh credentials for the cloud provider in a plane's process. If only the
	// credentials are missing, it returns an error together with the rest, and the provider's calls fail with that
	// error. If Cloud is nil, there is no cloud.
	Cloud func(ctx context.Context, planeID string) (Cloud, error)
	// DialCluster connects a control plane to a node's or pod's HOST:PORT for logs, exec, port-forward, webhooks and
	// aggregated APIs. The user sees an error's text. If nil, all connections are refused with the explanation that
	// pods run nothing.
	DialCluster func(ctx context.Context, planeID, address string) (net.Conn, error)
	// AuthenticatorLines returns the lines that the authenticator's log gets for a result of Authenticate. client is the
	// address that the API server asked from.
	AuthenticatorLines func(now time.Time, client string, user authnv1.UserInfo, err error) []string
	// WriteLogs writes lines of a plane's logs. A run of its process has one instance, 32 hexadecimal digits. After an
	// error the lines are written again. If it is nil, lines are dropped.
	WriteLogs func(ctx context.Context, planeID, instance string, lines []LogLine) error
	// AutoMode answers the controllers of EKS Auto Mode in a plane's process. If it is nil, their calls fail.
	AutoMode func(ctx context.Context, planeID string, call automode.Call) automode.Answer
	// KMS encrypts and decrypts for planes with encryption. If nil, no plane can be encrypted.
	KMS KMS
}

// KMS uses the key that encrypts a plane's data, as the role of the plane's cluster.
type KMS interface {
	Encrypt(ctx context.Context, planeID, keyARN string, plaintext []byte) ([]byte, error)
	Decrypt(ctx context.Context, planeID, keyARN string, ciphertext []byte) ([]byte, error)
}

// A Key describes the kind of control plane that is wanted. Everything except Account and Name is fixed when the
// plane is created, so a spare only fits if it has the same values.
type Key struct {
	Account     string
	Name        string
	Region      string
	Version     string // "1.33"
	ServiceCIDR string
	IPFamily    string // "ipv4" or "ipv6"
	// Settings can be changed later, see Manager.Configure.
	Settings Settings `json:",omitzero"`
}

// Settings are settings of a plane's components.
type Settings = launch.Settings

// A Plane describes a claimed control plane.
type Plane struct {
	// ID is 32 upper-case hexadecimal digits, the last part of Issuer.
	ID    string
	Owner string
	Key   Key
	// Endpoint is its address for users of this machine: https://127.0.0.1:PORT.
	Endpoint string
	// AWSHost is its host name on AWS; its certificate is also valid for that name.
	AWSHost string
	// CAPEM is its certificate authority, or all of them during a rotation.
	CAPEM []byte
	// Issuer is the issuer of its service account tokens.
	Issuer string
	// GitVersion is what /version reports: v1.N.P-eks-1234567.
	GitVersion string
	CreatedAt  time.Time
}

// Access says who may connect to a plane's endpoint.
type Access struct {
	Public bool
	// PublicCIDRs are the client addresses that are let in if Public is set; empty means all.
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
	// Failed means that the process has ended and will be restarted after a delay.
	Failed State = "failed"
)

// A Status is the current status of a plane.
type Status struct {
	State State
	// Reason says why the plane is not ready.
	Reason string
	// LogTail holds the last lines of the log of a failed plane.
	LogTail string
	// Restarts counts how often the process was restarted.
	Restarts int
	PID      int
	// Since is when the plane entered the state.
	Since time.Time
}
