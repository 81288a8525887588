package autoscaling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
)

const groupTag = "aws:autoscaling:groupName"

// A launchSource is what a group currently launches from. The template version is a number.
type launchSource struct {
	template *autoscalingtypes.LaunchTemplateSpecification
	config   *autoscalingtypes.LaunchConfiguration
	offers   []offer // in order of preference; if empty, the template's or configuration's type
	mixed    *autoscalingtypes.InstancesDistribution
}

func (s *Service) source(svc context.Context, sc scope, g *groupRecord) (launchSource, error) {
	group := g.Group
	if r := s.activeRefresh(s.store, sc.group(g.name())); r != nil && r.Value.Refresh.DesiredConfiguration != nil && !r.Value.rollingBack() {
		c := r.Value.Refresh.DesiredConfiguration
		group.LaunchConfigurationName, group.LaunchTemplate, group.MixedInstancesPolicy = nil, c.LaunchTemplate, c.MixedInstancesPolicy
	}
	spec, src := group.LaunchTemplate, launchSource{}
	if p := group.MixedInstancesPolicy; p != nil {
		spec, src.mixed = p.LaunchTemplate.LaunchTemplateSpecification, p.InstancesDistribution
	}
	if spec == nil {
		name := aws.ToString(group.LaunchConfigurationName)
		lc, err := configs.Get(s.store, sc.group(name))
		if store.IsNotFound(err) {
			return src, errNoConfig(name)
		}
		src.config = &lc
		return src, err
	}
	byID := &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: spec.LaunchTemplateId, Version: spec.Version}
	_, pinned, data, err := s.template(svc, byID)
	src.template = pinned
	if err == nil && src.mixed != nil {
		src.offers, err = s.offers(svc, &group, data)
	}
	return src, err
}

// request returns the RunInstances request for a source, without subnet, type and count.
func (src *launchSource) request(g *groupRecord, spot bool) *awsec2.RunInstancesInput {
	in := &awsec2.RunInstancesInput{MinCount: aws.Int32(1)}
	tags := []ec2types.Tag{{Key: aws.String(groupTag), Value: g.Group.AutoScalingGroupName}}
	for _, t := range g.Group.Tags {
		if aws.ToBool(t.PropagateAtLaunch) {
			tags = append(tags, ec2types.Tag{Key: t.Key, Value: t.Value})
		}
	}
	in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: tags}}
	if src.template != nil {
		in.LaunchTemplate = &ec2types.LaunchTemplateSpecification{LaunchTemplateId: src.template.LaunchTemplateId, Version: src.template.Version}
	} else {
		src.configured(in)
	}
	if g.Group.PlacementGroup != nil { // an unknown group fails the launch, as on AWS
		in.Placement = &ec2types.Placement{GroupName: g.Group.PlacementGroup}
		if src.config != nil {
			in.Placement.Tenancy = ec2types.Tenancy(aws.ToString(src.config.PlacementTenancy))
		}
	}
	if spot {
		in.InstanceMarketOptions = &ec2types.InstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeSpot}
		if p := aws.ToString(src.mixed.SpotMaxPrice); p != "" {
			in.InstanceMarketOptions.SpotOptions = &ec2types.SpotMarketOptions{MaxPrice: &p}
		}
	}
	return in
}

