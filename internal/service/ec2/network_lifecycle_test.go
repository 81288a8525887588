package ec2_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestNATGatewayLifecycle(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	n := newNetwork(t, w, "10.0.0.0/16")
	eip := w.allocate(t)
	created := must(w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &n.public, AllocationId: &eip}))(t).NatGateway
	if created.State != "pending" || *created.NatGatewayAddresses[0].AllocationId != eip {
		t.Errorf("created: %+v", created)
	}
	w.settle(t)
	route := &awsec2.CreateRouteInput{RouteTableId: &n.table, DestinationCidrBlock: aws.String("0.0.0.0/0"), NatGatewayId: created.NatGatewayId}
	must(w.CreateRoute(ctx, route))(t)
	_, err := w.ReleaseAddress(ctx, &awsec2.ReleaseAddressInput{AllocationId: &eip})
	wantError(t, err, "AuthFailure", "You do not have permission to access the specified resource.")
	_, err = w.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: &n.public})
	wantError(t, err, "DependencyViolation", "The subnet '"+n.public+"' has dependencies and cannot be deleted.")
	_, err = w.DetachInternetGateway(ctx, &awsec2.DetachInternetGatewayInput{InternetGatewayId: &n.igw, VpcId: &n.vpc})
	wantError(t, err, "DependencyViolation", "Network "+n.vpc+" has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.")

	// A second gateway with the same address fails, and so does one without an internet gateway.
	w.vpc(t, "10.9.0.0/16")
	for _, tt := range []struct{ subnet, allocation, code string }{
		{n.public, eip, "Resource.AlreadyAssociated"},
		{w.subnet(t, w.vpc(t, "10.8.0.0/16"), "10.8.0.0/24"), w.allocate(t), "Gateway.NotAttached"},
	} {
		id := must(w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &tt.subnet, AllocationId: &tt.allocation}))(t).NatGateway.NatGatewayId
		w.settle(t)
		got := must(w.DescribeNatGateways(ctx, &awsec2.DescribeNatGatewaysInput{NatGatewayIds: []string{*id}}))(t).NatGateways[0]
		if got.State != "failed" || aws.ToString(got.FailureCode) != tt.code {
			t.Errorf("%s: %s %s", tt.code, got.State, aws.ToString(got.FailureCode))
		}
	}

	must(w.DeleteNatGateway(ctx, &awsec2.DeleteNatGatewayInput{NatGatewayId: created.NatGatewayId}))(t)
	w.settle(t)
	got := must(w.DescribeNatGateways(ctx, &awsec2.DescribeNatGatewaysInput{NatGatewayIds: []string{*created.NatGatewayId}}))(t).NatGateways[0]
	if got.State != "deleted" || got.DeleteTime == nil {
		t.Errorf("deleted: %+v", got)
	}
	if tables := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("route.state", "blackhole")}))(t).RouteTables; len(tables) != 1 {
		t.Error("the route to a deleted NAT gateway is no blackhole")
	}
	must(w.ReleaseAddress(ctx, &awsec2.ReleaseAddressInput{AllocationId: &eip}))(t)
}

