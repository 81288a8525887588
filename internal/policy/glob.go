package policy

import (
	"strings"
	"unicode/utf8"
)

// A glob is a pattern of characters, "*" and "?". Without "?", matching is linear;
// with it, it takes at most len(pattern)*len(string) steps, whatever the pattern.
type glob struct {
	text string
	// literal marks the bytes of text that are not wildcards although they look like them: those of ${*} and of the
	// values of variables. Nil means none.
	literal []bool
	shape   shape
	parts   []string // of stars: the texts before, between and after them
}

type shape int8

const (
	general  shape = iota
	exact          // no wildcards
	prefix         // one "*", at the end; parts[0] is the text before it
	anything       // nothing but "*"
	stars          // "*" but no "?"
)

func newGlob(text string, literal []bool) glob {
	g := glob{text: text, literal: literal}
	at, marks := 0, 0
	for i := range len(text) {
		switch {
		case literal != nil && literal[i]:
		case text[i] == '?':
			g.parts = nil
			return g
		case text[i] == '*':
			g.parts = append(g.parts, text[at:i])
			at = i + 1
			marks++
		}
	}
	switch {
	case marks == 0:
		g.shape = exact
	case marks == len(text):
		g.shape = anything
	case marks == 1 && at == len(text):
		g.shape = prefix
	default:
		g.shape, g.parts = stars, append(g.parts, text[at:])
	}
	return g
}

func (g *glob) match(s string) bool {
	switch g.shape {
	case exact:
		return g.text == s
	case prefix:
		return strings.HasPrefix(s, g.parts[0])
	case anything:
		return true
	case stars:
		return matchParts(g.parts, s)
	}
	return matchGlob(g.text, g.literal, s)
}

// matchParts finds each part after the previous one, the first at the start and the last at the end.
func matchParts(parts []string, s string) bool {
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	if s, ok = strings.CutSuffix(s, parts[last]); !ok {
		return false
	}
	for _, p := range parts[1:last] {
		if _, s, ok = strings.Cut(s, p); !ok {
			return false
		}
	}
	return true
}

// matchGlob backtracks only to the last "*": whatever an earlier one could match in addition, the last one can match
// as well.
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
