// Package elbv2 answers the API of Application and Network Load Balancers: load
// balancers, target groups, targets and their health, listeners and rules.
//
// A load balancer is provisioning until its network interfaces are there, one per
// subnet, which a reconciler makes in EC2 and removes again after its end; they
// hold security groups, addresses and subnets as on AWS. No traffic is balanced.
// The health of a target is decided when it is asked for: whether the network lets
// a health check through, and whether something answers at the port.
//
//	CreateLoadBalancer ─► provisioning ─► active ─► DeleteLoadBalancer ─► (interfaces go) ─► gone
//
// The package knows no cluster. No other service imports it.
package elbv2

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs.
type Config struct {
	Store *store.Store
	// Network is where load balancers are.
	Network elbnet.Network
	// EnsureServiceRole makes the account's AWSServiceRoleForElasticLoadBalancing
	// unless it is there. Nil: it is not wanted.
	EnsureServiceRole func(ctx context.Context, account string) error
	Timing            timing.Timing
	Clock             clock.WithTicker // nil: the real one
	Log               *slog.Logger     // nil: slog.Default
}

// Service is the load balancing service, version 2.
type Service struct {
	cfg   Config
	store *store.Store
	net   *elbnet.Network
	clock clock.WithTicker
	log   *slog.Logger
}

// New returns the service. Call Run to make load balancers live.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, store: cfg.Store, net: &cfg.Network, clock: cfg.Clock, log: cfg.Log}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

// asService returns a context in which Elastic Load Balancing itself calls.
func (s *Service) asService(ctx context.Context, sc scope) context.Context {
	return elbnet.AsService(ctx, sc.Account, sc.Region, s.clock.Now())
}

// scope is an account and region.
type scope = regional.Scope

func scopeOf(ctx context.Context) scope { return regional.Of(ctx) }

func notFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

func deref(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// or is the value of p, or def if there is none.
func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

func text(p *string) string { return aws.ToString(p) }
