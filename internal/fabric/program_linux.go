package fabric

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A Reason says which part of the fabric dropped a packet.
type Reason string

// The reasons, in the order of their numbers in the kernel.
const (
	Spoofed     Reason = "source/destination check"
	Stopped     Reason = "interface not in use"
	DeniedACL   Reason = "network ACL"
	DeniedGroup Reason = "security group"
	NoRoute     Reason = "no route"
	BadRoute    Reason = "blackhole route"
	Nowhere     Reason = "no such address"
	NotPublic   Reason = "address that the internet does not route"
	NoPublic    Reason = "no public address"
	NoGateway   Reason = "no internet gateway"
	NotPeered   Reason = "address outside the peered VPCs"
	BadProtocol Reason = "protocol that the gateway does not carry"
	NoInternet  Reason = "no internet"
)

var reasons = []Reason{
	Spoofed, Stopped, DeniedACL, DeniedGroup, NoRoute, BadRoute, Nowhere, NotPublic, NoPublic, NoGateway, NotPeered, BadProtocol, NoInternet,
}

func dropAs(r Reason) *expr.Verdict { return goTo(fmt.Sprintf("drop%d", slices.Index(reasons, r))) }

// A port is an attached device.
type port struct {
	index   uint32 // of the device
	machine bool   // belongs to a machine
}

// A program is what the rules are made from.
type program struct {
	*State
	f      *family
	rs     *ruleset
	number func(id string) uint32 // of interfaces, VPCs, subnets, ACLs, groups and endpoints
	ports  map[string]port        // attached, by interface ID, endpoint ID, or outside
	// tables are the routing tables of VPCs, and of interfaces that forward.
	vpcs     map[string]*VPC
	subnets  map[string]*Subnet
	ifaces   map[string]*Interface
	acls     map[string]*ACL
	groups   map[string]*Group
	transits map[string]*Transit
}

// outsideID is the outside namespace's in numbers and ports.
const outsideID = "outside"

var notPublic = map[bool][]netip.Prefix{
	false: {
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("127.0.0.0/8"),
	},
	true: {
		netip.MustParsePrefix("::/127"), netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
	},
}

// compile makes the rules of one family.
func compile(st *State, f *family, number func(string) uint32, ports map[string]port) *ruleset {
	p := &program{
		State: st, f: f, rs: newRuleset(), number: number, ports: ports,
		vpcs: map[string]*VPC{}, subnets: map[string]*Subnet{}, ifaces: map[string]*Interface{}, acls: map[string]*ACL{}, groups: map[string]*Group{},
		transits: map[string]*Transit{},
	}
	for i := range st.Transits {
		p.transits[st.Transits[i].ID] = &st.Transits[i]
	}
	for i := range st.VPCs {
		p.vpcs[st.VPCs[i].ID] = &st.VPCs[i]
	}
	for i := range st.Subnets {
		p.subnets[st.Subnets[i].ID] = &st.Subnets[i]
	}
	for i := range st.Interfaces {
		p.ifaces[st.Interfaces[i].ID] = &st.Interfaces[i]
	}
	for i := range st.ACLs {
		p.acls[st.ACLs[i].ID] = &st.ACLs[i]
	}
	for i := range st.Groups {
		p.groups[st.Groups[i].ID] = &st.Groups[i]
	}
	p.fixed()
	for i := range st.ACLs {
		p.acl(&st.ACLs[i])
	}
	p.securityGroups()
	for i := range st.VPCs {
		p.vpc(&st.VPCs[i])
	}
	for i := range st.Subnets {
		p.subnet(&st.Subnets[i])
	}
	for i := range st.Transits {
		p.transit(&st.Transits[i])
	}
	for i := range st.Interfaces {
		p.iface(&st.Interfaces[i])
	}
	return p.rs
}

// key loads the key of a connection: mark loads its first word. Reversed is that of its replies.
func (p *program) key(mark []expr.Any, reversed bool, kind int) []expr.Any {
	words := p.f.length / 4
	a, b := p.f.src, p.f.dst
	x, y := uint32(0), uint32(2)
	if reversed {
		a, b, x, y = b, a, y, x
	}
	out := rule(mark, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(1)}, p.f.addr(reg(2), a), p.f.addr(reg(2+words), b))
	sport, dport := reg(2+2*words), reg(3+2*words)
	switch kind {
	case kindPorts:
		return append(out, transport(sport, x, 2), transport(dport, y, 2))
	case kindEcho:
		return append(out, transport(sport, 4, 2), transport(dport, 4, 2))
	case kindRequest, kindReply:
		// As if the requester had the identifier as its port, and the other end none.
		if (kind == kindReply) != reversed {
			sport, dport = dport, sport
		}
		return append(out, transport(sport, 4, 2), value(dport, u32(0)))
	}
	return append(out, value(sport, u32(0)), value(dport, u32(0)))
}

