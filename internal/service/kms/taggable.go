package kms

import (
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable is what the Resource Groups Tagging API knows of KMS.
func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, keys, account, region, func(_ store.Key, k *keyRecord) (string, map[string]string) { return k.ARN, k.Tags })
		},
		Put: func(arn string, tags map[string]string) any {
			return &awskms.TagResourceInput{KeyId: &arn, Tags: tagging.List(tags, func(k, v *string) kmstypes.Tag { return kmstypes.Tag{TagKey: k, TagValue: v} })}
		},
		Remove: func(arn string, keys []string) any { return &awskms.UntagResourceInput{KeyId: &arn, TagKeys: keys} },
	}
}
