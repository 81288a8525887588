package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

// How long a daemon may take to end by itself, and to end after SIGKILL. Its own limit is shorter than the first.
const (
	stopPatience = 25 * time.Second
	killPatience = 5 * time.Second
)

func newDown(o *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop Drydock; keep its data",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := o.readInfo()
			if errors.Is(err, errNotRunning) {
				o.progress("No Drydock is running on %s.", o.dataDir)
				return nil
			}
			if err != nil {
				return err
			}
			if err := o.stop(cmd.Context(), info, stopPatience); err != nil {
				return err
			}
			o.progress("Drydock is down. Its data is in %s.", info.DataDir)
			return nil
		},
	}
}

// stop ends a daemon, cleanly if it ends within patience.
func (o *globalOptions) stop(ctx context.Context, info api.DaemonInfo, patience time.Duration) error {
	// SIGCONT wakes a stopped daemon (SIGSTOP, Ctrl-Z), which would not see the other signal.
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := syscall.Kill(info.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping process %d: %w", info.PID, err)
		}
	}
	if gone, err := waitGone(ctx, info.PID, patience); gone || err != nil {
		return err
	}
	// The store survives this at any moment, and the daemon's children die with it.
	o.progress("Process %d did not stop within %s and will be killed. No data is lost.", info.PID, patience)
	if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing process %d: %w", info.PID, err)
	}
	gone, err := waitGone(ctx, info.PID, killPatience)
	if err != nil {
		return err
	}
	if !gone {
		return withHint(fmt.Errorf("process %d did not exit after SIGKILL: it may be waiting for a disk that does not respond", info.PID), fmt.Sprintf("ps -o stat,wchan,args -p %d", info.PID))
	}
	return nil // its record stays, but is ignored: the disk may hang
}

// waitGone waits for a process to end. It returns false if the process has not ended in time.
func waitGone(ctx context.Context, pid int, patience time.Duration) (bool, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for alive(pid) {
		select {
		case <-tick.C:
		case <-deadline.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return true, nil
}
