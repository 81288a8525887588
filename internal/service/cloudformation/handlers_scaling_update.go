package cloudformation

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// updateScalingGroup changes an Auto Scaling group but keeps its instances. An UpdatePolicy
// replaces them.
func updateScalingGroup(r *request) error {
	in := &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &r.id}
	if err := r.onlyChanged(in, "AvailabilityZones", "CapacityRebalance", "DefaultInstanceWarmup", "DesiredCapacity", "DesiredCapacityType", "HealthCheckGracePeriod", "HealthCheckType",
		"LaunchConfigurationName", "LaunchTemplate", "MaxSize", "MinSize", "MixedInstancesPolicy", "NewInstancesProtectedFromScaleIn", "TerminationPolicies", "Context", "DeletionProtection", "ServiceLinkedRoleARN"); err != nil {
		return err
	}
	var named struct{ Cooldown *int32 }
	if err := r.onlyChanged(&named, "Cooldown"); err != nil {
		return err
	}
	in.DefaultCooldown = named.Cooldown
	if r.changed("VPCZoneIdentifier") && r.props.Has("VPCZoneIdentifier") {
		in.VPCZoneIdentifier = aws.String(strings.Join(r.list("VPCZoneIdentifier"), ","))
	}
	if _, err := call[awsautoscaling.UpdateAutoScalingGroupOutput](r, in); err != nil {
		return err
	}
	if names := r.newIn("LoadBalancerNames"); len(names) > 0 {
		if _, err := call[awsautoscaling.AttachLoadBalancersOutput](r, &awsautoscaling.AttachLoadBalancersInput{AutoScalingGroupName: &r.id, LoadBalancerNames: names}); err != nil {
			return err
		}
	}
	if names := r.goneFrom("LoadBalancerNames"); len(names) > 0 {
		if _, err := call[awsautoscaling.DetachLoadBalancersOutput](r, &awsautoscaling.DetachLoadBalancersInput{AutoScalingGroupName: &r.id, LoadBalancerNames: names}); err != nil {
			return err
		}
	}
	if arns := r.newIn("TargetGroupARNs"); len(arns) > 0 {
		if _, err := call[awsautoscaling.AttachLoadBalancerTargetGroupsOutput](r, &awsautoscaling.AttachLoadBalancerTargetGroupsInput{AutoScalingGroupName: &r.id, TargetGroupARNs: arns}); err != nil {
			return err
		}
	}
	if arns := r.goneFrom("TargetGroupARNs"); len(arns) > 0 {
		if _, err := call[awsautoscaling.DetachLoadBalancerTargetGroupsOutput](r, &awsautoscaling.DetachLoadBalancerTargetGroupsInput{AutoScalingGroupName: &r.id, TargetGroupARNs: arns}); err != nil {
			return err
		}
	}
	if r.changed("MetricsCollection") && len(r.was.list("MetricsCollection")) > 0 { // settle enables the current ones
		if _, err := call[awsautoscaling.DisableMetricsCollectionOutput](r, &awsautoscaling.DisableMetricsCollectionInput{AutoScalingGroupName: &r.id}); err != nil {
			return err
		}
	}
	return r.retagGroup()
}

// groupTags returns the tags of the group: the template's, the stack's and
// CloudFormation's.
func (r *request) groupTags() (out []autoscalingtypes.Tag, err error) {
	err = each(r, "Tags", "", func(t *autoscalingtypes.Tag, _ *template.Map) error { out = append(out, *t); return nil })
	for _, t := range append(r.tags()[len(out):], r.systemTags()...) { // instances get these, too
		out = append(out, autoscalingtypes.Tag{Key: &t.Key, Value: &t.Value, PropagateAtLaunch: aws.Bool(true)})
	}
	return out, err
}

func (r *request) retagGroup() error {
	now, err := r.groupTags()
	if err != nil {
		return err
	}
	before, err := r.was.groupTags()
	if err != nil {
		return err
	}
	same := func(a, b autoscalingtypes.Tag) bool {
		return *a.Key == *b.Key && aws.ToString(a.Value) == aws.ToString(b.Value) && aws.ToBool(a.PropagateAtLaunch) == aws.ToBool(b.PropagateAtLaunch)
	}
	of := func(t autoscalingtypes.Tag) autoscalingtypes.Tag {
		t.ResourceId, t.ResourceType = &r.id, aws.String("auto-scaling-group")
		return t
	}
	set, gone := &awsautoscaling.CreateOrUpdateTagsInput{}, &awsautoscaling.DeleteTagsInput{}
	for _, t := range now {
		if !slices.ContainsFunc(before, func(b autoscalingtypes.Tag) bool { return same(t, b) }) {
			set.Tags = append(set.Tags, of(t))
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(now, func(t autoscalingtypes.Tag) bool { return *t.Key == *b.Key }) {
			gone.Tags = append(gone.Tags, of(b))
		}
	}
	if len(gone.Tags) > 0 {
		if _, err := call[awsautoscaling.DeleteTagsOutput](r, gone); err != nil {
			return err
		}
	}
	if len(set.Tags) == 0 {
		return nil
	}
	_, err = call[awsautoscaling.CreateOrUpdateTagsOutput](r, set)
	return err
}
