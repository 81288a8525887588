package fabric

import (
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

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
