package fabric

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A load balancer's interface may connect to a target from the client's address. The target's filters decide by that address, or
// by the groups of the load balancer. The target replies to the client, whom the routes would lead elsewhere, so the fabric
// remembers such connections by what their replies look like, and leads these back to the load balancer.

// dynsetDelete removes an element: NFT_DYNSET_OP_DELETE.
const dynsetDelete = 2

// keeping makes the sets for connections from clients' addresses.
func (p *program) keeping(tuple nftables.SetDatatype) {
	number := nftables.TypeInteger
	// By the target's VPC and what replies look like, the load balancer's interface.
	p.rs.set("kept", nftables.Set{KeyType: tuple, IsMap: true, DataType: number, Dynamic: true, HasTimeout: true, Size: 1 << 18})
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

// keep remembers the connections to a machine that come from clients' addresses. A client that opens a connection of its own with
// the same ports has ended the one before.
func (p *program) keep(chain string, e *Interface) {
	if !p.ports[e.ID].machine || !p.keeps() {
		return
	}
	key := p.key(rule(value(reg(0), u32(p.number(e.VPC)))), true, kindPorts)
	data := reg(p.f.length/2 + 4) // after the key
	change := func(operation uint32, protocol uint32) *expr.Dynset {
		d := p.update("kept", trackTimeouts[protocol])
		d.Operation, d.SrcRegData = operation, data
		return d
	}
	p.rs.add(chain, opens(), key, value(data, u32(0)), change(dynsetDelete, unix.IPPROTO_TCP))
	for _, protocol := range []uint32{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		p.rs.add(chain, marked(expr.CmpOpNeq, flagKept, 0), protocolIs(protocol), key,
			loadMark(data), masked(data, 4, u32(srcMask), u32(0)), change(unix.NFT_DYNSET_OP_UPDATE, protocol))
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
	p.rs.put("keepers", nftables.SetElement{Key: u32(n), VerdictData: goTo(far)})
	p.rs.put("near-keepers", nftables.SetElement{Key: append(u32(subnet), u32(n)...), VerdictData: goTo(near)})
}
