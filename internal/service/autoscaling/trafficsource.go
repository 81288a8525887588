package autoscaling

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// The types of traffic sources: classic load balancers, identified by name, and target groups,
// identified by ARN.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_TrafficSourceIdentifier.html
const (
	classicSource = "elb"
	groupSource   = "elbv2"
	latticeSource = "vpc-lattice"
)

type trafficSource = autoscalingtypes.TrafficSourceIdentifier

func sourcesOf(kind string, ids []string) []trafficSource {
	out := make([]trafficSource, 0, len(ids))
	for _, id := range ids {
		out = append(out, trafficSource{Identifier: &id, Type: &kind})
	}
	return out
}

func sameSource(a trafficSource) func(trafficSource) bool {
	return func(b trafficSource) bool { return *a.Identifier == *b.Identifier && *a.Type == *b.Type }
}

// setSources sets a group's traffic sources, in all the fields that describe them.
func setSources(g *autoscalingtypes.AutoScalingGroup, sources []trafficSource) {
	g.LoadBalancerNames, g.TargetGroupARNs, g.TrafficSources = []string{}, []string{}, []trafficSource{}
	for _, src := range sources {
		if slices.ContainsFunc(g.TrafficSources, sameSource(src)) {
			continue
		}
		g.TrafficSources = append(g.TrafficSources, src)
		if *src.Type == classicSource {
			g.LoadBalancerNames = append(g.LoadBalancerNames, *src.Identifier)
		} else {
			g.TargetGroupARNs = append(g.TargetGroupARNs, *src.Identifier)
		}
	}
}

// readSources validates the traffic sources in a request and fills in types. A type can be left out
// if the identifier implies it.
func readSources(in []trafficSource) ([]trafficSource, error) {
	out := make([]trafficSource, 0, len(in))
	for _, src := range in {
		id := aws.ToString(src.Identifier)
		kind := aws.ToString(src.Type)
		if kind == "" {
			switch {
			case strings.Contains(id, ":vpc-lattice:"):
				kind = latticeSource
			case strings.HasPrefix(id, "arn:"):
				kind = groupSource
			default:
				kind = classicSource
			}
		}
		switch kind {
		case classicSource, groupSource:
		case latticeSource:
			return nil, awserr.NotImplemented("VPC Lattice target groups as traffic sources")
		default:
			return nil, errSourceType(kind)
		}
		out = append(out, trafficSource{Identifier: &id, Type: &kind})
	}
	return out, nil
}

// attachSources attaches traffic sources to the caller's group. The reconciler then registers the
// instances in service.
func (s *Service) attachSources(ctx context.Context, group *string, sources []trafficSource) error {
	if err := s.checkSources(scopeOf(ctx), sources); err != nil {
		return err
	}
	return s.changeNamed(ctx, group, func(tx *store.Tx, g *groupRecord) error {
		if err := addAll(tx, scopeOf(ctx), g, sources); err != nil {
			return err
		}
		setSources(&g.Group, slices.Concat(g.Group.TrafficSources, sources))
		return nil
	})
}

// addAll lets all instances of a group be registered with newly attached sources, even those that
// were kept from a source of that name before.
func addAll(tx *store.Tx, sc scope, g *groupRecord, sources []trafficSource) error {
	fresh := func(id string) bool {
		named := func(src trafficSource) bool { return *src.Identifier == id }
		return slices.ContainsFunc(sources, named) && !slices.ContainsFunc(g.Group.TrafficSources, named)
	}
	for _, m := range members.All(tx, sc.group(g.name()).AllBelow()) {
		if !slices.ContainsFunc(m.Value.Unadded, fresh) {
			continue
		}
		m.Value.Unadded = slices.DeleteFunc(slices.Clone(m.Value.Unadded), fresh)
		if err := members.Put(tx, m.Key, m.Value); err != nil {
			return err
		}
	}
	return nil
}

