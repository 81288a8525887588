// Package transit manages transit gateways, the attachments of VPCs to them, and their route tables.
//
// A transit gateway belongs to one account and cannot be shared, so no attachment waits for acceptance. Only VPCs can
// be attached. Associations and propagations take effect at once, although responses show AWS's transitional states.
package transit

import (
	"context"
	"time"

	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// Service handles the operations on transit gateways.
type Service struct {
	*resource.Core
	interfaces *eni.Service
}

// New returns the service on top of core. Attachments have network interfaces.
func New(core *resource.Core, interfaces *eni.Service) *Service {
	return &Service{Core: core, interfaces: interfaces}
}

// Reconcilers advance the states of transit gateways, attachments and route tables.
func (s *Service) Reconcilers() []reconcile.Config {
	return []reconcile.Config{
		{Name: "ec2/transit-gateway", Watcher: record.TransitGateways.Watch(s.Store, store.Scope{}), Workers: 1,
			Reconcile: advance(s, record.TransitGateways, func(g *record.TransitGateway) *record.TransitLife { return &g.TransitLife })},
		{Name: "ec2/transit-gateway-attachment", Watcher: record.TransitAttachments.Watch(s.Store, store.Scope{}), Workers: 1,
			Reconcile: advance(s, record.TransitAttachments, func(a *record.TransitAttachment) *record.TransitLife { return &a.TransitLife })},
		{Name: "ec2/transit-gateway-route-table", Watcher: record.TransitRouteTables.Watch(s.Store, store.Scope{}), Workers: 1,
			Reconcile: advance(s, record.TransitRouteTables, func(t *record.TransitRouteTable) *record.TransitLife { return &t.TransitLife })},
	}
}

// advance returns a reconciler that moves a record to its next state when it is due. What it has does not depend on
// its state: an attachment's interfaces, for example, go when it is deleted, in the same transaction as the request.
func advance[T any](s *Service, kind resource.Kind[T], life func(*T) *record.TransitLife) func(context.Context, store.Key) (time.Duration, error) {
	next := func(l *record.TransitLife) (time.Duration, string) {
		switch l.State {
		case record.TransitPending, record.TransitModifying:
			return s.Timing.TransitGatewayPending, record.TransitAvailable
		case record.TransitDeleting:
			return s.Timing.TransitGatewayDeleting, record.TransitDeleted
		case record.TransitDeleted:
			return s.Timing.TransitGatewayDeletedVisible, ""
		}
		return 0, l.State
	}
	return func(ctx context.Context, k store.Key) (time.Duration, error) {
		v, err := kind.Get(s.Store, k)
		if err != nil {
			return 0, store.IgnoreNotFound(err)
		}
		l := *life(&v)
		lasts, to := next(&l)
		if to == l.State {
			return 0, nil
		}
		if left := l.Since.Add(lasts).Sub(s.Now()); left > 0 {
			return left, nil
		}
		return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
			v, err := kind.Get(tx, k)
			if err != nil {
				return store.IgnoreNotFound(err)
			}
			now := life(&v)
			if now.State != l.State {
				return nil
			}
			if to == "" {
				kind.Delete(tx, k)
				return nil
			}
			now.State, now.Since = to, s.Now()
			return kind.Put(tx, k, v)
		})
	}
}

// begin returns the life of something new.
func (s *Service) begin() record.TransitLife {
	return record.TransitLife{State: record.TransitPending, Since: s.Now(), Created: s.Now()}
}

// enter changes the state.
func (s *Service) enter(l *record.TransitLife, state string) { l.State, l.Since = state, s.Now() }
