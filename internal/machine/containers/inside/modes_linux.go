package inside

import (
	"context"
	"fmt"
	"os"

	"github.com/drydock-dev/drydock/internal/childproc"
)

// HostModes returns the child mode of Drydock's own binary.
func HostModes() childproc.Modes {
	return childproc.Modes{HostMode: func(ctx context.Context, env childproc.Env) int { return exit(runHost(ctx, env)) }}
}

// MachineModes returns the child mode of drydock-machine.
func MachineModes() childproc.Modes {
	return childproc.Modes{MachineMode: func(ctx context.Context, env childproc.Env) int { return exit(runMachine(ctx, env)) }}
}

func exit(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
