package cli

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newDown(o *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop Drydock; its data stays",
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
			if err := syscall.Kill(info.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stopping process %d: %w", info.PID, err)
			}
			deadline := time.NewTimer(30 * time.Second)
			defer deadline.Stop()
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for alive(info.PID) {
				select {
				case <-tick.C:
				case <-deadline.C:
					return withHint(fmt.Errorf("process %d did not end in 30 s", info.PID), fmt.Sprintf("kill -9 %d   (nothing is lost by it)", info.PID))
				case <-cmd.Context().Done():
					return cmd.Context().Err()
				}
			}
			o.progress("Drydock is down. Its data is in %s.", info.DataDir)
			return nil
		},
	}
}
