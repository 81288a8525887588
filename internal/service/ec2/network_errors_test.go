package ec2_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Every network error code that no other test covers, each from a real call.
func TestNetworkErrors(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	n := newNetwork(t, w, "10.0.0.0/16")
	other := w.vpc(t, "10.1.0.0/16")
	const none = "00000000000000000"
	acl := must(w.CreateNetworkAcl(ctx, &awsec2.CreateNetworkAclInput{VpcId: &n.vpc}))(t).NetworkAcl.NetworkAclId
	entry := &awsec2.CreateNetworkAclEntryInput{NetworkAclId: acl, RuleNumber: aws.Int32(1), Protocol: aws.String("-1"), RuleAction: "allow", Egress: aws.Bool(false), CidrBlock: aws.String("0.0.0.0/0")}
	must(w.CreateNetworkAclEntry(ctx, entry))(t)
	list := must(w.CreateManagedPrefixList(ctx, &awsec2.CreateManagedPrefixListInput{PrefixListName: aws.String("l"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(1)}))(t).PrefixList.PrefixListId
	add := func(version int64, cidrs ...string) error {
		in := &awsec2.ModifyManagedPrefixListInput{PrefixListId: list, CurrentVersion: &version}
		for _, c := range cidrs {
			in.AddEntries = append(in.AddEntries, ec2types.AddPrefixListEntry{Cidr: aws.String(c)})
		}
		_, err := w.ModifyManagedPrefixList(ctx, in)
		return err
	}
	must(w.CreateFlowLogs(ctx, flowLogInput(n.vpc)))(t)
	must(w.CreateInstanceConnectEndpoint(ctx, &awsec2.CreateInstanceConnectEndpointInput{SubnetId: &n.private}))(t)
	eni := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &n.public}))(t).NetworkInterface.NetworkInterfaceId
	isolated := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: aws.String(w.subnet(t, other, "10.1.0.0/24"))}))(t).NetworkInterface.NetworkInterfaceId
	eip := w.allocate(t)
	must(w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: &eip, NetworkInterfaceId: eni}))(t)
	foreign := w.allocate(t)
	used := must(w.DescribeAddresses(ctx, &awsec2.DescribeAddressesInput{AllocationIds: []string{eip}}))(t).Addresses[0]
	rule := must(w.DescribeSecurityGroupRules(ctx, &awsec2.DescribeSecurityGroupRulesInput{}))(t).SecurityGroupRules[0]
	rewrite := func(to ec2types.SecurityGroupRuleRequest) error {
		_, err := w.ModifySecurityGroupRules(ctx, &awsec2.ModifySecurityGroupRulesInput{GroupId: rule.GroupId, SecurityGroupRules: []ec2types.SecurityGroupRuleUpdate{{SecurityGroupRuleId: rule.SecurityGroupRuleId, SecurityGroupRule: &to}}})
		return err
	}
	for _, tt := range []struct {
		code, text string
		call       func() error
	}{
		{"InvalidDhcpOptionID.NotFound", "The dhcpOption ID 'dopt-" + none + "' does not exist", func() error {
			_, err := w.AssociateDhcpOptions(ctx, &awsec2.AssociateDhcpOptionsInput{VpcId: &n.vpc, DhcpOptionsId: aws.String("dopt-" + none)})
			return err
		}},
		{"DefaultVpcAlreadyExists", "A Default VPC already exists for this account in this region.", func() error {
			_, err := w.CreateDefaultVpc(ctx, &awsec2.CreateDefaultVpcInput{})
			return err
		}},
		{"DefaultSubnetAlreadyExistsInAvailabilityZone", "", func() error {
			_, err := w.CreateDefaultSubnet(ctx, &awsec2.CreateDefaultSubnetInput{AvailabilityZone: aws.String("us-east-1a")})
			return err
		}},
		{"InvalidVpcCidrBlockAssociationID.NotFound", "The vpc CIDR block association ID 'vpc-cidr-assoc-1' does not exist", func() error {
			_, err := w.DisassociateVpcCidrBlock(ctx, &awsec2.DisassociateVpcCidrBlockInput{AssociationId: aws.String("vpc-cidr-assoc-1")})
			return err
		}},
		{"InvalidSubnetCidrBlockAssociationID.NotFound", "", func() error {
			_, err := w.DisassociateSubnetCidrBlock(ctx, &awsec2.DisassociateSubnetCidrBlockInput{AssociationId: aws.String("x")})
			return err
		}},
		{"NatGatewayNotFound", "NAT gateway nat-" + none + " was not found", func() error {
			_, err := w.DescribeNatGateways(ctx, &awsec2.DescribeNatGatewaysInput{NatGatewayIds: []string{"nat-" + none}})
			return err
		}},
		{"InvalidGatewayID.NotFound", "The eigw ID 'eigw-" + none + "' does not exist", func() error {
			_, err := w.DeleteEgressOnlyInternetGateway(ctx, &awsec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: aws.String("eigw-" + none)})
			return err
		}},
		{"InvalidVpcPeeringConnectionID.NotFound", "The vpcPeeringConnection ID 'pcx-" + none + "' does not exist", func() error {
			_, err := w.AcceptVpcPeeringConnection(ctx, &awsec2.AcceptVpcPeeringConnectionInput{VpcPeeringConnectionId: aws.String("pcx-" + none)})
			return err
		}},
		{"InvalidInstanceConnectEndpointId.NotFound", "", func() error {
			_, err := w.DeleteInstanceConnectEndpoint(ctx, &awsec2.DeleteInstanceConnectEndpointInput{InstanceConnectEndpointId: aws.String("eice-" + none)})
			return err
		}},
		{"InstanceConnectEndpointLimitExceeded", "", func() error {
			_, err := w.CreateInstanceConnectEndpoint(ctx, &awsec2.CreateInstanceConnectEndpointInput{SubnetId: &n.public})
			return err
		}},
		{"InvalidPrefixListID.NotFound", "The prefix list (pl-" + none + ") does not exist.", func() error {
			_, err := w.GetManagedPrefixListEntries(ctx, &awsec2.GetManagedPrefixListEntriesInput{PrefixListId: aws.String("pl-" + none)})
			return err
		}},
		{"InvalidParameterValue", "Must specify a max size between 1 and 1000", func() error {
			_, err := w.CreateManagedPrefixList(ctx, &awsec2.CreateManagedPrefixListInput{PrefixListName: aws.String("l"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(1001)})
			return err
		}},
		{"InvalidParameterValue", "The number of entries per request cannot exceeds limit (100).", func() error { return add(1, make([]string, 101)...) }},
		{"InvalidParameterCombination", "You may specify InstanceId or NetworkInterfaceId, but not both in the same call", func() error {
			_, err := w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: &eip, InstanceId: aws.String("i-" + none), NetworkInterfaceId: eni})
			return err
		}},
		{"PrefixListVersionMismatch", "", func() error { return add(7, "10.0.0.0/8") }},
		{"PrefixListMaxEntriesExceeded", "You've reached the maximum number of entries for the prefix list.", func() error { return add(1, "10.0.0.0/8", "11.0.0.0/8") }},
		{"OperationNotPermitted", "", func() error {
			_, err := w.ModifyManagedPrefixList(ctx, &awsec2.ModifyManagedPrefixListInput{PrefixListId: aws.String("pl-63a5400a"), PrefixListName: aws.String("x")})
			return err
		}},
		{"NetworkAclEntryAlreadyExists", "The network acl entry identified by 1 already exists.", func() error {
			_, err := w.CreateNetworkAclEntry(ctx, entry)
			return err
		}},
		{"InvalidNetworkAclEntry.NotFound", "no egress entry with number 9 in network ACL " + *acl, func() error {
			_, err := w.DeleteNetworkAclEntry(ctx, &awsec2.DeleteNetworkAclEntryInput{NetworkAclId: acl, RuleNumber: aws.Int32(9), Egress: aws.Bool(true)})
			return err
		}},
		{"InvalidParameterValue", "", func() error {
			acls, err := w.DescribeNetworkAcls(ctx, &awsec2.DescribeNetworkAclsInput{Filters: filter("default", "true")})
			if err != nil {
				return err
			}
			_, err = w.DeleteNetworkAcl(ctx, &awsec2.DeleteNetworkAclInput{NetworkAclId: acls.NetworkAcls[0].NetworkAclId})
			return err
		}},
		{"InvalidAddress.NotFound", "Address '192.0.2.1' not found.", func() error {
			_, err := w.ReleaseAddress(ctx, &awsec2.ReleaseAddressInput{PublicIp: aws.String("192.0.2.1")})
			return err
		}},
		{"InvalidAssociationID.NotFound", "The association ID 'eipassoc-" + none + "' does not exist", func() error {
			_, err := w.DisassociateAddress(ctx, &awsec2.DisassociateAddressInput{AssociationId: aws.String("eipassoc-" + none)})
			return err
		}},
		{"Gateway.NotAttached", "Network " + other + " is not attached to any internet gateway", func() error {
			_, err := w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: &foreign, NetworkInterfaceId: isolated})
			return err
		}},
		{"Resource.AlreadyAssociated", "resource " + *eni + " and " + *used.PrivateIpAddress + " is already associated with public address " + *used.PublicIp, func() error {
			_, err := w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: &foreign, NetworkInterfaceId: eni, AllowReassociation: aws.Bool(false)})
			return err
		}},
		{"RouteNotSupported", "", func() error {
			_, err := w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &n.table, DestinationCidrBlock: aws.String("1.0.0.0/8"), GatewayId: aws.String("vpce-" + none)})
			return err
		}},
		{"InvalidParameterValue", "Invalid value 'true' for assign-ipv6-address-on-creation. Cannot set assign-ipv6-address-on-creation to true unless the subnet (" + n.public + ") has an IPv6 CIDR block associated with it.", func() error {
			_, err := w.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{SubnetId: &n.public, AssignIpv6AddressOnCreation: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}})
			return err
		}},
		{"InvalidParameterValue", "Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly.", func() error {
			return rewrite(ec2types.SecurityGroupRuleRequest{CidrIpv4: aws.String("10.0.0.0/8")})
		}},
		{"InvalidParameterValue", "Invalid value for portRange. Must specify both from and to ports with TCP/UDP.", func() error {
			return rewrite(ec2types.SecurityGroupRuleRequest{IpProtocol: aws.String("udp"), ToPort: aws.Int32(53), CidrIpv4: aws.String("10.0.0.0/8")})
		}},
		{"MissingParameter", "The request must contain exactly one of: cidrIp, cidrIpv6, prefixListId, or referencedGroupId", func() error {
			return rewrite(ec2types.SecurityGroupRuleRequest{IpProtocol: aws.String("-1")})
		}},
		{"InvalidParameterCombination", "Only one of cidrIp, cidrIpv6, prefixListId, or referencedGroupId can be specified", func() error {
			return rewrite(ec2types.SecurityGroupRuleRequest{IpProtocol: aws.String("-1"), CidrIpv4: aws.String("10.0.0.0/8"), CidrIpv6: aws.String("::/0")})
		}},
		{"InvalidParameterCombination", "No attributes specified.", func() error {
			_, err := w.ModifyNetworkInterfaceAttribute(ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: eni})
			return err
		}},
		{"InvalidParameterCombination", "Fields for multiple attribute types specified: enableDnsSupport, enableDnsHostnames", func() error {
			yes := &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}
			_, err := w.ModifyVpcAttribute(ctx, &awsec2.ModifyVpcAttributeInput{VpcId: &n.vpc, EnableDnsSupport: yes, EnableDnsHostnames: yes})
			return err
		}},
		{"MissingParameter", "Either 'cidrBlock' or 'ipv4IpamPoolId' should be provided.", func() error {
			_, err := w.CreateVpc(ctx, &awsec2.CreateVpcInput{})
			return err
		}},
		{"InvalidParameterValue", "invalid value for parameter ipv6-cidr-block: 2600:1f16:c6:ff10::/62", func() error {
			_, err := w.AssociateSubnetCidrBlock(ctx, &awsec2.AssociateSubnetCidrBlockInput{SubnetId: &n.public, Ipv6CidrBlock: aws.String("2600:1f16:c6:ff10::/62")})
			return err
		}},
		{"InvalidSubnet.Range", "The IPv6 CIDR '2600:1f16:c6:ff10::/64' is invalid.", func() error {
			_, err := w.AssociateSubnetCidrBlock(ctx, &awsec2.AssociateSubnetCidrBlockInput{SubnetId: &n.public, Ipv6CidrBlock: aws.String("2600:1f16:c6:ff10::/64")})
			return err
		}},
		{"MissingParameter", "The request must include either the Destination parameter or the FilterAtSource.DestinationAddress parameter. Add the required parameter and retry the request.", func() error {
			_, err := w.CreateNetworkInsightsPath(ctx, &awsec2.CreateNetworkInsightsPathInput{Source: eni, DestinationIp: aws.String("10.0.0.9"), Protocol: ec2types.ProtocolTcp})
			return err
		}},
		{"InvalidPolicyDocument", "The Policy Document is not valid. Syntax error at position (2,3)", func() error {
			_, err := w.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{VpcId: &n.vpc, ServiceName: aws.String("com.amazonaws.us-east-1.s3"), PolicyDocument: aws.String("{\n  x}")})
			return err
		}},
		{"UnsupportedTenancy", "The tenancy value dedicated is not supported.", func() error {
			_, err := w.ModifyVpcTenancy(ctx, &awsec2.ModifyVpcTenancyInput{VpcId: &n.vpc, InstanceTenancy: "dedicated"})
			return err
		}},
		{"InvalidPublicIpv4PoolID.NotFound", "", func() error {
			_, err := w.AllocateAddress(ctx, &awsec2.AllocateAddressInput{PublicIpv4Pool: aws.String("ipv4pool-ec2-" + none)})
			return err
		}},
		{"InvalidParameterValue", "invalid value for parameter pool: mine", func() error {
			_, err := w.AllocateAddress(ctx, &awsec2.AllocateAddressInput{PublicIpv4Pool: aws.String("mine")})
			return err
		}},
		{"InvalidParameterValue", "Value (colour) for parameter name is invalid. Unknown DHCP option", func() error {
			_, err := w.CreateDhcpOptions(ctx, &awsec2.CreateDhcpOptionsInput{DhcpConfigurations: []ec2types.NewDhcpConfiguration{{Key: aws.String("colour"), Values: []string{"red"}}}})
			return err
		}},
		{"MissingParameter", "The request must include the AllocationId parameter. Add the required parameter and retry the request.", func() error {
			_, err := w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &n.public})
			return err
		}},
		{"InvalidSubnet", "The subnet ID 'here' is malformed", func() error {
			_, err := w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: aws.String("here"), AllocationId: &eip})
			return err
		}},
		{"InvalidElasticIpID.Malformed", "The elastic-ip ID 'mine' is malformed", func() error {
			_, err := w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &n.public, AllocationId: aws.String("mine")})
			return err
		}},
		{"InvalidVpcId.Malformed", "Invalid Id: 'mine'", func() error {
			_, err := w.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{VpcId: aws.String("mine"), ServiceName: aws.String("com.amazonaws.us-east-1.s3")})
			return err
		}},
	} {
		t.Run(strings.ReplaceAll(tt.code, ".", "_"), func(t *testing.T) { wantError(t, tt.call(), tt.code, tt.text) })
	}
	out := must(w.CreateFlowLogs(ctx, flowLogInput(n.vpc)))(t)
	if len(out.Unsuccessful) != 1 || *out.Unsuccessful[0].Error.Code != "FlowLogAlreadyExists" {
		t.Errorf("the same flow log again: %+v", out.Unsuccessful)
	}
}

