package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
)

func newDoctor(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what this machine can do, and what it lacks",
	}
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
			} else if err := o.printProbe(r); err != nil {
				return err
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
