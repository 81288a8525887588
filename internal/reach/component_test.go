package reach_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

// routes returns the snapshot with a route table whose routes to a destination are replaced by one to a target, or
// removed if there is no target.
func reroute(t testing.TB, s *reach.Snapshot, table string, destination netip.Prefix, target string) *reach.Snapshot {
	return with(t, s, table, func(r *reach.RouteTable) {
		r.Routes = slices.DeleteFunc(slices.Clone(r.Routes), func(x reach.Route) bool { return x.Destination == destination })
		if target != "" {
			r.Routes = append(r.Routes, reach.Route{Destination: destination, Target: target})
		}
	})
}

func entry(number int, egress, allow bool, from, to uint16) reach.Entry {
	return reach.Entry{Number: number, Egress: egress, Allow: allow, Protocol: reach.TCP, CIDR: anyone, Ports: reach.PortRange{From: from, To: to}}
}

func addEntries(t testing.TB, s *reach.Snapshot, acl string, entries ...reach.Entry) *reach.Snapshot {
	return with(t, s, acl, func(a *reach.ACL) { a.Entries = append(slices.Clone(a.Entries), entries...) })
}

// Each component, when it allows traffic and when it does not.
func TestComponents(t *testing.T) {
	s := open()
	app, web := reach.At("i-app"), reach.At("i-web")
	world := reach.Addr(reach.Outside)
	world6 := reach.Addr(ip("2a00::1"))
	noPublic := func(eni string) *reach.Snapshot {
		return with(t, s, eni, func(e *reach.Interface) {
			e.Addresses = slices.Clone(e.Addresses)
			e.Addresses[0].Public = netip.Addr{}
		})
	}
	udp := func(from, to reach.Endpoint, port uint16) reach.Flow {
		return reach.Flow{From: from, To: to, Protocol: reach.UDP, Port: port}
	}
	ping := func(from, to reach.Endpoint) reach.Flow {
		return reach.Flow{From: from, To: to, Protocol: reach.ICMP}
	}
	// forwarder is an instance through which replies of app to web go, but not the connections.
	forwarder := func(rules ...reach.Rule) *reach.Snapshot {
		box := eni("eni-box", "vpc-1", "subnet-pub", "10.0.0.77", "i-box", "sg-box")
		box.NoSourceDestCheck = true
		rules = append(rules, reach.Rule{ID: "sgr-b", Protocol: reach.AllProtocols, CIDR: anyone})
		s := edit(s, box, &reach.Instance{ID: "i-box"}, &reach.SecurityGroup{ID: "sg-box", VPC: "vpc-1", Rules: rules})
		return reroute(t, s, "rtb-priv", cidr("10.0.0.0/24"), "eni-box")
	}
	for _, tt := range []struct {
		name string
		net  *reach.Snapshot
		f    reach.Flow
		code string // "" if reachable
	}{
		{"a forwarder that only sees replies and may send them", forwarder(everythingOut("sgr-bo")), flow(web, app, 8080), ""},
		{"a forwarder that only sees replies and may not send them", forwarder(), flow(web, app, 8080), "ENI_SG_RULES_MISMATCH"},
		{"routed to an instance whose address it is", reroute(t, s, "rtb-pub", cidr("10.0.1.0/24"), "eni-app"), flow(web, reach.Addr(ip("10.0.1.10")), 9000), ""},
		// Routes.
		{"local route", s, flow(web, app, 8080), ""},
		{"no route", reroute(t, s, "rtb-priv", anyone, ""), flow(app, world, 443), "NO_ROUTE_TO_DESTINATION"},
		{"longest prefix wins", reroute(t, s, "rtb-priv", cidr("198.51.100.0/24"), "igw-9"), flow(app, world, 443), "BAD_STATE_ROUTE"},
		{"shorter prefix loses", reroute(t, s, "rtb-priv", cidr("198.0.0.0/8"), "nat-1"), flow(app, world, 443), ""},
		{"target gone", edit(s, "nat-1"), flow(app, world, 443), "BAD_STATE_ROUTE"},
		{"nothing there", s, flow(app, reach.Addr(ip("10.0.7.7")), 443), "NO_POSSIBLE_DESTINATION"},
		{"to itself", reroute(t, s, "rtb-pub", anyone, "nat-1"), flow(app, world, 443), "NO_POSSIBLE_DESTINATION"},
		{"to an interface that is not in use", with(t, s, "eni-app", func(e *reach.Interface) { e.Attached = false }), flow(web, reach.At("eni-app"), 8080), "UNASSOCIATED_COMPONENT"},
		{"from an interface that is not in use", with(t, s, "eni-web", func(e *reach.Interface) { e.Attached = false }), flow(reach.At("eni-web"), app, 8080), "UNASSOCIATED_COMPONENT"},
		// Internet gateway.
		{"out", s, flow(web, world, 443), ""},
		{"out without a public address", noPublic("eni-web"), flow(web, world, 443), "IGW_PUBLIC_IP_ASSOCIATION_FOR_EGRESS"},
		{"out to a private address", s, flow(web, reach.Addr(ip("192.168.0.1")), 443), "IGW_DESTINATION_ADDRESS_NOT_IN_RFC1918_EGRESS"},
		{"out to a shared address", s, flow(web, reach.Addr(ip("100.64.0.1")), 443), "IGW_DESTINATION_ADDRESS_NOT_IN_RFC6598_EGRESS"},
		{"in", s, flow(laptop, web, 443), ""},
		{"in by the gateway", s, flow(reach.At("igw-1"), web, 443), ""},
		{"in without a public address", noPublic("eni-web"), flow(laptop, web, 443), "IGW_PRIVATE_IP_ASSOCIATION_FOR_INGRESS"},
		{"in to an interface that is not in use", with(t, s, "eni-web", func(e *reach.Interface) { e.Attached = false }), flow(laptop, reach.At("eni-web"), 443), "IGW_PRIVATE_IP_ASSOCIATION_FOR_INGRESS"},
		{"in, and the way back is by NAT", reroute(t, s, "rtb-pub", anyone, "nat-1"), flow(laptop, web, 443), "NGW_SOURCE_ADDRESS_REASSIGN"},
		{"detached", edit(s, &reach.InternetGateway{ID: "igw-1"}), flow(web, world, 443), "BAD_STATE_ROUTE"},
		{"in, detached", edit(s, &reach.InternetGateway{ID: "igw-1"}), flow(laptop, web, 443), "NO_POSSIBLE_DESTINATION"},
		{"from a private address", s, flow(reach.Addr(ip("10.9.9.9")), web, 443), "NO_SOURCE_OR_DESTINATION"},
		{"to the gateway", s, flow(web, reach.At("igw-1"), 443), ""},
		{"public address of a neighbour", s, flow(app, reach.Addr(ip("54.0.0.10")), 443), ""},
		// NAT gateway.
		{"NAT", s, flow(app, world, 443), ""},
		{"NAT for UDP", s, udp(app, world, 53), ""},
		{"NAT for ping", s, ping(app, world), ""},
		{"NAT for others", s, reach.Flow{From: app, To: world, Protocol: 50}, "PROTOCOL_RESTRICTION"},
		{"pending", with(t, s, "nat-1", func(n *reach.NATGateway) { n.State = "pending" }), flow(app, world, 443), "BAD_STATE"},
		{"NAT without an elastic address", noPublic("eni-nat"), flow(app, world, 443), "IGW_PUBLIC_IP_ASSOCIATION_FOR_EGRESS"},
		{"NAT's subnet without a route", reroute(t, s, "rtb-pub", anyone, ""), flow(app, world, 443), "NO_ROUTE_TO_DESTINATION"},
		{"NAT's subnet denies ingress", addEntries(t, s, "acl-pub", entry(1, false, false, 443, 443)), flow(app, world, 443), "SUBNET_ACL_RESTRICTION"},
		{"NAT's subnet denies its replies", addEntries(t, s, "acl-pub", entry(1, false, false, 1024, 65535)), flow(app, world, 443), "SUBNET_ACL_RESTRICTION"},
		{"a call to the NAT gateway", s, flow(laptop, reach.Addr(ip("54.0.0.200")), 443), "NO_POSSIBLE_DESTINATION"},
		// Egress-only gateway and IPv6.
		{"IPv6 out", s, flow(web, world6, 443), ""},
		{"IPv6 in", s, flow(reach.Addr(ip("2a00::9")), reach.Addr(ip("2600::10")), 443), ""},
		{"IPv6 out by the egress-only gateway", s, flow(app, world6, 443), ""},
		{"IPv6 in to what has only that", with(t, s, "sg-app", func(g *reach.SecurityGroup) { g.Rules = append(slices.Clone(g.Rules), tcp("x", 443, anyone6)) }),
			flow(reach.Addr(ip("2a00::9")), reach.Addr(ip("2600:0:0:1::10")), 443), "NO_POSSIBLE_DESTINATION"},
		{"IPv6 by a NAT gateway", reroute(t, s, "rtb-priv", anyone6, "nat-1"), flow(app, world6, 443), "PROTOCOL_RESTRICTION"},
		{"families do not mix", s, flow(laptop, reach.Addr(ip("2600::10")), 443), "NO_POSSIBLE_DESTINATION"},
		// Security groups.
		{"group reference", s, flow(web, app, 8080), ""},
		{"not a member", s, flow(reach.At("eni-connect"), app, 8080), "ENI_SG_RULES_MISMATCH"},
		{"prefix list", s, flow(web, app, 9000), ""},
		{"not in the prefix list", edit(s, &reach.PrefixList{ID: "pl-own", CIDRs: cidrs("10.0.0.0/30")}), flow(web, app, 9000), "ENI_SG_RULES_MISMATCH"},
		{"other port", s, flow(web, app, 8081), "ENI_SG_RULES_MISMATCH"},
		{"other protocol", s, udp(web, app, 8080), "ENI_SG_RULES_MISMATCH"},
		{"ICMP type", s, ping(web, app), ""},
		{"no egress rule", with(t, s, "sg-web", func(g *reach.SecurityGroup) { g.Rules = g.Rules[2:] }), flow(web, app, 8080), "ENI_SG_RULES_MISMATCH"},
		{"group without rules", edit(s, &reach.SecurityGroup{ID: "sg-app"}), flow(web, app, 8080), "SG_HAS_NO_RULES"},
		{"two groups", with(t, s, "eni-connect", func(e *reach.Interface) { e.Groups = []string{"sg-connect", "sg-web"} }), flow(reach.At("eni-connect"), app, 8080), ""},
		// Network ACLs.
		{"entry denies", addEntries(t, s, "acl-1", entry(50, false, false, 8080, 8080)), flow(web, app, 8080), "SUBNET_ACL_RESTRICTION"},
		{"lower number allows", addEntries(t, s, "acl-1", entry(50, false, false, 8080, 8080), entry(40, false, true, 8080, 8080)), flow(web, app, 8080), ""},
		{"higher number does not count", addEntries(t, s, "acl-1", entry(200, false, false, 8080, 8080)), flow(web, app, 8080), ""},
		{"replies denied", addEntries(t, s, "acl-1", entry(50, true, false, 1024, 65535)), flow(web, app, 8080), "SUBNET_ACL_RESTRICTION"},
		{"some replies denied", addEntries(t, s, "acl-1", entry(50, true, false, 50000, 65535)), flow(web, app, 8080), ""},
		{"implicit deny", edit(s, &reach.ACL{ID: "acl-1", VPC: "vpc-1", Default: true}), flow(web, app, 8080), "SUBNET_ACL_RESTRICTION"},
		{"none within a subnet", with(t, edit(s, &reach.ACL{ID: "acl-1", VPC: "vpc-1", Default: true}), "sg-app", func(g *reach.SecurityGroup) {
			g.Rules = append(slices.Clone(g.Rules), tcp("x", 8080, "sg-connect"))
		}), flow(reach.At("eni-connect"), app, 8080), ""},
		{"ping's reply denied", addEntries(t, s, "acl-1", reach.Entry{Number: 1, Egress: true, Protocol: reach.ICMP, CIDR: anyone, ICMPType: 0, ICMPCode: -1}), ping(web, app), "SUBNET_ACL_RESTRICTION"},
		{"ping's request is another type", addEntries(t, s, "acl-1", reach.Entry{Number: 1, Egress: true, Protocol: reach.ICMP, CIDR: anyone, ICMPType: 8, ICMPCode: -1}), ping(web, app), ""},
		// Instance Connect endpoint.
		{"Connect endpoint", s, flow(reach.At("eice-1"), app, 22), ""},
		{"its group lets nothing out", edit(s, &reach.SecurityGroup{ID: "sg-connect"}), flow(reach.At("eice-1"), app, 22), "SG_HAS_NO_RULES"},
		{"not ready", with(t, s, "eice-1", func(c *reach.ConnectEndpoint) { c.State = "create-in-progress" }), flow(reach.At("eice-1"), app, 22), "BAD_STATE"},
		{"the client's address is kept", with(t, s, "eice-1", func(c *reach.ConnectEndpoint) { c.PreserveClientIP = true }), flow(reach.At("eice-1"), web, 22), ""},
		{"the client's address is not the endpoint's", s, flow(reach.At("eice-1"), web, 22), "ENI_SG_RULES_MISMATCH"},
		// Interfaces and instances.
		{"stopped", edit(s, &reach.Instance{ID: "i-app", State: "stopped"}), flow(web, app, 8080), "BAD_STATE"},
		{"not there", s, flow(web, reach.At("i-0"), 8080), "NO_SOURCE_OR_DESTINATION"},
		{"not an address of the source", s, flow(reach.Endpoint{ID: "i-web", Address: ip("10.0.0.99")}, app, 8080), "ENI_SOURCE_DEST_CHECK_RESTRICTION"},
		{"no source", s, flow(reach.At("i-0"), app, 8080), "NO_SOURCE_OR_DESTINATION"},
		{"an odd source", s, flow(reach.At("nat-1"), app, 8080), "UNSUPPORTED_COMPONENT"},
		{"delegated prefix", with(t, s, "eni-app", func(e *reach.Interface) { e.Prefixes = cidrs("10.0.1.64/28") }), flow(web, reach.Addr(ip("10.0.1.70")), 8080), ""},
		{"metadata", s, flow(app, reach.Addr(ip("169.254.169.254")), 80), ""},
		{"DNS server", s, udp(app, reach.Addr(ip("10.0.0.2")), 53), ""},
		{"DNS server turned off", with(t, s, "vpc-1", func(v *reach.VPC) { v.DNSSupport = false }), udp(app, reach.Addr(ip("10.0.0.2")), 53), "NO_POSSIBLE_DESTINATION"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantCode(t, tt.net.Check(tt.f), tt.code) })
	}
	v := addEntries(t, s, "acl-1", entry(50, true, false, 50000, 65535)).Check(flow(web, app, 8080))
	if got := v.ReplyPorts.String(); got != "32768-49999" {
		t.Errorf("replies reach ports %s", got)
	}
}

