package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/policy"
)

func TestParseRefusesHostileDocuments(t *testing.T) {
	statement := `{"Effect":"Allow","Action":"*","Resource":"*"}`
	for name, text := range map[string]string{
		"empty":            "",
		"not JSON":         "nope",
		"truncated":        `{"Statement":[`,
		"two documents":    `{"Statement":` + statement + `} {}`,
		"not an object":    `[]`,
		"duplicate keys":   `{"Statement":` + statement + `,"Statement":` + statement + `}`,
		"deeply nested":    strings.Repeat("[", 100000),
		"nested condition": `{"Statement":{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"Bool":{"a":{"b":"c"}}}}}`,
		"not UTF-8":        `{"Id":"` + "\xff" + `","Statement":` + statement + `}`,
		"oversized":        `{"Id":"` + strings.Repeat("x", 1<<19) + `","Statement":` + statement + `}`,
		"null statement":   `{"Statement":null}`,
		"null action":      `{"Statement":{"Effect":"Allow","Action":null,"Resource":"*"}}`,
		"no statements":    `{"Statement":[]}`,
		"nested policy":    `{"Statement":[[` + statement + `]]}`,
		"duplicate effect": `{"Statement":{"Effect":"Allow","Effect":"Deny","Action":"*","Resource":"*"}}`,
		"duplicate key":    `{"Statement":{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"Bool":{"a:b":"true","a:b":"false"}}}}`,
		"wrong case":       `{"statement":` + statement + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range allKinds {
				doc, err := policy.Parse(kind, text)
				var malformed *policy.MalformedError
				if !errors.As(err, &malformed) || malformed.Message == "" {
					t.Errorf("Parse(%v) = %v, %v, want a MalformedError", kind, doc, err)
				}
			}
		})
	}
}

