package machine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/machine"
)

// oneRuntime is a runtime that records which machines are on.
type oneRuntime struct {
	name string
	on   map[string]bool
	err  error
}

// oneMachine is a machine that can only be on.
type oneMachine struct{ machine.Machine }

func (r *oneRuntime) Name() string { return r.name }

func (r *oneRuntime) Start(_ context.Context, in machine.Instance) error {
	if r.err == nil {
		r.on[in.ID] = true
	}
	return r.err
}

func (r *oneRuntime) Machine(id string) (machine.Machine, bool) { return oneMachine{}, r.on[id] }

func (r *oneRuntime) Shutdown(context.Context) error { return r.err }

func TestManagerChoosesARuntimePerMachine(t *testing.T) {
	ctx := t.Context()
	simulated := &oneRuntime{name: "simulated", on: map[string]bool{}}
	containers := &oneRuntime{name: "containers", on: map[string]bool{}}
	m := machine.NewManager(func(in machine.Instance) string { return in.Tags["runtime"] }, simulated, containers)

	start := func(id, runtime string) error {
		return m.Start(ctx, machine.Instance{ID: id, Tags: map[string]string{"runtime": runtime}})
	}
	for id, runtime := range map[string]string{"i-1": "simulated", "i-2": "containers"} {
		if err := start(id, runtime); err != nil {
			t.Fatal(err)
		}
		if _, ok := m.Machine(id); !ok {
			t.Errorf("%s is not on", id)
		}
	}
	if !simulated.on["i-1"] || !containers.on["i-2"] || len(simulated.on)+len(containers.on) != 2 {
		t.Errorf("on: %v and %v", simulated.on, containers.on)
	}
	if err := start("i-3", "unikernels"); err == nil || !strings.Contains(err.Error(), "only simulated and containers") {
		t.Errorf("an unknown runtime: %v", err)
	}
	if err := start("i-1", "containers"); err != nil || containers.on["i-1"] {
		t.Errorf("a machine that is on moved to another runtime (%v)", err)
	}
	delete(simulated.on, "i-1")
	if _, ok := m.Machine("i-1"); ok {
		t.Error("a machine that is off is on")
	}
	if err := start("i-1", "containers"); err != nil || !containers.on["i-1"] {
		t.Errorf("a machine that was off could not start in another runtime (%v)", err)
	}
	broken := errors.New("broken")
	simulated.err = broken
	if err := start("i-4", "simulated"); !errors.Is(err, broken) {
		t.Errorf("starting in a broken runtime: %v", err)
	}
	if err := m.Shutdown(ctx); !errors.Is(err, broken) {
		t.Errorf("shutting down a broken runtime: %v", err)
	}
}
