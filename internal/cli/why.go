package cli

import "github.com/spf13/cobra"

// newWhy groups the commands that explain a decision. Each has a file of its own:
// why_NAME.go.
func newWhy(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why",
		Short: "Explain what is allowed, refused or unreachable",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(whyCommands(o)...)
	return cmd
}

func whyCommands(o *globalOptions) []*cobra.Command {
	return []*cobra.Command{newWhyReach(o), newWhyRequest(o), newWhyServiceAccount(o), newWhyNode(o), newWhyNodegroup(o), newWhyCluster(o), newWhyPod(o), newWhySession(o), newWhyStack(o)}
}
