package cloudtrail

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable lets the Resource Groups Tagging API list trails and change their tags.
func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, trails, account, region, func(k store.Key, r *trailRecord) (string, map[string]string) { return trailARN(k), r.Tags })
		},
		Put: func(arn string, tags map[string]string) any {
			return &awscloudtrail.AddTagsInput{ResourceId: &arn, TagsList: tagging.List(tags, func(k, v *string) cloudtrailtypes.Tag { return cloudtrailtypes.Tag{Key: k, Value: v} })}
		},
		Remove: func(arn string, keys []string) any {
			in := &awscloudtrail.RemoveTagsInput{ResourceId: &arn}
			for _, k := range keys {
				in.TagsList = append(in.TagsList, cloudtrailtypes.Tag{Key: aws.String(k)})
			}
			return in
		},
	}
}
