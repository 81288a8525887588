package app

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/machine/guest/paste"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// pasted runs printed commands as they are, by a shell with the AWS CLI.
func pasted(t testing.TB, info api.DaemonInfo, key, secret string, f advice.Fix) (string, bool) {
	t.Helper()
	sh := paste.Shell{URL: info.URL, Env: []string{"AWS_ACCESS_KEY_ID=" + key, "AWS_SECRET_ACCESS_KEY=" + secret, "AWS_REGION=eu-central-1"}} // not that of the world: commands say theirs
	out, ok, err := sh.Run(t.Context(), f.Shell())
	if err != nil {
		t.Fatal(err)
	}
	return out, ok
}

// A netWorld is a network in an account of its own, with a machine that the question is about and a bystander.
type netWorld struct {
	account   string
	ec2       *awsec2.Client
	vpc       string
	subnets   [2]string // in two zones
	table     string    // of the subnets
	acl       string
	gateway   string
	nat       string
	group     string // of the machine
	other     string // of the bystander
	endpoints map[string]string
	guard     string // the group of the endpoints
	machine   string // network interfaces
	bystander string
	balancer  string // the DNS name of a load balancer, or empty
}

// must fails the test on an error.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// newNetWorld makes a network that is public, behind a NAT gateway, or closed.
func newNetWorld(t testing.TB, info api.DaemonInfo, account, kind string) *netWorld {
	t.Helper()
	ctx := t.Context()
	w := &netWorld{account: account, ec2: awsec2.NewFromConfig(configFor(info, account, "test")), endpoints: map[string]string{}}
	w.vpc = *must[*awsec2.CreateVpcOutput](t)(w.ec2.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})).Vpc.VpcId
	must[*awsec2.ModifyVpcAttributeOutput](t)(w.ec2.ModifyVpcAttribute(ctx, &awsec2.ModifyVpcAttributeInput{VpcId: &w.vpc, EnableDnsHostnames: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))
	w.table = *must[*awsec2.CreateRouteTableOutput](t)(w.ec2.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &w.vpc})).RouteTable.RouteTableId
	for i := range w.subnets {
		w.subnets[i] = w.subnet(t, fmt.Sprintf("10.0.%d.0/24", i), "us-east-1"+string(rune('a'+i)))
		must[*awsec2.AssociateRouteTableOutput](t)(w.ec2.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: &w.table, SubnetId: &w.subnets[i]}))
	}
	w.group, w.other = w.newGroup(t, "machine"), w.newGroup(t, "other")
	if kind != "closed" {
		w.gateway = *must[*awsec2.CreateInternetGatewayOutput](t)(w.ec2.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{})).InternetGateway.InternetGatewayId
		must[*awsec2.AttachInternetGatewayOutput](t)(w.ec2.AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: &w.gateway, VpcId: &w.vpc}))
	}
	switch kind {
	case "public":
		w.route(t, w.table, awsec2.CreateRouteInput{GatewayId: &w.gateway})
	case "nat":
		public := w.subnet(t, "10.0.9.0/24", "us-east-1a")
		table := *must[*awsec2.CreateRouteTableOutput](t)(w.ec2.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &w.vpc})).RouteTable.RouteTableId
		must[*awsec2.AssociateRouteTableOutput](t)(w.ec2.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: &table, SubnetId: &public}))
		w.route(t, table, awsec2.CreateRouteInput{GatewayId: &w.gateway})
		address := must[*awsec2.AllocateAddressOutput](t)(w.ec2.AllocateAddress(ctx, &awsec2.AllocateAddressInput{Domain: ec2types.DomainTypeVpc}))
		w.nat = *must[*awsec2.CreateNatGatewayOutput](t)(w.ec2.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: &public, AllocationId: address.AllocationId})).NatGateway.NatGatewayId
		err := awsec2.NewNatGatewayAvailableWaiter(w.ec2, func(o *awsec2.NatGatewayAvailableWaiterOptions) {
			o.MinDelay, o.MaxDelay = 20*time.Millisecond, 50*time.Millisecond
		}).
			Wait(ctx, &awsec2.DescribeNatGatewaysInput{NatGatewayIds: []string{w.nat}}, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		w.route(t, w.table, awsec2.CreateRouteInput{NatGatewayId: &w.nat})
	case "closed":
		w.guard = w.newGroup(t, "guard")
		w.allow(t, w.guard, w.group)
		w.allow(t, w.guard, w.other)
		for _, service := range []string{"ec2", "ecr.api", "ecr.dkr", "sts"} {
			w.endpoint(t, service)
		}
		w.endpoints["s3"] = *must[*awsec2.CreateVpcEndpointOutput](t)(w.ec2.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{
			VpcId: &w.vpc, ServiceName: aws.String("com.amazonaws.us-east-1.s3"), RouteTableIds: []string{w.table},
		})).VpcEndpoint.VpcEndpointId
	}
	w.machine, w.bystander = w.launch(t, kind, 0, w.group), w.launch(t, kind, 1, w.other)
	return w
}

