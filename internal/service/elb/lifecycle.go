package elb

import (
	"context"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// Run makes load balancers live until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return reconcile.Run(ctx, reconcile.Config{
			Name: "elb/loadbalancer", Watcher: loadBalancers.Watch(s.store, store.Scope{}), Log: s.log, Clock: s.clock,
			Reconcile: s.reconcileLoadBalancer,
		})
	})
	group.Go(func() error {
		return reconcile.Run(ctx, reconcile.Config{
			Name: "elb/grave", Watcher: graves.Watch(s.store, store.Scope{}), Log: s.log, Clock: s.clock,
			Reconcile: s.reconcileGrave,
		})
	})
	return group.Wait()
}

// reconcileLoadBalancer gives a load balancer its interfaces.
func (s *Service) reconcileLoadBalancer(ctx context.Context, key store.Key) (time.Duration, error) {
	r, err := loadBalancers.Get(s.store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	made, err := s.net.EnsureInterfaces(ctx, key.Account, key.Region, elbnet.Interfaces{
		Requester: elbnet.Requester, Owner: r.UID, Description: "ELB " + r.Name, Type: "interface",
		Subnets: r.Subnets, Groups: r.Groups, Public: !r.Internal,
	}, func(tx store.Reader) bool {
		now, err := loadBalancers.Get(tx, key)
		return err == nil && now.UID == r.UID
	})
	if err != nil {
		return 0, fmt.Errorf("the interfaces of load balancer %s: %w", r.Name, err)
	}
	have := elbnet.ByZone(made)
	if maps.Equal(have, r.Interfaces) {
		return 0, nil
	}
	return 0, store.IgnoreNotFound(loadBalancers.UpdateOne(ctx, s.store, key, func(now *loadBalancerRecord) error {
		if now.UID == r.UID {
			now.Interfaces = have
		}
		return nil
	}))
}

// bury removes what is left of a load balancer at once: whoever deletes one deletes
// its security group next, which its interfaces hold. What fails the reconciler
// does.
func (s *Service) bury(ctx context.Context, key store.Key) {
	if _, err := s.reconcileGrave(ctx, key); err != nil {
		s.log.WarnContext(ctx, "elb: removing what is left of a load balancer", "key", key.String(), "err", err)
	}
}

// reconcileGrave removes the interfaces of a deleted load balancer.
func (s *Service) reconcileGrave(ctx context.Context, key store.Key) (time.Duration, error) {
	if _, err := graves.Get(s.store, key); err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	if _, err := s.net.EnsureInterfaces(ctx, key.Account, key.Region, elbnet.Interfaces{Requester: elbnet.Requester, Owner: key.ID}, nil); err != nil {
		return 0, fmt.Errorf("removing the interfaces of load balancer %s: %w", key.ID, err)
	}
	return 0, s.store.Update(ctx, func(tx *store.Tx) error {
		graves.Delete(tx, key)
		return nil
	})
}
