package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

func newWhyStack(o *globalOptions) *cobra.Command {
	var c chainCommand
	cmd := &cobra.Command{
		Use:   "stack NAME|ARN",
		Short: "Show what a CloudFormation stack did, and why it failed",
		Long: `Show the resources of a CloudFormation stack in the order in which its last
operation took them, with what each waited for, and why the first one failed: the
call that was refused, by the same evidence as "drydock why request", or the
instances that did not join their cluster or sent no signal, by that of "drydock
why node". A fix ends with the commands that retry the operation.

Deleted stacks are found by their ARN.

The exit code is 0 if the last operation succeeded, 1 if it failed or is still in
progress, 2 if there is no such stack.`,
		Example: `  drydock why stack eksctl-dev-cluster
  drydock why stack shop --watch
  drydock why stack shop --apply`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.run(cmd.Context(), o, "aws cloudformation list-stacks --region "+c.region, func(ctx context.Context, daemon *api.Client) (explanation, error) {
				e, err := daemon.WhyStack(ctx, c.place(), args[0])
				return &e, err
			})
		},
	}
	c.add(cmd, "show resources as they are taken, until the stack is complete")
	cmd.ValidArgsFunction = completeOne(func(ctx context.Context) []string { return o.stackNames(ctx, c.account, c.region) })
	return cmd
}
