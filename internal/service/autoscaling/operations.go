package autoscaling

import "github.com/drydock-dev/drydock/internal/awsapi"

// The supported members of groups.
const (
	mixedMembers = ` MixedInstancesPolicy.InstancesDistribution.OnDemandAllocationStrategy MixedInstancesPolicy.InstancesDistribution.OnDemandBaseCapacity
		MixedInstancesPolicy.InstancesDistribution.OnDemandPercentageAboveBaseCapacity MixedInstancesPolicy.InstancesDistribution.SpotAllocationStrategy
		MixedInstancesPolicy.InstancesDistribution.SpotInstancePools MixedInstancesPolicy.InstancesDistribution.SpotMaxPrice
		MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification MixedInstancesPolicy.LaunchTemplate.Overrides`
	groupMembers = ` AutoScalingGroupName AvailabilityZoneDistribution AvailabilityZoneImpairmentPolicy AvailabilityZones CapacityRebalance Context DefaultCooldown DefaultInstanceWarmup DeletionProtection
		DesiredCapacity DesiredCapacityType HealthCheckGracePeriod HealthCheckType InstanceMaintenancePolicy LaunchConfigurationName LaunchTemplate
		MaxInstanceLifetime MaxSize MinSize
		NewInstancesProtectedFromScaleIn PlacementGroup ServiceLinkedRoleARN TerminationPolicies VPCZoneIdentifier` + mixedMembers
	paged = " MaxRecords NextToken"
)

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "autoscaling", Handler: s, Authorization: authorization, Constraints: constraints, Refused: refusals(), Operations: []awsapi.Operation{
		// Groups.
		{Name: "CreateAutoScalingGroup", Members: "LifecycleHookSpecificationList LoadBalancerNames Tags TargetGroupARNs TrafficSources" + groupMembers,
			Except: "termination policies that are Lambda functions, VPC Lattice"},
		{Name: "UpdateAutoScalingGroup", Members: groupMembers,
			Except: "termination policies that are Lambda functions"},
		{Name: "DeleteAutoScalingGroup", Members: "AutoScalingGroupName ForceDelete"},
		{Name: "DescribeAutoScalingGroups", Members: "AutoScalingGroupNames Filters IncludeInstances" + paged, Settled: awsapi.SettledWhen(groupsSettled)},
		{Name: "SetDesiredCapacity", Members: "AutoScalingGroupName DesiredCapacity HonorCooldown"},
		{Name: "SuspendProcesses", Members: "AutoScalingGroupName ScalingProcesses"},
		{Name: "ResumeProcesses", Members: "AutoScalingGroupName ScalingProcesses"},
		{Name: "DescribeScalingProcessTypes"},
		{Name: "DescribeTerminationPolicyTypes"},
		{Name: "DescribeAccountLimits"},
		{Name: "CreateOrUpdateTags", Members: "Tags"},
		{Name: "DeleteTags", Members: "Tags"},
		{Name: "DescribeTags", Members: "Filters" + paged},
		// Launch configurations.
		{Name: "CreateLaunchConfiguration", Members: `AssociatePublicIpAddress BlockDeviceMappings.DeviceName BlockDeviceMappings.Ebs BlockDeviceMappings.NoDevice BlockDeviceMappings.VirtualName
			EbsOptimized IamInstanceProfile ImageId InstanceMonitoring InstanceType KeyName LaunchConfigurationName MetadataOptions
			PlacementTenancy SecurityGroups SpotPrice UserData`, Except: "instances have no instance store volumes: their mappings are ignored, as they are for types without any"},
		{Name: "DescribeLaunchConfigurations", Members: "LaunchConfigurationNames" + paged},
		{Name: "DeleteLaunchConfiguration", Members: "LaunchConfigurationName"},
		// Instances.
		{Name: "DescribeAutoScalingInstances", Members: "InstanceIds" + paged},
		{Name: "TerminateInstanceInAutoScalingGroup", Members: "InstanceId ShouldDecrementDesiredCapacity"},
		{Name: "AttachInstances", Members: "AutoScalingGroupName InstanceIds"},
		{Name: "DetachInstances", Members: "AutoScalingGroupName InstanceIds ShouldDecrementDesiredCapacity"},
		{Name: "EnterStandby", Members: "AutoScalingGroupName InstanceIds ShouldDecrementDesiredCapacity"},
		{Name: "ExitStandby", Members: "AutoScalingGroupName InstanceIds"},
		{Name: "SetInstanceHealth", Members: "HealthStatus InstanceId ShouldRespectGracePeriod"},
		{Name: "SetInstanceProtection", Members: "AutoScalingGroupName InstanceIds ProtectedFromScaleIn"},
		{Name: "DescribeScalingActivities", Members: "ActivityIds AutoScalingGroupName IncludeDeletedGroups" + paged},
		// Warm pools.
		{Name: "PutWarmPool", Members: "AutoScalingGroupName InstanceReusePolicy MaxGroupPreparedCapacity MinSize PoolState", Except: "PoolState=Hibernated"},
		{Name: "DescribeWarmPool", Members: "AutoScalingGroupName" + paged},
		{Name: "DeleteWarmPool", Members: "AutoScalingGroupName ForceDelete"},
		// Lifecycle hooks.
		{Name: "PutLifecycleHook", Members: `AutoScalingGroupName DefaultResult HeartbeatTimeout LifecycleHookName LifecycleTransition
			NotificationMetadata NotificationTargetARN RoleARN`},
		{Name: "DescribeLifecycleHooks", Members: "AutoScalingGroupName LifecycleHookNames"},
		{Name: "DescribeLifecycleHookTypes"},
		{Name: "DeleteLifecycleHook", Members: "AutoScalingGroupName LifecycleHookName"},
		{Name: "CompleteLifecycleAction", Members: "AutoScalingGroupName InstanceId LifecycleActionResult LifecycleActionToken LifecycleHookName"},
		{Name: "RecordLifecycleActionHeartbeat", Members: "AutoScalingGroupName InstanceId LifecycleActionToken LifecycleHookName"},
		// Instance refreshes.
		{Name: "StartInstanceRefresh", Members: `AutoScalingGroupName DesiredConfiguration Preferences.AlarmSpecification.Alarms Preferences.AutoRollback Preferences.BakeTime
			Preferences.CheckpointDelay Preferences.CheckpointPercentages Preferences.InstanceWarmup Preferences.MaxHealthyPercentage
			Preferences.MinHealthyPercentage Preferences.ScaleInProtectedInstances Preferences.SkipMatching Preferences.StandbyInstances Strategy`,
			Except: "strategies other than Rolling; alarms, because CloudWatch's do not exist"},
		{Name: "RollbackInstanceRefresh", Members: "AutoScalingGroupName"},
		{Name: "CancelInstanceRefresh", Members: "AutoScalingGroupName"},
		{Name: "DescribeInstanceRefreshes", Members: "AutoScalingGroupName InstanceRefreshIds" + paged},
		// Scheduled actions.
		{Name: "PutScheduledUpdateGroupAction", Members: "AutoScalingGroupName DesiredCapacity EndTime MaxSize MinSize Recurrence ScheduledActionName StartTime Time TimeZone"},
		{Name: "BatchPutScheduledUpdateGroupAction", Members: "AutoScalingGroupName ScheduledUpdateGroupActions"},
		{Name: "DescribeScheduledActions", Members: "AutoScalingGroupName EndTime ScheduledActionNames StartTime" + paged},
		{Name: "DeleteScheduledAction", Members: "AutoScalingGroupName ScheduledActionName"},
		{Name: "BatchDeleteScheduledAction", Members: "AutoScalingGroupName ScheduledActionNames"},
		// Records that are stored and described but have no effect.
		{Name: "PutScalingPolicy", Members: `AdjustmentType AutoScalingGroupName Cooldown Enabled EstimatedInstanceWarmup MetricAggregationType
			MinAdjustmentMagnitude PolicyName PolicyType PredictiveScalingConfiguration ScalingAdjustment StepAdjustments TargetTrackingConfiguration`},
		{Name: "DescribePolicies", Members: "AutoScalingGroupName PolicyNames PolicyTypes" + paged},
		{Name: "DeletePolicy", Members: "AutoScalingGroupName PolicyName"},
		{Name: "DescribeAdjustmentTypes"},
		{Name: "PutNotificationConfiguration", Members: "AutoScalingGroupName NotificationTypes TopicARN"},
		{Name: "DescribeNotificationConfigurations", Members: "AutoScalingGroupNames" + paged},
		{Name: "DeleteNotificationConfiguration", Members: "AutoScalingGroupName TopicARN"},
		{Name: "DescribeAutoScalingNotificationTypes"},
		{Name: "EnableMetricsCollection", Members: "AutoScalingGroupName Granularity Metrics"},
		{Name: "DisableMetricsCollection", Members: "AutoScalingGroupName Metrics"},
		{Name: "DescribeMetricCollectionTypes"},
		// Load balancers.
		{Name: "AttachTrafficSources", Members: "AutoScalingGroupName TrafficSources", Except: "VPC Lattice"},
		{Name: "DetachTrafficSources", Members: "AutoScalingGroupName TrafficSources", Except: "VPC Lattice"},
		{Name: "DescribeTrafficSources", Members: "AutoScalingGroupName TrafficSourceType" + paged},
		{Name: "AttachLoadBalancers", Members: "AutoScalingGroupName LoadBalancerNames"},
		{Name: "DetachLoadBalancers", Members: "AutoScalingGroupName LoadBalancerNames"},
		{Name: "AttachLoadBalancerTargetGroups", Members: "AutoScalingGroupName TargetGroupARNs"},
		{Name: "DetachLoadBalancerTargetGroups", Members: "AutoScalingGroupName TargetGroupARNs"},
		{Name: "DescribeLoadBalancerTargetGroups", Members: "AutoScalingGroupName" + paged},
		{Name: "DescribeLoadBalancers", Members: "AutoScalingGroupName" + paged},
	}}
}

func refusals() []awsapi.Refusal {
	return []awsapi.Refusal{
		{Operations: "ExecutePolicy GetPredictiveScalingForecast", Why: "scaling policies are stored, but there are no metrics or alarms to execute them"},
	}
}
