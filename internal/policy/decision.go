// Package policy decides what IAM policies allow. It is pure: documents and a
// request in, a decision with its reasons out; it opens nothing.
package policy

// A Decision is the verdict on one action on one resource, with its reasons.
type Decision struct {
	Allowed bool
	// ExplicitDeny says a statement denied; otherwise a refusal is implicit:
	// nothing allowed it.
	ExplicitDeny bool
	Action       string // eks:CreateCluster
	Resource     string // ARN, or * where the action knows no resource
	// Reason is the last clause of AWS's message: "no identity-based policy
	// allows the eks:CreateCluster action".
	Reason string
	// Matched are the statements that decided, as SOURCE#SID-or-index.
	Matched []string
	// Undecided are statements that could not be evaluated and so granted nothing.
	Undecided []string
}
