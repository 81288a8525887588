package kms

import (
	"context"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// Run deletes keys whose waiting period is over and rotates those that are due, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	return reconcile.Run(ctx, reconcile.Config{
		Name: "kms/key", Watcher: keys.Watch(s.store, store.Scope{}), Log: s.log, Clock: s.clock,
		Reconcile: s.reconcileKey,
	})
}

// reconcileKey brings a key into the state that its record prescribes for the
// current time. It runs again when the next change is due.
func (s *Service) reconcileKey(ctx context.Context, key store.Key) (time.Duration, error) {
	rec, err := keys.Get(s.store, key)
	if store.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	now := s.now()
	switch {
	case rec.gone(now):
		return 0, s.remove(ctx, key)
	case rec.DeletionDate != nil:
		return rec.DeletionDate.Sub(now), nil
	case rec.Rotation == nil:
		return 0, nil
	case now.Before(rec.Rotation.Next):
		return rec.Rotation.Next.Sub(now), nil
	}
	return 0, s.rotateAutomatically(ctx, key)
}

// remove deletes a key and everything that belongs to it. There may be more grants than fit in one
// transaction, so grants go first, and the key and its aliases last. The key has been unusable
// since its waiting period ended.
func (s *Service) remove(ctx context.Context, key store.Key) error {
	sc := scope{regional.At(key.Account, key.Region)}
	for {
		left := 0
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			rec, err := keys.Get(tx, key)
			if store.IsNotFound(err) || err == nil && !rec.gone(s.now()) {
				return nil // removed concurrently
			}
			if err != nil {
				return err
			}
			own := grants.All(tx, sc.Below(key.ID))
			left = len(own)
			for i := range own[:min(left, removedAtOnce)] {
				sc.deleteGrant(tx, &own[i].Value)
				left--
			}
			if left > 0 {
				return nil
			}
			of := s.aliasesOf(tx, sc, key.ID)
			for _, a := range of {
				aliases.Delete(tx, sc.Key(a))
			}
			keys.Delete(tx, key)
			return nil
		})
		if err != nil || left == 0 {
			return err
		}
	}
}

// removedAtOnce grants have two records each and leave room for the key's aliases in a transaction.
const removedAtOnce = (store.MaxWrites - maxAliases - 1) / 2
