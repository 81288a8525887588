package ecrpublic

import (
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	publictypes "github.com/aws/aws-sdk-go-v2/service/ecrpublic/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable describes repositories for the Resource Groups Tagging API.
func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, repositories, account, region, func(k store.Key, r *repositoryRecord) (string, map[string]string) {
				return registry(k.Account).arn(r.Name), r.Tags
			})
		},
		Put: func(arn string, tags map[string]string) any {
			return &awsecrpublic.TagResourceInput{ResourceArn: &arn, Tags: tagList(tags)}
		},
		Remove: func(arn string, keys []string) any {
			return &awsecrpublic.UntagResourceInput{ResourceArn: &arn, TagKeys: keys}
		},
	}
}

func tagList(tags map[string]string) []publictypes.Tag {
	return tagging.List(tags, func(k, v *string) publictypes.Tag { return publictypes.Tag{Key: k, Value: v} })
}
