package sqs

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// dataKeys caches data keys for reuse, each for the principal to which KMS issued it.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
type dataKeys struct {
	mu   sync.Mutex
	keys map[string]dataKey
}

type dataKey struct {
	plain, sealed []byte
	until         time.Time
}

const maxDataKeys = 1000

// get returns a cached key that is still valid, or a new one from ask.
func (k *dataKeys) get(id string, now time.Time, reuse time.Duration, ask func() (dataKey, error)) (dataKey, error) {
	k.mu.Lock()
	known, ok := k.keys[id]
	k.mu.Unlock()
	if ok && now.Before(known.until) {
		return known, nil
	}
	made, err := ask()
	if err != nil {
		return made, err
	}
	made.until = now.Add(reuse)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil || len(k.keys) >= maxDataKeys {
		k.keys = map[string]dataKey{}
	}
	k.keys[id] = made
	return made, nil
}

// encryptionContext binds a data key to its queue.
func encryptionContext(queue string) map[string]string {
	return map[string]string{"aws:sqs:arn": queue}
}

// keyOf returns a queue's KMS key in a form that the caller can use, who may be in another account.
func keyOf(ctx context.Context, sc scope, rec *queueRecord) string {
	id := rec.Attributes["KmsMasterKeyId"]
	switch {
	case id == "" || strings.HasPrefix(id, "arn:") || sc.Account == awsapi.CallFrom(ctx).Account:
		return id
	case strings.HasPrefix(id, "alias/"):
		return arn.New("kms", sc.Region, sc.Account, id)
	}
	return arn.New("kms", sc.Region, sc.Account, "key/"+id)
}

// seal encrypts messages for a queue that has a KMS key.
func (s *Service) seal(ctx context.Context, sc scope, rec *queueRecord, drafts []*draft) error {
	keyID := keyOf(ctx, sc, rec)
	if keyID == "" || s.cfg.KMS == nil || len(drafts) == 0 {
		return nil
	}
	queue := sc.arn(rec.Name)
	id := "make " + queue + " " + keyID + " " + awsapi.CallFrom(ctx).Principal.ARN
	k, err := s.keys.get(id, s.now(), rec.seconds("KmsDataKeyReusePeriodSeconds"), func() (dataKey, error) {
		out, err := s.cfg.KMS.GenerateDataKey(ctx, &awskms.GenerateDataKeyInput{KeyId: &keyID, KeySpec: kmstypes.DataKeySpecAes256, EncryptionContext: encryptionContext(queue)})
		if err != nil {
			return dataKey{}, errKMS(err)
		}
		return dataKey{plain: out.Plaintext, sealed: out.CiphertextBlob}, nil
	})
	if err != nil {
		return err
	}
	aead, err := newAEAD(k.plain)
	if err != nil {
		return err
	}
	for _, d := range drafts {
		clear, err := json.Marshal(d.content)
		if err != nil {
			return err
		}
		nonce := make([]byte, aead.NonceSize())
		if _, err := rand.Read(nonce); err != nil {
			return err
		}
		d.content = contentRecord{Sealed: aead.Seal(nonce, nonce, clear, []byte(queue)), DataKey: k.sealed, Context: queue}
	}
	return nil
}

// unseal decrypts a message of a queue that has, or had, a KMS key.
func (s *Service) unseal(ctx context.Context, rec *queueRecord, c contentRecord) (contentRecord, error) {
	if c.DataKey == nil {
		return c, nil
	}
	id := "read " + string(c.DataKey) + " " + awsapi.CallFrom(ctx).Principal.ARN
	k, err := s.keys.get(id, s.now(), rec.seconds("KmsDataKeyReusePeriodSeconds"), func() (dataKey, error) {
		out, err := s.cfg.KMS.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: c.DataKey, EncryptionContext: encryptionContext(c.Context)})
		if err != nil {
			return dataKey{}, errKMS(err)
		}
		return dataKey{plain: out.Plaintext}, nil
	})
	if err != nil {
		return c, err
	}
	aead, err := newAEAD(k.plain)
	if err != nil {
		return c, err
	}
	if len(c.Sealed) < aead.NonceSize() {
		return c, errors.New("a sealed message is too short")
	}
	n := aead.NonceSize()
	clear, err := aead.Open(nil, c.Sealed[:n], c.Sealed[n:], []byte(c.Context))
	if err != nil {
		return c, fmt.Errorf("unsealing a message: %w", err)
	}
	var out contentRecord
	return out, json.Unmarshal(clear, &out)
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// kmsErrors are SQS's error codes for KMS's errors.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html#API_SendMessage_Errors
var kmsErrors = map[string]string{
	"AccessDeniedException":      "KmsAccessDenied",
	"DisabledException":          "KmsDisabled",
	"InvalidKeyUsageException":   "KmsInvalidKeyUsage",
	"KMSInvalidStateException":   "KmsInvalidState",
	"NotFoundException":          "KmsNotFound",
	"OptInRequired":              "KmsOptInRequired",
	"ThrottlingException":        "KmsThrottled",
	"InvalidCiphertextException": "KmsInvalidState", // the key is no longer the same
}

func errKMS(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) {
		if code := kmsErrors[api.ErrorCode()]; code != "" {
			return awserr.New(code, api.ErrorMessage())
		}
	}
	return err
}
