package cloudformation

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

func scalingHandlers() map[string]handler {
	return map[string]handler{
		"AWS::AutoScaling::LaunchConfiguration": madeWith(handler{
			find: func(r *request) (string, error) {
				out, err := call[awsautoscaling.DescribeLaunchConfigurationsOutput](r, &awsautoscaling.DescribeLaunchConfigurationsInput{LaunchConfigurationNames: []string{r.name("LaunchConfigurationName", 255)}})
				if err != nil || len(out.LaunchConfigurations) == 0 {
					return "", err
				}
				return aws.ToString(out.LaunchConfigurations[0].LaunchConfigurationName), nil
			},
			read: idAs("LaunchConfigurationName"),
			remove: one[awsautoscaling.DeleteLaunchConfigurationOutput](func(r *request) any {
				return &awsautoscaling.DeleteLaunchConfigurationInput{LaunchConfigurationName: &r.id}
			}),
		}, "LaunchConfigurationName InstanceMonitoring", func(r *request, in *awsautoscaling.CreateLaunchConfigurationInput) error {
			in.LaunchConfigurationName = aws.String(r.name("LaunchConfigurationName", 255))
			if r.props.Has("InstanceMonitoring") {
				on, err := strconv.ParseBool(r.text("InstanceMonitoring"))
				if err != nil {
					return r.wrongType("InstanceMonitoring", "Boolean")
				}
				in.InstanceMonitoring = &autoscalingtypes.InstanceMonitoring{Enabled: &on}
			}
			return nil
		}, func(r *request, _ *awsautoscaling.CreateLaunchConfigurationOutput) *string {
			return aws.String(r.name("LaunchConfigurationName", 255))
		}),
		"AWS::AutoScaling::LifecycleHook": again("DefaultResult HeartbeatTimeout LifecycleTransition NotificationMetadata NotificationTargetARN RoleARN", made(handler{
			remove: one[awsautoscaling.DeleteLifecycleHookOutput](func(r *request) any {
				return &awsautoscaling.DeleteLifecycleHookInput{AutoScalingGroupName: aws.String(r.text("AutoScalingGroupName")), LifecycleHookName: &r.id}
			}),
		}, "LifecycleHookName", func(r *request, in *awsautoscaling.PutLifecycleHookInput) {
			in.LifecycleHookName = aws.String(r.name("LifecycleHookName", 255))
		}, func(r *request, _ *awsautoscaling.PutLifecycleHookOutput) *string {
			return aws.String(r.name("LifecycleHookName", 255))
		})),
		"AWS::AutoScaling::ScheduledAction": again("DesiredCapacity EndTime MaxSize MinSize Recurrence StartTime TimeZone", madeWith(handler{
			read: idAs("ScheduledActionName"),
			remove: one[awsautoscaling.DeleteScheduledActionOutput](func(r *request) any {
				return &awsautoscaling.DeleteScheduledActionInput{AutoScalingGroupName: aws.String(r.text("AutoScalingGroupName")), ScheduledActionName: &r.id}
			}),
		}, "EndTime StartTime", func(r *request, in *awsautoscaling.PutScheduledUpdateGroupActionInput) error {
			in.ScheduledActionName = aws.String(r.name("ScheduledActionName", 255)) // the schema does not allow the template to set it
			var err error
			if in.StartTime, err = r.time("StartTime"); err != nil {
				return err
			}
			in.EndTime, err = r.time("EndTime")
			return err
		}, func(r *request, _ *awsautoscaling.PutScheduledUpdateGroupActionOutput) *string {
			return aws.String(r.name("ScheduledActionName", 255))
		})),
		"AWS::AutoScaling::WarmPool": again("InstanceReusePolicy MaxGroupPreparedCapacity MinSize PoolState", made(handler{
			remove: func(r *request) error {
				gone := func() (bool, error) {
					out, err := call[awsautoscaling.DescribeWarmPoolOutput](r, &awsautoscaling.DescribeWarmPoolInput{AutoScalingGroupName: &r.id})
					return err == nil && out.WarmPoolConfiguration == nil, err
				}
				if done, err := gone(); done || err != nil {
					return err
				}
				if _, err := call[awsautoscaling.DeleteWarmPoolOutput](r, &awsautoscaling.DeleteWarmPoolInput{AutoScalingGroupName: &r.id, ForceDelete: aws.Bool(true)}); err != nil {
					return err
				}
				return r.wait(gone)
			},
		}, "", func(*request, *awsautoscaling.PutWarmPoolInput) {}, func(r *request, _ *awsautoscaling.PutWarmPoolOutput) *string {
			return aws.String(r.text("AutoScalingGroupName"))
		})),
		"AWS::AutoScaling::ScalingPolicy": again("AdjustmentType Cooldown EstimatedInstanceWarmup MetricAggregationType MinAdjustmentMagnitude PolicyType ScalingAdjustment StepAdjustments TargetTrackingConfiguration", made(handler{
			find: func(r *request) (string, error) {
				out, err := call[awsautoscaling.DescribePoliciesOutput](r, &awsautoscaling.DescribePoliciesInput{AutoScalingGroupName: aws.String(r.text("AutoScalingGroupName")), PolicyNames: []string{r.name("PolicyName", 255)}})
				if err != nil || len(out.ScalingPolicies) == 0 {
					return "", err
				}
				return aws.ToString(out.ScalingPolicies[0].PolicyARN), nil
			},
			read: func(r *request) (map[string]any, error) {
				return map[string]any{"Arn": r.id, "PolicyName": r.unrevealed().name("PolicyName", 255)}, nil
			},
			remove: one[awsautoscaling.DeletePolicyOutput](func(r *request) any {
				return &awsautoscaling.DeletePolicyInput{AutoScalingGroupName: aws.String(r.text("AutoScalingGroupName")), PolicyName: &r.id}
			}),
		}, "", func(r *request, in *awsautoscaling.PutScalingPolicyInput) {
			in.PolicyName = aws.String(r.name("PolicyName", 255)) // the schema does not allow the template to set it
		}, func(_ *request, out *awsautoscaling.PutScalingPolicyOutput) *string { return out.PolicyARN })),
	}
}
