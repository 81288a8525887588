package policy

import (
	"strings"
	"unicode/utf8"
)

// A glob is a pattern of characters, "*" and "?". Matching takes at most
// len(pattern)*len(string) steps, whatever the pattern.
type glob struct {
	text string
	// literal marks the bytes of text that stand for themselves although they look
	// like wildcards: those of ${*} and of the values of variables. Nil: none.
	literal []bool
	shape   shape
}

type shape int8

const (
	general  shape = iota
	exact          // no wildcards
	prefix         // one "*", at the end; text is without it
	anything       // nothing but "*"
)

func newGlob(text string, literal []bool) glob {
	g := glob{text: text, literal: literal}
	if literal != nil {
		return g
	}
	switch n := strings.IndexAny(text, "*?"); {
	case n < 0:
		g.shape = exact
	case isStars(text):
		g.shape = anything
	case n == len(text)-1 && text[n] == '*':
		g.shape, g.text = prefix, text[:n]
	}
	return g
}

func (g *glob) match(s string) bool {
	switch g.shape {
	case exact:
		return g.text == s
	case prefix:
		return strings.HasPrefix(s, g.text)
	case anything:
		return true
	}
	return matchGlob(g.text, g.literal, s)
}

// matchGlob goes back to the last "*" only: what an earlier one could take more,
// the last one can as well.
func matchGlob(pattern string, literal []bool, s string) bool {
	wild := func(p int, c byte) bool {
		return p < len(pattern) && pattern[p] == c && (literal == nil || !literal[p])
	}
	p, i := 0, 0
	star, mark := -1, 0 // the last "*" and where in s its match ends
	for i < len(s) {
		switch {
		case wild(p, '*'):
			star, mark = p, i
			p++
		case wild(p, '?'):
			_, n := utf8.DecodeRuneInString(s[i:])
			p++
			i += n
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			_, n := utf8.DecodeRuneInString(s[mark:])
			mark += n
			p, i = star+1, mark
		default:
			return false
		}
	}
	for wild(p, '*') {
		p++
	}
	return p == len(pattern)
}

// A template is a string of a policy that may hold variables.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html
type template struct {
	text string
	vars []variable
}

// A variable is ${key}, ${key, 'default'}, or one of ${*}, ${?}, ${$}.
type variable struct {
	start, end int    // in the template's text
	name       string // of the key, as written
	key        string // in lower case; empty: the value is fixed
	fallback   string // the default, or the fixed value
	defaulted  bool   // there is a default, or a fixed value
}

// newTemplate finds the variables of text. The language of 2008 has none.
func newTemplate(text, version string) template {
	t := template{text: text}
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

// resolve puts in the values of the variables. A variable whose key has no value,
// or several, and no default, has nothing that it could equal: ok is no. If a value
// is not known, ok is unknown, and the text has "*" in its place.
func (t *template) resolve(ctx *Context) (text string, literal []bool, ok verdict) {
	ok = yes
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
		if !defaulted {
			return "", nil, no
		}
		put(value, false)
	}
	put(t.text[at:], true)
	return b.String(), literal, ok
}

// An arnTemplate is a pattern of ARNs. Each field is matched by itself: wildcards
// do not cross the first five colons, and a pattern with fewer fields ends in
// wildcards.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
type arnTemplate struct {
	template
	all    bool // nothing but "*"
	fields []glob
}

func newARNTemplate(text, version string) arnTemplate {
	t := arnTemplate{template: newTemplate(text, version), all: isStars(text)}
	if len(t.vars) == 0 {
		t.fields = arnGlobs(text, nil)
	}
	return t
}

func arnGlobs(text string, literal []bool) []glob {
	var f [6]string
	n := splitARN(text, &f)
	out := make([]glob, n)
	at := 0
	for i := range n {
		var lit []bool
		if literal != nil {
			lit = literal[at : at+len(f[i])]
		}
		out[i] = newGlob(f[i], lit)
		at += len(f[i]) + 1
	}
	return out
}

// match matches an ARN that was split into its n fields.
func (t *arnTemplate) match(arn *[6]string, n int, ctx *Context) verdict {
	if len(t.vars) == 0 {
		return is(matchFields(t.fields, arn, n))
	}
	text, literal, ok := t.resolve(ctx)
	if ok == no {
		return no
	}
	return both(ok, is(matchFields(arnGlobs(text, literal), arn, n)))
}

func matchFields(globs []glob, arn *[6]string, n int) bool {
	if len(globs) > n {
		return false
	}
	// From the end: that is where ARNs differ.
	for i := len(globs) - 1; i >= 0; i-- {
		if !globs[i].match(arn[i]) {
			return false
		}
	}
	return true
}
