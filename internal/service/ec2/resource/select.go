package resource

import (
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/store"
)

// Get returns the resource id, refused with kind's errors when it is malformed
// or not there.
func Get[T any](r store.Reader, c store.Collection[T], sc Scope, kind IDKind, id string) (T, error) {
	if err := kind.Check(id); err != nil {
		var zero T
		return zero, err
	}
	v, err := c.Get(r, sc.Key(id))
	if NotFound(err) {
		return v, kind.NotFound(id)
	}
	return v, err
}

// Choose returns the resources named by ids, or all if there are none, that
// match, in the order of their IDs.
func Choose[T any](r store.Reader, c store.Collection[T], sc Scope, kind IDKind, ids []string, match func(T) bool) ([]T, error) {
	var out []T
	if len(ids) == 0 {
		items, err := c.List(r, sc.All())
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
	for _, id := range SortedUnique(ids) {
		v, err := Get(r, c, sc, kind, id)
		switch {
		case err == nil && match(v):
			out = append(out, v)
		case err == nil:
		case kind.Check(id) == nil && ec2err.HasCode(err, kind.NotFoundCode):
			missing = append(missing, id)
		default:
			return nil, err
		}
	}
	if len(missing) > 0 {
		return nil, kind.NotFound(missing...)
	}
	return out, nil
}

// List returns all of the scope that match.
func List[T any](r store.Reader, c store.Collection[T], sc Scope, match func(T) bool) ([]T, error) {
	return Choose(r, c, sc, IDKind{}, nil, match)
}

// Exists reports whether any resource of the scope matches.
func Exists[T any](r store.Reader, c store.Collection[T], sc Scope, match func(T) bool) (bool, error) {
	found, err := List(r, c, sc, match)
	return len(found) > 0, err
}