// detachSources detaches traffic sources. The reconciler then deregisters the instances.
func (s *Service) detachSources(ctx context.Context, group *string, sources []trafficSource) error {
	return s.changeNamed(ctx, group, func(_ *store.Tx, g *groupRecord) error {
		for _, src := range sources {
			if !slices.ContainsFunc(g.Group.TrafficSources, sameSource(src)) {
				return errSourceNotAttached(*src.Type)
			}
		}
		setSources(&g.Group, slices.DeleteFunc(slices.Clone(g.Group.TrafficSources), func(have trafficSource) bool {
			return slices.ContainsFunc(sources, sameSource(have))
		}))
		return nil
	})
}

// describeSources returns one page of a group's traffic sources and their states, of one type or of
// all.
func (s *Service) describeSources(ctx context.Context, group *string, kind string, most int32, maxRecords *int32, token *string) ([]autoscalingtypes.TrafficSourceState, *string, error) {
	sc := scopeOf(ctx)
	g, err := s.group(s.store, sc, group)
	if err != nil {
		return nil, nil, err
	}
	all := slices.DeleteFunc(slices.Clone(g.Group.TrafficSources), func(src trafficSource) bool { return kind != "" && *src.Type != kind })
	slices.SortFunc(all, func(a, b trafficSource) int { return cmp.Compare(*a.Identifier, *b.Identifier) })
	all, next, err := paging.Cut(pages(int(most), int(most)), all, func(src trafficSource) string { return *src.Identifier }, maxRecords, token)
	if err != nil {
		return nil, nil, err
	}
	out := []autoscalingtypes.TrafficSourceState{}
	for _, src := range all {
		state := s.sourceState(ctx, sc, &g, src)
		//lint:ignore SA1019 clients of today still read it
		out = append(out, autoscalingtypes.TrafficSourceState{Identifier: src.Identifier, TrafficSource: src.Identifier, Type: src.Type, State: &state})
	}
	return out, next, nil
}

// sourceState returns Added once all instances in service are registered. If the group uses the
// health checks of load balancers, it returns InService once an instance passes them.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_TrafficSourceState.html
func (s *Service) sourceState(ctx context.Context, sc scope, g *groupRecord, src trafficSource) string {
	all := members.All(s.store, sc.group(g.name()).AllBelow())
	registered := g.Registered[*src.Identifier]
	for _, m := range all {
		if m.Value.State == autoscalingtypes.LifecycleStateInService && g.runs(processAddToLoadBalancer) &&
			!slices.Contains(registered, m.Value.ID) && !slices.Contains(m.Value.Unadded, *src.Identifier) {
			return "Adding"
		}
	}
	if to := s.cfg.Sources[*src.Type]; to != nil && g.mindsBalancers() && len(registered) > 0 {
		passing, _, _, err := to.InstanceHealth(s.asService(ctx, sc.Account, sc.Region), *src.Identifier, registered)
		if err == nil && len(passing) > 0 {
			return "InService"
		}
	}
	return "Added"
}

// AttachTrafficSources attaches traffic sources of any type.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_AttachTrafficSources.html
func (s *Service) AttachTrafficSources(ctx context.Context, in *awsautoscaling.AttachTrafficSourcesInput) (*awsautoscaling.AttachTrafficSourcesOutput, error) {
	sources, err := readSources(in.TrafficSources)
	if err != nil {
		return nil, err
	}
	return &awsautoscaling.AttachTrafficSourcesOutput{}, s.attachSources(ctx, in.AutoScalingGroupName, sources)
}

// DetachTrafficSources detaches traffic sources of any type.
func (s *Service) DetachTrafficSources(ctx context.Context, in *awsautoscaling.DetachTrafficSourcesInput) (*awsautoscaling.DetachTrafficSourcesOutput, error) {
	sources, err := readSources(in.TrafficSources)
	if err != nil {
		return nil, err
	}
	return &awsautoscaling.DetachTrafficSourcesOutput{}, s.detachSources(ctx, in.AutoScalingGroupName, sources)
}

