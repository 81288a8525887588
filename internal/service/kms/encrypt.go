package kms

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// findFor returns a key that is usable now and whose usage fits an operation.
func (s *Service) findFor(ctx context.Context, r store.Reader, name *string, usage kmstypes.KeyUsageType, operation string) (keyRecord, scope, error) {
	rec, sc, err := s.find(r, scopeOf(ctx), name)
	if err == nil {
		err = usable(&rec)
	}
	if err == nil && rec.Usage != usage {
		err = errUsage(rec.ARN, rec.Usage, operation)
	}
	return rec, sc, err
}

// symmetricOf is findFor for operations that require a symmetric encryption key.
func (s *Service) symmetricOf(ctx context.Context, name *string, operation string) (keyRecord, scope, error) {
	rec, sc, err := s.findFor(ctx, s.store, name, kmstypes.KeyUsageTypeEncryptDecrypt, operation)
	if err == nil && !rec.symmetric() {
		// https://docs.aws.amazon.com/kms/latest/APIReference/API_GenerateDataKey.html; the words are from memory
		err = &kmstypes.InvalidKeyUsageException{Message: new(rec.ARN + " key spec is " + string(rec.Spec) + " which is not valid for " + operation + ".")}
	}
	return rec, sc, err
}

// encryption returns the requested algorithm, which must be one of the key's.
func encryption(k *keyRecord, wanted kmstypes.EncryptionAlgorithmSpec) (kmstypes.EncryptionAlgorithmSpec, error) {
	if wanted == "" {
		wanted = kmstypes.EncryptionAlgorithmSpecSymmetricDefault
	}
	if !slices.Contains(keySpecs[k.Spec].encryption, wanted) {
		return "", errAlgorithm(string(wanted), k.Spec)
	}
	return wanted, nil
}

// Encrypt encrypts up to 4096 bytes with a key.
func (s *Service) Encrypt(ctx context.Context, in *awskms.EncryptInput) (*awskms.EncryptOutput, error) {
	if err := checkTokens(in.GrantTokens); err != nil {
		return nil, err
	}
	if err := s.ensureManaged(ctx, in.KeyId); err != nil {
		return nil, err
	}
	rec, sc, err := s.findFor(ctx, s.store, in.KeyId, kmstypes.KeyUsageTypeEncryptDecrypt, "Encrypt")
	if err != nil {
		return nil, err
	}
	algorithm, err := encryption(&rec, in.EncryptionAlgorithm)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun()
	}
	sealed, err := rec.encrypt(sc, algorithm, in.Plaintext, in.EncryptionContext)
	if err != nil {
		return nil, err
	}
	return &awskms.EncryptOutput{CiphertextBlob: sealed, EncryptionAlgorithm: algorithm, KeyId: &rec.ARN}, nil
}

// encrypt encrypts with any algorithm of the key.
func (k *keyRecord) encrypt(sc scope, algorithm kmstypes.EncryptionAlgorithmSpec, plaintext []byte, context map[string]string) ([]byte, error) {
	if algorithm == kmstypes.EncryptionAlgorithmSpecSymmetricDefault {
		return k.seal(sc, plaintext, context)
	}
	if len(context) > 0 {
		return nil, errContextOfAsymmetric()
	}
	return k.encryptRSA(algorithm, plaintext)
}

// Decrypt decrypts a ciphertext. A symmetric ciphertext contains its key's ID; if the request names
// a key, it must be the same.
func (s *Service) Decrypt(ctx context.Context, in *awskms.DecryptInput) (*awskms.DecryptOutput, error) {
	if err := checkTokens(in.GrantTokens); err != nil {
		return nil, err
	}
	rec, algorithm, plaintext, m, err := s.decrypt(ctx, in.KeyId, in.EncryptionAlgorithm, in.CiphertextBlob, in.EncryptionContext)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun()
	}
	out := &awskms.DecryptOutput{EncryptionAlgorithm: algorithm, KeyId: &rec.ARN, Plaintext: plaintext}
	if rec.symmetric() {
		out.KeyMaterialId = &m.ID
	}
	return out, nil
}

