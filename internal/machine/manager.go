package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Manager is a Runtime that consists of others and chooses one for each machine.
type Manager struct {
	choose   func(Instance) string
	runtimes []Runtime
}

var _ Runtime = (*Manager)(nil)

// NewManager returns a manager of at least one runtime. choose returns the name of the runtime for a machine that is
// switched on; nil means the first one.
func NewManager(choose func(Instance) string, runtimes ...Runtime) *Manager {
	if choose == nil {
		choose = func(Instance) string { return runtimes[0].Name() }
	}
	return &Manager{choose, runtimes}
}

// Name is "manager".
func (m *Manager) Name() string { return "manager" }

// Start starts the machine in the runtime chosen for it. A machine that is on stays in its runtime.
func (m *Manager) Start(ctx context.Context, in Instance) error {
	if _, ok := m.Machine(in.ID); ok {
		return nil
	}
	name := m.choose(in)
	for _, r := range m.runtimes {
		if r.Name() == name {
			return r.Start(ctx, in)
		}
	}
	var names []string
	for _, r := range m.runtimes {
		names = append(names, r.Name())
	}
	return fmt.Errorf("starting %s: there is no machine runtime %q, only %s", in.ID, name, strings.Join(names, " and "))
}

// Machine returns the machine from whichever runtime runs it.
func (m *Manager) Machine(id string) (Machine, bool) {
	for _, r := range m.runtimes {
		if machine, ok := r.Machine(id); ok {
			return machine, true
		}
	}
	return nil, false
}

// Shutdown shuts down all runtimes concurrently and returns when all have ended.
func (m *Manager) Shutdown(ctx context.Context) error {
	errs := make([]error, len(m.runtimes))
	var g errgroup.Group
	for i, r := range m.runtimes {
		g.Go(func() error {
			if err := r.Shutdown(ctx); err != nil {
				errs[i] = fmt.Errorf("shutting down machine runtime %s: %w", r.Name(), err)
			}
			return nil
		})
	}
	_ = g.Wait() // errs contains them
	return errors.Join(errs...)
}
