// Package app is the composition root: it makes every part of Drydock and
// connects them, in one flat list (services.go). Only cmd/drydock imports it.
package app

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/cli"
)

// version is set by the linker.
var version = "dev"

// Main is the whole program: a child process if args ask for one, otherwise the command line. It returns the exit
// code.
func Main(args []string, modes childproc.Modes) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if code, ok := modes.Dispatch(ctx, args); ok {
		return code
	}
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	return cli.Run(ctx, args[1:], streams, cli.Config{
		Version: versionInfo(),
		RunDaemon: func(ctx context.Context, cfg cli.DaemonConfig, ready func(api.DaemonInfo)) error {
			return endInTime(ctx, maxShutdown, func() error { return runDaemon(ctx, cfg, ready) })
		},
		Supports: supported,
	})
}

// maxShutdown is how long the daemon may take to shut down: less than `drydock
// down` waits for it.
const maxShutdown = 20 * time.Second

// endInTime calls run and returns its result. If run has not returned within limit after ctx ends, endInTime returns
// anyway: whatever hangs ends with the process, and so do the children. The store loses no data.
func endInTime(ctx context.Context, limit time.Duration, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		out := newLogWriter(os.Stderr) // the log may be what hangs
		fmt.Fprintf(out, "drydock: some parts did not stop within %s and are killed; no data is lost\n", limit)
		_ = pprof.Lookup("goroutine").WriteTo(out, 1)
		out.Close(logPatience)
		return &cli.ExitError{Code: 1} // the message is already printed
	}
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
