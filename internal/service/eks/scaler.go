package eks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// A node group's instances are those of its Auto Scaling group, which launches,
// replaces and ends them. EKS sets its size, and stands at its lifecycle hooks:
// instances come into service when they have joined, and leave when their node
// is drained.

const (
	launchHook    = "Launch-LC-Hook"
	terminateHook = "Terminate-LC-Hook"
	hookContinue  = "CONTINUE"
)

// A member is an instance of a node group.
type member struct{ id string }

// A scalingGroup is what EKS looks at in a node group's Auto Scaling group.
type scalingGroup struct {
	// size is what the group is asked for now, by EKS or by anybody else.
	size ekstypes.NodegroupScalingConfig
	// staying come or serve; leaving wait to be drained.
	staying, leaving []member
	// joining wait until EKS says that they have joined.
	joining []member
	// instances counts them all, the ending ones too.
	instances int
	// template is what it launches from.
	template struct{ id, version string }
	subnets  []string
	zones    int
	// versions are the versions of the launch template that members came from.
	versions map[string]string
}

// scalingGroup describes the group's Auto Scaling group, nil if there is none.
func (w *groupWork) scalingGroup() (*scalingGroup, error) {
	out, err := w.s.cfg.AutoScaling.DescribeAutoScalingGroups(w.svc, &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{w.g.resourceName()}})
	if err != nil {
		return nil, fmt.Errorf("looking for the instances of node group %s: %w", *w.g.Nodegroup.NodegroupName, err)
	}
	if len(out.AutoScalingGroups) == 0 {
		return nil, nil
	}
	g := out.AutoScalingGroups[0]
	asg := &scalingGroup{size: ekstypes.NodegroupScalingConfig{MinSize: g.MinSize, MaxSize: g.MaxSize, DesiredSize: g.DesiredCapacity}, instances: len(g.Instances), zones: len(g.AvailabilityZones), versions: map[string]string{}}
	asg.subnets = strings.Split(text(g.VPCZoneIdentifier), ",")
	spec := g.LaunchTemplate
	if p := g.MixedInstancesPolicy; p != nil && p.LaunchTemplate != nil {
		spec = p.LaunchTemplate.LaunchTemplateSpecification
	}
	if spec != nil {
		asg.template.id, asg.template.version = text(spec.LaunchTemplateId), text(spec.Version)
	}
	for _, i := range g.Instances {
		m := member{*i.InstanceId}
		if i.LaunchTemplate != nil {
			asg.versions[m.id] = text(i.LaunchTemplate.Version)
		}
		switch i.LifecycleState {
		case autoscalingtypes.LifecycleStatePendingWait:
			asg.joining = append(asg.joining, m)
			asg.staying = append(asg.staying, m)
		case autoscalingtypes.LifecycleStateTerminatingWait:
			asg.leaving = append(asg.leaving, m)
		case autoscalingtypes.LifecycleStateTerminating, autoscalingtypes.LifecycleStateTerminatingProceed:
		default:
			asg.staying = append(asg.staying, m)
		}
	}
	return asg, nil
}

// createScalingGroup makes the Auto Scaling group, or finds it made.
func (w *groupWork) createScalingGroup() error {
	g := w.g
	size := g.Nodegroup.ScalingConfig
	cluster := w.cluster.name()
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
	in := &awsautoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: new(g.resourceName()), MinSize: size.MinSize, MaxSize: size.MaxSize, DesiredCapacity: size.DesiredSize,
		VPCZoneIdentifier: new(strings.Join(g.Nodegroup.Subnets, ",")), Tags: tags, CapacityRebalance: new(true), HealthCheckGracePeriod: new(int32(15)),
		TerminationPolicies: []string{"AllocationStrategy", "OldestLaunchTemplate", "OldestInstance"},
		LifecycleHookSpecificationList: []autoscalingtypes.LifecycleHookSpecification{
			hook(launchHook, "autoscaling:EC2_INSTANCE_LAUNCHING"), hook(terminateHook, "autoscaling:EC2_INSTANCE_TERMINATING"),
		},
	}
	in.LaunchTemplate, in.MixedInstancesPolicy = instanceSource(g)
	_, err := w.s.cfg.AutoScaling.CreateAutoScalingGroup(w.svc, in)
	if code(err) == "AlreadyExists" {
		return nil
	}
	return err
}

// templateVersion is the version of the group's launch template that new instances
// are launched from.
func (g *nodegroupRecord) templateVersion() string {
	if g.TemplateVersion == "" {
		return "1"
	}
	return g.TemplateVersion
}

// instanceSource is where the instances come from: the launch template with the
// group's instance types, or with its own.
func instanceSource(g *nodegroupRecord) (*autoscalingtypes.LaunchTemplateSpecification, *autoscalingtypes.MixedInstancesPolicy) {
	version := g.templateVersion()
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

// updateScalingGroup gives the Auto Scaling group the size and the launch template
// of the record.
func (w *groupWork) updateScalingGroup() error {
	size := w.g.Nodegroup.ScalingConfig
	in := &awsautoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: new(w.g.resourceName()), MinSize: size.MinSize, MaxSize: size.MaxSize, DesiredCapacity: size.DesiredSize,
	}
	in.LaunchTemplate, in.MixedInstancesPolicy = instanceSource(w.g)
	_, err := w.s.cfg.AutoScaling.UpdateAutoScalingGroup(w.svc, in)
	return err
}

// deleteScalingGroup begins the end of the Auto Scaling group.
func (w *groupWork) deleteScalingGroup() error {
	_, err := w.s.cfg.AutoScaling.DeleteAutoScalingGroup(w.svc, &awsautoscaling.DeleteAutoScalingGroupInput{
		AutoScalingGroupName: new(w.g.resourceName()), ForceDelete: new(true),
	})
	if code(err) == "ValidationError" { // gone, or going
		return nil
	}
	return err
}

