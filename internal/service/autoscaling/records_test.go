package autoscaling_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/google/go-cmp/cmp"
)

func groupTag(group, key, value string) autoscalingtypes.Tag {
	return autoscalingtypes.Tag{ResourceId: &group, ResourceType: aws.String("auto-scaling-group"), Key: &key, Value: &value, PropagateAtLaunch: aws.Bool(true)}
}

func TestTags(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.group("one", 0)
	w.group("two", 0)
	testkit.Must(w.CreateOrUpdateTags(ctx, &awsautoscaling.CreateOrUpdateTagsInput{Tags: []autoscalingtypes.Tag{
		groupTag("one", "env", "dev"), groupTag("one", "team", "a"), groupTag("two", "env", "prod"),
	}}))(t)
	testkit.Must(w.CreateOrUpdateTags(ctx, &awsautoscaling.CreateOrUpdateTagsInput{Tags: []autoscalingtypes.Tag{groupTag("one", "env", "test")}}))(t)
	find := func(filters ...autoscalingtypes.Filter) []string {
		t.Helper()
		var out []string
		for _, tag := range testkit.Must(w.DescribeTags(ctx, &awsautoscaling.DescribeTagsInput{Filters: filters, MaxRecords: aws.Int32(100)}))(t).Tags {
			out = append(out, *tag.ResourceId+" "+*tag.Key+"="+*tag.Value)
		}
		return out
	}
	filter := func(name string, values ...string) autoscalingtypes.Filter {
		return autoscalingtypes.Filter{Name: &name, Values: values}
	}
	for _, tt := range []struct {
		name    string
		filters []autoscalingtypes.Filter
		want    []string
	}{
		{"all", nil, []string{"one env=test", "one team=a", "two env=prod"}},
		{"by group", []autoscalingtypes.Filter{filter("auto-scaling-group", "one")}, []string{"one env=test", "one team=a"}},
		{"by key and value", []autoscalingtypes.Filter{filter("key", "env"), filter("value", "prod", "stage")}, []string{"two env=prod"}},
		{"by propagation", []autoscalingtypes.Filter{filter("propagate-at-launch", "false")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, find(tt.filters...)); diff != "" {
				t.Error(diff)
			}
		})
	}
	groups := testkit.Must(w.DescribeAutoScalingGroups(ctx, &awsautoscaling.DescribeAutoScalingGroupsInput{Filters: []autoscalingtypes.Filter{filter("tag:env", "prod")}}))(t).AutoScalingGroups
	if len(groups) != 1 || *groups[0].AutoScalingGroupName != "two" {
		t.Errorf("%d groups", len(groups))
	}
	testkit.Must(w.DeleteTags(ctx, &awsautoscaling.DeleteTagsInput{Tags: []autoscalingtypes.Tag{groupTag("one", "env", "")}}))(t)
	if diff := cmp.Diff([]string{"one team=a", "two env=prod"}, find()); diff != "" {
		t.Error(diff)
	}
	_, err := w.CreateOrUpdateTags(ctx, &awsautoscaling.CreateOrUpdateTagsInput{Tags: []autoscalingtypes.Tag{{Key: aws.String("Lab"), PropagateAtLaunch: aws.Bool(true), ResourceId: aws.String("one")}}})
	testkit.WantError(t, err, "ValidationError", "Incomplete tags information for these tags. Tag - 'Key:Lab,PropagateAtLaunch:true,ResourceId:one,ResourceType:null' , ")
	long := strings.Repeat("k", 129)
	_, err = w.CreateOrUpdateTags(ctx, &awsautoscaling.CreateOrUpdateTagsInput{Tags: []autoscalingtypes.Tag{groupTag("one", long, "")}})
	testkit.WantError(t, err, "ValidationError", "1 validation error detected: Value '"+long+"' at 'tags.1.member.key' failed to satisfy constraint: Member must have length less than or equal to 128")
	_, err = w.DescribeAutoScalingGroups(ctx, &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: slices.Repeat([]string{"one"}, 51)})
	testkit.WantError(t, err, "ValidationError", "The number of group names that may be passed in is limited to 50")
	testkit.Must(w.DescribeAutoScalingGroups(ctx, &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: slices.Repeat([]string{"one"}, 51), MaxRecords: aws.Int32(51)}))(t)
	_, err = w.CreateOrUpdateTags(ctx, &awsautoscaling.CreateOrUpdateTagsInput{Tags: []autoscalingtypes.Tag{groupTag("nobody", "a", "b")}})
	testkit.WantError(t, err, "ValidationError", "AutoScalingGroup not found - AutoScaling Group nobody not found")
}

