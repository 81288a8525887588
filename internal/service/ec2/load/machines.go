package load

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/twin/entities"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

func (l *loader) interfaces() {
	each(l, "DescribeNetworkInterfaces", func(out *awsec2.DescribeNetworkInterfacesOutput) []ec2types.NetworkInterface {
		return out.NetworkInterfaces
	}, func(_ *awsec2.DescribeNetworkInterfacesInput, in *ec2types.NetworkInterface) error {
		e := record.NetworkInterface{
			ID: aws.ToString(in.NetworkInterfaceId), SubnetID: aws.ToString(in.SubnetId), VPCID: aws.ToString(in.VpcId), Zone: aws.ToString(in.AvailabilityZone), ZoneID: aws.ToString(in.AvailabilityZoneId),
			Description: aws.ToString(in.Description), MAC: aws.ToString(in.MacAddress), Type: string(in.InterfaceType), NoSourceDestCheck: !aws.ToBool(in.SourceDestCheck), Tags: tagsOf(in.TagSet),
		}
		if aws.ToBool(in.RequesterManaged) {
			e.RequesterID = cmp.Or(aws.ToString(in.RequesterId), "amazon-aws")
			e.OwnerID = l.owners[e.ID]
			if balancer, ok := elbnet.Described(e.RequesterID, e.Description); ok {
				e.OwnerID = balancer
			}
		}
		for _, g := range in.Groups {
			e.Groups = append(e.Groups, aws.ToString(g.GroupId))
		}
		for _, a := range in.PrivateIpAddresses {
			address := aws.ToString(a.PrivateIpAddress)
			if _, err := netip.ParseAddr(address); err != nil {
				return fmt.Errorf("%s: %w", e.ID, err)
			}
			if aws.ToBool(a.Primary) {
				e.Addresses = append([]string{address}, e.Addresses...)
			} else {
				e.Addresses = append(e.Addresses, address)
			}
			if as := a.Association; as != nil {
				if as.AllocationId != nil {
					e.Elastic = append(e.Elastic, record.ElasticAssociation{AllocationID: *as.AllocationId, AssociationID: aws.ToString(as.AssociationId), PublicIP: aws.ToString(as.PublicIp), PrivateIP: address})
				}
				if aws.ToBool(a.Primary) {
					e.PublicIP = aws.ToString(as.PublicIp)
				}
			}
		}
		for _, a := range in.Ipv6Addresses {
			e.IPv6 = append(e.IPv6, aws.ToString(a.Ipv6Address))
		}
		for _, p := range in.Ipv4Prefixes {
			e.Prefixes = append(e.Prefixes, aws.ToString(p.Ipv4Prefix))
		}
		for _, p := range in.Ipv6Prefixes {
			e.Prefixes6 = append(e.Prefixes6, aws.ToString(p.Ipv6Prefix))
		}
		if at := in.Attachment; at != nil && at.Status != ec2types.AttachmentStatusDetached {
			e.Attachment = record.InterfaceAttachment{
				ID: aws.ToString(at.AttachmentId), InstanceID: aws.ToString(at.InstanceId), DeviceIndex: aws.ToInt32(at.DeviceIndex), CardIndex: aws.ToInt32(at.NetworkCardIndex),
				DeleteOnTermination: aws.ToBool(at.DeleteOnTermination), Time: aws.ToTime(at.AttachTime),
			}
		}
		for _, a := range e.Addresses {
			ip, _ := netip.ParseAddr(a) // checked above
			l.taken[e.SubnetID] = append(l.taken[e.SubnetID], netip.PrefixFrom(ip, ip.BitLen()))
		}
		for _, p := range record.ParsePrefixes(e.Prefixes) {
			if p.Bits() < 28 {
				return fmt.Errorf("%s: invalid delegated prefix %s: want a /28", e.ID, p)
			}
			l.taken[e.SubnetID] = append(l.taken[e.SubnetID], p)
		}
		return put(l, record.NetworkInterfaces, e)
	})
}

func (l *loader) addresses() {
	each(l, "DescribeAddresses", func(out *awsec2.DescribeAddressesOutput) []ec2types.Address { return out.Addresses }, func(_ *awsec2.DescribeAddressesInput, in *ec2types.Address) error {
		if in.AllocationId == nil {
			return nil // of EC2-Classic, which is gone
		}
		return put(l, record.Addresses, record.Address{
			ID: *in.AllocationId, PublicIP: aws.ToString(in.PublicIp), AssociationID: aws.ToString(in.AssociationId), InterfaceID: aws.ToString(in.NetworkInterfaceId),
			InstanceID: aws.ToString(in.InstanceId), PrivateIP: aws.ToString(in.PrivateIpAddress), Tags: tagsOf(in.Tags),
		})
	})
}

