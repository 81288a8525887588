package programs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/idle"
	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// Modes returns the child modes.
func Modes() childproc.Modes {
	return childproc.Modes{
		launch.Containerd: func(ctx context.Context, _ childproc.Env) int {
			relax()
			go idle.Tend(ctx, func(bool) {})
			return code(runContainerd(ctx))
		},
		launch.KubeletRun: func(ctx context.Context, env childproc.Env) int {
			var cfg launch.Kubelet
			if err := json.Unmarshal(env.Config, &cfg); err != nil {
				return code(err)
			}
			relax()
			go idle.Tend(ctx, func(bool) {})
			return code(runKubelet(ctx, cfg))
		},
		launch.VolumeDriver: func(context.Context, childproc.Env) int { return code(runVolumeDriver()) },
		launch.KubeProxy:    func(_ context.Context, env childproc.Env) int { return runManagedKubeProxy(env.Config) },
		layers.Mode:         func(ctx context.Context, env childproc.Env) int { return code(runUnpack(ctx, env)) },
		launch.CoreDNS:      func(_ context.Context, env childproc.Env) int { return code(runManagedDNS(env.Config)) },
	}
}

// code reports an error and returns the exit code.
func code(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