// What the ports of a connection are: ports, the identifier of an echo in both places, or in the requester's, nothing.
const (
	kindPorts = iota
	kindEcho
	kindRequest
	kindReply
	kindOther
)

// kinds calls add for each kind of packet, with the expressions that match it. The last matches all.
func (p *program) kinds(name string, add func(match []expr.Any, kind int, timeout time.Duration)) {
	add(protocolIs(unix.IPPROTO_TCP), kindPorts, trackTimeouts[unix.IPPROTO_TCP])
	add(protocolIs(unix.IPPROTO_UDP), kindPorts, trackTimeouts[unix.IPPROTO_UDP])
	p.rs.add(name, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(0)}, in("ported", reg(0)), back)
	for i, kind := range []int{kindReply, kindRequest} {
		add(rule(protocolIs(p.f.icmp), transport(reg(0), 0, 1), &expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: p.f.echo[i : i+1]}), kind, trackTimeouts[0])
	}
	p.rs.add(name, protocolIs(p.f.icmp), transport(reg(0), 0, 1), in("echo", reg(0)), back)
	add(nil, kindOther, trackTimeouts[0])
}

func (p *program) update(set string, timeout time.Duration) *expr.Dynset {
	return &expr.Dynset{SrcRegKey: reg(0), SetName: set, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: timeout}
}

