package ec2_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/reach"
)

// transitDryRuns returns the dryRunRequests about transit gateways and VPNs.
func transitDryRuns(t *testing.T, w *world) map[string]any {
	ctx := t.Context()
	w.setQuota(t, "L-F678F1CE", 20)
	h := newHub(t, w)
	a := &h.spokes[0].attachment
	other := w.vpc(t, "10.9.0.0/16")
	sn := w.subnet(t, other, "10.9.1.0/24")
	idle := must(w.CreateTransitGateway(ctx, &awsec2.CreateTransitGatewayInput{}))(t).TransitGateway.TransitGatewayId
	w.transitState(t, *idle, "available")
	spare := must(w.CreateTransitGatewayRouteTable(ctx, &awsec2.CreateTransitGatewayRouteTableInput{TransitGatewayId: &h.id}))(t).TransitGatewayRouteTable.TransitGatewayRouteTableId
	w.transitState(t, *spare, "available")
	to := aws.String("192.168.0.0/16")
	must(w.CreateTransitGatewayRoute(ctx, &awsec2.CreateTransitGatewayRouteInput{TransitGatewayRouteTableId: &h.table, DestinationCidrBlock: to, TransitGatewayAttachmentId: a}))(t)
	list := func() *string {
		return must(w.CreateManagedPrefixList(ctx, &awsec2.CreateManagedPrefixListInput{PrefixListName: aws.String("l"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(1)}))(t).PrefixList.PrefixListId
	}
	fresh, used := list(), list()
	must(w.CreateTransitGatewayPrefixListReference(ctx, &awsec2.CreateTransitGatewayPrefixListReferenceInput{TransitGatewayRouteTableId: &h.table, PrefixListId: used, TransitGatewayAttachmentId: a}))(t)
	v := newVPN(t, w, other)
	free := must(w.CreateVpnGateway(ctx, &awsec2.CreateVpnGatewayInput{Type: "ipsec.1"}))(t).VpnGateway.VpnGatewayId
	unused := must(w.CreateCustomerGateway(ctx, &awsec2.CreateCustomerGatewayInput{Type: "ipsec.1", IpAddress: aws.String("203.0.113.77")}))(t).CustomerGateway.CustomerGatewayId
	empty := w.vpc(t, "10.11.0.0/16")
	table := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("vpc-id", other)}))(t).RouteTables[0].RouteTableId
	return map[string]any{
		"ModifyTransitGateway":                       &awsec2.ModifyTransitGatewayInput{TransitGatewayId: idle, Description: aws.String("d")},
		"DeleteTransitGateway":                       &awsec2.DeleteTransitGatewayInput{TransitGatewayId: idle},
		"CreateTransitGatewayVpcAttachment":          &awsec2.CreateTransitGatewayVpcAttachmentInput{TransitGatewayId: &h.id, VpcId: &other, SubnetIds: []string{sn}},
		"ModifyTransitGatewayVpcAttachment":          &awsec2.ModifyTransitGatewayVpcAttachmentInput{TransitGatewayAttachmentId: a},
		"DeleteTransitGatewayVpcAttachment":          &awsec2.DeleteTransitGatewayVpcAttachmentInput{TransitGatewayAttachmentId: a},
		"GetTransitGatewayAttachmentPropagations":    &awsec2.GetTransitGatewayAttachmentPropagationsInput{TransitGatewayAttachmentId: a},
		"CreateTransitGatewayRouteTable":             &awsec2.CreateTransitGatewayRouteTableInput{TransitGatewayId: &h.id},
		"DeleteTransitGatewayRouteTable":             &awsec2.DeleteTransitGatewayRouteTableInput{TransitGatewayRouteTableId: spare},
		"AssociateTransitGatewayRouteTable":          nil, // the attachments have their table
		"DisassociateTransitGatewayRouteTable":       &awsec2.DisassociateTransitGatewayRouteTableInput{TransitGatewayAttachmentId: a, TransitGatewayRouteTableId: &h.table},
		"GetTransitGatewayRouteTableAssociations":    &awsec2.GetTransitGatewayRouteTableAssociationsInput{TransitGatewayRouteTableId: &h.table},
		"EnableTransitGatewayRouteTablePropagation":  &awsec2.EnableTransitGatewayRouteTablePropagationInput{TransitGatewayAttachmentId: a, TransitGatewayRouteTableId: spare},
		"DisableTransitGatewayRouteTablePropagation": &awsec2.DisableTransitGatewayRouteTablePropagationInput{TransitGatewayAttachmentId: a, TransitGatewayRouteTableId: &h.table},
		"GetTransitGatewayRouteTablePropagations":    &awsec2.GetTransitGatewayRouteTablePropagationsInput{TransitGatewayRouteTableId: &h.table},
		"CreateTransitGatewayRoute":                  &awsec2.CreateTransitGatewayRouteInput{TransitGatewayRouteTableId: spare, DestinationCidrBlock: to, TransitGatewayAttachmentId: a},
		"ReplaceTransitGatewayRoute":                 &awsec2.ReplaceTransitGatewayRouteInput{TransitGatewayRouteTableId: &h.table, DestinationCidrBlock: to, Blackhole: aws.Bool(true)},
		"DeleteTransitGatewayRoute":                  &awsec2.DeleteTransitGatewayRouteInput{TransitGatewayRouteTableId: &h.table, DestinationCidrBlock: to},
		"SearchTransitGatewayRoutes":                 &awsec2.SearchTransitGatewayRoutesInput{TransitGatewayRouteTableId: &h.table, Filters: []ec2types.Filter{anyType}},
		"CreateTransitGatewayPrefixListReference":    &awsec2.CreateTransitGatewayPrefixListReferenceInput{TransitGatewayRouteTableId: &h.table, PrefixListId: fresh, TransitGatewayAttachmentId: a},
		"ModifyTransitGatewayPrefixListReference":    &awsec2.ModifyTransitGatewayPrefixListReferenceInput{TransitGatewayRouteTableId: &h.table, PrefixListId: used, Blackhole: aws.Bool(true)},
		"DeleteTransitGatewayPrefixListReference":    &awsec2.DeleteTransitGatewayPrefixListReferenceInput{TransitGatewayRouteTableId: &h.table, PrefixListId: used},
		"GetTransitGatewayPrefixListReferences":      &awsec2.GetTransitGatewayPrefixListReferencesInput{TransitGatewayRouteTableId: &h.table},
		"CreateVpnGateway":                           &awsec2.CreateVpnGatewayInput{Type: "ipsec.1"},
		"AttachVpnGateway":                           &awsec2.AttachVpnGatewayInput{VpnGatewayId: free, VpcId: &empty},
		"DetachVpnGateway":                           &awsec2.DetachVpnGatewayInput{VpnGatewayId: &v.gateway, VpcId: &other},
		"DeleteVpnGateway":                           &awsec2.DeleteVpnGatewayInput{VpnGatewayId: free},
		"EnableVgwRoutePropagation":                  &awsec2.EnableVgwRoutePropagationInput{GatewayId: &v.gateway, RouteTableId: table},
		"DisableVgwRoutePropagation":                 &awsec2.DisableVgwRoutePropagationInput{GatewayId: &v.gateway, RouteTableId: table},
		"CreateCustomerGateway":                      &awsec2.CreateCustomerGatewayInput{Type: "ipsec.1", IpAddress: aws.String("203.0.113.78")},
		"DeleteCustomerGateway":                      &awsec2.DeleteCustomerGatewayInput{CustomerGatewayId: unused},
		"CreateVpnConnection":                        &awsec2.CreateVpnConnectionInput{Type: aws.String("ipsec.1"), VpnGatewayId: &v.gateway, CustomerGatewayId: &v.customer},
		"DeleteVpnConnection":                        &awsec2.DeleteVpnConnectionInput{VpnConnectionId: &v.connection},
	}
}

