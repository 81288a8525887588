package cli

import (
	"regexp"

	"fmt"

	"github.com/spf13/cobra"
)

var accountID = regexp.MustCompile(`^[0-9]{12}$`)

func newReset(o *globalOptions) *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Empty an account, or all of them",
		Long:  "Delete every resource and every cluster of an account, or of all accounts.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if account != "" && !accountID.MatchString(account) {
				return &ExitError{2, fmt.Errorf("--account %q is not a 12-digit account ID", account)}
			}
			daemon, err := o.client()
			if err != nil {
				return err
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
	cmd.Flags().StringVar(&account, "account", "", "the account to empty (default: all)")
	return cmd
}