func (w *netWorld) subnet(t testing.TB, cidr, zone string) string {
	t.Helper()
	return *must[*awsec2.CreateSubnetOutput](t)(w.ec2.CreateSubnet(t.Context(), &awsec2.CreateSubnetInput{VpcId: &w.vpc, CidrBlock: &cidr, AvailabilityZone: &zone})).Subnet.SubnetId
}

func (w *netWorld) newGroup(t testing.TB, name string) string {
	t.Helper()
	return *must[*awsec2.CreateSecurityGroupOutput](t)(w.ec2.CreateSecurityGroup(t.Context(), &awsec2.CreateSecurityGroupInput{VpcId: &w.vpc, GroupName: &name, Description: &name})).GroupId
}

func (w *netWorld) route(t testing.TB, table string, in awsec2.CreateRouteInput) {
	t.Helper()
	in.RouteTableId, in.DestinationCidrBlock = &table, aws.String("0.0.0.0/0")
	must[*awsec2.CreateRouteOutput](t)(w.ec2.CreateRoute(t.Context(), &in))
}

func https(peer string) []ec2types.IpPermission {
	return []ec2types.IpPermission{{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(443), ToPort: aws.Int32(443), UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: &peer}}}}
}

func (w *netWorld) allow(t testing.TB, group, peer string) {
	t.Helper()
	must[*awsec2.AuthorizeSecurityGroupIngressOutput](t)(w.ec2.AuthorizeSecurityGroupIngress(t.Context(), &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &group, IpPermissions: https(peer)}))
}

func (w *netWorld) endpoint(t testing.TB, service string) {
	t.Helper()
	w.endpoints[service] = *must[*awsec2.CreateVpcEndpointOutput](t)(w.ec2.CreateVpcEndpoint(t.Context(), &awsec2.CreateVpcEndpointInput{
		VpcId: &w.vpc, ServiceName: aws.String("com.amazonaws.us-east-1." + service), VpcEndpointType: ec2types.VpcEndpointTypeInterface,
		SubnetIds: w.subnets[:], SecurityGroupIds: []string{w.guard}, PrivateDnsEnabled: aws.Bool(true),
	})).VpcEndpoint.VpcEndpointId
}

// launch creates a machine's network interface. In a public network it gets a public address.
func (w *netWorld) launch(t testing.TB, kind string, subnet int, group string) string {
	t.Helper()
	i := must[*awsec2.RunInstancesOutput](t)(w.ec2.RunInstances(t.Context(), &awsec2.RunInstancesInput{
		ImageId: aws.String("resolve:ssm:/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"), InstanceType: ec2types.InstanceTypeM5Large, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		NetworkInterfaces: []ec2types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0), SubnetId: &w.subnets[subnet], Groups: []string{group}, AssociatePublicIpAddress: aws.Bool(kind == "public"),
		}},
	})).Instances[0]
	return *i.NetworkInterfaces[0].NetworkInterfaceId
}

// ownACL gives the machine's subnet its own ACL, with an entry for everything if it is open.
func (w *netWorld) ownACL(t testing.TB, open bool) {
	t.Helper()
	ctx := t.Context()
	if w.acl != "" {
		return
	}
	w.acl = *must[*awsec2.CreateNetworkAclOutput](t)(w.ec2.CreateNetworkAcl(ctx, &awsec2.CreateNetworkAclInput{VpcId: &w.vpc})).NetworkAcl.NetworkAclId
	if open {
		for _, egress := range []bool{true, false} {
			w.entry(t, 100, egress, true, "-1", 0, 0)
		}
	}
	all := must[*awsec2.DescribeNetworkAclsOutput](t)(w.ec2.DescribeNetworkAcls(ctx, &awsec2.DescribeNetworkAclsInput{Filters: []ec2types.Filter{{Name: aws.String("association.subnet-id"), Values: []string{w.subnets[0]}}}}))
	for _, a := range all.NetworkAcls[0].Associations {
		if *a.SubnetId == w.subnets[0] {
			must[*awsec2.ReplaceNetworkAclAssociationOutput](t)(w.ec2.ReplaceNetworkAclAssociation(ctx, &awsec2.ReplaceNetworkAclAssociationInput{AssociationId: a.NetworkAclAssociationId, NetworkAclId: &w.acl}))
		}
	}
}

