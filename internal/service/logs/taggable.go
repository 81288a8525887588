package logs

import (
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable is what the Resource Groups Tagging API knows of log groups.
func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, groups, account, region, func(k store.Key, g *groupRecord) (string, map[string]string) {
				return scope{regional.At(k.Account, k.Region)}.groupARN(k.ID), g.Tags
			})
		},
		Put: func(arn string, tags map[string]string) any {
			return &awslogs.TagResourceInput{ResourceArn: &arn, Tags: tags}
		},
		Remove: func(arn string, keys []string) any {
			return &awslogs.UntagResourceInput{ResourceArn: &arn, TagKeys: keys}
		},
	}
}