type vpnIDs struct{ gateway, customer, connection string }

// newVPN creates a VPN connection with static routes to a VPC.
func newVPN(t testing.TB, w *world, vpc string) vpnIDs {
	t.Helper()
	ctx := t.Context()
	g := *must(w.CreateVpnGateway(ctx, &awsec2.CreateVpnGatewayInput{Type: "ipsec.1"}))(t).VpnGateway.VpnGatewayId
	must(w.AttachVpnGateway(ctx, &awsec2.AttachVpnGatewayInput{VpnGatewayId: &g, VpcId: &vpc}))(t)
	c := *must(w.CreateCustomerGateway(ctx, &awsec2.CreateCustomerGatewayInput{Type: "ipsec.1", IpAddress: aws.String("203.0.113.20"), BgpAsn: aws.Int32(65010)}))(t).CustomerGateway.CustomerGatewayId
	n := must(w.CreateVpnConnection(ctx, &awsec2.CreateVpnConnectionInput{
		Type: aws.String("ipsec.1"), VpnGatewayId: &g, CustomerGatewayId: &c,
		Options: &ec2types.VpnConnectionOptionsSpecification{
			StaticRoutesOnly: aws.Bool(true), TunnelOptions: []ec2types.VpnTunnelOptionsSpecification{{TunnelInsideCidr: aws.String("169.254.10.0/30"), PreSharedKey: aws.String("a-secret-key")}},
		},
	}))(t).VpnConnection.VpnConnectionId
	return vpnIDs{g, c, *n}
}

