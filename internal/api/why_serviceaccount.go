package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
)

// A LinkState says whether a link of a chain holds.
type LinkState string

// The states of links. The state of a link after a broken one may be unknown.
const (
	LinkHolds   LinkState = "holds"
	LinkBroken  LinkState = "broken"
	LinkUnknown LinkState = "unknown"
)

// An IdentityLink is one link of the chain from a service account to its pods' permissions.
type IdentityLink struct {
	Name  string    `json:"name"`
	State LinkState `json:"state"`
	// Says is what was found. Error is what AWS tells the pod because of it.
	Says  string `json:"says"`
	Error string `json:"error,omitempty"`
	// Details are lines of evidence.
	Details []string `json:"details,omitempty"`
	// Fixes are ways to fix the link.
	Fixes []advice.Fix `json:"fixes,omitempty"`
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
	// Unknown lists what could not be read from a twin's source. If it is not empty, the links are what is known.
	Unknown []string `json:"unknown,omitempty"`
}

// Broken returns the first broken link, or nil.
func (e *ServiceAccountExplanation) Broken() *IdentityLink {
	for i := range e.Links {
		if e.Links[i].State == LinkBroken {
			return &e.Links[i]
		}
	}
	return nil
}

// Text renders the explanation for people.
func (e *ServiceAccountExplanation) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s in cluster %s of %s", e.Namespace, e.ServiceAccount, e.Cluster, e.Region)
	if e.Mechanism != "" {
		b.WriteString(", by " + e.Mechanism)
	}
	b.WriteString("\n\n")
	mark := map[LinkState]string{LinkHolds: "✔", LinkBroken: "✘", LinkUnknown: "·"}
	for _, l := range e.Links {
		fmt.Fprintf(&b, "  %s %-16s  %s\n", mark[l.State], l.Name, l.Says)
		for _, d := range l.Details {
			for line := range strings.Lines(d) {
				b.WriteString("      " + strings.TrimRight(line, "\n") + "\n")
			}
		}
	}
	if len(e.Unknown) > 0 {
		b.WriteString("\n" + unknownText(e.Unknown))
		return b.String()
	}
	broken := e.Broken()
	if broken == nil {
		if slices.ContainsFunc(e.Links, func(l IdentityLink) bool { return l.State == LinkUnknown }) {
			b.WriteString("\nWhether its pods get credentials for the role depends on the pod.\n")
		} else {
			b.WriteString("\nIts pods get credentials for the role.\n")
		}
		return b.String()
	}
	fmt.Fprintf(&b, "\nThe chain breaks first at: %s\n", broken.Name)
	if broken.Error != "" {
		fmt.Fprintf(&b, "Its pods see: %s\n", broken.Error)
	}
	b.WriteString(advice.Text("", broken.Fixes))
	return b.String()
}
