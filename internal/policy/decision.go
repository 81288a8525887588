// Package policy decides what IAM policies allow, and says why. It is pure: documents and a request in, a verdict
// with its reasons out. It does no I/O and does not depend on any service. Any package may import it.
//
// Parse reads and checks documents as IAM does. Evaluate decides a request, fast; Explain returns the whole
// reasoning, statement by statement; Suggest finds the smallest changes that would turn a denial into an allow.
//
// A statement that cannot be decided from what is known about a request (see Context) never allows, and denies if its
// effect is Deny. The decision names the missing value.
//
// The table "sentence of AWS's documentation → case" is in docs_*_test.go (TestDocumentation): one row per
// sentence, with its page.
//
// Services translate access control lists to statements of a policy.
package policy

import (
	"fmt"
	"slices"
	"strconv"
)

// A PolicyType is a type of policy, in the words of AWS's messages.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
type PolicyType string

// The types of policies, in the order in which denials name them.
const (
	IdentityBased       PolicyType = "identity-based policy"
	PermissionsBoundary PolicyType = "permissions boundary"
	SessionPolicy       PolicyType = "session policy"
	RoleTrust           PolicyType = "role trust policy"
	ResourceBased       PolicyType = "resource-based policy"
	KMSGrant            PolicyType = "grant"
	VPCEndpoint         PolicyType = "VPC endpoint policy"
	ServiceControl      PolicyType = "service control policy"
	ResourceControl     PolicyType = "resource control policy"
)

// denies returns AWS's words for an explicit deny in a policy of this type.
func (t PolicyType) denies() string {
	switch t {
	case IdentityBased:
		return "with an explicit deny in an identity-based policy"
	case RoleTrust:
		return "with an explicit deny in the role trust policy"
	}
	return "with an explicit deny in a " + string(t)
}

// A Decision is the verdict on one action on one resource, with its reasons.
type Decision struct {
	Allowed bool `json:"allowed"`
	// ExplicitDeny reports whether a statement denied. Otherwise a denial is implicit: a required allow was missing.
	ExplicitDeny bool   `json:"explicitDeny"`
	Action       string `json:"action"`   // eks:CreateCluster
	Resource     string `json:"resource"` // ARN, or * if the action has no resource
	// Reason is the last clause of AWS's message: "no identity-based policy allows the eks:CreateCluster action",
	// which follows "because", or "with an explicit deny in a permissions boundary", which stands alone. It is empty
	// if the request is allowed.
	Reason string `json:"reason,omitempty"`
	// Matched are the statements that decided: those that denied or, if there are none, those that allowed.
	Matched []Match `json:"matched,omitempty"`
	// Missing are the types of policies that had to allow and did not.
	Missing []PolicyType `json:"missing,omitempty"`
	// Undecided are statements that could not be evaluated. They allowed nothing, and denied if that is their effect.
	Undecided []Match `json:"undecided,omitempty"`
	// UnknownKeys are the condition keys, in lower case, that left them undecided.
	UnknownKeys []string `json:"unknownKeys,omitempty"`
}

// Message returns AWS's text for a denial to principal (an ARN).
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

// organization reports whether a policy of AWS Organizations refused the request.
func (d *Decision) organization() bool {
	of := func(t PolicyType) bool { return t == ServiceControl || t == ResourceControl }
	return slices.ContainsFunc(d.Missing, of) || d.ExplicitDeny && slices.ContainsFunc(d.Matched, func(m Match) bool { return of(m.Type) })
}

// A Match is a statement that contributed to a decision, and its location.
type Match struct {
	Type   PolicyType `json:"type"`
	Source string     `json:"source"` // Source.Name
	SID    string     `json:"sid,omitempty"`
	Index  int        `json:"index"` // of the statement in its document, from 0
	Deny   bool       `json:"deny,omitempty"`
	// Start and End of the statement in the document's text, as IAM's simulator counts: a statement starts where
	// whatever precedes it ends.
	Start Position `json:"start,omitzero"`
	End   Position `json:"end,omitzero"`
}

// String identifies a statement: SOURCE#SID, or SOURCE#INDEX from 0.
func (m Match) String() string {
	if m.SID != "" {
		return m.Source + "#" + m.SID
	}
	return m.Source + "#" + strconv.Itoa(m.Index)
}

// A Position is a place in a document's text. The zero value means no place.
type Position struct {
	Line   int `json:"line"`   // from 1
	Column int `json:"column"` // from 1, in bytes
}

func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }
