package policy

import (
	"iter"
	"slices"
)

// A Document is a parsed policy. It is immutable and can be shared.
type Document struct {
	Version    string // 2008-10-17 (also when absent) or 2012-10-17
	ID         string
	Statements []Statement

	// byVendor holds, for each vendor, the statements that name its actions, in order. Those that may apply to any
	// vendor are under "". Parse fills it in; see ready.
	byVendor map[string][]int
}

// relevant returns the statements that may apply to a vendor's actions, in order.
func (d *Document) relevant(vendor string) iter.Seq[int] {
	return func(yield func(int) bool) {
		named, others := d.byVendor[vendor], d.byVendor[""]
		if vendor == "" {
			named = nil
		}
		for len(named)+len(others) > 0 {
			next := &others
			if len(others) == 0 || len(named) > 0 && named[0] < others[0] {
				next = &named
			}
			if !yield((*next)[0]) {
				return
			}
			*next = (*next)[1:]
		}
	}
}

func (d *Document) index() {
	d.byVendor = map[string][]int{}
	for i := range d.Statements {
		for _, v := range d.Statements[i].vendors() {
			if list := d.byVendor[v]; len(list) == 0 || list[len(list)-1] != i {
				d.byVendor[v] = append(list, i)
			}
		}
	}
}

// vendors lists the vendors whose actions s may apply to, possibly with repetitions, or only "" for any.
func (s *Statement) vendors() []string {
	if s.NotActions != nil {
		return []string{""}
	}
	out := make([]string, len(s.actions.patterns))
	for i := range out {
		if out[i] = vendorOf(&s.actions.patterns[i]); out[i] == "" {
			return []string{""}
		}
	}
	return out
}

// ready returns d prepared for evaluation. Parse has prepared its documents. A document built by hand is prepared on
// each call, because it may be shared.
func (d *Document) ready() *Document {
	if d.byVendor != nil {
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
	d.index()
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

	// These fields are prepared by Parse; see Document.ready.
	actions   actionSet
	resources []arnTemplate
	tests     []test
}

// Span returns where a statement is in the parsed text.
func (s *Statement) Span() (start, end Position) { return s.start, s.end }

// Principals are the identities that a statement of a resource or trust policy names.
type Principals struct {
	All       bool     // "*" or {"AWS": "*"}
	AWS       []string // ARNs, account IDs, unique IDs
	Service   []string // eks.amazonaws.com
	Federated []string
	// AnyFederated is {"Federated": "*"} in the policy of a VPC endpoint. In a trust policy it matches no principal.
	AnyFederated bool
	Canonical    []string
}

// A Condition is one operator applied to one key. All conditions of a statement must hold.
type Condition struct {
	Operator string // StringEquals, ForAnyValue:StringLike, …
	Key      string // as written; keys are compared case-insensitively
	Values   []string
}
