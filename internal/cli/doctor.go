package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
)

func newDoctor(o *globalOptions) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong with a cluster, or what this machine lacks",
		Long: `Look at everything in a cluster: its health and endpoint, every node, node group, add-on and
Fargate profile, EKS's insights (version skew, deprecated APIs), pods that do not run, and the
chains from service accounts to their roles. The findings are sorted by harm, with evidence and
fixes.

With --profile, a cluster of AWS is imported first (drydock import), read-only, and its copy is
looked at. Without, it is a cluster of Drydock's: one of your own, or of a twin.

The exit code is 0 if nothing is wrong or only warnings were found, 1 if something does not work,
2 if the cluster could not be looked at, 3 if something is unknown because AWS did not allow to
read it.`,
		Example: `  drydock doctor --cluster dev
  drydock doctor --profile prod --region eu-west-1 --cluster prod
  drydock doctor --profile prod --cluster prod --output sarif > prod.sarif`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.diagnose(cmd, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.place.Account, "account", defaultAccount(), accountUsage)
	flags.StringVar(&f.place.Region, "region", defaultRegion(), "the region")
	flags.StringVar(&f.cluster, "cluster", "", "the cluster; may be left out if there is only one")
	flags.StringVar(&f.output, "output", "text", "text, json, sarif or html")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long to wait for nodes that are still joining")
	f.sourceFlags(flags)
	cmd.AddCommand(newDoctorContainers(o))
	return cmd
}

func newDoctorContainers(o *globalOptions) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "containers",
		Short: "Check whether nodes can run containers here",
		Long: `Check whether nodes can run containers here, and print a fix for each thing missing.
The exit code is 1 if no containers can run.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r := probe.Run()
			if output == "json" {
				if err := o.printJSON(r); err != nil {
					return err
				}
			} else {
				if err := o.printProbe(r); err != nil {
					return err
				}
				if info, err := o.readInfo(); err == nil && info.Internet {
					fmt.Fprintf(o.streams.Out, "\n%s\n", internetOn)
				}
			}
			if !r.Available {
				return &ExitError{Code: 1, Err: errors.New("nodes cannot run containers on this machine; simulated nodes work everywhere")}
			}
			return nil
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (o *globalOptions) printProbe(r probe.Report) error {
	rows := [][]string{{"CHECK", "RESULT", "FOUND"}}
	for _, c := range r.Checks {
		rows = append(rows, []string{c.Name, string(c.Level), c.Found})
	}
	if err := o.printTable(rows); err != nil {
		return err
	}
	for _, c := range r.Checks {
		if c.Fix != "" && c.Level != probe.OK {
			fmt.Fprintf(o.streams.Out, "\n%s:\n  %s\n", c.Name, c.Fix)
		}
	}
	return nil
}

// internetOn is said of a daemon that runs with --internet on.
const internetOn = "internet on: machines that run containers reach the real internet through NAT gateways, or with public addresses through internet gateways"

// internet says whether machines that run containers reach the real internet, of a daemon that runs with --internet on.
func internet(r probe.Report) string {
	switch {
	case !r.Available:
		return "on, but only machines that run containers reach it"
	case !r.Has(probe.Internet):
		return "on, but not for machines here: see drydock doctor containers"
	}
	return "on, for machines that run containers"
}

// runtimes says which kinds of machines can run here, and why not.
func runtimes(r probe.Report) string {
	if !r.Available {
		return "simulated; not containers: " + r.Why() + " (drydock doctor containers)"
	}
	if limits := r.Limits(); len(limits) > 0 {
		return "simulated, containers with limits: " + limits[0] + " (drydock doctor containers)"
	}
	return "simulated, containers"
}
