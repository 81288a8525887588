package base

import (
	"context"
	"errors"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

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
	all := func(*T) bool { return true }
	return PageBelow(s, c, key, all, func(i store.Item[T]) string { return strings.TrimPrefix(i.Key.ID, key.ID+"/") }, maxResults, token)
}

// PageBelow returns a page of what belongs to a cluster, as far as keep reports it: what of
// says of each.
func PageBelow[T, V any](s *Service, c store.Collection[T], cluster store.Key, keep func(*T) bool, of func(store.Item[T]) V, maxResults *int32, token *string) ([]V, *string, error) {
	items := slices.DeleteFunc(c.All(s.Store, record.AllBelow(cluster)), func(i store.Item[T]) bool { return !keep(&i.Value) })
	items, next, err := Page(items, func(i store.Item[T]) string { return i.Key.ID }, maxResults, token)
	out := make([]V, len(items))
	for i, item := range items {
		out[i] = of(item)
	}
	return out, next, err
}

// Add stores what a request makes in a cluster, unless the cluster is being deleted. A
// request that repeats the one that made what is there, token and all, is given that; to
// any other the name is taken. origin returns the token and the request that a record was
// made with. also is done in the same transaction.
func Add[T any](ctx context.Context, s *Service, c store.Collection[T], cluster, id store.Key, rec T, origin func(*T) (token, request string), exists func(old *T) error, also func(*store.Tx, *T) error) (*T, error) {
	var out T
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		owner, err := record.Clusters.Get(tx, cluster)
		switch {
		case err != nil:
			return store.NotFoundAs(err, ekserr.NoCluster(cluster.ID))
		case owner.Cluster.Status == ekstypes.ClusterStatusDeleting:
			return ekserr.NoCluster(cluster.ID)
		}
		old, err := c.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			out = rec
			if err := also(tx, &out); err != nil {
				return err
			}
			return c.Create(tx, id, out)
		} else if err != nil {
			return err
		}
		token, request := origin(&rec)
		if madeWith, madeBy := origin(&old); token == "" || madeWith != token || madeBy != request {
			return exists(&old)
		}
		out = old
		return nil
	})
	return &out, err
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
