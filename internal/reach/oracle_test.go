package reach_test

import (
	"net/netip"
	"slices"

	"github.com/drydock-dev/drydock/internal/reach"
)

// An oracle is a deliberately naive walker: it carries one packet with one source port from place to place, finds
// everything by walking lists, explains nothing and does not use sets. If it and the engine disagree, one of them is
// wrong.
type oracle struct {
	vpcs      []*reach.VPC
	subnets   []*reach.Subnet
	tables    []*reach.RouteTable
	acls      []*reach.ACL
	groups    []*reach.SecurityGroup
	enis      []*reach.Interface
	machines  []*reach.Instance
	igws      []*reach.InternetGateway
	eigws     []*reach.EgressOnlyGateway
	nats      []*reach.NATGateway
	peerings  []*reach.Peering
	vpces     []*reach.VPCEndpoint
	lists     []*reach.PrefixList
	hubs      []*reach.TransitGateway
	spokes    []*reach.TransitAttachment
	hubTables []*reach.TransitTable
}

func newOracle(s *reach.Snapshot) *oracle {
	o := &oracle{}
	for r := range s.All {
		switch r := r.(type) {
		case *reach.VPC:
			o.vpcs = append(o.vpcs, r)
		case *reach.Subnet:
			o.subnets = append(o.subnets, r)
		case *reach.RouteTable:
			o.tables = append(o.tables, r)
		case *reach.ACL:
			o.acls = append(o.acls, r)
		case *reach.SecurityGroup:
			o.groups = append(o.groups, r)
		case *reach.Interface:
			o.enis = append(o.enis, r)
		case *reach.Instance:
			o.machines = append(o.machines, r)
		case *reach.InternetGateway:
			o.igws = append(o.igws, r)
		case *reach.EgressOnlyGateway:
			o.eigws = append(o.eigws, r)
		case *reach.NATGateway:
			o.nats = append(o.nats, r)
		case *reach.Peering:
			o.peerings = append(o.peerings, r)
		case *reach.VPCEndpoint:
			o.vpces = append(o.vpces, r)
		case *reach.TransitGateway:
			o.hubs = append(o.hubs, r)
		case *reach.TransitAttachment:
			o.spokes = append(o.spokes, r)
		case *reach.TransitTable:
			o.hubTables = append(o.hubTables, r)
		case *reach.PrefixList:
			o.lists = append(o.lists, r)
		}
	}
	return o
}

func byID[T reach.Resource](all []T, id string) (T, bool) {
	for _, r := range all {
		if r.ResourceID() == id {
			return r, true
		}
	}
	var none T
	return none, false
}

// A probe is one packet, and what the devices on its way remember.
type probe struct {
	src, dst     netip.Addr
	sport, dport uint16
	proto        reach.Protocol
	from         *reach.Interface // whose groups count
	boxed        bool             // came through a middlebox or a transit gateway
	hubbed       string           // the VPC that it entered through a transit gateway
	reply        bool
}

type memory struct {
	passed  map[[2]string]bool // interface, direction
	natted  []natEntry
	natPort []uint16 // to be taken, in order
	taken   int
	eigw    string
	outside map[netip.Addr]bool // sources the internet saw
	steps   int
}

type natEntry struct {
	box  string
	addr netip.Addr
	port uint16
}

// arrival is where a probe ended: at an interface, or at a kind of place outside.
type arrival struct {
	eni   *reach.Interface
	place string
	p     probe
}

// reachable says whether some source port, and some choice of ports by what
// translates, gets there and back.
func (o *oracle) reachable(from *reach.Interface, client, dst netip.Addr, proto reach.Protocol, port uint16) bool {
	samples := o.samples()
	lo, hi := uint16(32768), uint16(61000)
	if from == nil {
		lo, hi = 1024, 65535
	}
	if proto != reach.TCP && proto != reach.UDP {
		samples, lo, hi = []uint16{1}, 0, 65535
	}
	for _, sport := range samples {
		if sport < lo || sport > hi {
			continue
		}
		for _, n1 := range samples {
			for _, n2 := range samples {
				m := &memory{passed: map[[2]string]bool{}, natPort: []uint16{n1, n2, n2, n2}, outside: map[netip.Addr]bool{}}
				if o.roundTrip(m, from, client, dst, proto, sport, port) {
					return true
				}
				if m.taken < 2 {
					break
				}
			}
			if proto != reach.TCP && proto != reach.UDP {
				break
			}
		}
	}
	return false
}

