package ec2

import (
	"github.com/drydock-dev/drydock/internal/store"
)

// get returns the resource id, refused with kind's errors when it is malformed
// or not there.
func get[T any](r store.Reader, c store.Collection[T], sc scope, kind idKind, id string) (T, error) {
	if err := kind.check(id); err != nil {
		var zero T
		return zero, err
	}
	v, err := c.Get(r, sc.key(id))
	if notFound(err) {
		return v, kind.notFound(id)
	}
	return v, err
}

// choose returns the resources named by ids, or all if there are none, that
// match, in the order of their IDs.
func choose[T any](r store.Reader, c store.Collection[T], sc scope, kind idKind, ids []string, match func(T) bool) ([]T, error) {
	var out []T
	if len(ids) == 0 {
		items, err := c.List(r, sc.all())
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			if match(it.Value) {
				out = append(out, it.Value)
			}
		}
		return out, nil
	}
	var missing []string
	for _, id := range sortedUnique(ids) {
		v, err := get(r, c, sc, kind, id)
		switch {
		case err == nil && match(v):
			out = append(out, v)
		case err == nil:
		case kind.check(id) == nil && isCode(err, kind.notFoundCode):
			missing = append(missing, id)
		default:
			return nil, err
		}
	}
	if len(missing) > 0 {
		return nil, kind.notFound(missing...)
	}
	return out, nil
}

// list returns all of the scope that match.
func list[T any](r store.Reader, c store.Collection[T], sc scope, match func(T) bool) ([]T, error) {
	return choose(r, c, sc, idKind{}, nil, match)
}

// exists reports whether any resource of the scope matches.
func exists[T any](r store.Reader, c store.Collection[T], sc scope, match func(T) bool) (bool, error) {
	found, err := list(r, c, sc, match)
	return len(found) > 0, err
}
