// Package glob matches text with the patterns of IAM, EC2's filters and EKS, in which *
// stands for any characters and ? for one.
package glob

import (
	"strings"
	"unicode/utf8"
)

// A Pattern is a pattern of characters, "*" and "?". Without "?", matching is linear;
// with it, it takes at most len(pattern)*len(string) steps, whatever the pattern.
type Pattern struct {
	// Text is the pattern as it was given.
	Text    string
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

// New reads a pattern. literal, if not nil, marks the bytes of text that stand for
// themselves although they look like wildcards.
func New(text string, literal []bool) Pattern {
	g := Pattern{Text: text, literal: literal}
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

// Parts returns the pattern of texts that consist of parts with any characters between them.
func Parts(parts []string) Pattern {
	if len(parts) == 1 {
		return Pattern{Text: parts[0], shape: exact}
	}
	return Pattern{Text: strings.Join(parts, "*"), shape: stars, parts: parts}
}

// Match reports whether s is one of the texts that the pattern stands for.
func (g *Pattern) Match(s string) bool {
	switch g.shape {
	case exact:
		return g.Text == s
	case prefix:
		return strings.HasPrefix(s, g.parts[0])
	case anything:
		return true
	case stars:
		return matchParts(g.parts, s)
	}
	return match(g.Text, g.literal, s)
}

// Match is Pattern.Match for a pattern that is used once.
func Match(pattern, s string) bool {
	g := New(pattern, nil)
	return g.Match(s)
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

// match backtracks only to the last "*": whatever an earlier one could match in addition, the last one can match as
// well.
func match(pattern string, literal []bool, s string) bool {
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