// VPNs are records: clients can manage them in AWS's order, their tunnels are down, and what is routed to them is lost.
func TestVPN(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	v := newVPN(t, w, vpc)
	again := must(w.CreateCustomerGateway(ctx, &awsec2.CreateCustomerGatewayInput{Type: "ipsec.1", IpAddress: aws.String("203.0.113.20"), BgpAsn: aws.Int32(65010)}))(t).CustomerGateway
	if *again.CustomerGatewayId != v.customer {
		t.Errorf("the same customer gateway again: %s, want %s", *again.CustomerGatewayId, v.customer)
	}
	must(w.CreateVpnConnectionRoute(ctx, &awsec2.CreateVpnConnectionRouteInput{VpnConnectionId: &v.connection, DestinationCidrBlock: aws.String("192.168.0.0/16")}))(t)
	c := must(w.DescribeVpnConnections(ctx, &awsec2.DescribeVpnConnectionsInput{VpnConnectionIds: []string{v.connection}}))(t).VpnConnections[0]
	if len(c.VgwTelemetry) != 2 || c.VgwTelemetry[0].Status != ec2types.TelemetryStatusDown || len(c.Routes) != 1 || c.State != ec2types.VpnStateAvailable {
		t.Errorf("the connection: %+v", c)
	}
	for _, want := range []string{"<ip_address>169.254.10.1</ip_address>", "<pre_shared_key>a-secret-key</pre_shared_key>", "<ip_address>203.0.113.20</ip_address>", "<asn>65010</asn>", *c.VgwTelemetry[0].OutsideIpAddress} {
		if !strings.Contains(*c.CustomerGatewayConfiguration, want) {
			t.Errorf("%s is missing in\n%s", want, *c.CustomerGatewayConfiguration)
		}
	}

	spare := must(w.CreateVpnGateway(ctx, &awsec2.CreateVpnGatewayInput{Type: "ipsec.1"}))(t).VpnGateway.VpnGatewayId
	_, err := w.AttachVpnGateway(ctx, &awsec2.AttachVpnGatewayInput{VpnGatewayId: spare, VpcId: &vpc})
	wantError(t, err, "VpnGatewayAttachmentLimitExceeded", "")
	table := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("vpc-id", vpc)}))(t).RouteTables[0].RouteTableId
	must(w.EnableVgwRoutePropagation(ctx, &awsec2.EnableVgwRoutePropagationInput{GatewayId: &v.gateway, RouteTableId: table}))(t)
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: table, DestinationCidrBlock: aws.String("192.168.0.0/16"), GatewayId: &v.gateway}))(t)
	rt := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{RouteTableIds: []string{*table}}))(t).RouteTables[0]
	if len(rt.PropagatingVgws) != 1 || rt.Routes[1].State != ec2types.RouteStateActive {
		t.Errorf("the route table: %+v", rt)
	}
	sn := w.subnet(t, vpc, "10.0.1.0/24")
	e := w.managed(t, w.account, &awsec2.CreateNetworkInterfaceInput{SubnetId: &sn})
	out := reach.Flow{From: reach.At(*e.NetworkInterfaceId), To: reach.Addr(netip.MustParseAddr("192.168.1.1")), Protocol: reach.TCP, Port: 443}
	reaches(t, w.reach(t), out, reach.CodeBadStateVPN)

	// The end: what is used stays.
	_, err = w.DeleteCustomerGateway(ctx, &awsec2.DeleteCustomerGatewayInput{CustomerGatewayId: &v.customer})
	if !hasCode(err, "IncorrectState") {
		t.Errorf("deleting a customer gateway with a connection: %v", err)
	}
	if _, err = w.DeleteVpc(ctx, &awsec2.DeleteVpcInput{VpcId: &vpc}); !hasCode(err, "DependencyViolation") {
		t.Errorf("deleting a VPC with a gateway: %v", err)
	}
	must(w.DeleteVpnConnection(ctx, &awsec2.DeleteVpnConnectionInput{VpnConnectionId: &v.connection}))(t)
	must(w.DetachVpnGateway(ctx, &awsec2.DetachVpnGatewayInput{VpnGatewayId: &v.gateway, VpcId: &vpc}))(t)
	_, err = w.DetachVpnGateway(ctx, &awsec2.DetachVpnGatewayInput{VpnGatewayId: &v.gateway, VpcId: &vpc})
	if !hasCode(err, "InvalidVpnGatewayAttachment.NotFound") {
		t.Errorf("detaching twice: %v", err)
	}
	must(w.DeleteVpnGateway(ctx, &awsec2.DeleteVpnGatewayInput{VpnGatewayId: &v.gateway}))(t)
	must(w.DeleteCustomerGateway(ctx, &awsec2.DeleteCustomerGatewayInput{CustomerGatewayId: &v.customer}))(t)
	rt = must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{RouteTableIds: []string{*table}}))(t).RouteTables[0]
	if len(rt.PropagatingVgws) != 0 || rt.Routes[1].State != ec2types.RouteStateBlackhole {
		t.Errorf("the route table afterwards: %+v", rt)
	}
	if got := must(w.DescribeVpnGateways(ctx, &awsec2.DescribeVpnGatewaysInput{VpnGatewayIds: []string{v.gateway}}))(t).VpnGateways[0].State; got != ec2types.VpnStateDeleted {
		t.Errorf("the deleted gateway is %s", got)
	}
}

