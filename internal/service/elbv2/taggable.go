package elbv2

import (
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable is what the Resource Groups Tagging API knows of load balancers and their parts.
func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			out := module.Resources(s.Store, loadBalancers, account, region, func(_ store.Key, r *loadBalancerRecord) (string, map[string]string) { return r.arn(), r.Tags })
			out = append(out, module.Resources(s.Store, targetGroups, account, region, func(_ store.Key, r *targetGroupRecord) (string, map[string]string) { return r.arn(), r.Tags })...)
			out = append(out, module.Resources(s.Store, listeners, account, region, func(_ store.Key, r *listenerRecord) (string, map[string]string) { return r.arn(), r.Tags })...)
			return append(out, module.Resources(s.Store, rules, account, region, func(_ store.Key, r *ruleRecord) (string, map[string]string) { return r.arn(), r.Tags })...)
		},
		Put: func(arn string, tags map[string]string) any {
			return &awselbv2.AddTagsInput{ResourceArns: []string{arn}, Tags: tagging.List(tags, func(k, v *string) elbv2types.Tag { return elbv2types.Tag{Key: k, Value: v} })}
		},
		Remove: func(arn string, keys []string) any {
			return &awselbv2.RemoveTagsInput{ResourceArns: []string{arn}, TagKeys: keys}
		},
	}
}
