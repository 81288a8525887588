// Package secretsmanager implements AWS Secrets Manager: secrets with versions and staging labels, encrypted by KMS on
// the caller's behalf, with resource policies and a recovery window. Rotation settings are stored but have no effect,
// because there are no Lambda functions.
//
//	aws secretsmanager … ──► operations ──► secrets ── values
//	                              └──► KMS, as the caller
//
// Package authz makes access decisions. Only the composition root imports the package.
package secretsmanager

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// KMS are the operations that Secrets Manager calls on the caller's behalf.
type KMS interface {
	Decrypt(context.Context, *awskms.DecryptInput) (*awskms.DecryptOutput, error)
	GenerateDataKey(context.Context, *awskms.GenerateDataKeyInput) (*awskms.GenerateDataKeyOutput, error)
}

// Config is what the service needs.
type Config struct {
	Store *store.Store
	KMS   KMS
	// API calls the service's own GetSecretValue for each secret of a batch, as the caller.
	API   awsapi.API
	Clock clock.WithTicker // nil means the real clock
}

// Service is AWS Secrets Manager.
type Service struct {
	store *store.Store
	kms   KMS
	api   awsapi.API
	clock clock.WithTicker
	docs  policy.Documents
}

// New returns the service. Call Run to remove secrets whose recovery window is over.
func New(cfg Config) *Service {
	s := &Service{store: cfg.Store, kms: cfg.KMS, api: cfg.API, clock: cfg.Clock}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	return s
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

type scope struct{ regional.Scope }

func (sc scope) arn(r *secretRecord) string {
	return arn.New("secretsmanager", sc.Region, sc.Account, "secret:"+r.Name+"-"+r.Suffix)
}

var suffixed = regexp.MustCompile(`^(.+)-([A-Za-z0-9]{6})$`)

// lookup finds a secret by its name, its ARN, or its ARN without the random suffix. It does not find secrets whose
// recovery window is over.
func (s *Service) lookup(r store.Reader, sc scope, id string) (secretRecord, scope, error) {
	name := id
	if strings.HasPrefix(id, "arn:") {
		a, err := arn.Parse(id)
		var ok bool
		if name, ok = strings.CutPrefix(a.Resource, "secret:"); err != nil || !ok || name == "" || a.Service != "secretsmanager" || a.Region != sc.Region {
			return secretRecord{}, sc, errNoSecret()
		}
		sc.Account = a.Account
		if m := suffixed.FindStringSubmatch(name); m != nil {
			if out, err := s.get(r, sc, m[1]); err == nil && out.Suffix == m[2] {
				return out, sc, nil
			}
		}
	}
	out, err := s.get(r, sc, name)
	return out, sc, err
}

func (s *Service) get(r store.Reader, sc scope, name string) (secretRecord, error) {
	if !nameForm.MatchString(name) {
		// [recorded] LocalStack's tests/aws/services/secretsmanager/test_secretsmanager.snapshot.json, test_invalid_secret_name
		return secretRecord{}, errName()
	}
	out, err := secrets.Get(r, sc.Key(name))
	if errors.Is(err, store.ErrNotFound) || err == nil && s.gone(&out) {
		return out, errNoSecret()
	}
	return out, err
}

func (s *Service) gone(r *secretRecord) bool { return !r.Deleted.IsZero() && !s.now().Before(r.Until) }

// find returns the secret that a request names, unless it is marked for deletion.
func (s *Service) find(ctx context.Context, id *string) (secretRecord, scope, error) {
	r, sc, err := s.lookup(s.store, scope{regional.Of(ctx)}, *id)
	if err == nil && !r.Deleted.IsZero() {
		err = errDeleted()
	}
	return r, sc, err
}

// change changes the secret that a request names and returns it. deleted allows a secret that is marked for deletion.
func (s *Service) change(ctx context.Context, id *string, deleted bool, fn func(*store.Tx, scope, *secretRecord) error) (secretRecord, scope, error) {
	var out secretRecord
	sc := scope{regional.Of(ctx)}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		r, at, err := s.lookup(tx, scope{regional.Of(ctx)}, *id)
		if err != nil {
			return err
		}
		if !r.Deleted.IsZero() && !deleted {
			return errDeleted()
		}
		if err := fn(tx, at, &r); err != nil {
			return err
		}
		for _, version := range r.prune() {
			values.Delete(tx, at.Key(r.ID+"/"+version))
		}
		out, sc = r, at
		return secrets.Put(tx, at.Key(r.Name), r)
	})
	return out, sc, err
}

// remove deletes a secret with its values.
func remove(tx *store.Tx, sc regional.Scope, r *secretRecord) {
	for _, v := range values.All(tx, sc.Below(r.ID)) {
		values.Delete(tx, v.Key)
	}
	secrets.Delete(tx, sc.Key(r.Name))
}

// Run removes the secrets whose recovery window is over.
func (s *Service) Run(ctx context.Context) error {
	for {
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, item := range secrets.All(tx, store.Scope{}) {
				if s.gone(&item.Value) {
					remove(tx, regional.At(item.Key.Account, item.Key.Region), &item.Value)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(time.Hour):
		}
	}
}

// defaultKey is the alias of the AWS managed key.
const defaultKey = "alias/aws/secretsmanager"

// encryptionContext binds a data key to a version.
// https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html
func encryptionContext(arn, version string) map[string]string {
	return map[string]string{"SecretARN": arn, "SecretVersionId": version}
}

// seal encrypts the value of a version.
func (s *Service) seal(ctx context.Context, sc scope, key, arn, version string, clear []byte, isBinary bool) (valueRecord, error) {
	id := keyOf(ctx, sc, key)
	out, err := s.kms.GenerateDataKey(ctx, &awskms.GenerateDataKeyInput{KeyId: &id, KeySpec: kmstypes.DataKeySpecAes256, EncryptionContext: encryptionContext(arn, version)})
	if err != nil {
		return valueRecord{}, errKMS(err, errEncryption)
	}
	aead, err := newAEAD(out.Plaintext)
	if err != nil {
		return valueRecord{}, err
	}
	return valueRecord{Sealed: aead.Seal(nil, nil, clear, []byte(arn+" "+version)), DataKey: out.CiphertextBlob, Binary: isBinary}, nil
}

// unseal decrypts the value of a version.
func (s *Service) unseal(ctx context.Context, arn, version string, v *valueRecord) ([]byte, error) {
	out, err := s.kms.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: v.DataKey, EncryptionContext: encryptionContext(arn, version)})
	if err != nil {
		return nil, errKMS(err, errDecryption)
	}
	aead, err := newAEAD(out.Plaintext)
	if err != nil {
		return nil, err
	}
	clear, err := aead.Open(nil, nil, v.Sealed, []byte(arn+" "+version))
	if err != nil {
		return nil, fmt.Errorf("unsealing version %s of %s: %w", version, arn, err)
	}
	return clear, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// keyOf returns a secret's KMS key in a form that the caller can use even from another account.
func keyOf(ctx context.Context, sc scope, key string) string {
	switch {
	case key == "" && sc.Account == awsapi.CallFrom(ctx).Account:
		return defaultKey
	case key == "":
		return arn.New("kms", sc.Region, sc.Account, defaultKey)
	case strings.HasPrefix(key, "arn:") || sc.Account == awsapi.CallFrom(ctx).Account:
		return key
	case strings.HasPrefix(key, "alias/"):
		return arn.New("kms", sc.Region, sc.Account, key)
	}
	return arn.New("kms", sc.Region, sc.Account, "key/"+key)
}
