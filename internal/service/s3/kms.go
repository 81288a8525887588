package s3

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// KMS are the operations that S3 calls on its caller's behalf for objects that are encrypted with a KMS key.
type KMS interface {
	Decrypt(context.Context, *awskms.DecryptInput) (*awskms.DecryptOutput, error)
	GenerateDataKey(context.Context, *awskms.GenerateDataKeyInput) (*awskms.GenerateDataKeyOutput, error)
}

// awsManagedKey is the default KMS key.
const awsManagedKey = "alias/aws/s3"

// An encryptionRecord says how an object is encrypted. It is zero for S3's own keys.
//
// KMS is asked for a data key when an object is written, and to decrypt that key when it is read, so keys' policies and
// states decide who can use the object. AWS deviation: the content on this machine's disk is not encrypted with the data
// key.
type encryptionRecord struct {
	Key       string            `json:",omitempty"` // ARN
	DataKey   []byte            `json:",omitempty"` // encrypted
	Context   map[string]string `json:",omitempty"`
	BucketKey bool              `json:",omitempty"`
}

func (e *encryptionRecord) algorithm() s3types.ServerSideEncryption {
	if e.Key == "" {
		return s3types.ServerSideEncryptionAes256
	}
	return s3types.ServerSideEncryptionAwsKms
}

// etag returns the ETag of an object, given the content's MD5. With a KMS key, it is not the MD5.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html
func (e *encryptionRecord) etag(md5OfContent string) string {
	if e.Key == "" {
		return md5OfContent
	}
	sum := md5.Sum(append([]byte(md5OfContent), e.DataKey...))
	return hex.EncodeToString(sum[:])
}

func (e *encryptionRecord) keyID() *string {
	if e.Key == "" {
		return nil
	}
	return &e.Key
}

func (e *encryptionRecord) bucketKey() *bool {
	if !e.BucketKey {
		return nil
	}
	return &e.BucketKey
}

// An encryptionRequest is what a client asks for. The bucket's default encryption applies to empty fields.
type encryptionRequest struct {
	algorithm s3types.ServerSideEncryption
	key       *string
	bucketKey *bool
}

// encrypt decides how a new object is encrypted and, with a KMS key, asks KMS for a data key.
func (s *Service) encrypt(ctx context.Context, b *bucket, key string, asked encryptionRequest) (encryptionRecord, error) {
	if aws.ToString(asked.key) != "" && asked.algorithm != s3types.ServerSideEncryptionAwsKms {
		return encryptionRecord{}, errArgument("x-amz-server-side-encryption", string(asked.algorithm), "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms")
	}
	algorithm, keyID := asked.algorithm, aws.ToString(asked.key)
	e := encryptionRecord{BucketKey: aws.ToBool(asked.bucketKey)}
	if b.Encryption != nil {
		rule := b.Encryption.Rules[0]
		if asked.bucketKey == nil {
			e.BucketKey = aws.ToBool(rule.BucketKeyEnabled)
		}
		if d := rule.ApplyServerSideEncryptionByDefault; algorithm == "" && d != nil {
			algorithm, keyID = d.SSEAlgorithm, aws.ToString(d.KMSMasterKeyID)
		}
	}
	switch algorithm {
	case "", s3types.ServerSideEncryptionAes256:
		return encryptionRecord{}, nil
	case s3types.ServerSideEncryptionAwsKms:
	default:
		return e, awserr.NotImplemented("objects encrypted with " + string(algorithm))
	}
	if keyID == "" {
		keyID = awsManagedKey
	}
	if strings.HasPrefix(keyID, "alias/") && b.key.Account != awsapi.CallFrom(ctx).Account {
		keyID = arn.New("kms", b.key.Region, b.key.Account, keyID)
	}
	e.Context = map[string]string{"aws:s3:arn": b.arn() + "/" + key}
	if e.BucketKey {
		e.Context["aws:s3:arn"] = b.arn()
	}
	out, err := s.cfg.KMS.GenerateDataKey(ctx, &awskms.GenerateDataKeyInput{KeyId: &keyID, KeySpec: kmstypes.DataKeySpecAes256, EncryptionContext: e.Context})
	if err != nil {
		return e, errKMS(err)
	}
	e.Key, e.DataKey = aws.ToString(out.KeyId), out.CiphertextBlob
	return e, nil
}

// decrypt returns an error unless KMS decrypts the object's data key for the caller.
func (s *Service) decrypt(ctx context.Context, e *encryptionRecord) error {
	if e.Key == "" {
		return nil
	}
	_, err := s.cfg.KMS.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: e.DataKey, EncryptionContext: e.Context})
	return errKMS(err)
}

// errKMS translates an error of KMS into S3's.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/troubleshoot-403-errors.html#access-denied-bucket-encryption
func errKMS(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	if api.ErrorCode() == "AccessDeniedException" {
		return failure(403, "AccessDenied", api.ErrorMessage())
	}
	return invalid("KMS."+api.ErrorCode(), api.ErrorMessage())
}
