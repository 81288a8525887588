package fabric

import (
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A load balancer's interface may connect to a target from the client's address. The target's filters decide by that address, or
// by the groups of the load balancer. The target replies to the client, whom the routes would lead elsewhere, so the fabric
// remembers such connections by what their replies look like, and leads these back to the load balancer.

// dynsetDelete removes an element: NFT_DYNSET_OP_DELETE.
const dynsetDelete = 2

// keptTimeouts are how long a connection is remembered after its last packet from the load balancer. One that TCP has not closed
// sends some: keepalives if it is idle, which are Go's default of 15 seconds, and probes if the target does not read, at most
// two minutes apart. So what is over is soon forgotten, and the set does not fill up.
var keptTimeouts = map[uint32]time.Duration{unix.IPPROTO_TCP: 150 * time.Second, unix.IPPROTO_UDP: trackTimeouts[unix.IPPROTO_UDP]}

// keeping makes the sets for connections from clients' addresses.
func (p *program) keeping(tuple nftables.SetDatatype) {
	number := nftables.TypeInteger
	// By the target's VPC and what replies look like, the load balancer's interface.
	p.rs.set("kept", nftables.Set{KeyType: tuple, IsMap: true, DataType: number, Dynamic: true, HasTimeout: true, Size: 1 << 18})
	p.rs.set("same", nftables.Set{KeyType: concat(number, number)})                                                      // twice the same interface
	p.rs.set("keepers", nftables.Set{KeyType: number, IsMap: true, DataType: nftables.TypeVerdict})                      // interface → …
	p.rs.set("near-keepers", nftables.Set{KeyType: concat(number, number), IsMap: true, DataType: nftables.TypeVerdict}) // its subnet and it → …
}

// keeps reports whether interfaces that AWS manages are attached.
func (p *program) keeps() bool {
	for _, x := range p.ports {
		if x.managed {
			return true
		}
	}
	return false
}

// keep remembers the connections to a machine that come from clients' addresses. What another interface sends with the same
// addresses and ports, such as the client's own, ends the one before: TCP when it opens a connection, UDP with each packet.
func (p *program) keep(chain string, e *Interface) {
	if !p.ports[e.ID].machine || !p.keeps() {
		return
	}
	key := p.key(rule(value(reg(0), u32(p.number(e.VPC)))), true, kindPorts)
	words := p.f.length/2 + 4
	data, old := reg(words), reg(words+1) // after the key
	source := rule(loadMark(data), masked(data, 4, u32(srcMask), u32(0)))
	change := func(operation uint32, protocol uint32) *expr.Dynset {
		d := p.update("kept", keptTimeouts[protocol])
		d.Operation, d.SrcRegData = operation, data
		return d
	}
	p.rs.add(chain, opens(), key, value(data, u32(0)), change(dynsetDelete, unix.IPPROTO_TCP))
	p.rs.add(chain, protocolIs(unix.IPPROTO_UDP), key, source, &expr.Lookup{SourceRegister: reg(0), SetName: "kept", IsDestRegSet: true, DestRegister: old},
		notIn("same", data), change(dynsetDelete, unix.IPPROTO_UDP))
	for _, protocol := range []uint32{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		p.rs.add(chain, marked(expr.CmpOpNeq, flagKept, 0), protocolIs(protocol), key, source, change(unix.NFT_DYNSET_OP_UPDATE, protocol))
	}
}

// replies leads a machine's replies to clients back to the load balancer.
func (p *program) replies(chain string, e *Interface) {
	if !p.ports[e.ID].machine || !p.keeps() {
		return
	}
	// This is the only rule that most packets pass.
	found := rule(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(0)}, in("ported", reg(0)),
		p.key(rule(value(reg(0), u32(p.number(e.VPC)))), false, kindPorts),
		&expr.Lookup{SourceRegister: reg(0), SetName: "kept", IsDestRegSet: true, DestRegister: reg(1)})
	name := p.name("replies", e.Subnet)
	p.rs.add(chain, found, goTo(name))
	if p.rs.chains[name] != nil {
		return
	}
	p.rs.add(name, found, value(reg(0), u32(p.number(e.Subnet))), by("near-keepers", reg(0)))
	p.throughACL(name, e.Subnet, "acl-out")
	p.rs.add(name, found, by("keepers", reg(1)))
	p.rs.add(name, dropAs(Nowhere)) // the load balancer is gone
}

// keeper makes the chains of replies to an interface that connects from clients' addresses.
func (p *program) keeper(e *Interface) {
	if !p.ports[e.ID].managed {
		return
	}
	n, subnet := p.number(e.ID), p.number(e.Subnet)
	near, far := p.name("keep", e.ID), p.name("far-keep", e.ID)
	p.throughACL(far, e.Subnet, "acl-in")
	p.rs.add(far, goTo(near))
	p.leaving(near, e)
	p.arrive(near, e, n)
	p.rs.put("same", nftables.SetElement{Key: append(u32(n), u32(n)...)})
	p.rs.put("keepers", nftables.SetElement{Key: u32(n), VerdictData: goTo(far)})
	p.rs.put("near-keepers", nftables.SetElement{Key: append(u32(subnet), u32(n)...), VerdictData: goTo(near)})
}
