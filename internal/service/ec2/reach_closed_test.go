package ec2_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const apiServer = "0123.gr7.us-east-1.eks.amazonaws.com"

// A closedNetwork is the network of an EKS cluster without internet access, created through the
// API. The bastion's VPC, which is public, is peered with the cluster's VPC, which reaches AWS only
// through endpoints.
type closedNetwork struct {
	*world
	k8s, bastionVPC                         string
	subnetA, subnetB                        string
	igw, pcx                                string
	k8sTable, bastionTable                  string
	worker, operator, bastion, controlPlane string // security groups
	endpoints                               string // ID of their security group
	workerID, operatorID, bastionID         string
	control                                 []string // the control plane's interfaces
	endpointIDs                             map[string]string
}

func (n *closedNetwork) allow(t testing.TB, group, from string, port int32) {
	t.Helper()
	must(n.AuthorizeSecurityGroupIngress(t.Context(), &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &group, IpPermissions: permission(from, port)}))(t)
}

func (n *closedNetwork) revoke(t testing.TB, group, from string, port int32) {
	t.Helper()
	must(n.RevokeSecurityGroupIngress(t.Context(), &awsec2.RevokeSecurityGroupIngressInput{GroupId: &group, IpPermissions: permission(from, port)}))(t)
}

// permission returns a TCP permission for a group or range.
func permission(from string, port int32) []ec2types.IpPermission {
	p := ec2types.IpPermission{IpProtocol: aws.String("tcp"), FromPort: &port, ToPort: &port}
	if from[:3] == "sg-" {
		p.UserIdGroupPairs = []ec2types.UserIdGroupPair{{GroupId: &from}}
	} else {
		p.IpRanges = []ec2types.IpRange{{CidrIp: &from}}
	}
	return []ec2types.IpPermission{p}
}

func (n *closedNetwork) group(t testing.TB, vpc, name string) string {
	t.Helper()
	return *must(n.CreateSecurityGroup(t.Context(), &awsec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: &name, Description: &name}))(t).GroupId
}

func (n *closedNetwork) mainTable(t testing.TB, vpc string) string {
	t.Helper()
	f := append(filter("association.main", "true"), filter("vpc-id", vpc)...)
	return *must(n.DescribeRouteTables(t.Context(), &awsec2.DescribeRouteTablesInput{Filters: f}))(t).RouteTables[0].RouteTableId
}

// endpoint creates an interface endpoint and waits for it.
func (n *closedNetwork) endpoint(t testing.TB, service string) {
	t.Helper()
	id := *must(n.CreateVpcEndpoint(t.Context(), &awsec2.CreateVpcEndpointInput{
		VpcId: &n.k8s, VpcEndpointType: ec2types.VpcEndpointTypeInterface, ServiceName: aws.String("com.amazonaws.us-east-1." + service),
		SubnetIds: []string{n.subnetA}, SecurityGroupIds: []string{n.endpoints}, PrivateDnsEnabled: aws.Bool(true),
	}))(t).VpcEndpoint.VpcEndpointId
	n.endpointIDs[service] = id
	testkit.Eventually(t, 10*time.Second, func() error {
		e := must(n.DescribeVpcEndpoints(t.Context(), &awsec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{id}}))(t).VpcEndpoints[0]
		if e.State != "available" {
			return fmt.Errorf("%s is %s", id, e.State)
		}
		return nil
	})
}

func (n *closedNetwork) deleteEndpoint(t testing.TB, service string) {
	t.Helper()
	id := n.endpointIDs[service]
	must(n.DeleteVpcEndpoints(t.Context(), &awsec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{id}}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		left := must(n.DescribeVpcEndpoints(t.Context(), &awsec2.DescribeVpcEndpointsInput{Filters: filter("vpc-endpoint-id", id)}))(t).VpcEndpoints
		if len(left) != 0 && left[0].State != "deleted" {
			return fmt.Errorf("%s is %s", id, left[0].State)
		}
		return nil
	})
}

