package plane

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// A Request says which control plane a cluster needs.
type Request struct {
	// Owner is unique to one life of one cluster: its ARN and a UUID. Claiming
	// twice for one owner gives the same control plane.
	Owner           string
	Account, Region string
	Name            string // the cluster's, which clients send as x-k8s-aws-id
	Version         string // 1.36
	ServiceCIDR     string
	IPFamily        string // ipv4
}

// ControlPlanes runs control planes.
type ControlPlanes interface {
	// Claim gives owner a control plane, booting or booted. It is idempotent
	// per owner, also across restarts.
	Claim(ctx context.Context, req Request) (record.Plane, error)
	// Authority returns the certificate of a plane's authority in PEM. It changes when the
	// old one expires. nil means that there is no such plane.
	Authority(id string) []byte
	// WaitReady returns when the plane's API server answers.
	WaitReady(ctx context.Context, id string) error
	// Release ends a plane and removes everything it kept. Releasing an unknown
	// plane does nothing.
	Release(ctx context.Context, id string) error
	// SetAccess says from where the endpoint may be reached: by the public's
	// clients within cidrs, from inside the VPC.
	SetAccess(ctx context.Context, id string, public bool, cidrs []string, private bool) error
	// RESTConfig returns a client configuration with all rights on the plane.
	RESTConfig(id string) (*rest.Config, error)
	// Encrypt has a plane's data encrypted with a key of AWS KMS, for good, and
	// returns when all are. It may be repeated.
	Encrypt(ctx context.Context, id, keyARN string) error
	// EncryptionKey is the key that a plane has taken and keeps, whether or not its
	// data are encrypted yet; "": none.
	EncryptionKey(id string) string
	// FargateWebhook returns the webhook configuration by which the API server of a
	// cluster asks MutateFargatePod.
	FargateWebhook() *admissionregistrationv1.MutatingWebhookConfiguration
}
