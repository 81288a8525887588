package why

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// requestFixes returns the commands for the suggestions whose changes can all be made by commands. Each is tried on the
// current policies, which may have changed since the request.
func (x *Explainer) requestFixes(ctx context.Context, why *authz.Explanation, who string) []advice.Fix {
	// If the request itself can be changed, the condition in the trust policy is meant for that.
	byRequest := slices.ContainsFunc(why.Suggestions, func(s policy.Suggestion) bool {
		return !slices.ContainsFunc(s.Changes, func(c policy.Change) bool { return c.Kind != policy.SetKey })
	})
	var out []advice.Fix
	for _, s := range why.Suggestions {
		var f advice.Fix
		for i := range s.Changes {
			command := ""
			switch c := &s.Changes[i]; {
			case c.Kind != policy.AddStatement:
			case c.Type == policy.IdentityBased:
				command = putPolicy(why.RequestID, who, c.Statement)
			case c.Type == policy.RoleTrust && !byRequest:
				command = x.addTrust(ctx, why.Explanation.Decision.Resource, c.Statement)
			case c.Type == policy.ResourceBased:
				command, f.Sketch = x.addToResource(ctx, why, c.Statement)
			case c.Type == policy.VPCEndpoint:
				command = x.addToEndpoint(ctx, why.Endpoint, c.Statement)
			case c.Type == policy.PermissionsBoundary:
				command = x.addToBoundary(ctx, why.Principal, c.Statement)
			}
			if c := &s.Changes[i]; command != "" {
				f.Commands = append(f.Commands, command)
				resource := why.Explanation.Decision.Resource
				switch c.Type {
				case policy.IdentityBased, policy.PermissionsBoundary:
					resource = who
				case policy.VPCEndpoint:
					resource = why.Endpoint.ID
				}
				f.Changes = append(f.Changes, advice.Change{Kind: advice.AddStatement, Resource: resource, Value: c.Statement})
			}
		}
		switch n := len(f.Commands); {
		case n == 0 || n < len(s.Changes):
		case f.Sketch != "":
			out = append(out, f)
		default:
			out = append(out, advice.Try(func([]advice.Change) error {
				if d := x.cfg.Authorizer.Reconsider(ctx, *why, s.Changes...); !d.Allowed {
					return errors.New("the request is still refused: " + d.Reason)
				}
				return nil
			}, f.Changes, f.Commands...)...)
		}
	}
	return out
}

// addTrust returns the command that adds a statement to a role's current trust policy.
func (x *Explainer) addTrust(ctx context.Context, role, statement string) string {
	r, err := x.cfg.IAM.RoleByARN(ctx, role)
	if err != nil || !roleNames.MatchString(roleName(role)) {
		return ""
	}
	return "aws iam update-assume-role-policy --role-name " + roleName(role) + " --policy-document " + withStatement(r.Trust, json.RawMessage(statement))
}

// addToResource returns the command that adds a statement to the current policy of a resource. If another account owns
// the resource, the command is a sketch, because the caller's credentials cannot run it.
func (x *Explainer) addToResource(ctx context.Context, why *authz.Explanation, statement string) (command, sketch string) {
	r := x.cfg.Authorizer.Stored(ctx, *why)
	of, err := arn.Parse(r.ARN)
	if err != nil || r.PolicyText == "" {
		return "", ""
	}
	if of.Account != why.Principal.Account {
		sketch = "run what changes " + r.ARN + " with credentials of account " + of.Account
	}
	var more map[string]any
	if err := json.Unmarshal([]byte(statement), &more); err != nil {
		return "", ""
	}
	at := " --region " + of.Region
	switch name := strings.TrimPrefix(of.Resource, "repository/"); of.Service {
	case "kms":
		// https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-overview.html: * means this key
		more["Resource"] = "*"
		return "aws kms put-key-policy --key-id " + r.ARN + " --policy-name default --policy " + withStatement(r.PolicyText, more) + at, sketch
	case "ecr":
		// https://docs.aws.amazon.com/AmazonECR/latest/userguide/repository-policies.html: they apply to their repository
		delete(more, "Resource")
		return "aws ecr set-repository-policy --registry-id " + of.Account + " --repository-name " + name + " --policy-text " + withStatement(r.PolicyText, more) + at, sketch
	}
	return "", ""
}

// addToEndpoint returns the command that adds a statement to the current policy of a VPC endpoint.
func (x *Explainer) addToEndpoint(ctx context.Context, e awsapi.VPCEndpoint, statement string) string {
	document, ok := x.cfg.EC2.EndpointPolicy(ctx, e.Account, e.Region, e.ID)
	if !ok {
		return ""
	}
	return "aws ec2 modify-vpc-endpoint --vpc-endpoint-id " + e.ID + " --policy-document " + withStatement(document, json.RawMessage(statement)) + " --region " + e.Region
}

// addToBoundary returns the command that adds a statement to a caller's boundary, if that is a customer managed policy
// with room for another version.
func (x *Explainer) addToBoundary(ctx context.Context, p awsapi.Principal, statement string) string {
	policies, _ := x.cfg.IAM.PoliciesOf(p)
	if policies.Boundary == nil {
		return ""
	}
	document, full, ok := x.cfg.IAM.PolicyByARN(ctx, policies.Boundary.Name)
	if !ok || full {
		return ""
	}
	return "aws iam create-policy-version --policy-arn " + policies.Boundary.Name + " --set-as-default --policy-document " + withStatement(document, json.RawMessage(statement))
}

// putPolicy returns the command that adds an inline policy with a statement to the role or user of an ARN. It returns
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
