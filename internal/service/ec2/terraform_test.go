package ec2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The acceptance tests of Terraform's AWS provider, which run against AWS, expect these answers.

func TestPublicNamesNeedDNSHostnames(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	n := newNetwork(t, w, "10.7.0.0/16")
	e := *must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &n.public}))(t).NetworkInterface.NetworkInterfaceId
	must(w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: aws.String(w.allocate(t)), NetworkInterfaceId: &e}))(t)
	name := func() string {
		a := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{e}}))(t).NetworkInterfaces[0]
		if *a.Association.PublicDnsName != *a.PrivateIpAddresses[0].Association.PublicDnsName {
			t.Errorf("names %q and %q", *a.Association.PublicDnsName, *a.PrivateIpAddresses[0].Association.PublicDnsName)
		}
		return *a.Association.PublicDnsName
	}
	if got := name(); got != "" {
		t.Errorf("name %q in a VPC without DNS hostnames", got)
	}
	must(w.ModifyVpcAttribute(ctx, &awsec2.ModifyVpcAttributeInput{VpcId: &n.vpc, EnableDnsHostnames: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	if got := name(); got == "" {
		t.Error("no name in a VPC with DNS hostnames")
	}
}

// Flow logs of transit gateways have no type of traffic, and an interval of 60 seconds.
func TestFlowLogsOfTransitGateways(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	g := *must(w.CreateTransitGateway(ctx, &awsec2.CreateTransitGatewayInput{}))(t).TransitGateway.TransitGatewayId
	in := func(edit func(*awsec2.CreateFlowLogsInput)) *awsec2.CreateFlowLogsInput {
		in := &awsec2.CreateFlowLogsInput{ResourceIds: []string{g}, ResourceType: "TransitGateway", LogDestinationType: "s3", LogDestination: aws.String("arn:aws:s3:::logs")}
		edit(in)
		return in
	}
	for i, edit := range []func(*awsec2.CreateFlowLogsInput){
		func(*awsec2.CreateFlowLogsInput) {},
		func(in *awsec2.CreateFlowLogsInput) {
			in.MaxAggregationInterval, in.LogDestination = aws.Int32(60), aws.String("arn:aws:s3:::logs/others")
		},
	} {
		out := must(w.CreateFlowLogs(ctx, in(edit)))(t)
		if len(out.FlowLogIds) != 1 {
			t.Fatalf("%d: %+v", i, out)
		}
		got := must(w.DescribeFlowLogs(ctx, &awsec2.DescribeFlowLogsInput{FlowLogIds: out.FlowLogIds}))(t).FlowLogs
		if len(got) != 1 || *got[0].ResourceId != g || got[0].TrafficType != "" || *got[0].MaxAggregationInterval != 60 {
			t.Errorf("%d: %+v", i, got)
		}
	}
	_, err := w.CreateFlowLogs(ctx, in(func(in *awsec2.CreateFlowLogsInput) { in.MaxAggregationInterval = aws.Int32(600) }))
	wantError(t, err, "InvalidParameter", "max-aggregation-interval other than 60 sec / 1 min is not supported when the resource-type is TransitGateway or TransitGatewayAttachment")
	_, err = w.CreateFlowLogs(ctx, in(func(in *awsec2.CreateFlowLogsInput) { in.TrafficType = "ALL" }))
	wantError(t, err, "InvalidParameter", "traffic-type is not supported when the resource-type is TransitGateway or TransitGatewayAttachment")
	vpc := w.vpc(t, "10.8.0.0/16")
	_, err = w.CreateFlowLogs(ctx, in(func(in *awsec2.CreateFlowLogsInput) { in.ResourceType, in.ResourceIds = "VPC", []string{vpc} }))
	wantError(t, err, "MissingParameter", "The request must contain the parameter trafficType")
}

// The answers are those that LocalStack's tests recorded from AWS
// (https://github.com/localstack/localstack, tests/aws/services/ec2/test_ec2.snapshot.json).
func TestFlowLogsToBuckets(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	vpc := w.vpc(t, "10.8.0.0/16")
	create := func(bucket string) *awsec2.CreateFlowLogsOutput {
		in := flowLogInput(vpc)
		in.LogDestination = aws.String("arn:aws:s3:::" + bucket)
		return must(w.CreateFlowLogs(ctx, in))(t)
	}
	out := create("absent/folder")
	if len(out.FlowLogIds) != 0 || len(out.Unsuccessful) != 1 || *out.Unsuccessful[0].ResourceId != vpc || *out.Unsuccessful[0].Error.Code != "400" ||
		*out.Unsuccessful[0].Error.Message != "LogDestination: absent does not exist" {
		t.Errorf("a flow log to a bucket that does not exist: %+v", out)
	}
	if out := create("logs/folder"); len(out.FlowLogIds) != 1 || aws.ToString(out.ClientToken) == "" {
		t.Errorf("a flow log to a bucket: %+v", out)
	}
}

// TestEmptyTagSets checks which answers have an empty list of tags, as recorded in the same place: a client of the CLI
// sees the difference.
func TestEmptyTagSets(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	vpc := w.vpc(t, "10.8.0.0/16")
	made := must(w.CreateVpnGateway(ctx, &awsec2.CreateVpnGatewayInput{Type: "ipsec.1", AvailabilityZone: aws.String("us-east-1a")}))(t).VpnGateway
	must(w.CreateFlowLogs(ctx, flowLogInput(vpc)))(t)
	gateway := must(w.DescribeVpnGateways(ctx, &awsec2.DescribeVpnGatewaysInput{VpnGatewayIds: []string{*made.VpnGatewayId}}))(t).VpnGateways[0]
	if made.AvailabilityZone != nil || gateway.AvailabilityZone != nil {
		t.Errorf("the gateway's zone: %+v, %+v", made.AvailabilityZone, gateway.AvailabilityZone)
	}
	for name, tt := range map[string]struct {
		tags []ec2types.Tag
		sent bool
	}{
		"new VPN gateway": {made.Tags, false}, "VPN gateway": {gateway.Tags, true},
		"flow log":    {must(w.DescribeFlowLogs(ctx, &awsec2.DescribeFlowLogsInput{}))(t).FlowLogs[0].Tags, true},
		"route table": {must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("vpc-id", vpc)}))(t).RouteTables[0].Tags, true},
		"group":       {must(w.GetSecurityGroupsForVpc(ctx, &awsec2.GetSecurityGroupsForVpcInput{VpcId: &vpc}))(t).SecurityGroupForVpcs[0].Tags, true},
	} {
		if len(tt.tags) != 0 || (tt.tags != nil) != tt.sent {
			t.Errorf("%s: tags %#v, sent %v", name, tt.tags, tt.sent)
		}
	}
}

