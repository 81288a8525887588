package ssm

import (
	"strings"

	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable is what the Resource Groups Tagging API knows of parameters.
func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, parameters, account, region, func(k store.Key, p *parameterRecord) (string, map[string]string) {
				return scope{regional.At(k.Account, k.Region)}.arn(p.Name), p.Tags
			})
		},
		Put: func(arn string, tags map[string]string) any {
			return &awsssm.AddTagsToResourceInput{ResourceId: nameIn(arn), ResourceType: ssmtypes.ResourceTypeForTaggingParameter, Tags: tagging.List(tags, func(k, v *string) ssmtypes.Tag {
				return ssmtypes.Tag{Key: k, Value: v}
			})}
		},
		Remove: func(arn string, keys []string) any {
			return &awsssm.RemoveTagsFromResourceInput{ResourceId: nameIn(arn), ResourceType: ssmtypes.ResourceTypeForTaggingParameter, TagKeys: keys}
		},
	}
}

// nameIn returns the name of the parameter with an ARN. Names with a slash begin with one, which ARNs leave out.
func nameIn(arn string) *string {
	_, name, _ := strings.Cut(arn, ":parameter/")
	if strings.Contains(name, "/") {
		name = "/" + name
	}
	return &name
}
