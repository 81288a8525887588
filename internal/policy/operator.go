package policy

import (
	"encoding/base64"
	"math/big"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/glob"
)

// An operator is a condition operator without ForAllValues:, ForAnyValue: and
// IfExists.
type operator struct {
	name      string
	negated   bool // holds if no value matches
	null      bool // tests whether the key is present
	variables bool // the policy's values may contain variables
	// prepare returns a function that matches a value of the request against text, a value of the policy. literal, if
	// not nil, marks the bytes of text that are not wildcards.
	prepare func(text string, literal []bool) func(value string) bool
}

// operators are all condition operators. A value that is not of the type that the operator compares matches nothing.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
var operators = []operator{
	{name: "StringEquals", variables: true, prepare: equalTo},
	{name: "StringNotEquals", variables: true, prepare: equalTo, negated: true},
	{name: "StringEqualsIgnoreCase", variables: true, prepare: foldEqualTo},
	{name: "StringNotEqualsIgnoreCase", variables: true, prepare: foldEqualTo, negated: true},
	{name: "StringLike", variables: true, prepare: like},
	{name: "StringNotLike", variables: true, prepare: like, negated: true},
	{name: "NumericEquals", prepare: numeric(func(c int) bool { return c == 0 })},
	{name: "NumericNotEquals", prepare: numeric(func(c int) bool { return c == 0 }), negated: true},
	{name: "NumericLessThan", prepare: numeric(func(c int) bool { return c < 0 })},
	{name: "NumericLessThanEquals", prepare: numeric(func(c int) bool { return c <= 0 })},
	{name: "NumericGreaterThan", prepare: numeric(func(c int) bool { return c > 0 })},
	{name: "NumericGreaterThanEquals", prepare: numeric(func(c int) bool { return c >= 0 })},
	{name: "DateEquals", prepare: date(func(c int) bool { return c == 0 })},
	{name: "DateNotEquals", prepare: date(func(c int) bool { return c == 0 }), negated: true},
	{name: "DateLessThan", prepare: date(func(c int) bool { return c < 0 })},
	{name: "DateLessThanEquals", prepare: date(func(c int) bool { return c <= 0 })},
	{name: "DateGreaterThan", prepare: date(func(c int) bool { return c > 0 })},
	{name: "DateGreaterThanEquals", prepare: date(func(c int) bool { return c >= 0 })},
	{name: "Bool", variables: true, prepare: boolean},
	{name: "BinaryEquals", prepare: binary},
	{name: "IpAddress", prepare: inRange},
	{name: "NotIpAddress", prepare: inRange, negated: true},
	{name: "ArnEquals", variables: true, prepare: arnLike},
	{name: "ArnLike", variables: true, prepare: arnLike},
	{name: "ArnNotEquals", variables: true, prepare: arnLike, negated: true},
	{name: "ArnNotLike", variables: true, prepare: arnLike, negated: true},
	{name: "Null", null: true, prepare: never},
}

func never(string, []bool) func(string) bool { return func(string) bool { return false } }

func equalTo(text string, _ []bool) func(string) bool {
	return func(value string) bool { return value == text }
}

func foldEqualTo(text string, _ []bool) func(string) bool {
	return func(value string) bool { return strings.EqualFold(value, text) }
}

func like(text string, literal []bool) func(string) bool {
	g := glob.New(text, literal)
	return g.Match
}

// arnLike compares ARNs field by field. A text that is not an ARN does not match.
func arnLike(text string, literal []bool) func(string) bool {
	globs := arnGlobs(text, literal)
	return func(value string) bool {
		var f [6]string
		n := splitARN(value, &f)
		return matchFields(globs, &f, n)
	}
}

func boolean(text string, _ []bool) func(string) bool {
	if !strings.EqualFold(text, "true") && !strings.EqualFold(text, "false") {
		return never(text, nil)
	}
	return foldEqualTo(text, nil)
}

func binary(text string, _ []bool) func(string) bool {
	wanted, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return never(text, nil)
	}
	return func(value string) bool {
		b, err := base64.StdEncoding.DecodeString(value)
		return err == nil && string(b) == string(wanted)
	}
}

func inRange(text string, _ []bool) func(string) bool {
	r, err := parseRange(text)
	if err != nil {
		return never(text, nil)
	}
	return func(value string) bool {
		a, err := netip.ParseAddr(value)
		return err == nil && r.Contains(a.Unmap().WithZone(""))
	}
}

// parseRange parses a CIDR, or an address as a range that contains only that address.
func parseRange(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// numeric compares the request's number with the policy's. cmp gets the sign of their difference.
func numeric(holds func(sign int) bool) func(string, []bool) func(string) bool {
	return func(text string, _ []bool) func(string) bool {
		wanted, ok := parseNumber(text)
		if !ok {
			return never(text, nil)
		}
		return func(value string) bool {
			n, ok := parseNumber(value)
			return ok && holds(n.Cmp(wanted))
		}
	}
}

// maxNumber bounds a number's digits, so that comparing is cheap.
const maxNumber = 64

// parseNumber reads an integer or a decimal, exactly.
func parseNumber(s string) (*big.Rat, bool) {
	if len(s) > maxNumber || strings.Trim(s, "+-.0123456789") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

func date(holds func(sign int) bool) func(string, []bool) func(string) bool {
	return func(text string, _ []bool) func(string) bool {
		wanted, ok := parseDate(text)
		if !ok {
			return never(text, nil)
		}
		return func(value string) bool {
			t, ok := parseDate(value)
			return ok && holds(t.Compare(wanted))
		}
	}
}

// dateLayouts are W3C's profile of ISO 8601; Go accepts fractions of a second in any case.
// https://www.w3.org/TR/NOTE-datetime
var dateLayouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04",
	"2006-01-02", "2006-01", "2006",
}

// parseDate reads a date in W3C's format, in UTC if it names no zone, or as seconds since 1970. Four digits are a
// year.
func parseDate(s string) (time.Time, bool) {
	if len(s) > maxNumber {
		return time.Time{}, false
	}
	s = strings.ToUpper(s)
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return time.Unix(n, 0), err == nil && n > -1<<40 && n < 1<<40
}

// addTo and addSecond return a value next to the given one.
func addTo(n *big.Rat, d int64) string {
	sum := new(big.Rat).Add(n, big.NewRat(d, 1))
	digits, _ := sum.FloatPrec()
	return sum.FloatString(min(digits, maxNumber/2))
}

func addSecond(t time.Time, d int) string {
	return t.Add(time.Duration(d) * time.Second).UTC().Format(time.RFC3339)
}
