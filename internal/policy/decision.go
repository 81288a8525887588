// Package policy decides what IAM policies allow. It is pure: documents and a
// request in, a decision with its reasons out; it opens nothing and knows no
// service. Any package may import it.
//
// What it cannot decide yet (most condition operators, policy variables,
// NotPrincipal) it names in Decision.Undecided and takes as a refusal: such a
// statement never allows, and denies if that is its effect.
package policy

// A Decision is the verdict on one action on one resource, with its reasons.
type Decision struct {
	Allowed bool
	// ExplicitDeny says a statement denied; otherwise a refusal is implicit:
	// nothing allowed it.
	ExplicitDeny bool
	Action       string // eks:CreateCluster
	Resource     string // ARN, or * where the action knows no resource
	// Reason is the last clause of AWS's message: "no identity-based policy allows
	// the eks:CreateCluster action", which follows "because", or "with an explicit
	// deny in a permissions boundary", which follows nothing.
	Reason string
	// Matched are the statements that decided, as SOURCE#SID-or-index.
	Matched []string
	// Undecided are statements that could not be evaluated and so granted nothing.
	Undecided []string
}

// Message is AWS's text for a refusal to principal (an ARN).
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
func (d Decision) Message(principal string) string {
	m := "User: " + principal + " is not authorized to perform: " + d.Action + " on resource: " + d.Resource
	switch {
	case d.Reason == "":
		return m
	case d.ExplicitDeny:
		return m + " " + d.Reason
	}
	return m + " because " + d.Reason
}
