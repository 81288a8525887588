package autoscaling

import "github.com/drydock-dev/drydock/internal/awsapi"

// constraints correct the API model.
var constraints = []awsapi.Constraint{
	{
		At: "CreateAutoScalingGroup.DefaultCooldown CreateAutoScalingGroup.DesiredCapacity CreateAutoScalingGroup.HealthCheckGracePeriod CreateAutoScalingGroup.MaxSize CreateAutoScalingGroup.MinSize " +
			"UpdateAutoScalingGroup.DefaultCooldown UpdateAutoScalingGroup.DesiredCapacity UpdateAutoScalingGroup.HealthCheckGracePeriod UpdateAutoScalingGroup.MaxSize UpdateAutoScalingGroup.MinSize " +
			"InstancesDistribution.OnDemandBaseCapacity",
		Min: new(0.0), Source: "from memory",
	},
	{At: "EnterStandby.InstanceIds", Max: new(20.0), Source: "https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_EnterStandby.html"},
	{At: "ExitStandby.InstanceIds", Max: new(20.0), Source: "https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_ExitStandby.html"},
	{At: "SetInstanceProtection.InstanceIds", Max: new(50.0), Source: "https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_SetInstanceProtection.html"},
	{
		At: "AttachLoadBalancerTargetGroups.TargetGroupARNs AttachLoadBalancers.LoadBalancerNames AttachTrafficSources.TrafficSources " +
			"DetachLoadBalancerTargetGroups.TargetGroupARNs DetachLoadBalancers.LoadBalancerNames DetachTrafficSources.TrafficSources",
		Max: new(10.0), Source: "https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_AttachTrafficSources.html",
	},
}
