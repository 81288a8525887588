package elb

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable is what the Resource Groups Tagging API knows of Classic Load Balancers.
func (s *Service) taggable() module.Tagging {
	named := func(name string) []string { return []string{name[strings.LastIndexByte(name, '/')+1:]} }
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.Store, loadBalancers, account, region, func(k store.Key, r *loadBalancerRecord) (string, map[string]string) {
				return arn.New("elasticloadbalancing", k.Region, k.Account, "loadbalancer/"+r.Name), r.Tags
			})
		},
		Put: func(name string, tags map[string]string) any {
			return &awselb.AddTagsInput{LoadBalancerNames: named(name), Tags: tagging.List(tags, func(k, v *string) elbtypes.Tag { return elbtypes.Tag{Key: k, Value: v} })}
		},
		Remove: func(name string, keys []string) any {
			in := &awselb.RemoveTagsInput{LoadBalancerNames: named(name)}
			for _, k := range keys {
				in.Tags = append(in.Tags, elbtypes.TagKeyOnly{Key: aws.String(k)})
			}
			return in
		},
	}
}
