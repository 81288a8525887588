package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Rehearsal is the result of upgrading a copy of a cluster.
type Rehearsal struct {
	Cluster       string    `json:"cluster"`
	From          string    `json:"from"`
	To            string    `json:"to"`
	Findings      []Finding `json:"findings"` // errors first
	UpgradeMillis int64     `json:"upgradeMillis"`
	// Steps are the updates after that of the control plane, in their order.
	Steps []RehearsedStep `json:"steps"`
	// Unknown lists what could not be read from a twin's source. Anything that depends on it was not rehearsed.
	Unknown []string `json:"unknown,omitempty"`
	// Stubbed is how often each admission webhook would have been called. The copy calls none of them and lets all
	// requests pass.
	Stubbed map[string]int `json:"stubbed,omitempty"`
}

// A RehearsedStep is the update of an add-on or of a node group.
type RehearsedStep struct {
	Kind   string `json:"kind"` // add-on or node-group
	Name   string `json:"name"`
	From   string `json:"from"`
	To     string `json:"to,omitempty"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// A Finding is something that an upgrade would break or leave behind.
type Finding struct {
	Check    string `json:"check"`
	Severity string `json:"severity"` // error or warning
	Subject  string `json:"subject"`
	Text     string `json:"text"`
	Fix      string `json:"fix,omitempty"`
}

// Breaks reports whether the upgrade would be refused or break something.
func (r *Rehearsal) Breaks() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == "error" })
}

// Text renders the result as a table.
func (r *Rehearsal) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Upgraded a copy of cluster %s from Kubernetes %s to %s in %s.\n", r.Cluster, r.From, r.To, time.Duration(r.UpgradeMillis)*time.Millisecond)
	for _, s := range r.Steps {
		versions := s.From
		if s.To != "" {
			versions += " to " + s.To
		}
		fmt.Fprintf(&b, "Then %s %s, %s: %s.\n", strings.ReplaceAll(s.Kind, "node-group", "node group"), s.Name, versions, s.Text)
	}
	for _, u := range r.Unknown {
		b.WriteString("unknown: " + u + "\n")
	}
	for _, webhook := range slices.Sorted(maps.Keys(r.Stubbed)) {
		fmt.Fprintf(&b, "not called: the admission webhook %s, %d times; the copy let it pass\n", webhook, r.Stubbed[webhook])
	}
	if len(r.Findings) == 0 {
		if len(r.Unknown) == 0 {
			b.WriteString("Nothing would break.\n")
		}
		return b.String()
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "SEVERITY\tCHECK\tSUBJECT\tFINDING")
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Severity, f.Check, f.Subject, f.Text)
	}
	_ = w.Flush() // a Builder does not fail
	b.WriteString("\n")
	seen := map[string]bool{}
	for _, f := range r.Findings {
		if line := f.Subject + ": " + f.Fix; f.Fix != "" && !seen[line] {
			seen[line] = true
			b.WriteString("to fix " + line + "\n")
		}
	}
	return b.String()
}

// rehearsalPatience is the timeout of a rehearsal.
const rehearsalPatience = 15 * time.Minute

// RehearseUpgrade upgrades a copy of a cluster to the next Kubernetes version and returns what would break.
func (c *Client) RehearseUpgrade(ctx context.Context, p Place, cluster string) (Rehearsal, error) {
	var out Rehearsal
	err := c.callFor(ctx, rehearsalPatience, http.MethodPost, "rehearse/upgrade", p.values("cluster", cluster), nil, &out)
	return out, err
}
