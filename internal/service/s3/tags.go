package s3

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
)

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html
const (
	maxBucketTags = 50
	maxObjectTags = 10

	reservedObjectTag = "Your TagKey cannot be prefixed with aws:"
)

// tagText is what keys and values of tags consist of: the characters that AWS allows in all services.
var tagText = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)

// tagsOf returns the tags of a request. reserved is the text for keys that begin with aws:. The texts are recorded: test_s3_api,
// test_tagging_validation.
func tagsOf(list []s3types.Tag, most int, reserved string) (map[string]string, error) {
	for _, t := range list {
		k, v := aws.ToString(t.Key), aws.ToString(t.Value)
		if t.Key == nil || t.Value == nil {
			return nil, errMalformedXML()
		}
		if n := utf8.RuneCountInString(k); n == 0 || n > 128 || !tagText.MatchString(k) {
			return nil, errTag("The TagKey you have provided is invalid").With("TagKey", k)
		}
		if utf8.RuneCountInString(v) > 256 || !tagText.MatchString(v) {
			return nil, errTag("The TagValue you have provided is invalid").With("TagKey", k).With("TagValue", v)
		}
	}
	return tagging.Put(tagging.Rules{
		Most:     most,
		Reserved: func(key string) error { return errTag(reserved).With("TagKey", key) },
		Twice: func(key string) error {
			return errTag("Cannot provide multiple Tags with the same key").With("TagKey", key)
		},
		TooMany: func() error {
			return invalid("BadRequest", "Object tags cannot be greater than "+strconv.Itoa(most))
		},
	}, nil, list, func(t s3types.Tag) (key, value *string) { return t.Key, t.Value })
}

// parseTagging parses the header x-amz-tagging, which has tags in the form of a URL's query.
func parseTagging(header *string) (map[string]string, error) {
	if header == nil || *header == "" {
		return nil, nil //nolint:nilnil // no tags
	}
	q, err := url.ParseQuery(*header)
	for k, v := range q {
		if err == nil && (len(v) > 1 || !tagText.MatchString(k) || !tagText.MatchString(v[0])) {
			err = errors.New("a key twice, or characters that tags do not have")
		}
	}
	if err != nil {
		return nil, errArgument("x-amz-tagging", *header, "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.")
	}
	var list []s3types.Tag
	for k, values := range q {
		for _, v := range values {
			list = append(list, s3types.Tag{Key: aws.String(k), Value: aws.String(v)})
		}
	}
	return tagsOf(list, maxObjectTags, reservedObjectTag)
}

func tagSet(tags map[string]string) []s3types.Tag {
	return tagging.List(tags, func(k, v *string) s3types.Tag { return s3types.Tag{Key: k, Value: v} })
}

// PutBucketTagging replaces the tags of a bucket.
func (s *Service) PutBucketTagging(ctx context.Context, in *awss3.PutBucketTaggingInput) (*awss3.PutBucketTaggingOutput, error) {
	tags, err := tagsOf(in.Tagging.TagSet, maxBucketTags, "System tags cannot be added/updated by requester")
	if err != nil {
		return nil, err
	}
	return &awss3.PutBucketTaggingOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Tags = tags
		return nil
	})
}

// GetBucketTagging returns the tags of a bucket.
func (s *Service) GetBucketTagging(ctx context.Context, in *awss3.GetBucketTaggingInput) (*awss3.GetBucketTaggingOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	if len(b.Tags) == 0 {
		return nil, notFound("NoSuchTagSet", "The TagSet does not exist").With("BucketName", b.Name)
	}
	return &awss3.GetBucketTaggingOutput{TagSet: tagSet(b.Tags)}, nil
}

// DeleteBucketTagging removes the tags of a bucket.
func (s *Service) DeleteBucketTagging(ctx context.Context, in *awss3.DeleteBucketTaggingInput) (*awss3.DeleteBucketTaggingOutput, error) {
	return &awss3.DeleteBucketTaggingOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Tags = nil
		return nil
	})
}

// tagged returns the version whose tags a request is about. A delete marker has none ([recorded] test_s3_api,
// test_object_tagging_versioned).
func (s *Service) tagged(ctx context.Context, b *bucket, key string, version *string, method string) (*objectRecord, error) {
	o, err := s.version(ctx, b, key, version)
	switch awserr.CodeOf(err) {
	case "NoSuchKey":
		if marker, err := objects.Get(s.store, b.objectKey(key)); err == nil && marker.Marker {
			return nil, errMarker(&marker, method)
		}
	case "MethodNotAllowed":
		if marker, _, err := b.find(s.store, key, *version); err == nil {
			return nil, errMarker(marker, method)
		}
	}
	return o, err
}

// tagObject replaces the tags of a version. It returns the version ID if the bucket is versioned.
func (s *Service) tagObject(ctx context.Context, method string, bucketName, owner, key, version *string, tags map[string]string) (*string, error) {
	b, err := s.bucket(ctx, bucketName, owner)
	if err != nil {
		return nil, err
	}
	o, err := s.tagged(ctx, &b, aws.ToString(key), version, method)
	if err != nil {
		return nil, err
	}
	return s.changeVersion(ctx, &b, o, func(o *objectRecord) error {
		o.Tags = tags
		return nil
	})
}

// PutObjectTagging replaces the tags of an object.
func (s *Service) PutObjectTagging(ctx context.Context, in *awss3.PutObjectTaggingInput) (*awss3.PutObjectTaggingOutput, error) {
	tags, err := tagsOf(in.Tagging.TagSet, maxObjectTags, reservedObjectTag)
	if err != nil {
		return nil, err
	}
	version, err := s.tagObject(ctx, http.MethodPut, in.Bucket, in.ExpectedBucketOwner, in.Key, in.VersionId, tags)
	return &awss3.PutObjectTaggingOutput{VersionId: version}, err
}

// GetObjectTagging returns the tags of an object.
func (s *Service) GetObjectTagging(ctx context.Context, in *awss3.GetObjectTaggingInput) (*awss3.GetObjectTaggingOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	o, err := s.tagged(ctx, &b, aws.ToString(in.Key), in.VersionId, http.MethodGet)
	if err != nil {
		return nil, err
	}
	return &awss3.GetObjectTaggingOutput{TagSet: tagSet(o.Tags), VersionId: b.shownVersion(o)}, nil
}

// DeleteObjectTagging removes the tags of an object.
func (s *Service) DeleteObjectTagging(ctx context.Context, in *awss3.DeleteObjectTaggingInput) (*awss3.DeleteObjectTaggingOutput, error) {
	version, err := s.tagObject(ctx, http.MethodDelete, in.Bucket, in.ExpectedBucketOwner, in.Key, in.VersionId, nil)
	return &awss3.DeleteObjectTaggingOutput{VersionId: version}, err
}
