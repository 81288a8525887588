package eventpattern

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A node is a decoded JSON value and the places where AWS's parser, Jackson, stands when it has read it.
type node struct {
	value any // object, []node, string, json.Number, bool or nil
	// at is the place when the value is the parser's current token: behind the first character of a string, an object or a list, and
	// behind other values. The parser reads ahead, so that this is also the place of a member's name.
	at int
	// end is the place behind the value.
	end int
}

// An object is a JSON object that preserves the order of its members.
type object []member

type member struct {
	name  string
	value node
}

// decode decodes JSON. Its errors are *Errors in Jackson's words.
// https://github.com/FasterXML/jackson-core/blob/2.15/src/main/java/com/fasterxml/jackson/core/json/ReaderBasedJsonParser.java
func decode(text string) (node, error) {
	s := scanner{text: text}
	n, err := s.value(0)
	if err != nil {
		return node{}, err
	}
	if s.space(); s.pos < len(text) {
		return node{}, invalid("unexpected text after the JSON value")
	}
	return n, nil
}

// source shows a text as Jackson does in error messages.
func source(text string) string {
	const most = 500
	if n := utf8.RuneCountInString(text); n > most {
		return fmt.Sprintf("(String)\"%s\"[truncated %d chars]", string([]rune(text)[:most]), n-most)
	}
	return "(String)\"" + text + "\""
}

// location describes a place in a text.
func location(text string, at int) string {
	before := strings.ReplaceAll(strings.ReplaceAll(text[:at], "\r\n", " \n"), "\r", "\n")
	line, start := 1+strings.Count(before, "\n"), 1+strings.LastIndexByte(before, '\n')
	column := 1
	for _, r := range before[start:] {
		column += max(1, utf16Len(r))
	}
	return fmt.Sprintf("[Source: %s; line: %d, column: %d]", source(text), line, column)
}

func utf16Len(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}

// A scanner reads JSON.
type scanner struct {
	text string
	pos  int
}

const values = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"

func (s *scanner) space() {
	for s.pos < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.pos]) >= 0 {
		s.pos++
	}
}

// peek returns the next character that is not a space, or false at the end.
func (s *scanner) peek() (rune, bool) {
	if s.space(); s.pos == len(s.text) {
		return 0, false
	}
	r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
	return r, true
}

// unexpected refuses the next character.
func (s *scanner) unexpected(want string) error {
	r, _ := s.peek()
	return invalidAt(s.pos, "Unexpected character ('%c' (code %d)): %s", r, r, want)
}

func (s *scanner) value(depth int) (node, error) {
	if depth > maxDepth {
		return node{}, invalidAt(s.pos, "the JSON value is nested too deeply")
	}
	r, ok := s.peek()
	if !ok {
		return node{}, invalidAt(s.pos, "Unexpected end-of-input")
	}
	switch {
	case r == '{':
		return s.object(depth)
	case r == '[':
		return s.list(depth)
	case r == '"':
		at := s.pos + 1
		v, err := s.string(": was expecting closing quote for a string value")
		return node{v, at, s.pos}, err
	case r == '-' || r >= '0' && r <= '9':
		return s.number()
	case r == '_' || r == '$' || unicode.IsLetter(r):
		word := s.text[s.pos:]
		if end := strings.IndexFunc(word, func(r rune) bool { return r != '_' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }); end >= 0 {
			word = word[:end]
		}
		s.pos += len(word)
		switch word {
		case "null":
			return node{nil, s.pos, s.pos}, nil
		case "true", "false":
			return node{word == "true", s.pos, s.pos}, nil
		}
		return node{}, invalidAt(s.pos, "Unrecognized token '%s': was expecting %s", word, values)
	}
	return node{}, s.unexpected("expected a valid value " + values)
}

// An end says that a list or an object that starts at a place is not closed.
func (s *scanner) unclosed(kind string, start int) error {
	return invalidAt(s.pos, "Unexpected end-of-input: expected close marker for %s (start marker at %s)", kind, location(s.text, start))
}

// next moves to the next element of a list or an object, and reports whether it is closed instead.
func (s *scanner) next(kind string, start int, first bool) (closed bool, err error) {
	closer, other := '}', ']'
	if kind == "Array" {
		closer, other = other, closer
	}
	r, ok := s.peek()
	switch {
	case !ok:
		return false, s.unclosed(kind, start)
	case r == closer:
		s.pos++
		return true, nil
	case r == other && (kind == "Object" || !first):
		return false, invalidAt(s.pos+1, "Unexpected close marker '%c': expected '%c' (for %s starting at %s)", other, closer, kind, location(s.text, start))
	case first:
		return false, nil
	case r != ',':
		return false, s.unexpected("was expecting comma to separate " + kind + " entries")
	}
	s.pos++
	if _, ok = s.peek(); !ok {
		return false, invalidAt(s.pos, "Unexpected end-of-input within/between %s entries", kind)
	}
	return false, nil
}

func (s *scanner) list(depth int) (node, error) {
	start := s.pos
	s.pos++
	out := []node{}
	for {
		closed, err := s.next("Array", start, len(out) == 0)
		if err != nil || closed {
			return node{out, start + 1, s.pos}, err
		}
		v, err := s.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		out = append(out, v)
	}
}

func (s *scanner) object(depth int) (node, error) {
	start := s.pos
	s.pos++
	out := object{}
	for {
		closed, err := s.next("Object", start, len(out) == 0)
		if err != nil || closed {
			return node{out, start + 1, s.pos}, err
		}
		if r, _ := s.peek(); r != '"' {
			return node{}, s.unexpected("was expecting double-quote to start field name")
		}
		name, err := s.string(" in field name")
		if err != nil {
			return node{}, err
		}
		switch r, ok := s.peek(); {
		case !ok:
			return node{}, invalidAt(s.pos, "Unexpected end-of-input within/between Object entries")
		case r != ':':
			return node{}, s.unexpected("was expecting a colon to separate field name and value")
		}
		s.pos++
		if _, ok := s.peek(); !ok {
			return node{}, invalidAt(s.pos, "Unexpected end-of-input within/between Object entries")
		}
		v, err := s.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		out = append(out, member{name, v})
	}
}

// string reads a string. what describes a missing end.
func (s *scanner) string(what string) (string, error) {
	start := s.pos
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			var out string
			if err := json.Unmarshal([]byte(s.text[start:s.pos]), &out); err != nil {
				return "", invalidAt(s.pos, "Unrecognized character escape")
			}
			return out, nil
		case c == '\\':
			s.pos++
		case c < ' ':
			return "", invalidAt(s.pos, "Illegal unquoted character ((CTRL-CHAR, code %d)): has to be escaped using backslash to be included in string value", c)
		}
	}
	s.pos = len(s.text)
	return "", invalidAt(s.pos, "Unexpected end-of-input%s", what)
}

func (s *scanner) number() (node, error) {
	start := s.pos
	for s.pos < len(s.text) && strings.IndexByte("+-.0123456789eE", s.text[s.pos]) >= 0 {
		s.pos++
	}
	n := s.text[start:s.pos]
	if !json.Valid([]byte(n)) {
		return node{}, invalidAt(s.pos, "Invalid numeric value: %s", strconv.Quote(n))
	}
	return node{json.Number(n), s.pos, s.pos}, nil
}
