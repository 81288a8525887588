package nodegroup

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// A node group's instances belong to its Auto Scaling group, which launches, replaces and
// terminates them. EKS sets its size and handles its lifecycle hooks: instances come into service
// once they have joined the cluster, and terminate once their node is drained.

const (
	launchHook    = "Launch-LC-Hook"
	terminateHook = "Terminate-LC-Hook"
	hookContinue  = "CONTINUE"
)

// A member is an instance of a node group.
type member struct{ id string }

// A scalingGroup is what EKS needs to know about a node group's Auto Scaling group.
type scalingGroup struct {
	// size is the Auto Scaling group's current size, no matter who set it.
	size ekstypes.NodegroupScalingConfig
	// staying are launching or in service; leaving are waiting to be drained.
	staying, leaving []member
	// ending is the number of instances that have been drained but are not terminated yet.
	ending int
	// joining are waiting for EKS to confirm that they have joined.
	joining []member
	// instances is the number of all instances, including those that are terminating.
	instances int
	// template is the launch template that it uses.
	template struct{ id, version string }
	subnets  []string
	zones    int
	// suspended are the names of its suspended processes.
	suspended []string
	// versions are the launch template versions of the members.
	versions map[string]string
}

// scalingGroup describes the group's Auto Scaling group. It returns nil if there is none.
func (w *work) scalingGroup() (*scalingGroup, error) {
	out, err := w.s.AutoScaling.DescribeAutoScalingGroups(w.svc, &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{w.g.ResourceName()}})
	if err != nil {
		return nil, fmt.Errorf("looking up the instances of node group %s: %w", *w.g.Nodegroup.NodegroupName, err)
	}
	if len(out.AutoScalingGroups) == 0 {
		return nil, nil
	}
	g := out.AutoScalingGroups[0]
	asg := &scalingGroup{size: ekstypes.NodegroupScalingConfig{MinSize: g.MinSize, MaxSize: g.MaxSize, DesiredSize: g.DesiredCapacity}, instances: len(g.Instances), zones: len(g.AvailabilityZones), versions: map[string]string{}}
	asg.subnets = strings.Split(aws.ToString(g.VPCZoneIdentifier), ",")
	for _, p := range g.SuspendedProcesses {
		asg.suspended = append(asg.suspended, *p.ProcessName)
	}
	spec := g.LaunchTemplate
	if p := g.MixedInstancesPolicy; p != nil && p.LaunchTemplate != nil {
		spec = p.LaunchTemplate.LaunchTemplateSpecification
	}
	if spec != nil {
		asg.template.id, asg.template.version = aws.ToString(spec.LaunchTemplateId), aws.ToString(spec.Version)
	}
	for _, i := range g.Instances {
		m := member{*i.InstanceId}
		if i.LaunchTemplate != nil {
			asg.versions[m.id] = aws.ToString(i.LaunchTemplate.Version)
		}
		switch i.LifecycleState {
		case autoscalingtypes.LifecycleStatePendingWait:
			asg.joining = append(asg.joining, m)
			asg.staying = append(asg.staying, m)
		case autoscalingtypes.LifecycleStateTerminatingWait:
			asg.leaving = append(asg.leaving, m)
		case autoscalingtypes.LifecycleStateTerminating, autoscalingtypes.LifecycleStateTerminatingProceed:
			asg.ending++
		default:
			asg.staying = append(asg.staying, m)
		}
	}
	return asg, nil
}

