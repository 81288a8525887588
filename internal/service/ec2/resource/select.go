package resource

import (
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Kind is the collection of one kind of resource, stored by ID.
type Kind[T any] struct {
	store.Collection[T]
	ID IDKind
	Of func(*T) (id string, tags *tag.Set)
}

// NewKind declares the collection of a kind of resource and its record migrations.
func NewKind[T any](typ string, id IDKind, of func(*T) (string, *tag.Set), migrations ...store.Migration) Kind[T] {
	return Kind[T]{store.NewCollection[T]("ec2", typ, migrations...), id, of}
}

func (k Kind[T]) id(v T) string    { id, _ := k.Of(&v); return id }
func (k Kind[T]) tags(v T) tag.Set { _, tags := k.Of(&v); return *tags }

// Records is the part of a collection that is needed to list it.
type Records[T any] interface {
	All(store.Reader, store.Scope) []store.Item[T]
}

// Get returns the resource with an ID. The errors for malformed and unknown IDs are those of its
// kind.
func Get[T any](r store.Reader, k Kind[T], sc Scope, id string) (T, error) {
	if err := k.ID.Check(id); err != nil {
		var zero T
		return zero, err
	}
	v, err := k.Get(r, sc.Key(id))
	if err != nil {
		return v, store.NotFoundAs(err, k.ID.NotFound(id))
	}
	return v, nil
}

// Choose returns the matching resources among ids, or all matching ones if ids is empty, sorted by
// ID.
func Choose[T any](r store.Reader, k Kind[T], sc Scope, ids []string, match func(T) bool) ([]T, error) {
	if len(ids) == 0 {
		return List(r, k, sc, match), nil
	}
	var out []T
	var missing []string
	for _, id := range SortedUnique(ids) {
		v, err := Get(r, k, sc, id)
		switch {
		case err == nil && match(v):
			out = append(out, v)
		case err == nil:
		case k.ID.Check(id) == nil && ec2err.HasCode(err, k.ID.NotFoundCode):
			missing = append(missing, id)
		default:
			return nil, err
		}
	}
	if len(missing) > 0 {
		return nil, k.ID.NotFound(missing...)
	}
	return out, nil
}

// All matches every resource.
func All[T any](T) bool { return true }

// List returns all matching resources of a scope.
func List[T any](r store.Reader, c Records[T], sc Scope, match func(T) bool) []T {
	var out []T
	for _, it := range c.All(r, sc.All()) {
		if match(it.Value) {
			out = append(out, it.Value)
		}
	}
	return out
}

// Count counts the matching resources of a scope.
func Count[T any](r store.Reader, c Records[T], sc Scope, match func(T) bool) int {
	return len(List(r, c, sc, match))
}

// Exists reports whether a resource of the scope matches.
func Exists[T any](r store.Reader, c Records[T], sc Scope, match func(T) bool) bool {
	return Count(r, c, sc, match) > 0
}
