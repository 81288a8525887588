package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// A LinkState says whether a link of a chain holds.
type LinkState string

// The states of links. What comes after a broken link may not be known.
const (
	LinkHolds   LinkState = "holds"
	LinkBroken  LinkState = "broken"
	LinkUnknown LinkState = "unknown"
)

// An IdentityLink is one step from a service account to what its pods may do.
type IdentityLink struct {
	Name  string    `json:"name"`
	State LinkState `json:"state"`
	// Says is what was found, Error what AWS says to the pod because of it.
	Says  string `json:"says"`
	Error string `json:"error,omitempty"`
	// Details are lines of evidence.
	Details []string `json:"details,omitempty"`
	// Fix is a command or a change that mends the link.
	Fix string `json:"fix,omitempty"`
}

// A ServiceAccountExplanation is the chain from a service account to its role.
type ServiceAccountExplanation struct {
	Cluster        string `json:"cluster"`
	Account        string `json:"account"`
	Region         string `json:"region"`
	Namespace      string `json:"namespace"`
	ServiceAccount string `json:"serviceAccount"`
	// Mechanism is "IAM role for service accounts" or "EKS Pod Identity".
	Mechanism string         `json:"mechanism,omitempty"`
	Links     []IdentityLink `json:"links"`
}

// Broken is the first broken link, or nil.
func (e *ServiceAccountExplanation) Broken() *IdentityLink {
	for i := range e.Links {
		if e.Links[i].State == LinkBroken {
			return &e.Links[i]
		}
	}
	return nil
}

// Text says it for people.
func (e *ServiceAccountExplanation) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s in cluster %s of %s", e.Namespace, e.ServiceAccount, e.Cluster, e.Region)
	if e.Mechanism != "" {
		b.WriteString(", by " + e.Mechanism)
	}
	b.WriteString("\n\n")
	mark := map[LinkState]string{LinkHolds: "ok     ", LinkBroken: "BROKEN ", LinkUnknown: "?      "}
	for _, l := range e.Links {
		fmt.Fprintf(&b, "%s %-15s %s\n", mark[l.State], l.Name, l.Says)
		for _, d := range l.Details {
			for line := range strings.Lines(d) {
				b.WriteString("          " + strings.TrimRight(line, "\n") + "\n")
			}
		}
	}
	broken := e.Broken()
	if broken == nil {
		if slices.ContainsFunc(e.Links, func(l IdentityLink) bool { return l.State == LinkUnknown }) {
			b.WriteString("\nWhether its pods get credentials of the role depends on the pod.\n")
		} else {
			b.WriteString("\nIts pods get credentials of the role.\n")
		}
		return b.String()
	}
	fmt.Fprintf(&b, "\nThe chain breaks first at: %s\n", broken.Name)
	if broken.Error != "" {
		fmt.Fprintf(&b, "Its pods see: %s\n", broken.Error)
	}
	if broken.Fix != "" {
		b.WriteString("What would mend it:\n")
		for line := range strings.Lines(broken.Fix) {
			b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	return b.String()
}

func newWhyServiceAccount(o *globalOptions) *cobra.Command {
	var cluster, account, region, output string
	cmd := &cobra.Command{
		Use:   "serviceaccount NAMESPACE/NAME",
		Short: "Explain which IAM role the pods of a service account get, or why none",
		Long: `Explain the chain by which the pods of a service account get an IAM role: the
annotation or the EKS Pod Identity association, the token in the pod with its
issuer, subject and audience, the OpenID Connect provider registered in IAM, the
role's trust policy with the values its conditions want and those the token has,
and what the role may do. The first broken link is named, with what AWS says to
the pod and what would mend it.

The exit code is 0 if the chain holds, 1 if it is broken, 2 if it cannot be told.`,
		Example: `  drydock why serviceaccount shop/cart --cluster dev
  drydock why serviceaccount kube-system/aws-node --cluster dev --output json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, ok := strings.Cut(args[0], "/")
			switch {
			case !ok || namespace == "" || name == "" || strings.Contains(name, "/"):
				return &ExitError{2, withHint(fmt.Errorf("%q is not NAMESPACE/NAME", args[0]), "drydock why serviceaccount default/default")}
			case account != "" && !accountID.MatchString(account):
				return &ExitError{2, fmt.Errorf("--account %q is not a 12-digit account ID", account)}
			case output != "text" && output != "json":
				return &ExitError{2, fmt.Errorf("--output %q is neither text nor json", output)}
			}
			info, err := o.readInfo()
			if err != nil {
				return &ExitError{2, err}
			}
			q := url.Values{"account": {account}, "region": {region}, "cluster": {cluster}, "namespace": {namespace}, "name": {name}}
			var e ServiceAccountExplanation
			if err := call(cmd.Context(), info, http.MethodGet, "why/serviceaccount", q, nil, &e); err != nil {
				return &ExitError{2, orHint(err, "drydock status", "drydock status")}
			}
			if output == "json" {
				err = o.printJSON(e)
			} else {
				_, err = fmt.Fprint(o.streams.Out, e.Text())
			}
			if err == nil && e.Broken() != nil {
				return &ExitError{Code: 1}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&cluster, "cluster", "", "the cluster (not needed where there is only one)")
	f.StringVar(&account, "account", defaultAccount(), accountUsage)
	f.StringVar(&region, "region", defaultRegion(), "the region")
	f.StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}
