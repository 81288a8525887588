package base

import (
	"context"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// Resources that belong to a cluster are kept under CLUSTER/NAME, so one set of functions
// finds and lists all kinds of them.

// Find returns what belongs to a cluster of the caller under a name. The request calls the
// name member.
func Find[T any](ctx context.Context, s *Service, c store.Collection[T], cluster, name *string, member string, notFound func(cluster, name string) error) (store.Key, T, error) {
	var none T
	key, _, err := s.Cluster(ctx, cluster)
	if err != nil {
		return key, none, err
	}
	if name == nil || *name == "" {
		return key, none, ekserr.Missing(member)
	}
	id := record.Below(key, *name)
	rec, err := c.Get(s.Store, id)
	if err != nil {
		return id, none, store.NotFoundAs(err, notFound(key.ID, *name))
	}
	return id, rec, nil
}

// ListNames returns a page of the names of what belongs to a cluster of the caller.
func ListNames[T any](ctx context.Context, s *Service, c store.Collection[T], cluster *string, maxResults *int32, token *string) ([]string, *string, error) {
	key, _, err := s.Cluster(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	items, next, err := PageBelow(s, c, key, nil, maxResults, token)
	if err != nil {
		return nil, nil, err
	}
	names := []string{}
	for _, i := range items {
		_, name, _ := strings.Cut(i.Key.ID, "/")
		names = append(names, name)
	}
	return names, next, nil
}

// PageBelow returns a page of what belongs to a cluster: all, or what keep reports.
func PageBelow[T any](s *Service, c store.Collection[T], cluster store.Key, keep func(*T) bool, maxResults *int32, token *string) ([]store.Item[T], *string, error) {
	items := c.All(s.Store, record.AllBelow(cluster))
	if keep != nil {
		items = slices.DeleteFunc(items, func(i store.Item[T]) bool { return !keep(&i.Value) })
	}
	return Page(items, func(i store.Item[T]) string { return i.Key.ID }, maxResults, token)
}

// Repeats returns nil if a request repeats the one that made a resource: with its token,
// and the same otherwise. If not, it returns exists, or that the token was used before.
func Repeats(cluster string, token *string, request, madeWith, madeBy string, exists error) error {
	switch {
	case token == nil || madeWith != *token:
		return exists
	case madeBy != request:
		return ekserr.TokenReused(cluster)
	}
	return nil
}
