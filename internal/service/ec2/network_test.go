package ec2_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

func TestNewAccountHasADefaultVPC(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	v := must(w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{Filters: filter("is-default", "true")}))(t).Vpcs
	if len(v) != 1 || *v[0].CidrBlock != "172.31.0.0/16" || !*v[0].IsDefault {
		t.Fatalf("default VPC: %+v", v)
	}
	inVPC := filter("vpc-id", *v[0].VpcId)
	type subnet struct {
		Zone, ZoneID, CIDR string
		Free               int32
		Public             bool
	}
	var got []subnet
	for _, s := range must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{Filters: inVPC}))(t).Subnets {
		got = append(got, subnet{*s.AvailabilityZone, *s.AvailabilityZoneId, *s.CidrBlock, *s.AvailableIpAddressCount, *s.MapPublicIpOnLaunch})
	}
	want := []subnet{
		{"us-east-1a", "use1-az1", "172.31.0.0/20", 4091, true},
		{"us-east-1b", "use1-az2", "172.31.16.0/20", 4091, true},
		{"us-east-1c", "use1-az4", "172.31.32.0/20", 4091, true},
	}
	slices.SortFunc(got, func(a, b subnet) int { return strings.Compare(a.Zone, b.Zone) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	rtb := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: append(filter("association.main", "true"), inVPC...)}))(t).RouteTables
	if len(rtb) != 1 || len(rtb[0].Routes) != 2 || *rtb[0].Routes[1].DestinationCidrBlock != "0.0.0.0/0" || rtb[0].Routes[1].State != "active" {
		t.Errorf("route tables: %+v", rtb)
	}
	igw := must(w.DescribeInternetGateways(ctx, &awsec2.DescribeInternetGatewaysInput{Filters: filter("attachment.vpc-id", *v[0].VpcId)}))(t).InternetGateways
	if len(igw) != 1 || igw[0].Attachments[0].State != "available" {
		t.Errorf("gateways: %+v", igw)
	}
	sg := must(w.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{Filters: append(filter("group-name", "default"), inVPC...)}))(t).SecurityGroups
	if len(sg) != 1 || *sg[0].IpPermissions[0].UserIdGroupPairs[0].GroupId != *sg[0].GroupId || *sg[0].IpPermissionsEgress[0].IpRanges[0].CidrIp != "0.0.0.0/0" {
		t.Errorf("groups: %+v", sg)
	}
	acl := must(w.DescribeNetworkAcls(ctx, &awsec2.DescribeNetworkAclsInput{Filters: append(filter("default", "true"), inVPC...)}))(t).NetworkAcls
	if len(acl) != 1 || len(acl[0].Entries) != 4 || len(acl[0].Associations) != 3 {
		t.Errorf("ACLs: %+v", acl)
	}
}

// The default VPC has a subnet in each zone.
func TestDefaultSubnetInEachZone(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for region, want := range map[string]string{"us-west-2": "us-west-2a us-west-2b us-west-2c us-west-2d", "us-west-1": "us-west-1b us-west-1c"} {
		in := func(o *awsec2.Options) { o.Region = region }
		var zones, blocks []string
		for _, s := range must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{Filters: filter("default-for-az", "true")}, in))(t).Subnets {
			zones, blocks = append(zones, *s.AvailabilityZone), append(blocks, *s.CidrBlock)
		}
		slices.Sort(zones)
		slices.Sort(blocks)
		if got := strings.Join(zones, " "); got != want {
			t.Errorf("zones %s, want %s", got, want)
		}
		if all := []string{"172.31.0.0/20", "172.31.16.0/20", "172.31.32.0/20", "172.31.48.0/20"}; !slices.Equal(blocks, all[:len(zones)]) {
			t.Errorf("%s: blocks %s", region, blocks)
		}
		zone := zones[len(zones)-1]
		_, err := w.CreateDefaultSubnet(ctx, &awsec2.CreateDefaultSubnetInput{AvailabilityZone: &zone}, in)
		wantError(t, err, "DefaultSubnetAlreadyExistsInAvailabilityZone", "")
	}
}

