package resource

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/drydock-dev/drydock/internal/service/eks/addon"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/nodegroup"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// DescribeUpdate returns an update of a cluster or of one of its node groups.
func (s *Service) DescribeUpdate(ctx context.Context, in *awseks.DescribeUpdateInput) (*awseks.DescribeUpdateOutput, error) {
	key, _, err := s.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	if in.UpdateId == nil || *in.UpdateId == "" {
		return nil, ekserr.Missing("updateId")
	}
	up, err := record.Updates.Get(s.Store, record.Below(key, *in.UpdateId))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoUpdate(*in.UpdateId))
	}
	if up.Nodegroup != aws.ToString(in.NodegroupName) || up.Addon != aws.ToString(in.AddonName) {
		return nil, errNoUpdate(*in.UpdateId)
	}
	return &awseks.DescribeUpdateOutput{Update: &up.Update}, nil
}

// ListUpdates returns the IDs of the updates of a cluster, a node group or an add-on.
func (s *Service) ListUpdates(ctx context.Context, in *awseks.ListUpdatesInput) (*awseks.ListUpdatesOutput, error) {
	key, _, err := s.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	if in.NodegroupName != nil {
		if _, err := record.Nodegroups.Get(s.Store, record.Below(key, *in.NodegroupName)); err != nil {
			return nil, store.NotFoundAs(err, nodegroup.NotFound(key.ID, *in.NodegroupName))
		}
	}
	if in.AddonName != nil {
		if _, err := record.Addons.Get(s.Store, record.Below(key, *in.AddonName)); err != nil {
			return nil, store.NotFoundAs(err, addon.NotFound(key.ID, *in.AddonName))
		}
	}
	ids, next, err := base.PageBelow(s.Service, record.Updates, key, func(u *record.Update) bool {
		return u.Nodegroup == aws.ToString(in.NodegroupName) && u.Addon == aws.ToString(in.AddonName)
	}, func(i store.Item[record.Update]) string { return *i.Value.Update.Id }, in.MaxResults, in.NextToken)
	return &awseks.ListUpdatesOutput{UpdateIds: ids, NextToken: next}, err
}
