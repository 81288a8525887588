package autoscaling

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxGroups is the quota of groups per account and region.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-quotas.html
const maxGroups = 500

// CreateAutoScalingGroup stores a group. The reconciler launches its instances.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateAutoScalingGroup.html
func (s *Service) CreateAutoScalingGroup(ctx context.Context, in *awsautoscaling.CreateAutoScalingGroupInput) (*awsautoscaling.CreateAutoScalingGroupOutput, error) {
	sc := scopeOf(ctx)
	name := aws.ToString(in.AutoScalingGroupName)
	if err := taken(s.store, sc, name); err != nil {
		return nil, err
	}
	now := s.now()
	desired := in.DesiredCapacity
	if desired == nil {
		desired = in.MinSize
	}
	uuid := ids.UUID()
	g := groupRecord{Group: autoscalingtypes.AutoScalingGroup{
		AutoScalingGroupName: &name, CreatedTime: &now,
		AutoScalingGroupARN: aws.String(arn.New("autoscaling", sc.Region, sc.Account, "autoScalingGroup:"+uuid+":autoScalingGroupName/"+name)),
		MinSize:             in.MinSize, MaxSize: in.MaxSize, DesiredCapacity: desired,
		DefaultCooldown: orInt(in.DefaultCooldown, 300), HealthCheckGracePeriod: orInt(in.HealthCheckGracePeriod, 0),
		HealthCheckType: aws.String("EC2"), TerminationPolicies: []string{"Default"},
		NewInstancesProtectedFromScaleIn: aws.Bool(aws.ToBool(in.NewInstancesProtectedFromScaleIn)),
		CapacityRebalance:                in.CapacityRebalance, DefaultInstanceWarmup: in.DefaultInstanceWarmup, DeletionProtection: in.DeletionProtection,
		Context: in.Context, DesiredCapacityType: in.DesiredCapacityType, AvailabilityZoneDistribution: &autoscalingtypes.AvailabilityZoneDistribution{
			CapacityDistributionStrategy: autoscalingtypes.CapacityDistributionStrategyBalancedBestEffort,
		}, PlacementGroup: nonEmpty(in.PlacementGroup),
	}}
	if g.Group.DeletionProtection == "" {
		g.Group.DeletionProtection = autoscalingtypes.DeletionProtectionNone
	}
	sources, err := readSources(in.TrafficSources)
	if err != nil {
		return nil, err
	}
	sources = slices.Concat(sourcesOf(classicSource, in.LoadBalancerNames), sourcesOf(groupSource, in.TargetGroupARNs), sources)
	if err := s.checkSources(sc, sources); err != nil {
		return nil, err
	}
	setSources(&g.Group, sources)
	if err := checkSizes(&g.Group); err != nil {
		return nil, err
	}
	if err := s.place(s.asService(ctx, sc.Account, sc.Region), &g, in.AvailabilityZones, in.VPCZoneIdentifier); err != nil {
		return nil, err
	}
	if err := checkOptions(&g.Group, in.HealthCheckType, in.TerminationPolicies, nil); err != nil {
		return nil, err
	}
	if err := setUpkeep(&g.Group, upkeep{in.MaxInstanceLifetime, in.InstanceMaintenancePolicy, in.AvailabilityZoneDistribution, in.AvailabilityZoneImpairmentPolicy}); err != nil {
		return nil, err
	}
	tags, err := newTags(ctx, name, in.Tags)
	if err != nil {
		return nil, err
	}
	g.Group.Tags = tags
	for _, h := range in.LifecycleHookSpecificationList {
		hook, err := newHook(name, nil, &awsautoscaling.PutLifecycleHookInput{
			LifecycleHookName: h.LifecycleHookName, LifecycleTransition: h.LifecycleTransition, DefaultResult: h.DefaultResult,
			HeartbeatTimeout: h.HeartbeatTimeout, NotificationMetadata: h.NotificationMetadata,
			NotificationTargetARN: h.NotificationTargetARN, RoleARN: h.RoleARN,
		})
		if err != nil {
			return nil, err
		}
		g.Hooks = putHook(g.Hooks, hook)
	}
	if err := s.setSource(ctx, sc, &g, source{in.LaunchConfigurationName, in.LaunchTemplate, in.MixedInstancesPolicy}); err != nil {
		return nil, err
	}
	if in.DesiredCapacityType != nil {
		if err := checkCapacityType(&g.Group, *in.DesiredCapacityType); err != nil {
			return nil, err
		}
	}
	if g.Group.ServiceLinkedRoleARN = in.ServiceLinkedRoleARN; in.ServiceLinkedRoleARN == nil {
		if s.cfg.EnsureServiceRole != nil {
			if err := s.cfg.EnsureServiceRole(ctx, serviceRole); err != nil {
				return nil, errNoServiceRole(err)
			}
		}
		g.Group.ServiceLinkedRoleARN = aws.String(serviceRole.ARN(sc.Account))
	}
	if *desired > 0 {
		g.Causes = []string{fmt.Sprintf("At %s a user request created an AutoScalingGroup changing the desired capacity from 0 to %d.", stamp(now), *desired)}
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if err := taken(tx, sc, name); err != nil {
			return err
		}
		all := groups.All(tx, sc.All())
		if len(all) >= maxGroups {
			return errLimit("AutoScalingGroup limit exceeded. You already have %d groups.", len(all)) // from memory
		}
		if err := stillThere(tx, sc, &g); err != nil {
			return err
		}
		return groups.Create(tx, sc.group(name), g)
	})
	return &awsautoscaling.CreateAutoScalingGroupOutput{}, err
}

