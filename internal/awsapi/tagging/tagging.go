// Package tagging puts tags on the resources of services whose tags are maps from keys to
// values: what is the same for all (reserved keys, keys named twice, the most a resource
// may have) is checked here, and answered in each service's words. The lengths and forms
// of keys and values are in the API models.
package tagging

import (
	"maps"
	"strings"
)

// Rules are the limits of one service's tags, and what it answers to those beyond.
type Rules struct {
	Most     int // that a resource may have
	Reserved func(key string) error
	Twice    func(key string) error // nil: the last counts
	TooMany  func() error
}

// Put returns the tags of a resource that has old and is given more, of whatever type the
// service's SDK has for them. old stays as it is.
func Put[T any](r Rules, old map[string]string, more []T, split func(T) (key, value *string)) (map[string]string, error) {
	if len(more) == 0 {
		return old, nil
	}
	out, seen := maps.Clone(old), map[string]bool{}
	if out == nil {
		out = map[string]string{}
	}
	for _, t := range more {
		k, v := split(t)
		key, value := text(k), text(v)
		switch {
		case IsReserved(key):
			return nil, r.Reserved(key)
		case seen[key] && r.Twice != nil:
			return nil, r.Twice(key)
		}
		seen[key], out[key] = true, value
	}
	if len(out) > r.Most {
		return nil, r.TooMany()
	}
	return out, nil
}

// IsReserved reports whether only AWS itself may set tags of that key.
func IsReserved(key string) bool { return strings.HasPrefix(strings.ToLower(key), "aws:") }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