func newClosedNetwork(t *testing.T) *closedNetwork {
	n := &closedNetwork{world: newWorld(t), endpointIDs: map[string]string{}}
	ctx := t.Context()
	n.k8s, n.bastionVPC = n.vpc(t, "10.0.0.0/16"), n.vpc(t, "10.9.0.0/16")
	must(n.ModifyVpcAttribute(ctx, &awsec2.ModifyVpcAttributeInput{VpcId: &n.k8s, EnableDnsHostnames: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	n.subnetA, n.subnetB = n.subnet(t, n.k8s, "10.0.1.0/24"), n.subnet(t, n.k8s, "10.0.2.0/24")
	public := n.subnet(t, n.bastionVPC, "10.9.1.0/24")
	must(n.ModifySubnetAttribute(ctx, &awsec2.ModifySubnetAttributeInput{SubnetId: &public, MapPublicIpOnLaunch: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	n.k8sTable, n.bastionTable = n.mainTable(t, n.k8s), n.mainTable(t, n.bastionVPC)
	n.igw = *must(n.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{}))(t).InternetGateway.InternetGatewayId
	must(n.AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: &n.igw, VpcId: &n.bastionVPC}))(t)
	must(n.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &n.bastionTable, DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: &n.igw}))(t)
	n.pcx = *must(n.CreateVpcPeeringConnection(ctx, &awsec2.CreateVpcPeeringConnectionInput{VpcId: &n.bastionVPC, PeerVpcId: &n.k8s}))(t).VpcPeeringConnection.VpcPeeringConnectionId
	must(n.AcceptVpcPeeringConnection(ctx, &awsec2.AcceptVpcPeeringConnectionInput{VpcPeeringConnectionId: &n.pcx}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		p := must(n.DescribeVpcPeeringConnections(ctx, &awsec2.DescribeVpcPeeringConnectionsInput{VpcPeeringConnectionIds: []string{n.pcx}}))(t).VpcPeeringConnections[0]
		if p.Status.Code != ec2types.VpcPeeringConnectionStateReasonCodeActive {
			return fmt.Errorf("%s is %s", n.pcx, p.Status.Code)
		}
		return nil
	})
	n.peerRoutes(t)

	n.worker, n.operator, n.controlPlane = n.group(t, n.k8s, "worker"), n.group(t, n.k8s, "operator"), n.group(t, n.k8s, "control-plane")
	n.endpoints, n.bastion = n.group(t, n.k8s, "endpoints"), n.group(t, n.bastionVPC, "bastion")
	n.allow(t, n.worker, n.controlPlane, 10250)
	n.allow(t, n.worker, n.operator, 22)
	n.allow(t, n.controlPlane, n.worker, 443)
	n.allow(t, n.endpoints, "10.0.0.0/16", 443)
	n.allow(t, n.operator, n.bastion, 22)
	n.allow(t, n.bastion, "203.0.113.10/32", 22)
	for _, service := range []string{"ec2", "ecr.api", "ecr.dkr"} {
		n.endpoint(t, service)
	}
	n.endpointIDs["s3"] = *must(n.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{
		VpcId: &n.k8s, ServiceName: aws.String("com.amazonaws.us-east-1.s3"), RouteTableIds: []string{n.k8sTable},
	}))(t).VpcEndpoint.VpcEndpointId

	launch := func(subnet, group string) string {
		i := n.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.SubnetId, in.SecurityGroupIds = &subnet, []string{group} })[0]
		n.await(t, ec2types.InstanceStateNameRunning, *i.InstanceId)
		return *i.InstanceId
	}
	n.workerID, n.operatorID, n.bastionID = launch(n.subnetA, n.worker), launch(n.subnetB, n.operator), launch(public, n.bastion)
	for _, subnet := range []string{n.subnetA, n.subnetB} {
		e := n.managed(t, n.account, &awsec2.CreateNetworkInterfaceInput{SubnetId: &subnet, Groups: []string{n.controlPlane}, Description: aws.String("Amazon EKS demo")})
		n.control = append(n.control, *e.NetworkInterfaceId)
	}
	return n
}

