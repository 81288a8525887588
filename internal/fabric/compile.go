package fabric

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/drydock-dev/drydock/internal/reach"
)

// localServices are answered by the host of an instance, in every VPC.
var localServices = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("169.254.169.253"), netip.MustParseAddr("169.254.169.123"),
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::253"), netip.MustParseAddr("fd00:ec2::123"),
}

// Compile returns the State of a network.
func Compile(s *reach.Snapshot) *State {
	st := &State{}
	for r := range s.All {
		switch r := r.(type) {
		case *reach.VPC:
			v := VPC{ID: r.ID, CIDRs: r.CIDRs}
			if g := s.Gateway(r.ID); g != nil {
				v.Gateway, v.Ingress = true, tableRoutes(s, s.IngressTable(g.ID), &reach.Subnet{VPC: r.ID})
			}
			for _, a := range localServices {
				if r.DNSSupport || a != localServices[1] && a != localServices[4] {
					v.Services = append(v.Services, a)
				}
			}
			if a, ok := resolver(r); ok && r.DNSSupport {
				v.Services = append(v.Services, a)
			}
			st.VPCs = append(st.VPCs, v)
		case *reach.Subnet:
			sn := Subnet{ID: r.ID, VPC: r.VPC, CIDRs: r.CIDRs, Routes: routes(s, r)}
			if a := s.ACL(r); a != nil {
				sn.ACL = a.ID
			}
			st.Subnets = append(st.Subnets, sn)
			st.addTransits(s, r)
		case *reach.ACL:
			a := ACL{ID: r.ID}
			for _, e := range r.Entries { // sorted by the snapshot
				to := &a.Ingress
				if e.Egress {
					to = &a.Egress
				}
				*to = append(*to, Entry{Match: match(e.Protocol, e.Ports, e.ICMPType, e.ICMPCode), Allow: e.Allow, CIDR: e.CIDR})
			}
			st.ACLs = append(st.ACLs, a)
		case *reach.SecurityGroup:
			g := Group{ID: r.ID}
			for _, x := range r.Rules {
				to := &g.Ingress
				if x.Egress {
					to = &g.Egress
				}
				rule := Rule{Match: match(x.Protocol, x.Ports, x.ICMPType, x.ICMPCode)}
				switch {
				case x.CIDR.IsValid():
					rule.CIDRs = []netip.Prefix{x.CIDR}
				case x.PrefixList != "":
					if pl, ok := s.Get(x.PrefixList).(*reach.PrefixList); ok {
						rule.CIDRs = pl.CIDRs
					}
				default:
					rule.Group = x.Group
				}
				*to = append(*to, rule)
			}
			st.Groups = append(st.Groups, g)
		case *reach.Interface:
			st.Interfaces = append(st.Interfaces, compileInterface(s, r))
		}
	}
	slices.SortFunc(st.VPCs, func(a, b VPC) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(st.Subnets, func(a, b Subnet) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(st.Transits, func(a, b Transit) int { return cmp.Compare(a.ID, b.ID) })
	st.Transits = slices.CompactFunc(st.Transits, func(a, b Transit) bool { return a.ID == b.ID }) // of subnets in one zone
	slices.SortFunc(st.ACLs, func(a, b ACL) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(st.Groups, func(a, b Group) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(st.Interfaces, func(a, b Interface) int { return cmp.Compare(a.ID, b.ID) })
	return st
}

func compileInterface(s *reach.Snapshot, r *reach.Interface) Interface {
	e := Interface{
		ID: r.ID, VPC: r.VPC, Subnet: r.Subnet, Prefixes: r.Prefixes, Groups: r.Groups, Ungrouped: r.Ungrouped(),
		Forwards: r.NoSourceDestCheck, NAT: r.Type == reach.TypeNATGateway, Down: !r.Attached || !s.Passable(r),
	}
	for _, a := range r.Addresses {
		e.Addresses = append(e.Addresses, Address{Private: a.Private, Public: a.Public})
	}
	return e
}

// resolver returns the address of a VPC's DNS server: the base of its first range plus two.
func resolver(v *reach.VPC) (netip.Addr, bool) {
	for _, c := range v.CIDRs {
		if c.Addr().Is4() {
			return c.Masked().Addr().Next().Next(), true
		}
	}
	return netip.Addr{}, false
}

func match(p reach.Protocol, ports reach.PortRange, icmpType, icmpCode int) Match {
	m := Match{Protocol: int(p)}
	switch p {
	case reach.TCP, reach.UDP:
		m.From, m.To = ports.From, ports.To
	case reach.ICMP, reach.ICMPv6:
		m.ICMPType, m.ICMPCode = icmpType, icmpCode
	}
	return m
}

// routes returns the routes of a subnet, one for each destination. Of routes with the same destination, the local one
// comes first, then those with a CIDR, then those with a prefix list.
func routes(s *reach.Snapshot, sn *reach.Subnet) []Route {
	return tableRoutes(s, s.Table(sn), sn)
}

// tableRoutes returns the routes of a table for a subnet.
func tableRoutes(s *reach.Snapshot, t *reach.RouteTable, sn *reach.Subnet) []Route {
	if t == nil {
		return nil
	}
	type ranked struct {
		Route
		rank int
	}
	best := map[netip.Prefix]ranked{}
	add := func(p netip.Prefix, r reach.Route, rank int) {
		p = p.Masked()
		if old, ok := best[p]; ok && old.rank <= rank {
			return
		}
		kind, target := target(s, sn, r.Target)
		best[p] = ranked{Route{p, kind, target}, rank}
	}
	for _, r := range t.Routes {
		switch {
		case r.PrefixList != "":
			if pl, ok := s.Get(r.PrefixList).(*reach.PrefixList); ok {
				for _, c := range pl.CIDRs {
					add(c, r, 2)
				}
			}
		case r.Target == reach.Local:
			add(r.Destination, r, 0)
		default:
			add(r.Destination, r, 1)
		}
	}
	out := make([]Route, 0, len(best))
	for _, r := range best {
		out = append(out, r.Route)
	}
	slices.SortFunc(out, byDestination)
	return out
}

func byDestination(a, b Route) int {
	return cmp.Or(a.Destination.Addr().Compare(b.Destination.Addr()), cmp.Compare(a.Destination.Bits(), b.Destination.Bits()))
}

// addTransits adds the ways from a subnet's zone through transit gateways.
func (st *State) addTransits(s *reach.Snapshot, sn *reach.Subnet) {
	for _, a := range s.Attachments(sn.VPC) {
		near, _ := a.In(s, sn.Zone, false)
		if near == nil || !a.Live() {
			continue
		}
		t := Transit{ID: transitID(a, sn), VPC: sn.VPC, Subnet: near.ID}
		if table, ok := s.Get(a.Table).(*reach.TransitTable); ok {
			for _, r := range s.TransitRoutes(table) {
				to := Route{Destination: r.Destination, Kind: Blackhole}
				v6 := r.Destination.Addr().Is6()
				if v6 && !a.IPv6 {
					continue
				}
				if b, ok := s.Get(r.Attachment).(*reach.TransitAttachment); ok && b.Live() && (b.IPv6 || !v6) {
					if far, _ := b.In(s, sn.Zone, true); far != nil {
						to.Kind, to.Target = Enter, far.ID
					}
				}
				t.Routes = append(t.Routes, to)
			}
		}
		slices.SortFunc(t.Routes, byDestination)
		st.Transits = append(st.Transits, t)
	}
}

func transitID(a *reach.TransitAttachment, sn *reach.Subnet) string { return a.ID + " " + sn.Zone }

// target returns what a route of a subnet leads to.
func target(s *reach.Snapshot, sn *reach.Subnet, id string) (Kind, string) {
	vpc := sn.VPC
	if id == reach.Local {
		return Local, ""
	}
	available := func(state string) bool { return state == "" || state == "available" }
	switch t := s.Get(id).(type) {
	case *reach.InternetGateway:
		if t.VPC == vpc {
			return Internet, ""
		}
	case *reach.EgressOnlyGateway:
		if t.VPC == vpc {
			return EgressOnly, ""
		}
	case *reach.NATGateway:
		if t.VPC == vpc && available(t.State) {
			return NAT, t.Interface
		}
	case *reach.Peering:
		if t.State != "active" {
			break
		}
		if t.Requester.VPC == vpc && s.VPC(t.Accepter.VPC) != nil {
			return Peering, t.Accepter.VPC
		}
		if t.Accepter.VPC == vpc && s.VPC(t.Requester.VPC) != nil {
			return Peering, t.Requester.VPC
		}
	case *reach.TransitGateway:
		if a := s.Attachment(t.ID, vpc); a != nil && a.Live() {
			if near, _ := a.In(s, sn.Zone, false); near != nil {
				return Through, transitID(a, sn)
			}
		}
	case *reach.VPCEndpoint:
		if t.Type == reach.GatewayEndpoint && t.VPC == vpc && available(t.State) {
			return Endpoint, t.ID
		}
	case *reach.Interface:
		if t.VPC == vpc && t.Attached && t.Instance != "" {
			return Forward, t.ID
		}
	}
	return Blackhole, ""
}
