package filterpattern_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/service/logs/filterpattern"
)

const (
	access = `127.0.0.1 Prod frank [10/Oct/2000:13:25:15 -0700] "GET /index.html HTTP/1.0" 404 1534`
	trail  = `{"eventType":"UpdateTrail","sourceIPAddress":"111.111.111.111","arrayKey":["value","another value"],"objectList":[{"name":"a","id":1},{"name":"b","id":2}],
		"SomeObject":null,"cluster.name":"c","errorCode":400,"errorMessage":".003e-4","ThisFlag":true,"latency":50.5}`
)

// cases are AWS's documented examples first.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
var cases = []struct {
	pattern, message string
	want             bool
}{
	// Everything.
	{"", "x", true},
	{" ", "x", true},
	{"[]", "x", true},
	// Terms are parts of messages.
	{"ERROR", "[ERROR 400] BAD REQUEST", true},
	{"ERROR", "Exiting with ERRORCODE: -1", true},
	{"ERROR", "an error", false},
	{"ERROR Exception", "[ERROR] Caught IllegalArgumentException", true},
	{"ERROR Exception", "[ERROR] a fatal exception", false},
	{"ERROR -Exiting", "Exiting with ERRORCODE: -1", false},
	{"ERROR -Exiting", "[ERROR 401] UNAUTHORIZED REQUEST", true},
	{`"INTERNAL SERVER ERROR"`, "[ERROR 500] INTERNAL SERVER ERROR", true},
	{`"INTERNAL SERVER ERROR"`, "INTERNAL ERROR of the SERVER", false},
	{`"say \"hi\""`, `they say "hi"`, true},
	{`-"BAD REQUEST"`, "[ERROR 400] BAD REQUEST", false},
	{"?ERROR ?WARN", "[WARN] x", true},
	{"?ERROR ?WARN", "[INFO] x", false},
	{"?ERROR ?ARGUMENTS REQUEST", "[INFO] REQUEST FAILED", true}, // optional terms beside others count for nothing
	// Regular expressions.
	{"%ERROR%", "[ERROR 400]", true},
	{"%colou?r%", "color", true},
	{`%10\.10\.0\.1%`, "from 10.10.0.1 to", true},
	{`%10\.10\.0\.1%`, "from 10x10.0.1", false},
	{"%^A[0-9]{2}$%", "A12", true},
	{"%^A[0-9]{2}$%", "A123", false},
	{"%gray|grey%", "grey", true},
	{"%x% -y", "xy", false},
	// JSON.
	{`{ $.eventType = "UpdateTrail" }`, trail, true},
	{`{ $.eventType = UpdateTrail }`, trail, true},
	{`{ $.eventType = "updateTrail" }`, trail, false},
	{`{$.sourceIPAddress != 123.123.*}`, trail, true},
	{`{$.sourceIPAddress = 111.111.*}`, trail, true},
	{`{ $.arrayKey[0] = "value" }`, trail, true},
	{`{ $.arrayKey[1] = "value" }`, trail, false},
	{`{ $.arrayKey[*] = "another*" }`, trail, true},
	{`{ $.arrayKey[7] = "value" }`, trail, false},
	{`{ $.objectList[1].id = 2 }`, trail, true},
	{`{ $.objectList[*].id > 1 }`, trail, true},
	{`{ $.objectList[*].id > 2 }`, trail, false},
	{`{ $.SomeObject IS NULL }`, trail, true},
	{`{ $.ThisFlag IS NULL }`, trail, false},
	{`{ $.SomeOtherObject NOT EXISTS }`, trail, true},
	{`{ $.SomeObject NOT EXISTS }`, trail, false},
	{`{ $.ThisFlag IS TRUE }`, trail, true},
	{`{ $.ThisFlag IS FALSE }`, trail, false},
	{`{ $.errorCode = 400 }`, trail, true},
	{`{ $.errorCode = 4e2 }`, trail, true},
	{`{ $.errorCode = 4* }`, trail, true},
	{`{ $.errorCode >= 400.0 && $.errorCode < 401 }`, trail, true},
	{`{ $.eventType > 1 }`, trail, false},
	{`{ $.latency = * }`, trail, true},
	{`{ $.none = * }`, trail, false},
	{`{ $.none != x }`, trail, false},
	{`{ $.objectList = * }`, trail, true},
	{`{ ($.none = 1) || ($.latency < 51 && $.eventType = %^Update%) }`, trail, true},
	{`{ $.none = 1 && $.none = 2 || $.latency = 50.5 }`, trail, true},
	{`{ ($.none = 1 && $.none = 2) || $.latency = 50 }`, trail, false},
	{`{ $.a.b-c = "d e" }`, `{"a":{"b-c":"d e"}}`, true},
	{`{ $.a = x }`, "not JSON", false},
	{`{ $.a = x }`, `{"a":"x"} more`, false},
	{`{ $.a = x }`, `["a"]`, false},
	// Fields.
	{"[ip, id, user, timestamp, request, status_code, size]", access, true},
	{"[ip, id, user, timestamp, request, status_code = 4*, size]", access, true},
	{"[ip, id, user, timestamp, request, status_code = 5*, size]", access, false},
	{"[ip, id, user, timestamp, request =*.html*, status_code = 4*, size]", access, true},
	{"[ip, id, user, timestamp, request, status_code = 404 || status_code = 410, size]", access, true},
	{"[ip, id, user, timestamp, request, status_code >= 405 || status_code < 404, size]", access, false},
	{"[ip, id, user, timestamp, request, status_code, size > 1000]", access, true},
	{"[..., size > 1000]", access, true},
	{"[ip = %^127\\.%, ..., size]", access, true},
	{"[ip, ..., status_code!=404&&status_code!=405, size]", access, false},
	{"[ip, id, user]", access, false},
	{"[w1=ERROR, w2]", "ERROR x", true},
	{"[w1!=ERROR&&w1!=WARN, w2]", "INFO x", true},
	{"[w1!=ERROR&&w1!=WARN, w2]", "WARN x", false},
	{`[, , user = "frank", ...]`, access, true},
	{"[a, ...]", "", false},
}

