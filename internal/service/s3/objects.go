package s3

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
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

// check compares the conditions with the current version, which is nil if the object does not exist.
func (c conditions) check(current *objectRecord, key string) error {
	if c.noneMatch != nil {
		if *c.noneMatch != "*" {
			return awserr.NotImplemented("If-None-Match with anything but *")
		}
		if current != nil {
			return errPrecondition("If-None-Match")
		}
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
	if err := errors.Join(checkKey(o.Key), checkMetadata(o.Metadata), checkACL(string(in.ACL), b.Ownership)); err != nil {
		return nil, err
	}
	conditions := conditions{in.IfMatch, in.IfNoneMatch}
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
	o.Size, o.ETag, o.Checksum, o.Parts = content.Size, etag, content.Checksum, []contentRecord{content}
	if err := s.write(ctx, &b, &o, conditions, nil); err != nil {
		return nil, err
	}
	out := &awss3.PutObjectOutput{
		ETag: quoted(o.ETag), VersionId: b.shownVersion(&o), ServerSideEncryption: o.Encryption.algorithm(), SSEKMSKeyId: o.Encryption.keyID(), BucketKeyEnabled: o.Encryption.bucketKey(),
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

// shownVersion returns the version ID for a response, or nil if the bucket was never versioned.
func (b *bucket) shownVersion(o *objectRecord) *string {
	if b.Versioning == "" {
		return nil
	}
	return &o.Version
}

func httpTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(http.TimeFormat)
}

// version returns a version of an object, or its current one if version is empty. The error for a missing key depends
// on whether the caller may list the bucket.
func (s *Service) version(ctx context.Context, b *bucket, key string, version *string) (*objectRecord, error) {
	if version == nil || *version == "" {
		o, err := objects.Get(s.store, b.objectKey(key))
		if err != nil || o.Marker {
			if err := store.IgnoreNotFound(err); err != nil {
				return nil, err
			}
			if err := s.mayKnow(ctx, b); err != nil {
				return nil, err
			}
			missing := errNoKey(key)
			if o.Marker {
				missing.WithHeader("X-Amz-Delete-Marker", "true").WithHeader("X-Amz-Version-Id", o.Version)
			}
			return nil, missing
		}
		return &o, nil
	}
	o, _, err := b.find(s.store, key, *version)
	if err != nil {
		return nil, err
	}
	if o.Marker {
		return nil, errMarker(o)
	}
	return o, nil
}

// mayKnow refuses callers who may not list the bucket, so that they do not learn which keys do not exist.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
func (s *Service) mayKnow(ctx context.Context, b *bucket) error {
	call := *awsapi.CallFrom(ctx)
	return refusal(s.cfg.Authorize(ctx, &call, nil, authz.Target{Action: "s3:ListBucket", Type: bucketType, ID: b.Name}))
}

// refusal converts a denial to the error that the client sees.
func refusal(err error) error {
	if denial := (*authz.Denial)(nil); errors.As(err, &denial) {
		return denial.Render()
	}
	return err
}

// A read is the part of a response that GetObject and HeadObject have in common.
type read struct {
	object      *objectRecord
	bucket      bucket
	at          span
	partial     bool
	partsCount  *int32
	contentSpan *string // Content-Range
}

func (s *Service) read(ctx context.Context, in *awss3.GetObjectInput) (*read, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	o, err := s.version(ctx, &b, aws.ToString(in.Key), in.VersionId)
	if err != nil {
		return nil, err
	}
	if err := checkRead(o, in.IfMatch, in.IfNoneMatch, in.IfModifiedSince, in.IfUnmodifiedSince); err != nil {
		return nil, err
	}
	r := &read{object: o, bucket: b, at: span{0, o.Size}}
	switch {
	case in.PartNumber != nil && in.Range != nil:
		return nil, invalid("InvalidRequest", "Cannot specify both Range header and partNumber query parameter")
	case in.PartNumber != nil:
		n := int(*in.PartNumber)
		if n < 1 || n > maxParts {
			return nil, errPartNumber(*in.PartNumber)
		}
		if n > len(o.Parts) {
			return nil, errPartRange(*in.PartNumber, len(o.Parts))
		}
		r.partial = o.Size > 0
		for _, p := range o.Parts[:n-1] {
			r.at.offset += p.Size
		}
		r.at.length = o.Parts[n-1].Size
		if o.Multipart {
			r.partsCount = aws.Int32(int32(len(o.Parts)))
		}
	case in.Range != nil:
		at, ok, err := parseRange(*in.Range, o.Size)
		if err != nil {
			return nil, err
		}
		if ok {
			r.at, r.partial = at, true
		}
	}
	if r.partial {
		r.contentSpan = aws.String("bytes " + strconv.FormatInt(r.at.offset, 10) + "-" + strconv.FormatInt(r.at.offset+r.at.length-1, 10) + "/" + strconv.FormatInt(o.Size, 10))
	}
	return r, nil
}

// checkRead checks the conditions of a read. An ETag condition takes precedence over the corresponding time condition.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
func checkRead(o *objectRecord, match, noneMatch *string, modifiedSince, unmodifiedSince *time.Time) error {
	has := func(list string) bool {
		return list == "*" || slices.ContainsFunc(strings.Split(list, ","), func(e string) bool {
			return unquoted(strings.TrimPrefix(strings.TrimSpace(e), "W/")) == o.ETag
		})
	}
	switch {
	case match != nil:
		if !has(*match) {
			return errPrecondition("If-Match")
		}
	case unmodifiedSince != nil && o.Modified.After(*unmodifiedSince):
		return errPrecondition("If-Unmodified-Since")
	}
	switch {
	case noneMatch != nil:
		if has(*noneMatch) {
			return errNotModified(o)
		}
	case modifiedSince != nil && !o.Modified.After(*modifiedSince):
		return errNotModified(o)
	}
	return nil
}

// GetObject returns an object's content.
func (s *Service) GetObject(ctx context.Context, in *awss3.GetObjectInput) (*awss3.GetObjectOutput, error) {
	r, err := s.read(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := s.decrypt(ctx, &r.object.Encryption); err != nil {
		return nil, err
	}
	body, err := s.open(r.bucket.place(), r.object.Parts, r.at)
	if err != nil {
		return nil, err
	}
	o, h := r.object, r.head(in)
	return &awss3.GetObjectOutput{
		Body: body, TagCount: tagCount(o.Tags),
		AcceptRanges: h.AcceptRanges, CacheControl: h.CacheControl, ContentDisposition: h.ContentDisposition, ContentEncoding: h.ContentEncoding,
		ContentLanguage: h.ContentLanguage, ContentLength: h.ContentLength, ContentRange: h.ContentRange, ContentType: h.ContentType, ETag: h.ETag,
		//lint:ignore SA1019 ExpiresString is not a member of the API model
		Expires:    h.Expires,
		Expiration: h.Expiration, LastModified: h.LastModified, Metadata: h.Metadata, PartsCount: h.PartsCount,
		ServerSideEncryption: h.ServerSideEncryption, SSEKMSKeyId: h.SSEKMSKeyId, BucketKeyEnabled: h.BucketKeyEnabled, StorageClass: h.StorageClass, VersionId: h.VersionId, WebsiteRedirectLocation: h.WebsiteRedirectLocation,
		ChecksumCRC32: h.ChecksumCRC32, ChecksumCRC32C: h.ChecksumCRC32C, ChecksumCRC64NVME: h.ChecksumCRC64NVME, ChecksumMD5: h.ChecksumMD5,
		ChecksumSHA1: h.ChecksumSHA1, ChecksumSHA256: h.ChecksumSHA256, ChecksumSHA512: h.ChecksumSHA512, ChecksumType: h.ChecksumType,
	}, nil
}

// HeadObject returns the same as GetObject, without the content.
func (s *Service) HeadObject(ctx context.Context, in *awss3.HeadObjectInput) (*awss3.HeadObjectOutput, error) {
	get := &awss3.GetObjectInput{
		Bucket: in.Bucket, Key: in.Key, ChecksumMode: in.ChecksumMode, ExpectedBucketOwner: in.ExpectedBucketOwner, IfMatch: in.IfMatch,
		IfModifiedSince: in.IfModifiedSince, IfNoneMatch: in.IfNoneMatch, IfUnmodifiedSince: in.IfUnmodifiedSince, PartNumber: in.PartNumber,
		Range: in.Range, VersionId: in.VersionId, ResponseCacheControl: in.ResponseCacheControl, ResponseContentDisposition: in.ResponseContentDisposition,
		ResponseContentEncoding: in.ResponseContentEncoding, ResponseContentLanguage: in.ResponseContentLanguage,
		ResponseContentType: in.ResponseContentType, ResponseExpires: in.ResponseExpires,
	}
	r, err := s.read(ctx, get)
	if err != nil {
		return nil, err
	}
	return r.head(get), nil
}

// head returns the response to a read, without the content.
func (r *read) head(in *awss3.GetObjectInput) *awss3.HeadObjectOutput {
	o := r.object
	text := func(override *string, own string) *string {
		if override != nil {
			return override
		}
		if own == "" {
			return nil
		}
		return &own
	}
	out := &awss3.HeadObjectOutput{
		AcceptRanges: aws.String("bytes"), ContentLength: &r.at.length, ContentRange: r.contentSpan, ETag: quoted(o.ETag), LastModified: &o.Modified,
		Metadata: o.Metadata, PartsCount: r.partsCount, VersionId: r.bucket.shownVersion(o),
		ServerSideEncryption: o.Encryption.algorithm(), SSEKMSKeyId: o.Encryption.keyID(), BucketKeyEnabled: o.Encryption.bucketKey(),
		ContentType:        aws.String(cmp.Or(aws.ToString(in.ResponseContentType), o.ContentType, "binary/octet-stream")),
		CacheControl:       text(in.ResponseCacheControl, o.CacheControl),
		ContentDisposition: text(in.ResponseContentDisposition, o.ContentDisposition),
		ContentEncoding:    text(in.ResponseContentEncoding, o.ContentEncoding),
		ContentLanguage:    text(in.ResponseContentLanguage, o.ContentLanguage),

		WebsiteRedirectLocation: text(nil, o.Redirect),
		Expiration:              r.bucket.expiration(o),
	}
	if t, err := http.ParseTime(o.Expires); err == nil {
		//lint:ignore SA1019 ExpiresString is not a member of the API model
		out.Expires = &t
	}
	if in.ResponseExpires != nil {
		//lint:ignore SA1019 ExpiresString is not a member of the API model
		out.Expires = in.ResponseExpires
	}
	if o.StorageClass != string(s3types.StorageClassStandard) { // which is not shown
		out.StorageClass = s3types.StorageClass(o.StorageClass)
	}
	if in.ChecksumMode != "" && in.Range == nil {
		sum := o.Checksum
		if in.PartNumber != nil && o.Multipart {
			sum = o.Parts[*in.PartNumber-1].Checksum
			sum.Composite = o.Checksum.Composite
		}
		sum.show(out)
	}
	return out
}

func tagCount(tags map[string]string) *int32 {
	if len(tags) == 0 {
		return nil
	}
	return aws.Int32(int32(len(tags)))
}

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
	if err := checkCopy(checkRead(src, in.CopySourceIfMatch, in.CopySourceIfNoneMatch, in.CopySourceIfModifiedSince, in.CopySourceIfUnmodifiedSince)); err != nil {
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
	} else if b.key == from.key && o.Key == src.Key && in.StorageClass == "" && in.WebsiteRedirectLocation == nil && in.ServerSideEncryption == "" && !versioned(in.CopySource) {
		return nil, errSelfCopy()
	}
	if in.TaggingDirective == s3types.TaggingDirectiveReplace {
		if o.Tags, err = parseTagging(in.Tagging); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(checkKey(o.Key), checkMetadata(o.Metadata), checkACL(string(in.ACL), b.Ownership)); err != nil {
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
	o.Size, o.ETag, o.Checksum, o.Parts = content.Size, etag, content.Checksum, []contentRecord{content}
	if err := s.write(ctx, &b, &o, conditions{in.IfMatch, in.IfNoneMatch}, nil); err != nil {
		return nil, err
	}
	result := &s3types.CopyObjectResult{ETag: quoted(o.ETag), LastModified: &o.Modified}
	o.Checksum.show(result)
	return &awss3.CopyObjectOutput{
		CopyObjectResult: result, VersionId: b.shownVersion(&o), CopySourceVersionId: from.shownVersion(src),
		ServerSideEncryption: o.Encryption.algorithm(), SSEKMSKeyId: o.Encryption.keyID(), BucketKeyEnabled: o.Encryption.bucketKey(),
	}, nil
}

// checkCopy turns "not modified", which is not a valid response to a write, into a failed condition.
func checkCopy(err error) error {
	if awserr.CodeOf(err) == "NotModified" {
		return errPrecondition("x-amz-copy-source-If-None-Match")
	}
	return err
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

// DeleteObject deletes an object, or one version of it. In a versioned bucket, deleting an object only adds a delete
// marker.
func (s *Service) DeleteObject(ctx context.Context, in *awss3.DeleteObjectInput) (*awss3.DeleteObjectOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	done, err := s.remove(ctx, &b, aws.ToString(in.Key), in.VersionId, in.IfMatch)
	if err != nil {
		return nil, err
	}
	return &awss3.DeleteObjectOutput{DeleteMarker: done.marker, VersionId: done.version}, nil
}

// maxDeleted is the maximum number of keys that one request may delete.
const maxDeleted = 1000

// DeleteObjects deletes several objects. Each deletion is authorized individually.
func (s *Service) DeleteObjects(ctx context.Context, in *awss3.DeleteObjectsInput) (*awss3.DeleteObjectsOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	if in.Delete == nil || len(in.Delete.Objects) == 0 || len(in.Delete.Objects) > maxDeleted {
		return nil, errMalformedXML()
	}
	out := &awss3.DeleteObjectsOutput{}
	call := awsapi.CallFrom(ctx)
	for _, id := range in.Delete.Objects {
		key := aws.ToString(id.Key)
		err := refusal(s.cfg.Authorize(ctx, call, in, deletion(call, b.Name, key, id.VersionId)))
		var done removal
		if err == nil {
			done, err = s.remove(ctx, &b, key, id.VersionId, id.ETag)
		}
		if refused := (smithy.APIError)(nil); errors.As(err, &refused) {
			out.Errors = append(out.Errors, s3types.Error{Code: aws.String(refused.ErrorCode()), Key: id.Key, Message: aws.String(refused.ErrorMessage()), VersionId: id.VersionId})
			continue
		}
		if err != nil {
			return nil, err
		}
		if !aws.ToBool(in.Delete.Quiet) {
			d := s3types.DeletedObject{Key: id.Key, VersionId: id.VersionId, DeleteMarker: done.marker}
			if aws.ToBool(done.marker) {
				d.DeleteMarkerVersionId = done.version
			}
			out.Deleted = append(out.Deleted, d)
		}
	}
	return out, nil
}

// GetObjectAttributes returns the requested attributes of an object.
func (s *Service) GetObjectAttributes(ctx context.Context, in *awss3.GetObjectAttributesInput) (*awss3.GetObjectAttributesOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	o, err := s.version(ctx, &b, aws.ToString(in.Key), in.VersionId)
	if err != nil {
		return nil, err
	}
	out := &awss3.GetObjectAttributesOutput{LastModified: &o.Modified, VersionId: b.shownVersion(o)}
	for _, a := range in.ObjectAttributes {
		switch a {
		case s3types.ObjectAttributesEtag:
			out.ETag = &o.ETag
		case s3types.ObjectAttributesObjectSize:
			out.ObjectSize = &o.Size
		case s3types.ObjectAttributesStorageClass:
			out.StorageClass = s3types.StorageClass(cmp.Or(o.StorageClass, string(s3types.StorageClassStandard)))
		case s3types.ObjectAttributesChecksum:
			if o.Checksum.Algorithm != "" {
				out.Checksum = &s3types.Checksum{}
				o.Checksum.show(out.Checksum)
			}
		case s3types.ObjectAttributesObjectParts:
			if o.Multipart {
				out.ObjectParts = &s3types.GetObjectAttributesParts{TotalPartsCount: aws.Int32(int32(len(o.Parts)))}
			}
		default:
			return nil, errArgument("x-amz-object-attributes", string(a), "Invalid attribute name specified.")
		}
	}
	return out, nil
}
