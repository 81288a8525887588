// Package resource handles what all kinds of EKS resources have in common: tags, updates, and
// authorization by name or ARN.
package resource

import (
	"context"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks/addon"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/capability"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/nodegroup"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations on tags and updates.
type Service struct{ *base.Service }

// New returns the part of EKS that handles tags and updates.
func New(b *base.Service) *Service { return &Service{b} }

// TagResource adds tags to a cluster or to a resource in it.
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

// DescribeUpdate returns an update of a cluster, a node group, an add-on or a capability.
func (s *Service) DescribeUpdate(ctx context.Context, in *awseks.DescribeUpdateInput) (*awseks.DescribeUpdateOutput, error) {
	key, _, err := s.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	if in.UpdateId == nil || *in.UpdateId == "" {
		return nil, ekserr.Missing("updateId")
	}
	up, err := record.Updates.Get(s.Store, key.Below(*in.UpdateId))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoUpdate(*in.UpdateId))
	}
	if up.Nodegroup != aws.ToString(in.NodegroupName) || up.Addon != aws.ToString(in.AddonName) || up.Capability != aws.ToString(in.CapabilityName) {
		return nil, errNoUpdate(*in.UpdateId)
	}
	return &awseks.DescribeUpdateOutput{Update: &up.Update}, nil
}

// ListUpdates returns the IDs of the updates of a cluster, a node group, an add-on or a capability.
func (s *Service) ListUpdates(ctx context.Context, in *awseks.ListUpdatesInput) (*awseks.ListUpdatesOutput, error) {
	key, _, err := s.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	if in.NodegroupName != nil {
		if _, err := record.Nodegroups.Get(s.Store, key.Below(*in.NodegroupName)); err != nil {
			return nil, store.NotFoundAs(err, nodegroup.NotFound(key.ID, *in.NodegroupName))
		}
	}
	if in.AddonName != nil {
		if _, err := record.Addons.Get(s.Store, key.Below(*in.AddonName)); err != nil {
			return nil, store.NotFoundAs(err, addon.NotFound(key.ID, *in.AddonName))
		}
	}
	if in.CapabilityName != nil {
		if _, err := record.Capabilities.Get(s.Store, key.Below(*in.CapabilityName)); err != nil {
			return nil, store.NotFoundAs(err, capability.NotFound(key.ID, *in.CapabilityName))
		}
	}
	ids, next, err := base.PageBelow(s.Service, record.Updates, key, func(u *record.Update) bool {
		return u.Nodegroup == aws.ToString(in.NodegroupName) && u.Addon == aws.ToString(in.AddonName) && u.Capability == aws.ToString(in.CapabilityName)
	}, func(i store.Item[record.Update]) string { return *i.Value.Update.Id }, in.MaxResults, in.NextToken)
	return &awseks.ListUpdatesOutput{UpdateIds: ids, NextToken: next}, err
}

// The tagging operations have exception types of their own.
func errNotFound(arn string) error {
	return &ekstypes.NotFoundException{Message: new(fmt.Sprintf("The specified resource could not be found: %s", arn))}
}

func errBadTag(format string, args ...any) error {
	return &ekstypes.BadRequestException{Message: new(fmt.Sprintf(format, args...))}
}

func errNoUpdate(id string) error { return ekserr.NotFound("No update found for ID: %s", id) }
