package autoscaling

import (
	"slices"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// pages returns the paging rules of a list. The limits of MaxRecords are not among the constraints, because zero, which
// is below the minimum, means no limit.
func pages(usual, most int) paging.Rules {
	return paging.Rules{
		Usual: usual,
		Size: func(n int32) (int, error) {
			const format = "1 validation error detected: Value '%d' at 'maxRecords' failed to satisfy constraint: Member must have value %s than or equal to %d"
			switch {
			case n == 0: // https://github.com/boto/boto/issues/2619
				return usual, nil
			case n < 1:
				return 0, errValidation(format, n, "greater", 1)
			case int(n) > most:
				return 0, errValidation(format, n, "less", most)
			}
			return int(n), nil
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
