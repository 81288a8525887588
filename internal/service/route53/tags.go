package route53

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

func tagList(tags map[string]string) []route53types.Tag {
	return tagging.List(tags, func(k, v *string) route53types.Tag { return route53types.Tag{Key: k, Value: v} })
}

// ChangeTagsForResource adds, replaces and removes tags of a zone.
func (s *Service) ChangeTagsForResource(ctx context.Context, in *awsroute53.ChangeTagsForResourceInput) (*awsroute53.ChangeTagsForResourceOutput, error) {
	if in.ResourceType != route53types.TagResourceTypeHostedzone {
		return nil, errNoHealthCheck(bare(in.ResourceId))
	}
	rules := tagging.Rules{Most: 50, Reserved: errReservedTag, TooMany: errManyTags}
	err := s.changeZone(ctx, in.ResourceId, func(z *zoneRecord) error {
		kept := map[string]string{}
		for k, v := range z.Tags {
			if !slices.Contains(in.RemoveTagKeys, k) {
				kept[k] = v
			}
		}
		var err error
		z.Tags, err = tagging.Put(rules, kept, in.AddTags, func(t route53types.Tag) (key, value *string) { return t.Key, t.Value })
		return err
	})
	return &awsroute53.ChangeTagsForResourceOutput{}, err
}

func (s *Service) tagSet(ctx context.Context, kind route53types.TagResourceType, id string) (route53types.ResourceTagSet, error) {
	if kind != route53types.TagResourceTypeHostedzone {
		return route53types.ResourceTagSet{}, errNoHealthCheck(id)
	}
	z, err := s.zone(s.store, caller(ctx), &id)
	return route53types.ResourceTagSet{ResourceId: &z.ID, ResourceType: kind, Tags: tagList(z.Tags)}, err
}

// ListTagsForResource lists the tags of a zone.
func (s *Service) ListTagsForResource(ctx context.Context, in *awsroute53.ListTagsForResourceInput) (*awsroute53.ListTagsForResourceOutput, error) {
	out, err := s.tagSet(ctx, in.ResourceType, aws.ToString(in.ResourceId))
	return &awsroute53.ListTagsForResourceOutput{ResourceTagSet: &out}, err
}

// ListTagsForResources lists the tags of several zones.
func (s *Service) ListTagsForResources(ctx context.Context, in *awsroute53.ListTagsForResourcesInput) (*awsroute53.ListTagsForResourcesOutput, error) {
	out := &awsroute53.ListTagsForResourcesOutput{ResourceTagSets: []route53types.ResourceTagSet{}}
	for _, id := range in.ResourceIds {
		set, err := s.tagSet(ctx, in.ResourceType, id)
		if err != nil {
			return nil, err
		}
		out.ResourceTagSets = append(out.ResourceTagSets, set)
	}
	return out, nil
}

// taggable describes zones for the Resource Groups Tagging API.
func (s *Service) taggable() module.Tagging {
	id := func(arn string) *string { return aws.String(bare(&arn)) }
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, zones, account, region, func(_ store.Key, z *zoneRecord) (string, map[string]string) {
				return zoneARN(z.ID), z.Tags
			})
		},
		Put: func(arn string, tags map[string]string) any {
			return &awsroute53.ChangeTagsForResourceInput{ResourceType: route53types.TagResourceTypeHostedzone, ResourceId: id(arn), AddTags: tagList(tags)}
		},
		Remove: func(arn string, keys []string) any {
			return &awsroute53.ChangeTagsForResourceInput{ResourceType: route53types.TagResourceTypeHostedzone, ResourceId: id(arn), RemoveTagKeys: keys}
		},
	}
}
