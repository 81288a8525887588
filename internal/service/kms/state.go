package kms

import (
	"context"
	"time"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// The operations that each key state allows follow AWS's table.
// https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html

// notDeleting returns an error if a key is pending deletion.
func notDeleting(k *keyRecord) error {
	if k.State == kmstypes.KeyStatePendingDeletion {
		return errPendingDeletion(k.ARN)
	}
	return nil
}

// usable returns an error if a key is not enabled.
func usable(k *keyRecord) error {
	if k.State == kmstypes.KeyStateDisabled {
		return errDisabled(k.ARN)
	}
	return notDeleting(k)
}

// EnableKey makes a disabled key usable again.
func (s *Service) EnableKey(ctx context.Context, in *awskms.EnableKeyInput) (*awskms.EnableKeyOutput, error) {
	return &awskms.EnableKeyOutput{}, s.change(ctx, in.KeyId, func(k *keyRecord) error {
		if err := notDeleting(k); err != nil {
			return err
		}
		k.State = kmstypes.KeyStateEnabled
		return nil
	})
}

// DisableKey makes a key unusable.
func (s *Service) DisableKey(ctx context.Context, in *awskms.DisableKeyInput) (*awskms.DisableKeyOutput, error) {
	return &awskms.DisableKeyOutput{}, s.change(ctx, in.KeyId, func(k *keyRecord) error {
		if err := notDeleting(k); err != nil {
			return err
		}
		k.State = kmstypes.KeyStateDisabled
		return nil
	})
}

// Waiting period of ScheduleKeyDeletion in days.
const (
	minWindow, defaultWindow, maxWindow = 7, 30, 30

	day = 24 * time.Hour
)

// ScheduleKeyDeletion makes a key unusable. When the waiting period is over, the reconciler deletes
// it.
func (s *Service) ScheduleKeyDeletion(ctx context.Context, in *awskms.ScheduleKeyDeletionInput) (*awskms.ScheduleKeyDeletionOutput, error) {
	window := int32(defaultWindow)
	if in.PendingWindowInDays != nil {
		if window = *in.PendingWindowInDays; window < minWindow || window > maxWindow {
			return nil, errWindow(window)
		}
	}
	out := &awskms.ScheduleKeyDeletionOutput{KeyState: kmstypes.KeyStatePendingDeletion, PendingWindowInDays: &window}
	err := s.change(ctx, in.KeyId, func(k *keyRecord) error {
		if err := notDeleting(k); err != nil {
			return err
		}
		end := s.now().Add(time.Duration(window) * day)
		k.State, k.DeletionDate = kmstypes.KeyStatePendingDeletion, &end
		out.KeyId, out.DeletionDate = &k.ARN, &end
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// CancelKeyDeletion cancels a key's deletion and leaves the key disabled.
func (s *Service) CancelKeyDeletion(ctx context.Context, in *awskms.CancelKeyDeletionInput) (*awskms.CancelKeyDeletionOutput, error) {
	out := &awskms.CancelKeyDeletionOutput{}
	err := s.change(ctx, in.KeyId, func(k *keyRecord) error {
		if k.State != kmstypes.KeyStatePendingDeletion {
			return errNotPendingDeletion(k.ARN)
		}
		k.State, k.DeletionDate = kmstypes.KeyStateDisabled, nil
		out.KeyId = &k.ARN
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
