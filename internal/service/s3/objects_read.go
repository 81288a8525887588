package s3

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

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
		return nil, errMarker(o, http.MethodGet)
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
		if denial.Principal.Type == awsapi.AnonymousCaller {
			return errAccessDenied()
		}
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
	if err := s.checkRead(o, in.IfMatch, in.IfNoneMatch, in.IfModifiedSince, in.IfUnmodifiedSince); err != nil {
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
func (s *Service) checkRead(o *objectRecord, match, noneMatch *string, modifiedSince, unmodifiedSince *time.Time) error {
	switch c := s.failedCondition(o, match, noneMatch, modifiedSince, unmodifiedSince); c {
	case "":
		return nil
	case "If-None-Match", "If-Modified-Since":
		return errNotModified(o)
	default:
		return errPrecondition(c)
	}
}

// failedCondition returns the condition of a read that does not hold, or "". Times in the future are ignored ([recorded]
// test_s3, test_s3_get_object_preconditions).
func (s *Service) failedCondition(o *objectRecord, match, noneMatch *string, modifiedSince, unmodifiedSince *time.Time) string {
	if modifiedSince != nil && modifiedSince.After(s.now()) {
		modifiedSince = nil
	}
	has := func(list string) bool {
		return list == "*" || slices.ContainsFunc(strings.Split(list, ","), func(e string) bool {
			return unquoted(strings.TrimPrefix(strings.TrimSpace(e), "W/")) == o.ETag
		})
	}
	switch {
	case match != nil:
		if !has(*match) {
			return "If-Match"
		}
	case unmodifiedSince != nil && o.Modified.After(*unmodifiedSince):
		return "If-Unmodified-Since"
	}
	switch {
	case noneMatch != nil:
		if has(*noneMatch) {
			return "If-None-Match"
		}
	case modifiedSince != nil && !o.Modified.After(*modifiedSince):
		return "If-Modified-Since"
	}
	return ""
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
	h := r.head(in)
	if err := s.showLock(ctx, r, h); err != nil {
		return nil, err
	}
	body, err := s.open(r.bucket.place(), r.object.Parts, r.at)
	if err != nil {
		return nil, err
	}
	return &awss3.GetObjectOutput{
		ObjectLockMode: h.ObjectLockMode, ObjectLockRetainUntilDate: h.ObjectLockRetainUntilDate, ObjectLockLegalHoldStatus: h.ObjectLockLegalHoldStatus,
		Body: body, TagCount: h.TagCount,
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
	out := r.head(get)
	return out, s.showLock(ctx, r, out)
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
		TagCount:                tagCount(o.Tags),
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
	if o.StorageClass != string(s3types.StorageClassStandard) { // S3 does not show STANDARD
		out.StorageClass = s3types.StorageClass(o.StorageClass)
	}
	// [recorded] test_s3_api, test_get_object_range: a range that is the whole object comes with its checksum
	if in.ChecksumMode != "" && (in.Range == nil || r.at == span{0, o.Size}) {
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
