package filterpattern

import (
	"strconv"
	"strings"
)

// fields is a pattern of space-separated fields.
type fields struct {
	before, after []field
	// ellipsis means that any number of fields may be between before and after.
	ellipsis bool
}

// A field is a field of a line, with alternatives of conditions that must all be met.
type field struct {
	name string
	any  [][]*comparison
}

func parseFields(text string) (matcher, error) {
	s := &scanner{text: text, at: 1}
	out := &fields{}
	if s.skip("]") {
		if !s.done() {
			return nil, invalid("unexpected %q", s.rest())
		}
		return &fields{ellipsis: true}, nil // [] matches everything
	}
	for {
		if s.skip("...") {
			if out.ellipsis {
				return nil, invalid("a pattern has at most one ellipsis")
			}
			out.ellipsis = true
		} else {
			f, err := s.field()
			if err != nil {
				return nil, err
			}
			if out.ellipsis {
				out.after = append(out.after, f)
			} else {
				out.before = append(out.before, f)
			}
		}
		if s.skip("]") {
			break
		}
		if !s.skip(",") {
			return nil, invalid("want a comma or a closing bracket, not %q", s.rest())
		}
	}
	if s.space(); !s.done() {
		return nil, invalid("unexpected %q", s.rest())
	}
	return out, nil
}

func (s *scanner) field() (field, error) {
	s.space()
	f := field{name: s.while(func(c byte) bool { return isWord(c) || c == '-' || c == '.' })}
	s.space()
	if s.done() || s.peek() == ',' || s.peek() == ']' {
		return f, nil
	}
	all := []*comparison{}
	for {
		c, err := s.comparison(",]&|")
		if err != nil {
			return f, err
		}
		all = append(all, c)
		and, or := s.skip("&&"), false
		if !and {
			or = s.skip("||")
		}
		if !and {
			f.any = append(f.any, all)
			all = nil
		}
		if !and && !or {
			return f, nil
		}
		s.space()
		if again := s.while(func(c byte) bool { return isWord(c) || c == '-' || c == '.' }); again != f.name {
			return f, invalid("the conditions of field %q name %q", f.name, again)
		}
	}
}

func (f *field) holds(value string) bool {
	for _, all := range f.any {
		good := true
		for _, c := range all {
			good = good && c.holds(value)
		}
		if good {
			return true
		}
	}
	return len(f.any) == 0
}

func (p *fields) match(message string) (map[string]string, bool) {
	values := split(message)
	n := len(p.before) + len(p.after)
	if len(values) < n || len(values) > n && !p.ellipsis {
		return nil, false
	}
	tail := len(values) - len(p.after)
	out := map[string]string{}
	for i, v := range values {
		var f field
		switch {
		case i < len(p.before):
			f = p.before[i]
		case i >= tail:
			f = p.after[i-tail]
		}
		if !f.holds(v) {
			return nil, false
		}
		name := f.name
		if name == "" {
			name = strconv.Itoa(i + 1)
		}
		out["$"+name] = v
	}
	return out, true
}

// split splits a line at spaces, except within quotes and brackets.
func split(line string) []string {
	var out []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " \t") {
		end := ""
		switch line[0] {
		case '"':
			end = `"`
		case '[':
			end = "]"
		}
		if i := strings.Index(line[1:], end); end != "" && i >= 0 {
			out = append(out, line[1:i+1])
			line = line[i+2:]
			continue
		}
		i := strings.IndexAny(line, " \t")
		if i < 0 {
			i = len(line)
		}
		out = append(out, line[:i])
		line = line[i:]
	}
	return out
}
