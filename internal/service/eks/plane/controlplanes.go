// Package plane talks to the control planes of clusters. It defines the interface through which EKS
// requests them, keeps connections open to them, and applies objects in them. It knows control
// planes by ID and does not read cluster records.
package plane

import (
	"context"
	"log/slog"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// Config is what sessions need to reach control planes. All fields are required.
type Config struct {
	ControlPlanes ControlPlanes
	NewClient     func(*rest.Config) (kubernetes.Interface, error)
	NewObjects    func(*rest.Config) (Objects, error)
	Log           *slog.Logger
}

// A Request specifies the control plane that a cluster needs.
type Request struct {
	// Owner identifies one incarnation of one cluster: its ARN and a UUID. Claiming twice for the
	// same owner returns the same control plane.
	Owner           string
	Account, Region string
	Name            string // the cluster's name, which clients send as x-k8s-aws-id
	Version         string // such as 1.36
	ServiceCIDR     string
	IPFamily        string // such as ipv4
	// ID and AWSHost are those of the cluster that the plane is a copy of. They are empty for a new plane, and AWSHost
	// also if it follows from the ID.
	ID, AWSHost string
	Settings    Settings
}

// Settings are settings of a control plane's components. The zero value is Kubernetes' defaults.
type Settings struct {
	EventTTL      string // such as 30m
	NodePorts     string // such as 30000-32767
	HPASyncPeriod string // such as 10s
	// Scoring is the scheduler's strategy for NodeResourcesFit, and Weights are the resources that it considers, such as
	// cpu=1,memory=1.
	Scoring, Weights string
}

// A LogLine is a line of the log of a control plane's component.
type LogLine struct {
	Component string // such as kube-scheduler
	Time      int64  // milliseconds since 1970
	Text      string
}

// An APIUse counts one client's requests to a deprecated API during the last 30 days.
type APIUse struct {
	API       string // such as /apis/resource.k8s.io/v1beta1/resourceclaims
	Removed   string // the version that removes the API, such as 1.38, or empty
	UserAgent string
	Requests  int
	Last      time.Time
}

// An Authority is a certificate authority of a plane.
type Authority struct {
	ID      string
	CertPEM []byte
	Signs   bool // it issues the plane's certificates
}

// ControlPlanes runs control planes.
type ControlPlanes interface {
	// Claim assigns a control plane to an owner. It may still be booting. Claim is idempotent per
	// owner, even across restarts.
	Claim(ctx context.Context, req Request) (record.Plane, error)
	// Authority returns the certificate of a plane's certificate authority in PEM, or nil if there
	// is no such plane. The certificate changes when the old one expires.
	Authority(id string) []byte
	// Authorities returns a plane's certificate authorities. Authority returns all of their certificates.
	Authorities(id string) []Authority
	// AddAuthority makes a plane trust a new certificate authority. ActivateAuthority makes one of those that it trusts
	// the one that signs, and RemoveAuthority removes another. All replace the plane's process while it serves, and
	// can be repeated.
	AddAuthority(ctx context.Context, id, authority string) error
	ActivateAuthority(ctx context.Context, id, authority string) error
	RemoveAuthority(ctx context.Context, id, authority string) error
	// WaitReady waits until the plane's API server answers.
	WaitReady(ctx context.Context, id string) error
	// Upgrade changes the Kubernetes version of a plane while it serves, and returns when its
	// controllers run. It can be repeated.
	Upgrade(ctx context.Context, id, version string) error
	// Replace replaces the process of a plane while it serves. It can be repeated.
	Replace(ctx context.Context, id string) error
	// Configure changes settings of a plane's components while it serves. It can be repeated.
	Configure(ctx context.Context, id string, to Settings) error
	// Version returns the Kubernetes version that a plane has, or "" if there is no such plane.
	Version(id string) string
	// Release stops a plane and removes its data. It does nothing if there is no such plane.
	Release(ctx context.Context, id string) error
	// SetAccess sets who may reach the endpoint: public clients within cidrs, clients inside the
	// VPC, or both.
	SetAccess(ctx context.Context, id string, public bool, cidrs []string, private bool) error
	// SetLogging sets the components whose logs go to EKS, without a restart.
	SetLogging(ctx context.Context, id string, components []string) error
	// SetAutoMode sets what the controllers of EKS Auto Mode need to know, without a restart; nil stops them. The plane
	// does not keep it when the daemon restarts.
	SetAutoMode(id string, to *automode.Setting)
	// SetIdentityProvider sets the OIDC provider whose users may authenticate, without a restart;
	// nil means none.
	SetIdentityProvider(ctx context.Context, id string, idp *ekstypes.OidcIdentityProviderConfig) error
	// AdoptedIdentityProvider reports whether a plane uses what SetIdentityProvider has set.
	AdoptedIdentityProvider(ctx context.Context, id string) (bool, error)
	// DeprecatedUse returns the deprecated APIs of a plane that were used during the last 30 days, and their clients.
	DeprecatedUse(id string) ([]APIUse, error)
	// Copy creates a copy of a plane for a rehearsal and returns its ID. The copy may still be booting. It calls no
	// AWS APIs and none of the user's webhooks, and does not outlive the daemon.
	Copy(ctx context.Context, id string) (string, error)
	// Unconverted returns the CustomResourceDefinitions of a copy whose conversion webhooks it does not call.
	Unconverted(id string) []string
	// StubbedCalls returns how often each admission webhook of a copy would have been called.
	StubbedCalls(id string) map[string]int
	// Released returns a channel that is closed when a plane is released. Another plane may get its ID then.
	Released(id string) <-chan struct{}
	// RESTConfig returns a client configuration with full access to the plane.
	RESTConfig(id string) (*rest.Config, error)
	// Encrypt permanently encrypts a plane's data with an AWS KMS key and returns when all data is
	// encrypted. It can be repeated.
	Encrypt(ctx context.Context, id, keyARN string) error
	// EncryptionKey returns the key that a plane has permanently adopted, even if not all data is
	// encrypted yet, or "" if there is none.
	EncryptionKey(id string) string
	// FargateWebhook returns the webhook configuration that makes a cluster's API server call
	// MutateFargatePod.
	FargateWebhook() *admissionregistrationv1.MutatingWebhookConfiguration
}
