package instance

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
)

// GetLaunchTemplateData returns what a launch template must say to launch an instance like an existing one.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetLaunchTemplateData.html
func (s *Service) GetLaunchTemplateData(ctx context.Context, in *awsec2.GetLaunchTemplateDataInput) (*awsec2.GetLaunchTemplateDataOutput, error) {
	sc := resource.ScopeOf(ctx)
	i, err := resource.Get(s.Store, record.Instances, sc, aws.ToString(in.InstanceId))
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	d := s.sdkInstance(sc, i)
	out := &ec2types.ResponseLaunchTemplateData{
		ImageId: d.ImageId, InstanceType: d.InstanceType, KeyName: d.KeyName, UserData: resource.Optional(i.UserData), EbsOptimized: d.EbsOptimized,
		DisableApiTermination: &i.DisableTermination, DisableApiStop: &i.DisableStop,
		InstanceInitiatedShutdownBehavior: ec2types.ShutdownBehavior(resource.Or(i.ShutdownBehavior, "stop")),
		Monitoring:                        &ec2types.LaunchTemplatesMonitoring{Enabled: &i.Monitoring},
		BlockDeviceMappings:               []ec2types.LaunchTemplateBlockDeviceMapping{},
		NetworkInterfaces:                 []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification{},
	}
	if p := d.Placement; p != nil {
		out.Placement = &ec2types.LaunchTemplatePlacement{AvailabilityZone: p.AvailabilityZone, Tenancy: p.Tenancy, GroupName: aws.String(aws.ToString(p.GroupName))}
	}
	if i.Profile != nil {
		out.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecification{Arn: &i.Profile.ARN}
	}
	if o := d.MetadataOptions; o != nil {
		out.MetadataOptions = &ec2types.LaunchTemplateInstanceMetadataOptions{
			HttpEndpoint: ec2types.LaunchTemplateInstanceMetadataEndpointState(o.HttpEndpoint), HttpTokens: ec2types.LaunchTemplateHttpTokensState(o.HttpTokens),
			HttpPutResponseHopLimit: o.HttpPutResponseHopLimit, HttpProtocolIpv6: ec2types.LaunchTemplateInstanceMetadataProtocolIpv6(o.HttpProtocolIpv6),
			InstanceMetadataTags: ec2types.LaunchTemplateInstanceMetadataTagsState(o.InstanceMetadataTags),
		}
	}
	if i.CPUCredits != "" {
		out.CreditSpecification = &ec2types.CreditSpecification{CpuCredits: &i.CPUCredits}
	}
	if i.SpotRequestID != "" {
		out.InstanceMarketOptions = &ec2types.LaunchTemplateInstanceMarketOptions{MarketType: ec2types.MarketTypeSpot}
	}
	for _, b := range i.Devices {
		v, err := storage.Volumes.Get(s.Store, sc.Key(b.VolumeID))
		if err != nil {
			return nil, err
		}
		o := v.SDK(sc)
		out.BlockDeviceMappings = append(out.BlockDeviceMappings, ec2types.LaunchTemplateBlockDeviceMapping{DeviceName: &b.Name, Ebs: &ec2types.LaunchTemplateEbsBlockDevice{
			DeleteOnTermination: &b.DeleteOnTermination, Encrypted: o.Encrypted, Iops: o.Iops, KmsKeyId: o.KmsKeyId, SnapshotId: resource.Optional(v.SnapshotID),
			Throughput: o.Throughput, VolumeSize: o.Size, VolumeType: o.VolumeType,
		}})
	}
	for _, n := range d.NetworkInterfaces {
		spec := ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification{
			DeviceIndex: n.Attachment.DeviceIndex, DeleteOnTermination: n.Attachment.DeleteOnTermination, Description: aws.String(aws.ToString(n.Description)),
			NetworkInterfaceId: n.NetworkInterfaceId, SubnetId: n.SubnetId, InterfaceType: n.InterfaceType,
			Ipv6Addresses: []ec2types.InstanceIpv6Address{}, PrivateIpAddresses: []ec2types.PrivateIpAddressSpecification{},
		}
		if n.Association != nil {
			spec.AssociatePublicIpAddress = aws.Bool(true)
		}
		for _, g := range n.Groups {
			spec.Groups = append(spec.Groups, *g.GroupId)
		}
		for _, a := range n.PrivateIpAddresses {
			spec.PrivateIpAddresses = append(spec.PrivateIpAddresses, ec2types.PrivateIpAddressSpecification{Primary: a.Primary, PrivateIpAddress: a.PrivateIpAddress})
		}
		out.NetworkInterfaces = append(out.NetworkInterfaces, spec)
	}
	if len(i.Tags) > 0 {
		out.TagSpecifications = []ec2types.LaunchTemplateTagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: i.Tags.SDK()}}
	}
	return &awsec2.GetLaunchTemplateDataOutput{LaunchTemplateData: out}, nil
}
