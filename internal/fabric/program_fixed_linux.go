package fabric

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

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
	p.keeping(tuple)
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
	p.rs.set("outward", exact)                                                                        // VPC and private address → public address
	p.rs.set("inward", exact)                                                                         // 0 and public address → private address
	p.rs.set("dark", nftables.Set{KeyType: concat(number, address, nftables.TypeInetService)})        // interface, address and port of a proxy
	p.rs.set("proxied-tcp", nftables.Set{KeyType: concat(number, address, nftables.TypeInetService)}) // VPC, address and port
	p.rs.set("proxied-udp", nftables.Set{KeyType: concat(number, address, nftables.TypeInetService)})
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
	for _, x := range p.outside() {
		p.rs.put("outside", span(0, x.from, x.to))
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
		p.rs.add(known, opens(), back)
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