// launchTemplate makes the group's own launch template: the user's with what EKS
// adds, or EKS's alone. It finds the one an earlier attempt made.
func (s *Service) launchTemplate(ctx context.Context, cluster *clusterRecord, g *nodegroupRecord) (string, error) {
	name := "eks-" + g.UUID
	data, err := s.templateData(ctx, cluster, g)
	if err != nil {
		return "", err
	}
	made, err := s.cfg.Instances.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, LaunchTemplateData: data,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: []ec2types.Tag{
			tag("eks:cluster-name", cluster.name()), tag("eks:nodegroup-name", *g.Nodegroup.NodegroupName),
		}}},
	})
	if code(err) == "InvalidLaunchTemplateName.AlreadyExistsException" {
		v, err := s.templateVersion(ctx, &ekstypes.LaunchTemplateSpecification{Name: &name}, "$Latest")
		if err != nil {
			return "", err
		}
		return *v.LaunchTemplateId, nil
	} else if err != nil {
		return "", fmt.Errorf("making the launch template: %w", err)
	}
	return *made.LaunchTemplate.LaunchTemplateId, nil
}

// newTemplateVersion makes a version with the group's labels and taints of now,
// one for each update.
func (s *Service) newTemplateVersion(ctx context.Context, cluster *clusterRecord, g *nodegroupRecord) (string, error) {
	data, err := s.templateData(ctx, cluster, g)
	if err != nil {
		return "", err
	}
	made, err := s.cfg.Instances.CreateLaunchTemplateVersion(ctx, &awsec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: &g.LaunchTemplateID, LaunchTemplateData: data, ClientToken: &g.UpdateID,
	})
	if err != nil {
		return "", fmt.Errorf("making a version of the launch template: %w", err)
	}
	return fmt.Sprint(*made.LaunchTemplateVersion.VersionNumber), nil
}

// templateData is the user's launch template with what EKS adds, or EKS's alone.
func (s *Service) templateData(ctx context.Context, cluster *clusterRecord, g *nodegroupRecord) (*ec2types.RequestLaunchTemplateData, error) {
	var own *userTemplate
	if spec := g.Nodegroup.LaunchTemplate; spec != nil {
		v, err := s.templateVersion(ctx, &ekstypes.LaunchTemplateSpecification{Id: spec.Id}, *spec.Version)
		if err != nil {
			return nil, err
		}
		own = &userTemplate{spec, v.LaunchTemplateData}
	}
	data, err := own.request()
	if err != nil {
		return nil, err
	}
	if data.UserData, err = groupUserData(cluster, g, own); err != nil {
		return nil, err
	}
	fillTemplate(data, cluster, g)
	return data, nil
}

func groupUserData(cluster *clusterRecord, g *nodegroupRecord, own *userTemplate) (*string, error) {
	users := ""
	if own != nil {
		users = text(own.data.UserData)
	}
	data, err := userData(cluster, g, users)
	return nonEmpty(data), err
}

// fillTemplate adds to a launch template what EKS adds.
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
func fillTemplate(d *ec2types.RequestLaunchTemplateData, cluster *clusterRecord, g *nodegroupRecord) {
	d.ImageId = &g.ImageID
	d.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &g.InstanceProfile}
	withGroups := slices.ContainsFunc(d.NetworkInterfaces, func(n ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest) bool {
		return len(n.Groups) > 0
	})
	if len(d.SecurityGroupIds) == 0 && len(d.SecurityGroups) == 0 && !withGroups {
		groups := []string{*cluster.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId}
		if r := g.Nodegroup.Resources; r != nil && r.RemoteAccessSecurityGroup != nil {
			groups = append([]string{*r.RemoteAccessSecurityGroup}, groups...)
		}
		if len(d.NetworkInterfaces) > 0 {
			d.NetworkInterfaces[0].Groups = groups
		} else {
			d.SecurityGroupIds = groups
		}
	}
	if r := g.Nodegroup.RemoteAccess; r != nil {
		d.KeyName = r.Ec2SshKey
	}
	if len(d.BlockDeviceMappings) == 0 && g.Nodegroup.DiskSize != nil {
		d.BlockDeviceMappings = []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
			DeviceName: new("/dev/xvda"),
			Ebs:        &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: g.Nodegroup.DiskSize, VolumeType: ec2types.VolumeTypeGp3, DeleteOnTermination: new(true)},
		}}
	}
	if d.MetadataOptions == nil {
		d.MetadataOptions = &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpPutResponseHopLimit: new(int32(2)), HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired,
		}
	}
	tags := map[string]string{"eks:cluster-name": cluster.name(), "eks:nodegroup-name": *g.Nodegroup.NodegroupName}
	for _, kind := range []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeNetworkInterface} {
		i := slices.IndexFunc(d.TagSpecifications, func(t ec2types.LaunchTemplateTagSpecificationRequest) bool { return t.ResourceType == kind })
		if i < 0 {
			i = len(d.TagSpecifications)
			d.TagSpecifications = append(d.TagSpecifications, ec2types.LaunchTemplateTagSpecificationRequest{ResourceType: kind})
		}
		for _, k := range slices.Sorted(maps.Keys(tags)) {
			d.TagSpecifications[i].Tags = slices.DeleteFunc(d.TagSpecifications[i].Tags, func(t ec2types.Tag) bool { return text(t.Key) == k })
			d.TagSpecifications[i].Tags = append(d.TagSpecifications[i].Tags, tag(k, tags[k]))
		}
	}
}
