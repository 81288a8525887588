package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/service/ecr/lifecycle"
)

func one(selection string) string {
	return `{"rules":[{"rulePriority":1,"selection":{` + selection + `},"action":{"type":"expire"}}]}`
}

// The texts are AWS's, from moto's test_ecr_policy_validation.py.
func TestParse(t *testing.T) {
	const count = `"countType":"imageCountMoreThan","countNumber":1`
	for _, tt := range []struct{ text, want string }{
		{one(`"tagStatus":"untagged",` + count), ""},
		{one(`"tagStatus":"tagged","tagPatternList":["v*"],` + count), ""},
		{"text", "Could not map policyString into LifecyclePolicy."},
		{"[]", "Could not map policyString into LifecyclePolicy."},
		{`{}`, `object has missing required properties (["rules"])`},
		{`{"rules":[{"selection":{},"action":{}}]}`, `object has missing required properties (["rulePriority"])`},
		{`{"rules":[{"rulePriority":1,"action":{}}]}`, `object has missing required properties (["selection"])`},
		{`{"rules":[{"rulePriority":1,"selection":{}}]}`, `object has missing required properties (["action"])`},
		{`{"rules":[{"rulePriority":1,"unknown":1}]}`, `object instance has properties which are not allowed by the schema: (["unknown"])`},
		{one(count), `object has missing required properties (["tagStatus"])`},
		{one(`"tagStatus":"unknown",` + count), `instance value (unknown) not found in enum :(possible values: ["any", "tagged", "untagged"])`},
		{one(`"tagStatus":"any","countNumber":1`), `object has missing required properties (["countType"])`},
		{one(`"tagStatus":"any","countType":"imageCountMoreThan"`), `object has missing required properties (["countNumber"])`},
		{one(`"tagStatus":"any","countType":"imageCountMoreThan","countNumber":0`), "numeric instance is lower than the required minimum (minimum: 1, found: 0)"},
		{one(`"tagStatus":"any","countUnit":"days",` + count), "instance failed to match exactly one schema (matched 0 out of 2)"},
		{one(`"tagStatus":"any","countType":"unknown","countNumber":1`), "instance failed to match exactly one schema (matched 0 out of 2)"},
		{one(`"tagStatus":"any","countType":"sinceImagePushed","countUnit":"weeks","countNumber":1`), `instance value (weeks) not found in enum :(possible values: ["days"])`},
		{one(`"tagStatus":"tagged",` + count), "tagPrefixList or tagPatternList is required when tagStatus is tagged"},
		{strings.Replace(one(`"tagStatus":"any",`+count), "expire", "keep", 1), `instance value (keep) not found in enum :(possible values: ["expire"])`},
	} {
		_, err := lifecycle.Parse(tt.text)
		if got := fmt.Sprint(err); err == nil && tt.want != "" || err != nil && got != tt.want {
			t.Errorf("%s:\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
	rule := func(n int, status string) string {
		return fmt.Sprintf(`{"rulePriority":%d,"selection":{"tagStatus":%q,%s},"action":{"type":"expire"}}`, n, status, count)
	}
	for _, tt := range []struct{ rules, want string }{
		{rule(2, "untagged") + "," + rule(1, "untagged"), "Only one rule can select Untagged images."},
		{rule(1, "untagged") + "," + rule(1, "any"), "rulePriority must be unique: 1"},
		{rule(1, "any") + "," + rule(2, "untagged"), "The rule with tagStatus any must have the highest rulePriority"},
	} {
		if _, err := lifecycle.Parse(`{"rules":[` + tt.rules + "]}"); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.rules, err, tt.want)
		}
	}
}

func TestExpired(t *testing.T) {
	now := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	day := func(n int) time.Time { return now.AddDate(0, 0, -n) }
	images := []lifecycle.Image{
		{Digest: "a", Tags: []string{"v1", "old"}, Pushed: day(20), Pulled: day(1)},
		{Digest: "b", Tags: []string{"v2"}, Pushed: day(10)},
		{Digest: "c", Tags: []string{"v3", "beta"}, Pushed: day(5)},
		{Digest: "d", Pushed: day(15)},
		{Digest: "e", Pushed: day(2)},
	}
	for _, tt := range []struct{ selection, want string }{
		{`"tagStatus":"any","countType":"imageCountMoreThan","countNumber":2`, "a d b"},
		{`"tagStatus":"untagged","countType":"sinceImagePushed","countUnit":"days","countNumber":14`, "d"},
		{`"tagStatus":"any","countType":"sinceImagePulled","countUnit":"days","countNumber":14`, "d"},
		{`"tagStatus":"tagged","tagPrefixList":["v"],"countType":"imageCountMoreThan","countNumber":1`, "a b"},
		{`"tagStatus":"tagged","tagPrefixList":["v","beta"],"countType":"sinceImagePushed","countUnit":"days","countNumber":1`, "c"},
		{`"tagStatus":"tagged","tagPatternList":["*ld","v*"],"countType":"sinceImagePushed","countUnit":"days","countNumber":1`, "a"},
	} {
		p, err := lifecycle.Parse(one(tt.selection))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range p.Expired(images, now) {
			got = append(got, e.Image.Digest)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: expired %s, want %s", tt.selection, s, tt.want)
		}
	}
}