func (w *netWorld) entry(t testing.TB, number int32, egress, allow bool, protocol string, from, to int32) {
	t.Helper()
	action := ec2types.RuleActionDeny
	if allow {
		action = ec2types.RuleActionAllow
	}
	in := &awsec2.CreateNetworkAclEntryInput{NetworkAclId: &w.acl, RuleNumber: &number, Egress: &egress, Protocol: &protocol, CidrBlock: aws.String("0.0.0.0/0"), RuleAction: action}
	if protocol != "-1" {
		in.PortRange = &ec2types.PortRange{From: &from, To: &to}
	}
	must[*awsec2.CreateNetworkAclEntryOutput](t)(w.ec2.CreateNetworkAclEntry(t.Context(), in))
}

// A breakage is a way to break a network. It may have no effect.
type breakage struct {
	name  string
	kinds []string // the networks that it applies to; empty means all
	do    func(t testing.TB, w *netWorld, r *rand.Rand)
}

func breakages() []breakage {
	everythingOut := []ec2types.IpPermission{{IpProtocol: aws.String("-1"), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}
	attribute := func(t testing.TB, w *netWorld, in awsec2.ModifyVpcAttributeInput) {
		t.Helper()
		in.VpcId = &w.vpc
		must[*awsec2.ModifyVpcAttributeOutput](t)(w.ec2.ModifyVpcAttribute(t.Context(), &in))
	}
	pick := func(w *netWorld, r *rand.Rand, but ...string) (string, string) {
		var names []string
		for n, id := range w.endpoints {
			if id != "" && !slices.Contains(but, n) {
				names = append(names, n)
			}
		}
		slices.Sort(names)
		if len(names) == 0 {
			return "", ""
		}
		n := names[r.IntN(len(names))]
		return n, w.endpoints[n]
	}
	off := &ec2types.AttributeBooleanValue{Value: aws.Bool(false)}
	return []breakage{
		{"group without egress", nil, func(t testing.TB, w *netWorld, _ *rand.Rand) {
			_, _ = w.ec2.RevokeSecurityGroupEgress(t.Context(), &awsec2.RevokeSecurityGroupEgressInput{GroupId: &w.group, IpPermissions: everythingOut}) // it may have been deleted
		}},
		{"egress to another port", nil, func(t testing.TB, w *netWorld, r *rand.Rand) {
			_, _ = w.ec2.RevokeSecurityGroupEgress(t.Context(), &awsec2.RevokeSecurityGroupEgressInput{GroupId: &w.group, IpPermissions: everythingOut})
			port := int32(1 + r.IntN(400))
			_, _ = w.ec2.AuthorizeSecurityGroupEgress(t.Context(), &awsec2.AuthorizeSecurityGroupEgressInput{GroupId: &w.group, IpPermissions: []ec2types.IpPermission{{
				IpProtocol: aws.String("tcp"), FromPort: &port, ToPort: &port, IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}},
			}}})
		}},
		{"ACL denies the way out", nil, func(t testing.TB, w *netWorld, r *rand.Rand) {
			if w.acl == "" {
				w.ownACL(t, true)
				w.entry(t, int32(1+r.IntN(99)), true, false, "6", 443, 443)
			}
		}},
		{"ACL denies the answers", nil, func(t testing.TB, w *netWorld, r *rand.Rand) {
			if w.acl == "" {
				w.ownACL(t, true)
				w.entry(t, int32(1+r.IntN(99)), false, false, "6", 1024, 65535)
			}
		}},
		{"ACL without entries", nil, func(t testing.TB, w *netWorld, _ *rand.Rand) { w.ownACL(t, false) }},
		{"no DNS", nil, func(t testing.TB, w *netWorld, _ *rand.Rand) {
			attribute(t, w, awsec2.ModifyVpcAttributeInput{EnableDnsSupport: off})
		}},
		{"no route", []string{"public", "nat"}, func(t testing.TB, w *netWorld, _ *rand.Rand) {
			_, _ = w.ec2.DeleteRoute(t.Context(), &awsec2.DeleteRouteInput{RouteTableId: &w.table, DestinationCidrBlock: aws.String("0.0.0.0/0")})
		}},
		{"another route table", nil, func(t testing.TB, w *netWorld, _ *rand.Rand) {
			tables := must[*awsec2.DescribeRouteTablesOutput](t)(w.ec2.DescribeRouteTables(t.Context(), &awsec2.DescribeRouteTablesInput{Filters: []ec2types.Filter{{Name: aws.String("association.subnet-id"), Values: []string{w.subnets[0]}}}}))
			if len(tables.RouteTables) == 0 {
				return
			}
			for _, a := range tables.RouteTables[0].Associations {
				if aws.ToString(a.SubnetId) == w.subnets[0] {
					must[*awsec2.DisassociateRouteTableOutput](t)(w.ec2.DisassociateRouteTable(t.Context(), &awsec2.DisassociateRouteTableInput{AssociationId: a.RouteTableAssociationId}))
				}
			}
		}},
		{"NAT gateway deleted", []string{"nat"}, func(t testing.TB, w *netWorld, _ *rand.Rand) {
			must[*awsec2.DeleteNatGatewayOutput](t)(w.ec2.DeleteNatGateway(t.Context(), &awsec2.DeleteNatGatewayInput{NatGatewayId: &w.nat}))
		}},
		{"route to the internet gateway", []string{"nat"}, func(t testing.TB, w *netWorld, _ *rand.Rand) {
			_, _ = w.ec2.ReplaceRoute(t.Context(), &awsec2.ReplaceRouteInput{RouteTableId: &w.table, DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: &w.gateway})
		}},
		{"no DNS host names", []string{"closed"}, func(t testing.TB, w *netWorld, _ *rand.Rand) {
			attribute(t, w, awsec2.ModifyVpcAttributeInput{EnableDnsHostnames: off})
		}},
		{"endpoint deleted", []string{"closed"}, func(t testing.TB, w *netWorld, r *rand.Rand) {
			if n, id := pick(w, r); id != "" {
				must[*awsec2.DeleteVpcEndpointsOutput](t)(w.ec2.DeleteVpcEndpoints(t.Context(), &awsec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{id}}))
				w.endpoints[n] = ""
			}
		}},
		{"endpoint without private DNS", []string{"closed"}, func(t testing.TB, w *netWorld, r *rand.Rand) {
			if _, id := pick(w, r, "s3"); id != "" {
				must[*awsec2.ModifyVpcEndpointOutput](t)(w.ec2.ModifyVpcEndpoint(t.Context(), &awsec2.ModifyVpcEndpointInput{VpcEndpointId: &id, PrivateDnsEnabled: aws.Bool(false)}))
			}
		}},
		{"endpoints' group without the machine's", []string{"closed"}, func(t testing.TB, w *netWorld, _ *rand.Rand) {
			_, _ = w.ec2.RevokeSecurityGroupIngress(t.Context(), &awsec2.RevokeSecurityGroupIngressInput{GroupId: &w.guard, IpPermissions: https(w.group)})
		}},
		{"endpoints' group without rules", []string{"closed"}, func(t testing.TB, w *netWorld, _ *rand.Rand) {
			for _, g := range []string{w.group, w.other} {
				_, _ = w.ec2.RevokeSecurityGroupIngress(t.Context(), &awsec2.RevokeSecurityGroupIngressInput{GroupId: &w.guard, IpPermissions: https(g)})
			}
		}},
		{"endpoint with the machine's group", []string{"closed"}, func(t testing.TB, w *netWorld, r *rand.Rand) {
			if _, id := pick(w, r, "s3"); id != "" {
				must[*awsec2.ModifyVpcEndpointOutput](t)(w.ec2.ModifyVpcEndpoint(t.Context(), &awsec2.ModifyVpcEndpointInput{VpcEndpointId: &id, AddSecurityGroupIds: []string{w.group}, RemoveSecurityGroupIds: []string{w.guard}}))
			}
		}},
		{"gateway endpoint without the route table", []string{"closed"}, func(t testing.TB, w *netWorld, _ *rand.Rand) {
			if id := w.endpoints["s3"]; id != "" {
				must[*awsec2.ModifyVpcEndpointOutput](t)(w.ec2.ModifyVpcEndpoint(t.Context(), &awsec2.ModifyVpcEndpointInput{VpcEndpointId: &id, RemoveRouteTableIds: []string{w.table}}))
			}
		}},
	}
}

