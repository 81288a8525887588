// Package filterpattern parses CloudWatch Logs' filter patterns and matches messages with them. It
// is pure: no store, no clock.
//
// There are three kinds of patterns: terms ("ERROR -Exiting", "?WARN ?ERROR", %regex%), a condition
// on JSON ({ $.code = 4* && $.user NOT EXISTS }), and the space-separated fields of a line ([ip,
// ..., status=4*]).
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
package filterpattern

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/glob"
)

func invalid(format string, args ...any) error { return fmt.Errorf(format, args...) }

// A Pattern is a parsed filter pattern.
type Pattern struct{ matcher }

// A matcher is a pattern of one kind.
type matcher interface {
	// match reports whether a message matches, and returns the values that the pattern names in it.
	match(message string) (values map[string]string, ok bool)
}

// Parse parses a pattern. An empty pattern matches everything.
func Parse(text string) (*Pattern, error) {
	text = strings.TrimSpace(text)
	var m matcher
	var err error
	switch {
	case strings.HasPrefix(text, "{"):
		m, err = parseJSON(text)
	case strings.HasPrefix(text, "["):
		m, err = parseFields(text)
	default:
		m, err = parseTerms(text)
	}
	return &Pattern{m}, err
}

// Match reports whether a message matches.
func (p *Pattern) Match(message string) bool {
	_, ok := p.match(message)
	return ok
}

// Extract returns the values that the pattern names in a message, in the format of
// TestMetricFilter. ok is false if the message does not match.
func (p *Pattern) Extract(message string) (values map[string]string, ok bool) {
	return p.match(message)
}

// terms are words, phrases and regular expressions.
type terms struct {
	all, any, none []term
}

type term struct {
	text  string
	regex *regexp.Regexp
}

func (t *term) in(message string) bool {
	if t.regex != nil {
		return t.regex.MatchString(message)
	}
	return strings.Contains(message, t.text)
}

func parseTerms(text string) (matcher, error) {
	var out terms
	for s := (scanner{text: text}); ; {
		s.space()
		if s.done() {
			break
		}
		list := &out.all
		switch s.peek() {
		case '?':
			list = &out.any
			s.at++
		case '-':
			list = &out.none
			s.at++
		}
		t, err := s.term()
		if err != nil {
			return nil, err
		}
		*list = append(*list, t)
	}
	if len(out.all)+len(out.none) > 0 {
		out.any = nil // AWS ignores optional terms if there are others
	}
	return &out, nil
}

func (s *scanner) term() (term, error) {
	if s.done() {
		return term{}, invalid("a term is missing at the end")
	}
	switch s.peek() {
	case '"':
		text, err := s.quoted()
		return term{text: text}, err
	case '%':
		re, err := s.regex()
		return term{regex: re}, err
	}
	word := s.while(func(c byte) bool { return !isSpace(c) })
	if strings.TrimLeftFunc(word, func(r rune) bool { return r > 0x7f || isWord(byte(r)) }) != "" || word == "" {
		return term{}, invalid("Invalid character(s) in term '%s'", word) // AWS's own text
	}
	return term{text: word}, nil
}

func (t *terms) match(message string) (map[string]string, bool) {
	for i := range t.all {
		if !t.all[i].in(message) {
			return nil, false
		}
	}
	for i := range t.none {
		if t.none[i].in(message) {
			return nil, false
		}
	}
	for i := range t.any {
		if t.any[i].in(message) {
			return nil, true
		}
	}
	return nil, len(t.any) == 0
}

// A scanner reads a pattern.
type scanner struct {
	text string
	at   int
}

func (s *scanner) done() bool   { return s.at >= len(s.text) }
func (s *scanner) peek() byte   { return s.text[s.at] }
func (s *scanner) rest() string { return s.text[s.at:] }
func (s *scanner) space()       { s.while(isSpace) }

func (s *scanner) while(is func(byte) bool) string {
	from := s.at
	for !s.done() && is(s.peek()) {
		s.at++
	}
	return s.text[from:s.at]
}

