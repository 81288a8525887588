package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxAttached is how many instances one call can attach or detach.
const maxAttached = 20

func checkInstanceIDs(instanceIDs []string, verb string) error {
	switch n := len(instanceIDs); {
	case n == 0:
		return errNoInstanceIDs()
	case n > maxAttached:
		return errTooManyInstances(verb)
	}
	return nil
}

// AttachInstances adds running instances to a group and increases its desired capacity accordingly.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/attach-instance-asg.html
func (s *Service) AttachInstances(ctx context.Context, in *awsautoscaling.AttachInstancesInput) (*awsautoscaling.AttachInstancesOutput, error) {
	sc := scopeOf(ctx)
	if err := checkInstanceIDs(in.InstanceIds, "attach"); err != nil {
		return nil, err
	}
	svc := s.asService(ctx, sc.Account, sc.Region)
	described, err := s.cfg.EC2.DescribeInstances(svc, &awsec2.DescribeInstancesInput{InstanceIds: in.InstanceIds})
	if awserr.CodeOf(err) != "" {
		return nil, errInvalidInstance(in.InstanceIds[0])
	}
	if err != nil {
		return nil, fmt.Errorf("looking up the instances: %w", err)
	}
	var attached []memberRecord
	for _, r := range described.Reservations {
		for _, i := range r.Instances {
			if i.State.Name != ec2types.InstanceStateNameRunning {
				return nil, errNotRunning(*i.InstanceId, string(i.State.Name))
			}
			m := memberRecord{
				ID: *i.InstanceId, Group: aws.ToString(in.AutoScalingGroupName), Subnet: aws.ToString(i.SubnetId), Type: string(i.InstanceType),
				Image: aws.ToString(i.ImageId), Spot: i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot,
				Launched: aws.ToTime(i.LaunchTime), State: autoscalingtypes.LifecycleStatePending,
			}
			if p := i.Placement; p != nil {
				m.Zone, m.ZoneID = aws.ToString(p.AvailabilityZone), aws.ToString(p.AvailabilityZoneId)
			}
			attached = append(attached, m)
		}
	}
	slices.SortFunc(attached, byID)
	now := s.now()
	err = s.changeNamed(ctx, in.AutoScalingGroupName, func(tx *store.Tx, g *groupRecord) error {
		was := *g.Group.DesiredCapacity
		next := was + int32(g.units(attached)) //nolint:gosec // twenty instances at most
		if next > *g.Group.MaxSize {
			return errAttachAboveMax(g, len(attached))
		}
		for n, m := range attached {
			if o, err := owners.Get(tx, sc.Key(m.ID)); err == nil {
				return errAlreadyAttached(m.ID, o.Group)
			}
			if !slices.Contains(g.Group.AvailabilityZones, m.Zone) {
				return errValidation("Instance %s is in Availability Zone %s, which is not one of AutoScalingGroup %s", m.ID, m.Zone, g.name()) // from memory
			}
			key := sc.group(g.name())
			// [seen] in notifications about attached instances
			cause := fmt.Sprintf("At %s an instance was added in response to user request. Keeping the capacity at the new %d.", stamp(now), int(was)+g.units(attached[:n+1]))
			id, err := begin(tx, key, g, "Attaching an existing EC2 instance: "+m.ID, cause, subnet{m.Subnet, m.Zone, m.ZoneID}, now)
			if err != nil {
				return err
			}
			m.Activity = id
			if err := members.Put(tx, key.Below(m.ID), m); err != nil {
				return err
			}
			if err := owners.Put(tx, sc.Key(m.ID), ownerRecord{g.name()}); err != nil {
				return err
			}
		}
		g.Group.DesiredCapacity = &next
		return nil
	})
	if err != nil {
		return nil, err
	}
	// The tag is for information only; the group's records define membership.
	_, err = s.cfg.EC2.CreateTags(svc, &awsec2.CreateTagsInput{Resources: in.InstanceIds, Tags: []ec2types.Tag{{Key: aws.String(groupTag), Value: in.AutoScalingGroupName}}})
	return &awsautoscaling.AttachInstancesOutput{}, err
}

// DetachInstances removes instances from their group. They keep running.
func (s *Service) DetachInstances(ctx context.Context, in *awsautoscaling.DetachInstancesInput) (*awsautoscaling.DetachInstancesOutput, error) {
	sc := scopeOf(ctx)
	if err := checkInstanceIDs(in.InstanceIds, "detach"); err != nil {
		return nil, err
	}
	now := s.now()
	var done []autoscalingtypes.Activity
	err := s.changeNamed(ctx, in.AutoScalingGroupName, func(tx *store.Tx, g *groupRecord) error {
		done = nil
		key := sc.group(g.name())
		for _, id := range in.InstanceIds {
			m, err := members.Get(tx, key.Below(cmp.Or(id, "-")))
			if store.IsNotFound(err) {
				return errNotInGroup(id, g.name())
			}
			if err != nil {
				return err
			}
			if m.State != autoscalingtypes.LifecycleStateInService && m.State != autoscalingtypes.LifecycleStateStandby {
				return errNotInService(id, "InService or Standby")
			}
			cause := fmt.Sprintf("At %s instance %s was detached in response to a user request", stamp(now), id)
			if *in.ShouldDecrementDesiredCapacity && m.capacity() {
				was, next, err := g.shrink(&m)
				if err != nil {
					return err
				}
				cause += fmt.Sprintf(", shrinking the capacity from %d to %d", was, next)
			}
			activity, err := begin(tx, key, g, "Detaching EC2 instance: "+id, cause+".", subnet{m.Subnet, m.Zone, m.ZoneID}, now)
			if err != nil {
				return err
			}
			a, err := actions.Get(tx, key.Below(activity))
			if err != nil {
				return err
			}
			done = append(done, a.Activity)
			if err := end(tx, key, activity, autoscalingtypes.ScalingActivityStatusCodeSuccessful, "", now); err != nil {
				return err
			}
			members.Delete(tx, key.Below(id))
			owners.Delete(tx, sc.Key(id))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	_, err = s.cfg.EC2.DeleteTags(s.asService(ctx, sc.Account, sc.Region), &awsec2.DeleteTagsInput{
		Resources: in.InstanceIds, Tags: []ec2types.Tag{{Key: aws.String(groupTag), Value: in.AutoScalingGroupName}},
	})
	return &awsautoscaling.DetachInstancesOutput{Activities: done}, err
}
