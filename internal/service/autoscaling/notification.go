package autoscaling

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// notificationTypes are the events for which topics can be notified. Nothing is sent, because
// Drydock has no SNS.
func notificationTypes() []string {
	return []string{
		"autoscaling:EC2_INSTANCE_LAUNCH", "autoscaling:EC2_INSTANCE_LAUNCH_ERROR", "autoscaling:EC2_INSTANCE_TERMINATE",
		"autoscaling:EC2_INSTANCE_TERMINATE_ERROR", "autoscaling:TEST_NOTIFICATION",
	}
}

// DescribeAutoScalingNotificationTypes lists the events.
func (s *Service) DescribeAutoScalingNotificationTypes(context.Context, *awsautoscaling.DescribeAutoScalingNotificationTypesInput) (*awsautoscaling.DescribeAutoScalingNotificationTypesOutput, error) {
	return &awsautoscaling.DescribeAutoScalingNotificationTypesOutput{AutoScalingNotificationTypes: notificationTypes()}, nil
}

// PutNotificationConfiguration sets the events for which a topic is notified, replacing the
// previous ones.
func (s *Service) PutNotificationConfiguration(ctx context.Context, in *awsautoscaling.PutNotificationConfigurationInput) (*awsautoscaling.PutNotificationConfigurationOutput, error) {
	for _, t := range in.NotificationTypes {
		if !slices.Contains(notificationTypes(), t) {
			return nil, errValidation("\"%s\" is not a valid Notification Type.", t) // the mocks of fog/fog-aws quote it
		}
	}
	err := s.changeNamed(ctx, in.AutoScalingGroupName, func(_ *store.Tx, g *groupRecord) error {
		g.Notifications = withoutTopic(g.Notifications, aws.ToString(in.TopicARN))
		for _, t := range in.NotificationTypes {
			g.Notifications = append(g.Notifications, autoscalingtypes.NotificationConfiguration{
				AutoScalingGroupName: in.AutoScalingGroupName, TopicARN: in.TopicARN, NotificationType: &t,
			})
		}
		return nil
	})
	return &awsautoscaling.PutNotificationConfigurationOutput{}, err
}

func withoutTopic(all []autoscalingtypes.NotificationConfiguration, topic string) []autoscalingtypes.NotificationConfiguration {
	return slices.DeleteFunc(slices.Clone(all), func(n autoscalingtypes.NotificationConfiguration) bool { return *n.TopicARN == topic })
}

// DeleteNotificationConfiguration removes a topic's configuration.
func (s *Service) DeleteNotificationConfiguration(ctx context.Context, in *awsautoscaling.DeleteNotificationConfigurationInput) (*awsautoscaling.DeleteNotificationConfigurationOutput, error) {
	err := s.changeNamed(ctx, in.AutoScalingGroupName, func(_ *store.Tx, g *groupRecord) error {
		left := withoutTopic(g.Notifications, aws.ToString(in.TopicARN))
		if len(left) == len(g.Notifications) { // the mocks of fog/fog-aws quote it
			return errValidation("Notification Topic '%s' doesn't exist for '%s'", aws.ToString(in.TopicARN), scopeOf(ctx).Account)
		}
		g.Notifications = left
		return nil
	})
	return &awsautoscaling.DeleteNotificationConfigurationOutput{}, err
}

// DescribeNotificationConfigurations lists the configurations.
func (s *Service) DescribeNotificationConfigurations(ctx context.Context, in *awsautoscaling.DescribeNotificationConfigurationsInput) (*awsautoscaling.DescribeNotificationConfigurationsOutput, error) {
	all := groups.All(s.store, scopeOf(ctx).All())
	found := []autoscalingtypes.NotificationConfiguration{}
	for _, g := range all {
		if len(in.AutoScalingGroupNames) == 0 || slices.Contains(in.AutoScalingGroupNames, g.Value.name()) {
			found = append(found, g.Value.Notifications...)
		}
	}
	id := func(n autoscalingtypes.NotificationConfiguration) string {
		return *n.AutoScalingGroupName + "\n" + *n.TopicARN + "\n" + *n.NotificationType
	}
	slices.SortFunc(found, func(a, b autoscalingtypes.NotificationConfiguration) int { return cmp.Compare(id(a), id(b)) })
	found, next, err := paging.Cut(pages(50, 100), found, id, in.MaxRecords, in.NextToken)
	return &awsautoscaling.DescribeNotificationConfigurationsOutput{NotificationConfigurations: found, NextToken: next}, err
}

