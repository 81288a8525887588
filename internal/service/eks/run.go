package eks

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/reconcile"
)

// Run reconciles clusters and what belongs to them until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	// Sessions outlive the reconcilers, which use them, and end with them.
	sessions, endSessions := context.WithCancel(context.WithoutCancel(ctx))
	defer endSessions()
	ready := make(chan struct{})
	var outer errgroup.Group
	outer.Go(func() error { s.sessions.Run(sessions, ready); return nil })
	<-ready
	err := reconcile.Run(ctx, s.clusters.Reconciler(), s.nodegroups.Reconciler(), s.profiles.Reconciler(), s.addons.Reconciler())
	endSessions()
	return errors.Join(err, outer.Wait())
}
