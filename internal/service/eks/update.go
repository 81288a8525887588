package eks

import (
	"context"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// newUpdate returns an update that begins now.
func (s *Service) newUpdate(t ekstypes.UpdateType, params ...ekstypes.UpdateParam) *updateRecord {
	return &updateRecord{Update: ekstypes.Update{
		Id:        new(ids.UUID()),
		Status:    ekstypes.UpdateStatusInProgress,
		Type:      t,
		Params:    params,
		CreatedAt: new(s.clock.Now().UTC().Truncate(time.Millisecond)),
		Errors:    []ekstypes.ErrorDetail{},
	}}
}

// DescribeUpdate returns an update of a cluster or of one of its node groups.
func (s *Service) DescribeUpdate(ctx context.Context, in *awseks.DescribeUpdateInput) (*awseks.DescribeUpdateOutput, error) {
	key, _, err := s.cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	if in.UpdateId == nil || *in.UpdateId == "" {
		return nil, errMissing("updateId")
	}
	up, err := updates.Get(s.store, below(key, *in.UpdateId))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoUpdate(*in.UpdateId))
	}
	if up.Nodegroup != text(in.NodegroupName) || up.Addon != text(in.AddonName) {
		return nil, errNoUpdate(*in.UpdateId)
	}
	return &awseks.DescribeUpdateOutput{Update: &up.Update}, nil
}

// ListUpdates returns the IDs of the updates of a cluster, a node group or an add-on.
func (s *Service) ListUpdates(ctx context.Context, in *awseks.ListUpdatesInput) (*awseks.ListUpdatesOutput, error) {
	key, _, err := s.cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	if in.NodegroupName != nil {
		if _, err := nodegroups.Get(s.store, below(key, *in.NodegroupName)); err != nil {
			return nil, store.NotFoundAs(err, errNoNodegroup(key.ID, *in.NodegroupName))
		}
	}
	if in.AddonName != nil {
		if _, err := addonRecords.Get(s.store, below(key, *in.AddonName)); err != nil {
			return nil, store.NotFoundAs(err, errNoAddon(key.ID, *in.AddonName))
		}
	}
	items, err := updates.List(s.store, allBelow(key))
	if err != nil {
		return nil, err
	}
	var of []store.Item[updateRecord]
	for _, i := range items {
		if i.Value.Nodegroup == text(in.NodegroupName) && i.Value.Addon == text(in.AddonName) {
			of = append(of, i)
		}
	}
	of, next, err := page(of, func(i store.Item[updateRecord]) string { return i.Key.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awseks.ListUpdatesOutput{UpdateIds: []string{}, NextToken: next}
	for _, i := range of {
		out.UpdateIds = append(out.UpdateIds, *i.Value.Update.Id)
	}
	return out, nil
}

// repeatedUpdate returns the update that a request with token made before, nil
// if there is none.
func (s *Service) repeatedUpdate(r store.Reader, cluster store.Key, token *string, request string) (*ekstypes.Update, error) {
	if token == nil {
		return nil, nil
	}
	items, err := updates.List(r, allBelow(cluster))
	if err != nil {
		return nil, err
	}
	for _, i := range items {
		if i.Value.Token != *token {
			continue
		}
		if i.Value.Request != request {
			return nil, errTokenReused(cluster.ID)
		}
		return &i.Value.Update, nil
	}
	return nil, nil
}

// updateInProgress returns the refusal of what, naming the update that runs.
func (s *Service) updateInProgress(r store.Reader, cluster store.Key, nodegroup, what string) error {
	items, err := updates.List(r, allBelow(cluster))
	if err != nil {
		return err
	}
	id := "unknown"
	for _, i := range items {
		if i.Value.Nodegroup == nodegroup && i.Value.Addon == "" && i.Value.Update.Status == ekstypes.UpdateStatusInProgress {
			id = *i.Value.Update.Id
		}
	}
	return errUpdateInProgress(what, cluster.ID, id)
}

// text is the string p points to, or "".
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
