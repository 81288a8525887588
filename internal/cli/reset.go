package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/api"
)

var accountID = regexp.MustCompile(`^[0-9]{12}$`)

func newReset(o *globalOptions) *cobra.Command {
	var account string
	var all, yes bool
	cmd := &cobra.Command{
		Use:   "reset [--account ACCOUNT | --all]",
		Short: "Empty an account, or all of them",
		Long: `Delete every resource and every cluster of an account, or of all accounts. For all
accounts it asks first on a terminal; elsewhere it needs --all --yes.`,
		Example: "  drydock reset --account 111122223333\n  drydock reset --all --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case account != "" && !accountID.MatchString(account):
				return &ExitError{2, fmt.Errorf("--account %q is not a 12-digit account ID", account)}
			case account != "" && all:
				return &ExitError{2, errors.New("--account and --all cannot be used together")}
			}
			daemon, err := o.client()
			if err != nil {
				return err
			}
			if account == "" && !(all && yes) {
				if err := o.confirmReset(cmd.Context(), daemon); err != nil {
					return err
				}
			}
			if err := daemon.Reset(cmd.Context(), account); err != nil {
				return err
			}
			if account == "" {
				o.progress("All accounts are empty.")
			} else {
				o.progress("Account %s is empty.", account)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "the account to empty")
	cmd.Flags().BoolVar(&all, "all", false, "empty all accounts")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --all: do not ask for confirmation")
	return cmd
}

// confirmReset asks before all accounts are emptied. Where it cannot ask it refuses.
func (o *globalOptions) confirmReset(ctx context.Context, daemon *api.Client) error {
	if !o.interactive() {
		return &ExitError{2, withHint(errors.New("this deletes everything in all accounts"), "drydock reset --all --yes"+dataDirFlag(daemon.Daemon.DataDir))}
	}
	s, err := daemon.Status(ctx)
	if err != nil {
		return err
	}
	o.progress("This deletes everything in all accounts in %s: %d clusters, %d instances and all other resources.", daemon.Daemon.DataDir, len(s.Clusters), s.Nodes)
	if !o.agrees("Delete it?") {
		return &ExitError{1, errors.New("nothing was deleted")}
	}
	return nil
}

// isTerminal reports whether questions can be asked on a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}
