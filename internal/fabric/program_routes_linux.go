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

func (p *program) vpc(v *VPC) {
	n := p.number(v.ID)
	for _, a := range v.Services {
		if a.Is6() == p.f.v6 {
			p.rs.put("services", span(n, a, a))
		}
	}
	for set, all := range map[string][]netip.AddrPort{"proxied-tcp": v.ProxyTCP, "proxied-udp": v.ProxyUDP} {
		for _, a := range all {
			if a.Addr().Is4() && !p.f.v6 {
				p.rs.put(set, nftables.SetElement{Key: placed(n, a)})
			}
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
			p.rs.add(name, marked(expr.CmpOpEq, flagKept, 0), p.f.at(here, p.f.src), notIn("ranges", reg(0)), dropAs(NotPeered))
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

// leads reports whether a transit has a route into a VPC.
func (p *program) leads(t *Transit, vpc string) bool {
	return t != nil && slices.ContainsFunc(t.Routes, func(r Route) bool {
		return r.Kind == Enter && p.subnets[r.Target] != nil && p.subnets[r.Target].VPC == vpc
	})
}

// outside returns the parts of Outside that are not Inside.
func (p *program) outside() []interval {
	kinds := map[netip.Prefix]Kind{}
	for _, c := range p.Outside {
		kinds[c.Masked()] = Internet
	}
	for _, c := range p.Inside {
		kinds[c.Masked()] = Blackhole
	}
	var all []Route
	for c, kind := range kinds {
		all = append(all, Route{Destination: c, Kind: kind})
	}
	slices.SortFunc(all, byDestination)
	return slices.DeleteFunc(flatten(all, p.f.v6), func(x interval) bool { return x.Kind != Internet })
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
