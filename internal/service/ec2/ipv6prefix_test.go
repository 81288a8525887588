package ec2_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// subnet6 creates a VPC with a subnet that assigns IPv6 addresses.
func (w *world) subnet6(t *testing.T) (subnet string, block netip.Prefix) {
	t.Helper()
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	six := must(w.AssociateVpcCidrBlock(ctx, &awsec2.AssociateVpcCidrBlockInput{VpcId: &vpc, AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t).Ipv6CidrBlockAssociation
	block = netip.PrefixFrom(netip.MustParsePrefix(*six.Ipv6CidrBlock).Addr(), 64)
	subnet = w.subnet(t, vpc, "10.0.0.0/24")
	must(w.AssociateSubnetCidrBlock(ctx, &awsec2.AssociateSubnetCidrBlockInput{SubnetId: &subnet, Ipv6CidrBlock: aws.String(block.String())}))(t)
	must(w.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{SubnetId: &subnet, AssignIpv6AddressOnCreation: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	return subnet, block
}

// IPv6 prefixes are delegated by number or by name, and taken once. No address is ever inside another's prefix.
func TestIPv6Prefixes(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	sn, block := w.subnet6(t)
	i := w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.SubnetId = &sn })[0]
	eni := i.NetworkInterfaces[0].NetworkInterfaceId
	_, err := w.AssignIpv6Addresses(ctx, &awsec2.AssignIpv6AddressesInput{NetworkInterfaceId: eni, Ipv6AddressCount: aws.Int32(1), Ipv6PrefixCount: aws.Int32(1)})
	wantError(t, err, "InvalidParameterValue", "You can and can only specify one of ipv6-addresses or ipv6-addresses-count  ipv6-prefix and ipv6-prefix-count.")
	got := must(w.AssignIpv6Addresses(ctx, &awsec2.AssignIpv6AddressesInput{NetworkInterfaceId: eni, Ipv6PrefixCount: aws.Int32(2)}))(t)
	for _, p := range got.AssignedIpv6Prefixes {
		if q := netip.MustParsePrefix(p); q.Bits() != 80 || !block.Contains(q.Addr()) || q.Masked() != q {
			t.Errorf("prefix %s of %s", p, block)
		}
	}
	described := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{*eni}}))(t).NetworkInterfaces[0]
	if len(described.Ipv6Prefixes) != 2 || len(described.Ipv6Addresses) != 1 {
		t.Errorf("interface has %v and %v", described.Ipv6Prefixes, described.Ipv6Addresses)
	}
	inside := netip.MustParsePrefix(got.AssignedIpv6Prefixes[0]).Addr().Next().String()
	_, err = w.AssignIpv6Addresses(ctx, &awsec2.AssignIpv6AddressesInput{NetworkInterfaceId: eni, Ipv6Addresses: []string{inside}})
	wantError(t, err, "InvalidIPAddress.InUse", "")

	around := netip.PrefixFrom(netip.MustParseAddr(*described.Ipv6Addresses[0].Ipv6Address), 80).Masked().String()
	_, err = w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &sn, Ipv6Prefixes: []ec2types.Ipv6PrefixSpecificationRequest{{Ipv6Prefix: &around}}})
	wantError(t, err, "InvalidIPAddress.InUse", "")
	for _, bad := range []string{block.String(), "10.0.0.0/28", "x"} {
		_, err = w.AssignIpv6Addresses(ctx, &awsec2.AssignIpv6AddressesInput{NetworkInterfaceId: eni, Ipv6Prefixes: []string{bad}})
		wantError(t, err, "InvalidParameterValue", "invalid value for parameter prefix: "+bad)
	}
	free := netip.PrefixFrom(block.Addr(), 80).String()
	other := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &sn, Ipv6Prefixes: []ec2types.Ipv6PrefixSpecificationRequest{{Ipv6Prefix: &free}}}))(t).NetworkInterface
	if len(other.Ipv6Prefixes) != 1 || len(other.Ipv6Addresses) != 0 {
		t.Errorf("interface has %v and %v", other.Ipv6Prefixes, other.Ipv6Addresses)
	}
	_, err = w.AssignIpv6Addresses(ctx, &awsec2.AssignIpv6AddressesInput{NetworkInterfaceId: eni, Ipv6Prefixes: []string{free}})
	wantError(t, err, "InvalidIPAddress.InUse", "")
	must(w.DeleteNetworkInterface(ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: other.NetworkInterfaceId}))(t)
	must(w.AssignIpv6Addresses(ctx, &awsec2.AssignIpv6AddressesInput{NetworkInterfaceId: eni, Ipv6Prefixes: []string{free}}))(t)

	gone := must(w.UnassignIpv6Addresses(ctx, &awsec2.UnassignIpv6AddressesInput{NetworkInterfaceId: eni, Ipv6Prefixes: []string{free}}))(t)
	if !slices.Equal(gone.UnassignedIpv6Prefixes, []string{free}) {
		t.Errorf("unassigned %v", gone.UnassignedIpv6Prefixes)
	}
	_, err = w.UnassignIpv6Addresses(ctx, &awsec2.UnassignIpv6AddressesInput{NetworkInterfaceId: eni, Ipv6Prefixes: []string{free}})
	wantError(t, err, "InvalidParameterValue", "Some of the specified prefixes are not assigned to interface "+*eni)

	pod := must(w.service.AssignPodPrefix6(ctx, w.account, testkit.Region, *eni, map[string]string{"a": "b"}))(t)
	if len(pod.Prefixes6) != 3 || pod.Tags["a"] != "b" {
		t.Errorf("interface %+v", pod)
	}
	_, err = w.AssignIpv6Addresses(ctx, &awsec2.AssignIpv6AddressesInput{NetworkInterfaceId: eni, Ipv6PrefixCount: aws.Int32(7)})
	wantError(t, err, "PrivateIpAddressLimitExceeded", "")
}
