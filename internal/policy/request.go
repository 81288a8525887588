package policy

import (
	"strings"
)

// A Request is one action on one resource.
type Request struct {
	Action string // eks:CreateCluster
	// Resource is the ARN that the action would touch, or "*" if the action has no resource. It is empty if the
	// resource is unknown: then only a statement on every resource can be decided.
	Resource string
	// ResourceAccount is the account that owns the resource. If it is empty, the account is the one in the
	// resource's ARN or, failing that, the caller's.
	ResourceAccount string
	// Principal is the caller.
	Principal Principal
	Context   Context
}

// crossAccount reports whether the resource belongs to another account than the caller.
func (r *Request) crossAccount() bool {
	owner := r.ResourceAccount
	if owner == "" {
		owner = arnAccount(r.Resource)
	}
	return owner != "" && r.Principal.Account != "" && owner != r.Principal.Account
}

// arnAccount returns the account of an ARN, or "". Resources of AWS itself, such as managed policies, belong to no
// account.
func arnAccount(arn string) string {
	f := strings.SplitN(arn, ":", 6)
	if len(f) < 6 || len(f[4]) != 12 || strings.Trim(f[4], "0123456789") != "" {
		return ""
	}
	return f[4]
}

// A Context holds the condition keys of a request. A key may have values, be known to be absent, or be unknown to
// Drydock. A statement with a condition on an unknown key is undecided.
//
// The zero Context means that the request has no keys at all.
type Context struct {
	// Values are the values of the keys, in lower case. A key with no values is absent.
	Values map[string][]string
	// Unknown reports whether the value of a key that is not in Values is unknown. The key is in lower case. If
	// Unknown is nil, all other keys are absent. It must be pure.
	Unknown func(key string) bool

	// left is the remaining evaluation budget; nil means no limit.
	left *int
}

// maxWork bounds the cost of evaluating a request, in compared characters: about a tenth of a second, or a thousand
// times what the largest of AWS's quotas allow. A match that would exceed it is undecided, and therefore allows
// nothing. Requests themselves are not bounded, because their tags are counted only after they have been allowed.
const maxWork = 1 << 26

// bounded returns the context with a budget of maxWork.
func (c Context) bounded() Context {
	left := maxWork
	c.left = &left
	return c
}

// spend takes work from the budget and reports whether the budget allows it.
func (c *Context) spend(work int) bool {
	if c.left == nil {
		return true
	}
	if *c.left -= work; *c.left < 0 {
		*c.left = 0 // so that cheaper work fails later, too
	}
	return *c.left > 0
}

// Set sets the values of a key. No values mean that the key is absent.
func (c *Context) Set(key string, values ...string) {
	if c.Values == nil {
		c.Values = map[string][]string{}
	}
	c.Values[strings.ToLower(key)] = values
}

// AnyKey is a Context.Unknown that reports every key without values as unknown.
func AnyKey(string) bool { return true }

// get returns the values of a key, which must be in lower case.
func (c *Context) get(key string) (values []string, known bool) {
	values, known = c.Values[key]
	if !known && (c.Unknown == nil || !c.Unknown(key)) {
		known = true
	}
	return values, known
}

// A Principal is the caller: an identity of an account or a session of one, an AWS service, or a user authenticated
// by an identity provider. The zero Principal is an anonymous caller.
type Principal struct {
	Account string
	ARN     string // of the user, root, role session or federated user
	RoleARN string // of the role behind a role session
	UserARN string // of the user behind a federated user
	ID      string // AIDA…, AROA…:session
	// Service is an AWS service, as in eks.amazonaws.com. If it is set, nothing else is.
	Service string
	// Federated is the identity provider of a caller of AssumeRoleWithWebIdentity: the ARN of an OIDC provider, or
	// accounts.google.com and the like. If it is set, nothing else is.
	Federated string
}

// isRoot reports whether p is its account's root user, who needs no policy.
func (p *Principal) isRoot() bool {
	return p.Account != "" && p.ARN == "arn:aws:iam::"+p.Account+":root"
}

// hasPolicies reports whether p is an identity to which policies can be attached. To others, only the resource's
// policy can grant anything.
func (p *Principal) hasPolicies() bool {
	return p.Service == "" && p.Federated == "" && p.Account != ""
}

// A Grant says which principal the Allow of a resource's policy names. That determines whether other policies must
// allow too. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
type Grant int

// The grants, weakest first.
const (
	NoGrant Grant = iota
	// AccountGrant names the caller's account: the account's own policies must also allow the caller.
	AccountGrant
	// RoleGrant names the role behind the session, or the user behind a federated one. Within the account,
	// identity-based policies need not allow, but permissions boundary and session policies must.
	RoleGrant
	// PrincipalGrant names the caller itself, or everyone. Within the account that is enough.
	PrincipalGrant
)

// grant returns how ps names p.
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

// named returns how one AWS principal of a policy names p: an account by its ID or its root's ARN, others by ARN or
// unique ID. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
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

// excepts reports whether a NotPrincipal that lists ps excludes p. A principal is its account, its role and its
// session: a Deny applies to it unless each of them is listed, and an Allow applies to it unless any of them is.
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
