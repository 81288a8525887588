package resource

import (
	"context"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/store"
)

// TagResource adds tags to a cluster or to something of it.
func (s *Service) TagResource(ctx context.Context, in *awseks.TagResourceInput) (*awseks.TagResourceOutput, error) {
	if len(in.Tags) == 0 {
		return nil, errBadTag("tags cannot be null or empty.")
	}
	err := s.updateTags(ctx, aws.ToString(in.ResourceArn), func(tags map[string]string) error {
		if why := base.BadTags(in.Tags); why != "" {
			return errBadTag("%s", why)
		}
		maps.Copy(tags, in.Tags)
		if len(tags) > 50 {
			return errBadTag("The number of tags can't exceed 50.")
		}
		return nil
	})
	return &awseks.TagResourceOutput{}, err
}

// UntagResource removes tags.
func (s *Service) UntagResource(ctx context.Context, in *awseks.UntagResourceInput) (*awseks.UntagResourceOutput, error) {
	if len(in.TagKeys) == 0 {
		return nil, errBadTag("tagKeys cannot be null or empty.")
	}
	err := s.updateTags(ctx, aws.ToString(in.ResourceArn), func(tags map[string]string) error {
		for _, k := range in.TagKeys {
			delete(tags, k)
		}
		return nil
	})
	return &awseks.UntagResourceOutput{}, err
}

// ListTagsForResource returns a resource's tags.
func (s *Service) ListTagsForResource(ctx context.Context, in *awseks.ListTagsForResourceInput) (*awseks.ListTagsForResourceOutput, error) {
	_, t, err := s.find(ctx, s.Store, aws.ToString(in.ResourceArn))
	return &awseks.ListTagsForResourceOutput{Tags: base.TagsOrEmpty(t.tags)}, err
}

func (s *Service) updateTags(ctx context.Context, resource string, change func(map[string]string) error) error {
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		k, t, err := s.find(ctx, tx, resource)
		if err != nil {
			return err
		}
		return k.retag(tx, t.key, change)
	})
}

// find finds the caller's resource with an ARN.
func (s *Service) find(ctx context.Context, r store.Reader, resource string) (kind, tagged, error) {
	call := awsapi.CallFrom(ctx)
	a, err := arn.Parse(resource)
	if err != nil || a.Service != "eks" {
		return kind{}, tagged{}, errBadTag("Invalid resource ARN: %s", resource)
	}
	if a.Account != call.Account || a.Region != call.Region {
		return kind{}, tagged{}, errNotFound(resource)
	}
	k, t, err := byARN(r, a.Account, a.Region, a.Resource, resource)
	if err != nil {
		return k, t, store.NotFoundAs(err, errNotFound(resource))
	}
	return k, t, nil
}
