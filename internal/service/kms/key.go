package kms

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// https://docs.aws.amazon.com/kms/latest/developerguide/resource-limits.html
const maxKeys = 100000

// CreateKey creates a key, which is enabled at once.
func (s *Service) CreateKey(ctx context.Context, in *awskms.CreateKeyInput) (*awskms.CreateKeyOutput, error) {
	sc := scopeOf(ctx)
	switch {
	case in.Origin != "" && in.Origin != kmstypes.OriginTypeAwsKms:
		return nil, awserr.NotImplemented("KMS keys of the origin " + string(in.Origin))
	case aws.ToBool(in.MultiRegion):
		return nil, awserr.NotImplemented("multi-Region KMS keys")
	}
	wanted := in.KeySpec
	if wanted == "" {
		//lint:ignore SA1019 its older name, which clients of today still send
		wanted = kmstypes.KeySpec(in.CustomerMasterKeySpec)
	}
	def, spec, usage, err := specOf(wanted, in.KeyUsage)
	if err != nil {
		return nil, err
	}
	tags, err := tagMap(nil, in.Tags)
	if err != nil {
		return nil, err
	}
	rec, err := newKey(sc, def, spec, usage)
	if err != nil {
		return nil, err
	}
	rec.Created, rec.Materials[0].Since = s.now(), s.now()
	rec.Description, rec.Tags, rec.Policy = aws.ToString(in.Description), tags, defaultPolicy(sc.Account)
	if in.Policy != nil {
		if err := s.checkPolicy(ctx, &rec, *in.Policy, in.BypassPolicyLockoutSafetyCheck); err != nil {
			return nil, err
		}
		rec.Policy = *in.Policy
	}
	if err := s.checkCount(sc); err != nil {
		return nil, err
	}
	if err := s.store.Update(ctx, func(tx *store.Tx) error { return keys.Create(tx, sc.Key(rec.ID), rec) }); err != nil {
		return nil, err
	}
	return &awskms.CreateKeyOutput{KeyMetadata: rec.metadata()}, nil
}

// newKey returns a new, enabled key of the account with its first key material.
func newKey(sc scope, def keySpec, spec kmstypes.KeySpec, usage kmstypes.KeyUsageType) (keyRecord, error) {
	secret, err := def.make()
	if err != nil {
		return keyRecord{}, err
	}
	id := ids.UUID()
	return keyRecord{
		ID: id, ARN: sc.keyARN(id), Spec: spec, Usage: usage, Manager: kmstypes.KeyManagerTypeCustomer,
		State: kmstypes.KeyStateEnabled, Materials: []material{{ID: ids.Hex(64), Secret: secret}},
	}, nil
}

// checkCount returns an error if the account has too many keys. As on AWS, parallel creations may
// exceed the limit.
func (s *Service) checkCount(sc scope) error {
	n := 0
	keys.Scan(s.store, sc.All(), "", func(_ store.Key, k keyRecord) bool {
		if k.Manager == kmstypes.KeyManagerTypeCustomer {
			n++
		}
		return n < maxKeys
	})
	if n >= maxKeys {
		return errLimit("KMS keys", maxKeys)
	}
	return nil
}

// metadata returns the key as DescribeKey shows it.
func (k *keyRecord) metadata() *kmstypes.KeyMetadata {
	def := keySpecs[k.Spec]
	out := &kmstypes.KeyMetadata{
		KeyId: &k.ID, Arn: &k.ARN, AWSAccountId: aws.String(accountOf(k.ARN)), CreationDate: &k.Created, Description: &k.Description,
		//lint:ignore SA1019 clients of today still read it
		Enabled: k.State == kmstypes.KeyStateEnabled, KeyManager: k.Manager, KeySpec: k.Spec, CustomerMasterKeySpec: kmstypes.CustomerMasterKeySpec(k.Spec),
		KeyState: k.State, KeyUsage: k.Usage, MultiRegion: aws.Bool(false), Origin: kmstypes.OriginTypeAwsKms, DeletionDate: k.DeletionDate,
	}
	switch k.Usage {
	case kmstypes.KeyUsageTypeEncryptDecrypt:
		out.EncryptionAlgorithms = def.encryption
	case kmstypes.KeyUsageTypeSignVerify:
		out.SigningAlgorithms = def.signing
	case kmstypes.KeyUsageTypeGenerateVerifyMac:
		out.MacAlgorithms = def.mac
	case kmstypes.KeyUsageTypeKeyAgreement:
		out.KeyAgreementAlgorithms = def.agreement
	}
	if k.symmetric() {
		out.CurrentKeyMaterialId = aws.String(k.current().ID)
	}
	return out
}

// DescribeKey describes a key. An AWS managed key is created when it is first referred to.
// https://docs.aws.amazon.com/kms/latest/APIReference/API_DescribeKey.html
func (s *Service) DescribeKey(ctx context.Context, in *awskms.DescribeKeyInput) (*awskms.DescribeKeyOutput, error) {
	if err := checkTokens(in.GrantTokens); err != nil {
		return nil, err
	}
	if err := s.ensureManaged(ctx, in.KeyId); err != nil {
		return nil, err
	}
	rec, _, err := s.find(s.store, scopeOf(ctx), in.KeyId)
	if err != nil {
		return nil, err
	}
	return &awskms.DescribeKeyOutput{KeyMetadata: rec.metadata()}, nil
}

// ListKeys lists the account's keys, including AWS managed ones.
func (s *Service) ListKeys(ctx context.Context, in *awskms.ListKeysInput) (*awskms.ListKeysOutput, error) {
	page, err := newPage(in.Limit, in.Marker, 100)
	if err != nil {
		return nil, err
	}
	out, now := &awskms.ListKeysOutput{Keys: []kmstypes.KeyListEntry{}}, s.now()
	keys.Scan(s.store, scopeOf(ctx).All(), page.After, func(_ store.Key, k keyRecord) bool {
		if k.gone(now) {
			return true
		}
		if page.Full() {
			return false
		}
		out.Keys = append(out.Keys, kmstypes.KeyListEntry{KeyId: &k.ID, KeyArn: &k.ARN})
		page.Add(k.ID)
		return true
	})
	out.NextMarker = page.Next()
	out.Truncated = out.NextMarker != nil
	return out, nil
}

// UpdateKeyDescription changes a key's description.
func (s *Service) UpdateKeyDescription(ctx context.Context, in *awskms.UpdateKeyDescriptionInput) (*awskms.UpdateKeyDescriptionOutput, error) {
	err := s.change(ctx, in.KeyId, func(k *keyRecord) error {
		if err := notDeleting(k); err != nil {
			return err
		}
		k.Description = aws.ToString(in.Description)
		return nil
	})
	return &awskms.UpdateKeyDescriptionOutput{}, err
}

// change updates a key of the caller's account in one transaction.
func (s *Service) change(ctx context.Context, name *string, fn func(*keyRecord) error) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		rec, sc, err := s.findOwn(ctx, tx, name)
		if err != nil {
			return err
		}
		return keys.Update(tx, sc.Key(rec.ID), fn)
	})
}