func (n *closedNetwork) peerRoutes(t testing.TB) {
	t.Helper()
	for table, cidr := range map[string]string{n.k8sTable: "10.9.0.0/16", n.bastionTable: "10.0.0.0/16"} {
		must(n.CreateRoute(t.Context(), &awsec2.CreateRouteInput{RouteTableId: &table, DestinationCidrBlock: &cidr, VpcPeeringConnectionId: &n.pcx}))(t)
	}
}

func (n *closedNetwork) dropRoute(t testing.TB, table, cidr string) {
	t.Helper()
	must(n.DeleteRoute(t.Context(), &awsec2.DeleteRouteInput{RouteTableId: &table, DestinationCidrBlock: &cidr}))(t)
}

func (n *closedNetwork) addRoute(t testing.TB, table, cidr, pcx, gateway string) {
	t.Helper()
	in := &awsec2.CreateRouteInput{RouteTableId: &table, DestinationCidrBlock: &cidr}
	if pcx != "" {
		in.VpcPeeringConnectionId = &pcx
	} else {
		in.GatewayId = &gateway
	}
	must(n.CreateRoute(t.Context(), in))(t)
}

// deny adds an entry in front of all others of the VPC's network ACL.
func (n *closedNetwork) deny(t testing.TB, vpc string, egress bool, from, to int32) (undo func()) {
	t.Helper()
	acl := must(n.DescribeNetworkAcls(t.Context(), &awsec2.DescribeNetworkAclsInput{Filters: filter("vpc-id", vpc)}))(t).NetworkAcls[0].NetworkAclId
	must(n.CreateNetworkAclEntry(t.Context(), &awsec2.CreateNetworkAclEntryInput{
		NetworkAclId: acl, Egress: &egress, RuleNumber: aws.Int32(1), Protocol: aws.String("6"), RuleAction: ec2types.RuleActionDeny,
		CidrBlock: aws.String("0.0.0.0/0"), PortRange: &ec2types.PortRange{From: &from, To: &to},
	}))(t)
	return func() {
		must(n.DeleteNetworkAclEntry(t.Context(), &awsec2.DeleteNetworkAclEntryInput{NetworkAclId: acl, Egress: &egress, RuleNumber: aws.Int32(1)}))(t)
	}
}

// network returns the snapshot, including the API server's host name.
func (n *closedNetwork) network(t testing.TB) *reach.Snapshot {
	t.Helper()
	s := n.reach(t)
	h := &reach.HostName{Name: apiServer, VPC: n.k8s, Public: []netip.Addr{reach.StableAddress(apiServer)}, Owner: "arn:aws:eks:us-east-1:1:cluster/demo"}
	for _, id := range n.control {
		h.Private = append(h.Private, s.Get(id).(*reach.Interface).Addresses[0].Private)
	}
	d := s.Edit()
	d.Put(h)
	return d.Snapshot()
}