var networkNames = []string{
	"ec2.us-east-1.amazonaws.com", "api.ecr.us-east-1.amazonaws.com", "602401143452.dkr.ecr.us-east-1.amazonaws.com", "sts.us-east-1.amazonaws.com",
	"prod-us-east-1-starport-layer-bucket.s3.us-east-1.amazonaws.com",
}

// reaches returns the names that a machine can reach.
func reaches(t testing.TB, daemon *api.Client, account, from string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, n := range networkNames {
		out[n] = ask(t, daemon, account, from, n).Reachable
	}
	return out
}

func ask(t testing.TB, daemon *api.Client, account, from, name string) api.ReachExplanation {
	t.Helper()
	e, err := daemon.WhyReach(t.Context(), api.Place{Account: account, Region: "us-east-1"}, api.Connection{From: from, To: name, Port: "443", Protocol: "tcp"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// settled polls until the name can be reached, because a new endpoint takes a moment.
func settled(t testing.TB, daemon *api.Client, account, from, name string) api.ReachExplanation {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(5 * time.Second); ; <-tick.C {
		if e := ask(t, daemon, account, from, name); e.Reachable || time.Now().After(end) {
			return e
		}
	}
}

// Each alternative that is printed holds like the first: none of them cuts off the bystander.
func TestPrintedAlternativesHold(t *testing.T) {
	info := startDaemon(t)
	daemon := &api.Client{Daemon: info}
	const name = "ec2.us-east-1.amazonaws.com"
	for n, kind := range []string{"public", "nat", "closed"} {
		for i, alternatives := 0, 1; i < alternatives; i++ {
			account := fmt.Sprintf("%012d", 200000000000+100*n+i)
			w := newNetWorld(t, info, account, kind)
			breakages()[0].do(t, w, nil) // the machine's group lets nothing out
			others := reaches(t, daemon, account, w.bystander)
			e := ask(t, daemon, account, w.machine, name)
			if alternatives = len(e.Fixes); alternatives == 0 {
				t.Fatalf("%s: nothing is offered: %s", kind, e.Note)
			}
			out, ok := pasted(t, info, account, "test", e.Fixes[i])
			if after := settled(t, daemon, account, w.machine, name); !ok || !after.Reachable {
				t.Errorf("%s, alternative %d does not work:\n%s\n%s\n%s", kind, i, e.Fixes[i].Shell(), out, after.Text())
			}
			for other, still := range reaches(t, daemon, account, w.bystander) {
				if others[other] && !still {
					t.Errorf("%s, alternative %d cuts the bystander off %s:\n%s", kind, i, other, e.Fixes[i].Shell())
				}
			}
		}
	}
}

// What fixes a machine of a closed network fixes its successor, which has another address
// and another subnet.
func TestPrintedFixesAreForTheNextNodeToo(t *testing.T) {
	info := startDaemon(t)
	daemon := &api.Client{Daemon: info}
	const account, name = "200000001000", "api.ecr.us-east-1.amazonaws.com"
	w := newNetWorld(t, info, account, "closed")
	id := w.endpoints["ecr.api"]
	must[*awsec2.DeleteVpcEndpointsOutput](t)(w.ec2.DeleteVpcEndpoints(t.Context(), &awsec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{id}}))
	testkit.Eventually(t, 20*time.Second, func() error { // until it is gone, its private names are taken
		out, err := w.ec2.DescribeVpcEndpoints(t.Context(), &awsec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{id}})
		if err == nil && len(out.VpcEndpoints) > 0 {
			return fmt.Errorf("%s is %s", id, out.VpcEndpoints[0].State)
		}
		return nil
	})
	e := ask(t, daemon, account, w.machine, name)
	if len(e.Fixes) == 0 {
		t.Fatal(e.Text())
	}
	if out, ok := pasted(t, info, account, "test", e.Fixes[0]); !ok {
		t.Fatalf("%s\n%s", e.Fixes[0].Shell(), out)
	}
	for _, from := range []string{w.machine, w.bystander, w.launch(t, "closed", 1, w.group)} {
		if after := settled(t, daemon, account, from, name); !after.Reachable {
			t.Errorf("%s\n%s", e.Fixes[0].Shell(), after.Text())
		}
	}
}

// A key's policy is kept, with a statement more. That of another account's key only its owner can change.
func TestPrintedFixesOfKeyPolicies(t *testing.T) {
	info := startDaemon(t)
	daemon, ctx := &api.Client{Daemon: info}, t.Context()
	const mine, theirs = "200000002000", "200000002001"
	root := awsiam.NewFromConfig(configFor(info, mine, "test"))
	must[*awsiam.CreateUserOutput](t)(root.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("dev")}))
	key := must[*awsiam.CreateAccessKeyOutput](t)(root.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("dev")})).AccessKey
	dev := awskms.NewFromConfig(configFor(info, *key.AccessKeyId, *key.SecretAccessKey))
	for _, owner := range []string{mine, theirs} {
		keys := awskms.NewFromConfig(configFor(info, owner, "test"))
		secret := must[*awskms.CreateKeyOutput](t)(keys.CreateKey(ctx, &awskms.CreateKeyInput{
			Policy: aws.String(`{"Version":"2012-10-17","Statement":[{"Sid":"admin","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + owner + `:root"},"Action":"kms:*KeyPolicy","Resource":"*"}]}`),
		})).KeyMetadata
		encrypt := func() error {
			_, err := dev.Encrypt(ctx, &awskms.EncryptInput{KeyId: secret.Arn, Plaintext: []byte("x")})
			return err
		}
		if encrypt() == nil {
			t.Fatal("it is allowed")
		}
		var e api.RequestExplanation
		testkit.Eventually(t, 10*time.Second, func() (err error) { // the journal is written in the background
			if e, err = daemon.WhyRequest(ctx, mine, ""); err == nil && !strings.Contains(e.Text(), *secret.Arn) {
				err = errors.New(e.Text())
			}
			return err
		})
		if len(e.Fixes) == 0 {
			t.Fatal(e.Text())
		}
		f := e.Fixes[0]
		if owner == theirs {
			if f.Proven || !strings.Contains(f.Sketch, "credentials of account "+theirs) || !strings.Contains(f.Shell(), "aws kms put-key-policy --key-id "+*secret.Arn) {
				t.Errorf("%+v", f)
			}
			continue
		}
		out, ok := pasted(t, info, owner, "test", f)
		if err := encrypt(); !ok || err != nil {
			t.Errorf("%v\n%s\n%s", err, f.Shell(), out)
		}
		if got := must[*awskms.GetKeyPolicyOutput](t)(keys.GetKeyPolicy(ctx, &awskms.GetKeyPolicyInput{KeyId: secret.Arn})); !strings.Contains(*got.Policy, `"admin"`) {
			t.Errorf("what was there is gone: %s", *got.Policy)
		}
	}
}

