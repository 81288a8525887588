package ec2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// networkDryRuns returns the dryRunRequests about other parts of the network. It waits until
// nothing is in progress.
func networkDryRuns(t *testing.T, w *world) map[string]any {
	ctx := t.Context()
	w.setQuota(t, "L-F678F1CE", 20)
	n := newNetwork(t, w, "10.40.0.0/16")
	peer := w.vpc(t, "10.41.0.0/16")
	pcx := must(w.CreateVpcPeeringConnection(ctx, &awsec2.CreateVpcPeeringConnectionInput{VpcId: &n.vpc, PeerVpcId: &peer}))(t).VpcPeeringConnection.VpcPeeringConnectionId
	free, used := w.allocate(t), w.allocate(t)
	eni := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &n.public}))(t).NetworkInterface.NetworkInterfaceId
	association := must(w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: &used, NetworkInterfaceId: eni}))(t).AssociationId
	nat := must(w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &n.private, ConnectivityType: "private"}))(t).NatGateway.NatGatewayId
	eigw := must(w.CreateEgressOnlyInternetGateway(ctx, &awsec2.CreateEgressOnlyInternetGatewayInput{VpcId: &n.vpc}))(t).EgressOnlyInternetGateway.EgressOnlyInternetGatewayId
	dopt := must(w.CreateDhcpOptions(ctx, &awsec2.CreateDhcpOptionsInput{DhcpConfigurations: []ec2types.NewDhcpConfiguration{{Key: aws.String("domain-name"), Values: []string{"x"}}}}))(t).DhcpOptions.DhcpOptionsId
	acl := must(w.CreateNetworkAcl(ctx, &awsec2.CreateNetworkAclInput{VpcId: &n.vpc}))(t).NetworkAcl.NetworkAclId
	entry := func(number int32) *awsec2.CreateNetworkAclEntryInput {
		return &awsec2.CreateNetworkAclEntryInput{NetworkAclId: acl, RuleNumber: &number, Protocol: aws.String("-1"), RuleAction: "allow", Egress: aws.Bool(false), CidrBlock: aws.String("0.0.0.0/0")}
	}
	must(w.CreateNetworkAclEntry(ctx, entry(1)))(t)
	acls := must(w.DescribeNetworkAcls(ctx, &awsec2.DescribeNetworkAclsInput{Filters: filter("association.subnet-id", n.public)}))(t).NetworkAcls
	aclAssociation := acls[0].Associations[0].NetworkAclAssociationId
	table := must(w.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &n.vpc}))(t).RouteTable.RouteTableId
	tableAssociation := must(w.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: table, SubnetId: &n.public}))(t).AssociationId
	must(w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: table, DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: &n.igw}))(t)
	endpoint := must(w.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{VpcId: &n.vpc, ServiceName: aws.String("com.amazonaws.us-east-1.s3")}))(t).VpcEndpoint.VpcEndpointId
	eice := must(w.CreateInstanceConnectEndpoint(ctx, &awsec2.CreateInstanceConnectEndpointInput{SubnetId: &n.private}))(t).InstanceConnectEndpoint.InstanceConnectEndpointId
	list := must(w.CreateManagedPrefixList(ctx, &awsec2.CreateManagedPrefixListInput{PrefixListName: aws.String("l"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(5)}))(t).PrefixList.PrefixListId
	log := must(w.CreateFlowLogs(ctx, flowLogInput(n.vpc)))(t).FlowLogIds
	group := must(w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: &n.vpc, GroupName: aws.String("g"), Description: aws.String("g")}))(t).GroupId
	perms := []ec2types.IpPermission{{IpProtocol: aws.String("-1"), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}
	rule := must(w.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: group, IpPermissions: perms}))(t).SecurityGroupRules[0].SecurityGroupRuleId
	extra := must(w.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &n.vpc, CidrBlock: aws.String("10.40.200.0/24")}))(t).Subnet.SubnetId
	w.settle(t)
	def := must(w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{Filters: filter("is-default", "true")}))(t).Vpcs[0].VpcId
	bogus := aws.String("pl-63a5400a")
	return map[string]any{
		"ModifyVpcTenancy":                           &awsec2.ModifyVpcTenancyInput{VpcId: &n.vpc, InstanceTenancy: "default"},
		"CreateDefaultVpc":                           nil, // refused while one exists
		"CreateDefaultSubnet":                        &awsec2.CreateDefaultSubnetInput{AvailabilityZone: aws.String("us-east-1d")},
		"CreateDhcpOptions":                          &awsec2.CreateDhcpOptionsInput{DhcpConfigurations: []ec2types.NewDhcpConfiguration{{Key: aws.String("domain-name"), Values: []string{"x"}}}},
		"AssociateDhcpOptions":                       &awsec2.AssociateDhcpOptionsInput{VpcId: &n.vpc, DhcpOptionsId: dopt},
		"DeleteDhcpOptions":                          &awsec2.DeleteDhcpOptionsInput{DhcpOptionsId: dopt},
		"CreateEgressOnlyInternetGateway":            &awsec2.CreateEgressOnlyInternetGatewayInput{VpcId: &n.vpc},
		"DeleteEgressOnlyInternetGateway":            &awsec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: eigw},
		"CreateNatGateway":                           &awsec2.CreateNatGatewayInput{SubnetId: &n.public, AllocationId: &free},
		"DeleteNatGateway":                           &awsec2.DeleteNatGatewayInput{NatGatewayId: nat},
		"ReplaceRouteTableAssociation":               &awsec2.ReplaceRouteTableAssociationInput{AssociationId: tableAssociation, RouteTableId: &n.table},
		"ReplaceRoute":                               &awsec2.ReplaceRouteInput{RouteTableId: table, DestinationCidrBlock: aws.String("0.0.0.0/0"), NetworkInterfaceId: eni},
		"CreateNetworkAcl":                           &awsec2.CreateNetworkAclInput{VpcId: &n.vpc},
		"DeleteNetworkAcl":                           &awsec2.DeleteNetworkAclInput{NetworkAclId: acl},
		"CreateNetworkAclEntry":                      entry(2),
		"ReplaceNetworkAclEntry":                     &awsec2.ReplaceNetworkAclEntryInput{NetworkAclId: acl, RuleNumber: aws.Int32(1), Protocol: aws.String("-1"), RuleAction: "deny", Egress: aws.Bool(false), CidrBlock: aws.String("0.0.0.0/0")},
		"DeleteNetworkAclEntry":                      &awsec2.DeleteNetworkAclEntryInput{NetworkAclId: acl, RuleNumber: aws.Int32(1), Egress: aws.Bool(false)},
		"ReplaceNetworkAclAssociation":               &awsec2.ReplaceNetworkAclAssociationInput{AssociationId: aclAssociation, NetworkAclId: acl},
		"CreateVpcPeeringConnection":                 &awsec2.CreateVpcPeeringConnectionInput{VpcId: &peer, PeerVpcId: def},
		"AcceptVpcPeeringConnection":                 &awsec2.AcceptVpcPeeringConnectionInput{VpcPeeringConnectionId: pcx},
		"RejectVpcPeeringConnection":                 &awsec2.RejectVpcPeeringConnectionInput{VpcPeeringConnectionId: pcx},
		"DeleteVpcPeeringConnection":                 &awsec2.DeleteVpcPeeringConnectionInput{VpcPeeringConnectionId: pcx},
		"ModifyVpcPeeringConnectionOptions":          nil, // requires an active connection
		"CreateVpcEndpoint":                          &awsec2.CreateVpcEndpointInput{VpcId: &n.vpc, ServiceName: aws.String("com.amazonaws.us-east-1.dynamodb")},
		"ModifyVpcEndpoint":                          &awsec2.ModifyVpcEndpointInput{VpcEndpointId: endpoint, ResetPolicy: aws.Bool(true)},
		"DeleteVpcEndpoints":                         &awsec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{*endpoint}},
		"CreateInstanceConnectEndpoint":              &awsec2.CreateInstanceConnectEndpointInput{SubnetId: aws.String(w.defaultSubnet(t))},
		"ModifyInstanceConnectEndpoint":              &awsec2.ModifyInstanceConnectEndpointInput{InstanceConnectEndpointId: eice},
		"DeleteInstanceConnectEndpoint":              &awsec2.DeleteInstanceConnectEndpointInput{InstanceConnectEndpointId: eice},
		"CreateManagedPrefixList":                    &awsec2.CreateManagedPrefixListInput{PrefixListName: aws.String("m"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(5)},
		"ModifyManagedPrefixList":                    &awsec2.ModifyManagedPrefixListInput{PrefixListId: list, PrefixListName: aws.String("n")},
		"DeleteManagedPrefixList":                    &awsec2.DeleteManagedPrefixListInput{PrefixListId: list},
		"GetManagedPrefixListEntries":                &awsec2.GetManagedPrefixListEntriesInput{PrefixListId: bogus},
		"CreateFlowLogs":                             flowLogInput(*extra),
		"DeleteFlowLogs":                             &awsec2.DeleteFlowLogsInput{FlowLogIds: log},
		"AssociateAddress":                           &awsec2.AssociateAddressInput{AllocationId: &free, NetworkInterfaceId: eni},
		"DisassociateAddress":                        &awsec2.DisassociateAddressInput{AssociationId: association},
		"ReleaseAddress":                             &awsec2.ReleaseAddressInput{AllocationId: &free},
		"ModifySecurityGroupRules":                   &awsec2.ModifySecurityGroupRulesInput{GroupId: group, SecurityGroupRules: []ec2types.SecurityGroupRuleUpdate{{SecurityGroupRuleId: rule, SecurityGroupRule: &ec2types.SecurityGroupRuleRequest{IpProtocol: aws.String("-1"), CidrIpv4: aws.String("10.0.0.0/8")}}}},
		"UpdateSecurityGroupRuleDescriptionsIngress": &awsec2.UpdateSecurityGroupRuleDescriptionsIngressInput{GroupId: group, IpPermissions: perms},
		"UpdateSecurityGroupRuleDescriptionsEgress":  &awsec2.UpdateSecurityGroupRuleDescriptionsEgressInput{GroupId: group, IpPermissions: perms},
		"DescribeSecurityGroupReferences":            &awsec2.DescribeSecurityGroupReferencesInput{GroupId: []string{*group}},
		"DescribeStaleSecurityGroups":                &awsec2.DescribeStaleSecurityGroupsInput{VpcId: &n.vpc},
		"GetSecurityGroupsForVpc":                    &awsec2.GetSecurityGroupsForVpcInput{VpcId: &n.vpc},
		"ModifyNetworkInterfaceAttribute":            &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: eni, Description: &ec2types.AttributeValue{Value: aws.String("d")}},
		"ResetNetworkInterfaceAttribute":             &awsec2.ResetNetworkInterfaceAttributeInput{NetworkInterfaceId: eni, SourceDestCheck: aws.String("true")},
		"DescribeNetworkInterfaceAttribute":          &awsec2.DescribeNetworkInterfaceAttributeInput{NetworkInterfaceId: eni, Attribute: "description"},
	}
}
