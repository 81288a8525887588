package instance

import (
	"context"
	"errors"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
)

// WatchStates calls fn for every instance, and then for those whose records change, until
// ctx ends. An instance may have passed through other states in between.
func (s *Service) WatchStates(ctx context.Context, fn func(serviceevents.StateChange)) error {
	w := record.Instances.Watch(s.Store, store.Scope{})
	defer w.Stop()
	for {
		keys, err := w.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for _, k := range keys {
			c := serviceevents.StateChange{Account: k.Account, Region: k.Region, ID: k.ID}
			switch i, err := record.Instances.Get(s.Store, k); {
			case err == nil:
				c.State, c.Since = i.State, i.Since
			case !errors.Is(err, store.ErrNotFound):
				continue // unreadable
			}
			fn(c)
		}
	}
}
