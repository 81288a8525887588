package policy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/policy"
)

var allKinds = []policy.Kind{policy.Identity, policy.Session, policy.Boundary, policy.Trust, policy.Resource, policy.Endpoint}

// FuzzPolicy parses arbitrary input and evaluates it. Nothing may panic. What parses gets the same decision twice,
// the explanation agrees with it, and suggestions for a denial help.
func FuzzPolicy(f *testing.F) {
	for _, s := range sayings() {
		version := or(s.version, policy.Version2012)
		for _, statements := range []string{s.identity, s.boundary, s.session, s.resource, s.trust, s.endpoint} {
			if statements != "" {
				f.Add(`{"Version":"`+version+`","Statement":[`+statements+`]}`, or(s.action, "s3:GetObject"), or(s.on, "arn:aws:s3:::bucket/key"), s.context)
			}
		}
	}
	f.Add(`{"Statement":{"Effect":"Deny","NotAction":"eks:*","NotResource":["arn:aws:s3:::${aws:username"]}}`, "eks", "", "k")
	f.Fuzz(func(t *testing.T, text, action, resource, context string) {
		for _, kind := range allKinds {
			doc, err := policy.Parse(kind, text)
			if err != nil {
				continue
			}
			req := policy.Request{Action: action, Resource: resource, Principal: ann, Context: policy.Context{Values: contextOf(context)}}
			src := policy.Source{Name: "p", Document: doc}
			p := policy.Policies{Identity: []policy.Source{src}}
			switch kind {
			case policy.Trust:
				p = policy.Policies{Trust: &src}
				policy.EvaluateTrust(req, doc)
			case policy.Resource:
				p = policy.Policies{Resource: []policy.Source{src}}
			case policy.Endpoint:
				p.Endpoint, p.Identity = p.Identity, nil
			case policy.Boundary:
				p.Boundary = &src
			case policy.Session:
				p.Session, p.Sessioned = p.Identity, true
			}
			d := policy.Evaluate(req, p)
			if diff := cmp.Diff(d, policy.Evaluate(req, p)); diff != "" {
				t.Error(diff)
			}
			e := policy.Explain(req, p)
			if diff := cmp.Diff(d, e.Decision); diff != "" {
				t.Error(diff)
			}
			if _, err := json.Marshal(e); err != nil {
				t.Error(err)
			}
			_ = e.String()
			for _, s := range policy.Suggest(req, p) {
				if changed, changedPolicies := s.Apply(req, p); !policy.Evaluate(changed, changedPolicies).Allowed {
					t.Errorf("does not help: %s", s)
				}
			}
			policy.ContextKeys(doc)
		}
	})
}

// Patterns with many wildcards, in any place where a pattern may be, are matched in linear time or, with "?", in no
// more steps than their length times the value's. Most of them would not finish with a backtracking matcher.
func TestWildcardBombsEnd(t *testing.T) {
	bomb, value := repeat("a*", 20_000)+"b", repeat("a", 20_000)
	for name, statement := range map[string]string{
		"action":      `{"Effect":"Allow","Action":"s3:` + bomb + `","Resource":"*"}`,
		"not action":  `{"Effect":"Allow","NotAction":["*","s3:` + bomb + `"],"Resource":"*"}`,
		"resource":    `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::` + bomb + `"}`,
		"variable":    `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::${k:v}` + bomb + `"}`,
		"StringLike":  `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringLike":{"k:v":"` + bomb + `"}}}`,
		"ArnLike":     `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ArnLike":{"k:v":"arn:` + bomb + `"}}}`,
		"one part":    `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringLike":{"k:v":"*` + repeat("a", 10_000) + `b*"}}}`,
		"many values": `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAnyValue:StringLike":{"k:many":"*` + repeat("?", 1_000) + `b"}}}`,
		"numbers":     `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"NumericEquals":{"k:v":"` + repeat("9", 20_000) + `"}}}`,
		"question":    `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringLike":{"k:v":"` + repeat("*?", 10_000) + `b"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := policy.Parse(policy.Identity, `{"Version":"2012-10-17","Statement":[`+statement+`]}`)
			if err != nil {
				t.Fatal(err)
			}
			req := policy.Request{
				Action: "s3:" + value, Resource: "arn:aws:s3:::" + value,
				Context: policy.Context{Values: map[string][]string{"k:v": {value}, "k:many": {value, value, value}}},
			}
			start := time.Now()
			if policy.Evaluate(req, policy.Policies{Identity: []policy.Source{{Name: "bomb", Document: doc}}}).Allowed {
				t.Error("allowed by a pattern that does not match")
			}
			// 6·10⁷ steps at the very most: generous on a busy machine.
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func repeat(s string, n int) string {
	out := make([]byte, 0, len(s)*n)
	for range n {
		out = append(out, s...)
	}
	return string(out)
}