// groupMetrics are the metrics that can be enabled. Drydock does not collect them; it only
// remembers which are enabled.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_EnableMetricsCollection.html
func groupMetrics() []string {
	return []string{
		"GroupMinSize", "GroupMaxSize", "GroupDesiredCapacity", "GroupInServiceInstances", "GroupPendingInstances", "GroupStandbyInstances",
		"GroupTerminatingInstances", "GroupTotalInstances", "GroupInServiceCapacity", "GroupPendingCapacity", "GroupStandbyCapacity",
		"GroupTerminatingCapacity", "GroupTotalCapacity", "WarmPoolDesiredCapacity", "WarmPoolWarmedCapacity", "WarmPoolPendingCapacity",
		"WarmPoolTerminatingCapacity", "WarmPoolTotalCapacity", "GroupAndWarmPoolDesiredCapacity", "GroupAndWarmPoolTotalCapacity",
	}
}

// EnableMetricsCollection marks metrics as enabled: those in the request, or all.
func (s *Service) EnableMetricsCollection(ctx context.Context, in *awsautoscaling.EnableMetricsCollectionInput) (*awsautoscaling.EnableMetricsCollectionOutput, error) {
	if aws.ToString(in.Granularity) != "1Minute" {
		return nil, errValidation("Valid metrics granularity type is: [1Minute].") // the mocks of fog/fog-aws quote it
	}
	return &awsautoscaling.EnableMetricsCollectionOutput{}, s.changeMetrics(ctx, in.AutoScalingGroupName, in.Metrics, in.Granularity)
}

// DisableMetricsCollection marks metrics as disabled: those in the request, or all.
func (s *Service) DisableMetricsCollection(ctx context.Context, in *awsautoscaling.DisableMetricsCollectionInput) (*awsautoscaling.DisableMetricsCollectionOutput, error) {
	return &awsautoscaling.DisableMetricsCollectionOutput{}, s.changeMetrics(ctx, in.AutoScalingGroupName, in.Metrics, nil)
}

func (s *Service) changeMetrics(ctx context.Context, group *string, names []string, granularity *string) error {
	for _, n := range names {
		if !slices.Contains(groupMetrics(), n) {
			return errValidation("Invalid metric name: %s", n) // from memory
		}
	}
	if len(names) == 0 {
		names = groupMetrics()
	}
	return s.changeNamed(ctx, group, func(_ *store.Tx, g *groupRecord) error {
		left := slices.DeleteFunc(slices.Clone(g.Group.EnabledMetrics), func(m autoscalingtypes.EnabledMetric) bool { return slices.Contains(names, *m.Metric) })
		if granularity != nil {
			for _, n := range names {
				left = append(left, autoscalingtypes.EnabledMetric{Metric: &n, Granularity: granularity})
			}
		}
		g.Group.EnabledMetrics = left
		return nil
	})
}

// DescribeMetricCollectionTypes lists the metrics.
func (s *Service) DescribeMetricCollectionTypes(context.Context, *awsautoscaling.DescribeMetricCollectionTypesInput) (*awsautoscaling.DescribeMetricCollectionTypesOutput, error) {
	out := &awsautoscaling.DescribeMetricCollectionTypesOutput{Granularities: []autoscalingtypes.MetricGranularityType{{Granularity: aws.String("1Minute")}}}
	for _, n := range groupMetrics() {
		out.Metrics = append(out.Metrics, autoscalingtypes.MetricCollectionType{Metric: &n})
	}
	return out, nil
}
