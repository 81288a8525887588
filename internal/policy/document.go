package policy

import "slices"

// A Document is a parsed policy. It is immutable: share it.
type Document struct {
	Version    string // 2008-10-17 (also when absent) or 2012-10-17
	ID         string
	Statements []Statement

	prepared bool
}

// Span says where a statement stands in the text that was parsed.
func (s *Statement) Span() (start, end Position) { return s.start, s.end }

// ready returns d prepared for evaluation. Parse has done it; a document made by
// hand is prepared each time, for it may be shared.
func (d *Document) ready() *Document {
	if d.prepared {
		return d
	}
	out := *d
	out.Statements = append([]Statement(nil), d.Statements...)
	out.prepare()
	return &out
}

func (d *Document) prepare() {
	for i := range d.Statements {
		s := &d.Statements[i]
		patterns := s.Actions
		if s.NotActions != nil {
			patterns = s.NotActions
		}
		s.actions = compileActions(patterns)
		for _, r := range slices.Concat(s.Resources, s.NotResources) {
			s.resources = append(s.resources, newARNTemplate(r, d.Version))
		}
		for j := range s.Conditions {
			s.tests = append(s.tests, newTest(&s.Conditions[j], d.Version))
		}
	}
	d.prepared = true
}

// A Statement is one statement of a policy. Exactly one of Actions and
// NotActions is set, and at most one of Resources and NotResources and of
// Principals and NotPrincipals.
type Statement struct {
	SID           string
	Deny          bool
	Principals    *Principals
	NotPrincipals *Principals
	Actions       []string
	NotActions    []string
	Resources     []string
	NotResources  []string
	Conditions    []Condition

	start, end Position // in the document's text

	// What Parse prepares; see Document.ready.
	actions   actionSet
	resources []arnTemplate
	tests     []test
}

// Principals are the identities a statement of a resource or trust policy names.
type Principals struct {
	All       bool     // "*" or {"AWS": "*"}
	AWS       []string // ARNs, account IDs, unique IDs
	Service   []string // eks.amazonaws.com
	Federated []string
	Canonical []string
}

// A Condition is one operator applied to one key: all of a statement's must hold.
type Condition struct {
	Operator string // StringEquals, ForAnyValue:StringLike, …
	Key      string // as written; keys compare without case
	Values   []string
}
