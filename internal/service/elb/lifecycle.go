package elb

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// Run reconciles load balancers until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	all := []reconcile.Config{
		{Name: "elb/loadbalancer", Watcher: loadBalancers.Watch(s.Store, store.Scope{}), Log: s.Log, Clock: s.Clock, Reconcile: s.reconcileLoadBalancer, Hold: s.Held},
		{Name: "elb/deleted", Watcher: deletions.Watch(s.Store, store.Scope{}), Log: s.Log, Clock: s.Clock, Reconcile: s.reconcileDeleted},
	}
	if s.Traffic != nil {
		all = append(all, s.traffic())
	}
	return reconcile.Run(ctx, all...)
}

// reconcileLoadBalancer creates a load balancer's interfaces.
func (s *Service) reconcileLoadBalancer(ctx context.Context, key store.Key) (time.Duration, error) {
	r, err := loadBalancers.Get(s.Store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	made, err := s.Network.EnsureInterfaces(ctx, key.Account, key.Region, elbnet.Interfaces{
		Requester: elbnet.Requester, Owner: r.UID, Description: elbnet.Description(r.Name), Type: "interface",
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
	return 0, store.IgnoreNotFound(loadBalancers.UpdateOne(ctx, s.Store, key, func(now *loadBalancerRecord) error {
		if now.UID == r.UID {
			now.Interfaces = have
		}
		return nil
	}))
}

// reconcileDeleted removes the interfaces of a deleted load balancer.
func (s *Service) reconcileDeleted(ctx context.Context, key store.Key) (time.Duration, error) {
	if _, err := deletions.Get(s.Store, key); err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	if err := s.RemoveInterfaces(ctx, key); err != nil {
		return 0, err
	}
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		deletions.Delete(tx, key)
		return nil
	})
}
