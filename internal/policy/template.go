package policy

import "strings"

// A template is a string in a policy that may contain variables.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html
type template struct {
	text  string
	marks bool // it has a "?"
	vars  []variable
}

// A variable is ${key}, ${key, 'default'}, or one of ${*}, ${?}, ${$}.
type variable struct {
	start, end int    // in the template's text
	name       string // of the key, as written
	key        string // in lower case; empty if the value is fixed
	fallback   string // the default, or the fixed value
	defaulted  bool   // there is a default, or a fixed value
}

// plain returns a template without variables.
func plain(text string) template {
	return template{text: text, marks: strings.IndexByte(text, '?') >= 0}
}

// newTemplate finds the variables of text. The 2008 policy language has none.
func newTemplate(text, version string) template {
	t := plain(text)
	if version != Version2012 {
		return t
	}
	for at := 0; ; {
		i := strings.Index(text[at:], "${")
		if i < 0 {
			return t
		}
		start := at + i
		n := strings.IndexByte(text[start+2:], '}')
		if n < 0 {
			return t
		}
		at = start + 2 + n + 1
		v := variable{start: start, end: at}
		v.parse(text[start+2 : at-1])
		t.vars = append(t.vars, v)
	}
}

func (v *variable) parse(inner string) {
	switch inner {
	case "*", "?", "$":
		v.fallback, v.defaulted = inner, true
		return
	}
	key, rest, ok := strings.Cut(inner, ",")
	v.name = strings.TrimSpace(key)
	v.key = strings.ToLower(v.name)
	if rest = strings.TrimSpace(rest); ok && len(rest) >= 2 && rest[0] == '\'' && rest[len(rest)-1] == '\'' {
		v.fallback, v.defaulted = rest[1:len(rest)-1], true
	}
}

// maxResolved bounds the length in bytes of a template's text with its variables replaced. Nothing in a request is as
// long.
const maxResolved = 1 << 17

// work returns the maximum cost of comparing a value with t, without the values of its variables.
func (t *template) work(value string) int {
	n := 16 + len(t.text) + len(value)
	if t.marks { // see package glob
		n += min(len(t.text), len(value)) * len(value)
	}
	return n
}

// resolved returns the cost of resolving a template to text and comparing a value with it.
func resolved(text, value string) int {
	t := plain(text)
	return 16*len(text) + t.work(value)
}

// resolve replaces the variables by their values. A variable without a default whose key has no value, or several
// values, cannot equal anything: ok is no. If a value is unknown, ok is unknown, and the text has "*" in its place.
func (t *template) resolve(ctx *Context) (text string, literal []bool, ok verdict) {
	ok, literal = yes, make([]bool, 0, 2*len(t.text))
	var b strings.Builder
	put := func(s string, wildcards bool) {
		b.WriteString(s)
		for range len(s) {
			literal = append(literal, !wildcards)
		}
	}
	at := 0
	for _, v := range t.vars {
		put(t.text[at:v.start], true)
		at = v.end
		value, defaulted := v.fallback, v.defaulted
		if v.key != "" {
			switch values, known := ctx.get(v.key); {
			case !known:
				ok = unknown
				put("*", true)
				continue
			case len(values) == 1:
				value, defaulted = values[0], true
			case len(values) > 1:
				defaulted = false
			}
		}
		if !defaulted || b.Len()+len(value) > maxResolved {
			return "", nil, no
		}
		put(value, false)
	}
	put(t.text[at:], true)
	return b.String(), literal, ok
}
