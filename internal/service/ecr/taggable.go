package ecr

import (
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable describes repositories for the Resource Groups Tagging API.
func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, repositories, account, region, func(k store.Key, r *repositoryRecord) (string, map[string]string) {
				return scope{regional.At(k.Account, k.Region)}.arn(r.Name), r.Tags
			})
		},
		Put: func(arn string, tags map[string]string) any {
			return &awsecr.TagResourceInput{ResourceArn: &arn, Tags: tagging.List(tags, func(k, v *string) ecrtypes.Tag { return ecrtypes.Tag{Key: k, Value: v} })}
		},
		Remove: func(arn string, keys []string) any {
			return &awsecr.UntagResourceInput{ResourceArn: &arn, TagKeys: keys}
		},
	}
}
