package elbv2

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// An importer converts what another account's Elastic Load Balancing answered.
type importer struct {
	r  *recording.Recording
	sc scope

	writes []module.Write
	gaps   []recording.Gap
	// tags and attributes are those of resources, by ARN.
	tags       map[string]tags
	attributes map[string]map[string]string
}

// importRecords turns what another account's Elastic Load Balancing answered into records: load balancers with their listeners
// and rules, and target groups with their targets.
func importRecords(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	i := &importer{r: r, sc: regional.At(r.Source.Account, r.Source.Region), tags: map[string]tags{}, attributes: map[string]map[string]string{}}
	for _, part := range []func() error{i.readTags, i.readAttributes, i.balancers, i.listeners, i.groups} {
		if err := part(); err != nil {
			return nil, nil, err
		}
	}
	return i.writes, i.gaps, nil
}

// eachAnswer calls fn for each page of an operation's answers.
func eachAnswer[In, Out any](r *recording.Recording, operation string, fn func(*In, *Out) error) error {
	pages, err := recording.Pages[In, Out](r, recording.ELBv2, operation)
	if err != nil {
		return err
	}
	for _, p := range pages {
		if err := fn(p.Input, p.Output); err != nil {
			return fmt.Errorf("the source's answer to %s: %w", recording.Action(recording.ELBv2, operation), err)
		}
	}
	return nil
}

// id returns the ID of a resource of a kind, with as many parts as those of the kind have.
func (i *importer) id(kind string, parts int, a *string) (string, error) {
	p, err := arn.Parse(text(a))
	id := idOf(kind, text(a))
	if err != nil || id == "" || p.Account != i.sc.Account || p.Region != i.sc.Region || strings.Count(id, "/") != parts-1 || slices.Contains(strings.Split(id, "/"), "") {
		return "", fmt.Errorf("%q is not the ARN of a %s of account %s in %s", text(a), kind, i.sc.Account, i.sc.Region)
	}
	return id, nil
}

func (i *importer) readTags() error {
	return eachAnswer(i.r, "DescribeTags", func(_ *awselbv2.DescribeTagsInput, out *awselbv2.DescribeTagsOutput) error {
		for _, d := range out.TagDescriptions {
			of := tags{}
			for _, t := range d.Tags {
				of[text(t.Key)] = text(t.Value)
			}
			if len(of) > 0 {
				i.tags[text(d.ResourceArn)] = of
			}
		}
		return nil
	})
}

// attribute keeps an attribute of a resource.
func (i *importer) attribute(resource, key, value *string) {
	if i.attributes[text(resource)] == nil {
		i.attributes[text(resource)] = map[string]string{}
	}
	i.attributes[text(resource)][text(key)] = text(value)
}

