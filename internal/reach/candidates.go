package reach

import (
	"net/netip"
	"slices"
)

// OutsideAddresses returns one internet address for each range of the internet that a rule or an ACL entry names. If
// any internet address is allowed, one of these is.
func (s *Snapshot) OutsideAddresses() []netip.Addr {
	seen := map[netip.Addr]bool{}
	add := func(p netip.Prefix) {
		if p.IsValid() && p.Addr().Is4() && p.Bits() > 0 {
			a := p.Masked().Addr()
			if p.Bits() < 31 {
				a = a.Next()
			}
			if public(a) {
				seen[a] = true
			}
		}
	}
	for _, r := range s.resources.all {
		switch r := r.(type) {
		case *SecurityGroup:
			for _, rule := range r.Rules {
				add(rule.CIDR)
			}
		case *ACL:
			for _, e := range r.Entries {
				add(e.CIDR)
			}
		}
	}
	out := make([]netip.Addr, 0, len(seen))
	for a := range seen {
		out = append(out, a)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// PortsOfInterest returns ports of a range such that if any port of the range gets through somewhere, one of these
// does: the first port of the range and the first of every rule and entry.
func (s *Snapshot) PortsOfInterest(protocol Protocol, in PortRange) []uint16 {
	if in.From == in.To || !protocol.Ported() {
		return []uint16{in.From}
	}
	seen := map[uint16]bool{}
	add := func(p Protocol, r PortRange) {
		if p == protocol && r.From >= in.From && r.From <= in.To {
			seen[r.From] = true
		}
		if p == protocol && r.To < in.To && r.To >= in.From {
			seen[r.To+1] = true // the port after a denied range
		}
	}
	for _, r := range s.resources.all {
		switch r := r.(type) {
		case *SecurityGroup:
			for _, rule := range r.Rules {
				add(rule.Protocol, rule.Ports)
			}
		case *ACL:
			for _, e := range r.Entries {
				add(e.Protocol, e.Ports)
			}
		}
	}
	delete(seen, in.From)
	out := make([]uint16, 0, len(seen))
	for p := range seen {
		out = append(out, p)
	}
	slices.Sort(out)
	return append([]uint16{in.From}, out...)
}