// samples are ports on either side of every boundary of an ACL entry.
func (o *oracle) samples() []uint16 {
	seen := map[uint16]bool{1024: true, 32768: true, 61000: true, 65535: true}
	for _, a := range o.acls {
		for _, e := range a.Entries {
			for _, p := range []int{int(e.Ports.From) - 1, int(e.Ports.From), int(e.Ports.To), int(e.Ports.To) + 1} {
				if p >= 1024 && p <= 65535 {
					seen[uint16(p)] = true
				}
			}
		}
	}
	var out []uint16
	for p := range seen {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

func (o *oracle) roundTrip(m *memory, from *reach.Interface, client, dst netip.Addr, proto reach.Protocol, sport, port uint16) bool {
	p := probe{src: client, dst: dst, sport: sport, dport: port, proto: proto, from: from}
	var a *arrival
	if from == nil {
		if p.src.Is4() != dst.Is4() {
			return false
		}
		switch {
		case o.home(dst):
			a = o.fromInternet(m, p)
		case isPublic(dst):
			return true
		}
	} else {
		own := netip.Addr{}
		for _, x := range from.Addresses {
			if x.Private.Is4() == dst.Is4() && !own.IsValid() {
				own = x.Private
			}
		}
		if !own.IsValid() || !o.on(from) || !from.Attached {
			return false
		}
		p.src = own
		a = o.leave(m, from, p)
	}
	if a == nil {
		return false
	}
	r := probe{src: a.p.dst, dst: a.p.src, sport: a.p.dport, dport: a.p.sport, proto: proto, from: a.eni, reply: true}
	var back *arrival
	switch {
	case a.eni != nil:
		back = o.leave(m, a.eni, r)
	case a.place == "endpoint":
		for _, e := range o.enis {
			if e.VPC == from.VPC && has(e, r.dst) {
				if o.acl(e.Subnet, false, r) {
					back = o.arrive(m, e, r)
				}
			}
		}
	default:
		if from == nil {
			return true
		}
		back = o.fromInternet(m, r)
	}
	if back == nil {
		return false
	}
	if from == nil {
		return back.place == "internet" && back.p.dst == client && back.p.src == dst
	}
	return back.eni == from && back.p.dport == sport
}

func has(e *reach.Interface, a netip.Addr) bool {
	for _, x := range e.Addresses {
		if x.Private == a {
			return true
		}
	}
	return slices.ContainsFunc(e.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

func isPublic(a netip.Addr) bool {
	if a.Is4() {
		for _, s := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8"} {
			if netip.MustParsePrefix(s).Contains(a) {
				return false
			}
		}
		return true
	}
	return a.IsGlobalUnicast() && !a.IsPrivate()
}

func (o *oracle) on(e *reach.Interface) bool {
	i, ok := byID(o.machines, e.Instance)
	return !ok || i.State == "" || i.State == "running" || i.State == "pending"
}

func (o *oracle) find(vpc string, a netip.Addr) *reach.Interface {
	for _, e := range o.enis {
		if e.VPC == vpc && has(e, a) {
			return e
		}
	}
	return nil
}

func (o *oracle) leave(m *memory, e *reach.Interface, p probe) *arrival {
	if !o.group(m, e, true, p) {
		return nil
	}
	return o.send(m, e, p)
}

func (o *oracle) send(m *memory, e *reach.Interface, p probe) *arrival {
	near := o.find(e.VPC, p.dst)
	if near != nil && near.Subnet == e.Subnet {
		return o.arrive(m, near, p)
	}
	if !o.acl(e.Subnet, true, p) {
		return nil
	}
	return o.forward(m, e, p)
}

// forward routes a packet that has left a subnet.
func (o *oracle) forward(m *memory, e *reach.Interface, p probe) *arrival {
	near := o.find(e.VPC, p.dst)
	if m.steps++; m.steps > 20 {
		return nil
	}
	target := o.route(e.Subnet, p.dst)
	if target == "" {
		return nil
	}
	if target == "local" {
		if near == nil || !o.acl(near.Subnet, false, p) {
			return nil
		}
		return o.arrive(m, near, p)
	}
	if g, ok := byID(o.igws, target); ok {
		return o.toInternet(m, g, e, p)
	}
	if g, ok := byID(o.eigws, target); ok {
		if g.VPC != e.VPC || !p.dst.Is6() || !isPublic(p.dst) || o.find(e.VPC, p.src) == nil || p.reply && m.eigw != g.ID {
			return nil
		}
		if !p.reply {
			m.eigw = g.ID
		}
		p.from = nil
		return o.internet(m, p)
	}
	if n, ok := byID(o.nats, target); ok {
		return o.nat(m, n, e, p)
	}
	if c, ok := byID(o.peerings, target); ok {
		here, there := c.Requester.VPC, c.Accepter.VPC
		if there == e.VPC {
			here, there = there, here
		}
		if here != e.VPC || c.State != "active" || !o.inVPC(there, p.dst) || !o.inVPC(here, p.src) {
			return nil
		}
		far := o.find(there, p.dst)
		if far == nil || !o.acl(far.Subnet, false, p) {
			return nil
		}
		return o.arrive(m, far, p)
	}
	if g, ok := byID(o.hubs, target); ok {
		if e.Type == reach.TypeTransitGateway {
			return nil
		}
		return o.hub(m, g, e, p)
	}
	if v, ok := byID(o.vpces, target); ok {
		if p.reply || v.VPC != e.VPC || v.State != "available" || p.proto != reach.TCP && p.proto != reach.ICMP || o.find(v.VPC, p.src) == nil {
			return nil
		}
		return &arrival{place: "endpoint", p: p}
	}
	if box, ok := byID(o.enis, target); ok {
		if box.VPC == e.VPC && box.Attached && box.Instance != "" && has(box, p.dst) {
			if box.Subnet != e.Subnet && !o.acl(box.Subnet, false, p) {
				return nil
			}
			return o.arrive(m, box, p)
		}
		if box.VPC != e.VPC || !box.Attached || box.Instance == "" || !o.on(box) || !box.NoSourceDestCheck {
			return nil
		}
		if box.Subnet != e.Subnet && !o.acl(box.Subnet, false, p) {
			return nil
		}
		if !o.group(m, box, false, p) {
			return nil
		}
		p.boxed = true
		return o.leave(m, box, p)
	}
	return nil
}

// hub carries a packet through a transit gateway.
func (o *oracle) hub(m *memory, g *reach.TransitGateway, e *reach.Interface, p probe) *arrival {
	zone := func(subnet string) string { sn, _ := byID(o.subnets, subnet); return sn.Zone }
	var from, to *reach.TransitAttachment
	for _, a := range o.spokes {
		if a.Gateway == g.ID && a.VPC == e.VPC && a.State == "available" {
			from = a
		}
	}
	if from == nil || p.dst.Is6() && !from.IPv6 {
		return nil
	}
	i := slices.IndexFunc(from.Subnets, func(sn string) bool { return zone(sn) == zone(e.Subnet) })
	if i < 0 || !o.acl(from.Subnets[i], false, p) {
		return nil
	}
	best, rank := "", -1
	consider := func(c netip.Prefix, attachment string, kind int) {
		if n := c.Bits()*3 + kind; c.Contains(p.dst) && n > rank {
			best, rank = attachment, n
		}
	}
	if t, ok := byID(o.hubTables, from.Table); ok {
		for _, r := range t.Routes {
			if pl, ok := byID(o.lists, r.PrefixList); ok {
				for _, c := range pl.CIDRs {
					consider(c, r.Attachment, 1)
				}
			} else {
				consider(r.Destination, r.Attachment, 2)
			}
		}
		for _, a := range o.spokes {
			v, _ := byID(o.vpcs, a.VPC)
			if !slices.Contains(a.Propagates, t.ID) || a.State != "available" {
				continue
			}
			for _, c := range v.CIDRs {
				if c.Addr().Is4() || a.IPv6 {
					consider(c, a.ID, 0)
				}
			}
		}
	}
	to, ok := byID(o.spokes, best)
	if !ok || to.State != "available" || len(to.Subnets) == 0 || p.dst.Is6() && !to.IPv6 {
		return nil
	}
	enter := to.Subnets[0] // the first zone
	for _, sn := range to.Subnets {
		if zone(sn) == zone(e.Subnet) {
			enter = sn
		}
	}
	p.boxed, p.hubbed = true, to.VPC
	if x := o.find(to.VPC, p.dst); x != nil && x.Subnet == enter {
		return o.arrive(m, x, p)
	}
	if !o.acl(enter, true, p) {
		return nil
	}
	return o.forward(m, &reach.Interface{VPC: to.VPC, Subnet: enter, Type: reach.TypeTransitGateway}, p)
}

func (o *oracle) inVPC(id string, a netip.Addr) bool {
	v, ok := byID(o.vpcs, id)
	return ok && slices.ContainsFunc(v.CIDRs, func(c netip.Prefix) bool { return c.Contains(a) })
}

func (o *oracle) nat(m *memory, n *reach.NATGateway, e *reach.Interface, p probe) *arrival {
	box, ok := byID(o.enis, n.Interface)
	if !ok || n.VPC != e.VPC || n.State != "available" || p.reply || !p.src.Is4() || p.hubbed != n.VPC && o.find(n.VPC, p.src) == nil {
		return nil
	}
	if p.proto != reach.TCP && p.proto != reach.UDP && p.proto != reach.ICMP {
		return nil
	}
	for _, t := range m.natted {
		if t.box == box.ID {
			return nil
		}
	}
	if box.Subnet != e.Subnet && !o.acl(box.Subnet, false, p) {
		return nil
	}
	p = o.translate(m, box, p)
	p.from = nil
	return o.send(m, box, p)
}

func (o *oracle) translate(m *memory, box *reach.Interface, p probe) probe {
	m.natted = append(m.natted, natEntry{box.ID, p.src, p.sport})
	p.src, p.sport = box.Addresses[0].Private, m.natPort[min(m.taken, len(m.natPort)-1)]
	m.taken++
	p.from = box
	return p
}

func (o *oracle) toInternet(m *memory, g *reach.InternetGateway, e *reach.Interface, p probe) *arrival {
	if g.VPC != e.VPC || !isPublic(p.dst) {
		return nil
	}
	owner := o.find(g.VPC, p.src)
	if !p.reply && owner != e && e.NoSourceDestCheck && e.Instance != "" {
		family := slices.IndexFunc(e.Addresses, func(a reach.Address) bool { return a.Private.Is6() == p.src.Is6() })
		if family < 0 {
			return nil
		}
		m.natted = append(m.natted, natEntry{e.ID, p.src, p.sport})
		p.src, p.sport, p.from = e.Addresses[family].Private, m.natPort[min(m.taken, len(m.natPort)-1)], e
		m.taken++
		owner = e
	}
	if owner == nil {
		return nil
	}
	if p.src.Is4() {
		i := slices.IndexFunc(owner.Addresses, func(a reach.Address) bool { return a.Private == p.src })
		if i < 0 || !owner.Attached || !owner.Addresses[i].Public.IsValid() {
			return nil
		}
		p.src = owner.Addresses[i].Public
	}
	p.from = nil
	if !p.reply {
		m.outside[p.src] = true
	}
	return o.internet(m, p)
}

func (o *oracle) home(a netip.Addr) bool {
	for _, e := range o.enis {
		for _, x := range e.Addresses {
			if x.Public == a && a.IsValid() {
				return true
			}
		}
	}
	if a.Is6() {
		return slices.ContainsFunc(o.vpcs, func(v *reach.VPC) bool { return o.inVPC(v.ID, a) })
	}
	return false
}

func (o *oracle) internet(m *memory, p probe) *arrival {
	if o.home(p.dst) {
		return o.fromInternet(m, p)
	}
	return &arrival{place: "internet", p: p}
}

func (o *oracle) fromInternet(m *memory, p probe) *arrival {
	var e *reach.Interface
	for _, x := range o.enis {
		for _, a := range x.Addresses {
			if p.dst.Is4() && a.Public == p.dst || p.dst.Is6() && a.Private == p.dst {
				e = x
				if p.dst.Is4() {
					p.dst = a.Private
				}
				break
			}
		}
		if e != nil {
			break
		}
	}
	if e == nil {
		return nil
	}
	if p.reply && p.dst.Is6() && m.eigw != "" {
		if g, _ := byID(o.eigws, m.eigw); g != nil && g.VPC == e.VPC {
			if !o.acl(e.Subnet, false, p) {
				return nil
			}
			return o.arrive(m, e, p)
		}
	}
	gateway := slices.ContainsFunc(o.igws, func(g *reach.InternetGateway) bool { return g.VPC == e.VPC })
	if !gateway || !isPublic(p.src) || !e.Attached {
		return nil
	}
	p.from = nil
	if !o.acl(e.Subnet, false, p) {
		return nil
	}
	return o.arrive(m, e, p)
}

func (o *oracle) arrive(m *memory, e *reach.Interface, p probe) *arrival {
	if !e.Attached {
		return nil
	}
	if n := len(m.natted); p.reply && n > 0 && m.natted[n-1].box == e.ID {
		t := m.natted[n-1]
		m.natted = m.natted[:n-1]
		if e.Type != reach.TypeNATGateway && !o.group(m, e, false, p) {
			return nil
		}
		p.dst, p.dport, p.from = t.addr, t.port, nil
		if e.Type != reach.TypeNATGateway && !o.group(m, e, true, p) {
			return nil
		}
		return o.send(m, e, p)
	}
	if e.Type == reach.TypeNATGateway || !o.group(m, e, false, p) || !o.on(e) {
		return nil
	}
	if !p.reply {
		for _, v := range o.vpces {
			if slices.Contains(v.Interfaces, e.ID) && v.State != "available" {
				return nil
			}
		}
	}
	return &arrival{eni: e, p: p}
}

func (o *oracle) acl(subnet string, egress bool, p probe) bool {
	sn, ok := byID(o.subnets, subnet)
	if !ok {
		return false
	}
	var acl *reach.ACL
	for _, a := range o.acls {
		if slices.Contains(a.Subnets, subnet) || acl == nil && a.Default && a.VPC == sn.VPC {
			acl = a
			if slices.Contains(a.Subnets, subnet) {
				break
			}
		}
	}
	if acl == nil {
		return true
	}
	remote := p.src
	if egress {
		remote = p.dst
	}
	number, allowed := reach.LastEntry+1, false
	for _, e := range acl.Entries {
		if e.Egress != egress || e.Number >= number || !e.CIDR.Contains(remote) {
			continue
		}
		if e.Protocol != reach.AllProtocols && e.Protocol != p.proto {
			continue
		}
		if e.Protocol == reach.TCP || e.Protocol == reach.UDP {
			if p.dport < e.Ports.From || p.dport > e.Ports.To {
				continue
			}
		}
		number, allowed = e.Number, e.Allow
	}
	return allowed
}

func (o *oracle) route(subnet string, dst netip.Addr) string {
	sn, _ := byID(o.subnets, subnet)
	var table *reach.RouteTable
	for _, t := range o.tables {
		if slices.Contains(t.Subnets, subnet) {
			table = t
		}
	}
	if table == nil {
		for _, t := range o.tables {
			if t.Main && t.VPC == sn.VPC {
				table = t
			}
		}
	}
	if table == nil {
		return ""
	}
	for bits := 128; bits >= 0; bits-- {
		fallback := ""
		for _, r := range table.Routes {
			if r.PrefixList == "" {
				if r.Destination.Bits() == bits && r.Destination.Contains(dst) {
					return r.Target
				}
				continue
			}
			if pl, ok := byID(o.lists, r.PrefixList); ok {
				for _, c := range pl.CIDRs {
					if c.Bits() == bits && c.Contains(dst) {
						fallback = r.Target
					}
				}
			}
		}
		if fallback != "" {
			return fallback
		}
	}
	return ""
}

func (o *oracle) group(m *memory, e *reach.Interface, egress bool, p probe) bool {
	if e.Type == reach.TypeNATGateway {
		return true
	}
	way, other := "in", "out"
	if egress {
		way, other = other, way
	}
	if p.reply && m.passed[[2]string{e.ID, other}] {
		return true
	}
	remote, far := p.src, p.from
	if egress {
		remote, far = p.dst, o.straight(e, p.dst)
	}
	for _, id := range e.Groups {
		g, ok := byID(o.groups, id)
		if !ok {
			continue
		}
		for _, r := range g.Rules {
			if r.Egress != egress || r.Protocol != reach.AllProtocols && r.Protocol != p.proto {
				continue
			}
			if (r.Protocol == reach.TCP || r.Protocol == reach.UDP) && (p.dport < r.Ports.From || p.dport > r.Ports.To) {
				continue
			}
			ok := r.CIDR.IsValid() && r.CIDR.Contains(remote)
			if pl, found := byID(o.lists, r.PrefixList); found {
				ok = slices.ContainsFunc(pl.CIDRs, func(c netip.Prefix) bool { return c.Contains(remote) })
			}
			if r.Group != "" {
				ok = far != nil && slices.Contains(far.Groups, r.Group) && (egress || !p.boxed)
			}
			if ok {
				if !p.reply {
					m.passed[[2]string{e.ID, way}] = true
				}
				return true
			}
		}
	}
	return false
}

// straight returns the interface that a packet reaches without anything in between.
func (o *oracle) straight(e *reach.Interface, dst netip.Addr) *reach.Interface {
	near := o.find(e.VPC, dst)
	if near != nil && near.Subnet == e.Subnet {
		return near
	}
	target := o.route(e.Subnet, dst)
	if target == "local" {
		return near
	}
	if c, ok := byID(o.peerings, target); ok && c.State == "active" {
		if c.Requester.VPC == e.VPC {
			return o.find(c.Accepter.VPC, dst)
		}
		return o.find(c.Requester.VPC, dst)
	}
	return nil
}
