package logrouter

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A section is a directive with its settings, in order. Keys are in lower case.
type section []setting

type setting struct{ key, value string }

// get returns the value of a setting, or the empty string.
func (s section) get(key string) string {
	if all := s.all(key); len(all) > 0 {
		return all[0]
	}
	return ""
}

// all returns the values of a setting that may be repeated.
func (s section) all(key string) []string {
	var out []string
	for _, x := range s {
		if x.key == key {
			out = append(out, x.value)
		}
	}
	return out
}

// only returns an error if there are settings other than these.
func (s section) only(known []string) error {
	for _, x := range s {
		if !slices.Contains(known, x.key) {
			return fmt.Errorf("the setting %s is not available in Drydock", x.key)
		}
	}
	return nil
}

// wants returns an error if a setting has another value than the only one that is available, which is its default.
func (s section) wants(key, value string) error {
	got := s.get(key)
	if got == "" || strings.EqualFold(got, value) {
		return nil
	}
	if value == "on" && isTrue(got) || value == "off" && isFalse(got) {
		return nil
	}
	return fmt.Errorf("the setting %s with the value %s is not available in Drydock", key, got)
}

// compile compiles an expression, which may be written as /EXPRESSION/ or /EXPRESSION/OPTIONS, as in Ruby. As in Fluent Bit, what
// ends in something else than its options, like /var/log, is an expression with slashes.
// https://docs.fluentbit.io/manual/data-pipeline/parsers/regular-expression
// https://github.com/fluent/fluent-bit/blob/master/src/flb_regex.c
func compile(expr string) (*regexp.Regexp, error) {
	if body, ok := strings.CutPrefix(expr, "/"); ok {
		if end := strings.LastIndexByte(body, '/'); end >= 0 && strings.Trim(body[end+1:], "imox") == "" {
			body, expr = body[end+1:], body[:end]
			if strings.Contains(body, "x") {
				return nil, errors.New("the option x is not available in Drydock")
			}
			if strings.Contains(body, "i") {
				expr = "(?i)" + expr
			}
			if strings.Contains(body, "m") { // dots match newlines, too
				expr = "(?s)" + expr
			}
		}
	}
	return regexp.Compile(expr)
}

// sections returns the directives of a text, whose form was checked by package fargate.
func sections(text string) []section {
	var out []section
	for line := range strings.Lines(text) {
		body := strings.TrimSpace(line)
		switch {
		case body == "" || strings.HasPrefix(body, "#"):
		case strings.HasPrefix(body, "["):
			out = append(out, section{})
		case len(out) > 0:
			key, value, _ := strings.Cut(strings.ReplaceAll(body, "\t", " "), " ")
			last := len(out) - 1
			out[last] = append(out[last], setting{strings.ToLower(key), strings.TrimSpace(value)})
		}
	}
	return out
}