// pools marks the addresses of interfaces as taken, so that what-if launches get others.
func (l *loader) pools() {
	each(l, "DescribeSubnets", func(out *awsec2.DescribeSubnetsOutput) []ec2types.Subnet { return out.Subnets }, func(_ *awsec2.DescribeSubnetsInput, in *ec2types.Subnet) error {
		sn := record.Subnet{ID: aws.ToString(in.SubnetId), CIDR: aws.ToString(in.CidrBlock)}
		if sn.IPv6Only() {
			return nil
		}
		pages, err := ipam.Taken(l.sc, sn, l.taken[sn.ID])
		if err != nil {
			return err
		}
		for k, page := range pages {
			l.writes = append(l.writes, module.Put(record.AddressPages, k, page))
		}
		return nil
	})
}

func (l *loader) volumes() {
	each(l, "DescribeVolumes", func(out *awsec2.DescribeVolumesOutput) []ec2types.Volume { return out.Volumes }, func(_ *awsec2.DescribeVolumesInput, in *ec2types.Volume) error {
		v := storage.Volume{
			ID: aws.ToString(in.VolumeId), Zone: aws.ToString(in.AvailabilityZone), ZoneID: aws.ToString(in.AvailabilityZoneId), Created: aws.ToTime(in.CreateTime), Tags: tagsOf(in.Tags),
			Spec: storage.Spec{
				SizeGiB: aws.ToInt32(in.Size), Type: string(in.VolumeType), IOPS: aws.ToInt32(in.Iops), Throughput: aws.ToInt32(in.Throughput), Encrypted: aws.ToBool(in.Encrypted),
				KMSKeyID: aws.ToString(in.KmsKeyId), SnapshotID: aws.ToString(in.SnapshotId),
			},
		}
		for _, a := range in.Attachments {
			v.Attachment.InstanceID, v.Attachment.Device = aws.ToString(a.InstanceId), aws.ToString(a.Device)
			v.Attachment.DeleteOnTermination, v.Attachment.Time = aws.ToBool(a.DeleteOnTermination), aws.ToTime(a.AttachTime)
		}
		return put(l, storage.Volumes, v)
	})
}