// fixed makes what does not depend on the network.
func (p *program) fixed() {
	number, address := nftables.TypeInteger, p.f.address
	// A mark, the protocol, two addresses and two ports. The library's own concatenations have at most five parts.
	tuple := nftables.SetDatatype{Name: "tuple", Bytes: 16 + 2*p.f.length}
	remember := nftables.Set{KeyType: tuple, Dynamic: true, HasTimeout: true, Size: 1 << 20}
	place := concat(number, address)
	ranges := nftables.Set{KeyType: place, Concatenation: true, Interval: true}
	rangeMap := ranges
	rangeMap.IsMap, rangeMap.DataType = true, nftables.TypeVerdict
	numberMap := nftables.Set{KeyType: number, IsMap: true, DataType: nftables.TypeVerdict}
	p.rs.set("ports", numberMap) // device → from…
	p.rs.set("track", remember)  // by mark, for both directions
	if p.f.v6 {
		p.rs.set("outbound", remember) // by VPC, connections through egress-only gateways
		p.rs.set("inbound", remember)  // by VPC, connections through internet gateways
	}
	dropped := remember
	dropped.Timeout, dropped.Size = time.Minute, 1<<12
	dropped.KeyType.Bytes += 4 // the reason
	p.rs.set("dropped", dropped)
	p.rs.set("own", ranges)        // interface and its addresses
	p.rs.set("own-vpc", ranges)    // VPC and addresses of its interfaces
	p.rs.set("services", ranges)   // VPC and address
	p.rs.set("machines", ranges)   // VPC and addresses of machines in it and in VPCs that it is peered with, or 0 and public ones
	p.rs.set("near", rangeMap)     // subnet and address → arrive…
	p.rs.set("routes", rangeMap)   // subnet and address → …
	p.rs.set("ingress", rangeMap)  // VPC and address → …, for what comes from an internet gateway with routes of its own
	p.rs.set("transits", rangeMap) // transit and address → landed…
	p.rs.set("landings", rangeMap) // as routes, for what comes from a transit gateway
	p.rs.set("places", rangeMap)   // VPC and address → enter…
	p.rs.set("egress", numberMap)
	p.rs.set("public", rangeMap) // 0 and public address → home…
	p.rs.set("ranges", ranges)   // VPC and its ranges
	exact := nftables.Set{KeyType: place, IsMap: true, DataType: address}
	p.rs.set("outward", exact)  // VPC and private address → public address
	p.rs.set("inward", exact)   // 0 and public address → private address
	p.rs.set("private", ranges) // addresses that the internet does not route
	p.rs.set("outside", ranges) // addresses in the outside namespace
	p.rs.set("ported", nftables.Set{KeyType: nftables.TypeInetProto})
	p.rs.set("echo", nftables.Set{KeyType: nftables.TypeICMPType})
	for _, b := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		p.rs.put("ported", nftables.SetElement{Key: []byte{b}})
	}
	for _, b := range p.f.echo {
		p.rs.put("echo", nftables.SetElement{Key: []byte{b}})
	}
	for _, c := range notPublic[p.f.v6] {
		p.rs.put("private", span(0, c.Addr(), last(c)))
	}
	for _, c := range p.Outside {
		if p.f.has(c) {
			p.rs.put("outside", span(0, c.Masked().Addr(), last(c.Masked())))
		}
	}

	if p.f.v6 { // neighbour discovery
		p.rs.add("pre", protocolIs(unix.IPPROTO_ICMPV6), transport(reg(0), 0, 1),
			&expr.Cmp{Op: expr.CmpOpGte, Register: reg(0), Data: []byte{133}}, &expr.Cmp{Op: expr.CmpOpLte, Register: reg(0), Data: []byte{137}}, accept)
	}
	multicast := netip.MustParsePrefix("224.0.0.0/4") // VPCs do not carry it
	if p.f.v6 {
		multicast = netip.MustParsePrefix("ff00::/8")
	}
	p.rs.add("pre", p.f.within(p.f.dst, multicast), drop)
	p.rs.add("pre", &expr.Meta{Key: expr.MetaKeyIIF, Register: reg(0)}, by("ports", reg(0)))

	for i := range reasons {
		name := fmt.Sprintf("drop%d", i)
		load := func(kind int) []expr.Any {
			key := p.key(nil, false, kind)
			// The key has the reason before the mark, so everything moves by one word.
			for j, e := range key {
				switch e := e.(type) {
				case *expr.Meta:
					key[j] = &expr.Meta{Key: e.Key, Register: e.Register + 1}
				case *expr.Payload:
					moved := *e
					moved.DestRegister++
					key[j] = &moved
				case *expr.Immediate:
					key[j] = &expr.Immediate{Register: e.Register + 1, Data: e.Data}
				}
			}
			return rule(value(reg(0), u32(uint32(i))), loadMark(reg(1)), masked(reg(1), 4, u32(srcMask), u32(0)), key)
		}
		for _, x := range []struct {
			match []expr.Any
			kind  int
		}{
			{rule(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(0)}, in("ported", reg(0))), kindPorts},
			{rule(protocolIs(p.f.icmp), transport(reg(0), 0, 1), in("echo", reg(0))), kindEcho},
			{nil, kindOther},
		} {
			p.rs.add(name, x.match, load(x.kind), p.update("dropped", 0), drop)
		}
		p.rs.add(name, drop) // if the set is full
	}

	// A security group's memory: an established connection passes, and so do replies to one that was let through in
	// the other direction. The first packet of a TCP connection is always judged by the rules.
	for _, way := range []struct {
		name string
		mask uint32
	}{{"out", srcMask}, {"in", dstMask}} {
		own := rule(loadMark(reg(0)), masked(reg(0), 4, u32(way.mask), u32(0)))
		other := rule(own, &expr.Byteorder{SourceRegister: reg(0), DestRegister: reg(0), Op: expr.ByteorderHton, Len: 4, Size: 4})
		known, track := "known-"+way.name, "track-"+way.name
		p.rs.add(known, protocolIs(unix.IPPROTO_TCP), transport(reg(0), 13, 1), masked(reg(0), 1, []byte{0x12}, []byte{0}),
			&expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: []byte{0x02}}, back)
		p.kinds(known, func(match []expr.Any, kind int, timeout time.Duration) {
			p.rs.add(known, match, p.key(own, false, kind), in("track", reg(0)), p.update("track", timeout), setMark(^uint32(0), flagOK), back)
			p.rs.add(known, match, p.key(other, true, kind), in("track", reg(0)), p.update("track", timeout), setMark(^uint32(0), flagOK), back)
		})
		p.kinds(track, func(match []expr.Any, kind int, timeout time.Duration) {
			p.rs.add(track, match, p.key(own, false, kind), p.update("track", timeout), back)
		})
	}

	outside := rule(setMark(0, finalMark(delivered, p.number(outsideID), 0)), accept)
	p.rs.add("internet", value(reg(0), u32(0)), p.f.addr(reg(1), p.f.dst), by("public", reg(0)))
	p.rs.add("internet", value(reg(0), u32(0)), p.f.addr(reg(1), p.f.dst), notIn("outside", reg(0)), dropAs(NoInternet))
	p.rs.add("internet", outside)
	p.rs.add("from-outside", setMark(0, flagLost))
	p.rs.add("from-outside", value(reg(0), u32(0)), p.f.addr(reg(1), p.f.dst), by("public", reg(0)))
	p.rs.add("from-outside", dropAs(Nowhere))
	p.port(outsideID, "from-outside")
}

// port sends packets from an attached device to a chain.
func (p *program) port(id, chain string) {
	if x, ok := p.ports[id]; ok {
		p.rs.put("ports", nftables.SetElement{Key: u32(x.index), VerdictData: goTo(chain)})
	}
}

func (p *program) name(prefix, id string) string { return fmt.Sprint(prefix, p.number(id)) }

