package awscli

import (
	"fmt"
	"strings"
)

// shorthand reads Name=tag:x,Values=a,b and a={b=c,d=[e,f]}.
// https://docs.aws.amazon.com/cli/latest/userguide/cli-usage-shorthand.html
type shorthand struct {
	text  string
	at    int
	depth int
}

func parseShorthand(text string) (any, error) {
	p := &shorthand{text: text}
	v, err := p.object(0)
	if err == nil && p.at < len(text) {
		err = p.fail(",")
	}
	return v, err
}

func (p *shorthand) fail(expected string) error {
	received := "EOF"
	if p.at < len(p.text) {
		received = p.text[p.at : p.at+1]
	}
	return fmt.Errorf("Expected: '%s', received: '%s' for input:\n%s\n%s^", expected, received, p.text, strings.Repeat(" ", p.at)) //nolint:staticcheck // the CLI's text
}

func (p *shorthand) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// object reads k=v,… up to end, or up to the end of the text if end is 0.
func (p *shorthand) object(end byte) (map[string]any, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("it is nested too deeply")
	}
	defer func() { p.depth-- }()
	out := map[string]any{}
	for p.at < len(p.text) && p.peek() != end {
		from := p.at
		for p.at < len(p.text) && !strings.ContainsRune("=,{}[]", rune(p.peek())) {
			p.at++
		}
		key := strings.TrimSpace(p.text[from:p.at])
		if p.peek() != '=' || key == "" {
			return nil, p.fail("=")
		}
		p.at++
		v, err := p.value(end)
		if err != nil {
			return nil, err
		}
		out[key] = v
		if p.peek() != ',' {
			break
		}
		p.at++
	}
	return out, nil
}

// value reads a text, a list of texts without brackets, or a bracketed value.
func (p *shorthand) value(end byte) (any, error) {
	v, err := p.single(end)
	if err != nil {
		return nil, err
	}
	if _, ok := v.(string); !ok {
		return v, nil
	}
	// Texts that follow without a key belong to this one.
	list := []any{v}
	for p.peek() == ',' {
		saved := p.at
		p.at++
		next, err := p.single(end)
		if _, ok := next.(string); err != nil || !ok || p.peek() == '=' || next == "" {
			p.at = saved
			break
		}
		list = append(list, next)
	}
	if len(list) == 1 {
		return v, nil
	}
	return list, nil
}

func (p *shorthand) single(end byte) (any, error) {
	switch c := p.peek(); c {
	case '{':
		p.at++
		v, err := p.object('}')
		if err == nil && p.peek() != '}' {
			err = p.fail("}")
		}
		p.at++
		return v, err
	case '[':
		p.at++
		list := []any{}
		for p.peek() != ']' {
			if p.at >= len(p.text) || p.depth > maxDepth {
				return nil, p.fail("]")
			}
			p.depth++
			v, err := p.single(']')
			p.depth--
			if err != nil {
				return nil, err
			}
			list = append(list, v)
			if p.peek() == ',' {
				p.at++
			} else if p.peek() != ']' {
				return nil, p.fail("]")
			}
		}
		p.at++
		return list, nil
	case '"', '\'':
		p.at++
		var out strings.Builder
		for p.at < len(p.text) && p.peek() != c {
			if p.peek() == '\\' && p.at+1 < len(p.text) && (p.text[p.at+1] == c || p.text[p.at+1] == '\\') {
				p.at++
			}
			out.WriteByte(p.peek())
			p.at++
		}
		if p.at >= len(p.text) {
			return nil, p.fail(string(c))
		}
		p.at++
		return out.String(), nil
	}
	var out strings.Builder
	for p.at < len(p.text) {
		c := p.peek()
		switch {
		case c == '\\' && p.at+1 < len(p.text) && p.text[p.at+1] == ',':
			p.at++
			out.WriteByte(',')
			p.at++
			continue
		case c == ',' || c == end && end != 0 || c == '=' && p.keyed(out.String()):
			return strings.TrimSpace(out.String()), nil
		}
		out.WriteByte(c)
		p.at++
	}
	return strings.TrimSpace(out.String()), nil
}

// keyed reports whether the text before an equals sign, after a comma, is a key: a value may contain an equals sign.
func (p *shorthand) keyed(word string) bool {
	before := p.at - len(word) - 1
	return before >= 0 && p.text[before] == ',' && word != ""
}
