package eks

import (
	"context"
	"fmt"
	"maps"
	"slices"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/ids"
)

// A scaler makes and removes the instances of node groups. It stands where the
// Auto Scaling group stands on AWS, until EC2 Auto Scaling exists: which
// instances belong to a group is in their aws:autoscaling:groupName tag, nowhere
// else, so no crash can lose or double one.
type scaler interface {
	// members returns the group's instances that are pending or running.
	members(ctx context.Context, g *nodegroupRecord) ([]member, error)
	// launch starts n instances, spread over the group's subnets. It may have
	// started some of them when it fails.
	launch(ctx context.Context, g *nodegroupRecord, have []member, n int, userData *string) error
	terminate(ctx context.Context, instanceIDs []string) error
}

// A member is an instance of a node group.
type member struct {
	id, subnet string
	dnsName    string
}

const (
	groupTag    = "aws:autoscaling:groupName"
	launchBatch = 50
	launchers   = 4
)

// An instanceScaler keeps a group's instances with plain RunInstances calls.
type instanceScaler struct{ ec2 Instances }

func (s instanceScaler) members(ctx context.Context, g *nodegroupRecord) ([]member, error) {
	var out []member
	ask := &awsec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		filter("tag:"+groupTag, g.resourceName()), filter("instance-state-name", "pending", "running"),
	}}
	for {
		got, err := s.ec2.DescribeInstances(ctx, ask)
		if err != nil {
			return nil, fmt.Errorf("looking for the instances of node group %s: %w", *g.Nodegroup.NodegroupName, err)
		}
		for _, r := range got.Reservations {
			for _, i := range r.Instances {
				out = append(out, member{*i.InstanceId, text(i.SubnetId), text(i.PrivateDnsName)})
			}
		}
		if text(got.NextToken) == "" {
			return out, nil
		}
		ask.NextToken = got.NextToken
	}
}

func (s instanceScaler) launch(ctx context.Context, g *nodegroupRecord, have []member, n int, userData *string) error {
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(launchers)
	for subnet, count := range balance(g.Nodegroup.Subnets, have, n) {
		for count > 0 {
			batch := int32(min(count, launchBatch))
			count -= int(batch)
			eg.Go(func() error {
				_, err := s.ec2.RunInstances(ctx, runRequest(g, subnet, batch, userData))
				return err
			})
		}
	}
	return eg.Wait()
}

func runRequest(g *nodegroupRecord, subnet string, count int32, userData *string) *awsec2.RunInstancesInput {
	cluster := *g.Nodegroup.ClusterName
	in := &awsec2.RunInstancesInput{
		MinCount: new(int32(1)), MaxCount: &count, // as an Auto Scaling group: take what is there
		ClientToken:    new(ids.UUID()),
		SubnetId:       &subnet,
		LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateId: &g.LaunchTemplateID, Version: new("1")},
		UserData:       userData,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{
			tag(groupTag, g.resourceName()),
			tag("eks:cluster-name", cluster),
			tag("eks:nodegroup-name", *g.Nodegroup.NodegroupName),
			tag("kubernetes.io/cluster/"+cluster, "owned"),
			tag("k8s.io/cluster-autoscaler/enabled", "true"),
			tag("k8s.io/cluster-autoscaler/"+cluster, "owned"),
		}}},
	}
	if len(g.Nodegroup.InstanceTypes) > 0 {
		in.InstanceType = ec2types.InstanceType(g.Nodegroup.InstanceTypes[0])
	}
	if g.Nodegroup.CapacityType == ekstypes.CapacityTypesSpot {
		in.InstanceMarketOptions = &ec2types.InstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeSpot}
	}
	return in
}

// balance says how many of n new instances go into which subnet, so that all
// have as equally many as can be.
func balance(subnets []string, have []member, n int) map[string]int {
	size := map[string]int{}
	for _, m := range have {
		size[m.subnet]++
	}
	out := map[string]int{}
	for range n {
		least := slices.MinFunc(subnets, func(a, b string) int { return size[a] - size[b] })
		size[least]++
		out[least]++
	}
	return out
}

func (s instanceScaler) terminate(ctx context.Context, instanceIDs []string) error {
	if len(instanceIDs) == 0 {
		return nil
	}
	_, err := s.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: instanceIDs})
	if code(err) == "InvalidInstanceID.NotFound" && len(instanceIDs) > 1 {
		for _, id := range instanceIDs { // one of them is long gone
			if err := s.terminate(ctx, []string{id}); err != nil {
				return err
			}
		}
		return nil
	}
	if code(err) == "InvalidInstanceID.NotFound" {
		return nil
	}
	return err
}

// victims chooses n members to go: those without a ready node first, then from
// the fullest subnet, youngest ID last for a stable order.
func victims(members []member, ready map[string]bool, n int) []string {
	size := map[string]int{}
	for _, m := range members {
		size[m.subnet]++
	}
	left := slices.Clone(members)
	var out []string
	for len(out) < n && len(left) > 0 {
		i := 0
		for j, m := range left {
			b := left[i]
			switch {
			case ready[m.id] != ready[b.id]:
				if !ready[m.id] {
					i = j
				}
			case size[m.subnet] != size[b.subnet]:
				if size[m.subnet] > size[b.subnet] {
					i = j
				}
			case m.id > b.id:
				i = j
			}
		}
		out = append(out, left[i].id)
		size[left[i].subnet]--
		left = slices.Delete(left, i, i+1)
	}
	return out
}

// launchTemplate makes the group's own launch template: the user's with what EKS
// adds, or EKS's alone. It finds the one an earlier attempt made.
func (s *Service) launchTemplate(ctx context.Context, cluster *clusterRecord, g *nodegroupRecord) (string, error) {
	name := "eks-" + g.UUID
	var own *userTemplate
	if spec := g.Nodegroup.LaunchTemplate; spec != nil {
		v, err := s.templateVersion(ctx, &ekstypes.LaunchTemplateSpecification{Id: spec.Id}, *spec.Version)
		if err != nil {
			return "", err
		}
		own = &userTemplate{spec, v.LaunchTemplateData}
	}
	data, err := own.request()
	if err != nil {
		return "", err
	}
	if data.UserData, err = groupUserData(cluster, g, own); err != nil {
		return "", err
	}
	fillTemplate(data, cluster, g)
	made, err := s.cfg.Instances.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, LaunchTemplateData: data, VersionDescription: nil,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: []ec2types.Tag{
			tag("eks:cluster-name", cluster.name()), tag("eks:nodegroup-name", *g.Nodegroup.NodegroupName),
		}}},
	})
	if code(err) == "InvalidLaunchTemplateName.AlreadyExistsException" {
		v, err := s.templateVersion(ctx, &ekstypes.LaunchTemplateSpecification{Name: &name}, "1")
		if err != nil {
			return "", err
		}
		return *v.LaunchTemplateId, nil
	} else if err != nil {
		return "", fmt.Errorf("making the launch template: %w", err)
	}
	return *made.LaunchTemplate.LaunchTemplateId, nil
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
		group := *cluster.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId
		if len(d.NetworkInterfaces) > 0 {
			d.NetworkInterfaces[0].Groups = []string{group}
		} else {
			d.SecurityGroupIds = []string{group}
		}
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
