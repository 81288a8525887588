package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

func newWhyServiceAccount(o *globalOptions) *cobra.Command {
	var cluster, account, region, output string
	var fix applyFlags
	cmd := &cobra.Command{
		Use:   "serviceaccount NAMESPACE/NAME",
		Short: "Explain which IAM role the pods of a service account get, or why they get none",
		Long: `Explain the chain by which the pods of a service account get an IAM role: the
annotation or the EKS Pod Identity association, the token in the pod with its
issuer, subject and audience, the OpenID Connect provider registered in IAM, the
role's trust policy with the values its conditions want and those the token has,
and what the role may do. The first broken link is shown, with the error the pod
gets from AWS and a fix.

The exit code is 0 if the chain holds, 1 if it is broken, 2 if it cannot be determined, 3 if it
depends on something that the source of a twin did not allow to be read.`,
		Example: `  drydock why serviceaccount shop/cart --cluster dev
  drydock why serviceaccount kube-system/aws-node --cluster dev --output json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, ok := strings.Cut(args[0], "/")
			if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
				return &ExitError{2, withHint(fmt.Errorf("%q is not NAMESPACE/NAME", args[0]), "drydock why serviceaccount default/default")}
			}
			if err := checkFlags(account, output); err != nil {
				return err
			}
			daemon, err := o.client()
			if err != nil {
				return &ExitError{2, err}
			}
			ask := func(ctx context.Context) (api.ServiceAccountExplanation, error) {
				return daemon.WhyServiceAccount(ctx, api.Place{Account: account, Region: region}, cluster, namespace, name)
			}
			e, err := ask(cmd.Context())
			if err != nil {
				return &ExitError{2, o.orHint(err, "drydock status", "drydock status")}
			}
			if output == "json" {
				err = o.printJSON(e)
			} else {
				_, err = fmt.Fprint(o.streams.Out, e.Text())
			}
			if err == nil && len(e.Unknown) > 0 {
				return &ExitError{Code: 3}
			}
			broken := e.Broken()
			if err != nil || broken == nil {
				return err
			}
			o.noteAccount(account)
			if fix.account = account; !fix.apply {
				return &ExitError{Code: 1}
			}
			return fix.mend(cmd.Context(), o, broken.Fixes, func(ctx context.Context) (outcome, error) {
				e, err := ask(ctx)
				now := e.Broken()
				if now == nil || now.Name != broken.Name {
					return outcome{done: err == nil}, err
				}
				return outcome{says: now.Name + ": " + now.Says}, err
			})
		},
	}
	fix.add(cmd)
	f := cmd.Flags()
	f.StringVar(&cluster, "cluster", "", "the cluster (optional if there is only one)")
	f.StringVar(&account, "account", defaultAccount(), accountUsage)
	f.StringVar(&region, "region", defaultRegion(), "the region")
	f.StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}
