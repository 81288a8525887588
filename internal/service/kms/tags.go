package kms

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
)

// maxTags is the maximum number of tags per key.
// https://docs.aws.amazon.com/kms/latest/developerguide/tagging-keys.html
const maxTags = 50

var tagRules = tagging.Rules{
	Most:     maxTags,
	Reserved: func(string) error { return errTags("Tags beginning with aws: are reserved") },
	Twice:    func(string) error { return errTags("Duplicate tag keys") },
	TooMany:  func() error { return errTags("Too many tags") },
}

// tagMap adds tags to existing ones.
func tagMap(old map[string]string, tags []kmstypes.Tag) (map[string]string, error) {
	return tagging.Put(tagRules, old, tags, func(t kmstypes.Tag) (key, value *string) { return t.TagKey, t.TagValue })
}

// TagResource adds or replaces tags of a key.
func (s *Service) TagResource(ctx context.Context, in *awskms.TagResourceInput) (*awskms.TagResourceOutput, error) {
	return &awskms.TagResourceOutput{}, s.change(ctx, in.KeyId, func(k *keyRecord) (err error) {
		if err := notDeleting(k); err != nil {
			return err
		}
		k.Tags, err = tagMap(k.Tags, in.Tags)
		return err
	})
}

// UntagResource removes tags from a key. It is not an error if the key does not have a tag.
func (s *Service) UntagResource(ctx context.Context, in *awskms.UntagResourceInput) (*awskms.UntagResourceOutput, error) {
	return &awskms.UntagResourceOutput{}, s.change(ctx, in.KeyId, func(k *keyRecord) error {
		if err := notDeleting(k); err != nil {
			return err
		}
		for _, key := range in.TagKeys {
			delete(k.Tags, key)
		}
		return nil
	})
}

// ListResourceTags lists a key's tags.
func (s *Service) ListResourceTags(ctx context.Context, in *awskms.ListResourceTagsInput) (*awskms.ListResourceTagsOutput, error) {
	page, err := newPage(in.Limit, in.Marker, 50)
	if err != nil {
		return nil, err
	}
	rec, _, err := s.findOwn(ctx, s.store, in.KeyId)
	if err != nil {
		return nil, err
	}
	out := &awskms.ListResourceTagsOutput{Tags: []kmstypes.Tag{}}
	for _, k := range slices.Sorted(maps.Keys(rec.Tags)) {
		if k <= page.After {
			continue
		}
		if page.Full() {
			break
		}
		out.Tags = append(out.Tags, kmstypes.Tag{TagKey: &k, TagValue: aws.String(rec.Tags[k])})
		page.Add(k)
	}
	out.NextMarker = page.Next()
	out.Truncated = out.NextMarker != nil
	return out, nil
}
