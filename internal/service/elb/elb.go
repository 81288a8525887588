// Package elb answers the API of Classic Load Balancers, which Kubernetes' own
// service controller makes by default: load balancers, listeners, instances and
// their health, policies.
//
// A load balancer has a network interface in each of its subnets, which a
// reconciler makes in EC2 and removes again after its end. No traffic is balanced.
// The health of an instance is decided when it is asked for: whether the network
// lets a health check through, and whether something answers at the port.
//
// The package knows no cluster. No other service imports it.
package elb

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
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
	Clock             clock.WithTicker // nil: the real one
	Log               *slog.Logger     // nil: slog.Default
}

// Service is the load balancing service of the first generation.
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

func text(p *string) string { return aws.ToString(p) }
