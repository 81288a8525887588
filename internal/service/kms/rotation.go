package kms

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// https://docs.aws.amazon.com/kms/latest/APIReference/API_EnableKeyRotation.html
// https://docs.aws.amazon.com/kms/latest/APIReference/API_RotateKeyOnDemand.html
const (
	defaultPeriod = 365

	maxOnDemand = 25
)

// rotatable returns an error if a key cannot be rotated, or not in its current state.
func rotatable(k *keyRecord) error {
	if err := usable(k); err != nil {
		return err
	}
	if !k.symmetric() {
		return errUnsupported()
	}
	return nil
}

// EnableKeyRotation turns on a key's automatic rotation. If it is already on, a different period
// starts over; the same period, or none, changes nothing.
func (s *Service) EnableKeyRotation(ctx context.Context, in *awskms.EnableKeyRotationInput) (*awskms.EnableKeyRotationOutput, error) {
	period := int32(defaultPeriod)
	if in.RotationPeriodInDays != nil {
		period = *in.RotationPeriodInDays
	}
	return &awskms.EnableKeyRotationOutput{}, s.change(ctx, in.KeyId, func(k *keyRecord) error {
		if err := rotatable(k); err != nil {
			return err
		}
		if k.Rotation != nil && (in.RotationPeriodInDays == nil || k.Rotation.PeriodInDays == period) {
			return nil
		}
		k.Rotation = &rotation{PeriodInDays: period, Next: s.now().Add(time.Duration(period) * day)}
		return nil
	})
}

// DisableKeyRotation turns off a key's automatic rotation.
func (s *Service) DisableKeyRotation(ctx context.Context, in *awskms.DisableKeyRotationInput) (*awskms.DisableKeyRotationOutput, error) {
	return &awskms.DisableKeyRotationOutput{}, s.change(ctx, in.KeyId, func(k *keyRecord) error {
		if err := rotatable(k); err != nil {
			return err
		}
		k.Rotation = nil
		return nil
	})
}

// GetKeyRotationStatus returns whether and when a key is rotated automatically. A key that is
// pending deletion is not.
func (s *Service) GetKeyRotationStatus(ctx context.Context, in *awskms.GetKeyRotationStatusInput) (*awskms.GetKeyRotationStatusOutput, error) {
	rec, _, err := s.findKey(s.store, scopeOf(ctx), in.KeyId)
	if err != nil {
		return nil, err
	}
	out := &awskms.GetKeyRotationStatusOutput{KeyId: &rec.ARN}
	if r := rec.Rotation; r != nil && rec.State != kmstypes.KeyStatePendingDeletion {
		out.KeyRotationEnabled, out.RotationPeriodInDays, out.NextRotationDate = true, &r.PeriodInDays, &r.Next
	}
	return out, nil
}

// RotateKeyOnDemand gives a key new material at once. Data encrypted with older material can still
// be decrypted.
func (s *Service) RotateKeyOnDemand(ctx context.Context, in *awskms.RotateKeyOnDemandInput) (*awskms.RotateKeyOnDemandOutput, error) {
	out := &awskms.RotateKeyOnDemandOutput{}
	err := s.change(ctx, in.KeyId, func(k *keyRecord) error {
		if err := rotatable(k); err != nil {
			return err
		}
		n := 0
		for _, m := range k.Materials {
			if m.Rotation == kmstypes.RotationTypeOnDemand {
				n++
			}
		}
		if n >= maxOnDemand {
			return errRotations(k.ARN)
		}
		out.KeyId = &k.ARN
		return k.rotate(s.now(), kmstypes.RotationTypeOnDemand)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (k *keyRecord) rotate(now time.Time, by kmstypes.RotationType) error {
	secret, err := keySpecs[k.Spec].make()
	if err != nil {
		return err
	}
	k.Materials = append(k.Materials, material{ID: ids.Hex(64), Secret: secret, Since: now, Rotation: by})
	return nil
}

// rotateAutomatically rotates a key that is due, on behalf of the reconciler. A disabled key is
// rotated once it is enabled again.
// https://docs.aws.amazon.com/kms/latest/developerguide/rotate-keys.html
func (s *Service) rotateAutomatically(ctx context.Context, key store.Key) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		rec, err := keys.Get(tx, key)
		now := s.now()
		if store.IsNotFound(err) || err == nil && (rec.Rotation == nil || rec.State != kmstypes.KeyStateEnabled || now.Before(rec.Rotation.Next)) {
			return nil
		}
		if err != nil {
			return err
		}
		return keys.Update(tx, key, func(k *keyRecord) error {
			k.Rotation.Next = now.Add(time.Duration(k.Rotation.PeriodInDays) * day)
			return k.rotate(now, kmstypes.RotationTypeAutomatic)
		})
	})
}

// ListKeyRotations lists a key's rotations and, on request, its first and current material.
// https://docs.aws.amazon.com/kms/latest/APIReference/API_ListKeyRotations.html
func (s *Service) ListKeyRotations(ctx context.Context, in *awskms.ListKeyRotationsInput) (*awskms.ListKeyRotationsOutput, error) {
	page, err := newPage(in.Limit, in.Marker, 100)
	if err != nil {
		return nil, err
	}
	rec, _, err := s.findOwn(ctx, s.store, in.KeyId)
	if err != nil {
		return nil, err
	}
	if !rec.symmetric() {
		return nil, errUnsupported()
	}
	out := &awskms.ListKeyRotationsOutput{Rotations: []kmstypes.RotationsListEntry{}}
	past := page.After == ""
	for i := range rec.Materials {
		m := &rec.Materials[i]
		switch {
		case m.Rotation == "" && in.IncludeKeyMaterial != kmstypes.IncludeKeyMaterialAllKeyMaterial:
			continue
		case !past:
			past = m.ID == page.After
			continue
		}
		if page.Full() {
			break
		}
		state := kmstypes.KeyMaterialStateNonCurrent
		if i == len(rec.Materials)-1 {
			state = kmstypes.KeyMaterialStateCurrent
		}
		e := kmstypes.RotationsListEntry{KeyId: aws.String(rec.ARN), KeyMaterialId: &m.ID, KeyMaterialState: state}
		if m.Rotation != "" {
			e.RotationDate, e.RotationType = &m.Since, m.Rotation
		}
		out.Rotations = append(out.Rotations, e)
		page.Add(m.ID)
	}
	out.NextMarker = page.Next()
	out.Truncated = out.NextMarker != nil
	return out, nil
}
