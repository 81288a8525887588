package resource

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Query is what Describe calls have in common.
type Query struct {
	IDs []string
	// Exclusive is the parameter of the IDs if they exclude MaxResults.
	Exclusive  string
	Filters    []ec2types.Filter
	DryRun     *bool
	MaxResults *int32
	NextToken  *string
	Limits     Limits
}

// Describe returns the page of records that a query asks for, sorted by ID, and
// the token of the next page.
func Describe[T any](r store.Reader, sc Scope, k Kind[T], q Query, known filter.Fields[T]) ([]T, *string, error) {
	match, err := filter.Compile(q.Filters, known, k.tags)
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
	found, err := Choose(r, k, sc, q.IDs, match)
	if err != nil {
		return nil, nil, err
	}
	return Paginate(found, k.id, q.MaxResults, q.NextToken, q.Limits)
}

// Each makes a field of a list; empty texts are no values.
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

// A Record renders itself for the SDK.
type Record[T any] interface{ SDK(Scope) T }

// SDKAll renders records for the SDK.
func SDKAll[R Record[T], T any](sc Scope, records []R) []T {
	out := make([]T, len(records))
	for i, r := range records {
		out[i] = r.SDK(sc)
	}
	return out
}