func TestRuleActionsInAnyCase(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	vpc := w.vpc(t, "10.9.0.0/16")
	acl := must(w.CreateNetworkAcl(ctx, &awsec2.CreateNetworkAclInput{VpcId: &vpc}))(t).NetworkAcl.NetworkAclId
	in := &awsec2.CreateNetworkAclEntryInput{NetworkAclId: acl, RuleNumber: aws.Int32(1), Protocol: aws.String("-1"), RuleAction: "Allow", Egress: aws.Bool(false), CidrBlock: aws.String("10.0.0.0/8")}
	must(w.CreateNetworkAclEntry(ctx, in))(t)
	found := false
	for _, e := range must(w.DescribeNetworkAcls(ctx, &awsec2.DescribeNetworkAclsInput{NetworkAclIds: []string{*acl}}))(t).NetworkAcls[0].Entries {
		found = found || *e.RuleNumber == 1 && e.RuleAction == "allow"
	}
	if !found {
		t.Error("the entry is not there, or its action is not in lower case")
	}
	in.RuleNumber, in.RuleAction = aws.Int32(2), "permit"
	_, err := w.CreateNetworkAclEntry(ctx, in)
	wantError(t, err, "InvalidParameterValue", "Value (permit) for parameter ruleAction is invalid.")
}

