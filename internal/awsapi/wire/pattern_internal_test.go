package wire

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// Patterns that Go cannot compile are not checked. They are listed here, so that new ones in models are noticed.
func TestPatterns(t *testing.T) {
	unchecked := []string{}
	for _, name := range model.Names() {
		svc, err := model.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range svc.Shapes {
			if s.Pattern != "" && javaPattern(s.Pattern) == nil {
				unchecked = append(unchecked, name+" "+s.Name+" "+s.Pattern)
			}
		}
	}
	slices.Sort(unchecked)
	want := []string{
		`acm DomainNameString (\*\.)?(((?!-)[A-Za-z0-9-]{0,62}[A-Za-z0-9])\.)+((?!-)[A-Za-z0-9-]{1,62}[A-Za-z0-9])`,
		`ec2-instance-connect InstanceOSUser (^[A-Za-z_][A-Za-z0-9\@\._-]{0,30}[A-Za-z0-9\$_-]?$)|(^(?=.{2,32}$)[0-9]{1,32}[A-Za-z\@\._-][A-Za-z0-9\@\._-]*[A-Za-z0-9\$_-]?$)`,
		`shield LogBucket ^([a-z]|(\d(?!\d{0,2}\.\d{1,3}\.\d{1,3}\.\d{1,3})))([a-z\d]|(\.(?!(\.|-)))|(-(?!\.))){1,61}[a-z\d]$`,
	}
	if diff := cmp.Diff(want, unchecked); diff != "" {
		t.Errorf("patterns that are not checked (-want +got):\n%s", diff)
	}
}

func TestJavaPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{`[\w+=,.@-]+`, "a b", false},
		{`[\w+=,.@-]+`, "a.b", true},
		{`[\u0009\u000A\u000D\u0020-\u00FF]+`, "é\n", true},
		{`[\u0009\u000A\u000D\u0020-\u00FF]+`, "€", false},
		{`[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\r\n\t]*`, "\U0001F6A2", true},
		{`[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\r\n\t]*`, "\x01", false},
		{`a{1,2048}`, "aaa", true},
		{`^[a-z0-9]([a-z0-9]|-(?!-)){1,61}[a-z0-9]$`, "a-b", true},
		{`^[a-z0-9]([a-z0-9]|-(?!-)){1,61}[a-z0-9]$`, "a--b", false},
		{`^ab$|^cd$`, "cd", true},
		{`ab|cd`, "abcd", false},
	} {
		if got := javaPattern(c.pattern).MatchString(c.text); got != c.want {
			t.Errorf("%s on %q: %v", c.pattern, c.text, got)
		}
	}
}
