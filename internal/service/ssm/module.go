package ssm

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/reconcile"
)

// Module declares the service to the daemon. fleet has the daemon's instances.
func (s *Service) Module(fleet Fleet) module.Module {
	s.fleet = fleet
	return module.Module{Service: s.AWS(), Resolver: s.Authz(), Tagging: s.taggable(), Run: s.run, Events: s.followPolicies, Reset: s.reset, Import: importRecords}
}

// errEnding is the cause with which commands are cancelled when the daemon shuts down or their account is reset.
var errEnding = errors.New("the daemon is shutting down")

// run runs associations until the daemon shuts down. It then ends all sessions and commands, and waits until their states are stored.
func (s *Service) run(ctx context.Context) error {
	err := reconcile.Run(ctx, s.reconcilers()...)
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.endAll("")
	s.working.Wait()
	return err
}

// reset ends the sessions and commands of an account, or of all accounts if account is empty.
func (s *Service) reset(_ context.Context, account string) error {
	s.endAll(account)
	return nil
}

func (s *Service) endAll(account string) {
	s.mu.Lock()
	sessions := slices.Collect(maps.Values(s.live))
	for _, c := range s.cancels {
		if account == "" || c.account == account {
			c.cancel(errEnding)
		}
	}
	s.mu.Unlock()
	var ends sync.WaitGroup
	for _, l := range sessions {
		if account == "" || l.sc.Account == account {
			ends.Go(func() { l.end("") }) // each takes a while if its client does not read
		}
	}
	ends.Wait()
}
