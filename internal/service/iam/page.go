package iam

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// A page is a part of a list, with the members of every List output.
type page[T any] struct {
	items     []T
	truncated bool
	marker    *string
}

// paginate cuts out the items after marker. The items are sorted by key, which
// is unique; the marker holds the key of the last item answered, so that items
// made or deleted in between neither repeat nor hide others.
func paginate[T any](items []T, key func(T) string, marker *string, maxItems *int32) (page[T], error) {
	var c checks
	c.between("maxItems", maxItems, 1, 1000)
	if err := c.err(); err != nil {
		return page[T]{}, err
	}
	if marker != nil {
		last, err := base64.RawURLEncoding.DecodeString(*marker)
		if err != nil {
			return page[T]{}, invalidMarker()
		}
		for len(items) > 0 && key(items[0]) <= string(last) {
			items = items[1:]
		}
	}
	if items == nil {
		items = []T{} // IAM answers empty lists, not absent ones
	}
	most := 100
	if maxItems != nil {
		most = int(*maxItems)
	}
	if len(items) <= most {
		return page[T]{items: items}, nil
	}
	items = items[:most]
	next := base64.RawURLEncoding.EncodeToString([]byte(key(items[most-1])))
	return page[T]{items: items, truncated: true, marker: &next}, nil
}

func hasPathPrefix(path string, prefix *string) bool {
	return prefix == nil || strings.HasPrefix(path, *prefix)
}

// pageTags pages through tags, which are listed by key.
func pageTags(tags []tag, marker *string, maxItems *int32) (page[iamtypes.Tag], error) {
	sorted := slices.SortedFunc(slices.Values(tags), func(a, b tag) int { return cmp.Compare(a.Key, b.Key) })
	return paginate(outTags(sorted), func(t iamtypes.Tag) string { return *t.Key }, marker, maxItems)
}