func (i *importer) readAttributes() error {
	err := eachAnswer(i.r, "DescribeLoadBalancerAttributes", func(in *awselbv2.DescribeLoadBalancerAttributesInput, out *awselbv2.DescribeLoadBalancerAttributesOutput) error {
		for _, a := range out.Attributes {
			i.attribute(in.LoadBalancerArn, a.Key, a.Value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return eachAnswer(i.r, "DescribeTargetGroupAttributes", func(in *awselbv2.DescribeTargetGroupAttributesInput, out *awselbv2.DescribeTargetGroupAttributesOutput) error {
		for _, a := range out.Attributes {
			i.attribute(in.TargetGroupArn, a.Key, a.Value)
		}
		return nil
	})
}

func (i *importer) balancers() error {
	interfaces, err := elbnet.Imported(i.r)
	if err != nil {
		return err
	}
	return eachAnswer(i.r, "DescribeLoadBalancers", func(_ *awselbv2.DescribeLoadBalancersInput, out *awselbv2.DescribeLoadBalancersOutput) error {
		for _, lb := range out.LoadBalancers {
			id, err := i.id("loadbalancer", 3, lb.LoadBalancerArn)
			if err != nil {
				return err
			}
			if lb.Type != elbv2types.LoadBalancerTypeEnumApplication && lb.Type != elbv2types.LoadBalancerTypeEnumNetwork {
				i.gaps = append(i.gaps, recording.Gap{Service: recording.ELBv2, Operation: "DescribeLoadBalancers", Subject: id, Code: recording.NotModelled, Message: fmt.Sprintf("load balancer %s is of the type %s, which Drydock does not have", id, lb.Type)})
				continue
			}
			if part(id, 1) != text(lb.LoadBalancerName) || lb.State == nil || lb.DNSName == nil {
				return fmt.Errorf("load balancer %s has another name, no state or no DNS name", id)
			}
			if slices.ContainsFunc(lb.AvailabilityZones, func(z elbv2types.AvailabilityZone) bool { return z.SubnetId == nil || z.ZoneName == nil }) {
				return fmt.Errorf("load balancer %s is in a zone without a subnet or name", id)
			}
			i.writes = append(i.writes, module.Put(loadBalancers, i.sc.Key(*lb.LoadBalancerName), loadBalancerRecord{
				LB: lb, Attributes: i.attributes[*lb.LoadBalancerArn], Interfaces: interfaces[id], Tags: i.tags[*lb.LoadBalancerArn],
			}))
		}
		return nil
	})
}

// gateway reports whether a listener or rule is of a Gateway Load Balancer, none of which are imported.
func gateway(id string) bool { return part(id, 0) != "app" && part(id, 0) != "net" }

// complete reports whether there are actions, and all have what their types need.
func complete(actions []elbv2types.Action) bool {
	return len(actions) > 0 && !slices.ContainsFunc(actions, func(a elbv2types.Action) bool {
		return a.Type == elbv2types.ActionTypeEnumFixedResponse && a.FixedResponseConfig == nil || a.Type == elbv2types.ActionTypeEnumRedirect && a.RedirectConfig == nil
	})
}

func (i *importer) listeners() error {
	defaults := map[string]string{} // the ARNs of default rules by listener
	err := eachAnswer(i.r, "DescribeRules", func(in *awselbv2.DescribeRulesInput, out *awselbv2.DescribeRulesOutput) error {
		for _, rule := range out.Rules {
			id, err := i.id("listener-rule", 5, rule.RuleArn)
			if err != nil {
				return err
			}
			if gateway(id) {
				continue
			}
			if aws.ToBool(rule.IsDefault) {
				defaults[text(in.ListenerArn)] = *rule.RuleArn
				continue
			}
			if rule.Priority == nil || !complete(rule.Actions) {
				return fmt.Errorf("rule %s has no priority or no complete actions", id)
			}
			i.writes = append(i.writes, module.Put(rules, i.sc.Key(id), ruleRecord{Rule: rule, Tags: i.tags[*rule.RuleArn]}))
		}
		return nil
	})
	if err != nil {
		return err
	}
	more := map[string][]string{} // certificates besides the default one, by listener
	err = eachAnswer(i.r, "DescribeListenerCertificates", func(in *awselbv2.DescribeListenerCertificatesInput, out *awselbv2.DescribeListenerCertificatesOutput) error {
		for _, c := range out.Certificates {
			if !aws.ToBool(c.IsDefault) {
				more[text(in.ListenerArn)] = append(more[text(in.ListenerArn)], text(c.CertificateArn))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return eachAnswer(i.r, "DescribeListeners", func(_ *awselbv2.DescribeListenersInput, out *awselbv2.DescribeListenersOutput) error {
		for _, l := range out.Listeners {
			id, err := i.id("listener", 4, l.ListenerArn)
			if err != nil {
				return err
			}
			if gateway(id) {
				continue
			}
			if l.Port == nil || l.LoadBalancerArn == nil || !complete(l.DefaultActions) {
				return fmt.Errorf("listener %s has no port, no load balancer or no complete default actions", id)
			}
			rule := defaults[*l.ListenerArn]
			i.writes = append(i.writes, module.Put(listeners, i.sc.Key(id), listenerRecord{
				Listener: l, Certificates: more[*l.ListenerArn], DefaultRule: part(idOf("listener-rule", rule), 4), DefaultRuleTags: i.tags[rule], Tags: i.tags[*l.ListenerArn],
			}))
		}
		return nil
	})
}

func (i *importer) groups() error {
	targets := map[string][]targetRecord{}
	err := eachAnswer(i.r, "DescribeTargetHealth", func(in *awselbv2.DescribeTargetHealthInput, out *awselbv2.DescribeTargetHealthOutput) error {
		for _, d := range out.TargetHealthDescriptions {
			if d.Target == nil || text(d.Target.Id) == "" {
				return fmt.Errorf("a target of %s has no ID", text(in.TargetGroupArn))
			}
			targets[text(in.TargetGroupArn)] = append(targets[text(in.TargetGroupArn)], targetRecord{ID: *d.Target.Id, Port: aws.ToInt32(d.Target.Port), Zone: text(d.Target.AvailabilityZone)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return eachAnswer(i.r, "DescribeTargetGroups", func(_ *awselbv2.DescribeTargetGroupsInput, out *awselbv2.DescribeTargetGroupsOutput) error {
		for _, g := range out.TargetGroups {
			id, err := i.id("targetgroup", 2, g.TargetGroupArn)
			if err != nil {
				return err
			}
			if part(id, 0) != text(g.TargetGroupName) {
				return fmt.Errorf("target group %s has another name", id)
			}
			if g.TargetType == elbv2types.TargetTypeEnumLambda || g.VpcId == nil || g.Port == nil {
				i.gaps = append(i.gaps, recording.Gap{Service: recording.ELBv2, Operation: "DescribeTargetGroups", Subject: id, Code: recording.NotModelled, Message: fmt.Sprintf("target group %s is for functions or for a Gateway Load Balancer, which Drydock does not have", id)})
				continue
			}
			arn := *g.TargetGroupArn
			g.LoadBalancerArns = nil // they follow from listeners and rules
			i.writes = append(i.writes, module.Put(targetGroups, i.sc.Key(*g.TargetGroupName), targetGroupRecord{Group: g, Attributes: i.attributes[arn], Tags: i.tags[arn]}),
				module.Put(targetSets, i.sc.Key(*g.TargetGroupName), targetSetRecord{Targets: targets[arn]}))
		}
		return nil
	})
}
