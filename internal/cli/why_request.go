package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/policy"
)

// A RequestExplanation is why a request was refused, at the time.
type RequestExplanation struct {
	RequestID string    `json:"requestId"`
	Time      time.Time `json:"time"`
	Account   string    `json:"account"`
	Region    string    `json:"region"`
	Principal string    `json:"principal"`
	Service   string    `json:"service"`
	Operation string    `json:"operation"`
	// Refused is false for a request that was let in: of such, no reasons are kept.
	Refused bool `json:"refused"`
	// Fault is what it failed by, if it was on purpose. There is no Explanation then.
	Fault *RequestFault `json:"fault,omitempty"`
	// Network is what a program of a pod did not reach: there was no request then, and
	// there is no Explanation.
	Network *RequestNetwork `json:"network,omitempty"`
	// Explanation is the reasoning about the policies of then, but for
	// OmittedStatements that were too many to keep.
	Explanation       policy.Explanation `json:"explanation"`
	OmittedStatements int                `json:"omittedStatements,omitempty"`
	// NoSuchRole says that the role to be assumed was not there.
	NoSuchRole    bool                `json:"noSuchRole,omitempty"`
	ConditionKeys map[string][]string `json:"conditionKeys,omitempty"`
	// Suggestions are the smallest changes that would have allowed it.
	Suggestions []policy.Suggestion `json:"suggestions"`
	// Fix is the command that makes the first of them come true that takes but one.
	Fix string `json:"fix,omitempty"`
	// Now is the decision on the same request by the policies of today.
	Now *policy.Decision `json:"now,omitempty"`
}

// A RequestFault is a fault that a request failed by, set by drydock fault.
type RequestFault struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	Fix     string `json:"fix"`
	Code    string `json:"code"` // what the caller was told
	Message string `json:"message"`
}

// A RequestNetwork is a connection that drydock run --pod did not make.
type RequestNetwork struct {
	Cluster string `json:"cluster"`
	Pod     string `json:"pod"`    // NAMESPACE/NAME
	Target  string `json:"target"` // HOST:PORT
	Reason  Reason `json:"reason"`
}

func (n *RequestNetwork) text(e *RequestExplanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "connection to %s, %s\nrequest   %s\nprincipal %s\npod       %s in cluster %s of %s\n\n",
		n.Target, e.Time.UTC().Format(time.RFC3339), e.RequestID, e.Principal, n.Pod, n.Cluster, e.Region)
	fmt.Fprintf(&b, "It was not made: %s.\nby        %s %s %s\n", strings.TrimSuffix(n.Reason.Text, "."), n.Reason.By, n.Reason.Code, n.Reason.Component)
	for _, f := range n.Reason.Fixes {
		b.WriteString("fix: " + f + "\n")
	}
	return b.String()
}

// Text says it for people.
func (e RequestExplanation) Text() string {
	if e.Network != nil {
		return e.Network.text(&e)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s in %s, %s\n", e.Operation, e.Service, e.Region, e.Time.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "request   %s\nprincipal %s\n", e.RequestID, e.Principal)
	d := e.Explanation.Decision
	if f := e.Fault; f != nil {
		fmt.Fprintf(&b, "answer    %s: %s\n\nIt failed by %s.\nfix: %s\n", f.Code, f.Message, f.Text, f.Fix)
		return b.String()
	}
	if !e.Refused {
		b.WriteString("\nNo policy refused it.\n")
		return b.String()
	}
	fmt.Fprintf(&b, "action    %s\nresource  %s\n\n%s", d.Action, d.Resource, e.Explanation)
	if e.OmittedStatements > 0 {
		fmt.Fprintf(&b, "%d more statements were too many to keep.\n", e.OmittedStatements)
	}
	if e.NoSuchRole {
		b.WriteString("There is no such role. STS answers as it does for one whose trust policy does not name the caller.\n")
	}
	if len(d.UnknownKeys) > 0 {
		fmt.Fprintf(&b, "Drydock does not know the value of %s: conditions on it allow nothing, and deny.\n", strings.Join(d.UnknownKeys, ", "))
	}
	for i, s := range e.Suggestions {
		if i == 0 {
			b.WriteString("\nWhat would allow it:\n")
		} else {
			b.WriteString("or\n")
		}
		for line := range strings.Lines(s.String()) {
			b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	if e.Fix != "" {
		b.WriteString("\nfix: " + e.Fix + "\n")
	}
	switch {
	case e.Now == nil:
	case e.Now.Allowed:
		b.WriteString("\nBy the policies of now it would be allowed.\n")
	default:
		b.WriteString("\nBy the policies of now it would be refused, too.\n")
	}
	return b.String()
}

func newWhyRequest(o *globalOptions) *cobra.Command {
	var account, output string
	var last bool
	cmd := &cobra.Command{
		Use:   "request REQUEST-ID | request --last-denied",
		Short: "Explain why a request was refused",
		Long: `Explain why a request of the AWS API was refused: who asked for which action on
which resource, every policy with the statements that matched, or the element or
condition key that did not, with both values, and the smallest change that would
allow it.

The request ID is in the error of the AWS CLI with --debug, in those of the SDKs
and Terraform, and in CloudTrail's events. What is shown was kept when the request
was refused; the last line says what the policies of today would say.

The exit code is 0 if the request was refused and explained, 2 if it is not known.`,
		Example: `  drydock why request --last-denied
  drydock why request 7f1d0e3c-2f0a-4c0e-9a51-0d3c1f2b7a11 --output json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case last == (len(args) == 1):
				return &ExitError{2, withHint(fmt.Errorf("name one request, or --last-denied"), "drydock why request --last-denied")}
			case account != "" && !accountID.MatchString(account):
				return &ExitError{2, fmt.Errorf("--account %q is not a 12-digit account ID", account)}
			case output != "text" && output != "json":
				return &ExitError{2, fmt.Errorf("--output %q is neither text nor json", output)}
			}
			info, err := o.readInfo()
			if err != nil {
				return &ExitError{2, err}
			}
			q := url.Values{"account": {account}}
			if !last {
				q.Set("id", args[0])
			}
			var e RequestExplanation
			if err := call(cmd.Context(), info, http.MethodGet, "why/request", q, nil, &e); err != nil {
				return &ExitError{2, orHint(err, "drydock status", "aws cloudtrail lookup-events --max-items 20")}
			}
			if output == "json" {
				return o.printJSON(e)
			}
			_, err = fmt.Fprint(o.streams.Out, e.Text())
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&last, "last-denied", false, "the last request that was refused")
	f.StringVar(&account, "account", "", "the account (default any)")
	f.StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}