func (w *world) vpc(t testing.TB, cidr string) string {
	t.Helper()
	return *must(w.CreateVpc(t.Context(), &awsec2.CreateVpcInput{CidrBlock: &cidr}))(t).Vpc.VpcId
}

func (w *world) subnet(t testing.TB, vpc, cidr string) string {
	t.Helper()
	return *must(w.CreateSubnet(t.Context(), &awsec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: &cidr, AvailabilityZone: aws.String("us-east-1b")}))(t).Subnet.SubnetId
}

func TestVPCLifecycle(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	for _, tt := range []struct{ name, cidr, code, message string }{
		{"outside the VPC", "10.1.0.0/24", "InvalidSubnet.Range", "The CIDR '10.1.0.0/24' is invalid."},
		{"too small", "10.0.0.0/29", "InvalidSubnet.Range", "The CIDR '10.0.0.0/29' is invalid."},
		{"no CIDR", "ten", "InvalidParameterValue", "Value (ten) for parameter cidrBlock is invalid. This is not a valid CIDR block."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := w.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: &tt.cidr})
			wantError(t, err, tt.code, tt.message)
		})
	}
	sn := w.subnet(t, vpc, "10.0.1.0/24")
	_, err := w.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: aws.String("10.0.1.128/25")})
	wantError(t, err, "InvalidSubnet.Conflict", "The CIDR '10.0.1.128/25' conflicts with another subnet")
	_, err = w.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/8")})
	wantError(t, err, "InvalidVpc.Range", "The CIDR '10.0.0.0/8' is invalid.")

	igw := must(w.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{}))(t).InternetGateway.InternetGatewayId
	must(w.AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: igw, VpcId: &vpc}))(t)
	rtb := must(w.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &vpc}))(t).RouteTable.RouteTableId
	route := &awsec2.CreateRouteInput{RouteTableId: rtb, DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: igw}
	must(w.CreateRoute(ctx, route))(t)
	_, err = w.CreateRoute(ctx, route)
	wantError(t, err, "RouteAlreadyExists", "The route identified by 0.0.0.0/0 already exists.")
	for _, inside := range []string{"10.0.0.0/16", "10.0.1.0/24"} {
		_, err = w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: rtb, DestinationCidrBlock: &inside, GatewayId: igw})
		wantError(t, err, "InvalidParameterValue", "The destination CIDR block "+inside+" is equal to or more specific than one of this VPC's CIDR blocks. This route can target only an interface or an instance.")
	}
	eni := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &sn}))(t).NetworkInterface.NetworkInterfaceId
	toENI := func(destination string) error {
		_, err := w.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: rtb, DestinationCidrBlock: &destination, NetworkInterfaceId: eni})
		return err
	}
	wantError(t, toENI("10.0.1.0/25"), "InvalidParameterValue", "Route destination doesn't match any subnet CIDR blocks.")
	wantError(t, toENI("10.0.0.0/16"), "RouteAlreadyExists", "The route identified by 10.0.0.0/16 already exists.")
	if err := toENI("10.0.1.0/24"); err != nil {
		t.Errorf("a route to the whole subnet: %v", err)
	}
	must(w.DeleteRoute(ctx, &awsec2.DeleteRouteInput{RouteTableId: rtb, DestinationCidrBlock: aws.String("10.0.1.0/24")}))(t)
	must(w.DeleteNetworkInterface(ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: eni}))(t)
	assoc := must(w.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: rtb, SubnetId: &sn}))(t).AssociationId

	_, err = w.DeleteVpc(ctx, &awsec2.DeleteVpcInput{VpcId: &vpc})
	wantError(t, err, "DependencyViolation", "The vpc '"+vpc+"' has dependencies and cannot be deleted.")
	_, err = w.DeleteRouteTable(ctx, &awsec2.DeleteRouteTableInput{RouteTableId: rtb})
	wantError(t, err, "DependencyViolation", "The routeTable '"+*rtb+"' has dependencies and cannot be deleted.")

	must(w.DetachInternetGateway(ctx, &awsec2.DetachInternetGatewayInput{InternetGatewayId: igw, VpcId: &vpc}))(t)
	tables := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{RouteTableIds: []string{*rtb}, Filters: filter("route.state", "blackhole")}))(t)
	if len(tables.RouteTables) != 1 {
		t.Error("the route to a detached gateway is no blackhole")
	}
	must(w.DisassociateRouteTable(ctx, &awsec2.DisassociateRouteTableInput{AssociationId: assoc}))(t)
	must(w.DeleteRouteTable(ctx, &awsec2.DeleteRouteTableInput{RouteTableId: rtb}))(t)
	must(w.DeleteInternetGateway(ctx, &awsec2.DeleteInternetGatewayInput{InternetGatewayId: igw}))(t)
	must(w.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: &sn}))(t)
	must(w.DeleteVpc(ctx, &awsec2.DeleteVpcInput{VpcId: &vpc}))(t)
	_, err = w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{vpc}})
	wantError(t, err, "InvalidVpcID.NotFound", "The vpc ID '"+vpc+"' does not exist")
	if left := must(w.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{Filters: filter("vpc-id", vpc)}))(t); len(left.SecurityGroups) != 0 {
		t.Error("a deleted VPC's default group is left")
	}
}

