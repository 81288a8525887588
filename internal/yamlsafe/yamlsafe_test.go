package yamlsafe_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/yamlsafe"
)

// bomb is 70 KB that expand to 400 MB.
func bomb() string {
	return fmt.Sprintf("a: &a %q\nb: [%s*a]\n", strings.Repeat("x", 40<<10), strings.Repeat("*a,", 9_999))
}

// laughs is a few lines that expand to ten to the tenth values.
func laughs() string {
	text := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'j'; c++ {
		text += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	return text
}

// tower is nested values, each anchor's on top of the previous one.
func tower() string {
	deep := func(name, inner string) string {
		return fmt.Sprintf("- &%s %s%s%s\n", name, strings.Repeat("[", 4_000), inner, strings.Repeat("]", 4_000))
	}
	return deep("a", "x") + deep("b", "*a") + deep("c", "*b")
}

func TestTooMuch(t *testing.T) {
	for name, doc := range map[string]string{
		"one long text":   bomb(),
		"many texts":      laughs(),
		"keys":            fmt.Sprintf("a: &a {%q: 1}\nb: [%s*a]\n", strings.Repeat("x", 1_000), strings.Repeat("*a,", 9_999)),
		"merged":          fmt.Sprintf("a: &a {x: %q}\nb: [%s]\n", strings.Repeat("x", 40<<10), strings.Repeat("{<<: *a},", 5_000)),
		"empty values":    fmt.Sprintf("a: &a [%s]\nb: [%s*a]\n", strings.Repeat("{},", 1_000), strings.Repeat("*a,", 999)),
		"itself":          "a: &a [*a]\n",
		"itself, farther": "a: &a {b: &b {c: [*a, *b]}}\n",
		"a tower":         tower(),
	} {
		t.Run(name, func(t *testing.T) {
			var v any
			if err := yamlsafe.Unmarshal([]byte(doc), &v); !errors.Is(err, yamlsafe.ErrAliases) {
				t.Errorf("Unmarshal: %v", err)
			}
			if js, err := yamlsafe.ToJSON([]byte(doc)); !errors.Is(err, yamlsafe.ErrAliases) || js != nil {
				t.Errorf("ToJSON: %d bytes, %v", len(js), err)
			}
			if js, err := yamlsafe.ToJSONStrict([]byte(doc)); !errors.Is(err, yamlsafe.ErrAliases) || js != nil {
				t.Errorf("ToJSONStrict: %d bytes, %v", len(js), err)
			}
		})
	}
}

func TestGood(t *testing.T) {
	for name, tc := range map[string]struct{ doc, want string }{
		"nothing":           {"", "null"},
		"JSON":              {`{"a": [1, "*"]}`, `{"a":[1,"*"]}`},
		"aliases":           {"a: &a {x: 1}\nb: [*a, *a]\nc: {<<: *a, z: 2}\n", `{"a":{"x":1},"b":[{"x":1},{"x":1}],"c":{"x":1,"z":2}}`},
		"an anchor again":   {"- &a x\n- *a\n- &a z\n- *a\n", `["x","x","z","z"]`},
		"YAML 1.1":          {"a: yes\nb: '*'\nc: 0644\n", `{"a":true,"b":"*","c":420}`},
		"long, no aliases":  {"a: '" + strings.Repeat("*", yamlsafe.Limit) + "'", `{"a":"` + strings.Repeat("*", yamlsafe.Limit) + `"}`},
		"the first of many": {"a: '*'\n---\nb: *c\n", `{"a":"*"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if js, err := yamlsafe.ToJSONStrict([]byte(tc.doc)); err != nil || string(js) != tc.want {
				t.Errorf("%.200s, %v", js, err)
			}
		})
	}
	if _, err := yamlsafe.ToJSONStrict([]byte("a: 1\na: 2")); err == nil {
		t.Error("the same key twice is good")
	}
	var v struct{ Name string }
	if err := yamlsafe.Unmarshal([]byte("x: &n 7\nname: *n"), &v); err != nil || v.Name != "7" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestErrorsAreShort(t *testing.T) {
	for _, doc := range []string{"? null\n: " + strings.Repeat("x", 100<<10), "a: *" + strings.Repeat("b", 100<<10)} {
		if _, err := yamlsafe.ToJSON([]byte(doc)); err == nil || len(err.Error()) > 2<<10 {
			t.Errorf("%.100v", err)
		}
	}
}

// A document that is accepted is no longer than its text plus what its aliases may add.
func FuzzToJSON(f *testing.F) {
	for _, doc := range []string{
		"a: &a " + strings.Repeat("x", 999) + "\nb: [" + strings.Repeat("*a,", 999) + "]", laughs(), "a: &a [*a]", "a: &a {x: 1}\nb: {<<: [*a, *a], y: *a}", "? &k [x]\n: *k", "&a a: *a", "!!binary aGk= : &b !!binary aGk=\nc: *b",
		"%YAML 1.1\n---\n- &a |\n  x\n- *a\n...\n", "- &a # *b\n  x\n- *a#b", "\xff\xfe*\x00a\x00",
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		js, err := yamlsafe.ToJSON(doc)
		if err == nil && len(js) > 6*max(yamlsafe.Limit, 16*len(doc)) { // a character is at most six of JSON's
			t.Errorf("%d bytes become %d", len(doc), len(js))
		}
	})
}
