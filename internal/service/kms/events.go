package kms

import (
	"context"
	"strconv"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
)

// Events sends the events of keys that have been rotated or deleted.
// https://docs.aws.amazon.com/kms/latest/developerguide/kms-events.html
func (s *Service) Events(ctx context.Context, bus serviceevents.Bus) error {
	return serviceevents.Follow(ctx, s.store, keys, s.log, func(key store.Key, k *keyRecord) error {
		thing, state, name := "kms/key/"+key.ID, "gone", "KMS CMK Deletion"
		last := bus.Emitted(key.Account, key.Region, thing)
		if k != nil {
			if state, name = strconv.Itoa(len(k.Materials)), "KMS CMK Rotation"; last == "" {
				return bus.EmitOnce(key.Account, key.Region, thing, state, nil)
			}
		} else if last == "" {
			return nil
		}
		if err := bus.EmitOnce(key.Account, key.Region, thing, state, &serviceevents.Event{
			DetailType: name, Source: "aws.kms", Resources: []string{arn.New("kms", key.Region, key.Account, "key/"+key.ID)}, Detail: serviceevents.Detail(map[string]any{"key-id": key.ID}),
		}); err != nil || k != nil {
			return err
		}
		return bus.Forget(key.Account, key.Region, thing)
	})
}