// DescribeTrafficSources lists the traffic sources of a group.
func (s *Service) DescribeTrafficSources(ctx context.Context, in *awsautoscaling.DescribeTrafficSourcesInput) (*awsautoscaling.DescribeTrafficSourcesOutput, error) {
	kind := aws.ToString(in.TrafficSourceType)
	if kind != "" && kind != classicSource && kind != groupSource && kind != latticeSource {
		return nil, errSourceType(kind)
	}
	found, next, err := s.describeSources(ctx, in.AutoScalingGroupName, kind, 50, in.MaxRecords, in.NextToken)
	return &awsautoscaling.DescribeTrafficSourcesOutput{TrafficSources: found, NextToken: next}, err
}

// AttachLoadBalancerTargetGroups attaches target groups.
func (s *Service) AttachLoadBalancerTargetGroups(ctx context.Context, in *awsautoscaling.AttachLoadBalancerTargetGroupsInput) (*awsautoscaling.AttachLoadBalancerTargetGroupsOutput, error) {
	return &awsautoscaling.AttachLoadBalancerTargetGroupsOutput{}, s.attachSources(ctx, in.AutoScalingGroupName, sourcesOf(groupSource, in.TargetGroupARNs))
}

// DetachLoadBalancerTargetGroups detaches target groups.
func (s *Service) DetachLoadBalancerTargetGroups(ctx context.Context, in *awsautoscaling.DetachLoadBalancerTargetGroupsInput) (*awsautoscaling.DetachLoadBalancerTargetGroupsOutput, error) {
	return &awsautoscaling.DetachLoadBalancerTargetGroupsOutput{}, s.detachSources(ctx, in.AutoScalingGroupName, sourcesOf(groupSource, in.TargetGroupARNs))
}

// DescribeLoadBalancerTargetGroups lists a group's target groups.
func (s *Service) DescribeLoadBalancerTargetGroups(ctx context.Context, in *awsautoscaling.DescribeLoadBalancerTargetGroupsInput) (*awsautoscaling.DescribeLoadBalancerTargetGroupsOutput, error) {
	found, next, err := s.describeSources(ctx, in.AutoScalingGroupName, groupSource, 100, in.MaxRecords, in.NextToken)
	out := &awsautoscaling.DescribeLoadBalancerTargetGroupsOutput{LoadBalancerTargetGroups: []autoscalingtypes.LoadBalancerTargetGroupState{}, NextToken: next}
	for _, f := range found {
		out.LoadBalancerTargetGroups = append(out.LoadBalancerTargetGroups, autoscalingtypes.LoadBalancerTargetGroupState{LoadBalancerTargetGroupARN: f.Identifier, State: f.State})
	}
	return out, err
}

// AttachLoadBalancers attaches classic load balancers.
func (s *Service) AttachLoadBalancers(ctx context.Context, in *awsautoscaling.AttachLoadBalancersInput) (*awsautoscaling.AttachLoadBalancersOutput, error) {
	return &awsautoscaling.AttachLoadBalancersOutput{}, s.attachSources(ctx, in.AutoScalingGroupName, sourcesOf(classicSource, in.LoadBalancerNames))
}

// DetachLoadBalancers detaches classic load balancers.
func (s *Service) DetachLoadBalancers(ctx context.Context, in *awsautoscaling.DetachLoadBalancersInput) (*awsautoscaling.DetachLoadBalancersOutput, error) {
	return &awsautoscaling.DetachLoadBalancersOutput{}, s.detachSources(ctx, in.AutoScalingGroupName, sourcesOf(classicSource, in.LoadBalancerNames))
}

// DescribeLoadBalancers lists a group's classic load balancers.
func (s *Service) DescribeLoadBalancers(ctx context.Context, in *awsautoscaling.DescribeLoadBalancersInput) (*awsautoscaling.DescribeLoadBalancersOutput, error) {
	found, next, err := s.describeSources(ctx, in.AutoScalingGroupName, classicSource, 100, in.MaxRecords, in.NextToken)
	out := &awsautoscaling.DescribeLoadBalancersOutput{LoadBalancers: []autoscalingtypes.LoadBalancerState{}, NextToken: next}
	for _, f := range found {
		out.LoadBalancers = append(out.LoadBalancers, autoscalingtypes.LoadBalancerState{LoadBalancerName: f.Identifier, State: f.State})
	}
	return out, err
}