// Peering connects two VPCs and no more.
func TestPeering(t *testing.T) {
	s := closed()
	bastion, operator := reach.At("i-bastion"), reach.At("i-operator")
	third := edit(s,
		&reach.VPC{ID: "vpc-3", CIDRs: cidrs("10.3.0.0/16")}, &reach.Subnet{ID: "subnet-3", VPC: "vpc-3", CIDRs: cidrs("10.3.1.0/24")},
		openACL("acl-3", "vpc-3"), &reach.RouteTable{ID: "rtb-3", VPC: "vpc-3", Main: true, Routes: []reach.Route{
			{Destination: cidr("10.3.0.0/16"), Target: reach.Local}, {Destination: cidr("10.0.0.0/8"), Target: "pcx-3"}, {Destination: anyone, Target: "pcx-3"},
		}},
		&reach.Peering{ID: "pcx-3", State: "active", Requester: reach.PeeringSide{VPC: "vpc-3"}, Accepter: reach.PeeringSide{VPC: "vpc-bastion"}},
		&reach.SecurityGroup{ID: "sg-3", VPC: "vpc-3", Rules: []reach.Rule{everythingOut("sgr-3")}}, eni("eni-3", "vpc-3", "subnet-3", "10.3.1.1", "", "sg-3"),
	)
	for _, tt := range []struct {
		name string
		net  *reach.Snapshot
		f    reach.Flow
		code string
	}{
		{"there and back", s, flow(bastion, operator, 22), ""},
		{"group of the peer", s, flow(bastion, operator, 22), ""},
		{"interface endpoint of the peer", with(t, s, "sg-endpoint", func(g *reach.SecurityGroup) { g.Rules = []reach.Rule{tcp("x", 443, cidr("10.9.0.0/16"))} }),
			flow(bastion, reach.At("vpce-ec2"), 443), ""},
		{"not transitive", third, flow(reach.At("eni-3"), reach.Addr(ip("10.0.1.10")), 22), "PCX_REQUIRES_ADDRESS_IN_VPC_CIDR"},
		{"no way to the internet", third, flow(reach.At("eni-3"), reach.Addr(reach.Outside), 443), "PCX_REQUIRES_ADDRESS_IN_VPC_CIDR"},
		{"no way to a gateway endpoint", s, flow(bastion, reach.At("vpce-s3"), 443), "NO_POSSIBLE_DESTINATION"},
		{"nothing there", s, flow(bastion, reach.Addr(ip("10.0.9.9")), 22), "NO_POSSIBLE_DESTINATION"},
		{"a source from elsewhere", with(t, s, "eni-bastion", func(e *reach.Interface) { e.NoSourceDestCheck = true }),
			flow(reach.Endpoint{ID: "eni-bastion", Address: ip("10.3.0.1")}, reach.Addr(ip("10.0.2.20")), 22), "PCX_REQUIRES_ADDRESS_IN_VPC_CIDR"},
		{"unknown peer", edit(s, "vpc-k8s"), flow(bastion, reach.Addr(ip("10.0.2.20")), 22), "PCX_REQUIRES_ADDRESS_IN_VPC_CIDR"},
		{"disconnected", edit(s, "pcx-1"), flow(bastion, operator, 22), "DISCONNECTED_VPCS"},
		{"deleted", with(t, s, "pcx-1", func(p *reach.Peering) { p.State = "deleted" }), flow(bastion, operator, 22), "BAD_STATE_ROUTE"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantCode(t, tt.net.Check(tt.f), tt.code) })
	}
}