// configured applies a launch configuration's settings.
func (src *launchSource) configured(in *awsec2.RunInstancesInput) {
	lc := src.config
	in.ImageId, in.InstanceType = lc.ImageId, ec2types.InstanceType(*lc.InstanceType)
	in.Monitoring = &ec2types.RunInstancesMonitoringEnabled{Enabled: lc.InstanceMonitoring.Enabled}
	in.EbsOptimized = lc.EbsOptimized
	if k := aws.ToString(lc.KeyName); k != "" {
		in.KeyName = &k
	}
	if d := aws.ToString(lc.UserData); d != "" {
		in.UserData = &d
	}
	if p := aws.ToString(lc.IamInstanceProfile); strings.HasPrefix(p, "arn:") {
		in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Arn: &p}
	} else if p != "" {
		in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: &p}
	}
	var sgs, names []string
	for _, g := range lc.SecurityGroups {
		if strings.HasPrefix(g, "sg-") {
			sgs = append(sgs, g)
		} else {
			names = append(names, g)
		}
	}
	if lc.AssociatePublicIpAddress != nil {
		in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0), AssociatePublicIpAddress: lc.AssociatePublicIpAddress, Groups: sgs, DeleteOnTermination: aws.Bool(true),
		}}
	} else {
		in.SecurityGroupIds, in.SecurityGroups = sgs, names
	}
	for _, d := range lc.BlockDeviceMappings {
		if d.VirtualName != nil { // instances have no instance store volumes
			continue
		}
		m := ec2types.BlockDeviceMapping{DeviceName: d.DeviceName}
		if aws.ToBool(d.NoDevice) {
			m.NoDevice = aws.String("")
		}
		if e := d.Ebs; e != nil {
			m.Ebs = &ec2types.EbsBlockDevice{
				DeleteOnTermination: e.DeleteOnTermination, Encrypted: e.Encrypted, Iops: e.Iops, SnapshotId: e.SnapshotId,
				Throughput: e.Throughput, VolumeSize: e.VolumeSize, VolumeType: ec2types.VolumeType(aws.ToString(e.VolumeType)),
			}
		}
		in.BlockDeviceMappings = append(in.BlockDeviceMappings, m)
	}
	if m := lc.MetadataOptions; m != nil {
		in.MetadataOptions = &ec2types.InstanceMetadataOptionsRequest{
			HttpEndpoint: ec2types.InstanceMetadataEndpointState(m.HttpEndpoint), HttpTokens: ec2types.HttpTokensState(m.HttpTokens),
			HttpPutResponseHopLimit: m.HttpPutResponseHopLimit,
		}
	}
	if t := aws.ToString(lc.PlacementTenancy); t != "" {
		in.Placement = &ec2types.Placement{Tenancy: ec2types.Tenancy(t)}
	}
	if p := aws.ToString(lc.SpotPrice); p != "" {
		in.InstanceMarketOptions = &ec2types.InstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeSpot, SpotOptions: &ec2types.SpotMarketOptions{MaxPrice: &p}}
	}
}

// in completes a request for launching in a pool. If the request has network interfaces, Auto
// Scaling puts the subnet into the first one.
func (p pool) in(request *awsec2.RunInstancesInput, count int) {
	request.MaxCount = aws.Int32(int32(count)) //nolint:gosec // a batch
	if p.Type != "" {
		request.InstanceType = ec2types.InstanceType(p.Type)
	}
	if p.Template != nil {
		request.LaunchTemplate = &ec2types.LaunchTemplateSpecification{LaunchTemplateId: p.Template.LaunchTemplateId, Version: p.Template.Version}
	}
	if p.Image != "" {
		request.ImageId = aws.String(p.Image)
	}
	if len(request.NetworkInterfaces) > 0 {
		request.NetworkInterfaces[0].SubnetId = aws.String(p.Subnet.ID)
	} else {
		request.SubnetId = aws.String(p.Subnet.ID)
	}
}

// tryLaunch checks the group's source with a dry run.
func (s *Service) tryLaunch(svc context.Context, sc scope, g *groupRecord) error {
	src, err := s.source(svc, sc, g)
	if errors.Is(err, errNoMatchingTypes) {
		return nil // AWS accepts such a group (TestAccAutoScalingGroup_…_cpuManufacturers of Terraform's provider); its launches fail
	} else if err != nil {
		return err
	}
	if len(g.Subnets) == 0 {
		return nil // a twin's, see unknownSubnets
	}
	in := src.request(g, false)
	p := pool{Subnet: g.Subnets[0]}
	if len(src.offers) > 0 {
		p = src.offers[0].pool(p.Subnet)
	}
	p.in(in, 1)
	in.DryRun = aws.Bool(true)
	_, err = s.cfg.EC2.RunInstances(svc, in)
	switch c := awserr.CodeOf(err); {
	case err == nil || c == "DryRunOperation" || elsewhere(c):
		return nil // missing capacity says nothing about the template
	case c == "NotImplemented":
		return err
	case c != "":
		return errTemplate(awserr.TextOf(err))
	}
	return fmt.Errorf("trying the launch template: %w", err)
}

// elsewhere reports whether a launch that failed with a code may succeed in another pool.
func elsewhere(code string) bool {
	return slices.Contains([]string{
		"InsufficientInstanceCapacity", "InsufficientFreeAddressesInSubnet", "Unsupported", "SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded", "UnfulfillableCapacity",
	}, code)
}

// call returns the plan's RunInstances request, which is the same every time.
func (p *planRecord) call() (*awsec2.RunInstancesInput, error) {
	in := new(awsec2.RunInstancesInput)
	if err := json.Unmarshal(p.Request, in); err != nil {
		return nil, fmt.Errorf("launch plan %s: %w", p.Token, err)
	}
	in.ClientToken = aws.String(fmt.Sprintf("%s-%d", p.Token, p.Attempt))
	at := p.Pools[p.Attempt]
	at.in(in, (p.Count+at.units()-1)/at.units())
	return in, nil
}
