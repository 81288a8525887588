package policy

import (
	"slices"
)

// An Explanation is the whole reasoning behind a decision.
type Explanation struct {
	Decision Decision           `json:"decision"`
	Layers   []LayerExplanation `json:"layers"`
}

// A LayerExplanation explains the effect of the policies of one type.
type LayerExplanation struct {
	Type PolicyType `json:"type"`
	// Required says that a policy of this type had to allow.
	Required bool `json:"required"`
	// Allows and Denies report whether a statement did.
	Allows bool `json:"allows"`
	Denies bool `json:"denies"`
	// Statements are all of the layer's statements, in order.
	Statements []StatementExplanation `json:"statements"`
}

// An Outcome is the result of evaluating a statement.
type Outcome string

// The outcomes.
const (
	Applies      Outcome = "applies"
	DoesNotApply Outcome = "does not apply"
	// Undecided statements never allow, and deny if that is their effect.
	Undecided Outcome = "cannot be decided"
)

// A StatementExplanation explains one statement. The JSON of Match is inlined.
type StatementExplanation struct {
	Match
	Outcome Outcome `json:"outcome"`
	// Mismatches are the elements that did not match, or that could not be decided.
	Mismatches []Mismatch `json:"mismatches,omitempty"`
}

// An Element is an element of a statement.
type Element string

// The elements that may fail to match.
const (
	ActionElement       Element = "Action"
	NotActionElement    Element = "NotAction"
	ResourceElement     Element = "Resource"
	NotResourceElement  Element = "NotResource"
	PrincipalElement    Element = "Principal"
	NotPrincipalElement Element = "NotPrincipal"
	ConditionElement    Element = "Condition"
)

// A Mismatch is an element of a statement that did not match the request.
type Mismatch struct {
	Element Element `json:"element"`
	// Operator and Key of a condition, as written.
	Operator string `json:"operator,omitempty"`
	Key      string `json:"key,omitempty"`
	// Wanted are the policy's values as written. Resolved are the same with their variables replaced, if they have
	// any; a variable without a value stays.
	Wanted   []string `json:"wanted"`
	Resolved []string `json:"resolved,omitempty"`
	// Actual is what the request has, or empty if the key is absent.
	Actual []string `json:"actual"`
	// Unknown are the condition keys whose missing values prevent a decision.
	Unknown []string `json:"unknown,omitempty"`
}

// Explain decides a request as Evaluate does, and says for every statement why it applied or not.
func Explain(req Request, p Policies) Explanation {
	out := Explanation{Decision: Evaluate(req, p)}
	req.Context = req.Context.bounded()
	q := ask(&req)
	layers := p.layers(&req)
	for i := range layers {
		layers[i].weigh(&q, &Decision{})
	}
	grant := grantTo(&req, layers)
	for _, l := range layers {
		le := LayerExplanation{
			Type: l.kind, Required: l.required(grant),
			Allows: len(l.allows) > 0, Denies: len(l.denies) > 0,
		}
		for _, src := range l.sources {
			doc := src.Document.ready()
			for i := range doc.Statements {
				le.Statements = append(le.Statements, l.explain(src.Name, doc, i, &q))
			}
		}
		out.Layers = append(out.Layers, le)
	}
	return out
}

func (l *layer) explain(source string, doc *Document, i int, q *question) StatementExplanation {
	s := &doc.Statements[i]
	out := StatementExplanation{Match: l.match(source, s, i), Outcome: Applies}
	add := func(v verdict, m Mismatch) {
		switch {
		case v == yes:
			return
		case v == no:
			out.Outcome = DoesNotApply
			m.Unknown = nil
		case out.Outcome == Applies:
			out.Outcome = Undecided
		}
		out.Mismatches = append(out.Mismatches, m)
	}
	add(is(s.action(q)), s.actionMismatch(q))
	add(s.resource(q), s.resourceMismatch(q))
	if l.names() {
		_, named := s.grants(&q.Principal)
		add(named, s.principalMismatch(&q.Principal))
	}
	for j := range s.tests {
		t := &s.tests[j]
		add(t.holds(&q.Context), t.mismatch(&s.Conditions[j], &q.Context))
	}
	return out
}

func (s *Statement) actionMismatch(q *question) Mismatch {
	m := Mismatch{Element: ActionElement, Wanted: s.Actions, Actual: []string{q.Action}}
	if s.NotActions != nil {
		m.Element, m.Wanted = NotActionElement, s.NotActions
	}
	return m
}

func (s *Statement) resourceMismatch(q *question) Mismatch {
	m := Mismatch{Element: ResourceElement, Wanted: s.Resources, Actual: []string{q.Resource}}
	if s.NotResources != nil {
		m.Element, m.Wanted = NotResourceElement, s.NotResources
	}
	if q.Resource == "" {
		m.Actual = nil
	}
	for i := range s.resources {
		m.resolve(&s.resources[i].template, &q.Context)
	}
	m.settle()
	return m
}

func (s *Statement) principalMismatch(p *Principal) Mismatch {
	m := Mismatch{Element: PrincipalElement, Wanted: s.Principals.names(), Actual: p.names()}
	if s.NotPrincipals != nil {
		m.Element, m.Wanted = NotPrincipalElement, s.NotPrincipals.names()
	}
	return m
}

func (t *test) mismatch(c *Condition, ctx *Context) Mismatch {
	m := Mismatch{Element: ConditionElement, Operator: c.Operator, Key: c.Key, Wanted: c.Values}
	values, known := ctx.get(t.key)
	m.Actual = values
	if !known {
		m.Unknown = []string{t.key}
	}
	for i := range t.wants {
		m.resolve(&t.wants[i].template, ctx)
	}
	m.settle()
	return m
}

// resolve adds a wanted value with its variables replaced, and the keys that prevent replacing them.
func (m *Mismatch) resolve(t *template, ctx *Context) {
	text := t.text
	if len(t.vars) > 0 {
		switch resolved, _, ok := t.resolve(ctx); ok {
		case yes:
			text = resolved
		case unknown:
			for _, v := range t.vars {
				if _, known := ctx.get(v.key); !known && !slices.Contains(m.Unknown, v.key) {
					m.Unknown = append(m.Unknown, v.key)
				}
			}
		}
	}
	m.Resolved = append(m.Resolved, text)
}

// settle drops resolved values that equal the written ones.
func (m *Mismatch) settle() {
	if slices.Equal(m.Resolved, m.Wanted) {
		m.Resolved = nil
	}
}

// names lists principals as a policy writes them.
func (ps *Principals) names() []string {
	if ps == nil {
		return nil
	}
	var out []string
	if ps.All {
		out = append(out, "*")
	}
	return slices.Concat(out, ps.AWS, ps.Service, ps.Federated, ps.Canonical)
}

// names returns the names by which a policy may refer to p, the narrowest first.
func (p *Principal) names() []string {
	var out []string
	for _, n := range []string{p.Service, p.Federated, p.ARN, p.RoleARN, p.UserARN, p.Account} {
		if n != "" {
			out = append(out, n)
		}
	}
	return out
}
