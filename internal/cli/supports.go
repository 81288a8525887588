package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

func newSupports(o *globalOptions, cfg Config) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "supports [SERVICE [OPERATION]]",
		Short: "Show which operations of the AWS API work",
		Long: `Show which operations of the AWS API work: how many of each service, those of one
service, or what of one operation is handled. Whatever is not handled is refused with
HTTP 501 and the code NotImplemented; no parameter is accepted and then ignored.

SERVICE is the name of the aws CLI's command, OPERATION is as in the API reference or
as the aws CLI has it. No daemon is needed.

The exit code is 0 if the operation is handled, also if only partly, 1 if it is not,
2 if AWS has no such service or operation.`,
		Example: `  drydock supports
  drydock supports eks
  drydock supports ec2 CreateTransitGateway
  drydock supports ec2 run-instances --output json`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := cfg.Supports()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return o.showServices(all, output)
			}
			s, err := findService(all, args[0])
			if err != nil {
				return &ExitError{2, err}
			}
			if len(args) == 1 {
				return o.showService(s, output)
			}
			op, err := findOperation(s, args[1])
			if err != nil {
				return &ExitError{2, err}
			}
			return o.showOperation(op, output)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return completeSupports(cfg, args, begun), cobra.ShellCompDirectiveNoFileComp
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (o *globalOptions) showServices(all []api.ServiceSupport, output string) error {
	if output == "json" {
		for i := range all {
			all[i].Operations = nil
		}
		return o.printJSON(all)
	}
	rows := [][]string{{"SERVICE", "TITLE", "HANDLED", "PARTLY", "NOT"}}
	for i := range all {
		s := &all[i]
		rows = append(rows, []string{s.Service, s.Title, fmt.Sprint(s.Handled), fmt.Sprint(s.Partly), fmt.Sprint(s.Not)})
	}
	return o.printTable(rows)
}

func (o *globalOptions) showService(s *api.ServiceSupport, output string) error {
	if output == "json" {
		return o.printJSON(s)
	}
	fmt.Fprintf(o.streams.Out, "%s: %d operations are handled, %d partly, %d not\n\n", s.Title, s.Handled, s.Partly, s.Not)
	for i := range s.Operations {
		op := &s.Operations[i]
		line := "  " + supportMark(op) + " " + op.Operation
		if missing := missing(op); missing != "" {
			line += ": " + missing
		}
		if _, err := fmt.Fprintln(o.streams.Out, line); err != nil {
			return err
		}
	}
	return nil
}

func (o *globalOptions) showOperation(op *api.OperationSupport, output string) error {
	var err error
	if output == "json" {
		err = o.printJSON(op)
	} else {
		text := supportMark(op) + " " + op.Service + " " + op.Operation
		switch op.State {
		case api.SupportHandled:
			text += " is handled, with all members"
		case api.SupportPartly:
			text += " is handled partly\n"
			for _, m := range op.Refused {
				text += "  ✘ " + m + "\n"
			}
			if op.Except != "" {
				text += "  ✘ these values: " + op.Except + "\n"
			}
			text += "A request is refused with 501 NotImplemented if one of these is set: to more than false, 0 or empty"
		default:
			text += " is not handled: every request is refused with 501 NotImplemented"
			if op.Why != "" {
				text += "\n" + op.Why
			}
		}
		_, err = fmt.Fprintln(o.streams.Out, text)
	}
	if err == nil && op.State == api.SupportNone {
		return &ExitError{Code: 1}
	}
	return err
}

func supportMark(op *api.OperationSupport) string {
	return map[string]string{api.SupportHandled: "✔", api.SupportPartly: "·", api.SupportNone: "✘"}[op.State]
}

// missing says in a line what of an operation is not handled.
func missing(op *api.OperationSupport) string {
	var parts []string
	if len(op.Refused) > 0 {
		parts = append(parts, "without "+strings.Join(op.Refused, ", "))
	}
	if op.Except != "" {
		parts = append(parts, "without these values: "+op.Except)
	}
	if op.Why != "" {
		parts = append(parts, op.Why)
	}
	return strings.Join(parts, "; ")
}

func findService(all []api.ServiceSupport, name string) (*api.ServiceSupport, error) {
	var names []string
	for i := range all {
		s := &all[i]
		if plain(s.Service) == plain(name) || strings.EqualFold(s.Title, name) {
			return s, nil
		}
		names = append(names, s.Service)
	}
	err := fmt.Errorf("service %q is not supported: requests to it are refused with 501 NotImplemented", name)
	if near := nearest(name, names); near != "" {
		return nil, withHint(err, "drydock supports "+near)
	}
	return nil, withHint(err, "drydock supports")
}

func findOperation(s *api.ServiceSupport, name string) (*api.OperationSupport, error) {
	var names []string
	for i := range s.Operations {
		if op := &s.Operations[i]; plain(op.Operation) == plain(name) {
			return op, nil
		}
		names = append(names, s.Operations[i].Operation)
	}
	err := fmt.Errorf("%s has no operation %q", s.Title, name)
	if near := nearest(name, names); near != "" {
		return nil, withHint(err, "drydock supports "+s.Service+" "+near)
	}
	return nil, withHint(err, "drydock supports "+s.Service)
}

// completeSupports proposes services, and then the operations of one.
func completeSupports(cfg Config, args []string, begun string) []string {
	all, err := cfg.Supports()
	if err != nil {
		return nil
	}
	var out []string
	switch len(args) {
	case 0:
		for i := range all {
			out = append(out, all[i].Service)
		}
	case 1:
		s, err := findService(all, args[0])
		if err != nil {
			return nil
		}
		for i := range s.Operations {
			out = append(out, s.Operations[i].Operation)
		}
	}
	return slices.DeleteFunc(out, func(name string) bool { return !strings.HasPrefix(strings.ToLower(name), strings.ToLower(begun)) })
}
