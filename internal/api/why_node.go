package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/advice"
)

// A NodeExplanation is how far an instance got in joining its cluster.
type NodeExplanation struct {
	Instance string `json:"instance"`
	Account  string `json:"account"`
	Region   string `json:"region"`
	State    string `json:"state"` // EC2's state: running, terminated, …
	Phase    string `json:"phase,omitempty"`
	Cluster  string `json:"cluster,omitempty"`
	Node     string `json:"node,omitempty"`
	Role     string `json:"role,omitempty"`
	Ready    bool   `json:"ready"`
	// OutOfTouch says that the node was Ready and can no longer reach its cluster, which Kubernetes notices later.
	OutOfTouch bool `json:"outOfTouch,omitempty"`
	// Fargate says that it is a node of Fargate's.
	Fargate bool `json:"fargate,omitempty"`
	// NextTry is when the node retries what fails. It is zero if the node does not retry by
	// itself, or if nothing fails.
	NextTry time.Time `json:"nextTry,omitzero"`
	// Problem says what keeps a node from being Ready, or from working, in the words of its last attempt.
	Problem string `json:"problem,omitempty"`
	Steps   []Step `json:"steps"`
	// Unknown lists what could not be read from a twin's source. If it is not empty, the steps are what is known, and whether the
	// node joins is unknown.
	Unknown []string `json:"unknown,omitempty"`
	// Observed is what AWS showed about a node of a twin when the twin was read, and Disagreement says how the
	// prediction differs.
	Observed     []string `json:"observed,omitempty"`
	Disagreement string   `json:"disagreement,omitempty"`
	// Notes list differences from AWS's own nodes that do not prevent a join.
	Notes []string `json:"notes,omitempty"`
}

// FirstFailed returns the step that keeps the node out, or nil. A script that failed without stopping the node only
// counts if nothing else failed.
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

// Text renders the chain of steps.
func (e *NodeExplanation) Text() string {
	title := e.Instance + " in " + e.Region
	if e.Node != "" {
		title += ", node " + e.Node
	}
	if e.Cluster != "" {
		title += ", cluster " + e.Cluster
	}
	verdict := e.Verdict()
	if len(e.Observed) > 0 {
		verdict += "\nAs AWS showed it when it was read:\n  " + strings.Join(e.Observed, "\n  ")
	}
	if e.Disagreement != "" {
		verdict += "\ndisagreement: " + e.Disagreement
	}
	return chainText(title, e.Steps, e.Notes, verdict)
}

// IsUnknown reports whether the verdict depends on what could not be read from a twin's source.
func (e *NodeExplanation) IsUnknown() bool { return len(e.Unknown) > 0 }

// Chain returns the steps, and reports whether the end was reached.
func (e *NodeExplanation) Chain() ([]Step, bool) { return e.Steps, e.Ready }

// Verdict summarizes the chain, and says when the node retries what fails.
func (e *NodeExplanation) Verdict() string {
	verdict := e.state()
	if e.IsUnknown() {
		return strings.TrimSuffix(unknownText(e.Unknown), "\n")
	}
	if e.State != "running" || e.Ready && !e.OutOfTouch || e.Problem == "" {
		return verdict
	}
	switch left := time.Until(e.NextTry).Round(time.Second); {
	case e.NextTry.IsZero():
		return verdict + " The node does not try again by itself."
	case left <= 0:
		return verdict + " The node is trying again now."
	default:
		return verdict + " The node tries again in " + left.String() + "."
	}
}

func (e *NodeExplanation) state() string {
	failed := e.FirstFailed()
	switch {
	case e.State != "running" && e.State != "pending":
		return "The instance is " + e.State + "."
	case failed != nil && e.Ready:
		return "Ready, but " + failed.Name + " has failed."
	case failed != nil && e.OutOfTouch:
		return "Out of touch: " + failed.Name + " fails. Kubernetes shows the node as Ready until about 40 seconds after its last heartbeat, then as NotReady."
	case failed != nil:
		return "Not Ready: " + failed.Name + " fails."
	case e.Ready:
		return "Ready."
	default:
		return "Not Ready yet: still in progress."
	}
}

// EndpointAccess is who may connect to a cluster's endpoint.
type EndpointAccess struct {
	Host        string   `json:"host"` // on AWS
	Public      bool     `json:"public"`
	PublicCIDRs []string `json:"publicCidrs,omitempty"`
	Private     bool     `json:"private"`
	// ClientAddress is this machine's, as AWS sees it, and Addresses are what Host
	// resolves to here. Reachable says that this machine may connect.
	ClientAddress string   `json:"clientAddress"`
	Addresses     []string `json:"addresses,omitempty"`
	Reachable     bool     `json:"reachable"`
}

