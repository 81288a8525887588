package ec2_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/reach"
)

// only6 creates a VPC with an IPv6-only subnet.
func (w *world) only6(t *testing.T) (vpc string, subnet ec2types.Subnet) {
	t.Helper()
	v := must(w.CreateVpc(t.Context(), &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t).Vpc
	v = new(must(w.DescribeVpcs(t.Context(), &awsec2.DescribeVpcsInput{VpcIds: []string{*v.VpcId}}))(t).Vpcs[0])
	block := netip.PrefixFrom(netip.MustParsePrefix(*v.Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock).Addr(), 60)
	return *v.VpcId, *must(w.CreateSubnet(t.Context(), &awsec2.CreateSubnetInput{VpcId: v.VpcId, Ipv6Native: aws.Bool(true), Ipv6CidrBlock: aws.String(block.String())}))(t).Subnet
}

// An IPv6-only subnet has the attributes that AWS gives it, and instances in it have no IPv4 addresses.
func TestIPv6OnlySubnet(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc, sn := w.only6(t)
	if sn.CidrBlock != nil || !*sn.Ipv6Native || !*sn.AssignIpv6AddressOnCreation || *sn.AvailableIpAddressCount != 0 || *sn.MapPublicIpOnLaunch {
		t.Errorf("subnet %+v", sn)
	}
	if o := sn.PrivateDnsNameOptionsOnLaunch; o.HostnameType != "resource-name" || !*o.EnableResourceNameDnsAAAARecord || *o.EnableResourceNameDnsARecord {
		t.Errorf("options %+v", o)
	}
	w.subnet(t, vpc, "10.0.0.0/24")
	if got := must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{Filters: filter("ipv6-native", "true")}))(t).Subnets; len(got) != 1 || *got[0].SubnetId != *sn.SubnetId {
		t.Errorf("the filter finds %+v", got)
	}
	got := w.launch(t, 2, func(in *awsec2.RunInstancesInput) { in.SubnetId, in.InstanceType = sn.SubnetId, "m5.large" })
	for _, i := range w.await(t, "running", instanceIDs(got)...) {
		n := i.NetworkInterfaces[0]
		if i.PrivateIpAddress != nil || n.PrivateIpAddress != nil || len(n.PrivateIpAddresses) != 0 || i.PublicIpAddress != nil || len(n.Ipv6Addresses) != 1 || aws.ToString(i.Ipv6Address) != *n.Ipv6Addresses[0].Ipv6Address {
			t.Errorf("addresses of %+v", i)
		}
		if *i.PrivateDnsName != *i.InstanceId+".ec2.internal" {
			t.Errorf("%s is called %s", *i.InstanceId, *i.PrivateDnsName)
		}
		m, ok := w.machines.get(*i.InstanceId)
		if !ok || m.PrivateIP.IsValid() || m.IPv6.String() != *i.Ipv6Address {
			t.Errorf("machine %+v", m)
		}
	}
	a, b := got[0].NetworkInterfaces[0].NetworkInterfaceId, got[1].NetworkInterfaces[0].NetworkInterfaceId
	s := w.reach(t)
	if v := s.Check(reach.Flow{From: reach.At(*a), To: reach.At(*b), Protocol: reach.TCP, Port: 443}); !v.Reachable || !v.Destination.Is6() {
		t.Errorf("they reach each other: %v at %s", v.Reachable, v.Destination)
	}
	if v := s.Check(reach.Flow{From: reach.At(*a), To: reach.Addr(netip.MustParseAddr("10.0.0.10")), Protocol: reach.TCP, Port: 443}); v.Reachable {
		t.Error("an IPv6-only instance reaches an IPv4 address")
	}

	_, err := w.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: sn.SubnetId})
	wantError(t, err, "DependencyViolation", "")
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: instanceIDs(got)}))(t)
	w.await(t, "terminated", instanceIDs(got)...)
	must(w.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: sn.SubnetId}))(t)
}

