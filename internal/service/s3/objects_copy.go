package s3

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// CopyObject copies an object.
func (s *Service) CopyObject(ctx context.Context, in *awss3.CopyObjectInput) (*awss3.CopyObjectOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	from, src, err := s.copySource(ctx, in.CopySource, in.ExpectedSourceBucketOwner)
	if err != nil {
		return nil, err
	}
	if err := s.checkCopy(src, in.CopySourceIfMatch, in.CopySourceIfNoneMatch, in.CopySourceIfModifiedSince, in.CopySourceIfUnmodifiedSince); err != nil {
		return nil, err
	}
	if src.Size > maxPut {
		return nil, errCopyTooLarge()
	}
	o := objectRecord{Key: aws.ToString(in.Key), attributes: src.attributes, Tags: src.Tags}
	o.StorageClass, o.Redirect = cmp.Or(string(in.StorageClass), string(s3types.StorageClassStandard)), aws.ToString(in.WebsiteRedirectLocation)
	if in.MetadataDirective == s3types.MetadataDirectiveReplace {
		o.attributes = attributes{
			ContentType: aws.ToString(in.ContentType), ContentEncoding: aws.ToString(in.ContentEncoding), ContentDisposition: aws.ToString(in.ContentDisposition),
			ContentLanguage: aws.ToString(in.ContentLanguage), CacheControl: aws.ToString(in.CacheControl), Expires: httpTime(in.Expires),
			Redirect: o.Redirect, StorageClass: o.StorageClass, Metadata: in.Metadata,
		}
	} else if b.key == from.key && o.Key == src.Key && b.Encryption == nil && src.Encryption.Key == "" && in.StorageClass == "" && in.WebsiteRedirectLocation == nil && in.ServerSideEncryption == "" && !versioned(in.CopySource) {
		return nil, errSelfCopy()
	}
	if in.TaggingDirective == s3types.TaggingDirectiveReplace {
		if o.Tags, err = parseTagging(in.Tagging); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(checkKey(o.Key), checkMetadata(o.Metadata)); err != nil {
		return nil, err
	}
	if o.Grants, err = b.newACL(ctx, "s3:CopyObject", o.Key, aclRequest{canned: string(in.ACL), full: in.GrantFullControl, read: in.GrantRead, readACP: in.GrantReadACP, writeACP: in.GrantWriteACP}); err != nil {
		return nil, err
	}
	if o.Lock, err = s.newLock(&b, in.ObjectLockMode, in.ObjectLockRetainUntilDate, in.ObjectLockLegalHoldStatus); err != nil {
		return nil, err
	}
	if err := s.decrypt(ctx, &src.Encryption); err != nil {
		return nil, err
	}
	if o.Encryption, err = s.encrypt(ctx, &b, o.Key, encryptionRequest{in.ServerSideEncryption, in.SSEKMSKeyId, in.BucketKeyEnabled}); err != nil {
		return nil, err
	}
	content, etag, err := s.copyContent(&from, src, span{0, src.Size}, b, cmp.Or(string(in.ChecksumAlgorithm), src.Checksum.Algorithm, defaultAlgorithm))
	if err != nil {
		return nil, err
	}
	o.Size, o.ETag, o.Checksum, o.Parts = content.Size, o.Encryption.etag(etag), content.Checksum, []contentRecord{content}
	if err := s.write(ctx, &b, &o, conditions{in.IfMatch, in.IfNoneMatch}, nil); err != nil {
		return nil, err
	}
	result := &s3types.CopyObjectResult{ETag: quoted(o.ETag), LastModified: &o.Modified}
	o.Checksum.show(result)
	return &awss3.CopyObjectOutput{
		CopyObjectResult: result, VersionId: b.shownVersion(&o), CopySourceVersionId: from.newVersionID(src),
		ServerSideEncryption: o.Encryption.algorithm(), SSEKMSKeyId: o.Encryption.keyID(), BucketKeyEnabled: o.Encryption.bucketKey(),
	}, nil
}

// checkCopy checks the conditions of a copy. A source that was not modified is a failed condition ([recorded] test_s3_api,
// test_upload_part_copy_with_*).
func (s *Service) checkCopy(o *objectRecord, match, noneMatch *string, modifiedSince, unmodifiedSince *time.Time) error {
	if c := s.failedCondition(o, match, noneMatch, modifiedSince, unmodifiedSince); c != "" {
		return errPrecondition("x-amz-copy-source-" + c)
	}
	return nil
}

func (s *Service) copyContent(from *bucket, src *objectRecord, at span, to bucket, algorithm string) (contentRecord, string, error) {
	body, err := s.open(from.place(), src.Parts, at)
	if err != nil {
		return contentRecord{}, "", err
	}
	defer body.Close()
	u := &upload{body: body, length: &at.length, algorithm: algorithm}
	return u.store(s.blobs, to.place())
}

// parseCopySource returns the bucket, key and version in x-amz-copy-source: BUCKET/KEY?versionId=ID, URL-encoded.
func parseCopySource(text *string) (bucket, key string, version *string, ok bool) {
	path, query, found := strings.Cut(aws.ToString(text), "?versionId=")
	if found {
		version = &query
	}
	path, err := url.PathUnescape(path)
	bucket, key, ok = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return bucket, key, version, ok && err == nil && key != "" && bucket != "" && !strings.HasPrefix(bucket, "arn:")
}

func versioned(source *string) bool { return strings.Contains(aws.ToString(source), "?versionId=") }

func (s *Service) copySource(ctx context.Context, text, owner *string) (bucket, *objectRecord, error) {
	name, key, version, ok := parseCopySource(text)
	if !ok {
		return bucket{}, nil, errCopySource()
	}
	call := awsapi.CallFrom(ctx)
	b, err := s.lookup(s.store, call.Account, call.Region, name) // it may be in another region
	if err != nil {
		return b, nil, err
	}
	if owner != nil && *owner != b.key.Account {
		return b, nil, errAccessDenied()
	}
	o, err := s.version(ctx, &b, key, version)
	return b, o, err
}
