package kms

import (
	"context"
	"crypto/rand"
	"crypto/x509"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// dataKeySize returns the length of a data key in bytes.
func dataKeySize(spec kmstypes.DataKeySpec, n *int32) (int, error) {
	if (spec == "") == (n == nil) {
		return 0, errDataKeySize()
	}
	if n != nil {
		return int(*n), nil
	}
	if spec == kmstypes.DataKeySpecAes128 {
		return 16, nil
	}
	return 32, nil
}

// A dataKey has the common parameters of the four GenerateDataKey operations.
type dataKey struct {
	operation string
	keyID     *string
	tokens    []string
	context   map[string]string
	dryRun    *bool
}

// sealed generates a data key and encrypts it.
func (s *Service) sealed(ctx context.Context, d dataKey, make func() ([]byte, error)) (rec keyRecord, plaintext, sealed []byte, err error) {
	if err = checkTokens(d.tokens); err == nil {
		err = s.ensureManaged(ctx, d.keyID)
	}
	if err != nil {
		return rec, nil, nil, err
	}
	rec, sc, err := s.symmetricOf(ctx, d.keyID, d.operation)
	if err == nil && aws.ToBool(d.dryRun) {
		err = errDryRun()
	}
	if err == nil {
		plaintext, err = make()
	}
	if err == nil {
		sealed, err = rec.seal(sc, plaintext, d.context)
	}
	return rec, plaintext, sealed, err
}

// GenerateDataKey returns a random key, both in plaintext and encrypted.
func (s *Service) GenerateDataKey(ctx context.Context, in *awskms.GenerateDataKeyInput) (*awskms.GenerateDataKeyOutput, error) {
	n, err := dataKeySize(in.KeySpec, in.NumberOfBytes)
	if err != nil {
		return nil, err
	}
	d := dataKey{"GenerateDataKey", in.KeyId, in.GrantTokens, in.EncryptionContext, in.DryRun}
	rec, plaintext, sealed, err := s.sealed(ctx, d, random(n))
	if err != nil {
		return nil, err
	}
	return &awskms.GenerateDataKeyOutput{KeyId: &rec.ARN, Plaintext: plaintext, CiphertextBlob: sealed, KeyMaterialId: &rec.current().ID}, nil
}

// GenerateDataKeyWithoutPlaintext returns a random key, only encrypted.
func (s *Service) GenerateDataKeyWithoutPlaintext(ctx context.Context, in *awskms.GenerateDataKeyWithoutPlaintextInput) (*awskms.GenerateDataKeyWithoutPlaintextOutput, error) {
	n, err := dataKeySize(in.KeySpec, in.NumberOfBytes)
	if err != nil {
		return nil, err
	}
	d := dataKey{"GenerateDataKeyWithoutPlaintext", in.KeyId, in.GrantTokens, in.EncryptionContext, in.DryRun}
	rec, _, sealed, err := s.sealed(ctx, d, random(n))
	if err != nil {
		return nil, err
	}
	return &awskms.GenerateDataKeyWithoutPlaintextOutput{KeyId: &rec.ARN, CiphertextBlob: sealed, KeyMaterialId: &rec.current().ID}, nil
}

// pair returns a generator of key pairs with a spec that GenerateDataKeyPair supports.
func pair(spec kmstypes.DataKeyPairSpec) (func() ([]byte, error), error) {
	def, ok := keySpecs[kmstypes.KeySpec(spec)]
	if !ok {
		return nil, awserr.NotImplemented("data key pairs of the spec " + string(spec))
	}
	return def.make, nil
}

// A keyPair has a private key, in plaintext and encrypted, and its public key.
type keyPair struct{ private, sealed, public []byte }

// sealedPair generates a key pair and encrypts its private key.
func (s *Service) sealedPair(ctx context.Context, d dataKey, spec kmstypes.DataKeyPairSpec) (keyRecord, keyPair, error) {
	make, err := pair(spec)
	if err != nil {
		return keyRecord{}, keyPair{}, err
	}
	rec, private, sealed, err := s.sealed(ctx, d, make)
	if err != nil {
		return keyRecord{}, keyPair{}, err
	}
	public, err := publicOf(private)
	return rec, keyPair{private, sealed, public}, err
}

// GenerateDataKeyPair returns a key pair, including its private key in plaintext and encrypted.
func (s *Service) GenerateDataKeyPair(ctx context.Context, in *awskms.GenerateDataKeyPairInput) (*awskms.GenerateDataKeyPairOutput, error) {
	d := dataKey{"GenerateDataKeyPair", in.KeyId, in.GrantTokens, in.EncryptionContext, in.DryRun}
	rec, p, err := s.sealedPair(ctx, d, in.KeyPairSpec)
	if err != nil {
		return nil, err
	}
	return &awskms.GenerateDataKeyPairOutput{
		KeyId: &rec.ARN, KeyPairSpec: in.KeyPairSpec, PrivateKeyPlaintext: p.private, PrivateKeyCiphertextBlob: p.sealed, PublicKey: p.public,
		KeyMaterialId: &rec.current().ID,
	}, nil
}

// GenerateDataKeyPairWithoutPlaintext returns a key pair with its private key only encrypted.
func (s *Service) GenerateDataKeyPairWithoutPlaintext(ctx context.Context, in *awskms.GenerateDataKeyPairWithoutPlaintextInput) (*awskms.GenerateDataKeyPairWithoutPlaintextOutput, error) {
	d := dataKey{"GenerateDataKeyPairWithoutPlaintext", in.KeyId, in.GrantTokens, in.EncryptionContext, in.DryRun}
	rec, p, err := s.sealedPair(ctx, d, in.KeyPairSpec)
	if err != nil {
		return nil, err
	}
	return &awskms.GenerateDataKeyPairWithoutPlaintextOutput{
		KeyId: &rec.ARN, KeyPairSpec: in.KeyPairSpec, PrivateKeyCiphertextBlob: p.sealed, PublicKey: p.public, KeyMaterialId: &rec.current().ID,
	}, nil
}

// publicOf returns the public key, as SubjectPublicKeyInfo, of a private key in PKCS #8.
func publicOf(private []byte) ([]byte, error) {
	k, err := x509.ParsePKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	return x509.MarshalPKIXPublicKey(k.(publicKeyer).Public())
}

// GenerateRandom returns random bytes. It does not use a key.
func (s *Service) GenerateRandom(_ context.Context, in *awskms.GenerateRandomInput) (*awskms.GenerateRandomOutput, error) {
	if in.NumberOfBytes == nil {
		return nil, errValidation("NumberOfBytes is required.")
	}
	out := make([]byte, *in.NumberOfBytes)
	_, _ = rand.Read(out) // never fails
	return &awskms.GenerateRandomOutput{Plaintext: out}, nil
}
