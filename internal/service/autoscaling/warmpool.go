package autoscaling

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// A warm pool has instances that were launched before they are needed. They have passed the launching hooks and are
// stopped or running. A group takes from the pool before it launches, and with a reuse policy returns to it what it no
// longer needs. This file has the pool's configuration, lifecycle_warm.go what happens to its instances.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html

// warm reports whether an instance is in the warm pool, or on its way there from EC2 or from there to EC2.
func (m *memberRecord) warm() bool { return strings.HasPrefix(string(m.State), "Warmed:") }

// rested reports whether an instance in the warm pool is ready for the group.
func (m *memberRecord) rested() bool {
	return m.State == autoscalingtypes.LifecycleStateWarmedStopped || m.State == autoscalingtypes.LifecycleStateWarmedRunning
}

// poolSize returns how many instances the warm pool should have.
func (g *groupRecord) poolSize() int {
	c := g.Group.WarmPoolConfiguration
	if c == nil || c.Status == autoscalingtypes.WarmPoolStatusPendingDelete || g.Deleting {
		return 0
	}
	prepared := int(*g.Group.MaxSize)
	if c.MaxGroupPreparedCapacity != nil {
		prepared = int(*c.MaxGroupPreparedCapacity)
	}
	return max(int(aws.ToInt32(c.MinSize)), prepared-g.desired(), 0)
}

// reuses reports whether instances return to the warm pool on scale-in.
func (g *groupRecord) reuses() bool {
	c := g.Group.WarmPoolConfiguration
	return c != nil && c.Status == "" && c.InstanceReusePolicy != nil && aws.ToBool(c.InstanceReusePolicy.ReuseOnScaleIn)
}

// errWarmPoolSource uses the text of AWS's documentation.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html#warm-pools-limitations
func errWarmPoolSource() error {
	return errValidation("You can't add a warm pool to an Auto Scaling group that has a mixed instances policy or a launch template or launch configuration that requests Spot Instances.")
}

func errNoWarmPool(group string) error { // from memory
	return errValidation("No warm pool found for group %s", group)
}

func errWarmPoolPendingDelete() error { // our own text
	return errValidation("The warm pool is being deleted.")
}

// PutWarmPool gives a group a warm pool, or changes its warm pool. A change keeps values that the request leaves out.
func (s *Service) PutWarmPool(ctx context.Context, in *awsautoscaling.PutWarmPoolInput) (*awsautoscaling.PutWarmPoolOutput, error) {
	if in.PoolState == autoscalingtypes.WarmPoolStateHibernated {
		return nil, awserr.NotImplemented("warm pools of hibernated instances")
	}
	sc := scopeOf(ctx)
	g, err := s.group(s.store, sc, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if err := s.checkWarmSource(s.asService(ctx, sc.Account, sc.Region), sc, &g); err != nil {
		return nil, err
	}
	return &awsautoscaling.PutWarmPoolOutput{}, s.changeNamed(ctx, in.AutoScalingGroupName, func(tx *store.Tx, g *groupRecord) error {
		if s.activeRefresh(tx, sc.group(g.name())) != nil {
			return errRefreshInProgress()
		}
		next := autoscalingtypes.WarmPoolConfiguration{MinSize: aws.Int32(0), PoolState: autoscalingtypes.WarmPoolStateStopped}
		if old := g.Group.WarmPoolConfiguration; old != nil {
			if next = *old; old.Status != "" {
				return errWarmPoolPendingDelete()
			}
		}
		if in.MinSize != nil {
			next.MinSize = in.MinSize
		}
		if in.PoolState != "" {
			next.PoolState = in.PoolState
		}
		if in.InstanceReusePolicy != nil {
			next.InstanceReusePolicy = in.InstanceReusePolicy
		}
		if c := in.MaxGroupPreparedCapacity; c != nil {
			if next.MaxGroupPreparedCapacity = c; *c == -1 {
				next.MaxGroupPreparedCapacity = nil
			}
		}
		g.Group.WarmPoolConfiguration = &next
		g.fresh()
		return nil
	})
}

// checkWarmSource returns an error if what a group launches cannot be in a warm pool.
func (s *Service) checkWarmSource(svc context.Context, sc scope, g *groupRecord) error {
	if g.Group.MixedInstancesPolicy != nil {
		return errWarmPoolSource()
	}
	if spec := g.Group.LaunchTemplate; spec != nil {
		_, _, data, err := s.template(svc, &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: spec.LaunchTemplateId, Version: spec.Version})
		if err == nil && data.InstanceMarketOptions != nil {
			err = errWarmPoolSource()
		}
		return err
	}
	src, err := s.source(svc, sc, g)
	if err == nil && src.config != nil && aws.ToString(src.config.SpotPrice) != "" {
		err = errWarmPoolSource()
	}
	return err
}

// DeleteWarmPool terminates the instances of a warm pool and then deletes it.
func (s *Service) DeleteWarmPool(ctx context.Context, in *awsautoscaling.DeleteWarmPoolInput) (*awsautoscaling.DeleteWarmPoolOutput, error) {
	return &awsautoscaling.DeleteWarmPoolOutput{}, s.changeNamed(ctx, in.AutoScalingGroupName, func(tx *store.Tx, g *groupRecord) error {
		if g.Group.WarmPoolConfiguration == nil {
			return errNoWarmPool(g.name())
		}
		next := *g.Group.WarmPoolConfiguration
		next.Status = autoscalingtypes.WarmPoolStatusPendingDelete
		g.Group.WarmPoolConfiguration = &next
		key := scopeOf(ctx).group(g.name())
		all := members.All(tx, key.AllBelow())
		if !slices.ContainsFunc(all, func(m store.Item[memberRecord]) bool { return m.Value.warm() }) && len(plans.All(tx, key.AllBelow())) == 0 {
			g.Group.WarmPoolConfiguration = nil
		}
		return nil
	})
}

// DescribeWarmPool describes a group's warm pool and its instances. Without a warm pool, the answer is empty.
func (s *Service) DescribeWarmPool(ctx context.Context, in *awsautoscaling.DescribeWarmPoolInput) (*awsautoscaling.DescribeWarmPoolOutput, error) {
	sc := scopeOf(ctx)
	g, err := s.group(s.store, sc, in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	warm := []memberRecord{}
	for _, m := range members.All(s.store, sc.group(g.name()).AllBelow()) {
		if m.Value.warm() {
			warm = append(warm, m.Value)
		}
	}
	warm, next, err := paging.Cut(pages(50, 50), warm, func(m memberRecord) string { return m.ID }, in.MaxRecords, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awsautoscaling.DescribeWarmPoolOutput{WarmPoolConfiguration: g.Group.WarmPoolConfiguration, Instances: []autoscalingtypes.Instance{}, NextToken: next}
	for _, m := range warm {
		out.Instances = append(out.Instances, m.sdk())
	}
	return out, nil
}

// The descriptions of activities. Those of launches are in AWS's documentation, the others are from memory.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/warm-pool-instance-lifecycle.html
const (
	intoPool = "Launching a new EC2 instance into warm pool"
	fromPool = "Launching a new EC2 instance from warm pool"
	backPool = "Returning EC2 instance to warm pool"
	endPool  = "Terminating EC2 instance with warm pool"
)

func poolCause(now string, before, after int) string { // from memory
	what := "started in response to a difference between desired and actual capacity, increasing"
	if after < before {
		what = "taken out of the warm pool in response to a difference between desired and actual capacity, shrinking"
	}
	return fmt.Sprintf("At %s an instance was %s the size of the warm pool from %d to %d.", now, what, before, after)
}
