package iam

import (
	"cmp"
	"context"
	"slices"
	"strings"

	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// A page is one page of a list, with the members of every List output.
type page[T any] struct {
	items     []T
	truncated bool
	marker    *string
}

var pages = paging.Rules{Usual: 100, BadToken: func(string) error { return invalidMarker() }}

// paginate returns the items after marker. Items are sorted by key, which must be unique.
func paginate[T any](items []T, key func(T) string, marker *string, maxItems *int32) (page[T], error) {
	items, next, err := paging.Cut(pages, items, key, maxItems, marker)
	if items == nil {
		items = []T{} // IAM returns empty lists rather than leaving them out
	}
	return page[T]{items: items, truncated: next != nil, marker: next}, err
}

// wants has the members that most List operations accept.
type wants struct {
	prefix, marker *string
	most           *int32
}

// A pathed record can be selected by a path prefix.
type pathed[T any] interface {
	*T
	path() string
}

// pageOf returns a page of the records of the caller's account that match keep. If keep is nil, all
// match.
func pageOf[T any, P pathed[T]](ctx context.Context, s *Service, records store.Collection[T], want wants, keep func(*T) bool) (page[store.Item[T]], error) {
	items := records.All(s.store, within(awsapi.CallFrom(ctx).Account))
	items = slices.DeleteFunc(items, func(i store.Item[T]) bool {
		return !hasPathPrefix(P(&i.Value).path(), want.prefix) || keep != nil && !keep(&i.Value)
	})
	return paginate(items, func(i store.Item[T]) string { return i.Key.ID }, want.marker, want.most)
}

// list is pageOf with the records converted by out.
func list[T, Out any, P pathed[T]](ctx context.Context, s *Service, records store.Collection[T], want wants, keep func(*T) bool, out func(account string, v *T) *Out) (page[Out], error) {
	p, err := pageOf[T, P](ctx, s, records, want, keep)
	if err != nil {
		return page[Out]{}, err
	}
	shown := page[Out]{items: make([]Out, 0, len(p.items)), truncated: p.truncated, marker: p.marker}
	for i := range p.items {
		shown.items = append(shown.items, *out(awsapi.CallFrom(ctx).Account, &p.items[i].Value))
	}
	return shown, nil
}

func hasPathPrefix(path string, prefix *string) bool {
	return prefix == nil || strings.HasPrefix(path, *prefix)
}

// pageTags returns a page of tags, sorted by key.
func pageTags(tags []tag, marker *string, maxItems *int32) (page[iamtypes.Tag], error) {
	sorted := slices.SortedFunc(slices.Values(tags), func(a, b tag) int { return cmp.Compare(a.Key, b.Key) })
	return paginate(outTags(sorted), func(t iamtypes.Tag) string { return *t.Key }, marker, maxItems)
}