// TestPrintedFixesHold breaks random networks and takes away permissions, asks why a machine
// does not reach one of AWS's services or why a request was refused, and runs the first fix
// that is printed as it is printed. It must mend what was asked about, and what worked before
// must still work: what a bystander reached, and what else the caller may do.
//
// DRYDOCK_WORLDS is the number of worlds, DRYDOCK_SEED the number of the first one.
func TestPrintedFixesHold(t *testing.T) {
	count, seed := 100, uint64(1)
	if s := os.Getenv("DRYDOCK_WORLDS"); s != "" {
		count = must[int](t)(strconv.Atoi(s))
	}
	if s := os.Getenv("DRYDOCK_SEED"); s != "" {
		seed = must[uint64](t)(strconv.ParseUint(s, 10, 64))
	}
	info := startDaemon(t)
	daemon := &api.Client{Daemon: info}
	var sum tally
	for n := range uint64(count) {
		r := rand.New(rand.NewPCG(seed+n, 12))
		account := fmt.Sprintf("%012d", 100000000000+seed+n)
		if r.IntN(5) == 0 {
			playRequest(t, info, account, seed+n, r, &sum)
		} else {
			playNetwork(t, info, account, seed+n, r, &sum)
		}
		if err := daemon.Reset(t.Context(), account); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d worlds were broken; a fix was possible for %d, offered for %d, and held for %d", sum.broken, sum.possible, sum.offered, sum.held)
}

// A call that needs several permissions, such as a launch with a role, gets all of them from one fix.
func TestPrintedFixesOfOneCall(t *testing.T) {
	info, account := startDaemon(t), "111122223333"
	ctx, daemon := t.Context(), &api.Client{Daemon: info}
	root := awsiam.NewFromConfig(configFor(info, account, "test"))
	must[*awsiam.CreateRoleOutput](t)(root.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("web"), AssumeRolePolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}))
	must[*awsiam.CreateInstanceProfileOutput](t)(root.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("web")}))
	must[*awsiam.AddRoleToInstanceProfileOutput](t)(root.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("web"), RoleName: aws.String("web")}))
	images := must[*awsec2.DescribeImagesOutput](t)(awsec2.NewFromConfig(configFor(info, account, "test")).DescribeImages(ctx, &awsec2.DescribeImagesInput{Owners: []string{"amazon"}}))
	profile := &ec2types.IamInstanceProfileSpecification{Name: aws.String("web")}
	tags := []ec2types.Tag{{Key: aws.String("team"), Value: aws.String("blue")}}
	for user, launch := range map[string]func(*awsec2.Client) error{
		"dev": func(c *awsec2.Client) error {
			_, err := c.RunInstances(ctx, &awsec2.RunInstancesInput{
				ImageId: images.Images[0].ImageId, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "m5.large", IamInstanceProfile: profile,
				TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: tags}},
			})
			return err
		},
		"spot": func(c *awsec2.Client) error {
			_, err := c.RequestSpotInstances(ctx, &awsec2.RequestSpotInstancesInput{
				LaunchSpecification: &ec2types.RequestSpotLaunchSpecification{ImageId: images.Images[0].ImageId, InstanceType: "m5.large", IamInstanceProfile: profile},
				TagSpecifications:   []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSpotInstancesRequest, Tags: tags}},
			})
			return err
		},
	} {
		must[*awsiam.CreateUserOutput](t)(root.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &user}))
		key := must[*awsiam.CreateAccessKeyOutput](t)(root.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: &user})).AccessKey
		c := awsec2.NewFromConfig(configFor(info, *key.AccessKeyId, *key.SecretAccessKey))
		if err := launch(c); err == nil {
			t.Fatalf("%s, a user without policies, launches an instance", user)
		}
		var e api.RequestExplanation
		testkit.Eventually(t, 10*time.Second, func() (err error) { // the journal is written in the background
			if e, err = daemon.WhyRequest(ctx, account, ""); err == nil && !strings.Contains(e.Text(), "user/"+user) {
				err = errors.New("the last request is another user's")
			}
			return err
		})
		if len(e.Fixes) == 0 || !e.Fixes[0].Proven || len(e.Fixes[0].Commands) != 1 {
			t.Fatalf("%s: %+v", user, e.Fixes)
		}
		text := e.Text()
		for _, want := range []string{"iam:PassRole", "ec2:CreateTags", "cost: privilege "} {
			if !strings.Contains(text, want) {
				t.Errorf("it does not say %s:\n%s", want, text)
			}
		}
		out, ok := pasted(t, info, account, "test", e.Fixes[0])
		if err := launch(c); !ok || err != nil {
			t.Errorf("the fix does not work: %v\n%s\n%s", err, text, out)
		}
	}
}

