package elbnet

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/balancer"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what a service of load balancers needs.
type Config struct {
	Store *store.Store
	// Network is the network in which the load balancers are.
	Network Network
	// EnsureServiceRole makes a service-linked role in the caller's account, for the
	// caller, unless it exists. nil makes none.
	EnsureServiceRole func(ctx context.Context, role awsapi.ServiceRole) error
	// Certificate reports whether a certificate exists in ACM or IAM, and whether listeners can use it. If it is nil, every
	// certificate of a valid form exists and can be used.
	Certificate func(account, region, arn string) (exists, usable bool)
	// Held reports whether the load balancers of a key's account are left as they are: those of a twin. nil means that none are.
	Held func(store.Key) bool
	// KeyPair returns a certificate with its private key. It may be nil if Traffic is.
	KeyPair func(ctx context.Context, account, region, arn string) (tls.Certificate, error)
	// Traffic carries the traffic. If it is nil, nothing is carried.
	Traffic *balancer.Plane
	Timing  timing.Timing
	Clock   clock.WithTicker // nil means the real clock
	Log     *slog.Logger     // nil means slog.Default
}

// Base is what the services of both generations are built on.
type Base struct{ Config }

// NewBase returns a base with the defaults of cfg filled in.
func NewBase(cfg Config) Base {
	cfg.Clock = cmp.Or[clock.WithTicker](cfg.Clock, clock.RealClock{})
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	return Base{cfg}
}

// Now returns the current time as stored in records.
func (b *Base) Now() time.Time { return timing.Stamp(b.Clock) }

// serviceRole is the service-linked role of both load balancing services.
var serviceRole = awsapi.ServiceRole{Service: ServiceName, Name: "AWSServiceRoleForElasticLoadBalancing", Session: "ElasticLoadBalancing"}

// AsService returns a context in which Elastic Load Balancing itself calls EC2.
func (b *Base) AsService(ctx context.Context, sc regional.Scope) context.Context {
	return awsapi.AsService(ctx, sc.Account, sc.Region, serviceRole, b.Clock.Now())
}

// EnsureRole makes the service-linked role of the caller's account unless it exists. A
// caller who may not is refused with IAM's own error, as on AWS:
// https://github.com/kubernetes/k8s.io/pull/5515
func (b *Base) EnsureRole(ctx context.Context) error {
	if b.EnsureServiceRole == nil {
		return nil
	}
	if err := b.EnsureServiceRole(ctx, serviceRole); err != nil {
		return fmt.Errorf("making the service-linked role: %w", err)
	}
	return nil
}

// RemoveInterfaces removes the interfaces of a deleted load balancer. Their owner is the ID in its key.
func (b *Base) RemoveInterfaces(ctx context.Context, deleted store.Key) error {
	if _, err := b.Network.EnsureInterfaces(ctx, deleted.Account, deleted.Region, Interfaces{Requester: Requester, Owner: deleted.ID}, nil); err != nil {
		return fmt.Errorf("removing the interfaces of load balancer %s: %w", deleted.ID, err)
	}
	return nil
}

// CleanUp reconciles a deleted load balancer at once, because clients usually delete its security group next, which
// its interfaces still use. If it fails, the reconciler retries.
func (b *Base) CleanUp(ctx context.Context, deleted store.Key, reconcile func(context.Context, store.Key) (time.Duration, error)) {
	if _, err := reconcile(ctx, deleted); err != nil {
		b.Log.WarnContext(ctx, "cleaning up after a load balancer", "key", deleted.String(), "err", err)
	}
}

// An Endpoint is the address of a load balancer.
type Endpoint struct {
	Name       string // an ARN for the second generation
	DNSName    string
	Internal   bool
	Interfaces []string
}

// DNSName returns the name under which clients find a Classic or an Application Load Balancer. The name contains a
// decimal number of up to ten digits, here derived from a hexadecimal ID.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/network-load-balancers.html
func DNSName(region, name, id string, internal bool) string {
	var n uint64
	for _, c := range id {
		n = n*31 + uint64(c)
	}
	prefix := ""
	if internal {
		prefix = "internal-"
	}
	return fmt.Sprintf("%s%s-%d.%s.elb.amazonaws.com", prefix, name, 1_000_000_000+n%1_000_000_000, region)
}

// RegisterEach registers instances one by one, for Auto Scaling, so that a refused one does not keep out others. It
// returns the last error.
func RegisterEach(ids []string, register func(id string) error) (last error) {
	for _, id := range ids {
		if err := register(id); err != nil {
			last = err
		}
	}
	return last
}

// Places returns the accounts and regions of load balancers.
func Places[T any](r store.Reader, balancers store.Collection[T]) [][2]string {
	var out [][2]string
	for _, i := range balancers.All(r, store.Scope{}) {
		if p := [2]string{i.Key.Account, i.Key.Region}; !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// Tagging is needed to tag resources of both services on creation.
var Tagging = awsapi.Tagging{
	Action: "AddTags", CreateAction: true,
	Source: "https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/tagging-resources-during-creation.html",
}
