package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// A NodeExplanation is how far an instance has come on its way into its cluster.
type NodeExplanation struct {
	Instance string `json:"instance"`
	Account  string `json:"account"`
	Region   string `json:"region"`
	State    string `json:"state"` // EC2's: running, terminated, …
	Phase    string `json:"phase,omitempty"`
	Cluster  string `json:"cluster,omitempty"`
	Node     string `json:"node,omitempty"`
	Role     string `json:"role,omitempty"`
	Ready    bool   `json:"ready"`
	// OutOfTouch says that the node was Ready and reaches its cluster no more, which
	// Kubernetes finds out later.
	OutOfTouch bool `json:"outOfTouch,omitempty"`
	// Problem says what keeps a node from being Ready, or from working, in the words
	// of its last attempt.
	Problem string `json:"problem,omitempty"`
	Steps   []Step `json:"steps"`
	// Notes are what is not as on AWS's own nodes, and keeps nobody out.
	Notes []string `json:"notes,omitempty"`
}

// FirstFailed returns the step that keeps the node out, or nil. That is no script that
// failed while the node went on, unless nothing else failed.
func (e *NodeExplanation) FirstFailed() *Step {
	first := firstFailed(e.Steps)
	if first == nil || first.Name != stepScript {
		return first
	}
	wentOn := false
	for i := slices.IndexFunc(e.Steps, func(s Step) bool { return s.Name == stepScript }); i < len(e.Steps); i++ {
		switch s := &e.Steps[i]; {
		case s.Name == stepScript:
		case s.State == StepOK:
			wentOn = true
		case s.State == StepFailed && wentOn:
			return s
		}
	}
	return first
}

// stepScript is node.StepScript.
const stepScript = "script"

// Text draws the chain of steps.
func (e *NodeExplanation) Text() string {
	title := e.Instance + " in " + e.Region
	if e.Node != "" {
		title += ", node " + e.Node
	}
	if e.Cluster != "" {
		title += ", cluster " + e.Cluster
	}
	return chainText(title, e.Steps, e.Notes, e.verdict())
}

func (e *NodeExplanation) chain() ([]Step, bool) { return e.Steps, e.Ready }

func (e *NodeExplanation) verdict() string {
	failed := e.FirstFailed()
	switch {
	case e.State != "running" && e.State != "pending":
		return "The instance is " + e.State + "."
	case failed != nil && e.Ready:
		return "Ready, but " + failed.Name + " has failed."
	case failed != nil && e.OutOfTouch:
		return "Out of touch: " + failed.Name + " fails. Kubernetes calls the node Ready until some 40 seconds after its last sign of life, NotReady then."
	case failed != nil:
		return "Not Ready: " + failed.Name + " fails."
	case e.Ready:
		return "Ready."
	default:
		return "Not Ready yet: it is on its way."
	}
}

// A whyNodeFlags is what the commands about nodes have in common.
type whyNodeFlags struct{ account, region, output string }

func (f *whyNodeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.account, "account", defaultAccount(), accountUsage)
	cmd.Flags().StringVar(&f.region, "region", defaultRegion(), "the region")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
}

func (f *whyNodeFlags) check() error {
	switch {
	case f.account != "" && !accountID.MatchString(f.account):
		return &ExitError{2, fmt.Errorf("--account %q is not a 12-digit account ID", f.account)}
	case f.output != "text" && f.output != "json":
		return &ExitError{2, fmt.Errorf("--output %q is neither text nor json", f.output)}
	}
	return nil
}

func newWhyNode(o *globalOptions) *cobra.Command {
	var f whyNodeFlags
	var watch bool
	cmd := &cobra.Command{
		Use:   "node NAME|INSTANCE-ID",
		Short: "Show how far an instance has come into its cluster, and what keeps it out",
		Long: `Show the steps by which an instance becomes a node of its cluster: boot, metadata,
user data, its name from EC2, credentials, DNS and the connection to the API
server, the mapping of its role, registration, versions, the image of the VPC CNI
plugin, addresses for pods. The first that fails is shown with the symptom that
AWS shows, who decided so, and a command that would change it.

The exit code is 0 if the node is Ready, 1 if it is not, 2 if it is not known.`,
		Example: `  drydock why node i-0123456789abcdef0
  drydock why node ip-172-31-0-10.ec2.internal --output json
  drydock why node i-0123456789abcdef0 --watch`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			info, err := o.readInfo()
			if err != nil {
				return &ExitError{2, err}
			}
			q := url.Values{"account": {f.account}, "region": {f.region}, "name": {args[0]}}
			return whyChain(cmd.Context(), o, f.output, watch, func(ctx context.Context) (explanation, error) {
				var e NodeExplanation
				return &e, orHint(call(ctx, info, http.MethodGet, "why/node", q, nil, &e), "drydock status", "aws ec2 describe-instances --region "+f.region)
			})
		},
	}
	f.add(cmd)
	cmd.ValidArgsFunction = completeOne(func(ctx context.Context) []string { return o.nodeNames(ctx, f.account, f.region) })
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show steps as they happen, until the node is Ready")
	return cmd
}

