package s3_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// The answers are those that LocalStack's tests recorded from AWS
// (https://github.com/localstack/localstack, tests/aws/services/s3/test_s3_api.snapshot.json).
func TestRefusalsAsRecorded(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	c.put("k", "0123456789")
	source, up := aws.String(*c.bucket+"/k"), testkit.Must(c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: c.bucket, Key: aws.String("copy")}))(t)
	part := func(edit func(*awss3.UploadPartCopyInput)) error {
		in := &awss3.UploadPartCopyInput{Bucket: c.bucket, Key: aws.String("copy"), UploadId: up.UploadId, PartNumber: aws.Int32(1), CopySource: source}
		edit(in)
		_, err := c.UploadPartCopy(ctx, in)
		return err
	}
	const form = "The x-amz-copy-source-range value must be of the form bytes=first-last"
	for _, tt := range []struct{ copied, code, text string }{
		{"bytes=0-8", "", ""}, {"bytes=1-1", "", ""},
		{"0-8", "InvalidArgument", form}, {"bytes=1-0", "InvalidArgument", form}, {"bytes=1-", "InvalidArgument", form}, {"bytes=-2", "InvalidArgument", form},
		{"bytes=0-1,3-4", "InvalidArgument", form},
		{"bytes=0-100", "InvalidArgument", "Range specified is not valid for source object of size: 10"},
		{"bytes=100-200", "InvalidRequest", "The specified copy range is invalid for the source object size"},
	} {
		t.Run("copying "+tt.copied, func(t *testing.T) {
			err := part(func(in *awss3.UploadPartCopyInput) { in.CopySourceRange = &tt.copied })
			if tt.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, tt.code, tt.text)
		})
	}
	later := time.Now().Add(24 * time.Hour)
	if err := part(func(in *awss3.UploadPartCopyInput) { in.CopySourceIfModifiedSince = &later }); err != nil {
		t.Errorf("a time in the future is a condition: %v", err)
	}

	tag := func(key, value string) []s3types.Tag { return []s3types.Tag{{Key: &key, Value: &value}} }
	bucketTags := func(list []s3types.Tag) error {
		_, err := c.PutBucketTagging(ctx, &awss3.PutBucketTaggingInput{Bucket: c.bucket, Tagging: &s3types.Tagging{TagSet: list}})
		return err
	}
	wantError(t, bucketTags(tag("Key1,Key2", "v")), "InvalidTag", "The TagKey you have provided is invalid")
	wantError(t, bucketTags(tag("Key1", "a,b")), "InvalidTag", "The TagValue you have provided is invalid")
	wantError(t, bucketTags(tag("aws:a", "b")), "InvalidTag", "System tags cannot be added/updated by requester")
	_, err := c.PutObjectTagging(ctx, &awss3.PutObjectTaggingInput{Bucket: c.bucket, Key: aws.String("k"), Tagging: &s3types.Tagging{TagSet: tag("aws:a", "b")}})
	wantError(t, err, "InvalidTag", "Your TagKey cannot be prefixed with aws:")
	for _, header := range []string{"key1=val1&key1=val2", "key1=val1,key2=val2"} {
		_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k"), Tagging: &header})
		wantError(t, err, "InvalidArgument", "without tag name duplicates.")
	}
	_, err = c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: c.bucket, CreateBucketConfiguration: &s3types.CreateBucketConfiguration{Tags: tag("a", "b")}})
	wantError(t, err, "BucketAlreadyOwnedByYou", "")

	_, err = c.PutBucketVersioning(ctx, &awss3.PutBucketVersioningInput{Bucket: c.bucket, VersioningConfiguration: &s3types.VersioningConfiguration{Status: "enabled"}})
	wantError(t, err, "MalformedXML", "")
	_, err = c.PutBucketEncryption(ctx, &awss3.PutBucketEncryptionInput{Bucket: c.bucket, ServerSideEncryptionConfiguration: &s3types.ServerSideEncryptionConfiguration{
		Rules: []s3types.ServerSideEncryptionRule{{ApplyServerSideEncryptionByDefault: &s3types.ServerSideEncryptionByDefault{SSEAlgorithm: "AES256", KMSMasterKeyID: aws.String("key")}}},
	}})
	wantError(t, err, "InvalidArgument", "a KMSMasterKeyID is not applicable")
	_, err = c.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: c.bucket, Policy: aws.String("{}")})
	wantError(t, err, "MalformedPolicy", "Missing required field Statement")
	_, err = c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("k"), BypassGovernanceRetention: aws.Bool(false)})
	wantError(t, err, "InvalidArgument", "only applicable to Object Lock enabled buckets")

	for header, in := range map[string]awss3.PutObjectInput{
		"If-Match":               {IfMatch: aws.String("*")},
		"If-None-Match":          {IfNoneMatch: aws.String("x")},
		"If-Match,If-None-Match": {IfMatch: aws.String("x"), IfNoneMatch: aws.String("*")},
	} {
		t.Run(header, func(t *testing.T) {
			in.Bucket, in.Key = c.bucket, aws.String("k")
			_, err := c.PutObject(ctx, &in, func(o *awss3.Options) { o.RetryMaxAttempts = 1 })
			wantError(t, err, "NotImplemented", "A header you provided implies functionality that is not implemented")
		})
	}

	get := testkit.Must(c.GetObject(ctx, &awss3.GetObjectInput{Bucket: c.bucket, Key: aws.String("k"), IfModifiedSince: &later}))(t)
	_ = get.Body.Close()

	c.version("Suspended")
	copied := testkit.Must(c.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: c.bucket, Key: aws.String("k"), CopySource: source, MetadataDirective: "REPLACE"}))(t)
	if aws.ToString(copied.VersionId) != "null" || copied.CopySourceVersionId != nil {
		t.Errorf("a copy while versioning is suspended: %+v", copied)
	}
	c.version("Enabled")
	marker := testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("k")}))(t)
	for _, version := range []*string{nil, marker.VersionId} {
		_, err := c.GetObjectTagging(ctx, &awss3.GetObjectTaggingInput{Bucket: c.bucket, Key: aws.String("k"), VersionId: version})
		wantError(t, err, "MethodNotAllowed", "")
	}
}