// decrypt finds the key for a ciphertext and decrypts it.
func (s *Service) decrypt(ctx context.Context, name *string, wanted kmstypes.EncryptionAlgorithmSpec, ciphertext []byte, context map[string]string) (keyRecord, kmstypes.EncryptionAlgorithmSpec, []byte, *material, error) {
	fail := func(err error) (keyRecord, kmstypes.EncryptionAlgorithmSpec, []byte, *material, error) {
		return keyRecord{}, "", nil, nil, err
	}
	b, blobErr := parseBlob(ciphertext)
	var rec keyRecord
	var err error
	switch {
	case name != nil:
		if rec, _, err = s.find(s.store, scopeOf(ctx), name); err != nil {
			return fail(err)
		}
	case blobErr != nil:
		return fail(errCiphertext())
	default:
		if rec, err = s.keyOf(ctx, &b); err != nil {
			return fail(err)
		}
	}
	if rec.Usage != kmstypes.KeyUsageTypeEncryptDecrypt || rec.symmetric() && blobErr == nil && (b.keyID != rec.ID || b.Account != accountOf(rec.ARN)) {
		return fail(errIncorrectKey())
	}
	if err := usable(&rec); err != nil {
		return fail(err)
	}
	algorithm, err := encryption(&rec, wanted)
	if err != nil {
		return fail(err)
	}
	if !rec.symmetric() {
		if len(context) > 0 {
			return fail(errContextOfAsymmetric())
		}
		plaintext, err := rec.decryptRSA(algorithm, ciphertext)
		if err != nil {
			return fail(errCiphertext())
		}
		return rec, algorithm, plaintext, nil, nil
	}
	if blobErr != nil {
		return fail(errCiphertext())
	}
	plaintext, m, err := rec.open(&b, context)
	if errors.Is(err, errBlob) {
		err = errCiphertext()
	}
	if err != nil {
		return fail(err)
	}
	return rec, algorithm, plaintext, m, nil
}

// keyOf returns the key named in a ciphertext. If there is no such key, the caller learns nothing
// about it.
func (s *Service) keyOf(ctx context.Context, b *blob) (keyRecord, error) {
	if b.Region != scopeOf(ctx).Region {
		return keyRecord{}, errForeignCiphertext()
	}
	rec, err := keys.Get(s.store, b.Key(b.keyID))
	if store.IsNotFound(err) || err == nil && rec.gone(s.now()) {
		return keyRecord{}, errForeignCiphertext()
	}
	return rec, err
}

// ReEncrypt decrypts a ciphertext and encrypts the result with another key or encryption context.
func (s *Service) ReEncrypt(ctx context.Context, in *awskms.ReEncryptInput) (*awskms.ReEncryptOutput, error) {
	if err := checkTokens(in.GrantTokens); err != nil {
		return nil, err
	}
	if err := s.ensureManaged(ctx, in.DestinationKeyId); err != nil {
		return nil, err
	}
	to, sc, err := s.findFor(ctx, s.store, in.DestinationKeyId, kmstypes.KeyUsageTypeEncryptDecrypt, "ReEncrypt")
	if err != nil {
		return nil, err
	}
	toAlgorithm, err := encryption(&to, in.DestinationEncryptionAlgorithm)
	if err != nil {
		return nil, err
	}
	from, fromAlgorithm, plaintext, m, err := s.decrypt(ctx, in.SourceKeyId, in.SourceEncryptionAlgorithm, in.CiphertextBlob, in.SourceEncryptionContext)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun()
	}
	sealed, err := to.encrypt(sc, toAlgorithm, plaintext, in.DestinationEncryptionContext)
	if err != nil {
		return nil, err
	}
	out := &awskms.ReEncryptOutput{
		CiphertextBlob: sealed, KeyId: &to.ARN, SourceKeyId: &from.ARN,
		SourceEncryptionAlgorithm: fromAlgorithm, DestinationEncryptionAlgorithm: toAlgorithm,
	}
	if m != nil {
		out.SourceKeyMaterialId = &m.ID
	}
	if to.symmetric() {
		out.DestinationKeyMaterialId = &to.current().ID
	}
	return out, nil
}
