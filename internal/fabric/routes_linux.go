package fabric

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// applyRoutes makes the routing tables: one for each VPC, one for each interface that forwards, one for the outside
// and each endpoint. It deletes what changes or goes; the function it returns adds the rest.
func (f *Fabric) applyRoutes() (add func() error, err error) {
	routes, rules, neighs := map[string]netlink.Route{}, map[string]*netlink.Rule{}, map[string]netlink.Neigh{}
	want := func(r netlink.Route) {
		routes[fmt.Sprint(r.Table, r.Dst, r.LinkIndex, r.Gw, r.Type)] = r
	}
	use := func(n uint32) {
		for _, fam := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			r := netlink.NewRule()
			r.Family, r.Mark, r.Table, r.Priority = fam, n<<tableShift, tableBase+int(n), 100
			mask := uint32(tableMask)
			r.Mask = &mask
			rules[fmt.Sprint(fam, n)] = r
			back := *r
			both := uint32(tableMask | service)
			back.Mark, back.Mask, back.IifName, back.Priority = service|n<<tableShift, &both, "lo", 90
			rules[fmt.Sprint(fam, n, "back")] = &back
		}
	}
	through := func(id string, hops ...netip.Addr) {
		n := f.number(id)
		use(n)
		for _, a := range hops {
			all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			if a.Is6() {
				all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
			}
			want(netlink.Route{Table: tableBase + int(n), Dst: ipNet(all), LinkIndex: f.links[id].index, Gw: a.AsSlice(), Flags: int(netlink.FLAG_ONLINK)})
		}
	}
	for _, v := range f.state.VPCs {
		use(f.number(v.ID))
	}
	for _, e := range f.state.Interfaces {
		l := f.links[e.ID]
		if l == nil {
			continue
		}
		if e.NAT {
			through(e.ID, peer4, peer6)
			continue
		}
		table := tableBase + int(f.number(e.VPC))
		var hops []netip.Addr
		for _, v6 := range []bool{false, true} {
			own, ok := e.primary(v6)
			if !ok {
				continue
			}
			hops = append(hops, own)
			neighs[fmt.Sprint(l.index, own)] = *neighbour(l.index, own, l.mac)
			// The primary address is on the link, everything else behind it.
			want(netlink.Route{Table: table, Dst: ipNet(netip.PrefixFrom(own, own.BitLen())), LinkIndex: l.index, Scope: unix.RT_SCOPE_LINK})
			behind := func(p netip.Prefix) {
				want(netlink.Route{Table: table, Dst: ipNet(p), LinkIndex: l.index, Gw: own.AsSlice(), Flags: int(netlink.FLAG_ONLINK)})
			}
			for _, a := range e.Addresses {
				if a.Private.Is6() == v6 && a.Private != own {
					behind(netip.PrefixFrom(a.Private, a.Private.BitLen()))
				}
			}
			for _, p := range e.Prefixes {
				if p.Addr().Is6() == v6 {
					behind(p.Masked())
				}
			}
		}
		if e.Forwards || l.managed { // a managed one gets replies to clients
			through(e.ID, hops...)
		}
	}
	for id, l := range f.links {
		if id == outsideID || l.there == f.outside {
			through(id, peer4, peer6)
		}
	}
	for key, n := range f.neighs {
		if _, ok := neighs[key]; !ok {
			_ = f.nl.NeighDel(&n) // it may be gone with its device
			delete(f.neighs, key)
		}
	}
	for key, r := range f.routes {
		if _, ok := routes[key]; !ok {
			if err := f.nl.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return nil, fmt.Errorf("delete route to %s: %w", r.Dst, err)
			}
			delete(f.routes, key)
		}
	}
	for key, r := range f.rules {
		if rules[key] == nil {
			if err := f.nl.RuleDel(r); err != nil && !errors.Is(err, unix.ENOENT) {
				return nil, fmt.Errorf("delete routing rule: %w", err)
			}
			delete(f.rules, key)
		}
	}
	return func() error {
		for key, n := range neighs {
			if _, ok := f.neighs[key]; !ok {
				if err := f.nl.NeighSet(&n); err != nil {
					return fmt.Errorf("set neighbour %s: %w", n.IP, err)
				}
				f.neighs[key] = n
			}
		}
		for key, r := range routes {
			if _, ok := f.routes[key]; !ok {
				if err := f.nl.RouteReplace(&r); err != nil {
					return fmt.Errorf("add route to %s: %w", r.Dst, err)
				}
				f.routes[key] = r
			}
		}
		for key, r := range rules {
			if f.rules[key] == nil {
				if err := f.nl.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
					return fmt.Errorf("add routing rule: %w", err)
				}
				f.rules[key] = r
			}
		}
		return nil
	}, nil
}