// text says in a line whether this machine reaches the endpoint.
func (a *EndpointAccess) text() string {
	var modes []string
	if a.Public {
		modes = append(modes, strings.TrimRight("public access from "+strings.Join(a.PublicCIDRs, ", "), " "))
	}
	if a.Private {
		modes = append(modes, "private access from its VPC")
	}
	mark, verb := "✔", "reaches"
	if !a.Reachable {
		mark, verb = "✘", "does not reach"
	}
	return fmt.Sprintf("  %s %-16s  this machine (%s) %s %s (%s): %s\n", mark, "endpoint", a.ClientAddress, verb, a.Host, strings.Join(a.Addresses, ", "), strings.Join(modes, ", "))
}

// A NodesExplanation explains the nodes of a cluster, or of one of its node groups.
type NodesExplanation struct {
	Cluster   string `json:"cluster"`
	Nodegroup string `json:"nodegroup,omitempty"`
	Status    string `json:"status"`
	// Issues are EKS's health issues of the node group or the cluster.
	Issues []string `json:"issues,omitempty"`
	// Fixes are commands that would resolve issues of the cluster.
	Fixes []advice.Fix `json:"fixes,omitempty"`
	// Notes are possible causes: faults in force.
	Notes []string          `json:"notes,omitempty"`
	Nodes []NodeExplanation `json:"nodes"`
	// Unknown lists what could not be read from a twin's source about which nodes exist.
	Unknown []string `json:"unknown,omitempty"`
	// Endpoint is the cluster's, unless it is about a node group.
	Endpoint *EndpointAccess `json:"endpoint,omitempty"`
}

// Ready is how many nodes are ready.
func (e *NodesExplanation) Ready() int {
	n := 0
	for i := range e.Nodes {
		if e.Nodes[i].Ready {
			n++
		}
	}
	return n
}

// Whole reports whether all nodes are known and Ready, and EKS has no issue.
func (e *NodesExplanation) Whole() bool {
	return e.Ready() == len(e.Nodes) && len(e.Issues) == 0 && len(e.Unknown) == 0
}

// IsUnknown reports whether nothing is known to be wrong, but what keeps nodes from being Ready depends on what could not be read
// of a twin's source.
func (e *NodesExplanation) IsUnknown() bool {
	unknown := len(e.Unknown) > 0
	for i := range e.Nodes {
		switch n := &e.Nodes[i]; {
		case n.IsUnknown():
			unknown = true
		case !n.Ready:
			return false
		}
	}
	return unknown && len(e.Issues) == 0
}

// FirstFixes returns the fixes that are printed first.
func (e *NodesExplanation) FirstFixes() []advice.Fix {
	if len(e.Fixes) > 0 {
		return e.Fixes
	}
	for i := range e.Nodes {
		if s := e.Nodes[i].FirstFailed(); s != nil && s.Reason != nil && len(s.Reason.Fixes) > 0 {
			return s.Reason.Fixes
		}
	}
	return nil
}

// fargate is how many nodes are Fargate's.
func (e *NodesExplanation) fargate() int {
	n := 0
	for i := range e.Nodes {
		if e.Nodes[i].Fargate {
			n++
		}
	}
	return n
}

// Text summarizes the nodes. Those that fail for the same reason are shown once.
func (e *NodesExplanation) Text() string {
	var b strings.Builder
	what := "cluster " + e.Cluster
	if e.Nodegroup != "" {
		what = "node group " + e.Nodegroup + " of " + what
	}
	fmt.Fprintf(&b, "%s is %s: %d of %d nodes Ready", what, e.Status, e.Ready(), len(e.Nodes))
	if n := e.fargate(); n > 0 {
		fmt.Fprintf(&b, ", %d of them on Fargate", n)
	}
	b.WriteString("\n")
	if e.Endpoint != nil {
		b.WriteString(e.Endpoint.text())
	}
	for _, i := range e.Issues {
		b.WriteString("  ✘ " + i + "\n")
	}
	b.WriteString(advice.Text("    ", e.Fixes))
	for _, n := range e.Notes {
		b.WriteString("  ! " + n + "\n")
	}
	if len(e.Unknown) > 0 {
		b.WriteString(unknownText(e.Unknown))
	}
	type group struct {
		step  *Step
		nodes []string
		ready bool // the number of all nodes
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
	slices.SortStableFunc(groups, func(a, b *group) int { // those that are kept out come first
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
		b.WriteString(g.step.Text())
	}
	return b.String()
}
