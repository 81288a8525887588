// Package paging cuts lists into pages for all services. A token identifies the last item of the previous page by its
// key, so that items created or deleted in between neither repeat nor hide others.
package paging

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sort"
	"strings"
)

// Rules say how a list is paged.
type Rules struct {
	// Usual is the size of a page if the request does not specify one. 0 means all items.
	Usual int
	// Size checks the page size of a request and returns the size to use. Nil accepts any size that the API model
	// allows.
	Size func(size int32) (int, error)
	// Question, if set, identifies the query that the list answers: tokens are valid only for the same query.
	Question string
	// BadToken returns the error for an invalid token.
	BadToken func(token string) error
}

// A Cursor is the position in a list where a page begins, and how many more items fit on it.
type Cursor struct {
	After string // the key of the last item of the previous page; empty for the first page

	rules Rules
	left  int
	last  string
	more  bool
}

// Start reads a request's size and token.
func (r Rules) Start(size *int32, token *string) (*Cursor, error) {
	c := &Cursor{rules: r, left: r.Usual}
	if r.Usual == 0 {
		c.left = math.MaxInt
	}
	if size != nil {
		c.left = int(*size)
		if r.Size != nil {
			var err error
			if c.left, err = r.Size(*size); err != nil {
				return nil, err
			}
		}
	}
	if token == nil || *token == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(*token)
	after, ours := strings.CutPrefix(string(raw), r.prefix())
	if err != nil || !ours || after == "" {
		return nil, r.BadToken(*token)
	}
	c.After = after
	return c, nil
}

// prefix distinguishes the tokens of this program, and of one question, from others.
func (r Rules) prefix() string {
	if r.Question == "" {
		return "drydock/"
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.Question)) // a hash never fails
	return fmt.Sprintf("drydock/%016x/", h.Sum64())
}

// Full reports whether the page is full. If so, it records that there are more items.
func (c *Cursor) Full() bool {
	c.more = c.left == 0
	return c.more
}

// Stop ends the page early, before another item that would still fit.
func (c *Cursor) Stop() { c.more = true }

// Add records that the item with that key is on the page.
func (c *Cursor) Add(key string) { c.left, c.last = c.left-1, key }

// Next returns the token of the next page, or nil after the last page.
func (c *Cursor) Next() *string {
	if !c.more {
		return nil
	}
	token := base64.RawURLEncoding.EncodeToString([]byte(c.rules.prefix() + c.last))
	return &token
}

// Cut returns the requested page of a list that is sorted by key, and the token of the next page.
func Cut[T any](r Rules, all []T, key func(T) string, size *int32, token *string) ([]T, *string, error) {
	return cut(r, all, key, size, token, func(after string) int {
		return sort.Search(len(all), func(i int) bool { return key(all[i]) > after })
	})
}

// CutInOrder is Cut for a list in another order: the next page begins after the last item seen, wherever that item is
// by then.
func CutInOrder[T any](r Rules, all []T, key func(T) string, size *int32, token *string) ([]T, *string, error) {
	return cut(r, all, key, size, token, func(after string) int {
		return 1 + slices.IndexFunc(all, func(v T) bool { return key(v) == after })
	})
}

func cut[T any](r Rules, all []T, key func(T) string, size *int32, token *string, find func(after string) int) ([]T, *string, error) {
	c, err := r.Start(size, token)
	if err != nil {
		return nil, nil, err
	}
	if c.After != "" {
		all = all[find(c.After):]
	}
	if len(all) <= c.left {
		return all, nil, nil
	}
	all = all[:c.left]
	c.more, c.last = true, key(all[len(all)-1])
	return all, c.Next(), nil
}
