package policy

import (
	"strings"
)

// A Request is one action on one resource.
type Request struct {
	Action string // eks:CreateCluster
	// Resource is the ARN the action would touch, "*" if the action has no
	// resource, or empty if it is unknown: then only a statement on every
	// resource can be decided.
	Resource string
	// ResourceAccount is the account that owns the resource. Empty: the one its ARN
	// names, or else the caller's.
	ResourceAccount string
	// Principal is who asks.
	Principal Principal
	Context   Context
}

// crossAccount says that the resource belongs to another account than the caller.
func (r *Request) crossAccount() bool {
	owner := r.ResourceAccount
	if owner == "" {
		owner = arnAccount(r.Resource)
	}
	return owner != "" && r.Principal.Account != "" && owner != r.Principal.Account
}

// arnAccount returns the account of an ARN, or "". Resources of AWS itself, such
// as managed policies, belong to no account.
func arnAccount(arn string) string {
	f := strings.SplitN(arn, ":", 6)
	if len(f) < 6 || len(f[4]) != 12 || strings.Trim(f[4], "0123456789") != "" {
		return ""
	}
	return f[4]
}

// A Context holds the condition keys of a request. A key that has values, one
// that is known to be absent, and one of which Drydock cannot tell are three
// different things: a statement whose condition asks for the third is undecided.
//
// The zero Context says that the request has no keys at all.
type Context struct {
	// Values are those of the keys, in lower case. A key with no values is absent.
	Values map[string][]string
	// Unknown reports whether the value of a key that is not in Values, in lower
	// case, is unknown. Nil: all others are absent. It must be pure.
	Unknown func(key string) bool

	// left is what may still be spent on weighing; nil: whatever it takes.
	left *int
}

// maxWork bounds what a request may cost to weigh, in compared characters, about a
// tenth of a second: a thousand times what the largest of AWS's quotas allow. A
// match that would cost more is undecided, and therefore allows nothing. Requests
// are not: their tags are counted only after they have been allowed.
const maxWork = 1 << 26

// bounded gives a context maxWork to spend.
func (c Context) bounded() Context {
	left := maxWork
	c.left = &left
	return c
}

// spend says whether so much work may still be done.
func (c *Context) spend(work int) bool {
	if c.left == nil {
		return true
	}
	if *c.left -= work; *c.left < 0 {
		*c.left = 0 // and nothing cheaper later
	}
	return *c.left > 0
}

// Set gives a key its values; none say that it is absent.
func (c *Context) Set(key string, values ...string) {
	if c.Values == nil {
		c.Values = map[string][]string{}
	}
	c.Values[strings.ToLower(key)] = values
}

// AnyKey is a Context.Unknown for which nothing is known beyond the values.
func AnyKey(string) bool { return true }

// get returns the values of a key, which must be in lower case.
func (c *Context) get(key string) (values []string, known bool) {
	values, known = c.Values[key]
	if !known && (c.Unknown == nil || !c.Unknown(key)) {
		known = true
	}
	return values, known
}

// A Principal is the caller: an identity of an account, or a session of one; an
// AWS service; a user whom an identity provider vouches for. The zero Principal
// is an anonymous caller.
type Principal struct {
	Account string
	ARN     string // of the user, root, role session or federated user
	RoleARN string // of the role behind a role session
	UserARN string // of the user behind a federated user
	ID      string // AIDA…, AROA…:session
	// Service is an AWS service, as in eks.amazonaws.com, and nothing else is set.
	Service string
	// Federated is who vouches for a caller of AssumeRoleWithWebIdentity: the ARN of
	// an OIDC provider, or accounts.google.com and its like; nothing else is set.
	Federated string
}

// isRoot says that p is the root of its account, who needs no policy.
func (p *Principal) isRoot() bool {
	return p.Account != "" && p.ARN == "arn:aws:iam::"+p.Account+":root"
}

// hasPolicies says that p is an identity to which policies can be attached.
// To others, only the resource's policy grants anything.
func (p *Principal) hasPolicies() bool {
	return p.Service == "" && p.Federated == "" && p.Account != ""
}

// A Grant says which principal the Allow of a resource's policy names, which decides
// whether other policies must allow too.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
type Grant int

// The grants, weakest first.
const (
	NoGrant Grant = iota
	// AccountGrant names the caller's account: the account's own policies must
	// allow the caller too.
	AccountGrant
	// RoleGrant names the role behind the session, or the user behind a federated
	// one: within the account no identity-based policy need allow, but permissions
	// boundary and session policies must.
	RoleGrant
	// PrincipalGrant names the caller itself, or everyone: within the account that
	// is enough.
	PrincipalGrant
)

// grant says how ps names p.
func (ps *Principals) grant(p *Principal) Grant {
	if ps.All {
		return PrincipalGrant
	}
	if p.Service != "" {
		return grantIf(contains(ps.Service, p.Service), PrincipalGrant)
	}
	if p.Federated != "" {
		return grantIf(ps.AnyFederated || contains(ps.Federated, p.Federated), PrincipalGrant)
	}
	if p.Account == "" {
		return NoGrant
	}
	g := NoGrant
	for _, name := range ps.AWS {
		g = max(g, p.named(name))
	}
	return g
}

// named says how one AWS principal of a policy names p: an account by its ID or
// its root's ARN, others by ARN or unique ID.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
func (p *Principal) named(name string) Grant {
	id, _, session := strings.Cut(p.ID, ":")
	switch name {
	case "":
		return NoGrant
	case p.ARN:
		return grantIf(true, PrincipalGrant)
	case p.RoleARN, p.UserARN:
		return RoleGrant
	case p.Account, "arn:aws:iam::" + p.Account + ":root":
		return AccountGrant
	case id:
		if session {
			return RoleGrant
		}
		return PrincipalGrant
	}
	return NoGrant
}

// excepts says whether a NotPrincipal that lists ps leaves p out. A principal is
// its account, its role and its session: a deny reaches it unless each of them is
// listed; an allow reaches it unless any is.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_notprincipal.html
func (ps *Principals) excepts(p *Principal, deny bool) bool {
	if ps.All || !deny || p.Account == "" {
		return ps.grant(p) != NoGrant
	}
	account, behind, self := false, p.RoleARN == "" && p.UserARN == "", p.isRoot()
	for _, name := range ps.AWS {
		switch p.named(name) {
		case AccountGrant:
			account = true
		case RoleGrant:
			behind = true
		case PrincipalGrant:
			self, account = true, account || p.isRoot()
		}
	}
	return account && behind && self
}

func grantIf(ok bool, g Grant) Grant {
	if ok {
		return g
	}
	return NoGrant
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
