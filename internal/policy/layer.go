package policy

import "strings"

// A layer is the policies of one type, and what they decide about a request.
type layer struct {
	kind    PolicyType
	sources []Source
	// dispensable is the least grant of the resource's policy from which on this layer need not allow.
	dispensable Grant

	allows, denies []Match
	grant          Grant // the strongest grant of a resource policy's allows
}

// A standing is what the resource's side grants.
type standing struct {
	Grant
	byGrant bool // a grant of a KMS key grants it
}

// grantTo returns what the resource's policies grant, including the role's trust policy. Across accounts they replace
// nothing: otherwise one account could grant permissions in another's name. Grants of KMS keys do replace other
// policies: Auto Scaling's service-linked role, which no policy lets use any key, launches from keys of other
// accounts by a grant alone. They only replace identity-based policies, whomever they name: boundaries and session
// policies must still allow.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html
func grantTo(req *Request, layers []layer) standing {
	var out standing
	byGrant := NoGrant
	for i := range layers {
		switch layers[i].kind {
		case ResourceBased, RoleTrust:
			out.Grant = max(out.Grant, layers[i].grant)
		case KMSGrant:
			byGrant = min(layers[i].grant, RoleGrant)
		}
	}
	if req.crossAccount() {
		out.Grant = min(out.Grant, AccountGrant)
	}
	out.Grant, out.byGrant = max(out.Grant, byGrant), byGrant > NoGrant
	return out
}

// required reports whether the layer itself must allow, given what the resource's side grants.
func (l *layer) required(s standing) bool {
	return s.Grant < l.dispensable && !(l.kind == ResourceBased && s.byGrant)
}

// match identifies a statement of the layer.
func (l *layer) match(source string, s *Statement, index int) Match {
	return Match{Type: l.kind, Source: source, SID: s.SID, Index: index, Deny: s.Deny, Start: s.start, End: s.end}
}

// weigh evaluates every statement of the layer. One that cannot be decided allows nothing, but denies.
func (l *layer) weigh(q *question, d *Decision) {
	for _, src := range l.sources {
		doc := src.Document.ready()
		for i := range doc.relevant(q.vendor) {
			s := &doc.Statements[i]
			v := s.applies(q)
			if v == no {
				continue
			}
			var g Grant
			if l.names() {
				named := no
				if g, named = s.grants(&q.Principal); named == no {
					continue
				}
			}
			m := l.match(src.Name, s, i)
			if v == unknown {
				d.Undecided = append(d.Undecided, m)
				d.UnknownKeys = s.unknownKeys(q, d.UnknownKeys)
			}
			switch {
			case s.Deny:
				l.denies = append(l.denies, m)
			case v == yes:
				l.allows = append(l.allows, m)
				l.grant = max(l.grant, g)
			}
		}
	}
}

// names reports whether the layer's statements name principals. Those of identity-based policies, boundaries and
// session policies apply to the principal that they are attached to.
func (l *layer) names() bool {
	return l.kind == ResourceBased || l.kind == KMSGrant || l.kind == RoleTrust || l.kind == VPCEndpoint || l.kind == ResourceControl
}

// grants returns how the statement's Principal or NotPrincipal names p. A statement without either matches no
// principal.
func (s *Statement) grants(p *Principal) (Grant, verdict) {
	switch {
	case s.Principals != nil:
		g := s.Principals.grant(p)
		return g, is(g != NoGrant)
	case s.NotPrincipals != nil:
		return PrincipalGrant, is(!s.NotPrincipals.excepts(p, s.Deny))
	}
	return NoGrant, no
}

func decisionOn(req *Request) Decision {
	d := Decision{Action: req.Action, Resource: req.Resource}
	if d.Resource == "" {
		d.Resource = "*"
	}
	return d
}

// A question is a request prepared for being matched against many statements.
type question struct {
	*Request
	action, vendor string    // in lower case
	arn            [6]string // the resource's fields
	fields         int       // the number of fields: fewer than 6 if it is not an ARN
	// unknown are the keys whose missing values left statements undecided.
	unknown map[string]bool
}

func ask(req *Request) question {
	q := question{Request: req, action: strings.ToLower(req.Action)}
	q.vendor, _, _ = strings.Cut(q.action, ":")
	q.fields = splitARN(req.Resource, &q.arn)
	return q
}

// splitARN splits at the first five colons and returns the number of fields.
func splitARN(s string, fields *[6]string) int {
	for n := range 5 {
		before, after, ok := strings.Cut(s, ":")
		fields[n] = before
		if !ok {
			return n + 1
		}
		s = after
	}
	fields[5] = s
	return 6
}

// EvaluateTrust decides whether a role's trust policy lets req.Principal perform req.Action on the role. The decision
// is the trust policy's alone; Evaluate with Policies.Trust also considers the caller's own policies.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
func EvaluateTrust(req Request, trust *Document) (Decision, Grant) {
	req.Context = req.Context.bounded()
	q := ask(&req)
	l := layer{kind: RoleTrust, sources: []Source{{Name: "trust policy", Document: trust}}}
	d := decisionOn(&req)
	l.weigh(&q, &d)
	switch {
	case len(l.denies) > 0:
		d.ExplicitDeny, d.Matched, d.Reason = true, l.denies, l.kind.denies()
		return d, NoGrant
	case l.grant == NoGrant:
		d.Missing, d.Reason = []PolicyType{RoleTrust}, "no "+string(RoleTrust)+" allows the "+req.Action+" action"
		return d, NoGrant
	}
	d.Allowed, d.Matched = true, l.allows
	return d, l.grant
}

// TrustsService reports whether trust lets an AWS service assume the role. The context may hold aws:SourceAccount and
// aws:SourceArn.
func TrustsService(trust *Document, service string, context Context) bool {
	return AllowsService(trust, service, "sts:AssumeRole", context)
}

// AllowsService is TrustsService for another action on the role: sts:TagSession.
func AllowsService(trust *Document, service, action string, context Context) bool {
	d, _ := EvaluateTrust(Request{
		Action: action, Resource: "*", Principal: Principal{Service: service}, Context: context,
	}, trust)
	return d.Allowed
}
