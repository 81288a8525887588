package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// outputFlag adds --output text|json.
func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "text or json")
	pre := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if *output != "text" && *output != "json" {
			return &ExitError{2, withHint(fmt.Errorf("--output %q is neither text nor json", *output), cmd.CommandPath()+" --output json")}
		}
		if pre != nil {
			return pre(cmd, args)
		}
		return nil
	}
}

func (o *globalOptions) printJSON(v any) error {
	enc := json.NewEncoder(o.streams.Out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printTable prints rows in aligned columns; the first row is the header.
func (o *globalOptions) printTable(rows [][]string) error {
	w := tabwriter.NewWriter(o.streams.Out, 0, 8, 3, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}
