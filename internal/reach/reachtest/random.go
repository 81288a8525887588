// Package reachtest makes random networks for tests of package reach and of packages that must behave like it.
package reachtest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/reach"
)

// A World is a random network.
type World struct {
	*reach.Snapshot
	// Destinations are addresses worth sending to, Sources the IDs of interfaces worth sending from.
	Destinations []netip.Addr
	Sources      []string
	// Services are Kubernetes Services on its machines.
	Services []Service
}

// A maker builds random networks from few values, so that they interact.
type maker struct {
	*rand.Rand
	pods *rand.Rand
	hubs *rand.Rand // transit gateways
	d    *reach.Draft
	// destinations are addresses worth sending to, sources interfaces worth
	// sending from.
	destinations []netip.Addr
	sources      []string
}

// Pick returns one of the values.
func Pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func pick[T any](m *maker, of ...T) T { return Pick(m.Rand, of...) }

// likely is true n times out of ten.
func (m *maker) likely(n int) bool { return m.IntN(10) < n }

var interesting = []uint16{22, 80, 443, 1023, 1024, 32767, 32768, 50000, 61000, 65535}

func (m *maker) ports() reach.PortRange {
	switch m.IntN(4) {
	case 0:
		return reach.PortRange{From: 0, To: 65535}
	case 1:
		return reach.PortRange{From: 1024, To: 65535}
	case 2:
		p := pick(m, interesting...)
		return reach.PortRange{From: p, To: p}
	}
	a, b := pick(m, interesting...), pick(m, interesting...)
	return reach.PortRange{From: min(a, b), To: max(a, b)}
}

func (m *maker) protocol() reach.Protocol {
	return pick(m, reach.AllProtocols, reach.TCP, reach.TCP, reach.UDP, reach.ICMP)
}

func (m *maker) cidr() netip.Prefix {
	return pick(m, anyone, anyone, anyone6, cidr("10.0.0.0/16"), cidr("10.1.0.0/16"), cidr("10.0.1.0/24"), cidr("10.0.2.0/24"),
		cidr("10.2.0.0/16"), cidr("203.0.113.10/32"), cidr("54.0.0.0/8"), cidr("2600:0:0:100::/56"), cidr("3.5.0.0/22"))
}

func (m *maker) acl(id, vpc string, subnets ...string) {
	a := &reach.ACL{ID: id, VPC: vpc, Subnets: subnets, Default: len(subnets) == 0}
	for n := range m.IntN(5) {
		a.Entries = append(a.Entries, reach.Entry{
			Number: 10*n + 10, Egress: m.likely(5), Allow: m.likely(6), Protocol: m.protocol(), CIDR: m.cidr(),
			Ports: m.ports(), ICMPType: -1, ICMPCode: -1,
		})
	}
	if m.likely(9) {
		a.Entries = append(a.Entries, allow(100, true, anyone), allow(100, false, anyone), allow(101, true, anyone6), allow(101, false, anyone6))
	}
	m.Shuffle(len(a.Entries), func(i, j int) { a.Entries[i], a.Entries[j] = a.Entries[j], a.Entries[i] })
	m.d.Put(a)
}

func (m *maker) group(id, vpc string) {
	g := &reach.SecurityGroup{ID: id, VPC: vpc}
	if m.likely(7) {
		g.Rules = append(g.Rules, reach.Rule{Egress: true, Protocol: reach.AllProtocols, CIDR: anyone}, reach.Rule{Egress: true, Protocol: reach.AllProtocols, CIDR: anyone6})
	}
	if m.likely(5) {
		g.Rules = append(g.Rules, reach.Rule{Protocol: reach.AllProtocols, CIDR: anyone}, reach.Rule{Protocol: reach.AllProtocols, CIDR: anyone6})
	}
	for range m.IntN(5) {
		r := reach.Rule{Egress: m.likely(3), Protocol: m.protocol(), Ports: m.ports(), ICMPType: -1, ICMPCode: -1}
		switch m.IntN(5) {
		case 0:
			r.Group = pick(m, "sg-00", "sg-01", "sg-10", "sg-11", "sg-20")
		case 1:
			r.PrefixList = pick(m, "pl-s3", "pl-own")
		default:
			r.CIDR = m.cidr()
		}
		g.Rules = append(g.Rules, r)
	}
	m.d.Put(g)
}