func (p *program) acl(a *ACL) {
	for _, way := range []struct {
		prefix  string
		entries []Entry
		offset  uint32
	}{{"acl-in", a.Ingress, p.f.src}, {"acl-out", a.Egress, p.f.dst}} {
		name := p.name(way.prefix, a.ID)
		for _, e := range way.entries {
			if !p.f.has(e.CIDR) {
				continue
			}
			then := dropAs(DeniedACL)
			if e.Allow {
				then = back
			}
			p.rs.add(name, p.f.matches(e.Match), p.f.within(way.offset, e.CIDR), then)
		}
		p.rs.add(name, dropAs(DeniedACL))
	}
}

// throughACL adds the rule that applies a subnet's ACL to a chain.
func (p *program) throughACL(chain, subnet, prefix string) {
	if sn := p.subnets[subnet]; sn != nil && p.acls[sn.ACL] != nil {
		p.rs.add(chain, jump(p.name(prefix, sn.ACL)))
	}
}

func (p *program) securityGroups() {
	referred := map[string]bool{}
	for _, g := range p.Groups {
		for _, way := range []struct {
			prefix string
			rules  []Rule
			offset uint32
		}{{"sg-in", g.Ingress, p.f.src}, {"sg-out", g.Egress, p.f.dst}} {
			name := p.name(way.prefix, g.ID)
			p.rs.add(name)
			for _, wide := range []bool{true, false} { // a rule for all addresses decides about tracking
				for _, r := range way.rules {
					for _, c := range r.CIDRs {
						if !p.f.has(c) || (c.Bits() == 0 && len(r.CIDRs) == 1) != wide {
							continue
						}
						flags := uint32(flagOK)
						if wide {
							flags |= flagAny
						}
						p.rs.add(name, p.f.matches(r.Match), p.f.within(way.offset, c), setMark(^uint32(0), flags), back)
					}
					if r.Group == "" || wide {
						continue
					}
					referred[r.Group] = true
					member := rule(loadMark(reg(0)), masked(reg(0), 4, u32(srcMask|flagLost), u32(0)))
					if way.prefix == "sg-out" {
						member = rule(loadMark(reg(0)), masked(reg(0), 4, u32(dstMask), u32(0)),
							&expr.Byteorder{SourceRegister: reg(0), DestRegister: reg(0), Op: expr.ByteorderHton, Len: 4, Size: 4})
					}
					p.rs.add(name, p.f.matches(r.Match), member, in(p.name("members", r.Group), reg(0)), setMark(^uint32(0), flagOK), back)
				}
			}
		}
	}
	for id := range referred {
		name := p.name("members", id)
		p.rs.set(name, nftables.Set{KeyType: nftables.TypeInteger})
		for _, e := range p.Interfaces {
			if slices.Contains(e.Groups, id) {
				p.rs.put(name, nftables.SetElement{Key: u32(p.number(e.ID))})
			}
		}
	}
}

// leaving adds the rule that applies the source's security groups. A nil destination is one whose groups rules cannot
// refer to.
func (p *program) leaving(chain string, to *Interface) {
	bits := uint32(0)
	if to != nil {
		bits = dstBits(p.number(to.ID))
	}
	p.rs.add(chain, setMark(srcMask|flagLost, bits))
	p.rs.add(chain, loadMark(reg(0)), masked(reg(0), 4, u32(srcMask), u32(0)), by("egress", reg(0)))
}