func TestElasticAddressOfAnInstance(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	i := w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.SubnetId = aws.String(w.defaultSubnet(t)) })[0]
	auto := aws.ToString(i.PublicIpAddress)
	eip := must(w.AllocateAddress(ctx, &awsec2.AllocateAddressInput{}))(t)
	association := must(w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: eip.AllocationId, InstanceId: i.InstanceId}))(t).AssociationId
	public := func() string {
		out := must(w.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{InstanceIds: []string{*i.InstanceId}}))(t)
		return aws.ToString(out.Reservations[0].Instances[0].PublicIpAddress)
	}
	if public() != *eip.PublicIp || auto == *eip.PublicIp {
		t.Errorf("the instance has %s, not %s", public(), *eip.PublicIp)
	}
	again := must(w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: eip.AllocationId, InstanceId: i.InstanceId}))(t).AssociationId
	if *again != *association {
		t.Error("associating again makes another association")
	}
	_, err := w.ReleaseAddress(ctx, &awsec2.ReleaseAddressInput{AllocationId: eip.AllocationId})
	wantError(t, err, "InvalidIPAddress.InUse", "Address "+*eip.PublicIp+" is in use.")
	must(w.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{*i.InstanceId}}))(t)
	w.await(t, "stopped", *i.InstanceId)
	if public() != *eip.PublicIp {
		t.Error("the elastic address did not outlive the stop")
	}
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}}))(t)
	w.await(t, "terminated", *i.InstanceId)
	a := must(w.DescribeAddresses(ctx, &awsec2.DescribeAddressesInput{PublicIps: []string{*eip.PublicIp}}))(t).Addresses[0]
	if a.AssociationId != nil || a.InstanceId != nil {
		t.Errorf("still associated: %+v", a)
	}
	must(w.ReleaseAddress(ctx, &awsec2.ReleaseAddressInput{AllocationId: eip.AllocationId}))(t)
	_, err = w.ReleaseAddress(ctx, &awsec2.ReleaseAddressInput{AllocationId: eip.AllocationId})
	wantError(t, err, "InvalidAllocationID.NotFound", "The allocation ID '"+*eip.AllocationId+"' does not exist")
	for range 5 {
		w.allocate(t)
	}
	_, err = w.AllocateAddress(ctx, &awsec2.AllocateAddressInput{})
	wantError(t, err, "AddressLimitExceeded", "The maximum number of addresses has been reached.")
}

func TestPeeringLifecycle(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, b, same := w.vpc(t, "10.0.0.0/16"), w.vpc(t, "10.1.0.0/16"), w.vpc(t, "10.0.0.0/20")
	request := func(peer string) string {
		out := must(w.CreateVpcPeeringConnection(ctx, &awsec2.CreateVpcPeeringConnectionInput{VpcId: &a, PeerVpcId: &peer}))(t)
		return *out.VpcPeeringConnection.VpcPeeringConnectionId
	}
	status := func(id string) string {
		out := must(w.DescribeVpcPeeringConnections(ctx, &awsec2.DescribeVpcPeeringConnectionsInput{VpcPeeringConnectionIds: []string{id}}))(t)
		return string(out.VpcPeeringConnections[0].Status.Code)
	}
	failed := request(same)
	if got := status(failed); got != "failed" {
		t.Errorf("peering of overlapping VPCs is %s", got)
	}
	_, err := w.DeleteVpcPeeringConnection(ctx, &awsec2.DeleteVpcPeeringConnectionInput{VpcPeeringConnectionId: &failed})
	wantError(t, err, "InvalidStateTransition", "Invalid state transition for "+failed+", attempted to transition from failed to deleting")
	pcx := request(b)
	if got := status(pcx); got != "pending-acceptance" {
		t.Errorf("a new connection is %s", got)
	}
	if again := request(b); again != pcx {
		t.Errorf("asked again: %s, not %s", again, pcx)
	}
	options := &awsec2.ModifyVpcPeeringConnectionOptionsInput{
		VpcPeeringConnectionId: &pcx, RequesterPeeringConnectionOptions: &ec2types.PeeringConnectionOptionsRequest{AllowDnsResolutionFromRemoteVpc: aws.Bool(false)},
	}
	_, err = w.ModifyVpcPeeringConnectionOptions(ctx, options)
	wantError(t, err, "OperationNotPermitted", "Peering "+pcx+" is not active. Peering options can be added only to active peerings.")
	must(w.AcceptVpcPeeringConnection(ctx, &awsec2.AcceptVpcPeeringConnectionInput{VpcPeeringConnectionId: &pcx}))(t)
	must(w.ModifyVpcPeeringConnectionOptions(ctx, options))(t)
	_, err = w.DeleteVpc(ctx, &awsec2.DeleteVpcInput{VpcId: &b})
	wantError(t, err, "DependencyViolation", "The vpc '"+b+"' has dependencies and cannot be deleted.")

	// Groups can refer to each other across the connection as long as it exists.
	group := func(vpc string) *string {
		return must(w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: aws.String("g"), Description: aws.String("g")}))(t).GroupId
	}
	mine, theirs, far := group(a), group(b), group(same)
	allow := func(peer *string) error {
		_, err := w.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: mine, IpPermissions: []ec2types.IpPermission{
			{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22), UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: peer}}},
		}})
		return err
	}
	wantError(t, allow(far), "InvalidGroup.NotFound", "You have specified two resources that belong to different networks.")
	if err := allow(theirs); err != nil {
		t.Fatal(err)
	}
	refs := must(w.DescribeSecurityGroupReferences(ctx, &awsec2.DescribeSecurityGroupReferencesInput{GroupId: []string{*theirs}}))(t).SecurityGroupReferenceSet
	if len(refs) != 1 || *refs[0].ReferencingVpcId != a {
		t.Errorf("references: %+v", refs)
	}
	must(w.DeleteVpcPeeringConnection(ctx, &awsec2.DeleteVpcPeeringConnectionInput{VpcPeeringConnectionId: &pcx}))(t)
	stale := must(w.DescribeStaleSecurityGroups(ctx, &awsec2.DescribeStaleSecurityGroupsInput{VpcId: &a}))(t).StaleSecurityGroupSet
	if len(stale) != 1 || *stale[0].GroupId != *mine {
		t.Errorf("stale: %+v", stale)
	}
}