func TestMatchResource(t *testing.T) {
	const cluster = "arn:aws:eks:us-east-1:111122223333:cluster/dev"
	for _, tt := range []struct {
		pattern, resource string
		want              bool
	}{
		{"*", cluster, true},
		{cluster, cluster, true},
		{"arn:aws:eks:*:*:cluster/*", cluster, true},
		{"arn:aws:eks:us-east-?:111122223333:cluster/d?v", cluster, true},
		{"arn:aws:eks:us-east-1:111122223333:nodegroup/*", cluster, false},
		{"arn:*:cluster/dev", cluster, false}, // wildcards do not cross colons …
		{"arn:aws:eks:*", cluster, true},      // … but missing fields are wildcards
		{"arn:aws:s3:::b/*", "arn:aws:s3:::b/a:b:c", true},
		{"arn:aws:eks:*:*:cluster/*", "*", false}, // an action without resources
		{"*", "*", true},
		{"arn:aws:eks:*:*:cluster/DEV", cluster, false}, // resources are compared case-sensitively
		{"arn:*:*:*:*:*", "arn:aws", false},             // a shorter text has fewer fields
		{"arn:aws:*", "arn:aws", false},
	} {
		t.Run(tt.pattern+" on "+tt.resource, func(t *testing.T) {
			doc, err := policy.Parse(policy.Identity, fmt.Sprintf(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":%q}}`, tt.pattern))
			if err != nil {
				t.Fatal(err)
			}
			d := policy.Evaluate(policy.Request{Action: "eks:X", Resource: tt.resource}, policy.Policies{Identity: []policy.Source{{Name: "p", Document: doc}}})
			if diff := cmp.Diff(tt.want, d.Allowed); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestWildcards compares with regular expressions, over all short patterns of
// letters and wildcards.
func TestWildcards(t *testing.T) {
	values := words("ab", 4)
	for _, pattern := range words("ab*?", 4) {
		s := saying{}
		p := policy.Policies{Identity: s.sources(t, "p", policy.Identity, when(`"StringLike":{"k:k":"`+pattern+`"}`))}
		re := wildcard(pattern, false, nil)
		for _, v := range values {
			d := policy.Evaluate(policy.Request{Action: "s3:GetObject", Resource: "*", Context: policy.Context{Values: map[string][]string{"k:k": {v}}}}, p)
			if want := re.MatchString(v); d.Allowed != want {
				t.Errorf("%q is like %q: %v, want %v", v, pattern, d.Allowed, want)
			}
		}
	}
}

// words are those of an alphabet up to a length.
func words(alphabet string, most int) []string {
	out := []string{""}
	for start := 0; most > 0; most-- {
		end := len(out)
		for _, w := range out[start:end] {
			for _, c := range alphabet {
				out = append(out, w+string(c))
			}
		}
		start = end
	}
	return out
}

// A position is where IAM's simulator reports it: a statement starts where whatever precedes it ends, and ends after
// its brace. https://docs.aws.amazon.com/cli/latest/reference/iam/simulate-principal-policy.html#examples
func TestStatementsKnowWhereTheyStand(t *testing.T) {
	doc, err := policy.Parse(policy.Identity, `{
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": [
                "codecommit:ListRepositories"
            ], "Resource": "*"
        },
        {"Effect": "Deny", "Action": "iam:*", "Resource": "*"}
    ]
}`)
	if err != nil {
		t.Fatal(err)
	}
	type span struct{ Start, End policy.Position }
	var got []span
	for i := range doc.Statements {
		start, end := doc.Statements[i].Span()
		got = append(got, span{start, end})
	}
	want := []span{
		{policy.Position{Line: 3, Column: 19}, policy.Position{Line: 9, Column: 10}},
		{policy.Position{Line: 9, Column: 11}, policy.Position{Line: 10, Column: 63}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	d := policy.Evaluate(policy.Request{Action: "codecommit:ListRepositories", Resource: "*"}, policy.Policies{Identity: []policy.Source{{Name: "p", Document: doc}}})
	if len(d.Matched) != 1 || d.Matched[0].Start != want[0].Start || d.Matched[0].End != want[0].End {
		t.Errorf("matched %+v", d.Matched)
	}
}

func TestSizeDoesNotCountWhiteSpace(t *testing.T) {
	if got := policy.Size("{ \"Sid\":\t\"é\"\r\n}"); got != len(`{"Sid":"e"}`) {
		t.Errorf("got %d", got)
	}
}

// A document that was not parsed can still be evaluated.
func TestDocumentsMadeByHand(t *testing.T) {
	doc := &policy.Document{Version: policy.Version2012, Statements: []policy.Statement{
		{Actions: []string{"s3:Get*"}, Resources: []string{"arn:aws:s3:::${aws:username}/*"}},
		{SID: "Never", Deny: true, Actions: []string{"*"}, Resources: []string{"*"}, Conditions: []policy.Condition{{Operator: "Bool", Key: "aws:SecureTransport", Values: []string{"false"}}}},
	}}
	for transport, want := range map[string]string{"true": allowed, "false": explicit} {
		d := policy.Evaluate(policy.Request{
			Action: "s3:GetObject", Resource: "arn:aws:s3:::ann/x", Principal: ann,
			Context: policy.Context{Values: map[string][]string{"aws:username": {"ann"}, "aws:securetransport": {transport}}},
		}, policy.Policies{Identity: []policy.Source{{Name: "p", Document: doc}}})
		if got := outcome(d); got != want {
			t.Errorf("aws:SecureTransport=%s: got %s, want %s", transport, got, want)
		}
	}
}

// An absent key, an empty key and an unknown key are three different things.
func TestContext(t *testing.T) {
	var ctx policy.Context
	ctx.Set("aws:PrincipalTag/Team", "a")
	ctx.Set("aws:SourceVpce")
	ctx.Unknown = func(key string) bool { return key == "ec2:vpc" }
	for condition, want := range map[string]string{
		`"StringEquals":{"AWS:principaltag/team":"a"}`:                                     allowed,
		`"Null":{"aws:SourceVpce":"true"}`:                                                 allowed,
		`"Null":{"aws:SourceIp":"true"}`:                                                   allowed,
		`"Null":{"ec2:Vpc":"true"}`:                                                        implicit,
		`"Null":{"ec2:Vpc":"false"}`:                                                       implicit,
		`"StringEqualsIfExists":{"ec2:Vpc":"vpc-1"}`:                                       implicit,
		`"StringNotEquals":{"aws:PrincipalTag/Team":["${ec2:Vpc}","a"]}`:                   implicit,
		`"StringLike":{"aws:PrincipalTag/Team":["${ec2:Vpc}","a"]}`:                        allowed,
		`"StringEquals":{"aws:PrincipalTag/Team":"b","ec2:Vpc":"x"}`:                       implicit,
		`"ForAnyValue:StringEquals":{"aws:PrincipalTag/Team":["${ec2:Vpc, 'a'}","other"]}`: implicit,
	} {
		t.Run(condition, func(t *testing.T) {
			s := saying{}
			p := policy.Policies{Identity: s.sources(t, "p", policy.Identity, when(condition))}
			d := policy.Evaluate(policy.Request{Action: "s3:GetObject", Resource: "*", Principal: ann, Context: ctx}, p)
			if got := outcome(d); got != want {
				t.Errorf("got %s, want %s: %+v", got, want, d)
			}
			deny := s.sources(t, "d", policy.Identity, allowAll+","+strings.Replace(when(condition), "Allow", "Deny", 1))
			d = policy.Evaluate(policy.Request{Action: "s3:GetObject", Resource: "*", Principal: ann, Context: ctx}, policy.Policies{Identity: deny})
			if (len(d.Undecided) > 0) != (len(d.UnknownKeys) > 0) || len(d.Undecided) > 0 && !d.ExplicitDeny {
				t.Errorf("what is not known does not deny: %+v", d)
			}
		})
	}
}

func TestMissingKeys(t *testing.T) {
	s := saying{}
	doc := s.document(t, policy.Identity, when(`"StringLike":{"s3:prefix":"${aws:username}/*"},"Bool":{"aws:SecureTransport":"true"}`))
	got := policy.MissingKeys(map[string][]string{"aws:username": {"ann"}}, doc)
	if diff := cmp.Diff([]string{"aws:SecureTransport", "s3:prefix"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