func (p *program) vpc(v *VPC) {
	n := p.number(v.ID)
	for _, a := range v.Services {
		if a.Is6() == p.f.v6 {
			p.rs.put("services", span(n, a, a))
		}
	}
	for _, c := range v.CIDRs {
		if p.f.has(c) {
			p.rs.put("ranges", span(n, c.Masked().Addr(), last(c.Masked())))
		}
	}
	local := p.name("local", v.ID)
	p.rs.add(local, p.f.at(n, p.f.dst), by("places", reg(0)))
	p.rs.add(local, dropAs(Nowhere))

	if len(v.Ingress) > 0 {
		ingress := p.name("ingress", v.ID)
		p.rs.add(ingress, p.f.at(n, p.f.dst), by("ingress", reg(0)))
		p.rs.add(ingress, goTo(local))
		for _, x := range flatten(v.Ingress, p.f.v6) {
			e := span(n, x.from, x.to)
			e.VerdictData = p.target(&Subnet{VPC: v.ID}, x.Route)
			p.rs.put("ingress", e)
		}
	}

	out := p.name("internet", v.ID)
	p.leaving(out, nil)
	p.rs.add(out, value(reg(0), u32(0)), p.f.addr(reg(1), p.f.dst), in("private", reg(0)), dropAs(NotPublic))
	if p.f.v6 {
		p.rs.add(out, p.f.at(n, p.f.src), notIn("own-vpc", reg(0)), dropAs(Spoofed))
	} else {
		p.rs.add(out, p.f.at(n, p.f.src), &expr.Lookup{SourceRegister: reg(0), SetName: "outward", IsDestRegSet: true, DestRegister: reg(5)},
			p.f.writeAddr(reg(5), p.f.src), setMark(0, flagLost), goTo("internet"))
		p.rs.add(out, dropAs(NoPublic))
	}
	if !p.f.v6 {
		return
	}
	p.rs.add(out, setMark(0, flagLost), goTo("internet"))

	mine := rule(value(reg(0), u32(n)))
	only := p.name("egress-only", v.ID)
	p.leaving(only, nil)
	p.rs.add(only, value(reg(0), u32(0)), p.f.addr(reg(1), p.f.dst), in("private", reg(0)), dropAs(NotPublic))
	p.rs.add(only, p.f.at(n, p.f.src), notIn("own-vpc", reg(0)), dropAs(Spoofed))
	check, note := p.name("reply", v.ID), p.name("note", v.ID)
	p.kinds(check, func(match []expr.Any, kind int, _ time.Duration) {
		p.rs.add(check, match, p.key(mine, true, kind), in("inbound", reg(0)), dropAs(NoGateway))
	})
	p.kinds(note, func(match []expr.Any, kind int, timeout time.Duration) {
		p.rs.add(note, match, p.key(mine, false, kind), p.update("outbound", timeout))
	})
	p.rs.add(only, jump(check))
	p.rs.add(only, jump(note))
	p.rs.add(only, setMark(0, flagLost), goTo("internet"))

	home, solicited, noteIn := p.name("home", v.ID), p.name("solicited", v.ID), p.name("note-in", v.ID)
	p.kinds(solicited, func(match []expr.Any, kind int, _ time.Duration) {
		p.rs.add(solicited, match, p.key(mine, true, kind), in("outbound", reg(0)), goTo(local))
	})
	p.rs.add(home, jump(solicited))
	if v.Gateway {
		p.kinds(noteIn, func(match []expr.Any, kind int, timeout time.Duration) {
			p.rs.add(noteIn, match, p.key(mine, false, kind), p.update("inbound", timeout))
		})
		p.rs.add(home, value(reg(0), u32(0)), p.f.addr(reg(1), p.f.src), in("private", reg(0)), dropAs(NotPublic))
		p.rs.add(home, jump(noteIn))
		p.rs.add(home, goTo(p.inward(v, local)))
	} else {
		p.rs.add(home, dropAs(NoGateway))
	}
	for _, c := range v.CIDRs {
		if p.f.has(c) && !inAny(notPublic[true], c.Addr()) {
			e := span(0, c.Masked().Addr(), last(c.Masked()))
			e.VerdictData = goTo(home)
			p.rs.put("public", e)
		}
	}
}

// inward returns the chain that routes what an internet gateway brings into a VPC: that of the gateway's own route
// table, or otherwise.
func (p *program) inward(v *VPC, otherwise string) string {
	if len(v.Ingress) > 0 {
		return p.name("ingress", v.ID)
	}
	return otherwise
}

func inAny(ps []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
}

// subnet makes the chain of packets that leave a subnet's interfaces.
func (p *program) subnet(sn *Subnet) {
	n, name := p.number(sn.ID), p.name("subnet", sn.ID)
	p.rs.add(name, p.f.at(n, p.f.dst), by("near", reg(0)))
	p.throughACL(name, sn.ID, "acl-out")
	p.rs.add(name, p.f.at(n, p.f.dst), by("routes", reg(0)))
	p.rs.add(name, dropAs(NoRoute))
	for _, x := range flatten(sn.Routes, p.f.v6) {
		e := span(n, x.from, x.to)
		e.VerdictData = p.target(sn, x.Route)
		p.rs.put("routes", e)
	}
}

