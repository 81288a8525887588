package autoscaling

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// setTargetGroups records target groups, which are traffic sources too.
func setTargetGroups(g *autoscalingtypes.AutoScalingGroup, arns []string) {
	g.TargetGroupARNs, g.TrafficSources = []string{}, []autoscalingtypes.TrafficSourceIdentifier{}
	for _, a := range arns {
		if !slices.Contains(g.TargetGroupARNs, a) {
			g.TargetGroupARNs = append(g.TargetGroupARNs, a)
			g.TrafficSources = append(g.TrafficSources, autoscalingtypes.TrafficSourceIdentifier{Identifier: &a, Type: aws.String("elbv2")})
		}
	}
}

// AttachLoadBalancerTargetGroups attaches target groups, with which instances in
// service are registered.
func (s *Service) AttachLoadBalancerTargetGroups(ctx context.Context, in *awsautoscaling.AttachLoadBalancerTargetGroupsInput) (*awsautoscaling.AttachLoadBalancerTargetGroupsOutput, error) {
	for _, a := range in.TargetGroupARNs {
		if !strings.HasPrefix(a, "arn:") {
			return nil, errValidation("Provided Target Groups may not be valid. Please ensure they exist and try again.")
		}
	}
	if err := s.checkTargetGroups(scopeOf(ctx), in.TargetGroupARNs); err != nil {
		return nil, err
	}
	err := s.changeNamed(ctx, in.AutoScalingGroupName, func(_ *store.Tx, g *groupRecord) error {
		setTargetGroups(&g.Group, slices.Concat(g.Group.TargetGroupARNs, in.TargetGroupARNs))
		return nil
	})
	return &awsautoscaling.AttachLoadBalancerTargetGroupsOutput{}, err
}

// DetachLoadBalancerTargetGroups detaches target groups; instances are deregistered.
func (s *Service) DetachLoadBalancerTargetGroups(ctx context.Context, in *awsautoscaling.DetachLoadBalancerTargetGroupsInput) (*awsautoscaling.DetachLoadBalancerTargetGroupsOutput, error) {
	err := s.changeNamed(ctx, in.AutoScalingGroupName, func(_ *store.Tx, g *groupRecord) error {
		for _, a := range in.TargetGroupARNs {
			if !slices.Contains(g.Group.TargetGroupARNs, a) {
				return errValidation("Trying to remove Target Groups that are not part of the group") // [seen] harness and others match it
			}
		}
		setTargetGroups(&g.Group, slices.DeleteFunc(slices.Clone(g.Group.TargetGroupARNs), func(a string) bool { return slices.Contains(in.TargetGroupARNs, a) }))
		return nil
	})
	return &awsautoscaling.DetachLoadBalancerTargetGroupsOutput{}, err
}

// DescribeLoadBalancerTargetGroups lists the target groups of a group.
func (s *Service) DescribeLoadBalancerTargetGroups(ctx context.Context, in *awsautoscaling.DescribeLoadBalancerTargetGroupsInput) (*awsautoscaling.DescribeLoadBalancerTargetGroupsOutput, error) {
	g, err := s.group(s.store, scopeOf(ctx), in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	arns := slices.Sorted(slices.Values(g.Group.TargetGroupARNs))
	arns, next, err := pageBy(arns, func(a string) string { return a }, in.MaxRecords, 100, 100, in.NextToken)
	out := &awsautoscaling.DescribeLoadBalancerTargetGroupsOutput{LoadBalancerTargetGroups: []autoscalingtypes.LoadBalancerTargetGroupState{}, NextToken: next}
	for _, a := range arns {
		out.LoadBalancerTargetGroups = append(out.LoadBalancerTargetGroups, autoscalingtypes.LoadBalancerTargetGroupState{LoadBalancerTargetGroupARN: &a, State: aws.String("Added")})
	}
	return out, err
}

// DescribeLoadBalancers lists classic load balancers: there are none.
func (s *Service) DescribeLoadBalancers(ctx context.Context, in *awsautoscaling.DescribeLoadBalancersInput) (*awsautoscaling.DescribeLoadBalancersOutput, error) {
	_, err := s.group(s.store, scopeOf(ctx), in.AutoScalingGroupName)
	return &awsautoscaling.DescribeLoadBalancersOutput{LoadBalancers: []autoscalingtypes.LoadBalancerState{}}, err
}
