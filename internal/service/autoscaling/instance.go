package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

func (m *memberRecord) sdk() autoscalingtypes.Instance {
	out := autoscalingtypes.Instance{
		InstanceId: &m.ID, AvailabilityZone: &m.Zone, AvailabilityZoneId: &m.ZoneID, HealthStatus: aws.String(m.health()), LifecycleState: m.State,
		ProtectedFromScaleIn: &m.Protected, InstanceType: &m.Type, LaunchTemplate: m.Template,
	}
	if m.Weight > 0 {
		out.WeightedCapacity = aws.String(strconv.Itoa(m.Weight))
	}
	if m.Config != "" {
		out.LaunchConfigurationName = &m.Config
	}
	return out
}

// DescribeAutoScalingInstances lists instances in groups.
func (s *Service) DescribeAutoScalingInstances(ctx context.Context, in *awsautoscaling.DescribeAutoScalingInstancesInput) (*awsautoscaling.DescribeAutoScalingInstancesOutput, error) {
	sc := scopeOf(ctx)
	found := []memberRecord{}
	if len(in.InstanceIds) > 0 {
		for _, id := range in.InstanceIds {
			_, m, err := s.member(s.store, sc, &id)
			if awserr.CodeOf(err) == "ValidationError" {
				continue // leave out unknown instances
			}
			if err != nil {
				return nil, err
			}
			found = append(found, m)
		}
	} else {
		for _, m := range members.All(s.store, sc.All()) {
			found = append(found, m.Value)
		}
	}
	slices.SortFunc(found, byID)
	found, next, err := paging.Cut(pages(50, 50), found, func(m memberRecord) string { return m.ID }, in.MaxRecords, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awsautoscaling.DescribeAutoScalingInstancesOutput{AutoScalingInstances: []autoscalingtypes.AutoScalingInstanceDetails{}, NextToken: next}
	for _, m := range found {
		d := autoscalingtypes.AutoScalingInstanceDetails{
			InstanceId: &m.ID, AutoScalingGroupName: &m.Group, AvailabilityZone: &m.Zone, AvailabilityZoneId: &m.ZoneID, InstanceType: &m.Type,
			HealthStatus: aws.String(upper(m.health())), LifecycleState: aws.String(string(m.State)), ProtectedFromScaleIn: &m.Protected, LaunchTemplate: m.Template,
		}
		if m.Weight > 0 {
			d.WeightedCapacity = aws.String(strconv.Itoa(m.Weight))
		}
		if m.Config != "" {
			d.LaunchConfigurationName = &m.Config
		}
		out.AutoScalingInstances = append(out.AutoScalingInstances, d)
	}
	return out, nil
}

// upper converts a health status to this operation's spelling, which differs from
// DescribeAutoScalingGroups'.
func upper(health string) string {
	if health == "Healthy" {
		return "HEALTHY"
	}
	return "UNHEALTHY"
}

// member returns an instance and its group.
func (s *Service) member(r store.Reader, sc scope, id *string) (store.Key, memberRecord, error) {
	o, err := owners.Get(r, sc.Key(cmp.Or(aws.ToString(id), "-")))
	if store.IsNotFound(err) {
		return store.Key{}, memberRecord{}, errNoInstance(aws.ToString(id))
	}
	if err != nil {
		return store.Key{}, memberRecord{}, err
	}
	group := sc.group(o.Group)
	m, err := members.Get(r, group.Below(*id))
	if store.IsNotFound(err) {
		err = errNoInstance(*id)
	}
	return group, m, err
}

// TerminateInstanceInAutoScalingGroup terminates one instance, with or without a replacement.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_TerminateInstanceInAutoScalingGroup.html
func (s *Service) TerminateInstanceInAutoScalingGroup(ctx context.Context, in *awsautoscaling.TerminateInstanceInAutoScalingGroupInput) (*awsautoscaling.TerminateInstanceInAutoScalingGroupOutput, error) {
	sc := scopeOf(ctx)
	out := &awsautoscaling.TerminateInstanceInAutoScalingGroupOutput{}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		key, _, err := s.member(tx, sc, in.InstanceId)
		if err != nil {
			return err
		}
		g, err := groups.Get(tx, key)
		if err != nil {
			return err
		}
		now := s.now()
		cause := fmt.Sprintf("At %s an instance was taken out of service in response to a user request", stamp(now))
		err = members.Update(tx, key.Below(*in.InstanceId), func(m *memberRecord) error {
			if m.terminating() {
				return nil // its activity is in progress
			}
			if *in.ShouldDecrementDesiredCapacity && m.capacity() {
				was, next, err := g.shrink(m)
				if err != nil {
					return err
				}
				cause += fmt.Sprintf(", shrinking the capacity from %d to %d", was, next)
			} else if m.capacity() {
				g.owe(replaceOwed, g.weight(m))
			}
			g.LastActivity = now
			if err := s.beginEnd(tx, key, &g, m, cause+".", true); err != nil {
				return err
			}
			in := m.Activity
			a, err := actions.Get(tx, key.Below(in))
			out.Activity = &a.Activity
			return err
		})
		if err != nil {
			return err
		}
		if out.Activity == nil {
			m, err := members.Get(tx, key.Below(*in.InstanceId))
			if err != nil {
				return err
			}
			a, err := actions.Get(tx, key.Below(m.Activity))
			if err != nil {
				return err
			}
			out.Activity = &a.Activity
			return nil
		}
		return groups.Put(tx, key, g)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// shrink lowers the desired capacity by an instance, and returns it before and after.
func (g *groupRecord) shrink(m *memberRecord) (was, next int32, err error) {
	was = *g.Group.DesiredCapacity
	next = was - int32(g.weight(m)) //nolint:gosec // 999 at most
	if next < *g.Group.MinSize {
		return was, next, errBelowMin(*g.Group.MinSize)
	}
	g.Group.DesiredCapacity = &next
	return was, next, nil
}

// owe records that a replacement for some units of capacity is to be launched for a cause.
func (g *groupRecord) owe(cause string, units int) {
	owed := map[string]int{cause: units}
	for k, v := range g.Owed {
		owed[k] += v
	}
	g.Owed = owed
}

// SetInstanceHealth sets whether an instance is healthy.
func (s *Service) SetInstanceHealth(ctx context.Context, in *awsautoscaling.SetInstanceHealthInput) (*awsautoscaling.SetInstanceHealthOutput, error) {
	sc := scopeOf(ctx)
	status := aws.ToString(in.HealthStatus)
	if status != "Healthy" && status != "Unhealthy" {
		return nil, errHealthStatus()
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		key, m, err := s.member(tx, sc, in.InstanceId)
		if err != nil {
			return err
		}
		g, err := groups.Get(tx, key)
		if err != nil {
			return err
		}
		grace := time.Duration(aws.ToInt32(g.Group.HealthCheckGracePeriod)) * time.Second
		respected := in.ShouldRespectGracePeriod == nil || *in.ShouldRespectGracePeriod
		if age := max(s.clock.Since(m.Launched), 0); respected && status == "Unhealthy" && age < grace {
			return errGracePeriod(age, grace)
		}
		return members.Update(tx, key.Below(m.ID), func(m *memberRecord) error {
			m.Unhealthy, m.ByUser, m.ByBalancer = status == "Unhealthy", status == "Unhealthy", false
			return nil
		})
	})
	return &awsautoscaling.SetInstanceHealthOutput{}, err
}

// SetInstanceProtection turns instances' protection from scale-in on or off.
func (s *Service) SetInstanceProtection(ctx context.Context, in *awsautoscaling.SetInstanceProtectionInput) (*awsautoscaling.SetInstanceProtectionOutput, error) {
	err := s.changeMembers(ctx, in.AutoScalingGroupName, in.InstanceIds, func(_ *store.Tx, _ *groupRecord, m *memberRecord) error {
		if m.terminating() {
			return errNotInService(m.ID, "InService or EnteringStandby or Standby")
		}
		m.Protected = *in.ProtectedFromScaleIn
		return nil
	})
	return &awsautoscaling.SetInstanceProtectionOutput{}, err
}

// changeMembers changes instances of the caller's group, and the group.
func (s *Service) changeMembers(ctx context.Context, group *string, instanceIDs []string, fn func(*store.Tx, *groupRecord, *memberRecord) error) error {
	sc := scopeOf(ctx)
	return s.changeNamed(ctx, group, func(tx *store.Tx, g *groupRecord) error {
		for _, id := range instanceIDs {
			err := members.Update(tx, sc.group(g.name()).Below(cmp.Or(id, "-")), func(m *memberRecord) error { return fn(tx, g, m) })
			if store.IsNotFound(err) {
				return errNotInGroup(id, g.name())
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// EnterStandby takes instances out of service without terminating them.
func (s *Service) EnterStandby(ctx context.Context, in *awsautoscaling.EnterStandbyInput) (*awsautoscaling.EnterStandbyOutput, error) {
	out := &awsautoscaling.EnterStandbyOutput{}
	done, err := s.relocate(ctx, in.AutoScalingGroupName, in.InstanceIds, func(g *groupRecord, m *memberRecord, at string) (string, string, error) {
		if m.State != autoscalingtypes.LifecycleStateInService {
			return "", "", errNotInService(m.ID, "InService")
		}
		cause := fmt.Sprintf("At %s instance %s was moved to standby in response to a user request", at, m.ID)
		if *in.ShouldDecrementDesiredCapacity {
			was, next, err := g.shrink(m)
			if err != nil {
				return "", "", err
			}
			cause += fmt.Sprintf(", shrinking the capacity from %d to %d", was, next)
		}
		m.State = autoscalingtypes.LifecycleStateStandby
		return "Moving EC2 instance to Standby: " + m.ID, cause + ".", nil
	})
	out.Activities = done
	return out, err
}

// ExitStandby returns instances to service.
func (s *Service) ExitStandby(ctx context.Context, in *awsautoscaling.ExitStandbyInput) (*awsautoscaling.ExitStandbyOutput, error) {
	out := &awsautoscaling.ExitStandbyOutput{}
	done, err := s.relocate(ctx, in.AutoScalingGroupName, in.InstanceIds, func(g *groupRecord, m *memberRecord, at string) (string, string, error) {
		if m.State != autoscalingtypes.LifecycleStateStandby {
			return "", "", errNotInService(m.ID, "Standby")
		}
		was := *g.Group.DesiredCapacity
		next := was + int32(g.weight(m)) //nolint:gosec // 999 at most
		if next > *g.Group.MaxSize {
			return "", "", errStandbyAboveMax(next, *g.Group.MaxSize)
		}
		g.Group.DesiredCapacity = &next
		// Like a new instance, it goes through Pending and the launching hooks.
		m.State = autoscalingtypes.LifecycleStatePending
		return "Moving EC2 instance out of Standby: " + m.ID,
			fmt.Sprintf("At %s instance %s was moved out of standby in response to a user request, increasing the capacity from %d to %d.", at, m.ID, was, next), nil
	})
	out.Activities = done
	return out, err
}

// relocate changes the states of instances and returns a completed activity for each.
func (s *Service) relocate(ctx context.Context, group *string, instanceIDs []string, fn func(g *groupRecord, m *memberRecord, at string) (description, cause string, err error)) ([]autoscalingtypes.Activity, error) {
	if len(instanceIDs) == 0 {
		return nil, errNoInstanceIDs()
	}
	sc := scopeOf(ctx)
	var done []autoscalingtypes.Activity
	var first string
	now := s.now()
	err := s.changeMembers(ctx, group, instanceIDs, func(tx *store.Tx, g *groupRecord, m *memberRecord) error {
		if first == "" {
			first = m.ID
		}
		if m.ID == first {
			done = nil // a transaction may be repeated
		}
		description, cause, err := fn(g, m, stamp(now))
		if err != nil {
			return err
		}
		key := sc.group(g.name())
		id, err := begin(tx, key, g, description, cause, subnet{m.Subnet, m.Zone, m.ZoneID}, now)
		if err != nil {
			return err
		}
		if err := end(tx, key, id, autoscalingtypes.ScalingActivityStatusCodeSuccessful, "", now); err != nil {
			return err
		}
		a, err := actions.Get(tx, key.Below(id))
		if err != nil {
			return err
		}
		a.Activity.StatusCode, a.Activity.Progress, a.Activity.EndTime = autoscalingtypes.ScalingActivityStatusCodeInProgress, aws.Int32(50), nil
		done = append(done, a.Activity)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}
