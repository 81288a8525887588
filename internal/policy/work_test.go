package policy_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/policy"
)

// The cost of evaluating a request is bounded, whatever the request and the policies contain. A deny that cannot be
// decided because of that denies.
func TestWorkIsBounded(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	values := func(n int, format string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf(format, i)
		}
		return out
	}
	long := strings.Repeat("ab", 1000)
	for _, c := range []struct {
		name, condition, resource string
		context                   map[string][]string
		allowed                   bool
	}{
		{
			name:      "many values and many wanted",
			condition: `"ForAnyValue:StringLike":{"aws:TagKeys":[` + many(20_000, `"*w%d"`) + `]}`,
			context:   map[string][]string{"aws:tagkeys": values(200_000, "v%d")},
		},
		{
			name:      "question marks",
			condition: `"StringLike":{"aws:UserAgent":[` + many(200, `"*?`+strings.Repeat("ab", 500)+`%d"`) + `]}`,
			context:   map[string][]string{"aws:useragent": {strings.Repeat("ab", 1<<16)}},
		},
		{
			name:     "resources with question marks",
			resource: `"arn:aws:s3:::x"` + strings.Repeat(`,"arn:aws:s3:::*?`+long+`c*?`+long+`c"`, 60),
		},
		{
			name:      "variables of long values",
			condition: `"StringEquals":{"aws:UserAgent":["` + strings.Repeat("${aws:UserAgent}", 10_000) + `"]}`,
			context:   map[string][]string{"aws:useragent": {strings.Repeat("a", 1<<16)}},
			allowed:   true, // longer than anything that it could equal
		},
		{
			name:      "many wanted with variables",
			condition: `"StringEquals":{"aws:UserAgent":[` + many(10_000, `"${aws:Referer}%d"`) + `]}`,
			context:   map[string][]string{"aws:useragent": {"a"}, "aws:referer": {strings.Repeat("a", 1<<16)}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.condition != "" {
				c.condition = `,"Condition":{` + c.condition + `}`
			}
			if c.resource == "" {
				c.resource = `"*"`
			}
			doc, err := policy.Parse(policy.Identity, `{"Version":"2012-10-17","Statement":[
				{"Effect":"Allow","Action":"*","Resource":"*"},
				{"Effect":"Deny","Action":"*","Resource":[`+c.resource+`]`+c.condition+`}]}`)
			if err != nil {
				t.Fatal(err)
			}
			req := policy.Request{
				Action: "s3:GetObject", Resource: "arn:aws:s3:::" + strings.Repeat("ab", 1<<15),
				Principal: policy.Principal{Account: "111122223333", ARN: "arn:aws:iam::111122223333:user/u"},
				Context:   policy.Context{Values: c.context},
			}
			policies := policy.Policies{Identity: []policy.Source{{Name: "p", Document: doc}}}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			done := make(chan policy.Decision, 1)
			go func() {
				d := policy.Evaluate(req, policies)
				policy.Suggest(req, policies)
				done <- d
			}()
			select {
			case d := <-done:
				if d.Allowed != c.allowed {
					t.Errorf("allowed %v: %s", d.Allowed, d.Reason)
				}
			case <-time.After(time.Minute): // it takes half a second
				t.Fatal("it is not decided within a minute")
			}
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 1<<30 {
				t.Errorf("it takes %d bytes of memory", took)
			}
		})
	}
}

// The cost of a question with many unknown keys is in proportion to their number.
func TestManyUnknownKeys(t *testing.T) {
	var b strings.Builder
	for i := range 15_000 {
		fmt.Fprintf(&b, `${k:%d}`, i)
	}
	doc, err := policy.Parse(policy.Identity, `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::`+b.String()+`"}}`)
	if err != nil {
		t.Fatal(err)
	}
	d := policy.Evaluate(policy.Request{
		Action: "s3:GetObject", Resource: "arn:aws:s3:::b", Principal: policy.Principal{Account: "111122223333"},
		Context: policy.Context{Unknown: policy.AnyKey},
	}, policy.Policies{Identity: []policy.Source{{Name: "p", Document: doc}}})
	if len(d.UnknownKeys) != 15_000 || d.Allowed {
		t.Errorf("%d unknown keys, allowed %v", len(d.UnknownKeys), d.Allowed)
	}
}
