package ec2

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// A query is what Describe calls have in common.
type query struct {
	ids        []string
	filters    []ec2types.Filter
	dryRun     *bool
	maxResults *int32
	nextToken  *string
	lim        limits
}

// A kindOf is a kind of resource that can be described.
type kindOf[T any] struct {
	records store.Collection[T]
	id      idKind
	of      func(*T) (string, *Tags) // a record's ID and tags
}

// describe returns the page of records that a query asks for, sorted by ID, and
// the token of the next page.
func describe[T any](r store.Reader, sc scope, kind kindOf[T], q query, known fields[T]) ([]T, *string, error) {
	match, err := compileFilters(q.filters, known, func(v T) Tags { _, t := kind.of(&v); return *t })
	if err != nil {
		return nil, nil, err
	}
	if err := checkDryRun(q.dryRun); err != nil {
		return nil, nil, err
	}
	found, err := choose(r, kind.records, sc, kind.id, q.ids, match)
	if err != nil {
		return nil, nil, err
	}
	return paginate(found, func(v T) string { id, _ := kind.of(&v); return id }, q.maxResults, q.nextToken, q.lim)
}

// count counts the records of a scope that match.
func count[T any](r store.Reader, c store.Collection[T], sc scope, match func(T) bool) (int, error) {
	found, err := list(r, c, sc, match)
	return len(found), err
}

// each makes a field of a list; empty texts are no values.
func each[T any, V any](of func(T) []V, text func(V) string) func(T) []string {
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