func (m *maker) vpc(n int) {
	id := fmt.Sprintf("vpc-%d", n)
	six := fmt.Sprintf("2600:0:0:%x00::", n+1)
	m.d.Put(&reach.VPC{ID: id, CIDRs: cidrs(fmt.Sprintf("10.%d.0.0/16", n), six+"/56"), DNSSupport: true})
	m.acl(fmt.Sprintf("acl-%d", n), id)
	for i := range 2 {
		m.group(fmt.Sprintf("sg-%d%d", n, i), id)
	}
	if m.likely(9) {
		m.d.Put(&reach.InternetGateway{ID: fmt.Sprintf("igw-%d", n), VPC: id})
	}
	if m.likely(6) {
		m.d.Put(&reach.EgressOnlyGateway{ID: fmt.Sprintf("eigw-%d", n), VPC: id})
	}
	if m.likely(5) {
		m.d.Put(&reach.VPCEndpoint{ID: fmt.Sprintf("vpce-s3%d", n), VPC: id, Type: reach.GatewayEndpoint, State: pick(m, "available", "available", "pending"), PrefixList: "pl-s3"})
	}
	nat := fmt.Sprintf("nat-%d", n)
	box := fmt.Sprintf("eni-%d1b", n) // an instance that may forward
	for i := range 3 {
		subnet := fmt.Sprintf("subnet-%d%d", n, i)
		zone := "us-east-1" + string(rune('a'+i))
		m.d.Put(&reach.Subnet{ID: subnet, VPC: id, Zone: zone, CIDRs: cidrs(fmt.Sprintf("10.%d.%d.0/24", n, i), fmt.Sprintf("2600:0:0:%x%02x::/64", n+1, i))})
		if m.likely(4) {
			m.acl(fmt.Sprintf("acl-%d%d", n, i), id, subnet)
		}
		t := &reach.RouteTable{ID: fmt.Sprintf("rtb-%d%d", n, i), VPC: id, Main: i == 0, Routes: []reach.Route{
			{Destination: cidr(fmt.Sprintf("10.%d.0.0/16", n)), Target: reach.Local}, {Destination: cidr(six + "/56"), Target: reach.Local},
		}}
		if i > 0 && m.likely(7) {
			t.Subnets = []string{subnet}
		}
		if m.likely(7) {
			t.Routes = append(t.Routes, reach.Route{Destination: anyone, Target: pick(m, fmt.Sprintf("igw-%d", n), fmt.Sprintf("igw-%d", n), nat, nat, box)})
		}
		if m.likely(2) { // to the wrong peer
			t.Routes = append(t.Routes, reach.Route{Destination: cidr("10.7.0.0/16"), Target: fmt.Sprintf("pcx-%d%d", min(n, 1), max(n, 1))})
		}
		if m.likely(8) {
			t.Routes = append(t.Routes, reach.Route{Destination: anyone6, Target: pick(m, fmt.Sprintf("igw-%d", n), fmt.Sprintf("eigw-%d", n))})
		}
		if m.likely(5) {
			t.Routes = append(t.Routes, reach.Route{PrefixList: "pl-s3", Target: fmt.Sprintf("vpce-s3%d", n)})
		}
		for other := range 3 {
			if other != n && m.likely(7) {
				t.Routes = append(t.Routes, reach.Route{Destination: cidr(fmt.Sprintf("10.%d.0.0/16", other)), Target: fmt.Sprintf("pcx-%d%d", min(n, other), max(n, other))})
			}
		}
		if m.likely(2) {
			t.Routes = append(t.Routes, reach.Route{Destination: cidr(fmt.Sprintf("10.%d.%d.0/24", n, m.IntN(3))), Target: box})
		}
		m.Shuffle(len(t.Routes), func(i, j int) { t.Routes[i], t.Routes[j] = t.Routes[j], t.Routes[i] })
		m.spoke(n, t)
		m.d.Put(t)
		for _, letter := range []string{"a", "b"} {
			m.machine(n, i, id, subnet, zone, letter)
		}
	}
	if m.likely(7) {
		e := &reach.Interface{ID: "eni-nat" + nat, VPC: id, Subnet: fmt.Sprintf("subnet-%d0", n), Type: reach.TypeNATGateway, Attached: true,
			Addresses: []reach.Address{{Private: ip(fmt.Sprintf("10.%d.0.200", n))}}}
		if m.likely(8) {
			e.Addresses[0].Public = ip(fmt.Sprintf("54.%d.0.200", n))
		}
		m.d.Put(e)
		m.d.Put(&reach.NATGateway{ID: nat, VPC: id, Subnet: e.Subnet, State: pick(m, "available", "available", "available", "pending"), Interface: e.ID})
		m.destinations = append(m.destinations, ip(fmt.Sprintf("54.%d.0.200", n)), e.Addresses[0].Private)
	}
	if m.likely(4) {
		e := &reach.Interface{ID: fmt.Sprintf("eni-ep%d", n), VPC: id, Subnet: fmt.Sprintf("subnet-%d2", n), Zone: "us-east-1a", Type: reach.TypeVPCEndpoint, Attached: true,
			Primary: true, Addresses: []reach.Address{{Private: ip(fmt.Sprintf("10.%d.2.100", n))}}, Groups: []string{fmt.Sprintf("sg-%d0", n)}}
		m.d.Put(e)
		m.d.Put(&reach.VPCEndpoint{ID: fmt.Sprintf("vpce-%d", n), VPC: id, Type: reach.InterfaceEndpoint, State: pick(m, "available", "available", "deleting"), Interfaces: []string{e.ID}})
		m.destinations = append(m.destinations, e.Addresses[0].Private)
	}
}