func (l *loader) instances() {
	userData := map[string]string{}
	each(l, "DescribeInstanceAttribute", func(out *awsec2.DescribeInstanceAttributeOutput) []awsec2.DescribeInstanceAttributeOutput {
		return []awsec2.DescribeInstanceAttributeOutput{*out}
	}, func(in *awsec2.DescribeInstanceAttributeInput, out *awsec2.DescribeInstanceAttributeOutput) error {
		if out.UserData != nil {
			userData[aws.ToString(in.InstanceId)] = aws.ToString(out.UserData.Value)
		}
		return nil
	})
	names := map[string]string{} // of images
	each(l, "DescribeImages", func(out *awsec2.DescribeImagesOutput) []ec2types.Image { return out.Images }, func(_ *awsec2.DescribeImagesInput, in *ec2types.Image) error {
		names[aws.ToString(in.ImageId)] = aws.ToString(in.Name)
		return nil
	})
	iam, err := entities.Of(l.r)
	if err != nil {
		l.err = err
		return
	}
	each(l, "DescribeInstances", func(out *awsec2.DescribeInstancesOutput) []ec2types.Reservation { return out.Reservations }, func(_ *awsec2.DescribeInstancesInput, res *ec2types.Reservation) error {
		for _, in := range res.Instances {
			if in.State == nil || in.State.Name == ec2types.InstanceStateNameTerminated || in.State.Name == ec2types.InstanceStateNameShuttingDown {
				continue
			}
			i, err := l.instance(res, &in, userData[aws.ToString(in.InstanceId)], names, iam)
			if err != nil {
				return err
			}
			if err := put(l, record.Instances, i); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *loader) instance(res *ec2types.Reservation, in *ec2types.Instance, userData string, names map[string]string, iam *entities.Entities) (record.Instance, error) {
	i := record.Instance{
		ID: aws.ToString(in.InstanceId), ReservationID: aws.ToString(res.ReservationId), Requester: aws.ToString(res.RequesterId), LaunchIndex: aws.ToInt32(in.AmiLaunchIndex),
		ImageID: aws.ToString(in.ImageId), Type: string(in.InstanceType), Architecture: string(in.Architecture), RootDevice: aws.ToString(in.RootDeviceName), KeyName: aws.ToString(in.KeyName),
		ClientToken: aws.ToString(in.ClientToken), LaunchTime: aws.ToTime(in.LaunchTime), State: string(in.State.Name), Since: aws.ToTime(in.LaunchTime),
		TransitionReason: aws.ToString(in.StateTransitionReason), VPCID: aws.ToString(in.VpcId), SubnetID: aws.ToString(in.SubnetId),
		PrivateIP: aws.ToString(in.PrivateIpAddress), PublicIP: aws.ToString(in.PublicIpAddress), UserData: userData,
		EbsOptimized: aws.ToBool(in.EbsOptimized), SpotRequestID: aws.ToString(in.SpotInstanceRequestId), Monitoring: in.Monitoring != nil && in.Monitoring.State == ec2types.MonitoringStateEnabled,
		Tags: tagsOf(in.Tags),
	}
	if in.StateReason != nil {
		i.ReasonCode, i.ReasonMessage = aws.ToString(in.StateReason.Code), aws.ToString(in.StateReason.Message)
	}
	if p := in.Placement; p != nil {
		i.Zone, i.ZoneID, i.Tenancy, i.PlacementGroup, i.PlacementGroupID, i.Partition = aws.ToString(p.AvailabilityZone), aws.ToString(p.AvailabilityZoneId), string(p.Tenancy), aws.ToString(p.GroupName), aws.ToString(p.GroupId), aws.ToInt32(p.PartitionNumber)
	}
	if o := in.MetadataOptions; o != nil {
		i.Tokens, i.HopLimit, i.MetadataEndpoint, i.MetadataTags, i.MetadataIPv6 = string(o.HttpTokens), aws.ToInt32(o.HttpPutResponseHopLimit), string(o.HttpEndpoint), string(o.InstanceMetadataTags), string(o.HttpProtocolIpv6)
	}
	if o := in.CpuOptions; o != nil {
		i.Cores, i.ThreadsPerCore = aws.ToInt32(o.CoreCount), aws.ToInt32(o.ThreadsPerCore)
	}
	if o := in.PrivateDnsNameOptions; o != nil {
		i.HostnameType, i.ResourceNameA, i.ResourceNameAAAA = string(o.HostnameType), aws.ToBool(o.EnableResourceNameDnsARecord), aws.ToBool(o.EnableResourceNameDnsAAAARecord)
	}
	if o := in.MaintenanceOptions; o != nil {
		i.AutoRecovery = string(o.AutoRecovery)
	}
	if p := in.IamInstanceProfile; p != nil {
		role, ok := iam.RoleOf(aws.ToString(p.Arn))
		if !ok {
			l.gaps = append(l.gaps, recording.Gap{Service: "iam", Operation: "GetAccountAuthorizationDetails", Subject: aws.ToString(p.Arn), Code: recording.NotModelled, Message: "the role of " + aws.ToString(p.Arn) + " is not known"})
		}
		i.Profile = &record.InstanceProfile{ARN: aws.ToString(p.Arn), ID: aws.ToString(p.Id), RoleARN: role, AssociationID: "iip-assoc-" + strings.TrimPrefix(i.ID, "i-")}
	}
	for _, n := range in.NetworkInterfaces {
		i.Interfaces = append(i.Interfaces, aws.ToString(n.NetworkInterfaceId))
		if n.Attachment != nil && aws.ToInt32(n.Attachment.DeviceIndex) == 0 && n.Association != nil && aws.ToString(n.Association.IpOwnerId) == "amazon" {
			i.AutoPublic = true
		}
	}
	for _, d := range in.BlockDeviceMappings {
		if d.Ebs != nil {
			i.Devices = append(i.Devices, record.BlockDevice{Name: aws.ToString(d.DeviceName), VolumeID: aws.ToString(d.Ebs.VolumeId), DeleteOnTermination: aws.ToBool(d.Ebs.DeleteOnTermination), Attached: aws.ToTime(d.Ebs.AttachTime)})
		}
	}
	l.image(&i, names[i.ImageID])
	if _, ok := instancetypes.Lookup(i.Type); !ok {
		l.unmodelled("DescribeInstances", i.ID, "%s has the type %s, which is not in Drydock's catalogue", i.ID, i.Type)
	}
	if _, err := netip.ParseAddr(cmp.Or(i.PrivateIP, aws.ToString(in.Ipv6Address))); err != nil {
		return i, fmt.Errorf("%s: %w", i.ID, err)
	}
	return i, nil
}

// image finds the image of the catalogue whose operating system an instance runs: the image itself, or the newest one
// with the same name apart from its release.
func (l *loader) image(i *record.Instance, name string) {
	if img, ok := images.ByID(l.sc.Region, i.ImageID); ok {
		i.BaseImage = img.Name
		return
	}
	kind := name
	if at := strings.LastIndex(name, "-v2"); at > 0 {
		kind = name[:at]
	}
	if img, ok := images.ByName(l.sc.Region, kind); ok && kind != "" {
		i.BaseImage = img.Name
		return
	}
	l.unmodelled("DescribeImages", i.ID, "%s runs %s (%s), which is not an image that Drydock knows: how it boots is unknown", i.ID, i.ImageID, cmp.Or(name, "no name"))
}
