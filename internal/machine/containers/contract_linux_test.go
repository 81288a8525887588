package containers_test

import (
	"context"
	"testing"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/machine/machinetest"
)

func TestContract(t *testing.T) {
	needContainers(t)
	dirs := map[string]string{} // by the test
	last := map[string]*containers.Runtime{}
	in := instance("i-a", "10.0.0.11")
	in.BootID = "boot"
	machinetest.Run(t, machinetest.World{
		Instance: in, KernelTerminals: true,
		Runtime: func(t *testing.T) machine.Runtime {
			if dirs[t.Name()] == "" {
				dirs[t.Name()] = t.TempDir()
			}
			if l := last[t.Name()]; l != nil { // a folder has one runtime
				if err := l.Shutdown(context.Background()); err != nil {
					t.Errorf("shutting down: %v", err)
				}
			}
			var r *containers.Runtime
			r = containers.New(newConfig(t, &r, dirs[t.Name()], idle{t}))
			last[t.Name()] = r
			t.Cleanup(func() {
				if err := r.Shutdown(context.Background()); err != nil {
					t.Errorf("shutting down: %v", err)
				}
			})
			return r
		},
	})
}
