package authz

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// A Check is one action on one resource that a call must be allowed to perform.
type Check struct {
	Action   string // ec2:RunInstances
	Resource string // ARN, or * if the action has no resource

	target Target
	typ    *ActionType // nil if there is no resource, or the reference does not have its type
	action *Action     // nil if the reference does not have the action
	ref    *Reference
	rows   *table
	stored Resource
	input  any
}

// Checks lists what call, whose decoded input is in, must be allowed to do, starting with its own action.
func (a *Authorizer) Checks(ctx context.Context, call *awsapi.Call, in any) []Check {
	op := Prefix(call.Service) + ":" + call.Operation
	var targets []Target
	special := false
	if t, ok := a.resolvers[Prefix(call.Service)].(Targeter); ok {
		targets, special = t.Targets(ctx, call, in)
	}
	if !special {
		targets = a.targets(call, in)
		targets = append(targets, a.passedRoles(ctx, call, in)...)
		targets = append(targets, a.launches(ctx, call, in)...)
	}
	if len(targets) == 0 {
		targets = []Target{{}} // a call that touches no resource still needs a check
	}
	out := make([]Check, 0, len(targets))
	for _, t := range targets {
		out = append(out, a.check(ctx, call, cmp.Or(t.Action, a.rows.action(op)), t, in))
	}
	return append(out, a.tagging(ctx, call, out, in)...)
}

const (
	// maxChecks is how many resources a call may touch. No request has room for more names, but two lists of names
	// can be combined into more resources.
	maxChecks = 100_000
	// maxTagging is how many tags a call may add to all its resources together: each tag is a condition key of each
	// resource.
	maxTagging = 1 << 20
)

// tooMuch reports whether a call touches more than any AWS quota allows.
func tooMuch(list []Check) bool {
	tags := 0
	for i := range list {
		tags += len(list[i].target.TagKeys)
	}
	return len(list) > maxChecks || tags > maxTagging
}

// Mapped reports whether an operation's action is in the reference, under its own name or through a service's row.
func (a *Authorizer) Mapped(service, operation string) bool {
	_, _, ok := ActionOf(a.rows.action(Prefix(service) + ":" + operation))
	return ok
}

// action returns the action of an operation: PREFIX:OPERATION, unless a row has another name.
func (t *table) action(op string) string { return cmp.Or(t.actions[op], op) }

// check combines a target with the reference and with what is stored about it.
func (a *Authorizer) check(ctx context.Context, call *awsapi.Call, action string, t Target, in any) Check {
	c := Check{Action: action, Resource: "*", target: t, rows: a.rows, input: in}
	c.action, c.ref, _ = ActionOf(action)
	if t.Type == "" {
		if pattern, ok := a.rows.unnamed[action]; ok {
			c.Resource = fill(pattern, call, nil)
		}
		return c
	}
	if c.action != nil {
		if i := slices.IndexFunc(c.action.Types, func(at ActionType) bool { return at.Name == t.Type }); i >= 0 {
			c.typ = &c.action.Types[i]
		}
	}
	if !t.New {
		c.stored = a.stored(ctx, action, call.Account, call.Region, t.Type, t.ID)
	}
	switch {
	case c.stored.ARN != "":
		c.Resource = c.stored.ARN
	case strings.HasPrefix(t.ID, "arn:"):
		c.Resource = t.ID
	case c.ref != nil && c.ref.Types[t.Type] != nil:
		c.Resource = fill(c.ref.Types[t.Type].ARN, call, strings.Split(t.ID, idSeparator))
	}
	prefix, _ := split(action)
	if fix, ok := a.rows.arns[prefix+"/"+t.Type]; ok {
		c.Resource = fix(c.Resource)
	}
	return c
}

// stored asks the resolver of an action's resource type what is stored about a resource.
func (a *Authorizer) stored(ctx context.Context, action, account, region, kind, id string) Resource {
	prefix, _ := split(action)
	r := a.resolvers[cmp.Or(a.rows.owners[prefix+"/"+kind], prefix)]
	if r == nil || kind == "" || id == "" {
		return Resource{}
	}
	out, _ := r.Resource(ctx, account, region, kind, id)
	return out
}

// idSeparator separates the parts of a nested resource's ID.
const idSeparator = "/"

