package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

func newWhyReach(o *globalOptions) *cobra.Command {
	var from, to, protocol, account, region, output string
	var fix applyFlags
	cmd := &cobra.Command{
		Use:   "reach --from SOURCE --to DESTINATION",
		Short: "Show whether a connection can be made, hop by hop",
		Long: `Show whether a connection can be made in the network of an account and region,
hop by hop, there and back: the route, security group rule or network ACL entry
that decides at each hop, what blocks the connection, and the AWS CLI command that
would open it.

A source is an instance (i-…), a network interface (eni-…), an Instance Connect
endpoint (eice-…), "laptop", which is this machine as AWS sees it (--client-address
of drydock up), or a public address. A destination is an address, a host name, an
instance, a network interface or a VPC endpoint (vpce-…), with a port.

The exit code is 0 if the destination can be reached, 1 if it cannot, 2 if the
arguments are invalid, 3 if it is unknown because something could not be read of a
twin's source.`,
		Example: `  drydock why reach --from i-0123456789abcdef0 --to ec2.us-east-1.amazonaws.com:443
  drydock why reach --from laptop --to i-0123456789abcdef0:22
  drydock why reach --from laptop --to i-0123456789abcdef0 --protocol icmp -o dot | dot -Tsvg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, port, err := destination(to, protocol)
			if err != nil {
				return &ExitError{2, withHint(err, "drydock why reach --from laptop --to i-…:22")}
			}
			switch {
			case from == "":
				return &ExitError{2, withHint(fmt.Errorf("--from is missing"), "drydock why reach --from laptop --to i-…:22")}
			case account != "" && !accountID.MatchString(account):
				return &ExitError{2, fmt.Errorf("--account %q is not a 12-digit account ID", account)}
			case output != "text" && output != "json" && output != "dot":
				return &ExitError{2, fmt.Errorf("--output %q is not text, json or dot", output)}
			}
			daemon, err := o.client()
			if err != nil {
				return &ExitError{2, err}
			}
			ask := func(ctx context.Context) (api.ReachExplanation, error) {
				return daemon.WhyReach(ctx, api.Place{Account: account, Region: region}, api.Connection{From: from, To: host, Port: port, Protocol: protocol})
			}
			v, err := ask(cmd.Context())
			if err != nil {
				return &ExitError{2, err}
			}
			switch output {
			case "json":
				err = o.printJSON(v)
			case "dot":
				_, err = fmt.Fprint(o.streams.Out, v.DOT())
			default:
				_, err = fmt.Fprint(o.streams.Out, v.Text())
			}
			if fix.account = account; !v.Reachable {
				o.noteAccount(account)
			}
			if err == nil && len(v.Unknown) > 0 {
				return &ExitError{Code: 3}
			}
			if err == nil && fix.apply && !v.Reachable {
				return fix.mend(cmd.Context(), o, v.Fixes, func(ctx context.Context) (outcome, error) {
					v, err := ask(ctx)
					now := outcome{done: v.Reachable}
					if len(v.Explanations) > 0 {
						now.says = v.Explanations[0].Text
					}
					return now, err
				})
			}
			if err == nil && !v.Reachable {
				return &ExitError{Code: 1}
			}
			return err
		},
	}
	fix.add(cmd)
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "where the connection comes from")
	f.StringVar(&to, "to", "", "where it goes: ADDRESS:PORT, NAME:PORT, ID:PORT, [IPV6]:PORT, https://ENDPOINT")
	f.StringVar(&protocol, "protocol", "tcp", "tcp, udp, icmp, icmpv6 or a number")
	f.StringVar(&account, "account", defaultAccount(), accountUsage)
	f.StringVar(&region, "region", defaultRegion(), "the region")
	f.StringVarP(&output, "output", "o", "text", "text, json or dot")
	return cmd
}

// defaultRegion returns the AWS CLI's default region, without its configuration file.
func defaultRegion() string {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if r := os.Getenv(name); r != "" {
			return r
		}
	}
	return "us-east-1"
}

const accountUsage = "the account (default: AWS_ACCESS_KEY_ID if it is an account ID, else 000000000000)"

// defaultAccount returns the account that the access key in the environment names, as the daemon reads it: 12 digits
// are an account's root. It returns "" if the key names none.
func defaultAccount() string {
	if key := os.Getenv("AWS_ACCESS_KEY_ID"); accountID.MatchString(key) {
		return key
	}
	return ""
}

// destination parses --to. ICMP and others have no port.
func destination(to, protocol string) (host, port string, err error) {
	ported := protocol == "tcp" || protocol == "udp" || protocol == "6" || protocol == "17"
	switch {
	case to == "":
		return "", "", fmt.Errorf("--to is missing")
	case !ported:
		return strings.Trim(to, "[]"), "", nil
	}
	if u, err := url.Parse(to); err == nil && u.Scheme == "https" && u.Host != "" { // a cluster's endpoint, as EKS returns it
		return u.Hostname(), cmp.Or(u.Port(), "443"), nil
	}
	host, port, err = net.SplitHostPort(to)
	if err != nil || host == "" || port == "" {
		return "", "", fmt.Errorf("--to %q has no port: want DESTINATION:PORT", to)
	}
	return host, port, nil
}