// target returns the verdict for a route, and makes the chain that it leads to.
func (p *program) target(sn *Subnet, r Route) *expr.Verdict {
	switch r.Kind {
	case Local:
		return goTo(p.name("local", sn.VPC))
	case Internet:
		return goTo(p.name("internet", sn.VPC))
	case EgressOnly:
		if p.f.v6 {
			return goTo(p.name("egress-only", sn.VPC))
		}
		return dropAs(BadProtocol)
	case Peering:
		if p.vpcs[r.Target] == nil {
			break
		}
		here, there := p.number(sn.VPC), p.number(r.Target)
		name := fmt.Sprintf("peer%d-%d", here, there)
		if p.rs.chains[name] == nil {
			p.rs.add(name, p.f.at(there, p.f.dst), notIn("ranges", reg(0)), dropAs(NotPeered))
			p.rs.add(name, p.f.at(here, p.f.src), notIn("ranges", reg(0)), dropAs(NotPeered))
			p.rs.add(name, goTo(p.name("local", r.Target)))
		}
		return goTo(name)
	case Through:
		if p.transits[r.Target] == nil {
			break
		}
		return goTo(p.name("transit", r.Target))
	case NAT, Forward:
		box := p.ifaces[r.Target]
		if box == nil {
			break
		}
		name := p.name("through", box.ID)
		if box.Subnet != sn.ID {
			name = p.name("far-through", box.ID)
			if p.rs.chains[name] == nil {
				p.throughACL(name, box.Subnet, "acl-in")
				p.rs.add(name, goTo(p.name("through", box.ID)))
			}
		}
		return goTo(name)
	case Endpoint:
		name := p.name("endpoint", r.Target)
		if p.rs.chains[name] == nil {
			p.leaving(name, nil)
			p.rs.set("endpoint-protocols", nftables.Set{KeyType: nftables.TypeInetProto})
			for _, b := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_ICMP} {
				p.rs.put("endpoint-protocols", nftables.SetElement{Key: []byte{b}})
			}
			p.rs.add(name, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(0)}, notIn("endpoint-protocols", reg(0)), dropAs(BadProtocol))
			p.rs.add(name, p.f.at(p.number(sn.VPC), p.f.src), notIn("own-vpc", reg(0)), dropAs(Spoofed))
			p.rs.add(name, setMark(0, finalMark(delivered, p.number(r.Target), 0)), accept)
			from := p.name("from-endpoint", r.Target)
			p.rs.add(from, setMark(0, flagLost))
			p.rs.add(from, goTo(p.name("local", sn.VPC)))
			p.port(r.Target, from)
		}
		return goTo(name)
	}
	return dropAs(BadRoute)
}

// transit makes the chain of packets that leave a zone of a VPC for a transit gateway. Rules of security groups behind
// it cannot refer to their source's groups, nor the source's rules to those of the destination.
func (p *program) transit(t *Transit) {
	n, name := p.number(t.ID), p.name("transit", t.ID)
	p.throughACL(name, t.Subnet, "acl-in")
	p.leaving(name, nil)
	p.rs.add(name, setMark(srcMask, flagLost))
	p.rs.add(name, p.f.at(n, p.f.dst), by("transits", reg(0)))
	p.rs.add(name, dropAs(NoRoute))
	for _, x := range flatten(t.Routes, p.f.v6) {
		e := span(n, x.from, x.to)
		if e.VerdictData = dropAs(BadRoute); x.Kind == Enter && p.subnets[x.Target] != nil {
			e.VerdictData = goTo(p.landing(p.subnets[x.Target]))
		}
		p.rs.put("transits", e)
	}
}

// landing makes the chain of packets that enter a VPC from a transit gateway. It is that of the subnet, but does not
// lead to a transit gateway again: chains must not form a loop.
func (p *program) landing(sn *Subnet) string {
	n, name := p.number(sn.ID), p.name("landed", sn.ID)
	if p.rs.chains[name] != nil {
		return name
	}
	p.rs.add(name, p.f.at(n, p.f.dst), by("near", reg(0)))
	p.throughACL(name, sn.ID, "acl-out")
	p.rs.add(name, p.f.at(n, p.f.dst), by("landings", reg(0)))
	p.rs.add(name, dropAs(NoRoute))
	for _, x := range flatten(sn.Routes, p.f.v6) {
		e := span(n, x.from, x.to)
		if e.VerdictData = dropAs(BadRoute); x.Kind != Through {
			e.VerdictData = p.target(sn, x.Route)
		}
		p.rs.put("landings", e)
	}
	return name
}

