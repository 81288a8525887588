package endpoint

import (
	"context"
	"time"

	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/routing"
	"github.com/drydock-dev/drydock/internal/store"
)

// An endpointLife has the fields of an endpoint's record that change during its life cycle. VPC
// endpoints and EC2 Instance Connect endpoints have them.
type endpointLife struct {
	state      *string
	since      *time.Time
	interfaces []string
}

// endpointStates are the names of the states while an endpoint is created, exists, and is deleted.
type endpointStates struct{ pending, available, deleting string }

// advance moves an endpoint to its next state when it is due.
func advance[T any](ctx context.Context, s *Service, c resource.Kind[T], k store.Key, states endpointStates, life func(*T) endpointLife) (time.Duration, error) {
	e, err := c.Get(s.Store, k)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	seen := life(&e)
	from := *seen.state
	var lasts time.Duration
	switch from {
	case states.pending:
		lasts = s.Timing.EndpointPending
	case states.deleting:
		lasts = s.Timing.EndpointDeleting
	default:
		return 0, nil
	}
	if left := seen.since.Add(lasts).Sub(s.Now()); left > 0 {
		return left, nil
	}
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		e, err := c.Get(tx, k)
		if err != nil {
			return store.IgnoreNotFound(err)
		}
		now := life(&e)
		switch {
		case *now.state != from:
			return nil
		case from == states.pending:
			*now.state, *now.since = states.available, s.Now()
			return c.Put(tx, k, e)
		}
		for _, id := range now.interfaces {
			if err := routing.RemoveInterfaceByID(tx, resource.KeyScope(k), id); err != nil {
				return err
			}
		}
		c.Delete(tx, k)
		return nil
	})
}

// Reconcilers complete the creation and deletion of endpoints.
func (s *Service) Reconcilers() []reconcile.Config {
	return []reconcile.Config{
		{Name: "ec2/vpc-endpoint", Watcher: record.VPCEndpoints.Watch(s.Store, store.Scope{}), Reconcile: s.reconcileEndpoint, Workers: 2},
		{Name: "ec2/instance-connect-endpoint", Watcher: record.ConnectEndpoints.Watch(s.Store, store.Scope{}), Reconcile: s.reconcileConnectEndpoint, Workers: 2},
	}
}