func TestNetworkQuotas(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	n := newNetwork(t, w, "10.0.0.0/16")
	group := must(w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: &n.vpc, GroupName: aws.String("g"), Description: aws.String("g")}))(t).GroupId
	for _, tt := range []struct {
		quota, code string
		call        func() error
	}{
		{"L-F678F1CE", "VpcLimitExceeded", func() error {
			_, err := w.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
			return err
		}},
		{"L-407747CB", "SubnetLimitExceeded", func() error {
			_, err := w.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &n.vpc, CidrBlock: aws.String("10.0.9.0/24")})
			return err
		}},
		{"L-83CA0A9D", "CidrLimitExceeded", func() error {
			_, err := w.AssociateVpcCidrBlock(ctx, &awsec2.AssociateVpcCidrBlockInput{VpcId: &n.vpc, CidrBlock: aws.String("10.9.0.0/16")})
			return err
		}},
		{"L-589F43AA", "RouteTableLimitExceeded", func() error {
			_, err := w.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &n.vpc})
			return err
		}},
		{"L-93826ACB", "RouteLimitExceeded", func() error {
			_, err := w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &n.table, DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: &n.igw})
			return err
		}},
		{"L-A4707A72", "InternetGatewayLimitExceeded", func() error {
			_, err := w.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{})
			return err
		}},
		{"L-45FE3B85", "EgressOnlyInternetGatewayLimitExceeded", func() error {
			_, err := w.CreateEgressOnlyInternetGateway(ctx, &awsec2.CreateEgressOnlyInternetGatewayInput{VpcId: &n.vpc})
			return err
		}},
		{"L-FE5A380F", "NatGatewayLimitExceeded", func() error {
			_, err := w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &n.public, ConnectivityType: "private"})
			return err
		}},
		{"L-B4A6D682", "NetworkAclLimitExceeded", func() error {
			_, err := w.CreateNetworkAcl(ctx, &awsec2.CreateNetworkAclInput{VpcId: &n.vpc})
			return err
		}},
		{"L-E79EC296", "SecurityGroupLimitExceeded", func() error {
			_, err := w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: &n.vpc, GroupName: aws.String("h"), Description: aws.String("h")})
			return err
		}},
		{"L-2AFB9258", "SecurityGroupsPerInterfaceLimitExceeded", func() error {
			_, err := w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &n.public, Groups: []string{*group}})
			return err
		}},
		{"L-DC9F7029", "OutstandingVpcPeeringConnectionLimitExceeded", func() error {
			_, err := w.CreateVpcPeeringConnection(ctx, &awsec2.CreateVpcPeeringConnectionInput{VpcId: &n.vpc, PeerVpcId: &n.vpc})
			return err
		}},
		{"L-1B52E74A", "VpcEndpointLimitExceeded", func() error {
			_, err := w.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{VpcId: &n.vpc, ServiceName: aws.String("com.amazonaws.us-east-1.s3")})
			return err
		}},
		{"L-0263D0A3", "AddressLimitExceeded", func() error {
			_, err := w.AllocateAddress(ctx, &awsec2.AllocateAddressInput{})
			return err
		}},
	} {
		t.Run(tt.code, func(t *testing.T) {
			w.setQuota(t, tt.quota, 0)
			wantError(t, tt.call(), tt.code, "")
		})
	}
}