// spoke makes a VPC's route table use the transit gateway instead of peering connections or the way out.
func (m *maker) spoke(n int, t *reach.RouteTable) {
	if m.hubs.IntN(10) >= 4 {
		return
	}
	for i := range t.Routes {
		if r := &t.Routes[i]; strings.HasPrefix(r.Target, "pcx-") && m.hubs.IntN(10) < 8 || r.Destination == anyone && n > 0 && m.hubs.IntN(10) < 5 {
			r.Target = "tgw-0"
		}
	}
	if m.hubs.IntN(10) < 3 {
		t.Routes = append(t.Routes, reach.Route{Destination: cidr("2600::/16"), Target: "tgw-0"})
	}
	if m.hubs.IntN(10) < 5 {
		t.Routes = append(t.Routes, reach.Route{Destination: cidr("10.0.0.0/8"), Target: "tgw-0"})
	}
}

// hub makes a transit gateway with up to two route tables and attachments of the VPCs.
func (m *maker) hub(vpcs int) {
	h := m.hubs
	m.d.Put(&reach.TransitGateway{ID: "tgw-0", State: "available"})
	tables := []*reach.TransitTable{{ID: "tgw-rtb-0", Gateway: "tgw-0"}, {ID: "tgw-rtb-1", Gateway: "tgw-0"}}
	for n := range vpcs {
		if h.IntN(10) < 1 {
			continue
		}
		a := &reach.TransitAttachment{
			ID: fmt.Sprintf("tgw-attach-%d", n), Gateway: "tgw-0", VPC: fmt.Sprintf("vpc-%d", n), State: Pick(h, "available", "available", "available", "available", "deleted"),
			IPv6: h.IntN(10) < 7, Table: Pick(h, "tgw-rtb-0", "tgw-rtb-0", "tgw-rtb-0", "tgw-rtb-1", ""),
		}
		for i := range 3 {
			if h.IntN(10) < 8 {
				a.Subnets = append(a.Subnets, fmt.Sprintf("subnet-%d%d", n, i))
			}
		}
		for _, t := range tables {
			if h.IntN(10) < 8 {
				a.Propagates = append(a.Propagates, t.ID)
			}
			if h.IntN(10) < 3 {
				t.Routes = append(t.Routes, reach.TransitRoute{Destination: cidr(fmt.Sprintf("10.%d.%d.0/24", h.IntN(3), h.IntN(3))), Attachment: Pick(h, a.ID, a.ID, "")})
			}
		}
		m.d.Put(a)
	}
	for _, t := range tables {
		if h.IntN(10) < 7 { // a central way out
			t.Routes = append(t.Routes, reach.TransitRoute{Destination: anyone, Attachment: "tgw-attach-0"})
		}
		if h.IntN(10) < 2 {
			t.Routes = append(t.Routes, reach.TransitRoute{PrefixList: "pl-own", Attachment: Pick(h, "tgw-attach-0", "tgw-attach-1")})
		}
		var kept []reach.TransitRoute // one static route for each destination
		for _, r := range t.Routes {
			if !slices.ContainsFunc(kept, func(k reach.TransitRoute) bool { return k.Destination == r.Destination && k.PrefixList == r.PrefixList }) {
				kept = append(kept, r)
			}
		}
		t.Routes = kept
		m.d.Put(t)
	}
}

// PodHosts are the last bytes of addresses for pods: a secondary one, and one of a delegated prefix.
var PodHosts = []byte{20, 70}

