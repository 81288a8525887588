package ec2

import (
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/ec2/transit"
)

// transitOperations are the operations on transit gateways and VPNs.
func transitOperations() []awsapi.Operation {
	const (
		route     = "Blackhole DestinationCidrBlock DryRun TransitGatewayAttachmentId TransitGatewayRouteTableId"
		reference = "Blackhole DryRun PrefixListId TransitGatewayAttachmentId TransitGatewayRouteTableId"
		link      = "DryRun TransitGatewayAttachmentId TransitGatewayRouteTableId"
	)
	return []awsapi.Operation{
		{Name: "CreateTransitGateway", Members: "Description DryRun Options TagSpecifications", Except: "multicast, and rules that refer to security groups behind the gateway"},
		{Name: "ModifyTransitGateway", Members: "Description DryRun Options TransitGatewayId", Except: "as for CreateTransitGateway"},
		{Name: "DeleteTransitGateway", Members: "DryRun TransitGatewayId"},
		{Name: "DescribeTransitGateways", Members: "TransitGatewayIds" + paged, Settled: awsapi.SettledWhen(transit.GatewaysSettled)},
		{Name: "CreateTransitGatewayVpcAttachment", Members: "DryRun Options SubnetIds TagSpecifications TransitGatewayId VpcId", Except: "rules that refer to security groups behind the gateway"},
		{Name: "ModifyTransitGatewayVpcAttachment", Members: "AddSubnetIds DryRun Options RemoveSubnetIds TransitGatewayAttachmentId", Except: "as for CreateTransitGatewayVpcAttachment"},
		{Name: "DeleteTransitGatewayVpcAttachment", Members: "DryRun TransitGatewayAttachmentId"},
		{Name: "DescribeTransitGatewayVpcAttachments", Members: "TransitGatewayAttachmentIds" + paged, Settled: awsapi.SettledWhen(transit.AttachmentsSettled)},
		{Name: "DescribeTransitGatewayAttachments", Members: "TransitGatewayAttachmentIds" + paged},
		{Name: "GetTransitGatewayAttachmentPropagations", Members: "TransitGatewayAttachmentId" + paged},
		{Name: "CreateTransitGatewayRouteTable", Members: "DryRun TagSpecifications TransitGatewayId"},
		{Name: "DeleteTransitGatewayRouteTable", Members: "DryRun TransitGatewayRouteTableId"},
		{Name: "DescribeTransitGatewayRouteTables", Members: "TransitGatewayRouteTableIds" + paged, Settled: awsapi.SettledWhen(transit.RouteTablesSettled)},
		{Name: "AssociateTransitGatewayRouteTable", Members: link},
		{Name: "DisassociateTransitGatewayRouteTable", Members: link},
		{Name: "GetTransitGatewayRouteTableAssociations", Members: "TransitGatewayRouteTableId" + paged},
		{Name: "EnableTransitGatewayRouteTablePropagation", Members: link},
		{Name: "DisableTransitGatewayRouteTablePropagation", Members: link},
		{Name: "GetTransitGatewayRouteTablePropagations", Members: "TransitGatewayRouteTableId" + paged},
		{Name: "CreateTransitGatewayRoute", Members: route},
		{Name: "ReplaceTransitGatewayRoute", Members: route},
		{Name: "DeleteTransitGatewayRoute", Members: "DestinationCidrBlock DryRun TransitGatewayRouteTableId"},
		{Name: "SearchTransitGatewayRoutes", Members: "DryRun Filters MaxResults NextToken TransitGatewayRouteTableId"},
		{Name: "CreateTransitGatewayPrefixListReference", Members: reference},
		{Name: "ModifyTransitGatewayPrefixListReference", Members: reference},
		{Name: "DeleteTransitGatewayPrefixListReference", Members: "DryRun PrefixListId TransitGatewayRouteTableId"},
		{Name: "GetTransitGatewayPrefixListReferences", Members: "TransitGatewayRouteTableId" + paged},
		// VPNs.
		{Name: "CreateVpnGateway", Members: "AmazonSideAsn AvailabilityZone DryRun TagSpecifications Type"},
		{Name: "AttachVpnGateway", Members: "DryRun VpcId VpnGatewayId", Except: "nothing gets through it"},
		{Name: "DetachVpnGateway", Members: "DryRun VpcId VpnGatewayId"},
		{Name: "DeleteVpnGateway", Members: "DryRun VpnGatewayId"},
		{Name: "DescribeVpnGateways", Members: "DryRun Filters VpnGatewayIds"},
		{Name: "EnableVgwRoutePropagation", Members: "DryRun GatewayId RouteTableId"},
		{Name: "DisableVgwRoutePropagation", Members: "DryRun GatewayId RouteTableId"},
		{Name: "CreateCustomerGateway", Members: "BgpAsn BgpAsnExtended CertificateArn DeviceName DryRun IpAddress PublicIp TagSpecifications Type"},
		{Name: "DeleteCustomerGateway", Members: "CustomerGatewayId DryRun"},
		{Name: "DescribeCustomerGateways", Members: "CustomerGatewayIds DryRun Filters"},
		{
			Name: "CreateVpnConnection", Except: "connections to transit gateways, and other options of tunnels; tunnels are always down",
			Members: "CustomerGatewayId DryRun Options.LocalIpv4NetworkCidr Options.RemoteIpv4NetworkCidr Options.StaticRoutesOnly" +
				" Options.TunnelOptions.PreSharedKey Options.TunnelOptions.TunnelInsideCidr TagSpecifications Type VpnGatewayId",
		},
		{Name: "DeleteVpnConnection", Members: "DryRun VpnConnectionId"},
		{Name: "DescribeVpnConnections", Members: "DryRun Filters VpnConnectionIds"},
		{Name: "CreateVpnConnectionRoute", Members: "DestinationCidrBlock VpnConnectionId"},
		{Name: "DeleteVpnConnectionRoute", Members: "DestinationCidrBlock VpnConnectionId"},
	}
}
