package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
)

func newRehearse(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rehearse",
		Short: "Try a change on a copy of a cluster",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newRehearseUpgrade(o))
	return cmd
}

func newRehearseUpgrade(o *globalOptions) *cobra.Command {
	var place api.Place
	var f importFlags
	var cluster, to, output string
	cmd := &cobra.Command{
		Use:   "upgrade [NAME]",
		Short: "Upgrade a copy of a cluster, and show what would break",
		Long: `Copy a cluster as it is at this moment, and upgrade the copy to the next Kubernetes
version: its control plane, then its add-ons, then its node groups, whose nodes are
drained and replaced. Then show what the upgrade would break: use of deprecated APIs,
APIs that are gone, updates of add-ons that fail, pods that cannot be evicted or that no
new node takes, node groups without an image for the new version, and webhooks that
cannot be called. The cluster itself stays as it is. The copy calls no AWS API and no
webhooks, starts no containers, and is removed at the end.

With --profile, a cluster of AWS is imported first (drydock import), read-only.

The exit code is 0 if nothing would break, 1 if something would, 2 if there is no such cluster or
the rehearsal failed, and 3 if nothing is known to break but AWS did not allow everything to be read.`,
		Example: `  drydock rehearse upgrade dev
  drydock rehearse upgrade dev --output json
  drydock rehearse upgrade --profile prod --region eu-west-1 --cluster prod --to 1.36`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) > 0 {
				if cluster != "" && cluster != args[0] {
					return &ExitError{2, fmt.Errorf("%q and --cluster %s name different clusters", args[0], cluster)}
				}
				cluster = args[0]
			}
			if cluster == "" {
				return &ExitError{2, errors.New("no cluster was named: add --cluster NAME")}
			}
			if err := f.checkDiscard(); err != nil {
				return err
			}
			daemon, err := o.client()
			if err != nil {
				return &ExitError{2, err}
			}
			if f.reads() {
				f.clusters, f.question = []string{cluster}, "drydock rehearse upgrade "+cluster
				if place, err = f.takeAt(cmd.Context(), o, daemon, place.Region); err != nil {
					return err
				}
				defer func() { err = f.discarded(cmd.Context(), daemon, place.Account, err) }()
			}
			if err := o.checkNext(cmd.Context(), daemon, place, cluster, to); err != nil {
				return &ExitError{2, err}
			}
			twins, err := daemon.Twins(cmd.Context())
			if err != nil {
				return &ExitError{2, o.orHint(err, "drydock status", "drydock status")}
			}
			if slices.ContainsFunc(twins, func(t api.Twin) bool { return t.Account == place.Account }) {
				d := doctorFlags{place: place, cluster: cluster, timeout: 2 * time.Minute}
				if _, err := d.settled(cmd.Context(), o, daemon); err != nil { // until then, objects and nodes are still being copied
					return &ExitError{2, o.orHint(err, "drydock status", "drydock import")}
				}
			}
			o.noteAccount(place.Account)
			out, err := daemon.RehearseUpgrade(cmd.Context(), place, cluster)
			if err != nil {
				return &ExitError{2, o.orHint(err, "drydock status", "drydock why cluster "+cluster)}
			}
			if output == "json" {
				err = o.printJSON(out)
			} else {
				_, err = fmt.Fprint(o.streams.Out, out.Text())
			}
			switch {
			case err != nil:
				return err
			case out.Breaks():
				return &ExitError{Code: 1}
			case len(out.Unknown) > 0:
				return &ExitError{Code: 3}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "the cluster, in place of NAME")
	cmd.Flags().StringVar(&to, "to", "", "the Kubernetes version to upgrade to, which must be the next one")
	f.sourceFlags(cmd.Flags())
	cmd.Flags().StringVar(&place.Account, "account", defaultAccount(), accountUsage)
	cmd.Flags().StringVar(&place.Region, "region", defaultRegion(), "the region")
	outputFlag(cmd, &output)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.clusterNames(cmd.Context(), place.Account, place.Region), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// checkNext returns an error unless a version, if there is one, is the next one of a cluster.
func (o *globalOptions) checkNext(ctx context.Context, daemon *api.Client, place api.Place, cluster, to string) error {
	if to == "" {
		return nil
	}
	s, err := daemon.Status(ctx)
	if err != nil {
		return o.orHint(err, "drydock status", "drydock up -d")
	}
	for _, c := range s.Clusters {
		if c.Account != place.Account || c.Region != place.Region || c.Name != cluster {
			continue
		}
		if next := fmt.Sprintf("1.%d", eksversions.Number(c.Version)+1); to != next {
			return fmt.Errorf("EKS upgrades cluster %s from %s to %s, not to %s: one minor version at a time", cluster, c.Version, next, to)
		}
	}
	return nil // an unknown cluster is refused by name later
}