// skip consumes a token if it comes next.
func (s *scanner) skip(token string) bool {
	s.space()
	if !strings.HasPrefix(s.rest(), token) {
		return false
	}
	s.at += len(token)
	return true
}

// skipWord consumes a keyword if it comes next.
func (s *scanner) skipWord(word string) bool {
	s.space()
	rest := s.rest()
	if !strings.HasPrefix(rest, word) || len(rest) > len(word) && isWord(rest[len(word)]) {
		return false
	}
	s.at += len(word)
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// quoted reads a text in double quotes, where a backslash escapes the next character.
func (s *scanner) quoted() (string, error) {
	var b strings.Builder
	for i := s.at + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			s.at = i + 1
			return b.String(), nil
		case c == '\\' && i+1 < len(s.text):
			i++
			b.WriteByte(s.text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", invalid("unterminated quote in %q", s.rest())
}

// allowed are the characters allowed in regular expressions. Parentheses, among others, are not.
var allowed = regexp.MustCompile(`^[A-Za-z0-9:_#=@/;,\-^$?\[\]{}|\\*+. ]*$`)

// regex reads a regular expression between percent signs.
func (s *scanner) regex() (*regexp.Regexp, error) {
	end := strings.IndexByte(s.text[s.at+1:], '%')
	if end < 0 {
		return nil, invalid("unterminated regular expression in %q", s.rest())
	}
	text := s.text[s.at+1 : s.at+1+end]
	s.at += end + 2
	if text == "" || !allowed.MatchString(text) {
		return nil, invalid("unsupported regular expression %q", text)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return re, nil
}

// A comparison is an operator and the value to compare with.
type comparison struct {
	op     string
	text   string
	number *float64 // the text as a number, if it is one and has no quotes
	regex  *regexp.Regexp
}

var operators = []string{"!=", "<=", ">=", "=", "<", ">"}

// comparison reads an operator and its value. An unquoted value ends at a space or at one of the
// characters in stop.
func (s *scanner) comparison(stop string) (*comparison, error) {
	c := &comparison{}
	for _, op := range operators {
		if s.skip(op) {
			c.op = op
			break
		}
	}
	if c.op == "" {
		return nil, invalid("an operator is missing before %q", s.rest())
	}
	s.space()
	if s.done() {
		return nil, invalid("a value is missing after %q", c.op)
	}
	var err error
	switch s.peek() {
	case '"':
		c.text, err = s.quoted()
	case '%':
		c.regex, err = s.regex()
	default:
		c.text = s.while(func(b byte) bool { return !isSpace(b) && !strings.ContainsRune(stop, rune(b)) })
		if c.text == "" {
			err = invalid("a value is missing before %q", s.rest())
		}
		if n, ok := numeric(c.text); ok {
			c.number = &n
		}
	}
	if err != nil {
		return nil, err
	}
	if c.op != "=" && c.op != "!=" && c.number == nil {
		return nil, invalid("%s compares numbers, not %q", c.op, c.text)
	}
	return c, nil
}

func numeric(text string) (float64, bool) {
	if strings.Trim(text, "+-.0123456789eE") != "" {
		return 0, false // ParseFloat accepts more, such as hexadecimal numbers and Inf
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

// holds compares a text, which may be a number.
func (c *comparison) holds(value string) bool {
	equal := false
	switch n, isNumber := numeric(value); {
	case c.regex != nil:
		equal = c.regex.MatchString(value)
	case c.number != nil && isNumber:
		switch c.op {
		case "<":
			return n < *c.number
		case "<=":
			return n <= *c.number
		case ">":
			return n > *c.number
		case ">=":
			return n >= *c.number
		}
		equal = n == *c.number
	case c.op != "=" && c.op != "!=":
		return false
	default:
		g := glob.Parts(strings.Split(c.text, "*"))
		equal = g.Match(value)
	}
	return equal == (c.op == "=")
}
