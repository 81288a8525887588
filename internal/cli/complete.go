package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

// completeOne completes a command's only argument with names.
func completeOne(names func(context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out := slices.DeleteFunc(names(cmd.Context()), func(name string) bool { return !strings.HasPrefix(name, begun) })
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// nodeNames returns the instances and nodes of an account and region, or none if the daemon cannot be asked.
func (o *globalOptions) nodeNames(ctx context.Context, account, region string) []string {
	daemon, err := o.client()
	if err != nil {
		return nil
	}
	out, err := daemon.Nodes(ctx, api.Place{Account: account, Region: region})
	if err != nil {
		return nil
	}
	return out
}

// stackNames returns the stacks of an account and region, or none if the daemon cannot be reached.
func (o *globalOptions) stackNames(ctx context.Context, account, region string) []string {
	daemon, err := o.client()
	if err != nil {
		return nil
	}
	out, err := daemon.Stacks(ctx, api.Place{Account: account, Region: region})
	if err != nil {
		return nil
	}
	return out
}

// podNames are the pods and owners of pods of a cluster that begin with a text, as
// NAMESPACE/NAME, or as NAME if they are in the namespace default and it says no other.
func (o *globalOptions) podNames(ctx context.Context, p api.Place, cluster string, running bool, begun string) []string {
	daemon, err := o.client()
	if err != nil {
		return nil
	}
	names, err := daemon.Pods(ctx, p, cluster, running)
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range names {
		if short, ok := strings.CutPrefix(name, "default/"); ok && begun != "" && strings.HasPrefix(short, begun) {
			name = short
		}
		if strings.HasPrefix(name, begun) {
			out = append(out, name)
		}
	}
	return out
}

// clusterNames are the clusters of a region and an account, or of all accounts.
func (o *globalOptions) clusterNames(ctx context.Context, account, region string) []string {
	s, err := o.status(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if c.Region == region && (account == "" || c.Account == account) && !slices.Contains(out, c.Name) {
			out = append(out, c.Name)
		}
	}
	return out
}