func TestAttributes(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	hostnames := func() bool {
		out := must(w.DescribeVpcAttribute(ctx, &awsec2.DescribeVpcAttributeInput{VpcId: &vpc, Attribute: "enableDnsHostnames"}))(t)
		return *out.EnableDnsHostnames.Value
	}
	if hostnames() {
		t.Error("DNS hostnames are on from the start")
	}
	must(w.ModifyVpcAttribute(ctx, &awsec2.ModifyVpcAttributeInput{VpcId: &vpc, EnableDnsHostnames: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	if !hostnames() {
		t.Error("DNS hostnames stayed off")
	}
	sn := w.subnet(t, vpc, "10.0.1.0/24")
	must(w.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{SubnetId: &sn, MapPublicIpOnLaunch: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	got := must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{sn}, Filters: filter("map-public-ip-on-launch", "true")}))(t)
	if len(got.Subnets) != 1 {
		t.Error("the subnet does not map public addresses")
	}
}

func TestSecurityGroups(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	create := func(name string) (*string, error) {
		out, err := w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: &name, Description: aws.String("a group"), VpcId: &vpc})
		if err != nil {
			return nil, err
		}
		return out.GroupId, nil
	}
	web, db := must(create("web"))(t), must(create("db"))(t)
	_, err := create("web")
	wantError(t, err, "InvalidGroup.Duplicate", "The security group 'web' already exists for VPC '"+vpc+"'")

	ssh := []ec2types.IpPermission{{
		IpProtocol: aws.String("6"), FromPort: aws.Int32(22), ToPort: aws.Int32(22),
		IpRanges:         []ec2types.IpRange{{CidrIp: aws.String("10.1.2.3/16"), Description: aws.String("office")}},
		UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: web}},
	}}
	added := must(w.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: db, IpPermissions: ssh}))(t)
	if len(added.SecurityGroupRules) != 2 || *added.SecurityGroupRules[0].CidrIpv4 != "10.1.0.0/16" || *added.SecurityGroupRules[0].IpProtocol != "tcp" {
		t.Errorf("added: %+v", added.SecurityGroupRules)
	}
	_, err = w.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: db, IpPermissions: ssh})
	wantError(t, err, "InvalidPermission.Duplicate", `the specified rule "peer: 10.1.0.0/16, TCP, from port: 22, to port: 22, ALLOW" already exists`)

	// Rules for protocols without ports have none, whatever the request says: Terraform plans a change otherwise.
	esp := []ec2types.IpPermission{{IpProtocol: aws.String("50"), FromPort: aws.Int32(0), ToPort: aws.Int32(0), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("10.0.0.0/8")}}}}
	must(w.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: web, IpPermissions: esp}))(t)
	got := must(w.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{*web}}))(t).SecurityGroups[0].IpPermissions[0]
	if *got.IpProtocol != "50" || got.FromPort != nil || got.ToPort != nil {
		t.Errorf("permission %s from %v to %v, want 50 without ports", *got.IpProtocol, got.FromPort, got.ToPort)
	}
	must(w.RevokeSecurityGroupIngress(ctx, &awsec2.RevokeSecurityGroupIngressInput{GroupId: web, IpPermissions: esp}))(t)

	_, err = w.DeleteSecurityGroup(ctx, &awsec2.DeleteSecurityGroupInput{GroupId: web})
	wantError(t, err, "DependencyViolation", "resource "+*web+" has a dependent object")
	rules := must(w.DescribeSecurityGroupRules(ctx, &awsec2.DescribeSecurityGroupRulesInput{Filters: filter("group-id", *db)}))(t).SecurityGroupRules
	if len(rules) != 3 {
		t.Fatalf("%d rules, want two and the default egress", len(rules))
	}
	must(w.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{*added.SecurityGroupRules[0].SecurityGroupRuleId}, Tags: []ec2types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}))(t)
	tagged := must(w.DescribeSecurityGroupRules(ctx, &awsec2.DescribeSecurityGroupRulesInput{Filters: filter("tag:k", "v")}))(t).SecurityGroupRules
	if len(tagged) != 1 || *tagged[0].Description != "office" {
		t.Errorf("tagged: %+v", tagged)
	}
	must(w.RevokeSecurityGroupIngress(ctx, &awsec2.RevokeSecurityGroupIngressInput{GroupId: db, SecurityGroupRuleIds: []string{*added.SecurityGroupRules[0].SecurityGroupRuleId}}))(t)
	_, err = w.RevokeSecurityGroupIngress(ctx, &awsec2.RevokeSecurityGroupIngressInput{GroupId: db, IpPermissions: ssh})
	wantError(t, err, "InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
	must(w.DeleteSecurityGroup(ctx, &awsec2.DeleteSecurityGroupInput{GroupId: db}))(t)
	must(w.DeleteSecurityGroup(ctx, &awsec2.DeleteSecurityGroupInput{GroupId: web}))(t)
	_, err = w.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{*db}})
	wantError(t, err, "InvalidGroup.NotFound", "The security group '"+*db+"' does not exist")
	_, err = w.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{"default"}})
	wantError(t, err, "InvalidGroupId.Malformed", `Invalid id: "default" (expecting "sg-...")`)
}

