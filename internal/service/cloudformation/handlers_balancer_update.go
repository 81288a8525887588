package cloudformation

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// updateClassic makes the changes that settle does not.
func updateClassic(r *request) error {
	if r.changed("SecurityGroups") && r.props.Has("SecurityGroups") {
		if _, err := call[awselb.ApplySecurityGroupsToLoadBalancerOutput](r, &awselb.ApplySecurityGroupsToLoadBalancerInput{LoadBalancerName: &r.id, SecurityGroups: r.list("SecurityGroups")}); err != nil {
			return err
		}
	}
	if subnets := r.newIn("Subnets"); len(subnets) > 0 {
		if _, err := call[awselb.AttachLoadBalancerToSubnetsOutput](r, &awselb.AttachLoadBalancerToSubnetsInput{LoadBalancerName: &r.id, Subnets: subnets}); err != nil {
			return err
		}
	}
	if subnets := r.goneFrom("Subnets"); len(subnets) > 0 {
		if _, err := call[awselb.DetachLoadBalancerFromSubnetsOutput](r, &awselb.DetachLoadBalancerFromSubnetsInput{LoadBalancerName: &r.id, Subnets: subnets}); err != nil {
			return err
		}
	}
	if r.changed("Listeners") {
		old := &awselb.DeleteLoadBalancerListenersInput{LoadBalancerName: &r.id}
		if err := each(r.was, "Listeners", "", func(l *elbtypes.Listener, _ *template.Map) error {
			old.LoadBalancerPorts = append(old.LoadBalancerPorts, l.LoadBalancerPort)
			return nil
		}); err != nil {
			return err
		}
		if _, err := call[awselb.DeleteLoadBalancerListenersOutput](r, old); err != nil {
			return err
		}
		in := &awselb.CreateLoadBalancerListenersInput{LoadBalancerName: &r.id}
		if err := each(r, "Listeners", "", func(l *elbtypes.Listener, _ *template.Map) error { in.Listeners = append(in.Listeners, *l); return nil }); err != nil {
			return err
		}
		if _, err := call[awselb.CreateLoadBalancerListenersOutput](r, in); err != nil {
			return err
		}
	}
	if gone := r.goneFrom("Instances"); len(gone) > 0 {
		in := &awselb.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: &r.id}
		for _, id := range gone {
			in.Instances = append(in.Instances, elbtypes.Instance{InstanceId: &id})
		}
		if _, err := call[awselb.DeregisterInstancesFromLoadBalancerOutput](r, in); err != nil {
			return err
		}
	}
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		in := &awselb.RemoveTagsInput{LoadBalancerNames: []string{r.id}}
		for _, k := range gone {
			in.Tags = append(in.Tags, elbtypes.TagKeyOnly{Key: &k})
		}
		if _, err := call[awselb.RemoveTagsOutput](r, in); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	in := &awselb.AddTagsInput{LoadBalancerNames: []string{r.id}}
	for _, t := range set {
		in.Tags = append(in.Tags, elbtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	_, err := call[awselb.AddTagsOutput](r, in)
	return err
}

func (r *request) retagELB() error {
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		if _, err := call[awselbv2.RemoveTagsOutput](r, &awselbv2.RemoveTagsInput{ResourceArns: []string{r.id}, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	in := &awselbv2.AddTagsInput{ResourceArns: []string{r.id}}
	for _, t := range set {
		in.Tags = append(in.Tags, elbv2types.Tag{Key: &t.Key, Value: &t.Value})
	}
	_, err := call[awselbv2.AddTagsOutput](r, in)
	return err
}

func updateBalancer(r *request) error {
	if r.changed("SecurityGroups") && r.props.Has("SecurityGroups") {
		if _, err := call[awselbv2.SetSecurityGroupsOutput](r, &awselbv2.SetSecurityGroupsInput{LoadBalancerArn: &r.id, SecurityGroups: r.list("SecurityGroups")}); err != nil {
			return err
		}
	}
	if r.changed("Subnets", "SubnetMappings") {
		in := &awselbv2.SetSubnetsInput{LoadBalancerArn: &r.id}
		if err := r.onlyChanged(in, "Subnets", "SubnetMappings"); err != nil {
			return err
		}
		if _, err := call[awselbv2.SetSubnetsOutput](r, in); err != nil {
			return err
		}
	}
	return r.retagELB()
}

func updateTargetGroup(r *request) error {
	in := &awselbv2.ModifyTargetGroupInput{TargetGroupArn: &r.id}
	if err := r.onlyChanged(in, "HealthCheckEnabled", "HealthCheckIntervalSeconds", "HealthCheckPath", "HealthCheckPort", "HealthCheckProtocol", "HealthCheckTimeoutSeconds", "HealthyThresholdCount", "Matcher", "UnhealthyThresholdCount"); err != nil {
		return err
	}
	if _, err := call[awselbv2.ModifyTargetGroupOutput](r, in); err != nil {
		return err
	}
	if r.changed("Targets") {
		var now []elbv2types.TargetDescription
		if err := each(r, "Targets", "", func(t *elbv2types.TargetDescription, _ *template.Map) error { now = append(now, *t); return nil }); err != nil {
			return err
		}
		gone := &awselbv2.DeregisterTargetsInput{TargetGroupArn: &r.id}
		err := each(r.was, "Targets", "", func(t *elbv2types.TargetDescription, _ *template.Map) error {
			for _, n := range now {
				if aws.ToString(n.Id) == aws.ToString(t.Id) && aws.ToInt32(n.Port) == aws.ToInt32(t.Port) {
					return nil
				}
			}
			gone.Targets = append(gone.Targets, *t)
			return nil
		})
		if err != nil {
			return err
		}
		if len(gone.Targets) > 0 {
			if _, err := call[awselbv2.DeregisterTargetsOutput](r, gone); err != nil {
				return err
			}
		}
	}
	return r.retagELB()
}

func updateListener(r *request) error {
	in := &awselbv2.ModifyListenerInput{ListenerArn: &r.id}
	if err := r.fill(in, "LoadBalancerArn ListenerAttributes"); err != nil {
		return err
	}
	_, err := call[awselbv2.ModifyListenerOutput](r, in)
	return err
}

func updateListenerRule(r *request) error {
	in := &awselbv2.ModifyRuleInput{RuleArn: &r.id}
	if err := r.fill(in, "ListenerArn Priority"); err != nil {
		return err
	}
	if _, err := call[awselbv2.ModifyRuleOutput](r, in); err != nil || !r.changed("Priority") {
		return err
	}
	order := &awselbv2.SetRulePrioritiesInput{RulePriorities: []elbv2types.RulePriorityPair{{RuleArn: &r.id}}}
	m := &template.Map{}
	m.Set("Priority", r.props.Get("Priority"))
	if err := r.fillWith(&order.RulePriorities[0], m, nil, ""); err != nil {
		return err
	}
	_, err := call[awselbv2.SetRulePrioritiesOutput](r, order)
	return err
}