func (m *maker) machine(n, i int, vpc, subnet, zone, letter string) {
	id := fmt.Sprintf("%d%d%s", n, i, letter)
	host := map[string]int{"a": 10, "b": 11}[letter]
	e := &reach.Interface{ID: "eni-" + id, VPC: vpc, Subnet: subnet, Zone: zone, Type: "interface", Attached: m.likely(9), Primary: true,
		Addresses: []reach.Address{{Private: ip(fmt.Sprintf("10.%d.%d.%d", n, i, host))}}, Groups: []string{fmt.Sprintf("sg-%d%d", n, m.IntN(2))}}
	if m.likely(3) {
		e.Groups = []string{fmt.Sprintf("sg-%d0", n), fmt.Sprintf("sg-%d1", n)}
	}
	if m.likely(5) {
		e.Addresses[0].Public = ip(fmt.Sprintf("54.%d.%d.%d", n, i, host))
		m.destinations = append(m.destinations, e.Addresses[0].Public)
	}
	if m.likely(6) {
		e.Addresses = append(e.Addresses, reach.Address{Private: ip(fmt.Sprintf("2600:0:0:%x%02x::%x", n+1, i, host))})
		m.destinations = append(m.destinations, e.Addresses[1].Private)
	}
	if e.Attached && m.likely(9) {
		e.Instance = "i-" + id
		m.d.Put(&reach.Instance{ID: e.Instance, State: pick(m, "running", "running", "running", "running", "running", "running", "running", "pending", "", "stopped")})
	}
	pods := m.pods
	if letter == "a" && pods.IntN(10) < 4 {
		pod := reach.Address{Private: ip(fmt.Sprintf("10.%d.%d.20", n, i))}
		if pods.IntN(10) < 3 {
			pod.Public = ip(fmt.Sprintf("54.%d.%d.20", n, i))
			m.destinations = append(m.destinations, pod.Public)
		}
		e.Addresses = append(e.Addresses, pod)
		m.destinations = append(m.destinations, pod.Private)
	}
	if letter == "b" && pods.IntN(10) < 4 {
		e.Prefixes = cidrs(fmt.Sprintf("10.%d.%d.64/28", n, i))
		m.destinations = append(m.destinations, ip(fmt.Sprintf("10.%d.%d.70", n, i)))
	}
	e.NoSourceDestCheck = letter == "b" && m.likely(7)
	m.d.Put(e)
	m.sources = append(m.sources, e.ID)
	m.destinations = append(m.destinations, e.Addresses[0].Private)
}

// Random returns the network for a seed.
func Random(seed uint64) *World {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 7)), pods: rand.New(rand.NewPCG(seed, 11)), hubs: rand.New(rand.NewPCG(seed, 13)), d: reach.New("us-east-1").Edit()}
	m.d.Put(&reach.PrefixList{ID: "pl-s3", CIDRs: cidrs("3.5.0.0/22")})
	m.d.Put(&reach.PrefixList{ID: "pl-own", CIDRs: cidrs("10.0.1.0/24", "203.0.113.0/24")})
	vpcs := 1 + m.IntN(3)
	for n := range vpcs {
		m.vpc(n)
	}
	for a := range vpcs {
		for b := a + 1; b < vpcs; b++ {
			if m.likely(8) {
				m.d.Put(&reach.Peering{ID: fmt.Sprintf("pcx-%d%d", a, b), State: pick(m, "active", "active", "active", "pending-acceptance"),
					Requester: reach.PeeringSide{VPC: fmt.Sprintf("vpc-%d", a)}, Accepter: reach.PeeringSide{VPC: fmt.Sprintf("vpc-%d", b)}})
			}
		}
	}
	m.hub(vpcs)
	m.destinations = append(m.destinations, ip("3.5.0.9"), ip("198.51.100.4"), ip("10.0.0.99"), ip("10.7.0.1"), ip("2001:db8::1"), ip("192.168.1.1"), ip("2001:db8::1"), ip("3.5.0.10"), ip("198.51.100.5"))
	w := &World{Snapshot: m.d.Snapshot(), Destinations: m.destinations, Sources: m.sources}
	w.Services = services(rand.New(rand.NewPCG(seed, 17)), w)
	return w
}

func cidr(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func ip(s string) netip.Addr     { return netip.MustParseAddr(s) }

func cidrs(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i := range s {
		out[i] = cidr(s[i])
	}
	return out
}

var (
	anyone  = cidr("0.0.0.0/0")
	anyone6 = cidr("::/0")
)

func allow(number int, egress bool, from netip.Prefix) reach.Entry {
	return reach.Entry{Number: number, Egress: egress, Allow: true, Protocol: reach.AllProtocols, CIDR: from}
}
