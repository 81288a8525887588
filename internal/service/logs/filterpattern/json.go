package filterpattern

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// maxDepth is how deeply parentheses in a condition can be nested.
const maxDepth = 64

// A condition is a condition on a JSON document.
type condition interface {
	holds(doc any) bool
	// selectors calls fn for each selector of the condition.
	selectors(fn func(*selector))
}

type object struct{ condition }

func parseJSON(text string) (matcher, error) {
	s := &scanner{text: text, at: 1}
	c, err := s.or(0)
	if err != nil {
		return nil, err
	}
	if !s.skip("}") || !s.done() {
		return nil, invalid("unexpected %q", s.rest())
	}
	return object{c}, nil
}

func (o object) match(message string) (map[string]string, bool) {
	d := json.NewDecoder(strings.NewReader(message))
	d.UseNumber()
	var doc any
	if d.Decode(&doc) != nil || d.More() || !o.holds(doc) {
		return nil, false
	}
	values := map[string]string{}
	o.selectors(func(sel *selector) {
		if found := sel.find(doc); len(found) > 0 {
			values[sel.text] = shown(found[0])
		}
	})
	return values, true
}

// shown formats a JSON value as text: a string without its quotes.
func shown(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return ""
	}
	return strings.TrimSpace(b.String())
}

type either []condition

func (e either) holds(doc any) bool {
	for _, c := range e {
		if c.holds(doc) {
			return true
		}
	}
	return false
}

func (e either) selectors(fn func(*selector)) {
	for _, c := range e {
		c.selectors(fn)
	}
}

type both []condition

func (b both) holds(doc any) bool {
	for _, c := range b {
		if !c.holds(doc) {
			return false
		}
	}
	return true
}

func (b both) selectors(fn func(*selector)) { either(b).selectors(fn) }

func (s *scanner) or(depth int) (condition, error) {
	var out either
	for {
		c, err := s.and(depth)
		if err != nil {
			return nil, err
		}
		if out = append(out, c); !s.skip("||") {
			return out, nil
		}
	}
}

func (s *scanner) and(depth int) (condition, error) {
	var out both
	for {
		c, err := s.single(depth)
		if err != nil {
			return nil, err
		}
		if out = append(out, c); !s.skip("&&") {
			return out, nil
		}
	}
}

func (s *scanner) single(depth int) (condition, error) {
	if depth > maxDepth {
		return nil, invalid("parentheses are nested too deeply")
	}
	if s.skip("(") {
		c, err := s.or(depth + 1)
		if err != nil {
			return nil, err
		}
		if !s.skip(")") {
			return nil, invalid("a closing parenthesis is missing before %q", s.rest())
		}
		return c, nil
	}
	sel, err := s.selector()
	if err != nil {
		return nil, err
	}
	switch {
	case s.skipWord("IS"):
		for word, want := range map[string]any{"NULL": nil, "TRUE": true, "FALSE": false} {
			if s.skipWord(word) {
				return is{sel, want}, nil
			}
		}
		return nil, invalid("want NULL, TRUE or FALSE after IS, not %q", s.rest())
	case s.skipWord("NOT"):
		if !s.skipWord("EXISTS") {
			return nil, invalid("want EXISTS after NOT, not %q", s.rest())
		}
		return missing{sel}, nil
	}
	c, err := s.comparison("&|)}")
	if err != nil {
		return nil, err
	}
	return compared{sel, c}, nil
}

// A selector selects values of a document: $.users[0].name, $.users[*].name.
type selector struct {
	text  string
	steps []step
}

type step struct {
	name  string
	index int // index in an array, or everyElement
	array bool
}

const everyElement = -1

func (s *scanner) selector() (*selector, error) {
	s.space()
	from := s.at
	if !s.skip("$") {
		return nil, invalid("want a selector such as $.name, not %q", s.rest())
	}
	sel := &selector{}
	for !s.done() {
		switch s.peek() {
		case '.':
			s.at++
			name := s.while(func(c byte) bool { return isWord(c) || c == '-' || c == '*' })
			if name == "" {
				return nil, invalid("a name is missing before %q", s.rest())
			}
			sel.steps = append(sel.steps, step{name: name})
			continue
		case '[':
			s.at++
			inside := s.while(func(c byte) bool { return c != ']' })
			if s.done() {
				return nil, invalid("a closing bracket is missing")
			}
			s.at++
			st := step{array: true, index: everyElement}
			if inside != "*" {
				n, err := strconv.ParseUint(inside, 10, 31)
				if err != nil {
					return nil, invalid("%q is not an index of an array", inside)
				}
				st.index = int(n)
			}
			sel.steps = append(sel.steps, st)
			continue
		}
		break
	}
	if len(sel.steps) == 0 {
		return nil, invalid("a selector names no property")
	}
	sel.text = s.text[from:s.at]
	return sel, nil
}

// find returns the values that a selector selects.
func (sel *selector) find(doc any) []any {
	at := []any{doc}
	for _, st := range sel.steps {
		var next []any
		for _, v := range at {
			switch v := v.(type) {
			case map[string]any:
				if value, ok := v[st.name]; ok && !st.array {
					next = append(next, value)
				} else if st.name == "*" {
					for _, value := range v {
						next = append(next, value)
					}
				}
			case []any:
				switch {
				case !st.array && st.name != "*":
				case st.index == everyElement || !st.array:
					next = append(next, v...)
				case st.index < len(v):
					next = append(next, v[st.index])
				}
			}
		}
		at = next
	}
	return at
}

type is struct {
	*selector
	want any
}

func (c is) holds(doc any) bool {
	for _, v := range c.find(doc) {
		if v == c.want {
			return true
		}
	}
	return false
}

func (c is) selectors(fn func(*selector)) { fn(c.selector) }

type missing struct{ *selector }

func (c missing) holds(doc any) bool           { return len(c.find(doc)) == 0 }
func (c missing) selectors(fn func(*selector)) { fn(c.selector) }

type compared struct {
	*selector
	c *comparison
}

func (c compared) holds(doc any) bool {
	for _, v := range c.find(doc) {
		switch v := v.(type) {
		case string:
			if c.c.holdsText(v) {
				return true
			}
		case json.Number:
			if c.c.holds(v.String()) {
				return true
			}
		case bool:
			if c.c.holds(strconv.FormatBool(v)) {
				return true
			}
		case nil:
		default: // objects and arrays exist but have no value
			if c.c.op == "=" && c.c.text == "*" {
				return true
			}
		}
	}
	return false
}

func (c compared) selectors(fn func(*selector)) { fn(c.selector) }

// holdsText compares a JSON string, which is not a number even if it looks like one.
func (c *comparison) holdsText(value string) bool {
	text := *c
	text.number = nil
	return text.holds(value)
}
