package kms

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// Sign signs a message or a message digest.
func (s *Service) Sign(ctx context.Context, in *awskms.SignInput) (*awskms.SignOutput, error) {
	rec, digest, err := s.toSign(ctx, "Sign", in.KeyId, in.GrantTokens, in.SigningAlgorithm, in.MessageType, in.Message)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun()
	}
	signature, err := rec.sign(in.SigningAlgorithm, digest)
	if err != nil {
		return nil, err
	}
	return &awskms.SignOutput{KeyId: &rec.ARN, Signature: signature, SigningAlgorithm: in.SigningAlgorithm}, nil
}

// Verify verifies a signature. An invalid signature is an error.
func (s *Service) Verify(ctx context.Context, in *awskms.VerifyInput) (*awskms.VerifyOutput, error) {
	rec, digest, err := s.toSign(ctx, "Verify", in.KeyId, in.GrantTokens, in.SigningAlgorithm, in.MessageType, in.Message)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun()
	}
	switch valid, err := rec.verify(in.SigningAlgorithm, digest, in.Signature); {
	case err != nil:
		return nil, err
	case !valid:
		return nil, &kmstypes.KMSInvalidSignatureException{Message: aws.String("")} // AWS gives no further reason
	}
	return &awskms.VerifyOutput{KeyId: &rec.ARN, SignatureValid: true, SigningAlgorithm: in.SigningAlgorithm}, nil
}

func (s *Service) toSign(ctx context.Context, operation string, name *string, tokens []string, algorithm kmstypes.SigningAlgorithmSpec, kind kmstypes.MessageType, message []byte) (keyRecord, []byte, error) {
	if err := checkTokens(tokens); err != nil {
		return keyRecord{}, nil, err
	}
	rec, _, err := s.findFor(ctx, s.store, name, kmstypes.KeyUsageTypeSignVerify, operation)
	if err != nil {
		return keyRecord{}, nil, err
	}
	digest, err := rec.digest(algorithm, kind, message)
	return rec, digest, err
}

// GetPublicKey returns the public key of an asymmetric key.
func (s *Service) GetPublicKey(ctx context.Context, in *awskms.GetPublicKeyInput) (*awskms.GetPublicKeyOutput, error) {
	if err := checkTokens(in.GrantTokens); err != nil {
		return nil, err
	}
	rec, _, err := s.find(s.store, scopeOf(ctx), in.KeyId)
	if err != nil {
		return nil, err
	}
	if err := usable(&rec); err != nil {
		return nil, err
	}
	if rec.symmetric() || rec.Usage == kmstypes.KeyUsageTypeGenerateVerifyMac {
		return nil, errUnsupported()
	}
	public, err := publicOf(rec.current().Secret)
	if err != nil {
		return nil, err
	}
	m := rec.metadata()
	return &awskms.GetPublicKeyOutput{
		//lint:ignore SA1019 clients of today still read it
		KeyId: &rec.ARN, KeySpec: rec.Spec, CustomerMasterKeySpec: m.CustomerMasterKeySpec, KeyUsage: rec.Usage, PublicKey: public,
		EncryptionAlgorithms: m.EncryptionAlgorithms, SigningAlgorithms: m.SigningAlgorithms,
		KeyAgreementAlgorithms: m.KeyAgreementAlgorithms,
	}, nil
}

// DeriveSharedSecret derives a secret shared with the owner of a public key.
func (s *Service) DeriveSharedSecret(ctx context.Context, in *awskms.DeriveSharedSecretInput) (*awskms.DeriveSharedSecretOutput, error) {
	if err := checkTokens(in.GrantTokens); err != nil {
		return nil, err
	}
	rec, _, err := s.findFor(ctx, s.store, in.KeyId, kmstypes.KeyUsageTypeKeyAgreement, "DeriveSharedSecret")
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun()
	}
	secret, err := rec.agree(in.PublicKey)
	if err != nil {
		return nil, err
	}
	return &awskms.DeriveSharedSecretOutput{KeyId: &rec.ARN, KeyAgreementAlgorithm: in.KeyAgreementAlgorithm, KeyOrigin: kmstypes.OriginTypeAwsKms, SharedSecret: secret}, nil
}

// GenerateMac computes the message authentication code of a message.
func (s *Service) GenerateMac(ctx context.Context, in *awskms.GenerateMacInput) (*awskms.GenerateMacOutput, error) {
	rec, code, err := s.mac(ctx, "GenerateMac", in.KeyId, in.GrantTokens, in.MacAlgorithm, in.Message)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun()
	}
	return &awskms.GenerateMacOutput{KeyId: &rec.ARN, Mac: code, MacAlgorithm: in.MacAlgorithm}, nil
}

// VerifyMac verifies a message authentication code. An invalid code is an error.
func (s *Service) VerifyMac(ctx context.Context, in *awskms.VerifyMacInput) (*awskms.VerifyMacOutput, error) {
	rec, code, err := s.mac(ctx, "VerifyMac", in.KeyId, in.GrantTokens, in.MacAlgorithm, in.Message)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, errDryRun()
	}
	if !hmac.Equal(code, in.Mac) {
		return nil, &kmstypes.KMSInvalidMacException{Message: aws.String("")} // AWS gives no further reason
	}
	return &awskms.VerifyMacOutput{KeyId: &rec.ARN, MacAlgorithm: in.MacAlgorithm, MacValid: true}, nil
}

var macs = map[kmstypes.MacAlgorithmSpec]func() hash.Hash{
	kmstypes.MacAlgorithmSpecHmacSha224: sha256.New224,
	kmstypes.MacAlgorithmSpecHmacSha256: sha256.New,
	kmstypes.MacAlgorithmSpecHmacSha384: sha512.New384,
	kmstypes.MacAlgorithmSpecHmacSha512: sha512.New,
}

func (s *Service) mac(ctx context.Context, operation string, name *string, tokens []string, algorithm kmstypes.MacAlgorithmSpec, message []byte) (keyRecord, []byte, error) {
	if err := checkTokens(tokens); err != nil {
		return keyRecord{}, nil, err
	}
	rec, _, err := s.findFor(ctx, s.store, name, kmstypes.KeyUsageTypeGenerateVerifyMac, operation)
	if err != nil {
		return keyRecord{}, nil, err
	}
	if !slices.Contains(keySpecs[rec.Spec].mac, algorithm) {
		return keyRecord{}, nil, errAlgorithm(string(algorithm), rec.Spec)
	}
	code := hmac.New(macs[algorithm], rec.current().Secret)
	code.Write(message)
	return rec, code.Sum(nil), nil
}
