// Package tagging puts tags on resources. It makes the checks that all services share (reserved keys, duplicate keys,
// the maximum number of tags) and reports errors in each service's own words. The API models define the lengths and
// forms of keys and values.
package tagging

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// Rules are the limits on one service's tags, and its errors for exceeding them.
type Rules struct {
	Most     int  // that a resource may have
	Folds    bool // treat keys that differ only in case as the same; for Merge
	Reserved func(key string) error
	Twice    func(key string) error // nil means that the last one counts
	TooMany  func() error
}

// Put returns a resource's old tags with more tags added, whatever the service's SDK type for them. It does not
// change old.
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

// Merge is Put for services that keep tags as lists. It returns old with the tags of more added, or replaced if the
// key is the same. It does not change old.
func Merge[T any](r Rules, old, more []T, keyOf func(T) string) ([]T, error) {
	out := slices.Clone(old)
	for n, t := range more {
		key := keyOf(t)
		same := func(o T) bool { return keyOf(o) == key || r.Folds && strings.EqualFold(keyOf(o), key) }
		switch {
		case IsReserved(key):
			return nil, r.Reserved(key)
		case r.Twice != nil && slices.ContainsFunc(more[:n], same):
			return nil, r.Twice(key)
		}
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = t
		} else {
			out = append(out, t)
		}
	}
	if len(out) > r.Most {
		return nil, r.TooMany()
	}
	return out, nil
}

// List returns tags sorted by key, in the service's SDK type. It never returns nil.
func List[T any](tags map[string]string, tag func(key, value *string) T) []T {
	out := make([]T, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, tag(&k, new(tags[k])))
	}
	return out
}

// IsReserved reports whether only AWS itself may set tags with that key.
func IsReserved(key string) bool { return strings.HasPrefix(strings.ToLower(key), "aws:") }

// MayReserve reports whether the caller may set a reserved tag: CloudFormation sets its own
// on the resources that it makes for a caller.
func MayReserve(ctx context.Context, key string) bool {
	return awsapi.CallFrom(ctx).By() == "cloudformation.amazonaws.com" && strings.HasPrefix(key, "aws:cloudformation:")
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
