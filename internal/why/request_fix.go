package why

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// requestFixes returns fixes for the suggestions whose changes commands can make. Each fix also allows the other
// denied checks of the same call. It is tried on the current policies, which may have changed since the request.
func (x *Explainer) requestFixes(ctx context.Context, why *authz.Explanation, who string) []advice.Fix {
	// If the request itself can be changed, the condition in the trust policy is meant for that.
	byRequest := slices.ContainsFunc(why.Suggestions, func(s policy.Suggestion) bool {
		return !slices.ContainsFunc(s.Changes, func(c policy.Change) bool { return c.Kind != policy.SetKey })
	})
	others := why.Others()
	var out []advice.Fix
	for _, s := range why.Suggestions {
		e := edits{x: x, why: why, who: who, byRequest: byRequest}
		if !e.add(ctx, why, s.Changes) {
			continue
		}
		for i := range others {
			if x.cfg.Authorizer.Reconsider(ctx, others[i], e.all...).Allowed {
				continue
			}
			for _, more := range x.cfg.Authorizer.Suggest(ctx, others[i], e.all...) {
				if e.add(ctx, &others[i], more.Changes) {
					break
				}
			}
		}
		f := e.fix(ctx)
		if f.Sketch != "" {
			out = append(out, f)
			continue
		}
		out = append(out, advice.Try(func([]advice.Change) error {
			for _, r := range append([]authz.Explanation{*why}, others...) {
				if d := x.cfg.Authorizer.Reconsider(ctx, r, e.all...); !d.Allowed {
					return errors.New(d.Action + " is still refused: " + d.Reason)
				}
			}
			return nil
		}, f.Changes, f.Commands...)...)
	}
	return advice.Rank(out)
}

// edits collects changes to policies, and the statements that they add to each policy.
type edits struct {
	x         *Explainer
	why       *authz.Explanation
	who       string
	byRequest bool

	all  []policy.Change
	docs []edit
}

// An edit holds the statements to add to one policy.
type edit struct {
	typ        policy.PolicyType
	resource   string
	why        *authz.Explanation
	statements []string
}

// add adds the changes that a request needs and reports whether it did. If no command can make one of them, it adds
// none.
func (e *edits) add(ctx context.Context, why *authz.Explanation, changes []policy.Change) bool {
	was, docs := *e, slices.Clone(e.docs)
	for i := range changes {
		c := &changes[i]
		resource := why.Explanation.Decision.Resource
		switch c.Type {
		case policy.IdentityBased, policy.PermissionsBoundary:
			resource = e.who
		case policy.VPCEndpoint:
			resource = why.Endpoint.ID
		}
		d := slices.IndexFunc(e.docs, func(d edit) bool { return d.typ == c.Type && d.resource == resource })
		if d < 0 {
			e.docs, d = append(slices.Clip(e.docs), edit{typ: c.Type, resource: resource, why: why}), len(e.docs)
		}
		e.docs[d].statements = merged(e.docs[d].statements, c.Statement)
		if command, _ := e.command(ctx, &e.docs[d]); c.Kind != policy.AddStatement || command == "" {
			*e = was
			e.docs = docs
			return false
		}
	}
	e.all = append(slices.Clip(e.all), changes...)
	return len(changes) > 0
}

// merged adds a statement to statements. If only the resource differs from that of an existing statement, it adds the
// resource to that statement instead.
func merged(statements []string, more string) []string {
	parse := func(s string) (m map[string]any, resources []any) {
		if json.Unmarshal([]byte(s), &m) != nil {
			return nil, nil
		}
		switch r := m["Resource"].(type) {
		case string:
			resources = []any{r}
		case []any:
			resources = r
		}
		delete(m, "Resource")
		return m, resources
	}
	out := slices.Clone(statements)
	next, resources := parse(more)
	for i := range out {
		have, had := parse(out[i])
		if have == nil || !reflect.DeepEqual(have, next) || len(had) == 0 || len(resources) == 0 {
			continue
		}
		for _, r := range resources {
			if !slices.Contains(had, r) {
				had = append(had, r)
			}
		}
		b, _ := json.Marshal(statement{Effect: "Allow", Principal: have["Principal"], Action: have["Action"], Resource: had, Condition: have["Condition"]}) // parsed JSON always encodes
		out[i] = string(b)
		return out
	}
	return append(out, more)
}

// A statement is encoded with its elements in the usual order.
type statement struct {
	Effect                      string
	Principal, Action, Resource any `json:",omitempty"`
	Condition                   any `json:",omitempty"`
}

// fix returns the commands and changes as a fix. If another account has to run one of the commands, the fix is a
// sketch.
func (e *edits) fix(ctx context.Context) advice.Fix {
	var f advice.Fix
	for i := range e.docs {
		d := &e.docs[i]
		command, sketch := e.command(ctx, d)
		f.Commands, f.Sketch = append(f.Commands, command), cmp.Or(f.Sketch, sketch)
		for _, s := range d.statements {
			f.Changes = append(f.Changes, advice.Change{Kind: advice.AddStatement, Resource: d.resource, Value: s})
		}
	}
	return f
}