// An internet gateway with a route table of its own sends what it brings in through an instance.
// https://docs.aws.amazon.com/vpc/latest/userguide/gateway-route-tables.html
func TestGatewayRouteTable(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	n := newNetwork(t, w, "10.40.0.0/16")
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &n.table, DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: &n.igw}))(t)
	_, err := w.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: &n.table, GatewayId: &n.igw})
	if !hasCode(err, "RouteNotSupported") {
		t.Errorf("a table with a route to a gateway: %v", err)
	}
	box := w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.SubnetId = &n.private })[0]
	server := w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.SubnetId = &n.public })[0]
	w.await(t, ec2types.InstanceStateNameRunning, *box.InstanceId, *server.InstanceId)
	eni := box.NetworkInterfaces[0].NetworkInterfaceId
	group := box.SecurityGroups[0].GroupId
	must(w.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: group, IpProtocol: aws.String("-1"), CidrIp: aws.String("0.0.0.0/0")}))(t)
	address := must(w.AllocateAddress(ctx, &awsec2.AllocateAddressInput{Domain: "vpc"}))(t)
	must(w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: address.AllocationId, NetworkInterfaceId: server.NetworkInterfaces[0].NetworkInterfaceId}))(t)
	in := reach.Flow{From: reach.Addr(reach.Client), To: reach.Addr(netip.MustParseAddr(*address.PublicIp)), Protocol: reach.TCP, Port: 443}
	reaches(t, w.reach(t), in, "")

	table := must(w.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &n.vpc}))(t).RouteTable.RouteTableId
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: table, DestinationCidrBlock: aws.String("10.40.1.0/24"), NetworkInterfaceId: eni}))(t)
	must(w.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: table, GatewayId: &n.igw}))(t)
	if got := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("association.gateway-id", n.igw)}))(t).RouteTables; len(got) != 1 || *got[0].Associations[0].GatewayId != n.igw {
		t.Errorf("the gateway's route tables: %+v", got)
	}
	reaches(t, w.reach(t), in, reach.CodeSourceDestCheck)
	must(w.ModifyNetworkInterfaceAttribute(ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: eni, SourceDestCheck: &ec2types.AttributeBooleanValue{Value: aws.Bool(false)}}))(t)
	if v := reaches(t, w.reach(t), in, ""); hop(v, reach.KindRouteTable) != *table {
		t.Errorf("not by the gateway's route table:\n%s", v.Text())
	}
}
