package autoscaling

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
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
	next := g
	var desired *autoscalingtypes.DesiredConfiguration
	if c := in.DesiredConfiguration; c != nil && (c.LaunchTemplate != nil || c.MixedInstancesPolicy != nil) {
		if err := s.setSource(ctx, sc, &next, source{template: c.LaunchTemplate, mixed: c.MixedInstancesPolicy}); err != nil {
			return nil, err
		}
		desired = &autoscalingtypes.DesiredConfiguration{LaunchTemplate: next.Group.LaunchTemplate, MixedInstancesPolicy: next.Group.MixedInstancesPolicy}
	}
	if *prefs.AutoRollback {
		if desired == nil {
			return nil, errRollbackWithoutDesired()
		}
		if err := s.reversible(ctx, sc, &g); err != nil {
			return nil, err
		}
	}
	src, err := s.source(s.asService(ctx, sc.Account, sc.Region), sc, &next)
	if err != nil {
		return nil, err
	}
	id := ids.UUID()
	key := sc.group(g.name())
	err = s.changeGroup(ctx, sc, g.name(), func(tx *store.Tx, g *groupRecord) error {
		if s.activeRefresh(tx, key) != nil {
			return errRefreshInProgress()
		}
		now := s.now()
		r := refreshRecord{Since: now}
		for _, m := range members.All(tx, key.AllBelow()) {
			r.Before = append(r.Before, m.Value.ID)
			standby := m.Value.State == autoscalingtypes.LifecycleStateStandby && prefs.StandbyInstances != autoscalingtypes.StandbyInstancesIgnore
			ignored := m.Value.Protected && prefs.ScaleInProtectedInstances == autoscalingtypes.ScaleInProtectedInstancesIgnore
			warm := m.Value.warm() && !m.Value.terminating()
			if (warm || (standby || m.Value.capacity()) && !ignored) && (!aws.ToBool(prefs.SkipMatching) || !src.made(&m.Value)) {
				r.Targets = append(r.Targets, m.Value.ID)
			}
		}
		r.Total, r.Left = len(r.Targets), len(r.Targets)
		r.Refresh = autoscalingtypes.InstanceRefresh{
			InstanceRefreshId: &id, AutoScalingGroupName: g.Group.AutoScalingGroupName, Status: autoscalingtypes.InstanceRefreshStatusInProgress,
			StartTime: &now, PercentageComplete: aws.Int32(0), InstancesToUpdate: aws.Int32(int32(r.Total)), //nolint:gosec // a group's size
			Preferences: prefs, Strategy: autoscalingtypes.RefreshStrategyRolling, DesiredConfiguration: desired,
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
		SkipMatching: aws.Bool(aws.ToBool(in.SkipMatching)), AutoRollback: aws.Bool(aws.ToBool(in.AutoRollback)), BakeTime: in.BakeTime,
		ScaleInProtectedInstances: cmp.Or(in.ScaleInProtectedInstances, autoscalingtypes.ScaleInProtectedInstancesWait),
		StandbyInstances:          cmp.Or(in.StandbyInstances, autoscalingtypes.StandbyInstancesWait),
	}
	if in.AlarmSpecification != nil && len(in.AlarmSpecification.Alarms) > 0 {
		return nil, awserr.NotImplemented("instance refreshes that watch CloudWatch alarms")
	}
	if c := in.CheckpointPercentages; len(c) > 0 {
		for i := range c {
			if c[i] < 1 || c[i] > 100 || i > 0 && c[i] <= c[i-1] {
				return nil, errCheckpoints()
			}
		}
		out.CheckpointPercentages, out.CheckpointDelay = c, orInt(in.CheckpointDelay, 3600)
	} else if in.CheckpointDelay != nil {
		return nil, errCheckpointDelay()
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

// RollbackInstanceRefresh replaces what a refresh has launched by instances of the group's own configuration, which a refresh
// changes only at its end. https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_RollbackInstanceRefresh.html
func (s *Service) RollbackInstanceRefresh(ctx context.Context, in *awsautoscaling.RollbackInstanceRefreshInput) (*awsautoscaling.RollbackInstanceRefreshOutput, error) {
	sc := scopeOf(ctx)
	g, err := s.group(s.store, sc, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	key := sc.group(g.name())
	r := s.activeRefresh(s.store, key)
	if r == nil {
		return nil, errNoRefresh(g.name())
	}
	if r.Value.Refresh.DesiredConfiguration == nil {
		return nil, errIrreversible()
	}
	if err := s.reversible(ctx, sc, &g); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		return refreshes.Update(tx, r.Key, func(r *refreshRecord) error {
			switch {
			case !r.active():
				return errNoRefresh(g.name())
			case r.rollingBack():
				return nil
			}
			r.rollBack(s.now(), "Rollback initiated by a user request.") // from memory
			return nil
		})
	})
	return &awsautoscaling.RollbackInstanceRefreshOutput{InstanceRefreshId: r.Value.Refresh.InstanceRefreshId}, err
}

// reversible refuses what a group cannot be rolled back to: a version of a launch template that may be another one by then, or an image that
// a parameter names.
func (s *Service) reversible(ctx context.Context, sc scope, g *groupRecord) error {
	spec := g.Group.LaunchTemplate
	if p := g.Group.MixedInstancesPolicy; p != nil {
		spec = p.LaunchTemplate.LaunchTemplateSpecification
	}
	if spec == nil {
		return nil
	}
	if _, err := strconv.ParseUint(aws.ToString(spec.Version), 10, 63); err != nil {
		return errIrreversible()
	}
	_, _, data, err := s.template(s.asService(ctx, sc.Account, sc.Region), &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: spec.LaunchTemplateId, Version: spec.Version})
	if err == nil && strings.HasPrefix(aws.ToString(data.ImageId), "resolve:ssm:") {
		err = errIrreversible()
	}
	return err
}

// rollBack turns a refresh round: its targets are now the instances that it launched.
func (r *refreshRecord) rollBack(now time.Time, why string) {
	f := &r.Refresh
	r.Targets, r.Total, r.Left, r.Since, r.Until = nil, 0, 0, now, time.Time{} // the next step finds them
	f.Status = autoscalingtypes.InstanceRefreshStatusRollbackInProgress
	f.RollbackDetails = &autoscalingtypes.RollbackDetails{
		RollbackReason: &why, RollbackStartTime: &now, PercentageCompleteOnRollback: f.PercentageComplete, InstancesToUpdateOnRollback: f.InstancesToUpdate,
	}
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

// refreshPatience is how long a refresh goes on without progress before it fails.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/instance-refresh-overview.html#instance-refresh-limitations
const refreshPatience = time.Hour

// refresh takes one step of a refresh in a group that has as many instances as it wants. It
// terminates as many old instances as may be missing. If none may be missing, it launches their
// replacements first. It pauses at checkpoints, and before its end for the bake time. The instances of the warm pool are
// replaced last.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html#update-warm-pool
//
// AWS deviation: a refresh has no ProgressDetails.
func (w *work) refresh(ctx context.Context, item store.Item[refreshRecord], all []memberRecord) (time.Duration, error) {
	r, p, now := item.Value, item.Value.Refresh.Preferences, w.s.now()
	warmup := time.Duration(*p.InstanceWarmup) * time.Second
	if r.rollingBack() {
		if found, err := w.launchedByRefresh(ctx, item, all); found || err != nil {
			return 0, err
		}
	}
	var ready, held, standby, warm []memberRecord // the targets that are left
	healthy, rested := 0, 0
	var again time.Duration
	for _, m := range all {
		target, serving := slices.Contains(r.Targets, m.ID), m.State == autoscalingtypes.LifecycleStateInService
		switch {
		case target && m.State == autoscalingtypes.LifecycleStateStandby:
			standby = append(standby, m)
		case target && m.warm() && !m.terminating():
			warm = append(warm, m)
		case m.rested() && !m.Unhealthy:
			rested++
		case !m.capacity():
			continue
		case target && m.Protected && p.ScaleInProtectedInstances == autoscalingtypes.ScaleInProtectedInstancesWait:
			held = append(held, m)
		case target:
			ready = append(ready, m)
		}
		if !serving {
			continue
		}
		// Only replacements need to warm up.
		if wait := warmup - now.Sub(m.InService); !target && r.launched(&m) && wait > 0 {
			again = earlier(again, wait)
			continue
		}
		healthy += w.g.weight(&m)
	}
	serving := len(ready) + len(held) + len(standby)
	left := serving + len(warm)
	goal, last := r.goal()
	quota := (goal*r.Total+99)/100 - (r.Total - left)
	pause := r.Until.Sub(now)
	reached := pause <= 0 && quota <= 0 && healthy >= w.g.desired() && (!last || rested >= w.g.poolSize())
	if changed, err := w.tell(ctx, item.Key, &r, left, reached, last); err != nil || changed {
		return again, err // a change triggers the next reconciliation
	}
	if pause > 0 {
		return earlier(again, pause), nil
	}
	if quota <= 0 {
		return again, nil
	}
	if serving == 0 && healthy >= w.g.desired() && w.g.runs("Terminate") {
		warm = warm[:min(len(warm), quota)]
		return again, w.end(ctx, warm, w.whyScaleIn(warm, w.g.desired(), refreshCause), false)
	}
	if len(standby) > 0 && p.StandbyInstances == autoscalingtypes.StandbyInstancesTerminate {
		standby = standby[:min(len(standby), quota)]
		return again, w.end(ctx, standby, w.whyScaleIn(standby, w.g.desired(), refreshCause), false)
	}
	if len(ready) == 0 {
		return again, nil
	}
	slices.SortFunc(ready, func(a, b memberRecord) int { return a.Launched.Compare(b.Launched) })
	return again, w.exchange(ctx, all, ready[:min(len(ready), quota)], healthy, *p.MinHealthyPercentage, aws.ToInt32(p.MaxHealthyPercentage), refreshOwed, refreshCause)
}

// launchedByRefresh adds instances to the targets of a rollback, and returns whether there are any: those that the refresh has launched, even if
// the launch had only begun before the rollback.
func (w *work) launchedByRefresh(ctx context.Context, item store.Item[refreshRecord], all []memberRecord) (bool, error) {
	src, err := w.s.source(w.svc, w.scope(), &w.g)
	if err != nil {
		return false, err
	}
	var found []string
	for _, m := range all {
		if (m.capacity() || m.warm() && !m.terminating()) && item.Value.launched(&m) && !src.made(&m) && !slices.Contains(item.Value.Targets, m.ID) {
			found = append(found, m.ID)
		}
	}
	if len(found) == 0 {
		return false, nil
	}
	return true, store.IgnoreNotFound(refreshes.UpdateOne(ctx, w.s.store, item.Key, func(r *refreshRecord) error {
		r.Targets, r.Total, r.Left = append(slices.Clone(r.Targets), found...), r.Total+len(found), r.Left+len(found)
		return nil
	}))
}

// launched reports whether an instance came after the refresh's start.
func (r *refreshRecord) launched(m *memberRecord) bool { return !slices.Contains(r.Before, m.ID) }

// goal returns the percentage of targets to replace before the next pause, and whether it is the last one.
func (r *refreshRecord) goal() (percent int, last bool) {
	c := r.Refresh.Preferences.CheckpointPercentages
	if len(c) == 0 || r.rollingBack() {
		return 100, true
	}
	i := min(r.Reached, len(c)-1)
	return int(c[i]), i == len(c)-1
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

// tell records the progress of a refresh, and returns whether there was any. reached means that the next checkpoint, or the end if last is
// true, is reached.
func (w *work) tell(ctx context.Context, key store.Key, r *refreshRecord, left int, reached, last bool) (changed bool, err error) {
	done := reached && last
	percent := 100
	if r.Total > 0 && !done {
		percent = 100 * (r.Total - left) / r.Total
	}
	if !reached && left == r.Left {
		return false, nil
	}
	seen := r.Refresh.Status
	err = w.s.store.Update(ctx, func(tx *store.Tx) error {
		return refreshes.Update(tx, key, func(r *refreshRecord) error {
			if r.Refresh.Status != seen { // cancelled or rolled back meanwhile
				return nil
			}
			f, now := &r.Refresh, w.s.now()
			if r.Left != left {
				r.Left, r.Since = left, now
			}
			if r.rollingBack() { // goes back down to zero
				f.PercentageComplete = aws.Int32(*f.RollbackDetails.PercentageCompleteOnRollback * int32(100-percent) / 100) //nolint:gosec // a percentage
			} else {
				f.PercentageComplete, f.InstancesToUpdate = aws.Int32(int32(percent)), aws.Int32(int32(left)) //nolint:gosec // a percentage and a group's size
			}
			switch {
			case !reached:
			case !last:
				r.Reached++
				r.Until = now.Add(time.Duration(*f.Preferences.CheckpointDelay) * time.Second)
			case r.rollingBack():
				f.Status, f.EndTime = autoscalingtypes.InstanceRefreshStatusRollbackSuccessful, &now
			case aws.ToInt32(f.Preferences.BakeTime) > 0 && f.Status != autoscalingtypes.InstanceRefreshStatusBaking:
				f.Status, r.Until = autoscalingtypes.InstanceRefreshStatusBaking, now.Add(time.Duration(*f.Preferences.BakeTime)*time.Second)
			default:
				f.Status, f.EndTime = autoscalingtypes.InstanceRefreshStatusSuccessful, &now
				if c := f.DesiredConfiguration; c != nil {
					return groups.Update(tx, w.key, func(g *groupRecord) error {
						g.Group.LaunchConfigurationName, g.Group.LaunchTemplate, g.Group.MixedInstancesPolicy = nil, c.LaunchTemplate, c.MixedInstancesPolicy
						return nil
					})
				}
			}
			return nil
		})
	})
	return true, store.IgnoreNotFound(err)
}

// giveUp fails a refresh that has made no progress for too long, or rolls it back if it was asked to. Otherwise it returns when that will be.
func (w *work) giveUp(ctx context.Context, all []memberRecord) (time.Duration, error) {
	item := w.s.activeRefresh(w.s.store, w.key)
	if item == nil || !w.g.runs("InstanceRefresh") {
		return 0, nil
	}
	r := &item.Value
	last := r.Since
	if r.Until.After(last) {
		last = r.Until
	}
	wait := refreshPatience + time.Duration(*r.Refresh.Preferences.InstanceWarmup)*time.Second - w.s.now().Sub(last)
	if wait > 0 || r.Since.IsZero() { // records of older versions have no time
		return wait, nil
	}
	why := "The new instances did not pass their health checks." // the reasons' words are from memory
	for _, m := range all {
		switch target := slices.Contains(r.Targets, m.ID); {
		case target && m.State == autoscalingtypes.LifecycleStateStandby:
			why = "An instance is in standby: " + m.ID + "."
		case target && m.Protected && m.capacity():
			why = "An instance is protected from scale in: " + m.ID + "."
		}
	}
	return 0, store.IgnoreNotFound(refreshes.UpdateOne(ctx, w.s.store, item.Key, func(r *refreshRecord) error {
		switch {
		case !r.active():
			return nil
		case *r.Refresh.Preferences.AutoRollback && !r.rollingBack():
			r.rollBack(w.s.now(), why)
			return nil
		}
		now := w.s.now()
		r.Refresh.Status, r.Refresh.EndTime, r.Refresh.StatusReason = autoscalingtypes.InstanceRefreshStatusFailed, &now, &why
		if r.Refresh.RollbackDetails != nil {
			r.Refresh.Status = autoscalingtypes.InstanceRefreshStatusRollbackFailed
		}
		return nil
	}))
}
