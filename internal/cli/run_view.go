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
	return newView(podViewCommand+" FOLDER", func(folder string) { _ = enterPodView(podFiles{folder}.file(secretsDir)) })
}

// newView returns a hidden command that changes what its process sees and then becomes another program.
func newView(use string, enter func(what string)) *cobra.Command {
	return &cobra.Command{
		Use:                use + " PATH ARG0 [ARG...]",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			runtime.LockOSThread() // exec takes the privileges of its thread
			parent := os.Getppid()
			enter(args[0])
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