// iface makes the chains of an interface.
func (p *program) iface(e *Interface) {
	v, sn := p.vpcs[e.VPC], p.subnets[e.Subnet]
	if v == nil || sn == nil {
		return
	}
	n, vn := p.number(e.ID), p.number(e.VPC)
	enter, arrive := p.name("enter", e.ID), p.name("arrive", e.ID)
	place := func(from, to netip.Addr) {
		p.rs.put("own", span(n, from, to))
		p.rs.put("own-vpc", span(vn, from, to))
		near, far := span(p.number(e.Subnet), from, to), span(vn, from, to)
		near.VerdictData, far.VerdictData = goTo(arrive), goTo(enter)
		p.rs.put("near", near)
		p.rs.put("places", far)
	}
	for _, c := range e.Prefixes {
		if p.f.has(c) {
			place(c.Masked().Addr(), last(c.Masked()))
		}
	}
	for i, a := range e.Addresses {
		if a.Private.Is6() != p.f.v6 || inAny(e.Prefixes, a.Private) {
			continue
		}
		place(a.Private, a.Private)
		if !a.Public.IsValid() {
			continue
		}
		home := fmt.Sprint(p.name("home", e.ID), "-", i)
		p.rs.put("outward", nftables.SetElement{Key: append(u32(vn), a.Private.AsSlice()...), Val: a.Public.AsSlice()})
		p.rs.put("inward", nftables.SetElement{Key: append(u32(0), a.Public.AsSlice()...), Val: a.Private.AsSlice()})
		at := span(0, a.Public, a.Public)
		at.VerdictData = goTo(home)
		p.rs.put("public", at)
		if !v.Gateway {
			p.rs.add(home, dropAs(NoGateway))
			continue
		}
		p.rs.add(home, value(reg(0), u32(0)), p.f.addr(reg(1), p.f.src), in("private", reg(0)), dropAs(NotPublic))
		p.rs.add(home, value(reg(0), u32(0)), p.f.addr(reg(1), p.f.dst),
			&expr.Lookup{SourceRegister: reg(0), SetName: "inward", IsDestRegSet: true, DestRegister: reg(5)}, p.f.writeAddr(reg(5), p.f.dst), goTo(p.inward(v, enter)))
	}

	// From the interface.
	from := p.name("from", e.ID)
	p.rs.add(from, setMark(0, n))
	if !e.NAT {
		if e.Forwards {
			p.rs.add(from, p.f.at(n, p.f.src), notIn("own", reg(0)), setMark(0, n|flagLost))
		} else {
			p.rs.add(from, p.f.at(n, p.f.src), notIn("own", reg(0)), dropAs(Spoofed))
		}
		p.rs.add(from, p.f.at(vn, p.f.dst), in("services", reg(0)), setMark(0, finalMark(service, vn, n)), accept)
		p.proxy(from, e, v)
	}
	if e.Down {
		p.rs.add(from, dropAs(Stopped))
	} else {
		p.rs.add(from, goTo(p.name("subnet", e.Subnet)))
	}
	p.port(e.ID, from)

	// To the interface.
	p.throughACL(enter, e.Subnet, "acl-in")
	p.rs.add(enter, goTo(arrive))
	p.leaving(arrive, e)
	p.arrive(arrive, e, vn)

	// Through the interface, which belongs to an instance or a NAT gateway that forwards.
	through := p.name("through", e.ID)
	p.leaving(through, nil)
	switch {
	case e.NAT && p.f.v6:
		p.rs.add(through, dropAs(BadProtocol))
	case e.NAT:
		// What came through a transit gateway has a source elsewhere.
		p.rs.add(through, marked(expr.CmpOpEq, flagLost, 0), p.f.at(vn, p.f.src), notIn("own-vpc", reg(0)), dropAs(Spoofed))
		p.rs.add(through, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(0)}, &expr.Cmp{Op: expr.CmpOpNeq, Register: reg(0), Data: []byte{byte(p.f.icmp)}},
			notIn("ported", reg(0)), dropAs(BadProtocol))
		p.arrive(through, e, n)
	case e.Forwards:
		p.rs.add(through, setMark(srcMask|flagLost, dstBits(n)))
		p.arrive(through, e, n)
	default:
		p.rs.add(through, p.f.at(n, p.f.dst), notIn("own", reg(0)), dropAs(Spoofed))
		p.rs.add(through, setMark(srcMask|flagLost, dstBits(n)))
		p.arrive(through, e, vn)
	}
	p.machine(e)
	p.filters(e)
}

// proxy lets the fabric answer for all addresses that no machine has, at some ports.
func (p *program) proxy(chain string, e *Interface, v *VPC) {
	if p.f.v6 || len(v.Proxy) == 0 || !p.ports[e.ID].machine {
		return
	}
	vn := p.number(v.ID)
	for _, port := range v.Proxy {
		p.rs.add(chain, protocolIs(unix.IPPROTO_TCP), transport(reg(0), 2, 2), &expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: u16(port)},
			p.f.at(vn, p.f.dst), notIn("machines", reg(0)), p.f.at(0, p.f.dst), notIn("machines", reg(0)),
			setMark(0, finalMark(service, vn, p.number(e.ID))), accept)
	}
}

