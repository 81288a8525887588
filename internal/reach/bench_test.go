package reach_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

// large is a VPC of 200 subnets, 500 groups of 50 rules and 5,000 interfaces.
func large() []reach.Resource {
	out := []reach.Resource{
		&reach.VPC{ID: "vpc-1", CIDRs: cidrs("10.0.0.0/16"), DNSSupport: true, DNSHostnames: true},
		openACL("acl-1", "vpc-1"),
		&reach.InternetGateway{ID: "igw-1", VPC: "vpc-1"},
		&reach.NATGateway{ID: "nat-1", VPC: "vpc-1", Subnet: "subnet-0", State: "available", Interface: "eni-nat"},
		public(&reach.Interface{ID: "eni-nat", VPC: "vpc-1", Subnet: "subnet-0", Type: reach.TypeNATGateway, Attached: true, Addresses: []reach.Address{{Private: ip("10.0.0.250")}}}, "54.0.0.1"),
	}
	for i := range 200 {
		subnet := fmt.Sprintf("subnet-%d", i)
		out = append(out, &reach.Subnet{ID: subnet, VPC: "vpc-1", Zone: "us-east-1a", CIDRs: cidrs(fmt.Sprintf("10.0.%d.0/24", i))})
		t := &reach.RouteTable{ID: fmt.Sprintf("rtb-%d", i), VPC: "vpc-1", Main: i == 0, Subnets: []string{subnet}, Routes: []reach.Route{{Destination: cidr("10.0.0.0/16"), Target: reach.Local}}}
		for n := range 48 {
			t.Routes = append(t.Routes, reach.Route{Destination: cidr(fmt.Sprintf("10.%d.0.0/16", n+1)), Target: "pcx-1"})
		}
		target := "nat-1"
		if i == 0 {
			target = "igw-1"
		}
		t.Routes = append(t.Routes, reach.Route{Destination: anyone, Target: target})
		out = append(out, t)
		acl := openACL(fmt.Sprintf("acl-s%d", i), "vpc-1")
		acl.Default, acl.Subnets = false, []string{subnet}
		for n := range 18 {
			acl.Entries = append(acl.Entries, reach.Entry{Number: n + 1, Egress: n%2 == 0, Protocol: reach.TCP, CIDR: cidr(fmt.Sprintf("192.0.2.%d/32", n)), Ports: reach.PortRange{To: 65535}})
		}
		out = append(out, acl)
	}
	for i := range 500 {
		g := &reach.SecurityGroup{ID: fmt.Sprintf("sg-%d", i), VPC: "vpc-1", Rules: []reach.Rule{everythingOut("sgr")}}
		for n := range 49 {
			g.Rules = append(g.Rules, tcp(fmt.Sprintf("sgr-%d", n), uint16(1000+n), fmt.Sprintf("sg-%d", (i+n)%500)))
		}
		out = append(out, g)
	}
	for i := range 5000 {
		n, host := i%200, 4+i/200
		instance := fmt.Sprintf("i-%d", i)
		out = append(out, &reach.Instance{ID: instance})
		var groups []string
		for k := range 5 {
			groups = append(groups, fmt.Sprintf("sg-%d", (i+100*k)%500))
		}
		e := eni(fmt.Sprintf("eni-%d", i), "vpc-1", fmt.Sprintf("subnet-%d", n), fmt.Sprintf("10.0.%d.%d", n, host), instance, groups...)
		for k := range 4 {
			e.Addresses = append(e.Addresses, reach.Address{Private: netip.AddrFrom4([4]byte{10, 0, byte(n), byte(50 + 4*(i/200) + k)})})
		}
		out = append(out, e)
	}
	return out
}

func build(resources []reach.Resource) *reach.Snapshot {
	d := reach.New("us-east-1").Edit()
	for _, r := range resources {
		d.Put(r)
	}
	return d.Snapshot()
}

func BenchmarkSnapshot(b *testing.B) {
	resources := large()
	for b.Loop() {
		build(resources)
	}
}

func BenchmarkFlow(b *testing.B) {
	s := build(large())
	for _, bb := range []struct {
		name string
		f    reach.Flow
		ok   bool
	}{
		{"within the VPC", flow(reach.At("i-7"), reach.At("i-1233"), 1026), false},
		{"out by NAT", flow(reach.At("i-7"), reach.Addr(reach.Outside), 443), true},
		{"by the last rule", flow(reach.At("i-48"), reach.At("i-1000"), 1048), true},
	} {
		b.Run(bb.name, func(b *testing.B) {
			if v := s.Check(bb.f); v.Reachable != bb.ok {
				b.Fatal(v.Text())
			}
			for b.Loop() {
				s.Check(bb.f)
			}
		})
	}
}

// BenchmarkUpdate makes the next snapshot after one change.
func BenchmarkUpdate(b *testing.B) {
	resources := large()
	s := build(resources)
	for _, bb := range []struct{ name, id string }{{"interface", "eni-7"}, {"security group", "sg-7"}, {"route table", "rtb-7"}} {
		b.Run(bb.name, func(b *testing.B) {
			r := s.Get(bb.id)
			next := s
			for b.Loop() {
				d := next.Edit()
				d.Put(r)
				next = d.Snapshot()
			}
		})
	}
}
