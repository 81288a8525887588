package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/drydock-dev/drydock/internal/machine"
)

// Manager owns the runtimes and knows which one runs which instance. It is itself
// a Runtime.
type Manager struct {
	choose   func(machine.Instance) string
	runtimes map[string]Runtime

	mu     sync.Mutex
	chosen map[string]Runtime // by instance ID
}

var _ Runtime = (*Manager)(nil)

// NewManager returns a manager of the given runtimes. choose names the runtime for
// an instance; nil means the first one given.
func NewManager(choose func(machine.Instance) string, runtimes ...Runtime) *Manager {
	m := &Manager{choose: choose, runtimes: map[string]Runtime{}, chosen: map[string]Runtime{}}
	for _, r := range runtimes {
		m.runtimes[r.Name()] = r
	}
	if choose == nil && len(runtimes) > 0 {
		first := runtimes[0].Name()
		m.choose = func(machine.Instance) string { return first }
	}
	return m
}

// Name is "manager".
func (m *Manager) Name() string { return "manager" }

// Start starts the instance in the runtime chosen for it. An instance that runs
// stays where it is.
func (m *Manager) Start(ctx context.Context, in machine.Instance) error {
	m.mu.Lock()
	r := m.chosen[in.ID]
	if r == nil && m.choose != nil {
		name := m.choose(in)
		if r = m.runtimes[name]; r == nil {
			m.mu.Unlock()
			return fmt.Errorf("starting %s: there is no node runtime %q", in.ID, name)
		}
		m.chosen[in.ID] = r
	}
	m.mu.Unlock()
	if r == nil {
		return fmt.Errorf("starting %s: there is no node runtime", in.ID)
	}
	if err := r.Start(ctx, in); err != nil {
		m.forget(in.ID)
		return err
	}
	return nil
}

// Stop stops the instance wherever it runs.
func (m *Manager) Stop(ctx context.Context, instanceID string) error {
	r := m.runtimeOf(instanceID)
	if r == nil {
		return nil
	}
	if err := r.Stop(ctx, instanceID); err != nil {
		return err
	}
	m.forget(instanceID)
	return nil
}

// Reboot reboots the instance wherever it runs.
func (m *Manager) Reboot(ctx context.Context, instanceID string) error {
	r := m.runtimeOf(instanceID)
	if r == nil {
		return ErrNotRunning
	}
	return r.Reboot(ctx, instanceID)
}

// Info asks the runtime that runs the instance.
func (m *Manager) Info(instanceID string) (Info, bool) {
	r := m.runtimeOf(instanceID)
	if r == nil {
		return Info{}, false
	}
	return r.Info(instanceID)
}

// PodSteps says what holds a pod back on its node, where the runtime knows.
func (m *Manager) PodSteps(instanceID, namespace, name string) []Step {
	if r, ok := m.runtimeOf(instanceID).(interface {
		PodSteps(instanceID, namespace, name string) []Step
	}); ok {
		return r.PodSteps(instanceID, namespace, name)
	}
	return nil
}

// Shutdown ends all runtimes and returns when all have ended.
func (m *Manager) Shutdown(ctx context.Context) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, r := range m.runtimes {
		wg.Go(func() {
			if err := r.Shutdown(ctx); err != nil {
				mu.Lock()
				errs = append(errs, fmt.Errorf("shutting down node runtime %s: %w", r.Name(), err))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (m *Manager) runtimeOf(instanceID string) Runtime {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chosen[instanceID]
}

func (m *Manager) forget(instanceID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.chosen, instanceID)
}
