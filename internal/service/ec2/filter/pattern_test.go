package filter

import (
	"encoding/json"
	"path"
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	for _, tt := range []struct {
		pattern, value string
		want           bool
	}{
		{"a", "a", true},
		{"a", "A", false},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"a*c*", "abcd", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"*", "", true},
		{"?", "", false},
		{`a\*`, "a*", true},
		{`a\*`, "ab", false},
		{`\?x*`, "?xy", true},
		{`a\`, `a\`, true},
		{"*a*b*", "xxaxxbxx", true},
		{"é?", "éé", true},
	} {
		t.Run(tt.pattern+" "+tt.value, func(t *testing.T) {
			if got := CompilePattern(tt.pattern).Match(tt.value); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// For values without slashes, path.Match treats * and ? in the same way.
func FuzzPattern(f *testing.F) {
	f.Add("a*b?", "axxbc")
	f.Add("***", "")
	f.Add(`\*`, "*")
	f.Fuzz(func(t *testing.T, pattern, value string) {
		got := CompilePattern(pattern).Match(value)
		if strings.ContainsAny(pattern+value, "/[]\\^") || !json.Valid([]byte(`"`+strings.Map(printable, pattern+value)+`"`)) {
			return
		}
		for _, r := range pattern + value {
			if r == '�' {
				return
			}
		}
		want, err := path.Match(pattern, value)
		if err == nil && got != want {
			t.Errorf("%q matches %q: %v, path.Match says %v", pattern, value, got, want)
		}
	})
}

func printable(r rune) rune {
	if r < ' ' || r == '"' {
		return 'x'
	}
	return r
}