func TestPatterns(t *testing.T) {
	for _, tt := range cases {
		p, err := filterpattern.Parse(tt.pattern)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		if got := p.Match(tt.message); got != tt.want {
			t.Errorf("%s matches %q: %v, want %v", tt.pattern, tt.message, got, tt.want)
		}
	}
}

var malformed = []string{
	"foo-bar", "-", "?", `"x`, "%x", "%a!%", "%(a)%", "%[%", "{", "{}", "{ $.a }", "{ $.a = }", "{ a = 1 }", "{ $.a = 1", "{ $.a = 1 } x", "{ ($.a = 1 }", "{ $ = 1 }",
	"{ $.a < x }", "{ $.a IS 3 }", "{ $.a NOT NULL }", "{ $.a[x] = 1 }", "{ $.a[ = 1 }", "{ $. = 1 }", "{ $.a = 1 && }", "[a", "[a b]", "[a,", "[..., a, ...]", "[a = 1 || b = 2]", "[a] x",
	"{" + strings.Repeat("(", 100),
}

func TestMalformedPatterns(t *testing.T) {
	for _, text := range malformed {
		if _, err := filterpattern.Parse(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestExtract(t *testing.T) {
	for _, tt := range []struct{ pattern, message, want string }{
		{"ERROR", "ERROR", ""},
		{"{ $.eventType = * && $.errorCode > 3 }", trail, "$.errorCode=400 $.eventType=UpdateTrail"},
		{"{ $.objectList[0] = * || $.none NOT EXISTS }", trail, `$.objectList[0]={"id":1,"name":"a"}`},
		{"[ip, ..., status, size]", access, "$2=Prod $3=frank $4=10/Oct/2000:13:25:15 -0700 $5=GET /index.html HTTP/1.0 $ip=127.0.0.1 $size=1534 $status=404"},
	} {
		p, err := filterpattern.Parse(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		values, ok := p.Extract(tt.message)
		var got []string
		for _, k := range slices.Sorted(maps.Keys(values)) {
			got = append(got, fmt.Sprintf("%s=%s", k, values[k]))
		}
		if s := strings.Join(got, " "); !ok || s != tt.want {
			t.Errorf("%s: %q %v, want %q", tt.pattern, s, ok, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range cases {
		f.Add(tt.pattern, tt.message)
	}
	for _, text := range malformed {
		f.Add(text, "x")
	}
	f.Fuzz(func(t *testing.T, pattern, message string) {
		if len(pattern) > 1024 || len(message) > 4096 {
			return
		}
		p, err := filterpattern.Parse(pattern)
		if err != nil {
			return
		}
		if _, ok := p.Extract(message); ok != p.Match(message) {
			t.Errorf("%q and %q: Match and Extract disagree", pattern, message)
		}
	})
}
