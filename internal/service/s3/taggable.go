package s3

import (
	"maps"
	"strings"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable describes buckets for the Resource Groups Tagging API. S3's own operations can only replace all tags of a
// bucket.
func (s *Service) taggable() module.Tagging {
	put := func(arn string, change func(tags map[string]string)) any {
		name := strings.TrimPrefix(arn, bucketARN(""))
		tags := map[string]string{}
		if b, err := s.lookup(s.store, "", "", name); err == nil {
			maps.Copy(tags, b.Tags)
		}
		if change(tags); len(tags) == 0 {
			return &awss3.DeleteBucketTaggingInput{Bucket: &name}
		}
		return &awss3.PutBucketTaggingInput{Bucket: &name, Tagging: &s3types.Tagging{TagSet: tagSet(tags)}}
	}
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, buckets, account, region, func(k store.Key, b *bucketRecord) (string, map[string]string) {
				return bucketARN(k.ID), b.Tags
			})
		},
		Put: func(arn string, added map[string]string) any {
			return put(arn, func(tags map[string]string) { maps.Copy(tags, added) })
		},
		Remove: func(arn string, keys []string) any {
			return put(arn, func(tags map[string]string) {
				for _, k := range keys {
					delete(tags, k)
				}
			})
		},
	}
}
