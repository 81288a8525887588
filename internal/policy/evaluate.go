package policy

// A Source is a policy and where it comes from.
type Source struct {
	// Name is the ARN of a managed policy, or the name of an inline one.
	Name     string
	Document *Document
}

// Policies are the policies that apply to a request.
type Policies struct {
	// Identity are the policies of the user, its groups or the role.
	Identity []Source
	// Boundary is the permissions boundary, or nil.
	Boundary *Source
	// Session are the session policies. No session policies and an empty list are different: Sessioned says that the
	// session was created with policies.
	Session   []Source
	Sessioned bool
	// Resource are the policies of the resource itself.
	Resource []Source
	// ResourceRequired says that Resource must allow even principals of the resource's own account. KMS keys require
	// that.
	ResourceRequired bool
	// Grants are a KMS key's grants, which only allow. A grant that allows replaces the key's policy and the caller's
	// identity-based policies, even across accounts.
	Grants []Source
	// Trust is the trust policy of the role that the request would assume, or nil. If set, it must allow.
	Trust *Source
	// Endpoint is the policy of the VPC endpoint that the request came through, or empty.
	Endpoint []Source
	// ServiceControls and ResourceControls are the policies of AWS Organizations that bind the caller's and the
	// resource's account: one list for each level from the organization's root to the account. Each level must allow.
	ServiceControls, ResourceControls [][]Source
}

// Evaluate decides a request by AWS's evaluation logic. It evaluates every statement, although the first deny would
// suffice, so that the decision names everything that mattered.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-denyallow.html
func Evaluate(req Request, p Policies) Decision {
	if req.Context.left == nil {
		req.Context = req.Context.bounded()
	}
	q := ask(&req)
	layers := p.layers(&req)
	d := decisionOn(&req)

	// An explicit deny in any policy overrides every allow.
	for i := range layers {
		l := &layers[i]
		l.weigh(&q, &d)
		if len(l.denies) > 0 && !d.ExplicitDeny {
			d.ExplicitDeny, d.Reason = true, l.kind.denies()
		}
		d.Matched = append(d.Matched, l.denies...)
	}
	if d.ExplicitDeny {
		return d
	}

	// The principal that the resource's policy names determines which other policies must allow. Across accounts,
	// each account's side must allow by itself.
	grant := grantTo(&req, layers)
	for i := range layers {
		l := &layers[i]
		if len(l.allows) == 0 && l.required(grant) {
			d.Missing = append(d.Missing, l.kind)
		}
		d.Matched = append(d.Matched, l.allows...)
	}
	if len(d.Missing) > 0 {
		d.Matched, d.Reason = nil, "no "+string(d.Missing[0])+" allows the "+req.Action+" action"
		return d
	}
	d.Allowed = true
	return d
}

// layers returns the policies that apply, by type, in the order in which AWS's messages name them. Each layer says
// from which grant of the resource's policy on its own allow is not required.
func (p *Policies) layers(req *Request) []layer {
	const always, never = NoGrant, PrincipalGrant + 1
	out := make([]layer, 0, 6+len(p.ResourceControls)+len(p.ServiceControls))
	who := &req.Principal
	for _, level := range p.ResourceControls {
		out = append(out, layer{kind: ResourceControl, sources: level, dispensable: never})
	}
	for _, level := range p.ServiceControls {
		out = append(out, layer{kind: ServiceControl, sources: level, dispensable: never})
	}
	attached := who.hasPolicies() || len(p.Identity) > 0 // SimulateCustomPolicy names no caller
	if attached {
		l := layer{kind: IdentityBased, sources: p.Identity, dispensable: RoleGrant}
		if who.isRoot() {
			l.dispensable = always // root needs no policy, but a session of root may be restricted
		}
		out = append(out, l)
	}
	if p.Boundary != nil {
		out = append(out, layer{kind: PermissionsBoundary, sources: []Source{*p.Boundary}, dispensable: PrincipalGrant})
	}
	if p.Sessioned {
		out = append(out, layer{kind: SessionPolicy, sources: p.Session, dispensable: PrincipalGrant})
	}
	if p.Trust != nil {
		out = append(out, layer{kind: RoleTrust, sources: []Source{*p.Trust}, dispensable: never})
	}
	l := layer{kind: ResourceBased, sources: p.Resource, dispensable: always}
	if p.ResourceRequired || p.Trust == nil && (req.crossAccount() || !attached) {
		l.dispensable = never
	}
	if len(l.sources) > 0 || l.dispensable == never {
		out = append(out, l)
	}
	if len(p.Grants) > 0 {
		out = append(out, layer{kind: KMSGrant, sources: p.Grants, dispensable: always})
	}
	if len(p.Endpoint) > 0 {
		out = append(out, layer{kind: VPCEndpoint, sources: p.Endpoint, dispensable: never})
	}
	return out
}
