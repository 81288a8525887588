package resource

import (
	"context"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/store"
)

// Create creates a resource in a transaction and returns it. If an identical request with the same
// token was made before, it returns that request's resource.
func Create[T any](ctx context.Context, s *Core, k Kind[T], dryRun *bool, token *string, in any, fill func(tx *store.Tx, v *T) error) (T, error) {
	sc := ScopeOf(ctx)
	operation := strings.TrimSuffix(reflect.TypeOf(in).Elem().Name(), "Input")
	var v T
	err := s.Update(ctx, dryRun, func(tx *store.Tx) error {
		done, err := s.Recall(tx, sc, operation, token, in)
		if err != nil {
			return err
		}
		if done != nil {
			v, err = Get(tx, k, sc, done.IDs[0])
			return err
		}
		var made T
		if err := fill(tx, &made); err != nil {
			return err
		}
		v = made
		if err := k.Create(tx, sc.Key(k.id(v)), v); err != nil {
			return err
		}
		return s.Remember(tx, sc, operation, token, in, false, k.id(v))
	})
	return v, err
}

// Change edits the resource with an ID in a transaction and returns it. Slices, maps and pointers
// in the resource are shared with readers, so edit must replace them rather than modify them.
func Change[T any](ctx context.Context, s *Core, k Kind[T], dryRun *bool, id *string, edit func(tx *store.Tx, v *T) error) (T, error) {
	sc := ScopeOf(ctx)
	var v T
	err := s.Update(ctx, dryRun, func(tx *store.Tx) (err error) {
		if v, err = Get(tx, k, sc, aws.ToString(id)); err != nil {
			return err
		}
		if err := edit(tx, &v); err != nil {
			return err
		}
		return k.Put(tx, sc.Key(*id), v)
	})
	return v, err
}

// Delete deletes the resource with an ID in a transaction and returns it. check may prevent that,
// and deletes whatever belongs to the resource.
func Delete[T any](ctx context.Context, s *Core, k Kind[T], dryRun *bool, id *string, check func(tx *store.Tx, v *T) error) (T, error) {
	sc := ScopeOf(ctx)
	var v T
	err := s.Update(ctx, dryRun, func(tx *store.Tx) (err error) {
		if v, err = Get(tx, k, sc, aws.ToString(id)); err != nil {
			return err
		}
		if err := check(tx, &v); err != nil {
			return err
		}
		k.Delete(tx, sc.Key(*id))
		return nil
	})
	return v, err
}
