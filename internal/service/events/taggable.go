package events

import (
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable is what the Resource Groups Tagging API knows of buses and rules.
func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			out := module.Resources(s.store, buses, account, region, func(k store.Key, b *busRecord) (string, map[string]string) {
				return scopeAt(k.Account, k.Region).busARN(b.Name), b.Tags
			})
			return append(out, module.Resources(s.store, rules, account, region, func(k store.Key, r *ruleRecord) (string, map[string]string) {
				return scopeAt(k.Account, k.Region).ruleARN(r.Bus, r.Name), r.Tags
			})...)
		},
		Put: func(arn string, tags map[string]string) any {
			return &awsevents.TagResourceInput{ResourceARN: &arn, Tags: tagging.List(tags, func(k, v *string) eventstypes.Tag { return eventstypes.Tag{Key: k, Value: v} })}
		},
		Remove: func(arn string, keys []string) any {
			return &awsevents.UntagResourceInput{ResourceARN: &arn, TagKeys: keys}
		},
	}
}