func TestEndpoints(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	n := newNetwork(t, w, "10.0.0.0/16")
	create := func(edit func(*awsec2.CreateVpcEndpointInput)) (*ec2types.VpcEndpoint, error) {
		in := &awsec2.CreateVpcEndpointInput{
			VpcId: &n.vpc, VpcEndpointType: "Interface", ServiceName: aws.String("com.amazonaws.us-east-1.ecr.dkr"), SubnetIds: []string{n.private},
		}
		edit(in)
		out, err := w.CreateVpcEndpoint(ctx, in)
		if err != nil {
			return nil, err
		}
		return out.VpcEndpoint, nil
	}
	_, err := create(func(*awsec2.CreateVpcEndpointInput) {})
	wantError(t, err, "InvalidParameter", "Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes set to true for "+n.vpc)
	must(w.ModifyVpcAttribute(ctx, &awsec2.ModifyVpcAttributeInput{VpcId: &n.vpc, EnableDnsHostnames: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	for _, tt := range []struct {
		name, code string
		edit       func(*awsec2.CreateVpcEndpointInput)
	}{
		{"unknown service", "InvalidServiceName", func(in *awsec2.CreateVpcEndpointInput) { in.ServiceName = aws.String("com.amazonaws.us-east-1.mars") }},
		{"wrong type", "InvalidParameter", func(in *awsec2.CreateVpcEndpointInput) { in.VpcEndpointType, in.SubnetIds = "Gateway", nil }},
		{"two subnets of a zone", "DuplicateSubnetsInSameZone", func(in *awsec2.CreateVpcEndpointInput) { in.SubnetIds = []string{n.private, n.public} }},
		{"no policy", "InvalidPolicyDocument", func(in *awsec2.CreateVpcEndpointInput) { in.PolicyDocument = aws.String("{}") }},
		{"no subnet", "InvalidSubnetID.NotFound", func(in *awsec2.CreateVpcEndpointInput) { in.SubnetIds = []string{"subnet-00000000000000000"} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := create(tt.edit)
			wantError(t, err, tt.code, "")
		})
	}
	e := must(create(func(*awsec2.CreateVpcEndpointInput) {}))(t)
	if e.State != "pending" || len(e.NetworkInterfaceIds) != 1 {
		t.Errorf("created: %+v", e)
	}
	_, err = create(func(*awsec2.CreateVpcEndpointInput) {})
	wantError(t, err, "InvalidParameter", "private-dns-enabled cannot be set because there is already a conflicting DNS domain for dkr.ecr.us-east-1.amazonaws.com in the VPC "+n.vpc)
	// Without a subnet there is no address that a name could have.
	bare := must(w.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{VpcId: &n.vpc, VpcEndpointType: ec2types.VpcEndpointTypeInterface, ServiceName: aws.String("com.amazonaws.us-east-1.ec2")}))(t).VpcEndpoint
	if len(bare.DnsEntries) > 0 {
		t.Errorf("names of an endpoint without subnets: %+v", bare.DnsEntries)
	}
	must(w.DeleteVpcEndpoints(ctx, &awsec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{*bare.VpcEndpointId}}))(t)
	w.settle(t)
	got := must(w.DescribeVpcEndpoints(ctx, &awsec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{*e.VpcEndpointId}}))(t).VpcEndpoints[0]
	if got.State != "available" || !slices.ContainsFunc(got.DnsEntries, func(d ec2types.DnsEntry) bool { return *d.DnsName == "*.dkr.ecr.us-east-1.amazonaws.com" }) {
		t.Errorf("endpoint: %s %+v", got.State, got.DnsEntries)
	}
	eni := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: filter("description", "VPC Endpoint Interface "+*e.VpcEndpointId)}))(t).NetworkInterfaces
	if len(eni) != 1 || !*eni[0].RequesterManaged {
		t.Errorf("interfaces: %+v", eni)
	}

	// The route of a gateway endpoint is created and deleted with the endpoint.
	s3 := must(create(func(in *awsec2.CreateVpcEndpointInput) {
		in.VpcEndpointType, in.SubnetIds, in.ServiceName, in.RouteTableIds = "Gateway", nil, aws.String("com.amazonaws.us-east-1.s3"), []string{n.table}
	}))(t)
	routes := func() int {
		return len(must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("route.destination-prefix-list-id", "pl-63a5400a")}))(t).RouteTables)
	}
	if routes() != 1 {
		t.Error("the gateway endpoint has no route")
	}
	_, err = w.DeleteRoute(ctx, &awsec2.DeleteRouteInput{RouteTableId: &n.table, DestinationPrefixListId: aws.String("pl-63a5400a")})
	wantError(t, err, "InvalidParameterValue", "")
	out := must(w.DeleteVpcEndpoints(ctx, &awsec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{*s3.VpcEndpointId, *e.VpcEndpointId, "vpce-00000000000000000"}}))(t)
	if len(out.Unsuccessful) != 1 || *out.Unsuccessful[0].Error.Code != "InvalidVpcEndpointId.NotFound" {
		t.Errorf("unsuccessful: %+v", out.Unsuccessful)
	}
	if routes() != 0 {
		t.Error("the route of a deleted endpoint is left")
	}
	w.settle(t)
	_, err = w.DescribeVpcEndpoints(ctx, &awsec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{*e.VpcEndpointId}})
	wantError(t, err, "InvalidVpcEndpointId.NotFound", "The Vpc Endpoint Id '"+*e.VpcEndpointId+"' does not exist")
}

