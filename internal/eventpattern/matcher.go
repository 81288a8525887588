package eventpattern

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/glob"
)

// A matcher matches values of a field.
type matcher interface{ matches(value any) bool }

// A parser parses the value of a match expression.
type parser func(operator string, n node) (matcher, error)

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

func parseMatcher(n node) (matcher, error) {
	switch v := n.value.(type) {
	case object:
		if len(v) == 0 {
			return nil, invalidAt(n.end, "Match expression name not found")
		}
		parse := parserOf(v[0].name)
		if parse == nil {
			return nil, invalidAt(v[0].value.at, "Unrecognized match type %s", v[0].name)
		}
		m, err := parse(v[0].name, v[0].value)
		if err == nil && len(v) > 1 {
			err = onlyOne(v, v[0].name == "numeric")
		}
		return m, err
	case []node:
		return nil, invalidAt(n.at, "Match value must be String, number, true, false, or null")
	case json.Number:
		return newNumber(v), nil
	}
	return equal{n.value}, nil
}

// onlyOne refuses the second member of an expression.
func onlyOne(o object, numeric bool) error {
	if numeric {
		return invalidAt(o[1].value.at, "Too many elements in numeric expression")
	}
	return invalidAt(o[1].value.at, "Only one key allowed in match expression")
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

func parseExists(_ string, n node) (matcher, error) {
	b, ok := n.value.(bool)
	if !ok {
		return nil, invalidAt(n.at, "exists match pattern must be either true or false.")
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
func parseEnd(operator string, n node, has func(s, end string) bool) (matcher, error) {
	switch v := n.value.(type) {
	case string:
		return text(func(s string) bool { return has(s, v) }), nil
	case object:
		title := strings.ToUpper(operator[:1]) + operator[1:]
		if len(v) == 0 {
			return nil, invalidAt(n.end, "%s expression name not found", title)
		}
		if v[0].name != "equals-ignore-case" {
			return nil, invalidAt(v[0].value.at, "Unsupported %s pattern: %s", operator, v[0].name)
		}
		s, err := parseString("equals-ignore-case", v[0].value)
		if err != nil {
			return nil, err
		}
		if len(v) > 1 {
			return nil, onlyOne(v, false)
		}
		end := fold(s)
		return text(func(s string) bool { return has(fold(s), end) }), nil
	}
	_, err := parseString(operator, n)
	return nil, err
}

func parseString(operator string, n node) (string, error) {
	s, ok := n.value.(string)
	if !ok {
		return "", invalidAt(n.at, "%s match pattern must be a string", operator)
	}
	return s, nil
}

func parsePrefix(operator string, n node) (matcher, error) {
	return parseEnd(operator, n, strings.HasPrefix)
}

func parseSuffix(operator string, n node) (matcher, error) {
	return parseEnd(operator, n, strings.HasSuffix)
}

func parseFold(operator string, n node) (matcher, error) {
	s, err := parseString(operator, n)
	want := fold(s)
	return text(func(s string) bool { return fold(s) == want }), err
}

// maxAlike is how many wildcards in a pattern may be followed by the same character. AWS rejects
// patterns that would make its matcher track many possibilities at once, but does not document
// the limit.
const maxAlike = 4

// parseWildcard parses a pattern in which an asterisk matches any sequence of characters, unless a
// backslash precedes it.
func parseWildcard(operator string, n node) (matcher, error) {
	s, err := parseString(operator, n)
	if err != nil {
		return nil, err
	}
	var parts []string
	var part []byte
	star, alike := false, map[byte]int{}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '*' && star:
			return nil, invalidAt(n.end, "Consecutive wildcard characters at pos %d", i)
		case c == '*':
			parts, part, star = append(parts, string(part)), nil, true
			continue
		case c == '\\':
			if i++; i == len(s) || s[i] != '*' && s[i] != '\\' {
				return nil, invalidAt(n.end, "Invalid escape character at pos %d", i-1)
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

func parseAnythingBut(_ string, n node) (matcher, error) {
	operator, notText := "", "Inside anything but list, start|null|boolean is not supported."
	o, nested := n.value.(object)
	if nested {
		if len(o) == 0 {
			return nil, invalidAt(n.end, "Anything-But expression name not found")
		}
		operator, n = o[0].name, o[0].value
		switch operator {
		case "prefix", "suffix":
			notText = "prefix/suffix match pattern must be a string"
		case "equals-ignore-case":
			notText = "Inside anything-but/equals-ignore-case list, number|start|null|boolean is not supported."
		case "wildcard":
			notText = "wildcard match pattern must be a string"
		default:
			return nil, invalidAt(n.at, "Unsupported anything-but pattern: %s", operator)
		}
	}
	list, isList := n.value.([]node)
	switch n.value.(type) {
	case []node:
		if len(list) == 0 {
			return nil, invalidAt(n.end, "Empty arrays are not allowed")
		}
	case string, json.Number:
		list = []node{n}
	default:
		return nil, invalidAt(n.at, "Value of anything-but must be an array or single string/number value.")
	}
	var out anythingBut
	for _, e := range list {
		m, err := parseExcluded(operator, notText, e)
		if err != nil {
			if f, ok := errors.AsType[*fault](err); ok {
				f.twice = isList
			}
			return nil, err
		}
		out = append(out, m)
	}
	if nested && len(o) > 1 {
		return nil, onlyOne(o, false)
	}
	return out, nil
}

// parseExcluded parses a value that anything-but excludes, with the operator inside anything-but, if there is one.
func parseExcluded(operator, notText string, n node) (matcher, error) {
	s, isText := n.value.(string)
	number, isNumber := n.value.(json.Number)
	switch {
	case operator == "" && isText:
		return equal{s}, nil
	case operator == "" && isNumber:
		return newNumber(number), nil
	case !isText:
		return nil, invalidAt(n.at, "%s", notText)
	case s == "" && (operator == "prefix" || operator == "suffix"):
		return nil, invalidAt(n.end, "Null prefix/suffix not allowed")
	}
	return parserOf(operator)(operator, n)
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

// parseNumeric parses a list of an operator and a number, or two pairs of them that make a range.
func parseNumeric(_ string, n node) (matcher, error) {
	list, ok := n.value.([]node)
	if !ok {
		return nil, invalidAt(n.at, "Value of numeric must be an array.")
	}
	next := func(i int) node { // the element i, or the end of the list
		if i < len(list) {
			return list[i]
		}
		return node{list, n.end, n.end}
	}
	bound := func(i int, operator string) (float64, error) {
		e := next(i)
		v, ok := e.value.(json.Number)
		if f, err := v.Float64(); ok && err == nil {
			return f, nil
		}
		return 0, invalidAt(e.at, "Value of %s must be numeric", operator)
	}
	op, ok := next(0).value.(string)
	if !ok {
		return nil, invalidAt(next(0).at, "Invalid member in numeric match: %s", shown(next(0).value))
	}
	var m numeric
	name := op
	switch op {
	case "=":
		name = "equals"
	case "<", "<=", ">", ">=":
	default:
		return nil, invalidAt(next(1).at, "Unrecognized numeric range operator: %s", op)
	}
	f, err := bound(1, name)
	if err != nil {
		return nil, err
	}
	switch op {
	case "=":
		m = numeric{low: f, high: f, hasLow: true, hasHigh: true}
	case "<", "<=":
		m = numeric{high: f, hasHigh: true, openHigh: op == "<"}
	default:
		m = numeric{low: f, hasLow: true, openLow: op == ">"}
	}
	if len(list) == 2 {
		return m, nil
	}
	if m.hasHigh {
		return nil, invalidAt(list[2].at, "Too many elements in numeric expression")
	}
	op, ok = list[2].value.(string)
	if !ok {
		return nil, invalidAt(list[2].at, "Bad value in numeric range: %s", shown(list[2].value))
	}
	if op != "<" && op != "<=" {
		return nil, invalidAt(list[2].end, "Bad numeric range operator: %s", op)
	}
	if m.high, err = bound(3, op); err != nil {
		return nil, err
	}
	if len(list) > 4 {
		return nil, invalidAt(list[4].at, "Too many terms in numeric range expression")
	}
	m.hasHigh, m.openHigh = true, op == "<"
	if m.low >= m.high {
		return nil, invalidAt(n.end, "Bottom must be less than top")
	}
	return m, nil
}

// shown returns the text of a token as Jackson's getText does.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case object:
		return "{"
	case []node:
		if len(v) == 0 {
			return "]"
		}
		return "["
	default:
		return fmt.Sprint(v)
	}
}

func parseCIDR(_ string, n node) (matcher, error) {
	s, err := parseString("prefix", n) // AWS's own text
	if err != nil {
		return nil, err
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
