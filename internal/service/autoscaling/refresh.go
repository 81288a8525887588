package autoscaling

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// keptRefreshes is how many completed refreshes of a group are kept.
const keptRefreshes = 20

// activeRefresh returns the refresh in progress, or nil if there is none.
func (s *Service) activeRefresh(r store.Reader, group store.Key) *store.Item[refreshRecord] {
	for _, i := range refreshes.All(r, group.AllBelow()) {
		if i.Value.active() {
			return &i
		}
	}
	return nil
}

// StartInstanceRefresh starts to replace a group's instances.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_StartInstanceRefresh.html
func (s *Service) StartInstanceRefresh(ctx context.Context, in *awsautoscaling.StartInstanceRefreshInput) (*awsautoscaling.StartInstanceRefreshOutput, error) {
	sc := scopeOf(ctx)
	if in.Strategy != "" && in.Strategy != autoscalingtypes.RefreshStrategyRolling {
		return nil, awserr.NotImplemented("instance refreshes of strategy " + string(in.Strategy))
	}
	g, err := s.group(s.store, sc, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	prefs, err := preferences(&g, in.Preferences)
	if err != nil {
		return nil, err
	}
	src, err := s.source(s.asService(ctx, sc.Account, sc.Region), sc, &g)
	if err != nil {
		return nil, err
	}
	id := ids.UUID()
	key := sc.group(g.name())
	err = s.changeGroup(ctx, sc, g.name(), func(tx *store.Tx, g *groupRecord) error {
		if s.activeRefresh(tx, key) != nil {
			return errRefreshInProgress()
		}
		all := members.All(tx, key.AllBelow())
		r := refreshRecord{}
		for _, m := range all {
			if m.Value.capacity() && (!aws.ToBool(prefs.SkipMatching) || !src.made(&m.Value)) &&
				(!m.Value.Protected || prefs.ScaleInProtectedInstances == autoscalingtypes.ScaleInProtectedInstancesRefresh) {
				r.Targets = append(r.Targets, m.Value.ID)
			}
		}
		r.Total = len(r.Targets)
		now := s.now()
		r.Refresh = autoscalingtypes.InstanceRefresh{
			InstanceRefreshId: &id, AutoScalingGroupName: g.Group.AutoScalingGroupName, Status: autoscalingtypes.InstanceRefreshStatusInProgress,
			StartTime: &now, PercentageComplete: aws.Int32(0), InstancesToUpdate: aws.Int32(int32(r.Total)), //nolint:gosec // a group's size
			Preferences: prefs, Strategy: autoscalingtypes.RefreshStrategyRolling,
		}
		return refreshes.Put(tx, key.Below(id), r)
	})
	if err != nil {
		return nil, err
	}
	return &awsautoscaling.StartInstanceRefreshOutput{InstanceRefreshId: &id}, s.pruneRefreshes(ctx, key)
}

// preferences returns the given preferences with AWS's defaults.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_RefreshPreferences.html
func preferences(g *groupRecord, in *autoscalingtypes.RefreshPreferences) (*autoscalingtypes.RefreshPreferences, error) {
	if in == nil {
		in = &autoscalingtypes.RefreshPreferences{}
	}
	warmup := g.Group.DefaultInstanceWarmup
	if warmup == nil {
		warmup = g.Group.HealthCheckGracePeriod
	}
	floor, ceiling := int32(90), in.MaxHealthyPercentage
	if p := g.Group.InstanceMaintenancePolicy; p != nil && in.MinHealthyPercentage == nil && ceiling == nil {
		floor, ceiling = *p.MinHealthyPercentage, p.MaxHealthyPercentage
	}
	out := &autoscalingtypes.RefreshPreferences{
		MinHealthyPercentage: orInt(in.MinHealthyPercentage, floor), MaxHealthyPercentage: ceiling, InstanceWarmup: orInt(in.InstanceWarmup, aws.ToInt32(warmup)),
		SkipMatching: aws.Bool(aws.ToBool(in.SkipMatching)), ScaleInProtectedInstances: in.ScaleInProtectedInstances, StandbyInstances: in.StandbyInstances,
		AutoRollback: aws.Bool(false),
	}
	if aws.ToBool(in.AutoRollback) {
		return nil, awserr.NotImplemented("instance refreshes that roll back")
	}
	switch out.ScaleInProtectedInstances {
	case "":
		out.ScaleInProtectedInstances = autoscalingtypes.ScaleInProtectedInstancesIgnore
	case autoscalingtypes.ScaleInProtectedInstancesWait:
		return nil, awserr.NotImplemented("instance refreshes that wait for protected instances")
	}
	switch out.StandbyInstances {
	case "":
		out.StandbyInstances = autoscalingtypes.StandbyInstancesIgnore
	case autoscalingtypes.StandbyInstancesIgnore:
	default:
		return nil, awserr.NotImplemented("instance refreshes that wait for or end instances in standby")
	}
	lo, hi := *out.MinHealthyPercentage, aws.ToInt32(out.MaxHealthyPercentage)
	if lo < 0 || lo > 100 || out.MaxHealthyPercentage != nil && (hi < 100 || hi > 200 || hi-lo > 100) {
		return nil, errValidation("The minimum healthy percentage must be between 0 and 100, the maximum between 100 and 200, and they may differ by 100 at most.") // from memory
	}
	return out, nil
}

// made reports whether an instance is what the source would launch now.
func (src *launchSource) made(m *memberRecord) bool {
	if src.template != nil {
		same := func(t *autoscalingtypes.LaunchTemplateSpecification) bool {
			return m.Template != nil && *m.Template.LaunchTemplateId == *t.LaunchTemplateId && *m.Template.Version == *t.Version
		}
		return len(src.offers) == 0 && same(src.template) || slices.ContainsFunc(src.offers, func(o offer) bool {
			return o.kind == m.Type && same(cmp.Or(o.template, src.template)) && (o.image == "" || o.image == m.Image)
		})
	}
	return m.Config == *src.config.LaunchConfigurationName
}

// CancelInstanceRefresh cancels a refresh. Instances that were replaced stay replaced.
func (s *Service) CancelInstanceRefresh(ctx context.Context, in *awsautoscaling.CancelInstanceRefreshInput) (*awsautoscaling.CancelInstanceRefreshOutput, error) {
	sc := scopeOf(ctx)
	out := &awsautoscaling.CancelInstanceRefreshOutput{}
	err := s.changeNamed(ctx, in.AutoScalingGroupName, func(tx *store.Tx, g *groupRecord) error {
		r := s.activeRefresh(tx, sc.group(g.name()))
		if r == nil {
			return errNoRefresh(g.name())
		}
		out.InstanceRefreshId = r.Value.Refresh.InstanceRefreshId
		return refreshes.Update(tx, r.Key, func(r *refreshRecord) error {
			now := s.now()
			r.Refresh.Status, r.Refresh.EndTime = autoscalingtypes.InstanceRefreshStatusCancelled, &now
			r.Refresh.StatusReason = aws.String("Cancelled due to user request.") // [seen] ansible-collections/amazon.aws
			return nil
		})
	})
	return out, err
}

// DescribeInstanceRefreshes lists refreshes, the latest first.
func (s *Service) DescribeInstanceRefreshes(ctx context.Context, in *awsautoscaling.DescribeInstanceRefreshesInput) (*awsautoscaling.DescribeInstanceRefreshesOutput, error) {
	sc := scopeOf(ctx)
	g, err := s.group(s.store, sc, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	all := s.refreshesOf(sc.group(g.name()))
	all = slices.DeleteFunc(all, func(r refreshRecord) bool {
		return len(in.InstanceRefreshIds) > 0 && !slices.Contains(in.InstanceRefreshIds, *r.Refresh.InstanceRefreshId)
	})
	all, next, err := paging.CutInOrder(pages(50, 100), all, func(r refreshRecord) string { return *r.Refresh.InstanceRefreshId }, in.MaxRecords, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awsautoscaling.DescribeInstanceRefreshesOutput{InstanceRefreshes: []autoscalingtypes.InstanceRefresh{}, NextToken: next}
	for _, r := range all {
		out.InstanceRefreshes = append(out.InstanceRefreshes, r.Refresh)
	}
	return out, nil
}

func (s *Service) refreshesOf(group store.Key) []refreshRecord {
	all := refreshes.All(s.store, group.AllBelow())
	out := make([]refreshRecord, len(all))
	for i, r := range all {
		out[i] = r.Value
	}
	slices.SortStableFunc(out, func(a, b refreshRecord) int { return b.Refresh.StartTime.Compare(*a.Refresh.StartTime) })
	return out
}

func (s *Service) pruneRefreshes(ctx context.Context, group store.Key) error {
	all := s.refreshesOf(group)
	if len(all) <= keptRefreshes {
		return nil
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		for _, r := range all[keptRefreshes:] {
			refreshes.Delete(tx, group.Below(*r.Refresh.InstanceRefreshId))
		}
		return nil
	})
}

// refresh takes one step of a refresh in a group that has as many instances as it wants. It
// terminates as many old instances as may be missing. If none may be missing, it launches their
// replacements first.
func (w *work) refresh(ctx context.Context, item store.Item[refreshRecord], all []memberRecord) (time.Duration, error) {
	r, p, now := item.Value, item.Value.Refresh.Preferences, w.s.now()
	warmup := time.Duration(*p.InstanceWarmup) * time.Second
	var left []memberRecord
	healthy := 0
	var again time.Duration
	for _, m := range all {
		switch {
		case !m.capacity():
			continue
		case slices.Contains(r.Targets, m.ID):
			left = append(left, m)
			if m.State == autoscalingtypes.LifecycleStateInService {
				healthy += w.g.weight(&m)
			}
		case m.State == autoscalingtypes.LifecycleStateInService:
			// Only replacements need to warm up.
			if wait := warmup - now.Sub(m.InService); m.Launched.After(*r.Refresh.StartTime) && wait > 0 {
				again = earlier(again, wait)
				continue
			}
			healthy += w.g.weight(&m)
		}
	}
	want := w.g.desired()
	done := len(left) == 0 && healthy >= want
	if err := w.tell(ctx, item.Key, &r, len(left), done); err != nil || done || len(left) == 0 {
		return again, err
	}
	return again, w.exchange(ctx, all, left, healthy, *p.MinHealthyPercentage, aws.ToInt32(p.MaxHealthyPercentage), refreshOwed, refreshCause)
}

// exchange takes one step of replacing the instances in left: it terminates as many as the floor, a
// percentage of the desired capacity, allows. If the floor is 100, it launches replacements first,
// up to the ceiling, and scaleIn terminates as many of the old ones.
func (w *work) exchange(ctx context.Context, all, left []memberRecord, healthy int, floor, ceiling int32, owed, cause string) error {
	want := w.g.desired()
	if !w.g.runs("Launch") {
		return nil
	}
	if floor == 100 {
		if healthy < want {
			return nil
		}
		return w.plan(ctx, all, min(max(1, want*int(ceiling-100)/100), w.g.units(left)), owed)
	}
	n := max(1, want-(want*int(floor)+99)/100) - (want - healthy)
	if n <= 0 || !w.g.runs("Terminate") {
		return nil
	}
	slices.SortFunc(left, func(a, b memberRecord) int { return a.Launched.Compare(b.Launched) })
	var leave []memberRecord
	for _, m := range left { // one always goes, even if it counts as more than the floor allows
		if k := w.g.weight(&m); len(leave) == 0 || k <= n {
			leave = append(leave, m)
			n -= k
		}
	}
	err := groups.UpdateOne(ctx, w.s.store, w.key, func(g *groupRecord) error {
		for _, m := range leave {
			g.owe(owed, g.weight(&m))
		}
		return nil
	})
	if err != nil {
		return store.IgnoreNotFound(err)
	}
	return w.end(ctx, leave, w.whyScaleIn(leave, want, cause), false)
}

// tell records the progress of a refresh.
func (w *work) tell(ctx context.Context, key store.Key, r *refreshRecord, left int, done bool) error {
	percent := int32(100)
	if r.Total > 0 && !done {
		percent = int32(100 * (r.Total - left) / r.Total) //nolint:gosec // a percentage
	}
	if *r.Refresh.PercentageComplete == percent && int(*r.Refresh.InstancesToUpdate) == left && !done {
		return nil
	}
	return store.IgnoreNotFound(refreshes.UpdateOne(ctx, w.s.store, key, func(r *refreshRecord) error {
		if !r.active() {
			return nil
		}
		r.Refresh.PercentageComplete, r.Refresh.InstancesToUpdate = &percent, aws.Int32(int32(left)) //nolint:gosec // a group's size
		if done {
			now := w.s.now()
			r.Refresh.Status, r.Refresh.EndTime = autoscalingtypes.InstanceRefreshStatusSuccessful, &now
		}
		return nil
	}))
}
