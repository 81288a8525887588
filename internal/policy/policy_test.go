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
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []policy.Kind{policy.Identity, policy.Session, policy.Trust} {
				doc, err := policy.Parse(kind, text)
				var malformed *policy.MalformedError
				if !errors.As(err, &malformed) || malformed.Message == "" {
					t.Errorf("Parse(%v) = %v, %v, want a MalformedError", kind, doc, err)
				}
			}
		})
	}
}

// A pattern of many wildcards must cost no more than its length times the
// action's: this would not end with a backtracking matcher.
func TestWildcardBombEnds(t *testing.T) {
	bomb := strings.Repeat("a*", 1000)
	doc, err := policy.Parse(policy.Identity, `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:`+bomb+`b","Resource":"*"}}`)
	if err != nil {
		t.Fatal(err)
	}
	d := policy.Evaluate(policy.Request{Action: "s3:" + strings.Repeat("a", 10000)}, policy.Policies{Identity: []policy.Source{{Name: "bomb", Document: doc}}})
	if d.Allowed {
		t.Error("allowed by a pattern that does not match")
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
		{"arn:aws:eks:*:*:cluster/DEV", cluster, false}, // resources compare with case
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
