package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newVersion(cfg Config, o *globalOptions) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := cfg.Version
			if output == "json" {
				return o.printJSON(v)
			}
			_, err := fmt.Fprintln(o.streams.Out, v)
			return err
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