// A NodesExplanation is about the nodes of a cluster, or of one of its node groups.
type NodesExplanation struct {
	Cluster   string `json:"cluster"`
	Nodegroup string `json:"nodegroup,omitempty"`
	Status    string `json:"status"`
	// Issues are EKS's own, of the node group or the cluster.
	Issues []string `json:"issues,omitempty"`
	// Fixes are commands that would end issues of the cluster.
	Fixes []string `json:"fixes,omitempty"`
	// Notes are what may be behind them: faults in force.
	Notes []string          `json:"notes,omitempty"`
	Nodes []NodeExplanation `json:"nodes"`
}

// Ready is how many nodes are.
func (e *NodesExplanation) Ready() int {
	n := 0
	for i := range e.Nodes {
		if e.Nodes[i].Ready {
			n++
		}
	}
	return n
}

// Text sums up: nodes that fail for the same reason are shown once.
func (e *NodesExplanation) Text() string {
	var b strings.Builder
	what := "cluster " + e.Cluster
	if e.Nodegroup != "" {
		what = "node group " + e.Nodegroup + " of " + what
	}
	fmt.Fprintf(&b, "%s is %s: %d of %d nodes Ready\n", what, e.Status, e.Ready(), len(e.Nodes))
	for _, i := range e.Issues {
		b.WriteString("  ✘ " + i + "\n")
	}
	for _, f := range e.Fixes {
		b.WriteString("    fix: " + f + "\n")
	}
	for _, n := range e.Notes {
		b.WriteString("  ! " + n + "\n")
	}
	type group struct {
		step  *Step
		nodes []string
		ready bool // all of them
	}
	var groups []*group
	for i := range e.Nodes {
		n := &e.Nodes[i]
		s := n.FirstFailed()
		if s == nil {
			continue
		}
		var into *group
		for _, g := range groups {
			if g.step.Name == s.Name && (g.step.Evidence == s.Evidence || g.step.Reason != nil && s.Reason != nil && g.step.Reason.Code == s.Reason.Code && g.step.Reason.Component == s.Reason.Component) {
				into = g
			}
		}
		if into == nil {
			into = &group{step: s, ready: true}
			groups = append(groups, into)
		}
		into.nodes = append(into.nodes, n.Instance)
		into.ready = into.ready && n.Ready
	}
	slices.SortStableFunc(groups, func(a, b *group) int { // those that are kept out first
		switch {
		case a.ready == b.ready:
			return 0
		case b.ready:
			return -1
		}
		return 1
	})
	for _, g := range groups {
		names := strings.Join(g.nodes[:min(3, len(g.nodes))], ", ")
		if more := len(g.nodes) - 3; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		b.WriteString("\n" + names + "\n")
		g.step.write(&b)
	}
	return b.String()
}

func newWhyNodegroup(o *globalOptions) *cobra.Command {
	var f whyNodeFlags
	var cluster string
	cmd := &cobra.Command{
		Use:     "nodegroup NAME",
		Short:   "Show why nodes of a node group are not Ready",
		Example: "  drydock why nodegroup ng --cluster dev",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return whyNodes(cmd.Context(), o, f, cluster, args[0])
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&cluster, "cluster", "", "the node group's cluster (not needed where there is only one)")
	return cmd
}

func newWhyCluster(o *globalOptions) *cobra.Command {
	var f whyNodeFlags
	cmd := &cobra.Command{
		Use:     "cluster [NAME]",
		Short:   "Show what is wrong with a cluster and its nodes",
		Long:    "Show what is wrong with a cluster and its nodes. NAME is not needed where there is only one.",
		Example: "  drydock why cluster dev",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return whyNodes(cmd.Context(), o, f, name, "")
		},
	}
	f.add(cmd)
	cmd.ValidArgsFunction = completeOne(func(ctx context.Context) []string { return o.clusterNames(ctx, f.account, f.region) })
	return cmd
}

func whyNodes(ctx context.Context, o *globalOptions, f whyNodeFlags, cluster, nodegroup string) error {
	if err := f.check(); err != nil {
		return err
	}
	info, err := o.readInfo()
	if err != nil {
		return &ExitError{2, err}
	}
	var e NodesExplanation
	q := url.Values{"account": {f.account}, "region": {f.region}, "cluster": {cluster}, "nodegroup": {nodegroup}}
	if err := call(ctx, info, http.MethodGet, "why/nodes", q, nil, &e); err != nil {
		found := "drydock status"
		if nodegroup != "" && cluster != "" {
			found = "aws eks list-nodegroups --cluster-name " + cluster + " --region " + f.region
		}
		return &ExitError{2, orHint(err, "drydock status", found)}
	}
	if f.output == "json" {
		err = o.printJSON(e)
	} else {
		_, err = fmt.Fprint(o.streams.Out, e.Text())
	}
	if err == nil && (e.Ready() < len(e.Nodes) || len(e.Issues) > 0) {
		return &ExitError{Code: 1}
	}
	return err
}
