// Package cloudformation implements AWS CloudFormation: stacks of resources that templates
// describe.
//
// A stack is a record, and a reconciler does its work ([operation]): it carries out what the
// stack's status says is in progress, even if the daemon was killed in the middle. Every
// action on a resource is a call to the resource's service, made as the caller of the stack's
// operation or as the stack's role, so policies, quotas, faults and CloudTrail apply to it.
// handlers*.go define the calls for each type of resource; schemas.jsonl has the properties.
//
//	CREATE_IN_PROGRESS ─► CREATE_COMPLETE ──────────────► DELETE_IN_PROGRESS ─► DELETE_COMPLETE
//	       └─► ROLLBACK_IN_PROGRESS ─► ROLLBACK_COMPLETE ──┘       └─► DELETE_FAILED
//
//	UPDATE_IN_PROGRESS ─► UPDATE_COMPLETE_CLEANUP_IN_PROGRESS ─► UPDATE_COMPLETE
//	       └─► UPDATE_ROLLBACK_IN_PROGRESS ─► UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS ─► UPDATE_ROLLBACK_COMPLETE
//
// A nested stack is a separate stack, which its parent creates, updates and deletes (nested.go).
//
// Package template implements the template language. Only the composition root imports this
// package.
package cloudformation

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// servicePrincipal is the service that assumes the roles of stacks.
const servicePrincipal = "cloudformation.amazonaws.com"

// Config has the settings and dependencies of a Service.
type Config struct {
	Store *store.Store
	// API makes the calls that create, change and delete resources.
	API awsapi.API
	// Assume returns a session of a stack's role. It returns an error if CloudFormation may not assume the role;
	// the error is ErrNoRole if the role does not exist.
	Assume func(ctx context.Context, roleARN, stackARN string) (awsapi.Principal, error)
	// Deleting is the minimum time that the deletion of a stack takes.
	Deleting time.Duration
	Clock    clock.WithTicker // nil means the real clock
	Log      *slog.Logger     // nil means slog.Default
}

// A Service is CloudFormation.
type Service struct {
	cfg   Config
	store *store.Store
	clock clock.WithTicker
	log   *slog.Logger
}

// New returns the service. Call Run to work on stacks.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, store: cfg.Store, clock: cmp.Or[clock.WithTicker](cfg.Clock, clock.RealClock{}), log: cmp.Or(cfg.Log, slog.Default())}
}

// stacksAtOnce is how many stacks of one depth are worked on at the same time.
const stacksAtOnce = 64

// Run works on stacks until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	if err := s.dropOrphans(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	var levels []reconcile.Config
	for depth := range maxDepth { // each has its own workers, because stacks wait for those nested in them
		levels = append(levels, reconcile.Config{
			Name: "cloudformation/stack", Watcher: stacks.Watch(s.store, store.Scope{}), Workers: stacksAtOnce, Log: s.log, Clock: s.clock,
			Reconcile: func(ctx context.Context, key store.Key) (time.Duration, error) { return s.reconcile(ctx, key, depth) },
		})
	}
	return reconcile.Run(ctx, append(levels, reconcile.Config{
		Name: "cloudformation/notifications", Watcher: stacks.Watch(s.store, store.Scope{}), Workers: stacksAtOnce, Log: s.log, Clock: s.clock, Reconcile: s.notify,
	})...)
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

func stackARN(key store.Key, rec *stackRecord) string {
	return arn.New("cloudformation", key.Region, key.Account, "stack/"+rec.Name+"/"+rec.ID)
}

func scopeOf(ctx context.Context) regional.Scope { return regional.Of(ctx) }