func TestTooManyRules(t *testing.T) {
	w := newWorld(t)
	vpc := w.vpc(t, "10.0.0.0/16")
	g := must(w.CreateSecurityGroup(t.Context(), &awsec2.CreateSecurityGroupInput{GroupName: aws.String("g"), Description: aws.String("d"), VpcId: &vpc}))(t).GroupId
	p := ec2types.IpPermission{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(1), ToPort: aws.Int32(1)}
	for i := range 61 {
		p.IpRanges = append(p.IpRanges, ec2types.IpRange{CidrIp: aws.String("10." + strconv.Itoa(i) + ".0.0/16")})
	}
	_, err := w.AuthorizeSecurityGroupIngress(t.Context(), &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: g, IpPermissions: []ec2types.IpPermission{p}})
	wantError(t, err, "RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached.")
}

func TestSecondaryAddressCounts(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	sn := w.subnet(t, w.vpc(t, "10.0.0.0/16"), "10.0.0.0/24")
	eni := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &sn, SecondaryPrivateIpAddressCount: aws.Int32(2)}))(t).NetworkInterface
	if n := len(eni.PrivateIpAddresses); n != 3 {
		t.Errorf("%d addresses", n)
	}
	for _, n := range []int32{math.MinInt32, -1, 64, math.MaxInt32} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			want := fmt.Sprintf("Value (%d) for parameter secondaryPrivateIpAddressCount is invalid. Expecting a value between 0 and 63.", n)
			_, err := w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &sn, SecondaryPrivateIpAddressCount: &n})
			wantError(t, err, "InvalidParameterValue", want)
			_, err = w.AssignPrivateIpAddresses(ctx, &awsec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: eni.NetworkInterfaceId, SecondaryPrivateIpAddressCount: &n})
			wantError(t, err, "InvalidParameterValue", want)
		})
	}
}

