package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

func newWhySession(o *globalOptions) *cobra.Command {
	var c chainCommand
	var by, document, from, user string
	cmd := &cobra.Command{
		Use:   "session INSTANCE-ID|NODE",
		Short: "Show whether you can start a session with an instance, and what prevents it",
		Long: `Show whether "aws ssm start-session" would open a session with an instance: what
you may do, whether the instance is on, the agent of its image and that agent's
service, the instance's role, the network to ssm and ssmmessages, and the policies of
the role and of VPC endpoints. AWS says only TargetNotConnected for most of them.

With --by eic or --by ssh: what you may do, sshd, port 22 from your address or from an
Instance Connect endpoint, the user on the instance, and that user's keys. By eic also
the package ec2-instance-connect, without which sshd refuses the keys that EC2 Instance
Connect sends. They are valid for 60 seconds.

You are the owner of the credentials in the environment if they are for Drydock
(drydock env, drydock run), otherwise the account's root or default user.

The exit code is 0 if a session can be started, 1 if it cannot, 2 if there is no such instance.`,
		Example: `  drydock why session i-0123456789abcdef0
  drydock why session i-0123456789abcdef0 --document AWS-StartPortForwardingSession
  drydock why session i-0123456789abcdef0 --by eic --from eice-0123456789abcdef0
  drydock why session i-0123456789abcdef0 --by ssh --user root
  drydock why session ip-172-31-0-10.ec2.internal --apply`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			if by != "ssm" && by != "eic" && by != "ssh" {
				return &ExitError{2, withHint(fmt.Errorf("--by %q is not ssm, eic or ssh", by), "drydock why session "+args[0]+" --by ssm")}
			}
			info, err := o.readInfo()
			if err != nil {
				return &ExitError{2, err}
			}
			who := callerOf(withAccount(fixEnvironment(os.Environ(), info), c.account))
			return c.run(cmd.Context(), o, "aws ec2 describe-instances --region "+c.region, func(ctx context.Context, daemon *api.Client) (explanation, error) {
				e, err := daemon.WhySession(ctx, c.place(), args[0], by, document, from, user, who)
				return &e, err
			})
		},
	}
	c.add(cmd, "show steps as they succeed, until a session can be started")
	cmd.Flags().StringVar(&by, "by", "ssm", "how to connect: ssm (Session Manager), eic (EC2 Instance Connect) or ssh")
	cmd.Flags().StringVar(&from, "from", "", "by eic or ssh: the Instance Connect endpoint (eice-…) to go through (default: the laptop)")
	cmd.Flags().StringVar(&user, "user", "ec2-user", "by eic or ssh: the user on the instance")
	cmd.Flags().StringVar(&document, "document", "", "the session document that the request names (default: none)")
	cmd.ValidArgsFunction = completeOne(func(ctx context.Context) []string { return o.nodeNames(ctx, c.account, c.region) })
	return cmd
}

// callerOf returns the access key ID and the session token in an environment.
func callerOf(env []string) (out api.Caller) {
	for _, kv := range env {
		switch name, value, _ := strings.Cut(kv, "="); name {
		case "AWS_ACCESS_KEY_ID":
			out.AccessKeyID = value
		case "AWS_SESSION_TOKEN":
			out.SessionToken = value
		}
	}
	return out
}
