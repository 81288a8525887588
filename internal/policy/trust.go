package policy

import "strings"

// A Principal is who asks a trust policy: an identity of an account, or an AWS
// service.
type Principal struct {
	Account string
	ARN     string // of the user, root, or role session
	RoleARN string // of the role behind a role session
	ID      string // AIDA…, AROA…:session
	Service string // eks.amazonaws.com, and nothing else
}

// A Grant says whom a trust policy's allow names.
type Grant int

// The grants, weakest first.
const (
	NoGrant Grant = iota
	// AccountGrant names the caller's account: the account's own policies must
	// allow the caller too.
	AccountGrant
	// PrincipalGrant names the caller itself, or everyone: within the role's
	// account that is enough.
	PrincipalGrant
)

// EvaluateTrust asks a role's trust policy whether req.Principal may perform
// req.Action on the role. The decision is the trust policy's alone.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
func EvaluateTrust(req Request, trust *Document) (Decision, Grant) {
	d := decisionOn(req)
	grant := NoGrant
	var denies []string
	for i := range trust.Statements {
		s := &trust.Statements[i]
		g, named := s.names(req.Principal)
		v := both(named, s.applies(&req, trust.Version))
		if v == no {
			continue
		}
		name := statementName("trust policy", s, i)
		if v == unknown {
			d.Undecided = append(d.Undecided, name)
		}
		switch {
		case s.Deny:
			denies = append(denies, name)
		case v == yes:
			d.Matched = append(d.Matched, name)
			grant = max(grant, g)
		}
	}
	switch {
	case len(denies) > 0:
		d.ExplicitDeny, d.Matched = true, denies
		d.Reason = "with an explicit deny in a resource-based policy"
		return d, NoGrant
	case grant == NoGrant:
		d.Reason = "no resource-based policy allows the " + req.Action + " action"
		return d, NoGrant
	}
	d.Allowed = true
	return d, grant
}

// TrustsService reports whether trust lets an AWS service assume the role. The
// context may hold aws:SourceAccount and aws:SourceArn, in lower case.
func TrustsService(trust *Document, service string, context map[string][]string) bool {
	d, _ := EvaluateTrust(Request{
		Action: "sts:AssumeRole", Resource: "*", Principal: Principal{Service: service}, Context: context,
	}, trust)
	return d.Allowed
}

// names says whether the statement's principals include p, and how. Who is not
// among NotPrincipal depends on more than is known here.
func (s *Statement) names(p Principal) (Grant, verdict) {
	if s.Principals == nil {
		return NoGrant, unknown
	}
	g := s.Principals.grant(p)
	return g, is(g != NoGrant)
}

func (ps *Principals) grant(p Principal) Grant {
	if p.Service != "" {
		for _, s := range ps.Service {
			if s == p.Service {
				return PrincipalGrant
			}
		}
		return NoGrant
	}
	if ps.All {
		return PrincipalGrant
	}
	g := NoGrant
	id, _, _ := strings.Cut(p.ID, ":")
	for _, name := range ps.AWS {
		switch name {
		case p.Account, "arn:aws:iam::" + p.Account + ":root":
			g = max(g, AccountGrant)
		case p.ARN, p.RoleARN, id:
			if name != "" {
				g = PrincipalGrant
			}
		}
	}
	return g
}
