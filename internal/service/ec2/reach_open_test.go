package ec2_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// reaches checks the verdict on a flow: the code of the obstacle, or none.
func reaches(t testing.TB, s *reach.Snapshot, f reach.Flow, code string) *reach.Verdict {
	t.Helper()
	v := s.Check(f)
	got := ""
	if len(v.Explanations) > 0 {
		got = v.Explanations[0].Code
	}
	if got != code {
		t.Errorf("got %q, want %q\n%s", got, code, v.Text())
	}
	return v
}

func hop(v *reach.Verdict, kind string) string {
	for _, h := range v.Forward {
		if h.Kind == kind {
			return h.ID
		}
	}
	return ""
}

// Every kind of gateway out of a VPC, created through the API.
func TestReachByGateways(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := *must(w.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t).Vpc.VpcId
	v := must(w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{vpc}}))(t).Vpcs[0]
	six := netip.MustParsePrefix(*v.Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock)
	public := w.subnet(t, vpc, "10.0.0.0/24")
	private := *must(w.CreateSubnet(ctx, &awsec2.CreateSubnetInput{
		VpcId: &vpc, CidrBlock: aws.String("10.0.1.0/24"), Ipv6CidrBlock: aws.String(netip.PrefixFrom(six.Addr(), 64).String()), AvailabilityZone: aws.String("us-east-1b"),
	}))(t).Subnet.SubnetId
	igw := must(w.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{}))(t).InternetGateway.InternetGatewayId
	must(w.AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: igw, VpcId: &vpc}))(t)
	table := func(subnet string) *string {
		rtb := must(w.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &vpc}))(t).RouteTable.RouteTableId
		must(w.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: rtb, SubnetId: &subnet}))(t)
		return rtb
	}
	out, in := table(public), table(private)
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: out, DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: igw}))(t)
	eip := must(w.AllocateAddress(ctx, &awsec2.AllocateAddressInput{Domain: ec2types.DomainTypeVpc}))(t)
	nat := must(w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &public, AllocationId: eip.AllocationId}))(t).NatGateway.NatGatewayId
	testkit.Eventually(t, 10*time.Second, func() error {
		n := must(w.DescribeNatGateways(ctx, &awsec2.DescribeNatGatewaysInput{NatGatewayIds: []string{*nat}}))(t).NatGateways[0]
		if n.State != ec2types.NatGatewayStateAvailable {
			return fmt.Errorf("%s is %s", *nat, n.State)
		}
		return nil
	})
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: in, DestinationCidrBlock: aws.String("0.0.0.0/0"), NatGatewayId: nat}))(t)
	eigw := must(w.CreateEgressOnlyInternetGateway(ctx, &awsec2.CreateEgressOnlyInternetGatewayInput{VpcId: &vpc}))(t).EgressOnlyInternetGateway.EgressOnlyInternetGatewayId
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: in, DestinationIpv6CidrBlock: aws.String("::/0"), EgressOnlyInternetGatewayId: eigw}))(t)

	group := must(w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: aws.String("app"), Description: aws.String("app")}))(t).GroupId
	connect := must(w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: aws.String("connect"), Description: aws.String("connect")}))(t).GroupId
	list := must(w.CreateManagedPrefixList(ctx, &awsec2.CreateManagedPrefixListInput{
		AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(5), PrefixListName: aws.String("office"), Entries: []ec2types.AddPrefixListEntry{{Cidr: aws.String("10.0.0.0/24")}},
	}))(t).PrefixList.PrefixListId
	port := aws.Int32(8080)
	must(w.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: group, IpPermissions: []ec2types.IpPermission{
		{IpProtocol: aws.String("tcp"), FromPort: port, ToPort: port, PrefixListIds: []ec2types.PrefixListId{{PrefixListId: list}}},
		{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22), UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: connect}}},
	}}))(t)
	app := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &private, Groups: []string{*group}, Ipv6AddressCount: aws.Int32(1)}))(t).NetworkInterface.NetworkInterfaceId
	web := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &public, Groups: []string{*group}}))(t).NetworkInterface.NetworkInterfaceId
	for _, eni := range []*string{app, web} {
		w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
			in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), NetworkInterfaceId: eni}}
		})
	}
	eice := must(w.CreateInstanceConnectEndpoint(ctx, &awsec2.CreateInstanceConnectEndpointInput{SubnetId: &private, SecurityGroupIds: []string{*connect}, PreserveClientIp: aws.Bool(false)}))(t).InstanceConnectEndpoint.InstanceConnectEndpointId
	testkit.Eventually(t, 10*time.Second, func() error {
		e := must(w.DescribeInstanceConnectEndpoints(ctx, &awsec2.DescribeInstanceConnectEndpointsInput{InstanceConnectEndpointIds: []string{*eice}}))(t).InstanceConnectEndpoints[0]
		if e.State != ec2types.Ec2InstanceConnectEndpointStateCreateComplete {
			return fmt.Errorf("%s is %s", *eice, e.State)
		}
		return nil
	})

	tcp := func(from string, to reach.Endpoint, port uint16) reach.Flow {
		return reach.Flow{From: reach.At(from), To: to, Protocol: reach.TCP, Port: port}
	}
	verdict := reaches(t, w.reach(t), tcp(*app, reach.Addr(reach.Outside), 443), "")
	if got := hop(verdict, reach.KindNATGateway); got != *nat {
		t.Errorf("out through %q, want %s", got, *nat)
	}
	if last := verdict.Forward[len(verdict.Forward)-1]; last.In.Source.String() != *eip.PublicIp {
		t.Errorf("seen as %s, want the elastic address %s", last.In.Source, *eip.PublicIp)
	}
	verdict = reaches(t, w.reach(t), tcp(*app, reach.Addr(netip.MustParseAddr("2a00::1")), 443), "")
	if got := hop(verdict, reach.KindEgressOnly); got != *eigw {
		t.Errorf("IPv6 out through %q, want %s", got, *eigw)
	}
	reaches(t, w.reach(t), tcp(*web, reach.At(*app), 8080), "")
	reaches(t, w.reach(t), tcp(*eice, reach.At(*app), 22), "")
	reaches(t, w.reach(t), tcp(*web, reach.At(*app), 22), "ENI_SG_RULES_MISMATCH")

	modified := must(w.ModifyManagedPrefixList(ctx, &awsec2.ModifyManagedPrefixListInput{
		PrefixListId: list, CurrentVersion: aws.Int64(1), RemoveEntries: []ec2types.RemovePrefixListEntry{{Cidr: aws.String("10.0.0.0/24")}},
	}))(t).PrefixList
	if aws.ToString(modified.PrefixListId) != *list || aws.ToInt64(modified.Version) != 2 || modified.State != ec2types.PrefixListStateModifyInProgress {
		t.Errorf("modified: %+v", modified)
	}
	reaches(t, w.reach(t), tcp(*web, reach.At(*app), 8080), "ENI_SG_RULES_MISMATCH")
	must(w.DeleteNatGateway(ctx, &awsec2.DeleteNatGatewayInput{NatGatewayId: nat}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		if v := w.reach(t).Check(tcp(*app, reach.Addr(reach.Outside), 443)); v.Reachable {
			return fmt.Errorf("out though the NAT gateway is deleted\n%s", v.Text())
		}
		return nil
	})
}