// machine adds the addresses of an interface to those that are not answered by a proxy.
func (p *program) machine(e *Interface) {
	if !p.ports[e.ID].machine {
		return
	}
	near := []uint32{p.number(e.VPC)}
	for _, sn := range p.Subnets {
		for _, r := range sn.Routes {
			if (r.Kind == Peering && r.Target == e.VPC || r.Kind == Through && p.leads(p.transits[r.Target], e.VPC)) && p.vpcs[sn.VPC] != nil && !slices.Contains(near, p.number(sn.VPC)) {
				near = append(near, p.number(sn.VPC))
			}
		}
	}
	for _, vn := range near {
		for _, c := range e.Prefixes {
			if p.f.has(c) {
				p.rs.put("machines", span(vn, c.Masked().Addr(), last(c.Masked())))
			}
		}
		for _, a := range e.Addresses {
			if a.Private.Is6() == p.f.v6 && !inAny(e.Prefixes, a.Private) {
				p.rs.put("machines", span(vn, a.Private, a.Private))
			}
		}
	}
	for _, a := range e.Addresses {
		if a.Public.IsValid() && a.Public.Is6() == p.f.v6 {
			p.rs.put("machines", span(0, a.Public, a.Public))
		}
	}
}

// leads reports whether a transit has a route into a VPC.
func (p *program) leads(t *Transit, vpc string) bool {
	return t != nil && slices.ContainsFunc(t.Routes, func(r Route) bool {
		return r.Kind == Enter && p.subnets[r.Target] != nil && p.subnets[r.Target].VPC == vpc
	})
}

// arrive delivers packets to an interface by a routing table.
func (p *program) arrive(chain string, e *Interface, table uint32) {
	if _, ok := p.ports[e.ID]; e.Down || !ok {
		p.rs.add(chain, dropAs(Stopped))
		return
	}
	if e.NAT {
		table = p.number(e.ID)
	}
	if !e.Ungrouped {
		p.rs.add(chain, jump(p.name("in", e.ID)))
	}
	p.rs.add(chain, setMark(0, finalMark(delivered, table, 0)), accept)
}

// filters makes the chains that apply an interface's groups.
func (p *program) filters(e *Interface) {
	if e.Ungrouped {
		return
	}
	for _, way := range []struct {
		name, prefix string
		egress       bool
	}{{"in", "sg-in", false}, {"out", "sg-out", true}} {
		name := p.name(way.name, e.ID)
		p.rs.add(name, setMark(^uint32(flagOK|flagAny), 0))
		p.rs.add(name, jump("known-"+way.name))
		p.rs.add(name, marked(expr.CmpOpNeq, flagOK, 0), back)
		for _, id := range e.Groups {
			if p.groups[id] != nil {
				p.rs.add(name, jump(p.name(way.prefix, id)))
			}
		}
		p.rs.add(name, marked(expr.CmpOpEq, flagOK, 0), dropAs(DeniedGroup))
		for _, proto := range []uint32{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			if p.openBack(e, way.egress, int(proto)) {
				p.rs.add(name, marked(expr.CmpOpNeq, flagAny, 0), protocolIs(proto), back)
			}
		}
		p.rs.add(name, goTo("track-"+way.name))
	}
	p.rs.put("egress", nftables.SetElement{Key: u32(p.number(e.ID)), VerdictData: jump(p.name("out", e.ID))})
}

// openBack reports whether the rules of the other direction allow all replies to any address. If the rule for a
// connection allows any address too, the connection is not tracked.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/security-group-connection-tracking.html#untracked-connections
func (p *program) openBack(e *Interface, egress bool, proto int) bool {
	for _, id := range e.Groups {
		g := p.groups[id]
		if g == nil {
			continue
		}
		rules := g.Egress
		if egress {
			rules = g.Ingress
		}
		for _, r := range rules {
			if len(r.CIDRs) == 1 && p.f.has(r.CIDRs[0]) && r.CIDRs[0].Bits() == 0 &&
				(r.Protocol == Any || r.Protocol == proto && r.From == 0 && r.To == 65535) {
				return true
			}
		}
	}
	return false
}

// An interval is a part of a route's destination that no longer route covers.
type interval struct {
	from, to netip.Addr
	Route
}

// flatten returns disjoint intervals in which the longest route applies.
func flatten(routes []Route, v6 bool) []interval {
	var out []interval
	var open []Route // nested, the longest last
	var next netip.Addr
	emit := func(to netip.Addr) {
		if n := len(open); n > 0 && next.IsValid() && next.Compare(to) <= 0 {
			out = append(out, interval{next, to, open[n-1]})
		}
	}
	closeUntil := func(a netip.Addr) { // closes routes that end before a, or all if a is invalid
		for n := len(open); n > 0; n = len(open) {
			end := last(open[n-1].Destination)
			if a.IsValid() && end.Compare(a) >= 0 {
				return
			}
			emit(end)
			next = end.Next()
			open = open[:n-1]
		}
	}
	for _, r := range routes { // sorted by address, then length
		if r.Destination.Addr().Is6() != v6 {
			continue
		}
		start := r.Destination.Addr()
		closeUntil(start)
		if p := start.Prev(); p.IsValid() {
			emit(p)
		}
		next = start
		open = append(open, r)
	}
	closeUntil(netip.Addr{})
	return out
}
