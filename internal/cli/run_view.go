package cli

import (
	"errors"
	"os"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
)

// secretsDir is where pods have their tokens.
const secretsDir = "/var/run/secrets"

// podViewCommand is the name of a command that drydock run --pod runs itself by.
const podViewCommand = "pod-view"

// newPodView becomes another program, after it has put a pod's files where that looks for
// them. Where the system does not permit that, the program runs without: its variables
// name the files.
func newPodView() *cobra.Command {
	return &cobra.Command{
		Use:                podViewCommand + " FOLDER PATH ARG0 [ARG...]",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			runtime.LockOSThread() // exec takes the privileges of its thread
			parent := os.Getppid()
			_ = enterPodView(podFiles{args[0]}.file(secretsDir))
			keepParent()
			if os.Getppid() != parent {
				return &ExitError{126, errors.New("drydock has ended")}
			}
			if err := syscall.Exec(args[1], args[2:], os.Environ()); err != nil {
				return &ExitError{126, err}
			}
			return nil
		},
	}
}
