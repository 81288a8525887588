package node

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Attaching a policy is tried: it has to allow the action, nothing may deny it, and the role must have room for it.
func TestPermitted(t *testing.T) {
	const role = "arn:aws:iam::000000000000:role/node"
	parse := func(kind policy.Kind, statement string) *policy.Document {
		doc, err := policy.Parse(kind, `{"Version":"2012-10-17","Statement":[`+statement+`]}`)
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	deny := policy.Source{Name: "deny", Document: parse(policy.Identity, `{"Effect":"Deny","Action":"ec2:*","Resource":"*"}`)}
	var ten []policy.Source
	for range maxAttached {
		ten = append(ten, policy.Source{Name: "arn:aws:iam::aws:policy/Other", Document: parse(policy.Identity, `{"Effect":"Allow","Action":"s3:*","Resource":"*"}`)})
	}
	closed := []policy.Source{{Name: "vpce-1", Document: parse(policy.Endpoint, `{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"*"}`)}}
	attach, _ := Attached(role, ManagedPolicy(ActionDescribeInstances, false))
	open := advice.Change{Kind: advice.AddStatement, Resource: "vpce-1", Value: `{"Effect":"Allow","Principal":"*","Action":"ec2:*","Resource":"*"}`}
	for _, tt := range []struct {
		name    string
		p       policy.Policies
		changes []advice.Change
		want    string
	}{
		{"a role without policies", policy.Policies{}, []advice.Change{attach}, ""},
		{"a role that is denied it", policy.Policies{Identity: []policy.Source{deny}}, []advice.Change{attach}, "explicit deny"},
		{"a role that is full", policy.Policies{Identity: ten}, []advice.Change{attach}, "which is the quota"},
		{"an endpoint, too", policy.Policies{Endpoint: closed}, []advice.Change{attach}, "no VPC endpoint policy allows"},
		{"both", policy.Policies{Endpoint: closed}, []advice.Change{attach, open}, ""},
		{"another call's endpoint", policy.Policies{}, []advice.Change{attach, open}, ""},
		{"no such policy", policy.Policies{}, []advice.Change{{Kind: advice.AttachPolicy, Value: "arn:aws:iam::aws:policy/None"}}, "there is no policy"},
	} {
		req := policy.Request{Action: ActionDescribeInstances, Resource: "*", Principal: policy.Principal{Account: "000000000000", ARN: "arn:aws:sts::000000000000:assumed-role/node/i-1", RoleARN: role, ID: "AROA:i-1"}}
		fixes := advice.Try(Permitted(req, tt.p), tt.changes, "command")
		if f := fixes[0]; f.Proven != (tt.want == "") || !strings.Contains(f.Sketch, tt.want) {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}