// An endpoint's interface has the address that its subnet's configuration gives it; another address replaces the interface.
func TestAddressesOfEndpoints(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	n := newNetwork(t, w, "10.8.0.0/16")
	config := func(subnet, address string) []ec2types.SubnetConfiguration {
		return []ec2types.SubnetConfiguration{{SubnetId: &subnet, Ipv4: &address}}
	}
	in := &awsec2.CreateVpcEndpointInput{
		VpcId: &n.vpc, VpcEndpointType: "Interface", ServiceName: aws.String("com.amazonaws.us-east-1.ecs"), PrivateDnsEnabled: aws.Bool(false),
		SubnetIds: []string{n.private}, SubnetConfigurations: config(n.private, "10.8.2.10"),
	}
	id := *must(w.CreateVpcEndpoint(ctx, in))(t).VpcEndpoint.VpcEndpointId
	look := func(subnet, address string) string {
		t.Helper()
		e := must(w.DescribeVpcEndpoints(ctx, &awsec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{id}}))(t).VpcEndpoints[0]
		if len(e.SubnetIds) != 1 || e.SubnetIds[0] != subnet || len(e.NetworkInterfaceIds) != 1 {
			t.Fatalf("subnets %v, interfaces %v, want %s", e.SubnetIds, e.NetworkInterfaceIds, subnet)
		}
		got := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: e.NetworkInterfaceIds}))(t).NetworkInterfaces[0]
		if *got.SubnetId != subnet || *got.PrivateIpAddress != address {
			t.Errorf("interface in %s with %s, want %s with %s", *got.SubnetId, *got.PrivateIpAddress, subnet, address)
		}
		return e.NetworkInterfaceIds[0]
	}
	first := look(n.private, "10.8.2.10")

	modify := func(in awsec2.ModifyVpcEndpointInput) error {
		in.VpcEndpointId = &id
		_, err := w.ModifyVpcEndpoint(ctx, &in)
		return err
	}
	for _, address := range []string{"10.8.2.10", "10.8.2.11"} {
		if err := modify(awsec2.ModifyVpcEndpointInput{SubnetConfigurations: config(n.private, address)}); err != nil {
			t.Fatal(err)
		}
		if again := look(n.private, address); (again == first) != (address == "10.8.2.10") {
			t.Errorf("address %s: the interface %s was %s", address, again, first)
		}
	}
	if err := modify(awsec2.ModifyVpcEndpointInput{RemoveSubnetIds: []string{n.private}, SubnetConfigurations: config(n.public, "10.8.1.20")}); err != nil {
		t.Fatal(err)
	}
	look(n.public, "10.8.1.20")

	taken := *must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &n.private}))(t).NetworkInterface.PrivateIpAddress
	for _, tt := range []struct{ name, subnet, address, code string }{
		{"an address of another interface", n.private, taken, "InvalidIPAddress.InUse"},
		{"an address of another subnet", n.private, "10.8.1.30", "InvalidParameterValue"},
		{"no address", n.private, "mine", "InvalidParameterValue"},
		{"no subnet", "", "10.8.2.12", "MissingParameter"},
	} {
		in := *in
		in.SubnetIds, in.SubnetConfigurations = nil, config(tt.subnet, tt.address)
		_, err := w.CreateVpcEndpoint(ctx, &in)
		wantError(t, err, tt.code, "")
	}
	gateway := must(w.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{VpcId: &n.vpc, ServiceName: aws.String("com.amazonaws.us-east-1.s3")}))(t).VpcEndpoint.VpcEndpointId
	_, err := w.ModifyVpcEndpoint(ctx, &awsec2.ModifyVpcEndpointInput{VpcEndpointId: gateway, SubnetConfigurations: config(n.private, "10.8.2.13")})
	wantError(t, err, "InvalidParameter", "Subnet IDs are only supported for Interface and GatewayLoadBalancer type VPC Endpoints.")
}
