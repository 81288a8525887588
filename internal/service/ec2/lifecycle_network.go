package ec2

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// runNetwork moves the network's long states on until ctx ends.
func (s *Service) runNetwork(ctx context.Context, g *errgroup.Group) {
	for _, cfg := range []reconcile.Config{
		{Name: "ec2/nat-gateway", Watcher: natGateways.Watch(s.store, store.Scope{}), Reconcile: s.reconcileNATGateway},
		{Name: "ec2/vpc-endpoint", Watcher: vpcEndpoints.Watch(s.store, store.Scope{}), Reconcile: s.reconcileEndpoint},
		{Name: "ec2/instance-connect-endpoint", Watcher: connectEndpoints.Watch(s.store, store.Scope{}), Reconcile: s.reconcileConnectEndpoint},
		{Name: "ec2/vpc-peering-connection", Watcher: peerings.Watch(s.store, store.Scope{}), Reconcile: s.reconcilePeering},
	} {
		cfg.Workers, cfg.Log = 2, s.log
		g.Go(func() error { return reconcile.Run(ctx, cfg) })
	}
}
