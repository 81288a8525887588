package cli

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

func newStatus(o *globalOptions) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.status(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				return o.printJSON(s)
			}
			fmt.Fprintf(o.streams.Out, "Drydock %s, process %d, up %s\n", s.Version, s.PID, s.Uptime)
			fmt.Fprintf(o.streams.Out, "endpoint %s   data %s   timing %s   instances %d   store keys %d   data version %d\n",
				s.URL, s.DataDir, s.Timing, s.Nodes, s.StoreKeys, s.DataVersion)
			if s.Internet {
				fmt.Fprintln(o.streams.Out, internetOn)
			}
			switch n := len(s.Unreadable); n {
			case 0:
			case 1:
				fmt.Fprintf(o.streams.Out, "1 unreadable record was skipped: %s %s\n", s.Unreadable[0].Collection, s.Unreadable[0].Key)
			default:
				fmt.Fprintf(o.streams.Out, "%d unreadable records were skipped; `drydock status --output json` lists them\n", n)
			}
			for _, t := range s.Twins {
				changed := "nothing was changed in it"
				if t.Changed {
					changed = "changed since"
				}
				fmt.Fprintf(o.streams.Out, "account %s is a twin of the AWS account in %s, read at %s; %s\n", t.Account, t.Region, t.Read.UTC().Format(time.RFC3339), changed)
			}
			if len(s.Clusters) == 0 {
				fmt.Fprintln(o.streams.Out, "no clusters")
				return nil
			}
			w := tabwriter.NewWriter(o.streams.Out, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "ACCOUNT\tREGION\tCLUSTER\tVERSION\tSTATUS\tCONTROL PLANE\tENDPOINT")
			for _, c := range s.Clusters {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Account, c.Region, c.Name, c.Version, c.Status, c.ControlPlane, c.Endpoint)
			}
			return w.Flush()
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (o *globalOptions) status(ctx context.Context) (api.Status, error) {
	daemon, err := o.client()
	if err != nil {
		return api.Status{}, err
	}
	s, err := daemon.Status(ctx)
	s.DaemonInfo = daemon.Daemon
	s.Token = "" // keep it off screens and out of logs
	s.Uptime = time.Since(s.Started).Round(time.Second).String()
	return s, err
}