func taken(r store.Reader, sc scope, name string) error {
	old, err := groups.Get(r, sc.group(name))
	switch {
	case store.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case old.Deleting:
		return errRecreateDuringDelete()
	}
	return errGroupExists(name)
}

// stillThere checks, in the transaction that stores g, that its launch configuration has not been
// deleted in the meantime.
func stillThere(tx *store.Tx, sc scope, g *groupRecord) error {
	name := g.Group.LaunchConfigurationName
	if name == nil {
		return nil
	}
	_, err := configs.Get(tx, sc.group(*name))
	if store.IsNotFound(err) {
		return errNoConfig(*name)
	}
	return err
}

// UpdateAutoScalingGroup changes the settings in the request.
func (s *Service) UpdateAutoScalingGroup(ctx context.Context, in *awsautoscaling.UpdateAutoScalingGroupInput) (*awsautoscaling.UpdateAutoScalingGroupOutput, error) {
	sc := scopeOf(ctx)
	old, err := s.group(s.store, sc, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	// Call EC2 before the transaction.
	next := old
	svc := s.asService(ctx, sc.Account, sc.Region)
	src := source{in.LaunchConfigurationName, in.LaunchTemplate, in.MixedInstancesPolicy}
	moved := in.VPCZoneIdentifier != nil || len(in.AvailabilityZones) > 0
	if moved {
		if err := s.place(svc, &next, in.AvailabilityZones, in.VPCZoneIdentifier); err != nil {
			return nil, err
		}
	}
	if !src.empty() {
		if err := s.setSource(ctx, sc, &next, src); err != nil {
			return nil, err
		}
	}
	err = s.changeGroup(ctx, sc, old.name(), func(tx *store.Tx, g *groupRecord) error {
		if moved {
			g.Subnets, g.Group.AvailabilityZones, g.Group.AvailabilityZoneIds, g.Group.VPCZoneIdentifier =
				next.Subnets, next.Group.AvailabilityZones, next.Group.AvailabilityZoneIds, next.Group.VPCZoneIdentifier
		}
		if !src.empty() {
			if r := s.activeRefresh(tx, sc.group(g.name())); r != nil && r.Value.Refresh.DesiredConfiguration != nil {
				return errRefreshedSource()
			}
			g.Group.LaunchConfigurationName, g.Group.LaunchTemplate, g.Group.MixedInstancesPolicy =
				next.Group.LaunchConfigurationName, next.Group.LaunchTemplate, next.Group.MixedInstancesPolicy
			if err := stillThere(tx, sc, g); err != nil {
				return err
			}
			if g.Group.WarmPoolConfiguration != nil && g.Group.MixedInstancesPolicy != nil {
				return errWarmPoolSource()
			}
		}
		if err := s.resize(g, in); err != nil {
			return err
		}
		set := func(to **int32, v *int32) {
			if v != nil {
				*to = v
			}
		}
		set(&g.Group.DefaultCooldown, in.DefaultCooldown)
		set(&g.Group.HealthCheckGracePeriod, in.HealthCheckGracePeriod)
		set(&g.Group.DefaultInstanceWarmup, in.DefaultInstanceWarmup)
		if in.NewInstancesProtectedFromScaleIn != nil {
			g.Group.NewInstancesProtectedFromScaleIn = in.NewInstancesProtectedFromScaleIn
		}
		if in.CapacityRebalance != nil {
			g.Group.CapacityRebalance = in.CapacityRebalance
		}
		if in.Context != nil {
			g.Group.Context = in.Context
		}
		if err := setUpkeep(&g.Group, upkeep{in.MaxInstanceLifetime, in.InstanceMaintenancePolicy, in.AvailabilityZoneDistribution, in.AvailabilityZoneImpairmentPolicy}); err != nil {
			return err
		}
		if in.PlacementGroup != nil {
			g.Group.PlacementGroup = nonEmpty(in.PlacementGroup)
		}
		if in.DesiredCapacityType != nil {
			g.Group.DesiredCapacityType = in.DesiredCapacityType
		}
		if in.ServiceLinkedRoleARN != nil {
			g.Group.ServiceLinkedRoleARN = in.ServiceLinkedRoleARN
		}
		if in.DeletionProtection != "" {
			g.Group.DeletionProtection = in.DeletionProtection
		}
		g.fresh()
		return checkOptions(&g.Group, in.HealthCheckType, in.TerminationPolicies, in.DesiredCapacityType)
	})
	return &awsautoscaling.UpdateAutoScalingGroupOutput{}, err
}

// nonEmpty returns nil for an empty string, which takes a setting away.
func nonEmpty(s *string) *string {
	if aws.ToString(s) == "" {
		return nil
	}
	return s
}

// resize applies new bounds. If the request has no desired capacity, the current one is moved into
// the bounds.
func (s *Service) resize(g *groupRecord, in *awsautoscaling.UpdateAutoScalingGroupInput) error {
	was := *g.Group.DesiredCapacity
	if in.MinSize != nil {
		g.Group.MinSize = in.MinSize
	}
	if in.MaxSize != nil {
		g.Group.MaxSize = in.MaxSize
	}
	if in.DesiredCapacity != nil {
		g.Group.DesiredCapacity = in.DesiredCapacity
	} else {
		g.Group.DesiredCapacity = aws.Int32(min(max(was, *g.Group.MinSize), *g.Group.MaxSize))
	}
	if err := checkSizes(&g.Group); err != nil {
		return err
	}
	if is := *g.Group.DesiredCapacity; is != was {
		g.note("At %s a user request update of AutoScalingGroup constraints to min: %d, max: %d, desired: %d changing the desired capacity from %d to %d.",
			stamp(s.now()), *g.Group.MinSize, *g.Group.MaxSize, is, was, is)
	}
	return nil
}

// maxCauses limits the stored causes: an activity's cause has at most 1,023 characters.
const maxCauses = 5

// note records why the desired capacity changed.
func (g *groupRecord) note(format string, args ...any) {
	g.Causes = append(g.Causes, fmt.Sprintf(format, args...))
	g.Causes = g.Causes[max(0, len(g.Causes)-maxCauses):]
}

// SetDesiredCapacity changes the desired capacity within the bounds.
func (s *Service) SetDesiredCapacity(ctx context.Context, in *awsautoscaling.SetDesiredCapacityInput) (*awsautoscaling.SetDesiredCapacityOutput, error) {
	want := *in.DesiredCapacity
	err := s.changeNamed(ctx, in.AutoScalingGroupName, func(_ *store.Tx, g *groupRecord) error {
		was := *g.Group.DesiredCapacity
		cooldown := time.Duration(aws.ToInt32(g.Group.DefaultCooldown)) * time.Second
		switch {
		case want < *g.Group.MinSize:
			return errDesiredBelow(want, *g.Group.MinSize)
		case want > *g.Group.MaxSize:
			return errDesiredAbove(want, *g.Group.MaxSize)
		case aws.ToBool(in.HonorCooldown) && !g.LastActivity.IsZero() && s.clock.Since(g.LastActivity) < cooldown:
			return errCooldown(g.name())
		}
		if want != was {
			g.Group.DesiredCapacity = &want
			g.note("At %s a user request explicitly set group desired capacity changing the desired capacity from %d to %d.", stamp(s.now()), was, want)
		}
		g.fresh()
		return nil
	})
	return &awsautoscaling.SetDesiredCapacityOutput{}, err
}

// DeleteAutoScalingGroup marks the group for the reconciler to delete. A group without instances is
// deleted at once.
func (s *Service) DeleteAutoScalingGroup(ctx context.Context, in *awsautoscaling.DeleteAutoScalingGroupInput) (*awsautoscaling.DeleteAutoScalingGroupOutput, error) {
	sc := scopeOf(ctx)
	force := aws.ToBool(in.ForceDelete)
	empty := false
	name := aws.ToString(in.AutoScalingGroupName)
	err := s.changeNamed(ctx, in.AutoScalingGroupName, func(tx *store.Tx, g *groupRecord) error {
		p := g.Group.DeletionProtection
		if p == autoscalingtypes.DeletionProtectionPreventAllDeletion || force && p == autoscalingtypes.DeletionProtectionPreventForceDeletion {
			return errDeletionProtected(name)
		}
		all := members.All(tx, sc.group(name).AllBelow())
		planned := plans.All(tx, sc.group(name).AllBelow())
		if !force {
			switch {
			case slices.ContainsFunc(all, func(m store.Item[memberRecord]) bool { return !m.Value.terminating() }) || *g.Group.DesiredCapacity > 0 && len(all) > 0:
				return errGroupNotEmpty()
			case len(all)+len(planned) > 0:
				return errActivitiesInProgress()
			}
		}
		empty = len(all)+len(planned) == 0
		g.Deleting = true
		g.Group.Status = aws.String("Delete in progress")
		if was := *g.Group.DesiredCapacity; was > 0 {
			g.note("At %s a user request force deleted AutoScalingGroup changing the desired capacity from %d to 0.", stamp(s.now()), was) // from memory
		}
		g.Group.MinSize, g.Group.MaxSize, g.Group.DesiredCapacity = aws.Int32(0), aws.Int32(0), aws.Int32(0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if empty {
		if err := s.forget(ctx, sc.group(name)); err != nil {
			return nil, err
		}
	}
	return &awsautoscaling.DeleteAutoScalingGroupOutput{}, nil
}

// DescribeAutoScalingGroups lists groups with their instances.
func (s *Service) DescribeAutoScalingGroups(ctx context.Context, in *awsautoscaling.DescribeAutoScalingGroupsInput) (*awsautoscaling.DescribeAutoScalingGroupsOutput, error) {
	sc := scopeOf(ctx)
	match, err := groupFilters(in.Filters)
	if err != nil {
		return nil, err
	}
	// This operation allows a higher MaxRecords.
	// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_DescribeAutoScalingGroups.html
	if most := max(50, int(aws.ToInt32(in.MaxRecords))); len(in.AutoScalingGroupNames) > most {
		return nil, errGroupNames(most)
	}
	all, next, err := describe(s.store, groups, sc.All(), func(g groupRecord) bool {
		return (len(in.AutoScalingGroupNames) == 0 || slices.Contains(in.AutoScalingGroupNames, g.name())) && match(g.Group.Tags)
	}, in.MaxRecords, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awsautoscaling.DescribeAutoScalingGroupsOutput{AutoScalingGroups: []autoscalingtypes.AutoScalingGroup{}, NextToken: next}
	for _, i := range all {
		g := i.Value.Group
		include := in.IncludeInstances == nil || *in.IncludeInstances
		if g.WarmPoolConfiguration != nil || include {
			warm := int32(0)
			serving := []autoscalingtypes.Instance{}
			for _, m := range members.All(s.store, i.Key.AllBelow()) {
				if m.Value.warm() {
					warm++
				} else {
					serving = append(serving, m.Value.sdk())
				}
			}
			if g.WarmPoolConfiguration != nil {
				g.WarmPoolSize = &warm
			}
			if include {
				g.Instances = serving
			}
		}
		out.AutoScalingGroups = append(out.AutoScalingGroups, g)
	}
	return out, nil
}

// groupsSettled reports whether no group is changing. Until then, the responses to SDK waiters are
// delayed.
func groupsSettled(out *awsautoscaling.DescribeAutoScalingGroupsOutput) bool {
	for _, g := range out.AutoScalingGroups {
		serving := 0
		for _, i := range g.Instances {
			if i.LifecycleState == autoscalingtypes.LifecycleStateInService {
				serving++
			}
		}
		if g.Status != nil || serving < int(*g.MinSize) || serving < int(*g.DesiredCapacity) {
			return false
		}
	}
	return true
}

// group returns a group that is not being deleted.
func (s *Service) group(r store.Reader, sc scope, name *string) (groupRecord, error) {
	if aws.ToString(name) == "" {
		return groupRecord{}, errNoGroupNull()
	}
	g, err := groups.Get(r, sc.group(*name))
	switch {
	case store.IsNotFound(err):
		return g, errNoGroup(*name)
	case err == nil && g.Deleting:
		return g, errGroupPendingDelete
	}
	return g, err
}

// changeNamed changes the caller's group with a name.
func (s *Service) changeNamed(ctx context.Context, name *string, fn func(*store.Tx, *groupRecord) error) error {
	return s.changeGroup(ctx, scopeOf(ctx), aws.ToString(name), fn)
}

func (s *Service) changeGroup(ctx context.Context, sc scope, name string, fn func(*store.Tx, *groupRecord) error) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := s.group(tx, sc, &name); err != nil {
			return err
		}
		return groups.Update(tx, sc.group(name), func(g *groupRecord) error { return fn(tx, g) })
	})
}

// stamp formats a time for a cause.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func orInt(v *int32, otherwise int32) *int32 {
	if v == nil {
		return &otherwise
	}
	return v
}
