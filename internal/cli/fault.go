package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/fault"
)

func newFault(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fault",
		Short: "Rehearse what goes wrong on AWS",
		Long: `Rehearse what goes wrong on AWS: break instances, zones, capacity, API calls, the
metadata service, DNS or control planes on purpose, see how your tools react, and fix it again.
Faults survive a restart of the daemon; drydock why names them as causes.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newFaultSet(o), newFaultList(o), newFaultClear(o))
	return cmd
}

// faultFlags are the flags that all commands that set a fault have in common.
type faultFlags struct {
	fault  fault.Fault
	until  time.Duration
	atOnce bool // --notice 0s
	output string
}

func (f *faultFlags) place(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.fault.Account, "account", defaultAccount(), accountUsage)
	cmd.Flags().StringVar(&f.fault.Region, "region", defaultRegion(), "the region")
}

// faultCommand returns a command that sets a fault of one kind. target describes its argument, if it has one; read
// stores the argument in the fault.
func faultCommand(o *globalOptions, kind fault.Kind, target, short, long, example string, read func(*fault.Fault, string), flags func(*cobra.Command, *faultFlags), complete completion) *cobra.Command {
	var f faultFlags
	cmd := &cobra.Command{
		Use: strings.TrimSpace(string(kind) + " " + target), Short: short, Long: long, Example: example,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.fault.Kind = kind
			f.atOnce = f.until == 0 && cmd.Flags().Changed("notice")
			if len(args) == 1 {
				read(&f.fault, args[0])
			}
			return f.set(cmd.Context(), o)
		},
	}
	if target != "" {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return fmt.Errorf("missing argument: %s", target)
		}
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 || complete == nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return complete(cmd.Context(), o, &f, begun), cobra.ShellCompDirectiveNoFileComp
		}
	}
	f.place(cmd)
	if !kind.Once() {
		cmd.Flags().DurationVar(&f.until, "for", 0, "for how long, such as 90s or 10m (default: until cleared)")
	}
	if flags != nil {
		flags(cmd, &f)
	}
	outputFlag(cmd, &f.output)
	return cmd
}

// A completion proposes arguments.
type completion func(ctx context.Context, o *globalOptions, f *faultFlags, begun string) []string

func (f *faultFlags) set(ctx context.Context, o *globalOptions) error {
	if f.fault.Account != "" && !accountID.MatchString(f.fault.Account) {
		return &ExitError{2, fmt.Errorf("--account %q is not a 12-digit account ID", f.fault.Account)}
	}
	if f.until < 0 {
		return &ExitError{2, withHint(fmt.Errorf("--for %v is negative; give a duration such as 5m", f.until), "drydock fault set "+string(f.fault.Kind)+" --help")}
	}
	if f.until > 0 || f.atOnce {
		f.fault.Until = time.Now().Add(f.until)
	}
	if err := f.fault.Check(); err != nil {
		return &ExitError{2, withHint(err, "drydock fault set "+string(f.fault.Kind)+" --help")}
	}
	daemon, err := o.client()
	if err != nil {
		return err
	}
	out, err := daemon.SetFault(ctx, f.fault)
	if err != nil {
		try := "drydock fault set " + string(f.fault.Kind) + " --help"
		return o.orHint(err, try, try)
	}
	if f.output == "json" {
		return o.printJSON(out)
	}
	if out.Kind.Once() && !out.Until.After(time.Now()) {
		why := "node"
		if out.Kind.Cluster() {
			why = "cluster"
		}
		o.progress("Done: %s %s. To see its effects: drydock why %s %s", out.Kind, out.Target(), why, out.Target())
		return nil
	}
	_, err = fmt.Fprintln(o.streams.Out, out.ID)
	o.progress("%s %s is in force. To end it: %s", out.Kind, out.Target(), out.Fix())
	return err
}

func newFaultList(o *globalOptions) *cobra.Command {
	var f faultFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List active faults",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := o.client()
			if err != nil {
				return err
			}
			if all {
				f.fault.Region = ""
			}
			found, err := listFaults(cmd.Context(), daemon, f.fault)
			if err != nil {
				return err
			}
			if f.output == "json" {
				return o.printJSON(found)
			}
			rows := [][]string{{"ID", "KIND", "TARGET", "REGION", "IN FORCE", "DETAILS"}}
			for i := range found {
				until := "until you clear it"
				if !found[i].Until.IsZero() {
					until = "until " + found[i].Until.Local().Format(time.TimeOnly)
				}
				rows = append(rows, []string{found[i].ID, string(found[i].Kind), found[i].Target(), found[i].Region, until, found[i].Details()})
			}
			return o.printTable(rows)
		},
	}
	outputFlag(cmd, &f.output)
	f.place(cmd)
	cmd.Flags().BoolVar(&all, "all-regions", false, "list the faults of all regions")
	return cmd
}

func listFaults(ctx context.Context, daemon *api.Client, of fault.Fault) ([]fault.Fault, error) {
	return daemon.Faults(ctx, api.Place{Account: of.Account, Region: of.Region})
}

func newFaultClear(o *globalOptions) *cobra.Command {
	var f faultFlags
	var kind string
	cmd := &cobra.Command{
		Use:     "clear [ID...]",
		Short:   "End faults: those named, or all in the region",
		Example: "  drydock fault clear F-0123abcd\n  drydock fault clear --kind throttle\n  drydock fault clear",
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon, err := o.client()
			if err != nil {
				return err
			}
			gone, err := daemon.ClearFaults(cmd.Context(), api.Place{Account: f.fault.Account, Region: f.fault.Region}, fault.Kind(kind), args...)
			if err != nil {
				return o.orHint(err, "drydock fault list --all-regions", "drydock fault list --all-regions")
			}
			if f.output == "json" {
				return o.printJSON(gone)
			}
			for i := range gone {
				o.progress("%s %s is cleared (%s).", gone[i].Kind, gone[i].Target(), gone[i].ID)
			}
			if len(gone) == 0 {
				o.progress("There were no faults in %s.", f.fault.Region)
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeFaults(cmd.Context(), o, f.fault, args), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f.place(cmd)
	outputFlag(cmd, &f.output)
	cmd.Flags().StringVar(&kind, "kind", "", "clear only faults of this kind")
	return cmd
}

// completeFaults proposes the faults in force that args does not name yet.
func completeFaults(ctx context.Context, o *globalOptions, of fault.Fault, args []string) []string {
	daemon, err := o.client()
	if err != nil {
		return nil
	}
	found, err := listFaults(ctx, daemon, of)
	if err != nil {
		return nil
	}
	named := map[string]bool{}
	for _, a := range args {
		named[a] = true
	}
	var out []string
	for i := range found {
		if !named[found[i].ID] {
			out = append(out, found[i].ID+"\t"+string(found[i].Kind)+" "+found[i].Target())
		}
	}
	return out
}
