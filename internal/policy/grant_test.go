package policy_test

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/policy"
)

// TestGrants: a grant of a KMS key replaces the key's policy and identity-based policies, in other accounts too, and
// nothing else. https://docs.aws.amazon.com/kms/latest/developerguide/grants.html
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html
func TestGrants(t *testing.T) {
	const (
		key  = "arn:aws:kms:us-east-1:111122223333:key/k"
		user = "arn:aws:iam::111122223333:user/app"
		far  = "arn:aws:iam::444455556666:user/app"
	)
	parse := func(kind policy.Kind, statement string) []policy.Source {
		t.Helper()
		doc, err := policy.Parse(kind, `{"Version":"2012-10-17","Statement":`+statement+`}`)
		if err != nil {
			t.Fatal(err)
		}
		return []policy.Source{{Name: "p", Document: doc}}
	}
	grant := func(who string) []policy.Source {
		return parse(policy.Resource, `{"Effect":"Allow","Principal":{"AWS":"`+who+`"},"Action":"kms:Decrypt","Resource":"`+key+`"}`)
	}
	all := parse(policy.Identity, `{"Effect":"Allow","Action":"kms:*","Resource":"*"}`)
	other := parse(policy.Identity, `{"Effect":"Allow","Action":"s3:*","Resource":"*"}`)
	deny := parse(policy.Identity, `{"Effect":"Deny","Action":"kms:*","Resource":"*"}`)
	for _, tt := range []struct {
		name     string
		who      string
		policies policy.Policies
		missing  policy.PolicyType // "" if allowed
	}{
		{"without policies", user, policy.Policies{Grants: grant(user)}, ""},
		{"for somebody else", user, policy.Policies{Grants: grant(far), Identity: all}, policy.ResourceBased},
		{"across accounts", far, policy.Policies{Grants: grant(far)}, ""},
		{"to an account: its policies must allow", far, policy.Policies{Grants: grant("arn:aws:iam::444455556666:root")}, policy.IdentityBased},
		{"to an account whose policies allow", far, policy.Policies{Grants: grant("arn:aws:iam::444455556666:root"), Identity: all}, ""},
		{"a boundary of a role's session binds", user + "/s", policy.Policies{Grants: grant(user), Boundary: &other[0]}, policy.PermissionsBoundary},
		{"session policies bind it too", user + "/s", policy.Policies{Grants: grant(user), Sessioned: true, Session: other}, policy.SessionPolicy},
		{"a session policy that allows", user + "/s", policy.Policies{Grants: grant(user), Sessioned: true, Session: all}, ""},
		{"a boundary of a user binds", user, policy.Policies{Grants: grant(user), Boundary: &other[0]}, policy.PermissionsBoundary},
		{"a boundary of a user that allows", user, policy.Policies{Grants: grant(user), Boundary: &all[0]}, ""},
		{"session policies bind a session that is named", user + "/s", policy.Policies{Grants: grant(user + "/s"), Sessioned: true, Session: other}, policy.SessionPolicy},
		{"session policies of a session that is named allow", user + "/s", policy.Policies{Grants: grant(user + "/s"), Sessioned: true, Session: all}, ""},
		{"a boundary of a session that is named", user + "/s", policy.Policies{Grants: grant(user + "/s"), Boundary: &other[0]}, policy.PermissionsBoundary},
		{"a boundary across accounts", far, policy.Policies{Grants: grant(far), Boundary: &other[0]}, policy.PermissionsBoundary},
		{"session policies across accounts", far, policy.Policies{Grants: grant(far), Sessioned: true, Session: other}, policy.SessionPolicy},
		{"a boundary across accounts that allows", far, policy.Policies{Grants: grant(far), Boundary: &all[0]}, ""},
		{"deny wins", user, policy.Policies{Grants: grant(user), Identity: deny}, policy.IdentityBased},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.policies.ResourceRequired = true
			p := policy.Principal{Account: tt.who[len("arn:aws:iam::"):][:12], ARN: tt.who}
			if tt.who == user+"/s" {
				p.RoleARN = user
			}
			req := policy.Request{Action: "kms:Decrypt", Resource: key, Principal: p}
			d := policy.Evaluate(req, tt.policies)
			if d.Allowed != (tt.missing == "") {
				t.Fatalf("%+v", d)
			}
			e := policy.Explain(req, tt.policies)
			for _, l := range e.Layers {
				if blamed := l.Denies || l.Required && !l.Allows; blamed && d.Allowed || l.Type == tt.missing && !blamed {
					t.Errorf("the explanation says otherwise:\n%v", e)
				}
			}
			if tt.missing != "" && !d.ExplicitDeny && d.Missing[0] != tt.missing {
				t.Errorf("missing %v, want %v", d.Missing, tt.missing)
			}
		})
	}
}