func TestEndpoints(t *testing.T) {
	s := closed()
	worker := reach.At("i-worker")
	before := func(c string) *reach.Snapshot { // a route that leads nowhere, before that of the prefix list
		return with(t, s, "rtb-k8s", func(r *reach.RouteTable) {
			r.Routes = append([]reach.Route{{Destination: cidr(c), Target: "igw-9"}}, r.Routes...)
		})
	}
	if v := s.Check(flow(worker, reach.At("vpce-ec2"), 443)); !v.Reachable || v.Endpoint != "vpce-ec2" {
		t.Error(v.Text())
	}
	if v := s.Check(flow(worker, reach.At("vpce-s3"), 443)); !v.Reachable || v.Endpoint != "vpce-s3" {
		t.Error(v.Text())
	}
	for _, tt := range []struct {
		name string
		net  *reach.Snapshot
		f    reach.Flow
		code string
	}{
		{"the other zone's interface is as good", s, flow(reach.At("i-operator"), reach.At("vpce-ec2"), 443), ""},
		{"interface endpoint not ready", with(t, s, "vpce-ec2", func(e *reach.VPCEndpoint) { e.State = "pending" }), flow(worker, reach.At("vpce-ec2"), 443), "BAD_STATE"},
		{"other port", s, flow(worker, reach.At("vpce-ec2"), 80), "ENI_SG_RULES_MISMATCH"},
		{"gateway endpoint not ready", with(t, s, "vpce-s3", func(e *reach.VPCEndpoint) { e.State = "pending" }), flow(worker, reach.At("vpce-s3"), 443), "BAD_STATE"},
		{"gateway endpoints are for TCP", s, reach.Flow{From: worker, To: reach.At("vpce-s3"), Protocol: reach.UDP, Port: 443}, "VPCE_GATEWAY_PROTOCOL_RESTRICTION"},
		{"replies of S3 denied", addEntries(t, s, "acl-k8s", entry(1, false, false, 1024, 65535)), flow(worker, reach.At("vpce-s3"), 443), "SUBNET_ACL_RESTRICTION"},
		{"a longer prefix than the list's wins", before("54.231.0.0/24"), flow(worker, reach.At("vpce-s3"), 443), "BAD_STATE_ROUTE"},
		{"of equal prefixes the list's loses", before("54.231.0.0/16"), flow(worker, reach.At("vpce-s3"), 443), "BAD_STATE_ROUTE"},
		{"a shorter prefix than the list's loses", before("54.0.0.0/8"), flow(worker, reach.At("vpce-s3"), 443), ""},
		{"endpoints make no connections", s, flow(reach.At("vpce-ec2"), worker, 22), "VPCE_INTRA_VPC_TRAFFIC"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantCode(t, tt.net.Check(tt.f), tt.code) })
	}
}
