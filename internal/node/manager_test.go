package node_test

import (
	"context"
	"errors"
	"testing"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// oneRuntime is a runtime that remembers what runs.
type oneRuntime struct {
	name    string
	running map[string]bool
	err     error
}

func (r *oneRuntime) Name() string { return r.name }

func (r *oneRuntime) Start(_ context.Context, in machine.Instance) error {
	if r.err == nil {
		r.running[in.ID] = true
	}
	return r.err
}

func (r *oneRuntime) Stop(_ context.Context, id string) error {
	delete(r.running, id)
	return r.err
}

func (r *oneRuntime) Reboot(context.Context, string) error { return r.err }

func (r *oneRuntime) Info(id string) (node.Info, bool) {
	return node.Info{InstanceID: id}, r.running[id]
}

func (r *oneRuntime) Shutdown(context.Context) error { return r.err }

func TestManagerChoosesARuntimePerInstance(t *testing.T) {
	ctx := t.Context()
	simulated := &oneRuntime{name: "simulated", running: map[string]bool{}}
	containers := &oneRuntime{name: "containers", running: map[string]bool{}}
	m := node.NewManager(func(in machine.Instance) string { return in.Tags["runtime"] }, simulated, containers)

	start := func(id, runtime string) error {
		return m.Start(ctx, machine.Instance{ID: id, Tags: map[string]string{"runtime": runtime}})
	}
	for id, runtime := range map[string]string{"i-1": "simulated", "i-2": "containers"} {
		if err := start(id, runtime); err != nil {
			t.Fatal(err)
		}
	}
	if !simulated.running["i-1"] || !containers.running["i-2"] || len(simulated.running)+len(containers.running) != 2 {
		t.Errorf("running: %v and %v", simulated.running, containers.running)
	}
	if err := start("i-3", "unikernels"); err == nil {
		t.Error("an unknown runtime was taken")
	}
	// An instance that runs stays where it is.
	if err := start("i-1", "containers"); err != nil || containers.running["i-1"] {
		t.Errorf("it moved: %v", err)
	}
	if _, ok := m.Info("i-2"); !ok {
		t.Error("i-2 is not known")
	}
	if err := m.Stop(ctx, "i-2"); err != nil || containers.running["i-2"] {
		t.Errorf("stopping: %v", err)
	}
	if _, ok := m.Info("i-2"); ok {
		t.Error("i-2 is still known")
	}
	if err := m.Stop(ctx, "i-unknown"); err != nil {
		t.Errorf("stopping an unknown instance: %v", err)
	}
	if err := m.Reboot(ctx, "i-unknown"); !errors.Is(err, node.ErrNotRunning) {
		t.Errorf("rebooting an unknown instance: %v", err)
	}
	simulated.err = errors.New("no")
	if err := start("i-4", "simulated"); err == nil {
		t.Error("an error was lost")
	}
	if err := m.Shutdown(ctx); !errors.Is(err, simulated.err) {
		t.Errorf("shutting down: %v", err)
	}
}
