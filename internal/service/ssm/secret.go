package ssm

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/store"
)

// defaultKey is the AWS managed key that encrypts SecureString parameters by default.
const defaultKey = "alias/aws/ssm"

// keys has one key per account and region, under defaultKey. It replaces KMS if there is none, and
// decrypts values from before KMS was available.
var keys = store.NewCollection[keyRecord]("ssm", "key")

type keyRecord struct{ Key []byte }

// ownedByAWS reports whether a request uses the default key.
func ownedByAWS(sc scope, id *string) bool {
	switch aws.ToString(id) {
	case "", defaultKey, arn.New("kms", sc.Region, sc.Account, defaultKey):
		return true
	}
	return false
}

// keyOf returns the key that a parameter is encrypted with, or nil if it is not encrypted.
func keyOf(p parameterRecord) *string {
	if p.Type != string(ssmtypes.ParameterTypeSecureString) {
		return nil
	}
	return aws.String(cmp.Or(p.KeyID, defaultKey))
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal encrypts a value for the parameter with a name. As with KMS, the parameter's ARN is the
// encryption context, so that the value cannot be decrypted for another one. The first call creates
// the key.
// https://docs.aws.amazon.com/kms/latest/developerguide/services-parameter-store.html
func (s *Service) seal(tx *store.Tx, sc scope, name, value string) (string, error) {
	rec, err := keys.Get(tx, sc.Key(defaultKey))
	if errors.Is(err, store.ErrNotFound) {
		rec.Key = make([]byte, 32)
		_, _ = rand.Read(rec.Key) // never fails
		err = keys.Create(tx, sc.Key(defaultKey), rec)
	}
	if err != nil {
		return "", err
	}
	aead, err := newAEAD(rec.Key)
	if err != nil {
		return "", fmt.Errorf("sealing %s: %w", name, err)
	}
	return base64.StdEncoding.EncodeToString(aead.Seal(nil, nil, []byte(value), []byte(sc.arn(name)))), nil
}

// reveal returns p with its value decrypted if decrypt is set. Otherwise, a SecureString's value is
// the stored ciphertext.
func (s *Service) reveal(ctx context.Context, sc scope, p parameterRecord, decrypt *bool) (parameterRecord, error) {
	if p.Value == "" {
		return p, errUnread(p.Name)
	}
	if p.Type != string(ssmtypes.ParameterTypeSecureString) || !aws.ToBool(decrypt) {
		return p, nil
	}
	if p.KeyID != "" {
		return s.revealWithKMS(ctx, sc, p)
	}
	rec, err := keys.Get(s.store, sc.Key(defaultKey))
	if err != nil {
		return p, fmt.Errorf("the key of %s: %w", p.Name, err)
	}
	aead, err := newAEAD(rec.Key)
	if err != nil {
		return p, fmt.Errorf("unsealing %s: %w", p.Name, err)
	}
	sealed, err := base64.StdEncoding.DecodeString(p.Value)
	if err != nil {
		return p, fmt.Errorf("unsealing %s: %w", p.Name, err)
	}
	clear, err := aead.Open(nil, nil, sealed, []byte(sc.arn(p.Name)))
	if err != nil {
		return p, fmt.Errorf("unsealing %s: %w", p.Name, err)
	}
	p.Value = string(clear)
	return p, nil
}
