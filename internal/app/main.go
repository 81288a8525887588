// Package app is the composition root: it makes every part of Drydock and
// connects them, in one flat list (services.go). Only cmd/drydock imports it.
package app

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/cli"
)

// version is set by the linker.
var version = "dev"

// Main is the whole program: a child process if args ask for one, else the
// command line. It returns the exit code.
func Main(args []string, modes childproc.Modes) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if code, ok := modes.Dispatch(ctx, args); ok {
		return code
	}
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	return cli.Run(ctx, args[1:], streams, cli.Config{
		Version:   versionInfo(),
		RunDaemon: runDaemon,
	})
}

func versionInfo() cli.Version {
	v := cli.Version{Drydock: version, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "k8s.io/kubernetes" {
				v.Kubernetes = dep.Version
			}
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}