// createScalingGroup creates the Auto Scaling group, unless it exists.
func (w *work) createScalingGroup() error {
	g := w.g
	size := g.Nodegroup.ScalingConfig
	cluster := w.cluster.Name()
	hook := func(name, transition string) autoscalingtypes.LifecycleHookSpecification {
		return autoscalingtypes.LifecycleHookSpecification{
			LifecycleHookName: &name, LifecycleTransition: &transition, HeartbeatTimeout: new(int32(1800)), DefaultResult: new(hookContinue),
		}
	}
	var tags []autoscalingtypes.Tag
	for _, t := range [][2]string{
		{"eks:cluster-name", cluster}, {"eks:nodegroup-name", *g.Nodegroup.NodegroupName},
		{"k8s.io/cluster-autoscaler/enabled", "true"}, {"k8s.io/cluster-autoscaler/" + cluster, "owned"},
		{"kubernetes.io/cluster/" + cluster, "owned"},
	} {
		tags = append(tags, autoscalingtypes.Tag{Key: &t[0], Value: &t[1], PropagateAtLaunch: new(true)})
	}
	subnets, err := w.launchSubnets()
	if err != nil {
		return err
	}
	in := &awsautoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: new(g.ResourceName()), MinSize: size.MinSize, MaxSize: size.MaxSize, DesiredCapacity: size.DesiredSize,
		VPCZoneIdentifier: new(strings.Join(subnets, ",")), Tags: tags, CapacityRebalance: new(true), HealthCheckGracePeriod: new(int32(15)),
		TerminationPolicies: []string{"AllocationStrategy", "OldestLaunchTemplate", "OldestInstance"},
		LifecycleHookSpecificationList: []autoscalingtypes.LifecycleHookSpecification{
			hook(launchHook, "autoscaling:EC2_INSTANCE_LAUNCHING"), hook(terminateHook, "autoscaling:EC2_INSTANCE_TERMINATING"),
		},
	}
	in.LaunchTemplate, in.MixedInstancesPolicy = instanceSource(g)
	_, err = w.s.AutoScaling.CreateAutoScalingGroup(w.svc, in)
	if awserr.CodeOf(err) == "AlreadyExists" {
		return nil
	}
	return err
}

// instanceSource is where instances come from: the launch template, with the group's instance types
// or its own.
func instanceSource(g *record.Nodegroup) (*autoscalingtypes.LaunchTemplateSpecification, *autoscalingtypes.MixedInstancesPolicy) {
	version := g.LaunchVersion()
	spec := &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: &g.LaunchTemplateID, Version: &version}
	spot := g.Nodegroup.CapacityType == ekstypes.CapacityTypesSpot
	if len(g.Nodegroup.InstanceTypes) == 0 && !spot {
		return spec, nil
	}
	types := g.MachineTypes
	distribution := &autoscalingtypes.InstancesDistribution{
		OnDemandAllocationStrategy: new("prioritized"), OnDemandBaseCapacity: new(int32(0)), OnDemandPercentageAboveBaseCapacity: new(int32(100)),
	}
	if spot {
		// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types-spot
		distribution.OnDemandPercentageAboveBaseCapacity, distribution.SpotAllocationStrategy = new(int32(0)), new("price-capacity-optimized")
	}
	overrides := make([]autoscalingtypes.LaunchTemplateOverrides, len(types))
	for i := range types {
		overrides[i].InstanceType = &types[i]
	}
	return nil, &autoscalingtypes.MixedInstancesPolicy{
		InstancesDistribution: distribution,
		LaunchTemplate:        &autoscalingtypes.LaunchTemplate{LaunchTemplateSpecification: spec, Overrides: overrides},
	}
}

// updateScalingGroup sets the Auto Scaling group's size and launch template to those of the record.
func (w *work) updateScalingGroup() error {
	size := w.g.Nodegroup.ScalingConfig
	in := &awsautoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: new(w.g.ResourceName()), MinSize: size.MinSize, MaxSize: size.MaxSize, DesiredCapacity: size.DesiredSize,
	}
	in.LaunchTemplate, in.MixedInstancesPolicy = instanceSource(w.g)
	_, err := w.s.AutoScaling.UpdateAutoScalingGroup(w.svc, in)
	return err
}

// deleteScalingGroup starts the deletion of the Auto Scaling group.
func (w *work) deleteScalingGroup() error {
	_, err := w.s.AutoScaling.DeleteAutoScalingGroup(w.svc, &awsautoscaling.DeleteAutoScalingGroupInput{
		AutoScalingGroupName: new(w.g.ResourceName()), ForceDelete: new(true),
	})
	if awserr.CodeOf(err) == "ValidationError" { // gone or being deleted
		return nil
	}
	return err
}
