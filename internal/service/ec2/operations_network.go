package ec2

import (
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/ec2/routing"
)

const (
	routeMembers = "DestinationCidrBlock DestinationIpv6CidrBlock DestinationPrefixListId DryRun EgressOnlyInternetGatewayId GatewayId" +
		" InstanceId NatGatewayId NetworkInterfaceId RouteTableId TransitGatewayId VpcPeeringConnectionId"
	aclEntryMembers = "CidrBlock DryRun Egress IcmpTypeCode Ipv6CidrBlock NetworkAclId PortRange Protocol RuleAction RuleNumber"
)

// networkOperations are the operations on networks and tags.
func networkOperations() []awsapi.Operation {
	return []awsapi.Operation{
		// VPCs.
		{Name: "CreateVpc", Members: "AmazonProvidedIpv6CidrBlock CidrBlock DryRun InstanceTenancy Ipv6CidrBlockNetworkBorderGroup TagSpecifications"},
		{Name: "CreateDefaultVpc", Members: "DryRun"},
		{Name: "ModifyVpcTenancy", Members: "DryRun InstanceTenancy VpcId"},
		{Name: "AssociateVpcCidrBlock", Members: "AmazonProvidedIpv6CidrBlock CidrBlock Ipv6CidrBlockNetworkBorderGroup VpcId"},
		{Name: "DisassociateVpcCidrBlock", Members: "AssociationId"},
		{Name: "DescribeVpcs", Members: "VpcIds" + paged},
		{Name: "DeleteVpc", Members: "DryRun VpcId"},
		{Name: "DescribeVpcAttribute", Members: "Attribute DryRun VpcId"},
		{Name: "ModifyVpcAttribute", Members: "EnableDnsHostnames EnableDnsSupport EnableNetworkAddressUsageMetrics VpcId"},
		{Name: "CreateDhcpOptions", Members: "DhcpConfigurations DryRun TagSpecifications"},
		{Name: "AssociateDhcpOptions", Members: "DhcpOptionsId DryRun VpcId"},
		{Name: "DeleteDhcpOptions", Members: "DhcpOptionsId DryRun"},
		{Name: "DescribeDhcpOptions", Members: "DhcpOptionsIds" + paged},
		// Subnets.
		{Name: "CreateSubnet", Members: "AvailabilityZone AvailabilityZoneId CidrBlock DryRun Ipv6CidrBlock Ipv6Native TagSpecifications VpcId",
			Except: "instances in IPv6-only subnets are simulated, and reach no IPv4 addresses: DNS64 and NAT64 have no effect. On AWS, the VPC CNI plugin does not start on such nodes"},
		{Name: "CreateDefaultSubnet", Members: "AvailabilityZone AvailabilityZoneId DryRun"},
		{Name: "AssociateSubnetCidrBlock", Members: "Ipv6CidrBlock SubnetId"},
		{Name: "DisassociateSubnetCidrBlock", Members: "AssociationId"},
		{Name: "DescribeSubnets", Members: "SubnetIds" + paged, FromStore: true},
		{Name: "DeleteSubnet", Members: "DryRun SubnetId"},
		{Name: "ModifySubnetAttribute", Members: "AssignIpv6AddressOnCreation EnableDns64 EnableResourceNameDnsAAAARecordOnLaunch EnableResourceNameDnsARecordOnLaunch MapPublicIpOnLaunch PrivateDnsHostnameTypeOnLaunch SubnetId"},
		// Gateways, routes, network ACLs.
		{Name: "CreateInternetGateway", Members: "DryRun TagSpecifications"},
		{Name: "AttachInternetGateway", Members: "DryRun InternetGatewayId VpcId"},
		{Name: "DetachInternetGateway", Members: "DryRun InternetGatewayId VpcId"},
		{Name: "DeleteInternetGateway", Members: "DryRun InternetGatewayId"},
		{Name: "DescribeInternetGateways", Members: "InternetGatewayIds" + paged},
		{Name: "CreateEgressOnlyInternetGateway", Members: "ClientToken DryRun TagSpecifications VpcId"},
		{Name: "DescribeEgressOnlyInternetGateways", Members: "EgressOnlyInternetGatewayIds" + paged},
		{Name: "DeleteEgressOnlyInternetGateway", Members: "DryRun EgressOnlyInternetGatewayId"},
		{Name: "CreateNatGateway", Members: "AllocationId AvailabilityMode ClientToken ConnectivityType DryRun PrivateIpAddress SubnetId TagSpecifications", Except: "regional NAT gateways"},
		{Name: "DescribeNatGateways", Members: "DryRun Filter MaxResults NatGatewayIds NextToken", Settled: awsapi.SettledWhen(routing.NATGatewaysSettled)},
		{Name: "DeleteNatGateway", Members: "DryRun NatGatewayId"},
		{Name: "CreateRouteTable", Members: "ClientToken DryRun TagSpecifications VpcId"},
		{Name: "DeleteRouteTable", Members: "DryRun RouteTableId"},
		{Name: "DescribeRouteTables", Members: "RouteTableIds" + paged},
		{Name: "AssociateRouteTable", Members: "DryRun GatewayId RouteTableId SubnetId"},
		{Name: "DisassociateRouteTable", Members: "AssociationId DryRun"},
		{Name: "ReplaceRouteTableAssociation", Members: "AssociationId DryRun RouteTableId"},
		{Name: "CreateRoute", Members: routeMembers, Except: "gateway endpoints as targets: they come with the endpoint"},
		{Name: "ReplaceRoute", Members: routeMembers + " LocalTarget"},
		{Name: "DeleteRoute", Members: "DestinationCidrBlock DestinationIpv6CidrBlock DestinationPrefixListId DryRun RouteTableId"},
		{Name: "CreateNetworkAcl", Members: "ClientToken DryRun TagSpecifications VpcId"},
		{Name: "DeleteNetworkAcl", Members: "DryRun NetworkAclId"},
		{Name: "CreateNetworkAclEntry", Members: aclEntryMembers},
		{Name: "ReplaceNetworkAclEntry", Members: aclEntryMembers},
		{Name: "DeleteNetworkAclEntry", Members: "DryRun Egress NetworkAclId RuleNumber"},
		{Name: "ReplaceNetworkAclAssociation", Members: "AssociationId DryRun NetworkAclId"},
		{Name: "DescribeNetworkAcls", Members: "NetworkAclIds" + paged},
		// Peering.
		{Name: "CreateVpcPeeringConnection", Members: "DryRun PeerOwnerId PeerRegion PeerVpcId TagSpecifications VpcId"},
		{Name: "AcceptVpcPeeringConnection", Members: "DryRun VpcPeeringConnectionId"},
		{Name: "RejectVpcPeeringConnection", Members: "DryRun VpcPeeringConnectionId"},
		{Name: "DeleteVpcPeeringConnection", Members: "DryRun VpcPeeringConnectionId"},
		{
			Name:    "ModifyVpcPeeringConnectionOptions",
			Members: "AccepterPeeringConnectionOptions.AllowDnsResolutionFromRemoteVpc DryRun RequesterPeeringConnectionOptions.AllowDnsResolutionFromRemoteVpc VpcPeeringConnectionId",
		},
		{Name: "DescribeVpcPeeringConnections", Members: "VpcPeeringConnectionIds" + paged},
		// Endpoints.
		{
			Name:    "CreateVpcEndpoint",
			Members: "ClientToken DryRun IpAddressType PolicyDocument PrivateDnsEnabled RouteTableIds SecurityGroupIds ServiceName SubnetConfigurations.Ipv4 SubnetConfigurations.SubnetId SubnetIds TagSpecifications VpcEndpointType VpcId",
		},
		{
			Name:    "ModifyVpcEndpoint",
			Members: "AddRouteTableIds AddSecurityGroupIds AddSubnetIds DryRun PolicyDocument PrivateDnsEnabled RemoveRouteTableIds RemoveSecurityGroupIds RemoveSubnetIds ResetPolicy SubnetConfigurations.Ipv4 SubnetConfigurations.SubnetId VpcEndpointId",
		},
		{Name: "DeleteVpcEndpoints", Members: "DryRun VpcEndpointIds"},
		{Name: "DescribeVpcEndpoints", Members: "VpcEndpointIds" + paged},
		{Name: "DescribeVpcEndpointServices", Members: "ServiceNames" + paged},
		{Name: "CreateInstanceConnectEndpoint", Members: "ClientToken DryRun PreserveClientIp SecurityGroupIds SubnetId TagSpecifications"},
		{Name: "ModifyInstanceConnectEndpoint", Members: "DryRun InstanceConnectEndpointId PreserveClientIp SecurityGroupIds"},
		{Name: "DeleteInstanceConnectEndpoint", Members: "DryRun InstanceConnectEndpointId"},
		{Name: "DescribeInstanceConnectEndpoints", Members: "InstanceConnectEndpointIds" + paged},
		// Prefix lists and flow logs.
		{Name: "CreateManagedPrefixList", Members: "AddressFamily ClientToken DryRun Entries MaxEntries PrefixListName TagSpecifications"},
		{Name: "ModifyManagedPrefixList", Members: "AddEntries CurrentVersion DryRun MaxEntries PrefixListId PrefixListName RemoveEntries"},
		{Name: "DeleteManagedPrefixList", Members: "DryRun PrefixListId"},
		{Name: "DescribeManagedPrefixLists", Members: "PrefixListIds" + paged},
		{Name: "GetManagedPrefixListEntries", Members: "DryRun MaxResults NextToken PrefixListId TargetVersion"},
		{Name: "DescribePrefixLists", Members: "PrefixListIds" + paged},
		{
			Name:    "CreateFlowLogs",
			Members: "ClientToken DeliverCrossAccountRole DeliverLogsPermissionArn DestinationOptions DryRun LogDestination LogDestinationType LogFormat LogGroupName MaxAggregationInterval ResourceIds ResourceType TagSpecifications TrafficType",
			Except:  "resources other than VPCs, subnets and network interfaces",
		},
		{Name: "DescribeFlowLogs", Members: "DryRun Filter FlowLogIds MaxResults NextToken"},
		{Name: "DeleteFlowLogs", Members: "DryRun FlowLogIds"},
		// Elastic addresses.
		{Name: "AllocateAddress", Members: "Domain DryRun NetworkBorderGroup PublicIpv4Pool TagSpecifications"},
		{Name: "AssociateAddress", Members: "AllocationId AllowReassociation DryRun InstanceId NetworkInterfaceId PrivateIpAddress PublicIp"},
		{Name: "DisassociateAddress", Members: "AssociationId DryRun PublicIp"},
		{Name: "ReleaseAddress", Members: "AllocationId DryRun NetworkBorderGroup PublicIp"},
		{Name: "DescribeAddresses", Members: "AllocationIds DryRun Filters PublicIps"},
		{Name: "DescribeAddressesAttribute", Members: "AllocationIds Attribute DryRun MaxResults NextToken"},
		// Security groups.
		{Name: "CreateSecurityGroup", Members: "Description DryRun GroupName TagSpecifications VpcId"},
		{Name: "DescribeSecurityGroups", Members: "GroupIds GroupNames" + paged, FromStore: true},
		{Name: "DeleteSecurityGroup", Members: "DryRun GroupId GroupName"},
		{Name: "AuthorizeSecurityGroupIngress", Members: "CidrIp DryRun FromPort GroupId GroupName IpPermissions IpProtocol SourceSecurityGroupName TagSpecifications ToPort"},
		{Name: "AuthorizeSecurityGroupEgress", Members: "CidrIp DryRun FromPort GroupId IpPermissions IpProtocol SourceSecurityGroupName TagSpecifications ToPort"},
		{Name: "RevokeSecurityGroupIngress", Members: "CidrIp DryRun FromPort GroupId GroupName IpPermissions IpProtocol SecurityGroupRuleIds SourceSecurityGroupName ToPort"},
		{Name: "RevokeSecurityGroupEgress", Members: "CidrIp DryRun FromPort GroupId IpPermissions IpProtocol SecurityGroupRuleIds SourceSecurityGroupName ToPort"},
		{Name: "ModifySecurityGroupRules", Members: "DryRun GroupId SecurityGroupRules"},
		{Name: "UpdateSecurityGroupRuleDescriptionsIngress", Members: "DryRun GroupId GroupName IpPermissions SecurityGroupRuleDescriptions"},
		{Name: "UpdateSecurityGroupRuleDescriptionsEgress", Members: "DryRun GroupId GroupName IpPermissions SecurityGroupRuleDescriptions"},
		{Name: "DescribeSecurityGroupReferences", Members: "DryRun GroupId"},
		{Name: "DescribeStaleSecurityGroups", Members: "DryRun MaxResults NextToken VpcId"},
		{Name: "GetSecurityGroupsForVpc", Members: "VpcId" + paged},
		{Name: "DescribeSecurityGroupRules", Members: "SecurityGroupRuleIds" + paged},
		// Network interfaces.
		{Name: "CreateNetworkInterface", Members: "ClientToken Description DryRun Groups InterfaceType Ipv4PrefixCount Ipv4Prefixes Ipv6AddressCount Ipv6Addresses Ipv6PrefixCount Ipv6Prefixes PrivateIpAddress PrivateIpAddresses SecondaryPrivateIpAddressCount SubnetId TagSpecifications"},
		{Name: "DescribeNetworkInterfaces", Members: "NetworkInterfaceIds" + paged, FromStore: true},
		{Name: "DeleteNetworkInterface", Members: "DryRun NetworkInterfaceId"},
		{Name: "AttachNetworkInterface", Members: "DeviceIndex DryRun InstanceId NetworkCardIndex NetworkInterfaceId"},
		{Name: "DetachNetworkInterface", Members: "AttachmentId DryRun Force"},
		{Name: "AssignPrivateIpAddresses", Members: "AllowReassignment Ipv4PrefixCount Ipv4Prefixes NetworkInterfaceId PrivateIpAddresses SecondaryPrivateIpAddressCount"},
		{Name: "UnassignPrivateIpAddresses", Members: "Ipv4Prefixes NetworkInterfaceId PrivateIpAddresses"},
		{Name: "AssignIpv6Addresses", Members: "Ipv6AddressCount Ipv6Addresses Ipv6PrefixCount Ipv6Prefixes NetworkInterfaceId"},
		{Name: "UnassignIpv6Addresses", Members: "Ipv6Addresses Ipv6Prefixes NetworkInterfaceId"},
		{
			Name:    "ModifyNetworkInterfaceAttribute",
			Members: "Attachment.AttachmentId Attachment.DeleteOnTermination Description DryRun Groups NetworkInterfaceId SourceDestCheck",
		},
		{Name: "ResetNetworkInterfaceAttribute", Members: "DryRun NetworkInterfaceId SourceDestCheck"},
		{Name: "DescribeNetworkInterfaceAttribute", Members: "Attribute DryRun NetworkInterfaceId"},
		// Tags.
		{Name: "CreateTags", Members: "DryRun Resources Tags"},
		{Name: "DeleteTags", Members: "DryRun Resources Tags"},
		{Name: "DescribeTags", Members: paged},
	}
}
