package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

func newWhyPod(o *globalOptions) *cobra.Command {
	var c chainCommand
	var cluster, namespace string
	cmd := &cobra.Command{
		Use:   "pod [NAMESPACE/]NAME",
		Short: "Show how far a pod got, and what keeps it from running",
		Long: `Show the steps from a pod's admission to its running containers: admission,
scheduling or Fargate's profiles, the node, its address, its images, the
ConfigMaps and Secrets it names, the IAM role of its service account. The first
step that fails is shown with its evidence, what decided it, and a command that
would fix it. NAME may also name a Deployment or another owner of pods: then the
pod in the worst state is shown, or why no pod could be created.

The exit code is 0 if the pod runs and nothing fails, 1 if not, 2 if there is no such pod.`,
		Example: `  drydock why pod kube-system/coredns --cluster dev
  drydock why pod web-7c5ddbdf54-9x2lq --namespace shop
  drydock why pod shop/web --watch`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			name := args[0]
			if ns, rest, ok := strings.Cut(name, "/"); ok {
				if namespace != "" && namespace != ns {
					return &ExitError{2, fmt.Errorf("%q and --namespace %s name different namespaces", name, namespace)}
				}
				namespace, name = ns, rest
			} else if namespace == "" {
				namespace = "default"
			}
			if namespace == "" || name == "" || strings.Contains(name, "/") {
				return &ExitError{2, withHint(fmt.Errorf("%q is not [NAMESPACE/]NAME", args[0]), "drydock why pod default/web")}
			}
			return c.run(cmd.Context(), o, "kubectl get pods --namespace "+namespace, func(ctx context.Context, daemon *api.Client) (explanation, error) {
				e, err := daemon.WhyPod(ctx, c.place(), cluster, namespace, name)
				return &e, err
			})
		},
	}
	c.add(cmd, "show steps as they happen, until the pod runs")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if namespace == "" {
			return o.podNames(cmd.Context(), c.place(), cluster, false, begun), cobra.ShellCompDirectiveNoFileComp
		}
		names := o.podNames(cmd.Context(), c.place(), cluster, false, namespace+"/"+begun)
		for i := range names {
			names[i] = strings.TrimPrefix(names[i], namespace+"/")
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "the cluster (optional if there is only one)")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "the namespace (if NAME does not give it: default)")
	return cmd
}
