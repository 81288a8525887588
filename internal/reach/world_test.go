package reach_test

import (
	"net/netip"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

func cidr(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func ip(s string) netip.Addr     { return netip.MustParseAddr(s) }

func cidrs(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i := range s {
		out[i] = cidr(s[i])
	}
	return out
}

// edit returns the snapshot with changes.
func edit(s *reach.Snapshot, changes ...any) *reach.Snapshot {
	d := s.Edit()
	for _, c := range changes {
		switch c := c.(type) {
		case string:
			d.Delete(c)
		case reach.Resource:
			d.Put(c)
		}
	}
	return d.Snapshot()
}

// with returns the snapshot with one resource changed by fn, which gets a copy.
func with[T any, P interface {
	*T
	reach.Resource
}](t testing.TB, s *reach.Snapshot, id string, fn func(P)) *reach.Snapshot {
	t.Helper()
	old, ok := s.Get(id).(P)
	if !ok {
		t.Fatalf("no %s", id)
	}
	next := *old
	fn(&next)
	return edit(s, P(&next))
}

var (
	anyone  = cidr("0.0.0.0/0")
	anyone6 = cidr("::/0")
)

func allow(number int, egress bool, from netip.Prefix) reach.Entry {
	return reach.Entry{Number: number, Egress: egress, Allow: true, Protocol: reach.AllProtocols, CIDR: from}
}

func openACL(id, vpc string) *reach.ACL {
	return &reach.ACL{ID: id, VPC: vpc, Default: true, Entries: []reach.Entry{
		allow(100, false, anyone), allow(100, true, anyone), allow(101, false, anyone6), allow(101, true, anyone6),
	}}
}

func tcp(id string, port uint16, peer any) reach.Rule {
	r := reach.Rule{ID: id, Protocol: reach.TCP, Ports: reach.PortRange{From: port, To: port}}
	switch peer := peer.(type) {
	case netip.Prefix:
		r.CIDR = peer
	case string:
		if peer[:3] == "pl-" {
			r.PrefixList = peer
		} else {
			r.Group = peer
		}
	}
	return r
}

func out(r reach.Rule) reach.Rule { r.Egress = true; return r }

func everythingOut(id string) reach.Rule {
	return reach.Rule{ID: id, Egress: true, Protocol: reach.AllProtocols, CIDR: anyone}
}

func eni(id, vpc, subnet, address, instance string, groups ...string) *reach.Interface {
	return &reach.Interface{
		ID: id, VPC: vpc, Subnet: subnet, Zone: "us-east-1a", Type: "interface", Instance: instance, Attached: true, Primary: true,
		Addresses: []reach.Address{{Private: ip(address)}}, Groups: groups,
	}
}

func public(e *reach.Interface, address string) *reach.Interface {
	e.Addresses[0].Public = ip(address)
	return e
}

// closed is the network of an EKS cluster without internet: a VPC of workers, with
// endpoints for AWS's APIs, peered with the VPC of a bastion, which is public.
func closed() *reach.Snapshot {
	d := reach.New("us-east-1").Edit()
	for _, r := range []reach.Resource{
		&reach.VPC{ID: "vpc-k8s", CIDRs: cidrs("10.0.0.0/16"), DNSSupport: true, DNSHostnames: true},
		&reach.Subnet{ID: "subnet-a", VPC: "vpc-k8s", Zone: "us-east-1a", CIDRs: cidrs("10.0.1.0/24")},
		&reach.Subnet{ID: "subnet-b", VPC: "vpc-k8s", Zone: "us-east-1b", CIDRs: cidrs("10.0.2.0/24")},
		openACL("acl-k8s", "vpc-k8s"),
		&reach.RouteTable{ID: "rtb-k8s", VPC: "vpc-k8s", Main: true, Routes: []reach.Route{
			{Destination: cidr("10.0.0.0/16"), Target: reach.Local},
			{Destination: cidr("10.9.0.0/16"), Target: "pcx-1"},
			{PrefixList: "pl-s3", Target: "vpce-s3"},
		}},
		&reach.VPC{ID: "vpc-bastion", CIDRs: cidrs("10.9.0.0/16"), DNSSupport: true, DNSHostnames: true},
		&reach.Subnet{ID: "subnet-p", VPC: "vpc-bastion", Zone: "us-east-1a", CIDRs: cidrs("10.9.1.0/24")},
		openACL("acl-bastion", "vpc-bastion"),
		&reach.InternetGateway{ID: "igw-1", VPC: "vpc-bastion"},
		&reach.RouteTable{ID: "rtb-bastion", VPC: "vpc-bastion", Main: true, Routes: []reach.Route{
			{Destination: cidr("10.9.0.0/16"), Target: reach.Local},
			{Destination: cidr("10.0.0.0/16"), Target: "pcx-1"},
			{Destination: anyone, Target: "igw-1"},
		}},
		&reach.Peering{ID: "pcx-1", State: "active", Requester: reach.PeeringSide{VPC: "vpc-bastion", ResolveRemote: true}, Accepter: reach.PeeringSide{VPC: "vpc-k8s", ResolveRemote: true}},
		&reach.PrefixList{ID: "pl-s3", Name: "com.amazonaws.us-east-1.s3", CIDRs: cidrs("54.231.0.0/16", "52.216.0.0/15")},
		&reach.VPCEndpoint{ID: "vpce-s3", VPC: "vpc-k8s", Type: reach.GatewayEndpoint, Service: "com.amazonaws.us-east-1.s3", State: "available", PrefixList: "pl-s3"},
		&reach.VPCEndpoint{
			ID: "vpce-ec2", VPC: "vpc-k8s", Type: reach.InterfaceEndpoint, Service: "com.amazonaws.us-east-1.ec2", State: "available",
			Interfaces: []string{"eni-ec2a", "eni-ec2b"}, PrivateNames: []string{"ec2.us-east-1.amazonaws.com"},
			Names: []string{"vpce-ec2-x.ec2.us-east-1.vpce.amazonaws.com", "vpce-ec2-x-us-east-1b.ec2.us-east-1.vpce.amazonaws.com"},
		},
		&reach.VPCEndpoint{
			ID: "vpce-dkr", VPC: "vpc-k8s", Type: reach.InterfaceEndpoint, Service: "com.amazonaws.us-east-1.ecr.dkr", State: "available",
			Interfaces: []string{"eni-dkr"}, PrivateNames: []string{"dkr.ecr.us-east-1.amazonaws.com", "*.dkr.ecr.us-east-1.amazonaws.com"},
		},
		&reach.SecurityGroup{ID: "sg-worker", VPC: "vpc-k8s", Rules: []reach.Rule{
			everythingOut("sgr-wo"), tcp("sgr-w10250", 10250, "sg-cp"), tcp("sgr-w22", 22, "sg-operator"),
		}},
		&reach.SecurityGroup{ID: "sg-cp", VPC: "vpc-k8s", Rules: []reach.Rule{
			tcp("sgr-c443", 443, "sg-worker"), out(tcp("sgr-c10250", 10250, "sg-worker")),
		}},
		&reach.SecurityGroup{ID: "sg-endpoint", VPC: "vpc-k8s", Rules: []reach.Rule{tcp("sgr-e443", 443, cidr("10.0.0.0/16"))}},
		&reach.SecurityGroup{ID: "sg-operator", VPC: "vpc-k8s", Rules: []reach.Rule{everythingOut("sgr-oo"), tcp("sgr-o22", 22, "sg-bastion")}},
		&reach.SecurityGroup{ID: "sg-bastion", VPC: "vpc-bastion", Rules: []reach.Rule{everythingOut("sgr-bo"), tcp("sgr-b22", 22, cidr("203.0.113.10/32"))}},
		&reach.Instance{ID: "i-worker", Name: "worker"}, eni("eni-worker", "vpc-k8s", "subnet-a", "10.0.1.10", "i-worker", "sg-worker"),
		&reach.Instance{ID: "i-operator", Name: "operator"}, eni("eni-operator", "vpc-k8s", "subnet-b", "10.0.2.20", "i-operator", "sg-operator"),
		&reach.Instance{ID: "i-bastion", Name: "bastion"}, public(eni("eni-bastion", "vpc-bastion", "subnet-p", "10.9.1.5", "i-bastion", "sg-bastion"), "54.0.0.5"),
		eni("eni-ec2a", "vpc-k8s", "subnet-a", "10.0.1.100", "", "sg-endpoint"),
		zone(eni("eni-ec2b", "vpc-k8s", "subnet-b", "10.0.2.100", "", "sg-endpoint"), "us-east-1b"),
		eni("eni-dkr", "vpc-k8s", "subnet-a", "10.0.1.101", "", "sg-endpoint"),
		eni("eni-cpa", "vpc-k8s", "subnet-a", "10.0.1.50", "", "sg-cp"),
		zone(eni("eni-cpb", "vpc-k8s", "subnet-b", "10.0.2.50", "", "sg-cp"), "us-east-1b"),
		&reach.HostName{
			Name: "abc.gr7.us-east-1.eks.amazonaws.com", VPC: "vpc-k8s", Private: []netip.Addr{ip("10.0.1.50"), ip("10.0.2.50")},
			Public: []netip.Addr{ip("52.94.7.7")}, PublicFrom: cidrs("203.0.113.0/24"), Owner: "arn:aws:eks:us-east-1:000000000000:cluster/demo",
		},
	} {
		d.Put(r)
	}
	return d.Snapshot()
}

func zone(e *reach.Interface, z string) *reach.Interface { e.Zone = z; return e }

const clusterName = "abc.gr7.us-east-1.eks.amazonaws.com"

var laptop = reach.Addr(reach.Client)

func flow(from reach.Endpoint, to reach.Endpoint, port uint16) reach.Flow {
	return reach.Flow{From: from, To: to, Protocol: reach.TCP, Port: port}
}
