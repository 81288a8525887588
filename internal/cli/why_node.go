package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

// A whyNodeFlags holds the flags that the commands about nodes share.
type whyNodeFlags struct{ account, region, output string }

func (f *whyNodeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.account, "account", defaultAccount(), accountUsage)
	cmd.Flags().StringVar(&f.region, "region", defaultRegion(), "the region")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
}

func (f *whyNodeFlags) place() api.Place { return api.Place{Account: f.account, Region: f.region} }

func (f *whyNodeFlags) check() error { return checkFlags(f.account, f.output) }

// checkFlags checks --account and --output.
func checkFlags(account, output string) error {
	switch {
	case account != "" && !accountID.MatchString(account):
		return &ExitError{2, fmt.Errorf("--account %q is not a 12-digit account ID", account)}
	case output != "text" && output != "json":
		return &ExitError{2, fmt.Errorf("--output %q is neither text nor json", output)}
	}
	return nil
}

func newWhyNode(o *globalOptions) *cobra.Command {
	var c chainCommand
	cmd := &cobra.Command{
		Use:   "node NAME|INSTANCE-ID",
		Short: "Show how far an instance got in joining its cluster, and what stops it",
		Long: `Show the steps by which an instance becomes a node of its cluster: boot, metadata,
user data, its name from EC2, credentials, DNS and the connection to the API
server, the mapping of its role, registration, versions, the image of the VPC CNI
plugin, addresses for pods. The first step that fails is shown with the symptom
that AWS shows, what decided it, and a command that would fix it.

The exit code is 0 if the node is Ready, 1 if it is not, 2 if there is no such node.`,
		Example: `  drydock why node i-0123456789abcdef0
  drydock why node ip-172-31-0-10.ec2.internal --output json
  drydock why node i-0123456789abcdef0 --watch`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.run(cmd.Context(), o, "aws ec2 describe-instances --region "+c.region, func(ctx context.Context, daemon *api.Client) (explanation, error) {
				e, err := daemon.WhyNode(ctx, c.place(), args[0])
				return &e, err
			})
		},
	}
	c.add(cmd, "show steps as they happen, until the node is Ready")
	cmd.ValidArgsFunction = completeOne(func(ctx context.Context) []string { return o.nodeNames(ctx, c.account, c.region) })
	return cmd
}

func newWhyNodegroup(o *globalOptions) *cobra.Command {
	var f whyNodeFlags
	var fix applyFlags
	var cluster string
	cmd := &cobra.Command{
		Use:     "nodegroup NAME",
		Short:   "Show why a node group's nodes are not Ready",
		Example: "  drydock why nodegroup ng --cluster dev",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return whyNodes(cmd.Context(), o, f, fix, cluster, args[0])
		},
	}
	f.add(cmd)
	fix.add(cmd)
	cmd.Flags().StringVar(&cluster, "cluster", "", "the node group's cluster (optional if there is only one)")
	return cmd
}

func newWhyCluster(o *globalOptions) *cobra.Command {
	var f whyNodeFlags
	var fix applyFlags
	cmd := &cobra.Command{
		Use:     "cluster [NAME]",
		Short:   "Show what is wrong with a cluster and its nodes",
		Long:    "Show what is wrong with a cluster and its nodes. NAME is optional if there is only one.",
		Example: "  drydock why cluster dev",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return whyNodes(cmd.Context(), o, f, fix, name, "")
		},
	}
	f.add(cmd)
	fix.add(cmd)
	cmd.ValidArgsFunction = completeOne(func(ctx context.Context) []string { return o.clusterNames(ctx, f.account, f.region) })
	return cmd
}

func whyNodes(ctx context.Context, o *globalOptions, f whyNodeFlags, fix applyFlags, cluster, nodegroup string) error {
	if err := f.check(); err != nil {
		return err
	}
	daemon, err := o.client()
	if err != nil {
		return &ExitError{2, err}
	}
	e, err := daemon.WhyNodes(ctx, f.place(), cluster, nodegroup)
	if err != nil {
		found := "drydock status"
		if nodegroup != "" && cluster != "" {
			found = "aws eks list-nodegroups --cluster-name " + cluster + " --region " + f.region
		}
		return &ExitError{2, o.orHint(err, "drydock status", found)}
	}
	if f.output == "json" {
		err = o.printJSON(e)
	} else {
		_, err = fmt.Fprint(o.streams.Out, e.Text())
	}
	if err == nil && !fix.apply && e.IsUnknown() {
		return &ExitError{Code: 3}
	}
	if err != nil || e.Whole() {
		return err
	}
	if !fix.apply {
		return &ExitError{Code: 1}
	}
	fix.account = f.account
	return fix.mend(ctx, o, e.FirstFixes(), func(ctx context.Context) (outcome, error) {
		e, err := daemon.WhyNodes(ctx, f.place(), cluster, nodegroup)
		says, _, _ := strings.Cut(e.Text(), "\n")
		return outcome{e.Whole(), says}, err
	})
}