// command returns the command that adds an edit's statements to the policy, or "" if no command can. If another
// account owns the resource, sketch says so.
func (e *edits) command(ctx context.Context, d *edit) (command, sketch string) {
	switch d.typ {
	case policy.IdentityBased:
		return putPolicy(e.why.RequestID, e.who, strings.Join(d.statements, ",")), ""
	case policy.RoleTrust:
		if e.byRequest {
			return "", ""
		}
		return e.x.addTrust(ctx, d.resource, d.statements), ""
	case policy.ResourceBased:
		return e.x.addToResource(ctx, d.why, d.statements)
	case policy.VPCEndpoint:
		return e.x.addToEndpoint(ctx, d.why.Endpoint, d.statements), ""
	case policy.PermissionsBoundary:
		return e.x.addToBoundary(ctx, d.why.Principal, d.statements), ""
	}
	return "", ""
}

// addTrust returns the command that adds statements to a role's current trust policy.
func (x *Explainer) addTrust(ctx context.Context, role string, statements []string) string {
	r, err := x.cfg.IAM.RoleByARN(ctx, role)
	if err != nil || !roleNames.MatchString(roleName(role)) {
		return ""
	}
	return "aws iam update-assume-role-policy --role-name " + roleName(role) + " --policy-document " + withStatement(r.Trust, raw(statements)...)
}

// addToResource returns the command that adds statements to the current policy of a resource. If another account owns
// the resource, the command is a sketch, because the caller's credentials cannot run it.
func (x *Explainer) addToResource(ctx context.Context, why *authz.Explanation, statements []string) (command, sketch string) {
	r := x.cfg.Authorizer.Stored(ctx, *why)
	of, err := arn.Parse(r.ARN)
	if err != nil || r.PolicyText == "" {
		return "", ""
	}
	if of.Account != why.Principal.Account {
		sketch = "run what changes " + r.ARN + " with credentials of account " + of.Account
	}
	at := " --region " + of.Region
	switch name := strings.TrimPrefix(of.Resource, "repository/"); of.Service {
	case "kms":
		// https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-overview.html: * means this key
		return "aws kms put-key-policy --key-id " + r.ARN + " --policy-name default --policy " + withStatement(r.PolicyText, about("*", statements)...) + at, sketch
	case "ecr":
		// https://docs.aws.amazon.com/AmazonECR/latest/userguide/repository-policies.html: they apply to their repository
		return "aws ecr set-repository-policy --registry-id " + of.Account + " --repository-name " + name + " --policy-text " + withStatement(r.PolicyText, about("", statements)...) + at, sketch
	}
	return "", ""
}

// about returns statements with their Resource replaced, or removed if resource is "".
func about(resource string, statements []string) []any {
	var out []any
	for _, s := range statements {
		var more map[string]any
		if json.Unmarshal([]byte(s), &more) != nil { // Drydock generated them
			continue
		}
		delete(more, "Resource")
		if resource != "" {
			more["Resource"] = resource
		}
		out = append(out, more)
	}
	return out
}

func raw(statements []string) []any {
	var out []any
	for _, s := range statements {
		out = append(out, json.RawMessage(s))
	}
	return out
}

// addToEndpoint returns the command that adds statements to the current policy of a VPC endpoint.
func (x *Explainer) addToEndpoint(ctx context.Context, e awsapi.VPCEndpoint, statements []string) string {
	document, ok := x.cfg.EC2.EndpointPolicy(ctx, e.Account, e.Region, e.ID)
	if !ok {
		return ""
	}
	return "aws ec2 modify-vpc-endpoint --vpc-endpoint-id " + e.ID + " --policy-document " + withStatement(document, raw(statements)...) + " --region " + e.Region
}

// addToBoundary returns the command that adds statements to a caller's boundary, if that is a customer managed policy
// with room for another version.
func (x *Explainer) addToBoundary(ctx context.Context, p awsapi.Principal, statements []string) string {
	policies, _ := x.cfg.IAM.PoliciesOf(p)
	if policies.Boundary == nil {
		return ""
	}
	document, full, ok := x.cfg.IAM.PolicyByARN(ctx, policies.Boundary.Name)
	if !ok || full {
		return ""
	}
	return "aws iam create-policy-version --policy-arn " + policies.Boundary.Name + " --set-as-default --policy-document " + withStatement(document, raw(statements)...)
}

// putPolicy returns the command that adds an inline policy with statements to the role or user of an ARN. It returns
// "" for other principals, whose policies cannot be changed.
func putPolicy(requestID, principal, statement string) string {
	_, who, _ := strings.Cut(principal, ":iam::")
	_, who, _ = strings.Cut(who, ":")
	kind, path, _ := strings.Cut(who, "/")
	if kind != "role" && kind != "user" || strings.HasPrefix(path, "aws-service-role/") {
		return ""
	}
	// The policy is named after the request, because an existing name would replace another policy.
	return "aws iam put-" + kind + "-policy --" + kind + "-name " + path[strings.LastIndexByte(path, '/')+1:] + " --policy-name request-" + requestID +
		" --policy-document " + quoted(`{"Version":"2012-10-17","Statement":[`+statement+`]}`)
}
