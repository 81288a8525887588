package eventpattern

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/glob"
)

// A matcher matches values of a field.
type matcher interface{ matches(value any) bool }

// A parser parses the value of a match expression.
type parser func(operator string, v any) (matcher, error)

// parserOf returns the parser of an operator's values, or nil if there is no such operator.
func parserOf(operator string) parser {
	switch operator {
	case "prefix":
		return parsePrefix
	case "suffix":
		return parseSuffix
	case "equals-ignore-case":
		return parseFold
	case "wildcard":
		return parseWildcard
	case "anything-but":
		return parseAnythingBut
	case "numeric":
		return parseNumeric
	case "exists":
		return parseExists
	case "cidr":
		return parseCIDR
	}
	return nil
}

func parseMatcher(v any) (matcher, error) {
	switch v := v.(type) {
	case object:
		if len(v) != 1 {
			return nil, invalid("Only one key allowed in match expression")
		}
		parse := parserOf(v[0].name)
		if parse == nil {
			return nil, invalid("Unrecognized match type %s", v[0].name)
		}
		return parse(v[0].name, v[0].value)
	case []any:
		return nil, invalid("Match value must be String, number, true, false, or null")
	case json.Number:
		return newNumber(v), nil
	}
	return equal{v}, nil
}

// equal matches a string, a boolean or null.
type equal struct{ value any }

func (m equal) matches(v any) bool { return v == m.value }

// number matches a number by its value: 300 is equal to 300.0.
type number struct {
	text  string
	value float64
	ok    bool
}

func newNumber(n json.Number) number {
	f, err := n.Float64()
	return number{n.String(), f, err == nil}
}

func (m number) matches(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	other := newNumber(n)
	return other.text == m.text || m.ok && other.ok && other.value == m.value
}

type exists bool

func (m exists) matches(any) bool { return bool(m) }

func parseExists(_ string, v any) (matcher, error) {
	b, ok := v.(bool)
	if !ok {
		return nil, invalid("exists match pattern must be either true or false.")
	}
	return exists(b), nil
}

// A text matches strings.
type text func(string) bool

func (m text) matches(v any) bool {
	s, ok := v.(string)
	return ok && m(s)
}

func fold(s string) string { return strings.ToLower(s) }

// parseEnd parses the value of prefix or suffix: a string, or an object with equals-ignore-case.
func parseEnd(operator string, v any, has func(s, end string) bool) (matcher, error) {
	if o, ok := v.(object); ok && len(o) == 1 && o[0].name == "equals-ignore-case" {
		s, ok := o[0].value.(string)
		if !ok {
			return nil, invalid("equals-ignore-case match pattern must be a string")
		}
		end := fold(s)
		return text(func(s string) bool { return has(fold(s), end) }), nil
	}
	end, ok := v.(string)
	if !ok {
		return nil, invalid("%s match pattern must be a string", operator)
	}
	return text(func(s string) bool { return has(s, end) }), nil
}

func parsePrefix(operator string, v any) (matcher, error) {
	return parseEnd(operator, v, strings.HasPrefix)
}

func parseSuffix(operator string, v any) (matcher, error) {
	return parseEnd(operator, v, strings.HasSuffix)
}

func parseFold(operator string, v any) (matcher, error) {
	want, ok := v.(string)
	if !ok {
		return nil, invalid("%s match pattern must be a string", operator)
	}
	want = fold(want)
	return text(func(s string) bool { return fold(s) == want }), nil
}

// maxAlike is how many wildcards in a pattern may be followed by the same character. AWS rejects
// patterns that would make its matcher track many possibilities at once, but does not document
// the limit.
const maxAlike = 4

// parseWildcard parses a pattern in which an asterisk matches any sequence of characters, unless a
// backslash precedes it.
func parseWildcard(_ string, v any) (matcher, error) {
	s, ok := v.(string)
	if !ok {
		return nil, invalid("wildcard match pattern must be a string")
	}
	var parts []string
	var part []byte
	star, alike := false, map[byte]int{}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '*' && star:
			return nil, invalid("Consecutive wildcard characters at pos %d", i)
		case c == '*':
			parts, part, star = append(parts, string(part)), nil, true
			continue
		case c == '\\':
			if i++; i == len(s) || s[i] != '*' && s[i] != '\\' {
				return nil, invalid("Invalid escape character at pos %d", i-1)
			}
			c = s[i]
		}
		if star {
			if alike[c]++; alike[c] > maxAlike {
				return nil, invalid("Rule is too complex - try using fewer wildcard characters or fewer repeating character sequences after a wildcard character")
			}
		}
		star = false
		part = append(part, c)
	}
	parts = append(parts, string(part))
	g := glob.Parts(parts)
	return text(g.Match), nil
}

// anythingBut matches every value, including null, that none of its matchers matches.
type anythingBut []matcher

