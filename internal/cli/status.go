package cli

import (
	"context"
	"fmt"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// Status is what GET /_drydock/status answers.
type Status struct {
	DaemonInfo
	Uptime   string          `json:"uptime"`
	Timing   string          `json:"timing"`
	Clusters []ClusterStatus `json:"clusters"`
	// Nodes counts the instances that are on.
	Nodes int `json:"nodes"`
	// StoreKeys counts what etcd holds: AWS records and the objects of all clusters.
	StoreKeys int64 `json:"storeKeys"`
}

// ClusterStatus is one cluster in Status.
type ClusterStatus struct {
	Account      string `json:"account"`
	Region       string `json:"region"`
	Name         string `json:"name"`
	Version      string `json:"version"`
	Status       string `json:"status"`
	Endpoint     string `json:"endpoint,omitempty"`
	ControlPlane string `json:"controlPlane,omitempty"` // starting, ready, failed: …
}

func newStatus(o *globalOptions) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what runs",
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
			fmt.Fprintf(o.streams.Out, "endpoint %s   data %s   timing %s   instances %d   store keys %d\n", s.URL, s.DataDir, s.Timing, s.Nodes, s.StoreKeys)
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

func (o *globalOptions) status(ctx context.Context) (Status, error) {
	info, err := o.readInfo()
	if err != nil {
		return Status{}, err
	}
	var s Status
	err = call(ctx, info, http.MethodGet, "status", nil, nil, &s)
	s.DaemonInfo = info
	s.Uptime = time.Since(info.Started).Round(time.Second).String()
	return s, err
}
