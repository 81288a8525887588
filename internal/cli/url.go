package cli

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

func newURL(o *globalOptions) *cobra.Command {
	var place api.Place
	var cluster, namespace, output string
	cmd := &cobra.Command{
		Use:   "url svc/NAME|LOAD BALANCER",
		Short: "Print the URLs at which this machine reaches a load balancer",
		Long: `Print the URLs at which this machine reaches a load balancer: one for each listener,
at a port of 127.0.0.1 that stays the same. The load balancer is that of a Service, or
is named by its ARN, its name or its DNS name.

The connection counts as one from this machine's address on AWS (--client-address of
drydock up), so the security groups, network ACLs and routes of the load balancer
decide whether it gets there. An internal load balancer cannot be reached from here.

Its certificate has the names of your certificate in ACM, not 127.0.0.1: use
curl --connect-to or -k.

The exit code is 0 if a target answers at every URL, 1 if not, 2 if there is no such
load balancer.`,
		Example: `  curl $(drydock url svc/web)
  drydock url svc/web --namespace shop --cluster dev
  drydock url web-1234567890.us-east-1.elb.amazonaws.com
  drydock run -- curl http://web-1234567890.us-east-1.elb.amazonaws.com`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon, err := o.client()
			if err != nil {
				return &ExitError{2, err}
			}
			var u api.LoadBalancerURLs
			kind, name, of := strings.Cut(args[0], "/")
			if of && (kind == "svc" || kind == "service" || kind == "services") {
				u, err = daemon.ServiceURLs(cmd.Context(), place, cluster, namespace, name)
			} else {
				u, err = daemon.URLs(cmd.Context(), place, args[0])
			}
			if err != nil {
				return &ExitError{2, o.orHint(err, "drydock status", "aws elbv2 describe-load-balancers")}
			}
			if output == "json" {
				err = o.printJSON(u)
			} else {
				for _, l := range u.Listeners {
					if l.URL != "" {
						fmt.Fprintln(o.streams.Out, l.URL)
					}
				}
			}
			if err != nil {
				return err
			}
			if len(u.Listeners) == 0 {
				return &ExitError{1, withHint(fmt.Errorf("%s has no listeners", u.DNSName), "aws elbv2 describe-listeners --load-balancer-arn "+u.Name)}
			}
			for _, l := range u.Listeners {
				if l.Problem != "" {
					at := net.JoinHostPort(u.DNSName, strconv.Itoa(int(l.Port)))
					return &ExitError{1, withHint(fmt.Errorf("%s: %s", at, l.Problem), "drydock why reach --from laptop --to "+at)}
				}
			}
			return nil
		},
	}
	placeFlags(cmd, &place)
	outputFlag(cmd, &output)
	cmd.Flags().StringVar(&cluster, "cluster", "", "the Service's cluster (optional if there is only one)")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "the Service's namespace")
	return cmd
}