// A tally counts worlds. A fix is not possible where only a person knows what was meant.
type tally struct{ broken, possible, offered, held int }

// playRequest lets a user or a role make a request that its policies do not allow.
func playRequest(t *testing.T, info api.DaemonInfo, account string, seed uint64, r *rand.Rand, sum *tally) {
	ctx, daemon := t.Context(), &api.Client{Daemon: info}
	root := awsiam.NewFromConfig(configFor(info, account, "test"))
	must[*awsiam.CreateUserOutput](t)(root.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("dev")}))
	put := func(name, document string) {
		must[*awsiam.PutUserPolicyOutput](t)(root.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("dev"), PolicyName: &name, PolicyDocument: &document}))
	}
	grant := func(effect, action, resource, more string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"` + effect + `","Action":"` + action + `","Resource":"` + resource + `"` + more + `}]}`
	}
	put("own", grant("Allow", "ec2:DescribeSubnets", "*", ""))
	type request struct {
		action string
		call   func(aws.Config) error
	}
	requests := []request{
		{"ec2:DescribeVpcs", func(c aws.Config) error { _, err := awsec2.NewFromConfig(c).DescribeVpcs(ctx, nil); return err }},
		{"ec2:CreateVpc", func(c aws.Config) error {
			_, err := awsec2.NewFromConfig(c).CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
			return err
		}},
		{"iam:ListRoles", func(c aws.Config) error { _, err := awsiam.NewFromConfig(c).ListRoles(ctx, nil); return err }},
		{"iam:GetUser", func(c aws.Config) error {
			_, err := awsiam.NewFromConfig(c).GetUser(ctx, &awsiam.GetUserInput{UserName: aws.String("dev")})
			return err
		}},
		{"sts:AssumeRole", func(c aws.Config) error {
			_, err := awssts.NewFromConfig(c).AssumeRole(ctx, &awssts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::" + account + ":role/ops"), RoleSessionName: aws.String("session")})
			return err
		}},
	}
	// A key whose policy leaves its use to a role, and its administration to the account.
	who := func(sid, principal, action string) string {
		return `{"Sid":"` + sid + `","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:` + principal + `"},"Action":"` + action + `","Resource":"*"}`
	}
	keys := awskms.NewFromConfig(configFor(info, account, "test"))
	secret := must[*awskms.CreateKeyOutput](t)(keys.CreateKey(ctx, &awskms.CreateKeyInput{})).KeyMetadata
	must[*awskms.PutKeyPolicyOutput](t)(keys.PutKeyPolicy(ctx, &awskms.PutKeyPolicyInput{
		KeyId: secret.Arn, Policy: aws.String(`{"Version":"2012-10-17","Statement":[` + who("own", "user/dev", "kms:DescribeKey") + "," + who("admin", "root", "kms:*KeyPolicy") + "]}"),
	}))
	requests = append(requests, request{"kms:Encrypt", func(c aws.Config) error {
		_, err := awskms.NewFromConfig(c).Encrypt(ctx, &awskms.EncryptInput{KeyId: secret.Arn, Plaintext: []byte("x")})
		return err
	}})
	q := requests[r.IntN(len(requests))]
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:root"},"Action":"sts:AssumeRole"}]}`
	if r.IntN(2) == 0 {
		trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	}
	must[*awsiam.CreateRoleOutput](t)(root.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("ops"), AssumeRolePolicyDocument: &trust}))
	how := r.IntN(6)
	switch how { // 0: nothing allows it
	case 1:
		put("elsewhere", grant("Allow", q.action, "arn:aws:ec2:us-east-1:"+account+":instance/i-00000000000000000", ""))
	case 2:
		put("elsewhere", grant("Allow", q.action, "*", `,"Condition":{"StringEquals":{"aws:PrincipalTag/team":"blue"}}`))
	case 3:
		put("deny", grant("Deny", "ec2:Delete*", "*", ""))
	case 5: // its boundary allows nothing but that
		edge := must[*awsiam.CreatePolicyOutput](t)(root.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("edge"), PolicyDocument: aws.String(grant("Allow", "ec2:DescribeSubnets", "*", ""))}))
		must[*awsiam.PutUserPermissionsBoundaryOutput](t)(root.PutUserPermissionsBoundary(ctx, &awsiam.PutUserPermissionsBoundaryInput{UserName: aws.String("dev"), PermissionsBoundary: edge.Policy.Arn}))
		if r.IntN(2) == 0 {
			put("all", grant("Allow", "*", "*", ""))
		}
	case 4: // only the owner of the policy can say whether it may go
		put("deny", grant("Deny", q.action, "*", ""))
	}
	key := must[*awsiam.CreateAccessKeyOutput](t)(root.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("dev")})).AccessKey
	dev := configFor(info, *key.AccessKeyId, *key.SecretAccessKey)
	var ae smithy.APIError
	switch err := q.call(dev); {
	case err == nil:
		return
	case !errors.As(err, &ae) || !slices.Contains([]string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}, ae.ErrorCode()):
		t.Fatal(err)
	}
	sum.broken++
	if how != 4 {
		sum.possible++
	}
	about := fmt.Sprintf("seed %d, request %s, way %d", seed, q.action, how)
	var e api.RequestExplanation
	testkit.Eventually(t, 10*time.Second, func() (err error) { // the journal is written in the background
		e, err = daemon.WhyRequest(ctx, account, "")
		return err
	})
	if len(e.Fixes) == 0 || e.Fixes[0].Sketch != "" {
		t.Logf("%s: nothing is offered", about)
		return
	}
	sum.offered++
	out, ok := pasted(t, info, account, "test", e.Fixes[0])
	if err := q.call(dev); !ok || err != nil {
		t.Errorf("%s: the fix does not work: %v\n%s\n%s", about, err, e.Fixes[0].Shell(), out)
		return
	}
	if _, err := awsec2.NewFromConfig(dev).DescribeSubnets(ctx, nil); err != nil {
		t.Errorf("%s: the fix takes away another grant: %v\n%s", about, err, e.Fixes[0].Shell())
		return
	}
	_, err := awskms.NewFromConfig(dev).DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: secret.Arn})
	if _, admin := keys.GetKeyPolicy(ctx, &awskms.GetKeyPolicyInput{KeyId: secret.Arn}); how != 5 && err != nil || admin != nil {
		t.Errorf("%s: the fix takes away a grant of the key: %v, %v\n%s", about, err, admin, e.Fixes[0].Shell())
		return
	}
	sum.held++
}