// The statuses are not those of the API model.
func TestStatusesAsRecorded(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	tagged := testkit.Must(c.PutBucketTagging(ctx, &awss3.PutBucketTaggingInput{Bucket: c.bucket, Tagging: &s3types.Tagging{TagSet: []s3types.Tag{}}}))(t)
	denied := `{"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::` + *c.bucket + `/secret"}`
	policied := testkit.Must(c.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: c.bucket, Policy: aws.String(document(denied))}))(t)
	versioned := testkit.Must(c.PutBucketVersioning(ctx, &awss3.PutBucketVersioningInput{Bucket: c.bucket, VersioningConfiguration: &s3types.VersioningConfiguration{Status: "Enabled"}}))(t)
	for _, tt := range []struct {
		operation string
		metadata  middleware.Metadata
		want      int
	}{
		{"PutBucketTagging", tagged.ResultMetadata, 204}, {"PutBucketPolicy", policied.ResultMetadata, 204}, {"PutBucketVersioning", versioned.ResultMetadata, 200},
	} {
		if raw, ok := awsmiddleware.GetRawResponse(tt.metadata).(*smithyhttp.Response); !ok || raw.StatusCode != tt.want {
			t.Errorf("%s: %+v, want status %d", tt.operation, raw, tt.want)
		}
	}
}

func TestListingsAsRecorded(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	for _, k := range []string{"folder/a/1", "folder/a/2", "folder/file1", "folder/file2"} {
		c.put(k, "x")
	}
	// A marker below a common prefix is behind it.
	page := testkit.Must(c.ListObjects(ctx, &awss3.ListObjectsInput{Bucket: c.bucket, Prefix: aws.String("folder/"), Delimiter: aws.String("/"), Marker: aws.String("folder/a/1"), MaxKeys: aws.Int32(1)}))(t)
	if len(page.CommonPrefixes) != 0 || len(page.Contents) != 1 || *page.Contents[0].Key != "folder/file1" || *page.NextMarker != "folder/file1" {
		t.Errorf("%+v", page)
	}
	up := testkit.Must(c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: c.bucket, Key: aws.String("dir/k")}))(t)
	uploads := testkit.Must(c.ListMultipartUploads(ctx, &awss3.ListMultipartUploadsInput{Bucket: c.bucket}))(t)
	if *uploads.NextKeyMarker != "dir/k" || *uploads.NextUploadIdMarker != *up.UploadId || uploads.Prefix != nil || *uploads.IsTruncated {
		t.Errorf("%+v", uploads)
	}
	_, err := c.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{Bucket: c.bucket, Key: up.Key, UploadId: up.UploadId})
	wantError(t, err, "InvalidRequest", "You must specify at least one part")
	_, err = c.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: c.bucket, ExpectedBucketOwner: aws.String("abcd")})
	if err == nil {
		t.Error("an expected owner that is no account was accepted")
	}
	_, err = c.GetBucketPolicy(ctx, &awss3.GetBucketPolicyInput{Bucket: c.bucket, ExpectedBucketOwner: aws.String("abcd")})
	wantError(t, err, "InvalidBucketOwnerAWSAccountID", "must be an AWS Account ID... [abcd]")
	all := testkit.Must(c.ListBuckets(ctx, &awss3.ListBucketsInput{}))(t).Buckets
	some := testkit.Must(c.ListBuckets(ctx, &awss3.ListBucketsInput{MaxBuckets: aws.Int32(5)}))(t).Buckets
	if all[0].BucketRegion != nil || some[0].BucketRegion == nil {
		t.Errorf("regions: %+v, %+v", all[0], some[0])
	}
}

// A range that is the whole object comes with its checksum, and HeadObject counts the tags.
func TestReadsAsRecorded(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	testkit.Must(c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k"), Tagging: aws.String("a=b"), ChecksumAlgorithm: "CRC32"}))(t)
	c.put("k10", "0123456789")
	for asked, whole := range map[string]bool{"bytes=0-100": true, "bytes=-15": true, "bytes=0-8": false} {
		out := testkit.Must(c.GetObject(ctx, &awss3.GetObjectInput{Bucket: c.bucket, Key: aws.String("k10"), Range: &asked, ChecksumMode: "ENABLED"}))(t)
		_ = out.Body.Close()
		if got := out.ChecksumType != ""; got != whole {
			t.Errorf("%s: checksum %v", asked, got)
		}
	}
	head := testkit.Must(c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("k")}))(t)
	if aws.ToInt32(head.TagCount) != 1 {
		t.Errorf("HeadObject counts %v tags", head.TagCount)
	}
}
