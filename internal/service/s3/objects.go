package s3

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
)

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html,
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
const (
	maxKey      = 1024
	maxMetadata = 2 << 10
)

func checkKey(key string) error {
	if len(key) > maxKey {
		return errKeyTooLong(len(key))
	}
	if !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return errArgument("key", strings.ToValidUTF8(key, "?"), "The object key is not valid UTF-8 or has a null character.") // from memory
	}
	return nil
}

func checkMetadata(m map[string]string) error {
	size := 0
	for k, v := range m {
		size += len(k) + len(v)
	}
	if size > maxMetadata {
		return errMetadataTooLarge(size)
	}
	return nil
}

// conditions are the conditions of a write.
type conditions struct{ match, noneMatch *string }

// supported refuses the conditions that S3 does not have for writes. [recorded] LocalStack's tests/aws/services/s3/test_s3_api.snapshot.json,
// TestS3ObjectWritePrecondition
func (c conditions) supported() error {
	switch {
	case c.match != nil && c.noneMatch != nil:
		return errHeader("If-Match,If-None-Match", "Multiple conditional request headers present in the request")
	case c.noneMatch != nil && *c.noneMatch != "*":
		return errHeader("If-None-Match", "We don't accept the provided value of If-None-Match header for this API")
	case c.match != nil && *c.match == "*":
		return errHeader("If-Match", "We don't accept the provided value of If-Match header for this API")
	}
	return nil
}

// check compares the conditions with the current version, which is nil if the object does not exist.
func (c conditions) check(current *objectRecord, key string) error {
	if c.noneMatch != nil && current != nil {
		return errPrecondition("If-None-Match")
	}
	if c.match == nil {
		return nil
	}
	if current == nil {
		return errNoKey(key)
	}
	if unquoted(*c.match) != current.ETag && *c.match != "*" {
		return errPrecondition("If-Match")
	}
	return nil
}

// current returns the current version of an object, or nil if there is none or it is a delete marker.
func (b *bucket) current(r store.Reader, key string) (*objectRecord, error) {
	o, err := objects.Get(r, b.objectKey(key))
	if err != nil {
		return nil, store.IgnoreNotFound(err)
	}
	if o.Marker {
		return nil, nil //nolint:nilnil // there is none
	}
	return &o, nil
}

// PutObject stores an object.
func (s *Service) PutObject(ctx context.Context, in *awss3.PutObjectInput) (*awss3.PutObjectOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	o := objectRecord{Key: aws.ToString(in.Key), attributes: attributes{
		ContentType: aws.ToString(in.ContentType), ContentEncoding: aws.ToString(in.ContentEncoding), ContentDisposition: aws.ToString(in.ContentDisposition),
		ContentLanguage: aws.ToString(in.ContentLanguage), CacheControl: aws.ToString(in.CacheControl), Expires: httpTime(in.Expires),
		Redirect: aws.ToString(in.WebsiteRedirectLocation), StorageClass: string(in.StorageClass), Metadata: in.Metadata,
	}}
	if o.Tags, err = parseTagging(in.Tagging); err != nil {
		return nil, err
	}
	if err := errors.Join(checkKey(o.Key), checkMetadata(o.Metadata)); err != nil {
		return nil, err
	}
	if o.Grants, err = b.newACL(ctx, "s3:PutObject", o.Key, aclRequest{canned: string(in.ACL), full: in.GrantFullControl, read: in.GrantRead, readACP: in.GrantReadACP, writeACP: in.GrantWriteACP}); err != nil {
		return nil, err
	}
	if o.Lock, err = s.newLock(&b, in.ObjectLockMode, in.ObjectLockRetainUntilDate, in.ObjectLockLegalHoldStatus); err != nil {
		return nil, err
	}
	conditions := conditions{in.IfMatch, in.IfNoneMatch}
	if err := conditions.supported(); err != nil {
		return nil, err
	}
	if old, err := b.current(s.store, o.Key); err != nil {
		return nil, err
	} else if err := conditions.check(old, o.Key); err != nil {
		return nil, err // before the content is sent
	}
	u, err := newUpload(in, in.Body, in.ContentLength, in.ContentMD5, "")
	if err != nil {
		return nil, err
	}
	if u.algorithm = cmp.Or(u.given.Algorithm, string(in.ChecksumAlgorithm), defaultAlgorithm); hashes[u.algorithm] == nil {
		return nil, awserr.NotImplemented("the checksum " + u.algorithm)
	}
	if o.Encryption, err = s.encrypt(ctx, &b, o.Key, encryptionRequest{in.ServerSideEncryption, in.SSEKMSKeyId, in.BucketKeyEnabled}); err != nil {
		return nil, err
	}
	content, etag, err := u.store(s.blobs, b.place())
	if err != nil {
		return nil, err
	}
	o.Size, o.ETag, o.Checksum, o.Parts = content.Size, o.Encryption.etag(etag), content.Checksum, []contentRecord{content}
	if err := s.write(ctx, &b, &o, conditions, nil); err != nil {
		return nil, err
	}
	out := &awss3.PutObjectOutput{
		ETag: quoted(o.ETag), VersionId: b.newVersionID(&o), ServerSideEncryption: o.Encryption.algorithm(), SSEKMSKeyId: o.Encryption.keyID(), BucketKeyEnabled: o.Encryption.bucketKey(),
	}
	o.Checksum.show(out)
	return out, nil
}

// write makes o the current version. assemble, if it is not nil, fills in o in the transaction. write removes the
// content of a version that o replaces permanently, or o's own content if the write is refused.
func (s *Service) write(ctx context.Context, b *bucket, o *objectRecord, c conditions, assemble func(*store.Tx) error) error {
	content := o.blobs()
	var gone []objectRecord
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		gone = nil
		if err := c.supported(); err != nil {
			return err
		}
		rec, err := buckets.Get(tx, b.key)
		if err != nil {
			return store.NotFoundAs(err, errNoBucket(b.Name))
		}
		b.bucketRecord = rec
		if assemble != nil {
			if err := assemble(tx); err != nil {
				return err
			}
		}
		old, err := b.current(tx, o.Key)
		if err != nil {
			return err
		}
		if err := c.check(old, o.Key); err != nil {
			return err
		}
		gone, err = s.replace(tx, b, o)
		return err
	})
	if err != nil {
		s.forgetRefused(ctx, b.place(), err, content...)
	}
	s.forgetAll(ctx, b, gone, err)
	return err
}

// newVersionID returns the version ID with which PutObject answers, and that of a copy's source. It is nil while versioning is
// suspended ([recorded] test_s3_api, test_put_object_on_suspended_bucket; test_s3, test_s3_copy_object_in_place_suspended_only).
func (b *bucket) newVersionID(o *objectRecord) *string {
	if o.Version == nullVersion {
		return nil
	}
	return &o.Version
}

// shownVersion returns the version ID for a response, or nil if the bucket was never versioned.
func (b *bucket) shownVersion(o *objectRecord) *string {
	if b.Versioning == "" {
		return nil
	}
	return &o.Version
}
