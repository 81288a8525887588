package ec2_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// The codes that no test of their resource covers, each from a real call. TestMain reports any new
// one.
func TestErrors(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	n := newNetwork(t, w, "10.0.0.0/16")
	other := w.vpc(t, "10.1.0.0/16")
	large := w.launch(t, 1, nil)[0]
	spotOne := w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.InstanceMarketOptions = spot(nil) })[0]
	volume := must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: large.Placement.AvailabilityZone, Size: aws.Int32(8)}))(t).VolumeId
	must(w.CreateKeyPair(ctx, &awsec2.CreateKeyPairInput{KeyName: aws.String("key"), KeyType: "ed25519"}))(t)
	template := w.template(t)
	fleetInput := func(kind ec2types.FleetType, overrides ...ec2types.FleetLaunchTemplateOverridesRequest) *awsec2.CreateFleetInput {
		return &awsec2.CreateFleetInput{
			Type: kind,
			LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
				LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: template, Version: aws.String("1")}, Overrides: overrides,
			}},
			TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(0), DefaultTargetCapacityType: "on-demand"},
		}
	}
	override := ec2types.FleetLaunchTemplateOverridesRequest{InstanceType: "m5.large"}
	gone := must(w.CreateFleet(ctx, fleetInput(ec2types.FleetTypeMaintain, override)))(t).FleetId
	must(w.DeleteFleets(ctx, &awsec2.DeleteFleetsInput{FleetIds: []string{*gone}, TerminateInstances: aws.Bool(true)}))(t)
	group := must(w.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{Filters: filter("vpc-id", n.vpc)}))(t).SecurityGroups[0].GroupId
	pcx := must(w.CreateVpcPeeringConnection(ctx, &awsec2.CreateVpcPeeringConnectionInput{VpcId: &n.vpc, PeerVpcId: &other}))(t).VpcPeeringConnection.VpcPeeringConnectionId
	acl := must(w.CreateNetworkAcl(ctx, &awsec2.CreateNetworkAclInput{VpcId: &n.vpc}))(t).NetworkAcl.NetworkAclId
	two := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: large.SubnetId}))(t).NetworkInterface.NetworkInterfaceId
	small := w.subnet(t, n.vpc, "10.0.128.0/28")
	eip := w.allocate(t)
	const none = "00000000000000000"
	many := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint("v", i))
		}
		return out
	}
	for _, tt := range []struct {
		code string
		call func() error
	}{
		{"ActiveVpcPeeringConnectionPerVpcLimitExceeded", func() error {
			w.setQuota(t, "L-7E9ECCDB", 0)
			_, err := w.AcceptVpcPeeringConnection(ctx, &awsec2.AcceptVpcPeeringConnectionInput{VpcPeeringConnectionId: pcx})
			return err
		}},
		{"VpcPeeringConnectionAlreadyExists", func() error {
			w.setQuota(t, "L-7E9ECCDB", 50)
			must(w.AcceptVpcPeeringConnection(ctx, &awsec2.AcceptVpcPeeringConnectionInput{VpcPeeringConnectionId: pcx}))(t)
			w.quiet(t)
			back := must(w.CreateVpcPeeringConnection(ctx, &awsec2.CreateVpcPeeringConnectionInput{VpcId: &other, PeerVpcId: &n.vpc}))(t).VpcPeeringConnection
			w.quiet(t)
			_, err := w.AcceptVpcPeeringConnection(ctx, &awsec2.AcceptVpcPeeringConnectionInput{VpcPeeringConnectionId: back.VpcPeeringConnectionId})
			wantError(t, err, "VpcPeeringConnectionAlreadyExists", "The vpc peering connection identified by "+*back.VpcPeeringConnectionId+" already exists.")
			return err
		}},
		{"CannotDelete", func() error {
			_, err := w.DeleteSecurityGroup(ctx, &awsec2.DeleteSecurityGroupInput{GroupId: group})
			return err
		}},
		{"FilterLimitExceeded", func() error {
			_, err := w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{Filters: filter("vpc-id", many(201)...)})
			return err
		}},
		{"InsufficientCidrBlocks", func() error {
			_, err := w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &small, Ipv4PrefixCount: aws.Int32(1)})
			return err
		}},
		{"InvalidAttachment.NotFound", func() error {
			id := *large.BlockDeviceMappings[0].Ebs.VolumeId
			_, err := w.DetachVolume(ctx, &awsec2.DetachVolumeInput{VolumeId: &id, Device: aws.String("/dev/sdz")})
			return err
		}},
		{"InvalidAttachmentID.NotFound", func() error {
			_, err := w.DetachNetworkInterface(ctx, &awsec2.DetachNetworkInterfaceInput{AttachmentId: aws.String("eni-attach-" + none)})
			return err
		}},
		{"InvalidFleetConfig", func() error {
			in := fleetInput(ec2types.FleetTypeInstant, override, override)
			in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(1)
			_, err := w.CreateFleet(ctx, in)
			return err
		}},
		{"InvalidFleetConfig", func() error {
			overrides := make([]ec2types.FleetLaunchTemplateOverridesRequest, 301)
			for i := range overrides {
				overrides[i] = override
			}
			in := fleetInput(ec2types.FleetTypeInstant, overrides...)
			in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(1)
			_, err := w.CreateFleet(ctx, in)
			return err
		}},
		{"FleetNotInModifiableState", func() error {
			_, err := w.ModifyFleet(ctx, &awsec2.ModifyFleetInput{FleetId: gone, TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1)}})
			return err
		}},
		{"InvalidInstanceAttributeValue", func() error {
			_, err := w.ModifyInstanceAttribute(ctx, &awsec2.ModifyInstanceAttributeInput{InstanceId: large.InstanceId, BlockDeviceMappings: []ec2types.InstanceBlockDeviceMappingSpecification{
				{DeviceName: aws.String("/dev/sdz"), Ebs: &ec2types.EbsInstanceBlockDeviceSpecification{DeleteOnTermination: aws.Bool(true)}},
			}})
			return err
		}},
		{"InstanceCreditSpecification.NotSupported", func() error {
			_, err := w.DescribeInstanceCreditSpecifications(ctx, &awsec2.DescribeInstanceCreditSpecificationsInput{InstanceIds: []string{*large.InstanceId}})
			return err
		}},
		{"InvalidKeyPair.Duplicate", func() error {
			_, err := w.CreateKeyPair(ctx, &awsec2.CreateKeyPairInput{KeyName: aws.String("key"), KeyType: "ed25519"})
			return err
		}},
		{"InvalidLaunchTemplateName.MalformedException", func() error {
			_, err := w.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("t"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "m5.large"}})
			return err
		}},
		{"InvalidLaunchTemplateVersion.Malformed", func() error {
			_, err := w.DescribeLaunchTemplateVersions(ctx, &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: template, Versions: []string{"newest"}})
			return err
		}},
		{"InvalidNatGatewayID.NotFound", func() error {
			nat := must(w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &n.private, ConnectivityType: "private"}))(t).NatGateway.NatGatewayId
			w.settle(t)
			must(w.DeleteNatGateway(ctx, &awsec2.DeleteNatGatewayInput{NatGatewayId: nat}))(t)
			_, err := w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &n.table, DestinationCidrBlock: aws.String("0.0.0.0/0"), NatGatewayId: nat})
			return err
		}},
		{"InvalidRoute.NotFound", func() error {
			_, err := w.DeleteRoute(ctx, &awsec2.DeleteRouteInput{RouteTableId: &n.table, DestinationCidrBlock: aws.String("192.0.2.0/24")})
			return err
		}},
		{"InvalidNetworkInterface.InUse", func() error {
			_, err := w.AttachNetworkInterface(ctx, &awsec2.AttachNetworkInterfaceInput{
				InstanceId: spotOne.InstanceId, NetworkInterfaceId: large.NetworkInterfaces[0].NetworkInterfaceId, DeviceIndex: aws.Int32(1),
			})
			return err
		}},
		{"InvalidPlacementGroup.Unknown", func() error {
			_, err := w.DescribePlacementGroups(ctx, &awsec2.DescribePlacementGroupsInput{GroupNames: []string{"none"}})
			return err
		}},
		{"MissingParameter", func() error {
			_, err := w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: &eip})
			return err
		}},
		{"NetworkAclEntryLimitExceeded", func() error {
			w.setQuota(t, "L-2AEEBF1A", 0)
			_, err := w.CreateNetworkAclEntry(ctx, &awsec2.CreateNetworkAclEntryInput{
				NetworkAclId: acl, RuleNumber: aws.Int32(1), Protocol: aws.String("-1"), RuleAction: "allow", Egress: aws.Bool(false), CidrBlock: aws.String("0.0.0.0/0"),
			})
			return err
		}},
		{"TagLimitExceeded", func() error {
			var tags []ec2types.Tag
			for _, k := range many(51) {
				tags = append(tags, ec2types.Tag{Key: &k, Value: &k})
			}
			_, err := w.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{n.vpc}, Tags: tags})
			return err
		}},
		{"UnsupportedOperation", func() error {
			_, err := w.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{*spotOne.InstanceId}})
			return err
		}},
		{"InvalidInstanceID", func() error {
			must(w.AttachNetworkInterface(ctx, &awsec2.AttachNetworkInterfaceInput{InstanceId: large.InstanceId, NetworkInterfaceId: two, DeviceIndex: aws.Int32(1)}))(t)
			_, err := w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: &eip, InstanceId: large.InstanceId})
			return err
		}},
		{"AttachmentLimitExceeded", func() error { // m5.large supports three
			for i := range int32(3) {
				eni := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: large.SubnetId}))(t).NetworkInterface.NetworkInterfaceId
				if _, err := w.AttachNetworkInterface(ctx, &awsec2.AttachNetworkInterfaceInput{InstanceId: large.InstanceId, NetworkInterfaceId: eni, DeviceIndex: aws.Int32(2 + i)}); err != nil {
					return err
				}
			}
			return nil
		}},
		// These come last: first without the default VPC's subnets, then without the VPC.
		{"MissingInput", func() error {
			must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*large.InstanceId, *spotOne.InstanceId}}))(t)
			w.await(t, ec2types.InstanceStateNameTerminated, *large.InstanceId, *spotOne.InstanceId)
			w.emptyDefaultVPC(t)
			_, err := w.RunInstances(ctx, &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})
			return err
		}},
		{"DefaultVpcDoesNotExist", func() error {
			w.deleteDefaultVPC(t)
			_, err := w.CreateDefaultSubnet(ctx, &awsec2.CreateDefaultSubnetInput{AvailabilityZone: aws.String("us-east-1a")})
			return err
		}},
		{"VPCIdNotSpecified", func() error {
			_, err := w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String("g"), Description: aws.String("g")})
			return err
		}},
	} {
		t.Run(tt.code, func(t *testing.T) { wantError(t, tt.call(), tt.code, "") })
	}
	must(w.DeleteVolume(ctx, &awsec2.DeleteVolumeInput{VolumeId: volume}))(t)
}

