package fabric

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// port sends packets from an attached device to a chain.
func (p *program) port(id, chain string) {
	if x, ok := p.ports[id]; ok {
		p.rs.put("ports", nftables.SetElement{Key: u32(x.index), VerdictData: goTo(chain)})
	}
}

// leaving adds the rule that applies the source's security groups. A nil destination is one whose groups rules cannot
// refer to.
func (p *program) leaving(chain string, to *Interface) {
	bits := uint32(0)
	if to != nil {
		bits = dstBits(p.number(to.ID))
	}
	p.rs.add(chain, setMark(srcMask|flagLost|flagKept, bits))
	p.rs.add(chain, loadMark(reg(0)), masked(reg(0), 4, u32(srcMask), u32(0)), by("egress", reg(0)))
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
		switch foreign := rule(p.f.at(n, p.f.src), notIn("own", reg(0))); {
		case e.Forwards:
			p.rs.add(from, foreign, setMark(0, n|flagLost))
		case p.ports[e.ID].managed:
			p.rs.add(from, foreign, setMark(0, n|flagKept))
		default:
			p.rs.add(from, foreign, dropAs(Spoofed))
		}
		p.rs.add(from, p.f.at(vn, p.f.dst), in("services", reg(0)), setMark(0, finalMark(service, vn, n)), accept)
		if !e.Down {
			p.replies(from, e)
		}
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
	p.keeper(e)
	p.machine(e)
	p.filters(e)
}

// placed is the key of an address and port in a numbered place.
func placed(n uint32, a netip.AddrPort) []byte {
	return slices.Concat(u32(n), a.Addr().AsSlice(), u16(a.Port()), []byte{0, 0})
}

// proxy lets the fabric answer for all addresses that no machine has, at some ports.
func (p *program) proxy(chain string, e *Interface, v *VPC) {
	if p.f.v6 || len(v.Proxy)+len(v.ProxyTCP)+len(v.ProxyUDP) == 0 || !p.ports[e.ID].machine {
		return
	}
	vn := p.number(v.ID)
	noMachine := rule(p.f.at(vn, p.f.dst), notIn("machines", reg(0)), p.f.at(0, p.f.dst), notIn("machines", reg(0)))
	for _, d := range e.Dark {
		p.rs.put("dark", nftables.SetElement{Key: placed(p.number(e.ID), d)})
	}
	if len(e.Dark) > 0 {
		p.rs.add(chain, opens(), noMachine,
			p.f.at(p.number(e.ID), p.f.dst), transport(reg(2), 2, 2), in("dark", reg(0)), drop)
	}
	anywhere := noMachine
	if len(p.Outside) > 0 {
		anywhere = rule(noMachine, p.f.at(0, p.f.dst), notIn("outside", reg(0)))
	}
	for _, port := range v.Proxy {
		p.rs.add(chain, protocolIs(unix.IPPROTO_TCP), transport(reg(0), 2, 2), &expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: u16(port)},
			anywhere, setMark(0, finalMark(service, vn, p.number(e.ID))), accept)
	}
	for _, x := range []struct {
		at       []netip.AddrPort
		set      string
		protocol uint32
	}{{v.ProxyTCP, "proxied-tcp", unix.IPPROTO_TCP}, {v.ProxyUDP, "proxied-udp", unix.IPPROTO_UDP}} {
		if len(x.at) > 0 {
			p.rs.add(chain, protocolIs(x.protocol), noMachine, p.f.at(vn, p.f.dst), transport(reg(2), 2, 2), in(x.set, reg(0)),
				setMark(0, finalMark(service, vn, p.number(e.ID))), accept)
		}
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
	p.keep(chain, e)
	p.rs.add(chain, setMark(0, finalMark(delivered, table, 0)), accept)
}