func TestFiltersAndPages(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{Filters: filter("colour", "red")})
	wantError(t, err, "InvalidParameterValue", "The filter 'colour' is invalid")
	_, err = w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{NextToken: aws.String("bogus")})
	wantError(t, err, "InvalidNextToken", "The token 'bogus' is invalid")
	vpc := w.vpc(t, "10.0.0.0/16")
	var want []string
	for i := range 12 {
		want = append(want, w.subnet(t, vpc, "10.0."+strconv.Itoa(i)+".0/24"))
	}
	var got []string
	p := awsec2.NewDescribeSubnetsPaginator(w, &awsec2.DescribeSubnetsInput{MaxResults: aws.Int32(5), Filters: filter("cidr-block", "10.0.*.0/2?")})
	pages := 0
	for p.HasMorePages() {
		pages++
		for _, s := range must(p.NextPage(ctx))(t).Subnets {
			got = append(got, *s.SubnetId)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || pages != 3 {
		t.Errorf("%d pages: %s", pages, diff)
	}
	_, err = w.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), DryRun: aws.Bool(true)})
	wantError(t, err, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
}

func TestTags(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := w.vpc(t, "10.0.0.0/16")
	tag := func(k, v string) ec2types.Tag { return ec2types.Tag{Key: &k, Value: &v} }
	must(w.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{vpc}, Tags: []ec2types.Tag{tag("Name", "one"), tag("env", "")}}))(t)
	got := must(w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{Filters: filter("tag:Name", "o?e")}))(t).Vpcs
	if len(got) != 1 || len(got[0].Tags) != 2 {
		t.Fatalf("tagged: %+v", got)
	}
	if none := must(w.DescribeTags(ctx, &awsec2.DescribeTagsInput{Filters: filter("resource-id", "vpc-none")}))(t).Tags; none == nil || len(none) > 0 {
		t.Errorf("no tags are %v, not an empty list", none)
	}
	listed := must(w.DescribeTags(ctx, &awsec2.DescribeTagsInput{Filters: filter("resource-id", vpc)}))(t).Tags
	if len(listed) != 2 || *listed[0].Key != "Name" || listed[0].ResourceType != "vpc" {
		t.Errorf("DescribeTags: %+v", listed)
	}
	must(w.DeleteTags(ctx, &awsec2.DeleteTagsInput{Resources: []string{vpc}, Tags: []ec2types.Tag{tag("Name", "other"), {Key: aws.String("env")}}}))(t)
	if got := must(w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{vpc}}))(t).Vpcs[0].Tags; len(got) != 1 || *got[0].Key != "Name" {
		t.Errorf("left: %+v", got)
	}
	_, err := w.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{vpc}, Tags: []ec2types.Tag{tag("aws:x", "y")}})
	wantError(t, err, "InvalidParameterValue", "Value ( aws:x ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use")
	_, err = w.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{"foo"}, Tags: []ec2types.Tag{tag("x", "y")}})
	wantError(t, err, "InvalidID", "The ID 'foo' is not valid")
	_, err = w.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), TagSpecifications: []ec2types.TagSpecification{{ResourceType: "subnet", Tags: []ec2types.Tag{tag("x", "y")}}}})
	wantError(t, err, "InvalidParameterValue", "'subnet' is not a valid taggable resource type for this operation.")
}