func TestSecondaryAndIPv6Blocks(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	add := func(cidr string) (*awsec2.AssociateVpcCidrBlockOutput, error) {
		return w.AssociateVpcCidrBlock(ctx, &awsec2.AssociateVpcCidrBlockInput{VpcId: &vpc, CidrBlock: &cidr})
	}
	for cidr, code := range map[string]string{"10.0.0.0/20": "InvalidVpc.Range", "192.168.0.0/16": "InvalidVpc.Range", "10.0.0.0/8": "InvalidVpc.Range", "x": "InvalidParameterValue"} {
		_, err := add(cidr)
		wantError(t, err, code, "")
	}
	second := must(add("100.64.0.0/16"))(t).CidrBlockAssociation.AssociationId
	sn := w.subnet(t, vpc, "100.64.1.0/24")
	_, err := w.DisassociateVpcCidrBlock(ctx, &awsec2.DisassociateVpcCidrBlockInput{AssociationId: second})
	wantError(t, err, "InvalidCidrBlock.InUse", "The vpc "+vpc+" currently has a subnet within CIDR block 100.64.0.0/16")
	tables := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("vpc-id", vpc)}))(t).RouteTables
	if len(tables[0].Routes) != 2 {
		t.Errorf("local routes: %+v", tables[0].Routes)
	}
	six := must(w.AssociateVpcCidrBlock(ctx, &awsec2.AssociateVpcCidrBlockInput{VpcId: &vpc, AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t).Ipv6CidrBlockAssociation
	block := (*six.Ipv6CidrBlock)[:len(*six.Ipv6CidrBlock)-len("/56")] + "/64"
	assoc := must(w.AssociateSubnetCidrBlock(ctx, &awsec2.AssociateSubnetCidrBlockInput{SubnetId: &sn, Ipv6CidrBlock: &block}))(t).Ipv6CidrBlockAssociation.AssociationId
	must(w.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{SubnetId: &sn, AssignIpv6AddressOnCreation: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	eni := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &sn}))(t).NetworkInterface
	if len(eni.Ipv6Addresses) != 1 {
		t.Errorf("IPv6 addresses: %+v", eni.Ipv6Addresses)
	}
	must(w.AssignIpv6Addresses(ctx, &awsec2.AssignIpv6AddressesInput{NetworkInterfaceId: eni.NetworkInterfaceId, Ipv6AddressCount: aws.Int32(2)}))(t)
	must(w.DeleteNetworkInterface(ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: eni.NetworkInterfaceId}))(t)
	_, err = w.DisassociateSubnetCidrBlock(ctx, &awsec2.DisassociateSubnetCidrBlockInput{AssociationId: assoc})
	wantError(t, err, "InvalidCidrBlock.InUse", "The subnet IPv6 CIDR block with association ID "+*assoc+" may not be disassociated, because its subnet has assign-ipv6-address-on-creation set to true.")
	must(w.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: &sn}))(t)
	must(w.DisassociateVpcCidrBlock(ctx, &awsec2.DisassociateVpcCidrBlockInput{AssociationId: second}))(t)
	must(w.DisassociateVpcCidrBlock(ctx, &awsec2.DisassociateVpcCidrBlockInput{AssociationId: six.AssociationId}))(t)
	must(w.DeleteVpc(ctx, &awsec2.DeleteVpcInput{VpcId: &vpc}))(t)
}

