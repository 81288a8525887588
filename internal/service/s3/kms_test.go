package s3_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// Objects with a KMS key can be written and read by those who may use the key, while it is enabled.
func TestKMS(t *testing.T) {
	w := newWorld(t, options{})
	c, ctx := w.bucket(t), t.Context()
	keys := awskms.NewFromConfig(w.AWSConfig(c.account))
	key := testkit.Must(keys.CreateKey(ctx, nil))(t).KeyMetadata
	put := func(c *client, name string, algorithm s3types.ServerSideEncryption, key *string) (*awss3.PutObjectOutput, error) {
		return c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: &name, Body: strings.NewReader("content"), ServerSideEncryption: algorithm, SSEKMSKeyId: key})
	}
	out := testkit.Must(put(c, "mine", "aws:kms", key.KeyId))(t)
	if out.ServerSideEncryption != "aws:kms" || aws.ToString(out.SSEKMSKeyId) != *key.Arn {
		t.Errorf("%+v", out)
	}
	out = testkit.Must(put(c, "managed", "aws:kms", nil))(t)
	managed := testkit.Must(keys.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: aws.String("alias/aws/s3")}))(t).KeyMetadata
	if aws.ToString(out.SSEKMSKeyId) != *managed.Arn {
		t.Errorf("%+v", out)
	}
	head := testkit.Must(c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("mine")}))(t)
	if head.ServerSideEncryption != "aws:kms" || aws.ToString(head.SSEKMSKeyId) != *key.Arn {
		t.Errorf("%+v", head)
	}
	_, err := put(c, "none", "aws:kms", aws.String("11111111-2222-3333-4444-555555555555"))
	wantError(t, err, "KMS.NotFoundException", "11111111-2222-3333-4444-555555555555")
	_, err = put(c, "none", "AES256", key.KeyId)
	wantError(t, err, "InvalidArgument", "requires HTTP header x-amz-server-side-encryption : aws:kms")

	user := c.as(document(statementFor("Allow", "s3:*", "*", "")))
	_, err = put(user, "theirs", "aws:kms", key.KeyId)
	wantError(t, err, "AccessDenied", "not authorized to perform: kms:GenerateDataKey")
	_, err = user.get("mine")
	wantError(t, err, "AccessDenied", "not authorized to perform: kms:Decrypt")
	user.want("managed", "content") // the policy of aws/s3 lets everybody in the account use it through S3
	_, err = user.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: c.bucket, Key: aws.String("copy"), CopySource: aws.String(*c.bucket + "/mine")})
	wantError(t, err, "AccessDenied", "kms:Decrypt")

	// The bucket's default encryption applies to clients that ask for none, also in multipart uploads.
	testkit.Must(c.PutBucketEncryption(ctx, &awss3.PutBucketEncryptionInput{Bucket: c.bucket, ServerSideEncryptionConfiguration: &s3types.ServerSideEncryptionConfiguration{
		Rules: []s3types.ServerSideEncryptionRule{{
			ApplyServerSideEncryptionByDefault: &s3types.ServerSideEncryptionByDefault{SSEAlgorithm: "aws:kms", KMSMasterKeyID: key.Arn}, BucketKeyEnabled: aws.Bool(true),
		}},
	}}))(t)
	out = c.put("default", "x")
	if out.ServerSideEncryption != "aws:kms" || aws.ToString(out.SSEKMSKeyId) != *key.Arn || !aws.ToBool(out.BucketKeyEnabled) {
		t.Errorf("%+v", out)
	}
	if out := testkit.Must(put(c, "plain", "AES256", nil))(t); out.ServerSideEncryption != "AES256" || out.SSEKMSKeyId != nil {
		t.Errorf("%+v", out)
	}
	upload := testkit.Must(c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: c.bucket, Key: aws.String("parts")}))(t)
	part := &awss3.UploadPartInput{Bucket: c.bucket, Key: aws.String("parts"), UploadId: upload.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("part")}
	etag := testkit.Must(c.UploadPart(ctx, part))(t).ETag
	done := testkit.Must(c.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
		Bucket: c.bucket, Key: aws.String("parts"), UploadId: upload.UploadId, MultipartUpload: &s3types.CompletedMultipartUpload{Parts: []s3types.CompletedPart{{ETag: etag, PartNumber: aws.Int32(1)}}},
	}))(t)
	if upload.ServerSideEncryption != "aws:kms" || aws.ToString(done.SSEKMSKeyId) != *key.Arn {
		t.Errorf("%+v %+v", upload, done)
	}
	c.want("parts", "part")

	testkit.Must(keys.DisableKey(ctx, &awskms.DisableKeyInput{KeyId: key.KeyId}))(t)
	_, err = c.get("mine")
	wantError(t, err, "KMS.DisabledException", "is disabled")
	_, err = put(c, "late", "", nil)
	wantError(t, err, "KMS.DisabledException", "is disabled")
}