// What needs an IPv4 address is refused in an IPv6-only subnet.
func TestIPv6OnlyRefusals(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc, sn := w.only6(t)
	run := func(edit func(*awsec2.RunInstancesInput)) func() error {
		return func() error {
			in := &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.large", SubnetId: sn.SubnetId, MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}
			edit(in)
			_, err := w.RunInstances(ctx, in)
			return err
		}
	}
	create := func(in *awsec2.CreateSubnetInput) func() error {
		in.VpcId = &vpc
		return func() error { _, err := w.CreateSubnet(ctx, in); return err }
	}
	for _, tt := range []struct {
		name, code, text string
		call             func() error
	}{
		{"no block", "MissingParameter", "Either 'ipv6CidrBlock' or 'ipv6IpamPoolId' should be provided.", create(&awsec2.CreateSubnetInput{Ipv6Native: aws.Bool(true), CidrBlock: aws.String("10.0.1.0/24")})},
		{"two blocks", "InvalidParameterCombination", "When specifying ipv4 parameters, cidrBlock or ipv4IpamPoolId, you cannot set ipv6Native to true.",
			create(&awsec2.CreateSubnetInput{Ipv6Native: aws.Bool(true), CidrBlock: aws.String("10.0.1.0/24"), Ipv6CidrBlock: aws.String("1080::1:200C:417A/112")})},
		{"a taken block", "InvalidSubnet.Conflict", "", create(&awsec2.CreateSubnetInput{Ipv6Native: aws.Bool(true), Ipv6CidrBlock: sn.Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock})},
		{"a Xen type", "UnsupportedOperation", "IPv6-only subnets are not supported on t2.micro: subnet " + *sn.SubnetId + " has no IPv4 CIDR block. Specify an instance type built on the Nitro System.",
			run(func(in *awsec2.RunInstancesInput) { in.InstanceType = "t2.micro" })},
		{"a hostname of an address", "InvalidParameterValue", "", run(func(in *awsec2.RunInstancesInput) {
			in.PrivateDnsNameOptions = &ec2types.PrivateDnsNameOptionsRequest{HostnameType: "ip-name"}
		})},
		{"a private address", "InvalidParameterValue", "", run(func(in *awsec2.RunInstancesInput) { in.PrivateIpAddress = aws.String("10.0.0.9") })},
		{"a public address", "InvalidParameterCombination", "", run(func(in *awsec2.RunInstancesInput) {
			in.SubnetId, in.NetworkInterfaces = nil, []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SubnetId: sn.SubnetId, AssociatePublicIpAddress: aws.Bool(true)}}
		})},
		{"secondary addresses", "InsufficientFreeAddressesInSubnet", "", func() error {
			_, err := w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: sn.SubnetId, SecondaryPrivateIpAddressCount: aws.Int32(1)})
			return err
		}},
		{"hostnames of addresses", "InvalidParameterValue", "", func() error {
			_, err := w.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{SubnetId: sn.SubnetId, PrivateDnsHostnameTypeOnLaunch: "ip-name"})
			return err
		}},
		{"public addresses", "InvalidParameterValue", "Invalid value 'true' for map-public-ip-on-launch. Cannot set map-public-ip-on-launch to true unless the subnet (" + *sn.SubnetId + ") has an IPv4 CIDR block associated with it.", func() error {
			_, err := w.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{SubnetId: sn.SubnetId, MapPublicIpOnLaunch: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}})
			return err
		}},
		{"A records", "InvalidParameterValue", "", func() error {
			_, err := w.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{SubnetId: sn.SubnetId, EnableResourceNameDnsARecordOnLaunch: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}})
			return err
		}},
		{"its only block", "InvalidCidrBlock.InUse", "", func() error {
			must(w.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{SubnetId: sn.SubnetId, AssignIpv6AddressOnCreation: &ec2types.AttributeBooleanValue{Value: aws.Bool(false)}}))(t)
			_, err := w.DisassociateSubnetCidrBlock(ctx, &awsec2.DisassociateSubnetCidrBlockInput{AssociationId: sn.Ipv6CidrBlockAssociationSet[0].AssociationId})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { wantError(t, tt.call(), tt.code, tt.text) })
	}
	// An interface has an IPv6 address even if the subnet does not assign any.
	eni := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: sn.SubnetId}))(t).NetworkInterface
	if len(eni.Ipv6Addresses) != 1 || len(eni.PrivateIpAddresses) != 0 || eni.PrivateIpAddress != nil || eni.PrivateDnsName != nil {
		t.Errorf("interface %+v", eni)
	}
	_, err := w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: aws.String(w.allocate(t)), NetworkInterfaceId: eni.NetworkInterfaceId})
	wantError(t, err, "InvalidParameterValue", "The network interface '"+*eni.NetworkInterfaceId+"' has no private IPv4 address.")
	must(w.DeleteNetworkInterface(ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: eni.NetworkInterfaceId}))(t)
	nat := must(w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: sn.SubnetId, ConnectivityType: "private"}))(t).NatGateway
	w.settle(t)
	if n := must(w.DescribeNatGateways(ctx, &awsec2.DescribeNatGatewaysInput{NatGatewayIds: []string{*nat.NatGatewayId}}))(t).NatGateways[0]; n.State != "failed" || aws.ToString(n.FailureCode) != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("NAT gateway %s: %s", n.State, aws.ToString(n.FailureCode))
	}
}

// https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
func TestSizesOfIPv6Subnets(t *testing.T) {
	w := newWorld(t)
	v := must(w.CreateVpc(t.Context(), &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t).Vpc
	base := netip.MustParsePrefix(*must(w.DescribeVpcs(t.Context(), &awsec2.DescribeVpcsInput{VpcIds: []string{*v.VpcId}}))(t).Vpcs[0].Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock).Addr()
	var made []int
	for bits := 56; bits <= 72; bits++ {
		sn, err := w.CreateSubnet(t.Context(), &awsec2.CreateSubnetInput{VpcId: v.VpcId, CidrBlock: aws.String("10.0.0.0/24"), Ipv6CidrBlock: aws.String(netip.PrefixFrom(base, bits).String())})
		if err != nil {
			wantError(t, err, "InvalidParameterValue", "invalid value for parameter ipv6-cidr-block: "+netip.PrefixFrom(base, bits).String())
			continue
		}
		made = append(made, bits)
		must(w.DeleteSubnet(t.Context(), &awsec2.DeleteSubnetInput{SubnetId: sn.Subnet.SubnetId}))(t)
	}
	if !slices.Equal(made, []int{56, 60, 64}) {
		t.Errorf("subnets of %v bits", made)
	}
}