// A VPC's first IPv6 block opens outbound traffic in its default group, unless the group's rules
// have been changed. New groups have it from the start. Account attributes are those of the quotas.
func TestGroupsOfIPv6(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	egress := func(vpc, name string) (out []string) {
		g := must(w.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{Filters: append(filter("vpc-id", vpc), filter("group-name", name)...)}))(t).SecurityGroups[0]
		for _, p := range g.IpPermissionsEgress {
			for _, r := range p.IpRanges {
				out = append(out, *r.CidrIp)
			}
			for _, r := range p.Ipv6Ranges {
				out = append(out, *r.CidrIpv6)
			}
		}
		return out
	}
	six := must(w.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t).Vpc.VpcId
	four := w.vpc(t, "10.1.0.0/16")
	for _, vpc := range []string{*six, four} {
		must(w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: aws.String("g"), Description: aws.String("g")}))(t)
	}
	both := []string{"0.0.0.0/0", "::/0"}
	for _, tt := range []struct {
		vpc, name string
		want      []string
	}{{*six, "default", both}, {*six, "g", both}, {four, "default", both[:1]}, {four, "g", both[:1]}} {
		if got := egress(tt.vpc, tt.name); !slices.Equal(got, tt.want) {
			t.Errorf("%s lets out %v, want %v", tt.name, got, tt.want)
		}
	}
	must(w.AssociateVpcCidrBlock(ctx, &awsec2.AssociateVpcCidrBlockInput{VpcId: &four, AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t)
	if got := egress(four, "default"); !slices.Equal(got, both) {
		t.Errorf("with its block the default group lets out %v", got)
	}
	if got := egress(four, "g"); !slices.Equal(got, both[:1]) {
		t.Errorf("a group of before lets out %v", got)
	}

	w.setQuota(t, "L-0263D0A3", 12)
	for _, a := range must(w.DescribeAccountAttributes(ctx, &awsec2.DescribeAccountAttributesInput{AttributeNames: []ec2types.AccountAttributeName{"vpc-max-elastic-ips"}}))(t).AccountAttributes {
		if v := *a.AttributeValues[0].AttributeValue; v != "12" {
			t.Errorf("%s = %s", *a.AttributeName, v)
		}
	}
}
