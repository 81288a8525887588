package source

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// maxTagged is how many resources one DescribeTags of both generations of load balancers may name.
const maxTagged = 20

func ofELB[In, Out any](name string, call func(context.Context, *In, ...func(*awselb.Options)) (*Out, error)) operation[In, Out, awselb.Options] {
	return operation[In, Out, awselb.Options]{service: recording.ELB, name: name, call: call}
}

func ofELBv2[In, Out any](name string, call func(context.Context, *In, ...func(*awselbv2.Options)) (*Out, error)) operation[In, Out, awselbv2.Options] {
	return operation[In, Out, awselbv2.Options]{service: recording.ELBv2, name: name, call: call}
}

// readClassicBalancers reads the Classic Load Balancers with their attributes, policies and tags.
func (r *reader) readClassicBalancers(ctx context.Context) error {
	lists, err := ask(ctx, r, ofELB("DescribeLoadBalancers", r.elb.DescribeLoadBalancers), &awselb.DescribeLoadBalancersInput{}, "")
	if err != nil {
		return err
	}
	var names []string
	for _, list := range lists {
		for _, lb := range list.LoadBalancerDescriptions {
			names = append(names, aws.ToString(lb.LoadBalancerName))
		}
	}
	for _, name := range names {
		if err := describe(ctx, r, ofELB("DescribeLoadBalancerAttributes", r.elb.DescribeLoadBalancerAttributes), &awselb.DescribeLoadBalancerAttributesInput{LoadBalancerName: &name}, name); err != nil {
			return err
		}
		if err := describe(ctx, r, ofELB("DescribeLoadBalancerPolicies", r.elb.DescribeLoadBalancerPolicies), &awselb.DescribeLoadBalancerPoliciesInput{LoadBalancerName: &name}, name); err != nil {
			return err
		}
	}
	return describeTags(ctx, r, ofELB("DescribeTags", r.elb.DescribeTags), func(some []string) *awselb.DescribeTagsInput {
		return &awselb.DescribeTagsInput{LoadBalancerNames: some}
	}, names)
}

// describeTags asks for the tags of resources. One that no longer exists fails the whole request, so the others are asked for
// again without it.
func describeTags[In, Out, O any](ctx context.Context, r *reader, op operation[In, Out, O], in func([]string) *In, resources []string) error {
	for some := range slices.Chunk(resources, maxTagged) {
		out, gap, err := askFor(ctx, r, op, in(some), "")
		if err != nil {
			return err
		}
		if len(out) > 0 || gap != nil || len(some) == 1 {
			continue
		}
		for _, half := range [][]string{some[:len(some)/2], some[len(some)/2:]} {
			if err := describeTags(ctx, r, op, in, half); err != nil {
				return err
			}
		}
	}
	return nil
}

// readBalancers reads the other load balancers with their listeners and rules, and the target groups with their targets.
func (r *reader) readBalancers(ctx context.Context) error {
	lists, err := ask(ctx, r, ofELBv2("DescribeLoadBalancers", r.elbv2.DescribeLoadBalancers), &awselbv2.DescribeLoadBalancersInput{}, "")
	if err != nil {
		return err
	}
	groups, err := ask(ctx, r, ofELBv2("DescribeTargetGroups", r.elbv2.DescribeTargetGroups), &awselbv2.DescribeTargetGroupsInput{}, "")
	if err != nil {
		return err
	}
	g, groupCtx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	var balancers, targets []string
	for _, list := range lists {
		for _, lb := range list.LoadBalancers {
			balancers = append(balancers, aws.ToString(lb.LoadBalancerArn))
		}
	}
	for _, list := range groups {
		for _, group := range list.TargetGroups {
			targets = append(targets, aws.ToString(group.TargetGroupArn))
		}
	}
	tagged := make([][]string, len(balancers)) // with their listeners and rules
	for i, id := range balancers {
		g.Go(func() error {
			below, err := r.readListeners(groupCtx, id)
			tagged[i] = append([]string{id}, below...)
			return err
		})
	}
	for _, id := range targets {
		g.Go(func() error {
			if err := describe(groupCtx, r, ofELBv2("DescribeTargetGroupAttributes", r.elbv2.DescribeTargetGroupAttributes), &awselbv2.DescribeTargetGroupAttributesInput{TargetGroupArn: &id}, id); err != nil {
				return err
			}
			return describe(groupCtx, r, ofELBv2("DescribeTargetHealth", r.elbv2.DescribeTargetHealth), &awselbv2.DescribeTargetHealthInput{TargetGroupArn: &id}, id)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return describeTags(ctx, r, ofELBv2("DescribeTags", r.elbv2.DescribeTags), func(some []string) *awselbv2.DescribeTagsInput {
		return &awselbv2.DescribeTagsInput{ResourceArns: some}
	}, slices.Concat(append(tagged, targets)...))
}

// readListeners reads the attributes, listeners and rules of a load balancer. It returns the ARNs of listeners and rules.
// Attributes of listeners are not read: they decide nothing that Drydock explains.
func (r *reader) readListeners(ctx context.Context, balancer string) ([]string, error) {
	if err := describe(ctx, r, ofELBv2("DescribeLoadBalancerAttributes", r.elbv2.DescribeLoadBalancerAttributes), &awselbv2.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &balancer}, balancer); err != nil {
		return nil, err
	}
	lists, err := ask(ctx, r, ofELBv2("DescribeListeners", r.elbv2.DescribeListeners), &awselbv2.DescribeListenersInput{LoadBalancerArn: &balancer}, balancer)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, list := range lists {
		for _, l := range list.Listeners {
			id := aws.ToString(l.ListenerArn)
			out = append(out, id)
			if len(l.Certificates) > 0 {
				if err := describe(ctx, r, ofELBv2("DescribeListenerCertificates", r.elbv2.DescribeListenerCertificates), &awselbv2.DescribeListenerCertificatesInput{ListenerArn: &id}, id); err != nil {
					return nil, err
				}
			}
			rules, err := ask(ctx, r, ofELBv2("DescribeRules", r.elbv2.DescribeRules), &awselbv2.DescribeRulesInput{ListenerArn: &id}, id)
			if err != nil {
				return nil, err
			}
			for _, page := range rules {
				for _, rule := range page.Rules {
					out = append(out, aws.ToString(rule.RuleArn))
				}
			}
		}
	}
	return out, nil
}