func TestPoliciesNotificationsAndMetrics(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.group("web", 0)
	name := aws.String("web")
	put := func(policy string, edit func(*awsautoscaling.PutScalingPolicyInput)) *awsautoscaling.PutScalingPolicyOutput {
		t.Helper()
		in := &awsautoscaling.PutScalingPolicyInput{AutoScalingGroupName: name, PolicyName: &policy}
		edit(in)
		return testkit.Must(w.PutScalingPolicy(ctx, in))(t)
	}
	put("up", func(in *awsautoscaling.PutScalingPolicyInput) {
		in.AdjustmentType, in.ScalingAdjustment = aws.String("ChangeInCapacity"), aws.Int32(1)
	})
	cpu := put("cpu", func(in *awsautoscaling.PutScalingPolicyInput) {
		in.PolicyType = aws.String("TargetTrackingScaling")
		in.TargetTrackingConfiguration = &autoscalingtypes.TargetTrackingConfiguration{
			TargetValue: aws.Float64(50), PredefinedMetricSpecification: &autoscalingtypes.PredefinedMetricSpecification{PredefinedMetricType: "ASGAverageCPUUtilization"},
		}
	})
	refused := func(message string, in *awsautoscaling.PutScalingPolicyInput) {
		t.Helper()
		in.AutoScalingGroupName, in.PolicyName = name, aws.String("refused")
		_, err := w.PutScalingPolicy(ctx, in)
		testkit.WantError(t, err, "ValidationError", message)
	}
	pair := []autoscalingtypes.PredictiveScalingMetricSpecification{{TargetValue: aws.Float64(0.2), PredefinedMetricPairSpecification: &autoscalingtypes.PredictiveScalingPredefinedMetricPair{PredefinedMetricType: "ASGCPUUtilization"}}}
	put("forecast", func(in *awsautoscaling.PutScalingPolicyInput) {
		in.PolicyType, in.PredictiveScalingConfiguration = aws.String("PredictiveScaling"), &autoscalingtypes.PredictiveScalingConfiguration{MetricSpecifications: pair}
	})
	forecasts := testkit.Must(w.DescribePolicies(ctx, &awsautoscaling.DescribePoliciesInput{PolicyNames: []string{"forecast"}}))(t).ScalingPolicies
	if c := forecasts[0].PredictiveScalingConfiguration; c.Mode != "ForecastOnly" || c.MaxCapacityBreachBehavior != "HonorMaxCapacity" || *c.MetricSpecifications[0].TargetValue != 0.2 {
		t.Errorf("%+v", c)
	}
	testkit.Must(w.DeletePolicy(ctx, &awsautoscaling.DeletePolicyInput{AutoScalingGroupName: name, PolicyName: aws.String("forecast")}))(t)
	refused("MaxCapacityBuffer is required if MaxCapacityBreachBehavior is IncreaseMaxCapacity, and cannot be used otherwise.", &awsautoscaling.PutScalingPolicyInput{
		PolicyType:                     aws.String("PredictiveScaling"),
		PredictiveScalingConfiguration: &autoscalingtypes.PredictiveScalingConfiguration{MetricSpecifications: pair, MaxCapacityBuffer: aws.Int32(10)},
	})
	refused("Scaling increment must be specified for a SimpleScaling policy", &awsautoscaling.PutScalingPolicyInput{AdjustmentType: aws.String("ChangeInCapacity")})
	refused("There must be a StepAdjustment with an unspecified upper bound (i.e., upper bound is null) when one StepAdjustment has a positive upper bound", &awsautoscaling.PutScalingPolicyInput{
		PolicyType: aws.String("StepScaling"), AdjustmentType: aws.String("ChangeInCapacity"),
		StepAdjustments: []autoscalingtypes.StepAdjustment{{ScalingAdjustment: aws.Int32(1), MetricIntervalLowerBound: aws.Float64(1), MetricIntervalUpperBound: aws.Float64(2)}},
	})
	refused("Only one TargetTrackingScaling policy for a given metric specification is allowed.", &awsautoscaling.PutScalingPolicyInput{
		PolicyType: aws.String("TargetTrackingScaling"), TargetTrackingConfiguration: &autoscalingtypes.TargetTrackingConfiguration{
			TargetValue: aws.Float64(70), PredefinedMetricSpecification: &autoscalingtypes.PredefinedMetricSpecification{PredefinedMetricType: "ASGAverageCPUUtilization"},
		},
	})
	listed := testkit.Must(w.DescribePolicies(ctx, &awsautoscaling.DescribePoliciesInput{AutoScalingGroupName: name, PolicyTypes: []string{"TargetTrackingScaling"}}))(t).ScalingPolicies
	if len(listed) != 1 || *listed[0].PolicyARN != *cpu.PolicyARN || *listed[0].TargetTrackingConfiguration.TargetValue != 50 {
		t.Errorf("%+v", listed)
	}
	testkit.Must(w.DeletePolicy(ctx, &awsautoscaling.DeletePolicyInput{PolicyName: cpu.PolicyARN}))(t)
	if left := testkit.Must(w.DescribePolicies(ctx, &awsautoscaling.DescribePoliciesInput{}))(t).ScalingPolicies; len(left) != 1 || *left[0].PolicyName != "up" {
		t.Errorf("%+v", left)
	}

	topic := aws.String("arn:aws:sns:us-east-1:123456789012:t")
	types := testkit.Must(w.DescribeAutoScalingNotificationTypes(ctx, &awsautoscaling.DescribeAutoScalingNotificationTypesInput{}))(t).AutoScalingNotificationTypes
	testkit.Must(w.PutNotificationConfiguration(ctx, &awsautoscaling.PutNotificationConfigurationInput{AutoScalingGroupName: name, TopicARN: topic, NotificationTypes: types[:2]}))(t)
	if n := testkit.Must(w.DescribeNotificationConfigurations(ctx, &awsautoscaling.DescribeNotificationConfigurationsInput{}))(t).NotificationConfigurations; len(n) != 2 {
		t.Errorf("%+v", n)
	}
	testkit.Must(w.DeleteNotificationConfiguration(ctx, &awsautoscaling.DeleteNotificationConfigurationInput{AutoScalingGroupName: name, TopicARN: topic}))(t)
	_, err := w.DeleteNotificationConfiguration(ctx, &awsautoscaling.DeleteNotificationConfigurationInput{AutoScalingGroupName: name, TopicARN: topic})
	testkit.WantError(t, err, "ValidationError", "Notification Topic '"+*topic+"' doesn't exist for '"+w.account+"'")
	_, err = w.PutNotificationConfiguration(ctx, &awsautoscaling.PutNotificationConfigurationInput{AutoScalingGroupName: name, TopicARN: topic, NotificationTypes: []string{"news"}})
	testkit.WantError(t, err, "ValidationError", `"news" is not a valid Notification Type.`)

	_, err = w.EnableMetricsCollection(ctx, &awsautoscaling.EnableMetricsCollectionInput{AutoScalingGroupName: name, Granularity: aws.String("1Hour")})
	testkit.WantError(t, err, "ValidationError", "Valid metrics granularity type is: [1Minute].")
	testkit.Must(w.EnableMetricsCollection(ctx, &awsautoscaling.EnableMetricsCollectionInput{AutoScalingGroupName: name, Granularity: aws.String("1Minute"), Metrics: []string{"GroupMinSize", "GroupMaxSize"}}))(t)
	testkit.Must(w.DisableMetricsCollection(ctx, &awsautoscaling.DisableMetricsCollectionInput{AutoScalingGroupName: name, Metrics: []string{"GroupMaxSize"}}))(t)
	testkit.Must(w.AttachLoadBalancerTargetGroups(ctx, &awsautoscaling.AttachLoadBalancerTargetGroupsInput{AutoScalingGroupName: name, TargetGroupARNs: []string{"arn:aws:elasticloadbalancing:us-east-1:1:targetgroup/a/b"}}))(t)
	g, _ := w.describe("web")
	if len(g.EnabledMetrics) != 1 || *g.EnabledMetrics[0].Metric != "GroupMinSize" || len(g.TargetGroupARNs) != 1 || len(g.TrafficSources) != 1 {
		t.Errorf("%+v %v %+v", g.EnabledMetrics, g.TargetGroupARNs, g.TrafficSources)
	}
	limits := testkit.Must(w.DescribeAccountLimits(ctx, &awsautoscaling.DescribeAccountLimitsInput{}))(t)
	if *limits.NumberOfAutoScalingGroups != 1 || *limits.MaxNumberOfAutoScalingGroups != 500 {
		t.Errorf("%+v", limits)
	}
	if p := testkit.Must(w.DescribeScalingProcessTypes(ctx, &awsautoscaling.DescribeScalingProcessTypesInput{}))(t).Processes; len(p) != 9 {
		t.Errorf("%d processes", len(p))
	}
	if p := testkit.Must(w.DescribeTerminationPolicyTypes(ctx, &awsautoscaling.DescribeTerminationPolicyTypesInput{}))(t).TerminationPolicyTypes; !slices.Contains(p, "OldestLaunchTemplate") {
		t.Errorf("%v", p)
	}
}
