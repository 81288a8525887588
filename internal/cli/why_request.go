package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func newWhyRequest(o *globalOptions) *cobra.Command {
	var account, output string
	var last bool
	var fix applyFlags
	cmd := &cobra.Command{
		Use:   "request REQUEST-ID | request --last-denied",
		Short: "Explain why a request was refused",
		Long: `Explain why a request to the AWS API was refused: who asked for which action on
which resource, every policy with the statements that matched, or the element or
condition key that did not, with both values, and the smallest change that would
allow it.

The request ID is in errors of the AWS CLI (with --debug), the SDKs and Terraform,
and in CloudTrail events. The explanation was recorded when the request was refused;
the last line says whether current policies would allow it.

The exit code is 0 if the request was refused and explained, 2 if there is no such request.`,
		Example: `  drydock why request --last-denied
  drydock why request 7f1d0e3c-2f0a-4c0e-9a51-0d3c1f2b7a11 --output json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if last == (len(args) == 1) {
				return &ExitError{2, withHint(fmt.Errorf("give one request ID, or --last-denied"), "drydock why request --last-denied")}
			}
			if err := checkFlags(account, output); err != nil {
				return err
			}
			daemon, err := o.client()
			if err != nil {
				return &ExitError{2, err}
			}
			id := "" // the last one
			if !last {
				id = args[0]
			}
			e, err := daemon.WhyRequest(cmd.Context(), account, id)
			if err != nil {
				return &ExitError{2, o.orHint(err, "drydock status", "aws cloudtrail lookup-events --max-items 20")}
			}
			if output == "json" {
				return o.printJSON(e)
			}
			_, err = fmt.Fprint(o.streams.Out, e.Text())
			if fix.account = e.Account; len(e.Fixes) > 0 {
				o.noteAccount(e.Account)
			}
			if err == nil && fix.apply {
				id := e.RequestID
				return fix.mend(cmd.Context(), o, e.Fixes, func(ctx context.Context) (outcome, error) {
					e, err := daemon.WhyRequest(ctx, account, id)
					return outcome{done: e.Now != nil && e.Now.Allowed, says: "current policies would still deny it"}, err
				})
			}
			return err
		},
	}
	fix.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&last, "last-denied", false, "explain the last request that was refused")
	f.StringVar(&account, "account", "", "the account (default: any)")
	f.StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}