// Reachability in the closed network, as a table, with resources created through the API. Each flow
// is tested again after one thing is removed, which is then restored.
func TestReachInAClosedNetwork(t *testing.T) {
	n := newClosedNetwork(t)
	ask := func(from, to string, port uint16) func() *reach.Verdict {
		return func() *reach.Verdict {
			f := reach.Flow{From: reach.At(from), Protocol: reach.TCP, Port: port}
			if from == "laptop" {
				f.From = reach.Addr(reach.Client)
			}
			if s := n.network(t); s.Get(to) == nil || to == apiServer {
				return s.CheckName(f, to)
			} else {
				f.To = reach.At(to)
				return s.Check(f)
			}
		}
	}
	flows := map[string]func() *reach.Verdict{
		"worker → API server":    ask(n.workerID, apiServer, 443),
		"worker → ecr.api":       ask(n.workerID, "api.ecr.us-east-1.amazonaws.com", 443),
		"worker → ecr.dkr":       ask(n.workerID, "602401143452.dkr.ecr.us-east-1.amazonaws.com", 443),
		"worker → s3":            ask(n.workerID, "prod-us-east-1-starport-layer-bucket.s3.us-east-1.amazonaws.com", 443),
		"worker → ec2":           ask(n.workerID, "ec2.us-east-1.amazonaws.com", 443),
		"worker → internet":      ask(n.workerID, "example.com", 443),
		"operator → worker":      ask(n.operatorID, n.workerID, 22),
		"bastion → operator":     ask(n.bastionID, n.operatorID, 22),
		"laptop → bastion":       ask("laptop", n.bastionID, 22),
		"laptop → operator":      ask("laptop", n.operatorID, 22),
		"control plane → worker": ask(n.control[1], n.workerID, 10250),
	}
	check := func(t *testing.T, name, code string) {
		t.Helper()
		v := flows[name]()
		got := ""
		if len(v.Explanations) > 0 {
			got = v.Explanations[0].Code
		}
		if got != code || v.Reachable != (code == "") {
			t.Errorf("%s: got %q, want %q\n%s", name, got, code, v.Text())
		}
	}
	base := map[string]string{"worker → internet": "NO_ROUTE_TO_DESTINATION", "laptop → operator": "NO_POSSIBLE_DESTINATION"}
	all := func(t *testing.T) {
		t.Helper()
		for name := range flows {
			check(t, name, base[name])
		}
	}
	all(t)

	const mismatch, acl, noRoute = "ENI_SG_RULES_MISMATCH", "SUBNET_ACL_RESTRICTION", "NO_ROUTE_TO_DESTINATION"
	var undo func()
	for _, tt := range []struct {
		name       string
		take, back func(testing.TB)
		flow, code string
		others     []string // unchanged
	}{
		{"the endpoint of ecr.api", func(t testing.TB) { n.deleteEndpoint(t, "ecr.api") }, func(t testing.TB) { n.endpoint(t, "ecr.api") }, "worker → ecr.api", noRoute, []string{"worker → ecr.dkr", "worker → ec2", "worker → s3"}},
		{"the endpoint of ecr.dkr", func(t testing.TB) { n.deleteEndpoint(t, "ecr.dkr") }, func(t testing.TB) { n.endpoint(t, "ecr.dkr") }, "worker → ecr.dkr", noRoute, []string{"worker → ecr.api"}},
		{"the endpoint of ec2", func(t testing.TB) { n.deleteEndpoint(t, "ec2") }, func(t testing.TB) { n.endpoint(t, "ec2") }, "worker → ec2", noRoute, []string{"worker → s3"}},
		{"the endpoints' rule", func(t testing.TB) { n.revoke(t, n.endpoints, "10.0.0.0/16", 443) }, func(t testing.TB) { n.allow(t, n.endpoints, "10.0.0.0/16", 443) }, "worker → ec2", mismatch, []string{"worker → s3", "worker → API server"}},
		{"the API server's rule", func(t testing.TB) { n.revoke(t, n.controlPlane, n.worker, 443) }, func(t testing.TB) { n.allow(t, n.controlPlane, n.worker, 443) }, "worker → API server", mismatch, []string{"control plane → worker"}},
		{"the kubelet's rule", func(t testing.TB) { n.revoke(t, n.worker, n.controlPlane, 10250) }, func(t testing.TB) { n.allow(t, n.worker, n.controlPlane, 10250) }, "control plane → worker", mismatch, []string{"worker → API server"}},
		{"the worker's rule", func(t testing.TB) { n.revoke(t, n.worker, n.operator, 22) }, func(t testing.TB) { n.allow(t, n.worker, n.operator, 22) }, "operator → worker", mismatch, []string{"bastion → operator"}},
		{"the operator's rule", func(t testing.TB) { n.revoke(t, n.operator, n.bastion, 22) }, func(t testing.TB) { n.allow(t, n.operator, n.bastion, 22) }, "bastion → operator", mismatch, []string{"laptop → bastion"}},
		{"the bastion's rule", func(t testing.TB) { n.revoke(t, n.bastion, "203.0.113.10/32", 22) }, func(t testing.TB) { n.allow(t, n.bastion, "203.0.113.10/32", 22) }, "laptop → bastion", mismatch, []string{"bastion → operator"}},
		{"the way back through the peering", func(t testing.TB) { n.dropRoute(t, n.k8sTable, "10.9.0.0/16") }, func(t testing.TB) { n.addRoute(t, n.k8sTable, "10.9.0.0/16", n.pcx, "") }, "bastion → operator", noRoute, []string{"operator → worker"}},
		{"the way there through the peering", func(t testing.TB) { n.dropRoute(t, n.bastionTable, "10.0.0.0/16") }, func(t testing.TB) { n.addRoute(t, n.bastionTable, "10.0.0.0/16", n.pcx, "") }, "bastion → operator", "IGW_DESTINATION_ADDRESS_NOT_IN_RFC1918_EGRESS", []string{"laptop → bastion"}},
		{"the bastion's way out", func(t testing.TB) { n.dropRoute(t, n.bastionTable, "0.0.0.0/0") }, func(t testing.TB) { n.addRoute(t, n.bastionTable, "0.0.0.0/0", "", n.igw) }, "laptop → bastion", noRoute, []string{"bastion → operator"}},
		{"an ACL entry against replies of workers", func(t testing.TB) { undo = n.deny(t, n.k8s, true, 1024, 65535) }, func(testing.TB) { undo() }, "operator → worker", acl, []string{"laptop → bastion"}},
		{"an ACL entry against HTTPS", func(t testing.TB) { undo = n.deny(t, n.k8s, true, 443, 443) }, func(testing.TB) { undo() }, "worker → s3", acl, []string{"operator → worker", "control plane → worker"}},
		{"an ACL entry against replies of S3", func(t testing.TB) { undo = n.deny(t, n.k8s, false, 1024, 65535) }, func(testing.TB) { undo() }, "worker → s3", acl, []string{"laptop → bastion"}},
		{"an ACL entry against SSH to the bastion", func(t testing.TB) { undo = n.deny(t, n.bastionVPC, false, 22, 22) }, func(testing.TB) { undo() }, "laptop → bastion", acl, []string{"bastion → operator"}},
		{"an ACL entry against the kubelet's port", func(t testing.TB) { undo = n.deny(t, n.k8s, false, 10250, 10250) }, func(testing.TB) { undo() }, "control plane → worker", acl, []string{"worker → ec2"}},
		{"DNS hostnames", func(t testing.TB) { n.hostnames(t, false) }, func(t testing.TB) { n.hostnames(t, true) }, "worker → ecr.dkr", noRoute, []string{"worker → s3"}},
		{"the peering, last", func(t testing.TB) {
			must(n.DeleteVpcPeeringConnection(t.Context(), &awsec2.DeleteVpcPeeringConnectionInput{VpcPeeringConnectionId: &n.pcx}))(t)
		}, nil, "bastion → operator", "BAD_STATE_ROUTE", []string{"operator → worker"}},
	} {
		t.Run("without "+tt.name, func(t *testing.T) {
			tt.take(t)
			check(t, tt.flow, tt.code)
			for _, o := range tt.others {
				check(t, o, "")
			}
			if tt.back != nil {
				tt.back(t)
				check(t, tt.flow, "")
			}
		})
	}
}

func (n *closedNetwork) hostnames(t testing.TB, on bool) {
	t.Helper()
	must(n.ModifyVpcAttribute(t.Context(), &awsec2.ModifyVpcAttributeInput{VpcId: &n.k8s, EnableDnsHostnames: &ec2types.AttributeBooleanValue{Value: &on}}))(t)
}
