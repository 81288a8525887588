package cli

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

// CapacityFault is one pool of instances without capacity, in the answer of
// GET /_drydock/faults/capacity and the body of POST and DELETE. An empty part or
// "*" means any.
type CapacityFault struct {
	Account      string `json:"account,omitempty"`
	Region       string `json:"region"`
	Type         string `json:"type,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"` // on-demand, spot
}

func newFault(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fault",
		Short: "Rehearse what goes wrong on AWS",
	}
	set := &cobra.Command{Use: "set", Short: "Make something fail from now on"}
	set.AddCommand(newFaultSetCapacity(o))
	cmd.AddCommand(set, newFaultList(o), newFaultClear(o))
	return cmd
}

// faultPlace adds the flags that say where a fault is.
func faultPlace(cmd *cobra.Command, f *CapacityFault) {
	cmd.Flags().StringVar(&f.Account, "account", "", "the account (the default one if not given)")
	cmd.Flags().StringVar(&f.Region, "region", "us-east-1", "the region")
}

// faultPool adds the flags that say which pools a fault is of.
func faultPool(cmd *cobra.Command, f *CapacityFault) {
	faultPlace(cmd, f)
	cmd.Flags().StringVar(&f.Type, "type", "", `instance type, such as m5.large or "m5.*" (all if not given)`)
	cmd.Flags().StringVar(&f.Zone, "zone", "", "availability zone (all if not given)")
	cmd.Flags().StringVar(&f.CapacityType, "capacity-type", "", "on-demand or spot (both if not given)")
}

func newFaultSetCapacity(o *globalOptions) *cobra.Command {
	var f CapacityFault
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Let EC2 run out of instances",
		Long: `Let EC2 run out of instances of a type, in a zone, on demand or Spot: RunInstances
fails with InsufficientInstanceCapacity, fleets and Auto Scaling groups fall back to
their other pools. Instances that run are left alone.`,
		Example: "  drydock fault set capacity --type m5.large --zone us-east-1a --capacity-type spot",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := o.readInfo()
			if err != nil {
				return err
			}
			if err := call(cmd.Context(), info, http.MethodPost, "faults/capacity", nil, f, nil); err != nil {
				return withHint(err, "drydock fault set capacity --help")
			}
			o.progress("There is no such capacity any more. To give it back: drydock fault clear")
			return nil
		},
	}
	faultPool(cmd, &f)
	return cmd
}

func newFaultList(o *globalOptions) *cobra.Command {
	var f CapacityFault
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what is set to fail",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := o.readInfo()
			if err != nil {
				return err
			}
			q := url.Values{"region": {f.Region}}
			if f.Account != "" {
				q.Set("account", f.Account)
			}
			var found []CapacityFault
			if err := call(cmd.Context(), info, http.MethodGet, "faults/capacity", q, nil, &found); err != nil {
				return err
			}
			if output == "json" {
				return o.printJSON(found)
			}
			rows := [][]string{{"FAULT", "TYPE", "ZONE", "CAPACITY TYPE"}}
			for _, c := range found {
				rows = append(rows, []string{"capacity", c.Type, c.Zone, c.CapacityType})
			}
			return o.printTable(rows)
		},
	}
	outputFlag(cmd, &output)
	faultPlace(cmd, &f)
	return cmd
}

func newFaultClear(o *globalOptions) *cobra.Command {
	var f CapacityFault
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Mend what is set to fail: the given fault, or all of the region",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := o.readInfo()
			if err != nil {
				return err
			}
			if err := call(cmd.Context(), info, http.MethodDelete, "faults/capacity", nil, f, nil); err != nil {
				return err
			}
			if f.Type+f.Zone+f.CapacityType == "" {
				o.progress("Nothing is set to fail in %s any more.", f.Region)
			} else {
				o.progress("The capacity is back.")
			}
			return nil
		},
	}
	faultPool(cmd, &f)
	return cmd
}