// fill inserts a call's account and region and the parts of an ID into an ARN pattern. Missing parts become *, and
// the last one takes the rest.
func fill(pattern string, call *awsapi.Call, id []string) string {
	var b strings.Builder
	left := strings.Count(pattern, "${")
	for {
		before, rest, ok := strings.Cut(pattern, "${")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		pattern = after
		left--
		switch name {
		case "Partition":
			b.WriteString(awsapi.Partition)
		case "Region":
			b.WriteString(call.Region)
		case "Account":
			b.WriteString(call.Account)
		default:
			switch {
			case len(id) == 0 || id[0] == "" && len(id) == 1:
				b.WriteByte('*')
				id = nil
			case left == 0:
				b.WriteString(strings.Join(id, idSeparator))
			default:
				b.WriteString(id[0])
				id = id[1:]
			}
		}
	}
}

// A plan is what is known about an operation's targets before any request. It is made once.
type plan struct {
	types []plannedType
}

type plannedType struct {
	name     string
	required bool
	// parts lists, for each variable part of the ARN, the members that name it. 'x means the literal x, used if no
	// member does. If a request has several of the members, each is checked, because which one the handler uses is
	// not known here.
	parts [][]string
}

// planCache caches the plans of operations. Its size is bounded by the number of operations.
type planCache struct{ m sync.Map } // string → *plan

func (a *Authorizer) plan(op string, in any) *plan {
	if p, ok := a.plans.m.Load(op); ok {
		return p.(*plan)
	}
	p := a.rows.plan(op, in)
	a.plans.m.Store(op, p)
	return p
}

func (t *table) plan(op string, in any) *plan {
	p := &plan{}
	if row, ok := t.targets[op]; ok {
		for spec := range strings.FieldsSeq(row.Resources) {
			name, members, _ := strings.Cut(spec, "=")
			name, optional := strings.CutSuffix(name, "?")
			planned := plannedType{name: name, required: !optional}
			for part := range strings.SplitSeq(members, "+") {
				if part != "" {
					planned.parts = append(planned.parts, strings.Split(part, "|"))
				}
			}
			p.types = append(p.types, planned)
		}
		return p
	}
	act, ref, ok := ActionOf(t.action(op))
	if !ok {
		return p
	}
	for _, at := range act.Types {
		rt := ref.Types[at.Name]
		if rt == nil {
			continue
		}
		planned := plannedType{name: at.Name, required: at.Required}
		for _, v := range variables(rt.ARN) {
			planned.parts = append(planned.parts, t.membersFor(ref.Prefix, v, in))
		}
		planned.settle()
		p.types = append(p.types, planned)
	}
	return p
}

// settle drops the trailing parts that no member names, and makes the others *.
func (t *plannedType) settle() {
	for len(t.parts) > 0 && t.parts[len(t.parts)-1] == nil {
		t.parts = t.parts[:len(t.parts)-1]
	}
	for i := range t.parts {
		if t.parts[i] == nil {
			t.parts[i] = []string{"'*"}
		}
	}
}

// variables returns the variables of an ARN pattern except partition, region and account.
func variables(pattern string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(pattern, "${")
		if !ok {
			return out
		}
		var name string
		name, pattern, _ = strings.Cut(rest, "}")
		if name != "Partition" && name != "Region" && name != "Account" {
			out = append(out, name)
		}
	}
}