// A peering connection to another account's VPC includes its network, and deleting the connection
// removes it again.
func TestReachAcrossAccounts(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	other := w.server.Account(t)
	theirs := awsec2.NewFromConfig(w.server.AWSConfig(other))
	here := w.vpc(t, "10.0.0.0/16")
	from := w.managed(t, w.account, &awsec2.CreateNetworkInterfaceInput{SubnetId: aws.String(w.subnet(t, here, "10.0.0.0/24"))})
	there := *must(theirs.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.1.0.0/16")}))(t).Vpc.VpcId
	sn := must(theirs.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &there, CidrBlock: aws.String("10.1.0.0/24")}))(t).Subnet.SubnetId
	to := w.managed(t, other, &awsec2.CreateNetworkInterfaceInput{SubnetId: sn})
	must(theirs.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{
		GroupId: to.Groups[0].GroupId, IpProtocol: aws.String("tcp"), FromPort: aws.Int32(443), ToPort: aws.Int32(443), CidrIp: aws.String("10.0.0.0/16"),
	}))(t)
	f := reach.Flow{From: reach.At(*from.NetworkInterfaceId), To: reach.Addr(netip.MustParseAddr(*to.PrivateIpAddress)), Protocol: reach.TCP, Port: 443}
	reaches(t, w.reach(t), f, "NO_ROUTE_TO_DESTINATION")

	pcx := must(w.CreateVpcPeeringConnection(ctx, &awsec2.CreateVpcPeeringConnectionInput{VpcId: &here, PeerVpcId: &there, PeerOwnerId: &other}))(t).VpcPeeringConnection.VpcPeeringConnectionId
	testkit.Eventually(t, 10*time.Second, func() error {
		_, err := theirs.AcceptVpcPeeringConnection(ctx, &awsec2.AcceptVpcPeeringConnectionInput{VpcPeeringConnectionId: pcx})
		return err
	})
	route := func(c *awsec2.Client, vpc, cidr string) {
		f := append(filter("association.main", "true"), filter("vpc-id", vpc)...)
		rtb := must(c.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: f}))(t).RouteTables[0].RouteTableId
		must(c.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: rtb, DestinationCidrBlock: &cidr, VpcPeeringConnectionId: pcx}))(t)
	}
	route(w.Client, here, "10.1.0.0/16")
	reaches(t, w.reach(t), f, "NO_ROUTE_TO_DESTINATION") // for the reply
	route(theirs, there, "10.0.0.0/16")
	reaches(t, w.reach(t), f, "")
	_, err := w.ModifyVpcPeeringConnectionOptions(ctx, &awsec2.ModifyVpcPeeringConnectionOptionsInput{
		VpcPeeringConnectionId: pcx, AccepterPeeringConnectionOptions: &ec2types.PeeringConnectionOptionsRequest{AllowDnsResolutionFromRemoteVpc: aws.Bool(true)},
	})
	wantError(t, err, "OperationNotPermitted", "User "+w.account+" does not have permission to modify the accepter side peering options")
	must(theirs.DeleteVpcPeeringConnection(ctx, &awsec2.DeleteVpcPeeringConnectionInput{VpcPeeringConnectionId: pcx}))(t)
	reaches(t, w.reach(t), f, "BAD_STATE_ROUTE")
}
