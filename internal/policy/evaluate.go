package policy

import (
	"strconv"
)

// A Request is one action on one resource.
type Request struct {
	Action string // eks:CreateCluster
	// Resource is the ARN the action would touch, "*" if the action knows no
	// resource, or empty if it is not known: then only a statement on every
	// resource can be decided.
	Resource string
	// Principal is who asks; only trust policies look at it.
	Principal Principal
	// Context holds the condition keys that are known, in lower case. A key with
	// no values is known to be absent from the request; a key that is missing
	// here is not known, and a condition on it is not decided.
	Context map[string][]string
}

// A Source is a policy and where it comes from.
type Source struct {
	// Name is the ARN of a managed policy, or the name of an inline one.
	Name     string
	Document *Document
}

// Policies are those that apply to a request.
type Policies struct {
	// Identity are those of the user, its groups or the role.
	Identity []Source
	// Boundary is the permissions boundary, or nil.
	Boundary *Source
	// Session are the session policies. None is not the same as an empty list:
	// Sessioned says that the session was made with policies.
	Session   []Source
	Sessioned bool
}

// Evaluate decides a request within one account: every layer that applies must
// allow, none may deny, and the identity policies must do so by themselves.
// A statement that cannot be decided allows nothing, but denies.
//
// It looks at every statement, though the first deny would do: the decision
// names all that mattered.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-denyallow.html
func Evaluate(req Request, p Policies) Decision {
	d := decisionOn(req)
	layers := []layer{{kind: "identity-based policy", article: "an", sources: p.Identity}}
	if p.Boundary != nil {
		layers = append(layers, layer{kind: "permissions boundary", article: "a", sources: []Source{*p.Boundary}})
	}
	if p.Sessioned {
		layers = append(layers, layer{kind: "session policy", article: "a", sources: p.Session})
	}
	for i := range layers {
		layers[i].weigh(&req, &d)
	}
	for _, l := range layers {
		if len(l.denies) > 0 {
			d.ExplicitDeny = true
			d.Matched = append(d.Matched, l.denies...)
			if d.Reason == "" {
				d.Reason = "with an explicit deny in " + l.article + " " + l.kind
			}
		}
	}
	if d.ExplicitDeny {
		return d
	}
	for _, l := range layers {
		if len(l.allows) == 0 {
			d.Reason = "no " + l.kind + " allows the " + req.Action + " action"
			d.Matched = nil
			return d
		}
		d.Matched = append(d.Matched, l.allows...)
	}
	d.Allowed = true
	return d
}

func decisionOn(req Request) Decision {
	d := Decision{Action: req.Action, Resource: req.Resource}
	if d.Resource == "" {
		d.Resource = "*"
	}
	return d
}

// A layer is the policies of one type, and what they say.
type layer struct {
	kind, article  string
	sources        []Source
	allows, denies []string // statements, as SOURCE#SID
}

func (l *layer) weigh(req *Request, d *Decision) {
	for _, src := range l.sources {
		for i := range src.Document.Statements {
			s := &src.Document.Statements[i]
			v := s.applies(req, src.Document.Version)
			if v == no {
				continue
			}
			name := statementName(src.Name, s, i)
			if v == unknown {
				d.Undecided = append(d.Undecided, name)
			}
			switch {
			case s.Deny:
				l.denies = append(l.denies, name)
			case v == yes:
				l.allows = append(l.allows, name)
			}
		}
	}
}

// statementName names a statement: SOURCE#SID, or SOURCE#INDEX from 0.
func statementName(source string, s *Statement, index int) string {
	if s.SID != "" {
		return source + "#" + s.SID
	}
	return source + "#" + strconv.Itoa(index)
}