func (m anythingBut) matches(v any) bool {
	for _, x := range m {
		if x.matches(v) {
			return false
		}
	}
	return true
}

func parseAnythingBut(_ string, v any) (matcher, error) {
	const badValue = "Value of anything-but must be an array or single string/number value."
	o, nested := v.(object)
	if !nested {
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		if len(list) == 0 {
			return nil, invalid("Empty arrays are not allowed")
		}
		var out anythingBut
		for _, v := range list {
			switch v := v.(type) {
			case string:
				out = append(out, equal{v})
			case json.Number:
				out = append(out, newNumber(v))
			default:
				if !isList {
					return nil, invalid(badValue)
				}
				return nil, invalid("Inside anything but list, start|null|boolean is not supported.")
			}
		}
		return out, nil
	}
	if len(o) != 1 {
		return nil, invalid("Only one key allowed in match expression")
	}
	operator := o[0].name
	var notText string
	switch operator {
	case "prefix", "suffix":
		notText = "prefix/suffix match pattern must be a string"
	case "equals-ignore-case":
		notText = "Inside anything-but/equals-ignore-case list, number|start|null|boolean is not supported."
	case "wildcard":
		notText = "wildcard match pattern must be a string"
	default:
		return nil, invalid("Unsupported anything-but pattern: %s", operator)
	}
	list, isList := o[0].value.([]any)
	if !isList {
		list = []any{o[0].value}
	}
	if len(list) == 0 {
		return nil, invalid("Empty arrays are not allowed")
	}
	var out anythingBut
	for _, v := range list {
		s, ok := v.(string)
		switch {
		case !ok && !isList && isObject(v):
			return nil, invalid(badValue)
		case !ok:
			return nil, invalid("%s", notText)
		case s == "" && (operator == "prefix" || operator == "suffix"):
			return nil, invalid("Null prefix/suffix not allowed")
		}
		m, err := parserOf(operator)(operator, s)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func isObject(v any) bool {
	_, ok := v.(object)
	return ok
}

// numeric matches a range of numbers, or one number.
type numeric struct {
	low, high         float64
	hasLow, hasHigh   bool
	openLow, openHigh bool
}

func (m numeric) matches(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	f, err := n.Float64()
	return err == nil &&
		(!m.hasLow || f > m.low || f == m.low && !m.openLow) &&
		(!m.hasHigh || f < m.high || f == m.high && !m.openHigh)
}

func parseNumeric(_ string, v any) (matcher, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, invalid("Value of numeric must be an array.")
	}
	var m numeric
	for i := 0; i < len(list); i += 2 {
		op, ok := list[i].(string)
		if !ok {
			return nil, invalid("Invalid member in numeric match: %v", list[i])
		}
		var n json.Number
		if i+1 < len(list) {
			n, ok = list[i+1].(json.Number)
		}
		if i+1 == len(list) || !ok {
			return nil, invalid("Value of %s must be numeric", op)
		}
		f, err := n.Float64()
		if err != nil {
			return nil, invalid("Value of %s must be numeric", op)
		}
		switch {
		case op == "=" && i == 0 && len(list) == 2:
			return numeric{low: f, high: f, hasLow: true, hasHigh: true}, nil
		case (op == ">" || op == ">=") && i == 0:
			m.low, m.hasLow, m.openLow = f, true, op == ">"
		case (op == "<" || op == "<=") && !m.hasHigh:
			m.high, m.hasHigh, m.openHigh = f, true, op == "<"
			if len(list) > i+2 {
				return nil, invalid("Too many terms in numeric range expression")
			}
			if m.hasLow && m.low >= m.high {
				return nil, invalid("Bottom must be less than top")
			}
		case op == "=" || op == ">" || op == ">=" || op == "<" || op == "<=":
			return nil, invalid("Bad numeric range operator: %s", op)
		default:
			return nil, invalid("Unrecognized numeric range operator: %s", op)
		}
	}
	if !m.hasLow && !m.hasHigh {
		return nil, invalid("Invalid member in numeric match: ]")
	}
	return m, nil
}

func parseCIDR(_ string, v any) (matcher, error) {
	s, ok := v.(string)
	if !ok {
		return nil, invalid("prefix match pattern must be a string") // AWS's own text
	}
	address, mask, ok := strings.Cut(s, "/")
	if !ok || strings.Contains(mask, "/") {
		return nil, invalid("Malformed CIDR, one '/' required")
	}
	bits, err := strconv.Atoi(mask)
	if err != nil {
		return nil, invalid("Malformed CIDR, mask bits must be an integer")
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil, invalid("Nonstandard IP address: %s", address)
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return nil, invalid("Malformed CIDR, mask bits must not exceed %d", ip.BitLen())
	}
	return text(func(s string) bool {
		ip, err := netip.ParseAddr(s)
		return err == nil && p.Contains(ip)
	}), nil
}
