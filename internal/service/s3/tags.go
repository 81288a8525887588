package s3

import (
	"context"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
)

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html
const (
	maxBucketTags = 50
	maxObjectTags = 10
)

func tagsOf(list []s3types.Tag, most int) (map[string]string, error) {
	for _, t := range list {
		if n := utf8.RuneCountInString(aws.ToString(t.Key)); n == 0 || n > 128 {
			return nil, errTag("The TagKey you have provided is invalid")
		}
		if utf8.RuneCountInString(aws.ToString(t.Value)) > 256 {
			return nil, errTag("The TagValue you have provided is invalid")
		}
	}
	return tagging.Put(tagging.Rules{
		Most:     most,
		Reserved: func(string) error { return errTag("System tags cannot be added/updated by requester") },
		Twice:    func(string) error { return errTag("Cannot provide multiple Tags with the same key") },
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
	if err != nil {
		return nil, errArgument("x-amz-tagging", *header, "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.")
	}
	var list []s3types.Tag
	for k, values := range q {
		for _, v := range values {
			list = append(list, s3types.Tag{Key: aws.String(k), Value: aws.String(v)})
		}
	}
	return tagsOf(list, maxObjectTags)
}

func tagSet(tags map[string]string) []s3types.Tag {
	return tagging.List(tags, func(k, v *string) s3types.Tag { return s3types.Tag{Key: k, Value: v} })
}

// PutBucketTagging replaces the tags of a bucket.
func (s *Service) PutBucketTagging(ctx context.Context, in *awss3.PutBucketTaggingInput) (*awss3.PutBucketTaggingOutput, error) {
	tags, err := tagsOf(in.Tagging.TagSet, maxBucketTags)
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

// tagObject replaces the tags of a version. It returns the version ID if the bucket is versioned.
func (s *Service) tagObject(ctx context.Context, bucketName, owner, key, version *string, tags map[string]string) (*string, error) {
	b, err := s.bucket(ctx, bucketName, owner)
	if err != nil {
		return nil, err
	}
	o, err := s.version(ctx, &b, aws.ToString(key), version)
	if err != nil {
		return nil, err
	}
	return s.changeVersion(ctx, &b, o, func(o *objectRecord) { o.Tags = tags })
}

// PutObjectTagging replaces the tags of an object.
func (s *Service) PutObjectTagging(ctx context.Context, in *awss3.PutObjectTaggingInput) (*awss3.PutObjectTaggingOutput, error) {
	tags, err := tagsOf(in.Tagging.TagSet, maxObjectTags)
	if err != nil {
		return nil, err
	}
	version, err := s.tagObject(ctx, in.Bucket, in.ExpectedBucketOwner, in.Key, in.VersionId, tags)
	return &awss3.PutObjectTaggingOutput{VersionId: version}, err
}

// GetObjectTagging returns the tags of an object.
func (s *Service) GetObjectTagging(ctx context.Context, in *awss3.GetObjectTaggingInput) (*awss3.GetObjectTaggingOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	o, err := s.version(ctx, &b, aws.ToString(in.Key), in.VersionId)
	if err != nil {
		return nil, err
	}
	return &awss3.GetObjectTaggingOutput{TagSet: tagSet(o.Tags), VersionId: b.shownVersion(o)}, nil
}

// DeleteObjectTagging removes the tags of an object.
func (s *Service) DeleteObjectTagging(ctx context.Context, in *awss3.DeleteObjectTaggingInput) (*awss3.DeleteObjectTaggingOutput, error) {
	version, err := s.tagObject(ctx, in.Bucket, in.ExpectedBucketOwner, in.Key, in.VersionId, nil)
	return &awss3.DeleteObjectTaggingOutput{VersionId: version}, err
}