// membersFor returns the members of in that may name a variable of an ARN pattern: its own name, its plural, or the
// service's name for it.
func (t *table) membersFor(prefix, variable string, in any) []string {
	var out []string
	for _, name := range append(strings.Fields(t.members[prefix+" "+variable]), variable, variable+"s", variable+"List") {
		if hasMember(in, name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// targets finds the resources of a call without special rules.
func (a *Authorizer) targets(call *awsapi.Call, in any) []Target {
	op := Prefix(call.Service) + ":" + call.Operation
	var out []Target
	for _, t := range a.plan(op, in).types {
		ids, complete := t.ids(in)
		if !t.required && !complete {
			continue
		}
		tags, keys := requestTags(in, t.name)
		for _, id := range ids {
			made := makes(op, t.name)
			if path := first(in, "Path"); made && path != "" && id != "" {
				id = path + id // IAM's names include paths
			}
			out = append(out, Target{Type: t.name, ID: a.implied(call, t.name, id), New: made, Tags: tags, TagKeys: keys})
		}
	}
	if len(out) == 0 {
		tags, keys := requestTags(in, "")
		out = []Target{{Tags: tags, TagKeys: keys}}
	}
	return out
}

// makes reports whether an operation creates resources of a type, as CreateLaunchTemplate creates a launch-template.
func makes(op, kind string) bool {
	_, name := split(op)
	made, ok := strings.CutPrefix(name, "Create")
	return ok && strings.EqualFold(made, strings.ReplaceAll(kind, "-", "")) ||
		ok && made == "OpenIDConnectProvider" && kind == "oidc-provider"
}

// ids returns the IDs that a request has for a type: one, several if a member is a list, or "" if it names none.
// complete reports whether every part of the ARN that members can name is named.
func (t *plannedType) ids(in any) (ids []string, complete bool) {
	ids, named := []string{""}, 0
	for n, part := range t.parts {
		values := []string(nil)
		for _, m := range part {
			lit, literal := strings.CutPrefix(m, "'")
			switch {
			case !literal:
				values = append(values, texts(in, m)...)
			case len(values) == 0:
				values = []string{lit}
				named--
			}
		}
		if values = unique(values); len(values) > 0 {
			named++
		}
		if len(values) == 0 {
			return fallback(ids, n), false
		}
		var next []string
		for _, id := range ids {
			if len(next) > maxChecks {
				break // more than allowed
			}
			for _, v := range values {
				if n > 0 {
					v = id + idSeparator + strings.TrimPrefix(v, idSeparator)
				}
				next = append(next, v)
			}
		}
		ids = next
	}
	return ids, named > 0
}

// fallback returns the IDs, or "" (any resource) if none is known.
func fallback(ids []string, n int) []string {
	if n == 0 {
		return []string{""}
	}
	return ids
}

func unique(values []string) []string {
	if len(values) < 2 {
		return values
	}
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

// implied returns the user that an IAM request without a user name refers to: the caller.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateAccessKey.html
func (a *Authorizer) implied(call *awsapi.Call, kind, id string) string {
	if kind == "user" && id == "" && Prefix(call.Service) == "iam" {
		switch call.Principal.Type {
		case awsapi.IAMUser:
			return call.Principal.Name
		case awsapi.Root:
			return call.Principal.ARN
		}
	}
	return id
}

// Passes reports whether an operation requires iam:PassRole if its request has the given member.
func (a *Authorizer) Passes(service, operation, member string) bool {
	return slices.ContainsFunc(a.rows.passed[Prefix(service)+":"+operation], func(p awsapi.PassedRole) bool { return strings.EqualFold(p.Member, member) })
}

// passedRoles returns the roles that a call passes to services.
func (a *Authorizer) passedRoles(ctx context.Context, call *awsapi.Call, in any) []Target {
	var out []Target
	for _, p := range a.rows.passed[Prefix(call.Service)+":"+call.Operation] {
		for _, id := range unique(texts(in, p.Member)) {
			if p.Profile {
				profile := a.stored(ctx, "iam:PassRole", call.Account, call.Region, "instance-profile", id)
				if profile.Role == "" {
					continue // the handler reports that it does not exist
				}
				id = profile.Role
			}
			out = append(out, Target{Action: "iam:PassRole", Type: "role", ID: id, Keys: map[string][]string{"iam:passedtoservice": {cmp.Or(p.Service, "ec2.amazonaws.com")}}})
		}
	}
	return out
}

// tagging returns the checks of the service's tagging action for every resource that is created with tags.
func (a *Authorizer) tagging(ctx context.Context, call *awsapi.Call, checks []Check, in any) []Check {
	var out []Check
	for _, c := range checks {
		prefix, operation := split(c.Action)
		rule, ok := a.rows.tagging[prefix]
		if launched := c.target.launch != ""; !ok || len(c.target.Tags) == 0 || !launched && prefix != Prefix(call.Service) {
			continue
		} else if !launched {
			operation = call.Operation // the action may have another name than the operation
		}
		act := cmp.Or(rule.ByType[c.target.Type], rule.Action)
		if act == "" || c.action == nil || c.action.Access == "Tagging" || slices.Contains(rule.Free, operation) {
			continue
		}
		t := c.target
		t.Action, t.Keys = prefix+":"+act, map[string][]string{}
		if rule.CreateAction {
			t.Keys[prefix+":createaction"] = []string{operation}
		}
		tc := a.check(ctx, call, t.Action, t, in)
		tc.Resource = c.Resource
		if prefix == "iam" {
			// The new resource counts as tagged: Karpenter's policy requires tags on the instance profile that the
			// call is about to create.
			// https://karpenter.sh/docs/reference/cloudformation/#allowscopedinstanceprofiletagactions
			tc.stored = Resource{ARN: c.Resource, Tags: t.Tags}
		}
		out = append(out, tc)
	}
	return out
}
