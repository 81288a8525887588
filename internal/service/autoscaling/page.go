package autoscaling

import (
	"slices"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// pages returns the paging rules of a list. The model has no limits for MaxRecords; zero means no
// limit.
func pages(usual, most int) paging.Rules {
	return paging.Rules{
		Usual: usual,
		Size: func(n int32) (int, error) { // https://github.com/boto/boto/issues/2619
			if n == 0 {
				return usual, nil
			}
			return int(n), awserr.Range("ValidationError", "maxRecords", n, 1, int32(most)) //nolint:gosec // a hundred
		},
		BadToken: func(string) error { return errNextToken() },
	}
}

// describe returns one page of matching records of a scope.
func describe[T any](r store.Reader, c store.Collection[T], where store.Scope, match func(T) bool, maxRecords *int32, token *string) ([]store.Item[T], *string, error) {
	all := c.All(r, where)
	all = slices.DeleteFunc(all, func(i store.Item[T]) bool { return !match(i.Value) })
	return paging.Cut(pages(50, 100), all, func(i store.Item[T]) string { return i.Key.ID }, maxRecords, token)
}

// values returns the records of items. It is never nil, because the API returns empty lists.
func values[T any](items []store.Item[T]) []T {
	out := make([]T, len(items))
	for i := range items {
		out[i] = items[i].Value
	}
	return out
}
