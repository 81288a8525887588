package elbv2

import (
	"context"
	"fmt"
	"maps"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// Run reconciles load balancers until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	all := []reconcile.Config{
		{Name: "elbv2/loadbalancer", Watcher: loadBalancers.Watch(s.Store, store.Scope{}), Log: s.Log, Clock: s.Clock, Reconcile: s.reconcileLoadBalancer, Hold: s.Held},
		{Name: "elbv2/deleted", Watcher: deletions.Watch(s.Store, store.Scope{}), Log: s.Log, Clock: s.Clock, Reconcile: s.reconcileDeleted},
	}
	if s.Traffic != nil {
		all = append(all, s.traffic())
	}
	return reconcile.Run(ctx, all...)
}

// interfaces returns the interfaces that a load balancer should have. Their descriptions are AWS's:
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/target-group-register-targets.html#target-security-groups
func (r *loadBalancerRecord) interfaces() elbnet.Interfaces {
	want := elbnet.Interfaces{
		Requester: elbnet.Requester, Owner: r.id(), Description: elbnet.Description(r.id()), Type: "interface",
		Subnets: r.subnets(), Addresses: r.Addresses, Allocations: r.Allocations, Groups: r.LB.SecurityGroups,
		Public: r.LB.Scheme == elbv2types.LoadBalancerSchemeEnumInternetFacing,
	}
	if r.network() {
		want.Type = "network_load_balancer"
	}
	return want
}

// reconcileLoadBalancer creates a load balancer's interfaces, then makes it active.
func (s *Service) reconcileLoadBalancer(ctx context.Context, key store.Key) (time.Duration, error) {
	r, err := loadBalancers.Get(s.Store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	made, err := s.Network.EnsureInterfaces(ctx, key.Account, key.Region, r.interfaces(), func(tx store.Reader) bool {
		now, err := loadBalancers.Get(tx, key)
		return err == nil && now.arn() == r.arn()
	})
	if err != nil {
		return 0, fmt.Errorf("the interfaces of load balancer %s: %w", r.id(), err)
	}
	have := elbnet.ByZone(made)
	provisioning := r.LB.State.Code == elbv2types.LoadBalancerStateEnumProvisioning
	wait := time.Duration(0)
	if provisioning {
		wait = s.Timing.LoadBalancerProvisioning - s.Now().Sub(*r.LB.CreatedTime)
	}
	if !maps.Equal(have, r.Interfaces) || provisioning && wait <= 0 {
		err = loadBalancers.UpdateOne(ctx, s.Store, key, func(now *loadBalancerRecord) error {
			if now.arn() != r.arn() {
				return nil // a different load balancer of the same name
			}
			now.Interfaces = have
			if wait <= 0 {
				now.LB.State = &elbv2types.LoadBalancerState{Code: elbv2types.LoadBalancerStateEnumActive}
			}
			return nil
		})
	}
	return max(wait, 0), store.IgnoreNotFound(err)
}

// reconcileDeleted removes the remains of a deleted load balancer.
func (s *Service) reconcileDeleted(ctx context.Context, key store.Key) (time.Duration, error) {
	if _, err := deletions.Get(s.Store, key); err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	if err := s.RemoveInterfaces(ctx, key); err != nil {
		return 0, err
	}
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		left := rules.All(tx, regional.At(key.Account, key.Region).Below(key.ID))
		const batch = 90
		for _, r := range left[:min(len(left), batch)] {
			rules.Delete(tx, r.Key)
		}
		if len(left) <= batch {
			deletions.Delete(tx, key)
			return nil
		}
		return deletions.Put(tx, key, deletionRecord{s.Now()}) // the change triggers this function again
	})
}
