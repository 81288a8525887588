package ec2

import "github.com/drydock-dev/drydock/internal/awsapi"

// networkOperations are the operations of the network and of tags.
func networkOperations() []awsapi.Operation {
	return []awsapi.Operation{
		// VPCs.
		{Name: "CreateVpc", Members: "CidrBlock DryRun InstanceTenancy TagSpecifications"},
		{Name: "DescribeVpcs", Members: "VpcIds" + paged},
		{Name: "DeleteVpc", Members: "DryRun VpcId"},
		{Name: "DescribeVpcAttribute", Members: "Attribute DryRun VpcId"},
		{Name: "ModifyVpcAttribute", Members: "EnableDnsHostnames EnableDnsSupport EnableNetworkAddressUsageMetrics VpcId"},
		{Name: "DescribeDhcpOptions", Members: "DhcpOptionsIds" + paged},
		// Subnets.
		{Name: "CreateSubnet", Members: "AvailabilityZone AvailabilityZoneId CidrBlock DryRun TagSpecifications VpcId"},
		{Name: "DescribeSubnets", Members: "SubnetIds" + paged},
		{Name: "DeleteSubnet", Members: "DryRun SubnetId"},
		{Name: "ModifySubnetAttribute", Members: "EnableResourceNameDnsAAAARecordOnLaunch EnableResourceNameDnsARecordOnLaunch MapPublicIpOnLaunch PrivateDnsHostnameTypeOnLaunch SubnetId"},
		// Gateways, routes, network ACLs.
		{Name: "CreateInternetGateway", Members: "DryRun TagSpecifications"},
		{Name: "AttachInternetGateway", Members: "DryRun InternetGatewayId VpcId"},
		{Name: "DetachInternetGateway", Members: "DryRun InternetGatewayId VpcId"},
		{Name: "DeleteInternetGateway", Members: "DryRun InternetGatewayId"},
		{Name: "DescribeInternetGateways", Members: "InternetGatewayIds" + paged},
		{Name: "CreateRouteTable", Members: "ClientToken DryRun TagSpecifications VpcId"},
		{Name: "DeleteRouteTable", Members: "DryRun RouteTableId"},
		{Name: "DescribeRouteTables", Members: "RouteTableIds" + paged},
		{Name: "AssociateRouteTable", Members: "DryRun RouteTableId SubnetId"},
		{Name: "DisassociateRouteTable", Members: "AssociationId DryRun"},
		{Name: "CreateRoute", Members: "DestinationCidrBlock DestinationIpv6CidrBlock DryRun GatewayId InstanceId NetworkInterfaceId RouteTableId"},
		{Name: "DeleteRoute", Members: "DestinationCidrBlock DestinationIpv6CidrBlock DryRun RouteTableId"},
		{Name: "DescribeNetworkAcls", Members: "NetworkAclIds" + paged},
		// Security groups.
		{Name: "CreateSecurityGroup", Members: "Description DryRun GroupName TagSpecifications VpcId"},
		{Name: "DescribeSecurityGroups", Members: "GroupIds GroupNames" + paged},
		{Name: "DeleteSecurityGroup", Members: "DryRun GroupId GroupName"},
		{Name: "AuthorizeSecurityGroupIngress", Members: "CidrIp DryRun FromPort GroupId GroupName IpPermissions IpProtocol SourceSecurityGroupName TagSpecifications ToPort"},
		{Name: "AuthorizeSecurityGroupEgress", Members: "CidrIp DryRun FromPort GroupId IpPermissions IpProtocol SourceSecurityGroupName TagSpecifications ToPort"},
		{Name: "RevokeSecurityGroupIngress", Members: "CidrIp DryRun FromPort GroupId GroupName IpPermissions IpProtocol SecurityGroupRuleIds SourceSecurityGroupName ToPort"},
		{Name: "RevokeSecurityGroupEgress", Members: "CidrIp DryRun FromPort GroupId IpPermissions IpProtocol SecurityGroupRuleIds SourceSecurityGroupName ToPort"},
		{Name: "DescribeSecurityGroupRules", Members: "SecurityGroupRuleIds" + paged},
		// Network interfaces.
		{Name: "CreateNetworkInterface", Members: "ClientToken Description DryRun Groups InterfaceType PrivateIpAddress PrivateIpAddresses SecondaryPrivateIpAddressCount SubnetId TagSpecifications"},
		{Name: "DescribeNetworkInterfaces", Members: "NetworkInterfaceIds" + paged},
		{Name: "DeleteNetworkInterface", Members: "DryRun NetworkInterfaceId"},
		{Name: "AttachNetworkInterface", Members: "DeviceIndex DryRun InstanceId NetworkCardIndex NetworkInterfaceId"},
		{Name: "DetachNetworkInterface", Members: "AttachmentId DryRun Force"},
		{Name: "AssignPrivateIpAddresses", Members: "NetworkInterfaceId PrivateIpAddresses SecondaryPrivateIpAddressCount"},
		{Name: "UnassignPrivateIpAddresses", Members: "NetworkInterfaceId PrivateIpAddresses"},
		// Tags.
		{Name: "CreateTags", Members: "DryRun Resources Tags"},
		{Name: "DeleteTags", Members: "DryRun Resources Tags"},
		{Name: "DescribeTags", Members: paged},
	}
}
