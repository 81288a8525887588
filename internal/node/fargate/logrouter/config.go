package logrouter

import (
	"fmt"
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
