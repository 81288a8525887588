package resource

import (
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Query has the parameters that Describe calls share.
type Query struct {
	IDs []string
	// Exclusive is the name of the ID parameter if it cannot be combined with MaxResults.
	Exclusive  string
	Filters    []ec2types.Filter
	DryRun     *bool
	MaxResults *int32
	NextToken  *string
	Limits     Limits
	NoTags     bool // the call has no tag filters
}

// Describe returns the page of records that match a query and all keep functions, sorted by ID, and
// the token for the next page.
func Describe[T any](r store.Reader, sc Scope, k Kind[T], q Query, known filter.Fields[T], keep ...func(T) bool) ([]T, *string, error) {
	tags := k.tags
	if q.NoTags {
		tags = nil
	}
	match, err := filter.Compile(q.Filters, known, tags)
	if err != nil {
		return nil, nil, err
	}
	if err := CheckDryRun(q.DryRun); err != nil {
		return nil, nil, err
	}
	if q.Exclusive != "" {
		if err := CheckPageOfIDs(q.IDs, q.Exclusive, q.MaxResults); err != nil {
			return nil, nil, err
		}
	}
	found, err := Choose(r, k, sc, q.IDs, func(v T) bool {
		return !slices.ContainsFunc(keep, func(keep func(T) bool) bool { return !keep(v) }) && match(v)
	})
	if err != nil {
		return nil, nil, err
	}
	return Paginate(found, k.id, q.MaxResults, q.NextToken, q.Limits)
}

// Each returns a filter field with several values. Empty strings are left out.
func Each[T any, V any](of func(T) []V, text func(V) string) func(T) []string {
	return func(v T) []string {
		var out []string
		for _, x := range of(v) {
			if s := text(x); s != "" {
				out = append(out, s)
			}
		}
		return out
	}
}

// A Record can be converted to its SDK type.
type Record[T any] interface{ SDK(Scope) T }

// SDKAll converts records to their SDK type.
func SDKAll[R Record[T], T any](sc Scope, records []R) []T {
	return Map(records, func(r R) T { return r.SDK(sc) })
}

// Map applies of to each element. The result is never nil, because clients expect a list even if it
// is empty.
func Map[A, B any](in []A, of func(A) B) []B {
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = of(a)
	}
	return out
}
