package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
)

// newKubectl embeds kubectl unchanged. It parses its own flags, so that `drydock kubectl ARGS` means what `kubectl
// ARGS` means.
func newKubectl(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "Run the built-in kubectl",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			k := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
				PluginHandler: cmd.NewDefaultPluginHandler([]string{"kubectl"}),
				Arguments:     append([]string{"kubectl"}, args...),
				IOStreams:     genericiooptions.IOStreams{In: streams.In, Out: streams.Out, ErrOut: streams.Err},
			})
			k.SetArgs(args)
			k.SetIn(streams.In)
			k.SetOut(streams.Out)
			k.SetErr(streams.Err)
			return k.ExecuteContext(c.Context())
		},
	}
}