// A launch repeated with its token long after its instances are gone.
func TestTokenOfForgottenInstances(t *testing.T) {
	timing := clock.Fast()
	timing.InstanceTerminatedVisible = 0
	w := newTimedWorld(t, timing)
	ctx := t.Context()
	in := &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ClientToken: aws.String("once")}
	id := *must(w.RunInstances(ctx, in))(t).Instances[0].InstanceId
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		_, err := w.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if !hasCode(err, "InvalidInstanceID.NotFound") {
			return fmt.Errorf("%s is described: %w", id, err)
		}
		return nil
	})
	_, err := w.RunInstances(ctx, in)
	wantError(t, err, "IdempotentInstanceTerminated", "")
}

// emptyDefaultVPC deletes the default VPC's interfaces and subnets.
func (w *world) emptyDefaultVPC(t testing.TB) {
	t.Helper()
	ctx := t.Context()
	vpc := *must(w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{Filters: filter("is-default", "true")}))(t).Vpcs[0].VpcId
	for _, e := range must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: filter("vpc-id", vpc)}))(t).NetworkInterfaces {
		must(w.DeleteNetworkInterface(ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: e.NetworkInterfaceId}))(t)
	}
	for _, sn := range must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{Filters: filter("vpc-id", vpc)}))(t).Subnets {
		must(w.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: sn.SubnetId}))(t)
	}
}

// deleteDefaultVPC deletes the empty default VPC.
func (w *world) deleteDefaultVPC(t testing.TB) {
	t.Helper()
	ctx := t.Context()
	vpc := must(w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{Filters: filter("is-default", "true")}))(t).Vpcs[0].VpcId
	igw := must(w.DescribeInternetGateways(ctx, &awsec2.DescribeInternetGatewaysInput{Filters: filter("attachment.vpc-id", *vpc)}))(t).InternetGateways[0].InternetGatewayId
	must(w.DetachInternetGateway(ctx, &awsec2.DetachInternetGatewayInput{InternetGatewayId: igw, VpcId: vpc}))(t)
	must(w.DeleteVpc(ctx, &awsec2.DeleteVpcInput{VpcId: vpc}))(t)
}
