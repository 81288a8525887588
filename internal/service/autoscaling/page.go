package autoscaling

import (
	"encoding/base64"
	"slices"
	"sort"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
)

const tokenPrefix = "drydock/asg/"

func sealToken(last string) *string {
	return aws.String(base64.RawURLEncoding.EncodeToString([]byte(tokenPrefix + last)))
}

func openToken(t string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(t)
	last, ok := strings.CutPrefix(string(raw), tokenPrefix)
	if err != nil || !ok {
		return "", errNextToken()
	}
	return last, nil
}

func pageSize(maxRecords *int32, usual, most int) (int, error) {
	if aws.ToInt32(maxRecords) == 0 {
		return usual, nil
	}
	// https://github.com/boto/boto/issues/2619
	return int(*maxRecords), awserr.Range("ValidationError", "maxRecords", *maxRecords, 1, int32(most)) //nolint:gosec // a hundred
}

// page cuts one page out of records, which are sorted by key.
func page[T any](all []store.Item[T], maxRecords *int32, usual, most int, token *string) ([]store.Item[T], *string, error) {
	return pageBy(all, func(i store.Item[T]) string { return i.Key.ID }, maxRecords, usual, most, token)
}

// pageBy cuts one page out of items, which are sorted by id.
func pageBy[T any](all []T, id func(T) string, maxRecords *int32, usual, most int, token *string) ([]T, *string, error) {
	if t := aws.ToString(token); t != "" {
		last, err := openToken(t)
		if err != nil {
			return nil, nil, err
		}
		all = all[sort.Search(len(all), func(i int) bool { return id(all[i]) > last }):]
	}
	n, err := pageSize(maxRecords, usual, most)
	if err != nil {
		return nil, nil, err
	}
	if len(all) <= n {
		return all, nil, nil
	}
	return all[:n], sealToken(id(all[n-1])), nil
}

// describe returns one page of the records of a scope that match.
func describe[T any](r store.Reader, c store.Collection[T], where store.Scope, match func(T) bool, maxRecords *int32, token *string) ([]store.Item[T], *string, error) {
	all, err := c.List(r, where)
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(all, func(i store.Item[T]) bool { return !match(i.Value) })
	return page(all, maxRecords, 50, 100, token)
}

// values are the records of items, never nil: the API answers with empty lists.
func values[T any](items []store.Item[T]) []T {
	out := make([]T, len(items))
	for i := range items {
		out[i] = items[i].Value
	}
	return out
}