// playNetwork breaks a network and asks why a machine cannot reach a service.
func playNetwork(t *testing.T, info api.DaemonInfo, account string, seed uint64, r *rand.Rand, sum *tally) {
	daemon := &api.Client{Daemon: info}
	kind := []string{"public", "nat", "closed", "closed"}[r.IntN(4)]
	w := newNetWorld(t, info, account, kind)
	var did []string
	ways := slices.DeleteFunc(breakages(), func(b breakage) bool { return b.kinds != nil && !slices.Contains(b.kinds, kind) })
	for range 1 + r.IntN(3) {
		b := ways[r.IntN(len(ways))]
		b.do(t, w, r)
		did = append(did, b.name)
	}
	before, others := reaches(t, daemon, account, w.machine), reaches(t, daemon, account, w.bystander)
	var failing []string
	for _, name := range networkNames {
		if !before[name] {
			failing = append(failing, name)
		}
	}
	if len(failing) == 0 {
		return
	}
	sum.broken++
	sum.possible++
	name := failing[r.IntN(len(failing))]
	about := fmt.Sprintf("seed %d, %s, %s: %s", seed, kind, strings.Join(did, " and "), name)
	e := ask(t, daemon, account, w.machine, name)
	if len(e.Fixes) == 0 || e.Fixes[0].Sketch != "" {
		t.Logf("%s: nothing is offered: %s", about, e.Note)
		return
	}
	sum.offered++
	out, ok := pasted(t, info, account, "test", e.Fixes[0])
	after := settled(t, daemon, account, w.machine, name)
	still := reaches(t, daemon, account, w.bystander)
	good := ok && after.Reachable
	if !good {
		t.Errorf("%s: the fix does not work:\n%s\n%s\n%s", about, e.Fixes[0].Shell(), out, after.Text())
	}
	for _, name := range networkNames {
		if others[name] && !still[name] || before[name] && !settled(t, daemon, account, w.machine, name).Reachable {
			good = false
			t.Errorf("%s: the fix breaks %s:\n%s", about, name, e.Fixes[0].Shell())
		}
	}
	if good {
		sum.held++
	}
}
