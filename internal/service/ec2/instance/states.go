package instance

import (
	"context"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
)

// WatchStates calls fn for every instance, and then for those whose records change, until
// ctx ends. An instance may have passed through other states in between.
func (s *Service) WatchStates(ctx context.Context, fn func(serviceevents.StateChange)) error {
	return serviceevents.Follow(ctx, s.Store, record.Instances.Collection, s.Log, func(k store.Key, i *record.Instance) error {
		c := serviceevents.StateChange{Account: k.Account, Region: k.Region, ID: k.ID}
		if i != nil {
			c.State, c.Since = i.State, i.Since
		}
		fn(c)
		return nil
	})
}
