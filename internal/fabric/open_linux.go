package fabric

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Open prepares the current network namespace, which must be empty and owned by the current process. Nothing passes
// before the first Apply.
func Open() (*Fabric, error) {
	f := &Fabric{
		state: &State{}, numbers: map[string]uint32{}, links: map[string]*link{},
		routes: map[string]netlink.Route{}, rules: map[string]*netlink.Rule{}, neighs: map[string]netlink.Neigh{},
	}
	err := f.open()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open the fabric: %w", err)
	}
	return f, nil
}

func (f *Fabric) open() error {
	var err error
	if f.nl, err = netlink.NewHandle(); err != nil {
		return err
	}
	if f.nft, err = newWriter(); err != nil {
		return err
	}
	if err := sysctl(map[string]string{
		"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
		"ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0",
		"ipv4/tcp_fwmark_accept": "1", "ipv4/fwmark_reflect": "1", "ipv6/fwmark_reflect": "1",
		"ipv6/conf/all/forwarding": "1", "ipv6/conf/default/forwarding": "1", "ipv6/conf/default/accept_dad": "0",
		"ipv6/conf/default/addr_gen_mode": "1",
	}); err != nil {
		return err
	}
	if err := up(f.nl, "lo"); err != nil {
		return err
	}
	if f.outside, err = newNamespace(); err != nil {
		return err
	}
	if f.nat, err = newNamespace(); err != nil {
		return err
	}
	if err := f.nat.do(func() error {
		return sysctl(map[string]string{
			"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
			"ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0",
		})
	}); err != nil {
		return err
	}
	if f.managed, err = newNamespace(); err != nil {
		return err
	}
	if err := f.managed.do(func() error {
		// Interfaces of different VPCs may have the same address.
		return sysctl(map[string]string{"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0", "ipv4/conf/all/accept_local": "1", "ipv6/conf/default/accept_dad": "0"})
	}); err != nil {
		return err
	}
	if err := f.managed.receive(); err != nil {
		return err
	}
	if err := up(f.nat.nl, "lo"); err != nil { // without a local table, the kernel accepts no gateways
		return err
	}
	if err := f.openFixed(); err != nil {
		return err
	}
	return f.openOutside()
}

// openFixed makes what does not depend on the network. Packets to services are for this host, and only what it sends
// back is routed by their VPC's table. Packets that the rules let pass but that have no route yet, or no longer, are
// dropped: the main table would lead them outside.
func (f *Fabric) openFixed() error {
	lo, err := f.nl.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		dst := ipNet(netip.MustParsePrefix(all))
		for _, r := range []netlink.Route{
			{Table: hereTable, Dst: dst, LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST},
			{Table: nowhereTable, Dst: dst, Type: unix.RTN_BLACKHOLE},
		} {
			if err := f.nl.RouteReplace(&r); err != nil {
				return fmt.Errorf("add the route in table %d: %w", r.Table, err)
			}
			f.fixedRoutes = append(f.fixedRoutes, r)
		}
		for _, x := range []struct {
			mark            uint32
			table, priority int
		}{{service, hereTable, 95}, {delivered, nowhereTable, 200}} {
			r := netlink.NewRule()
			r.Mark, r.Mask, r.Table, r.Priority, r.Family = x.mark, &x.mark, x.table, x.priority, netlink.FAMILY_V4
			if dst.IP.To4() == nil {
				r.Family = netlink.FAMILY_V6
			}
			if err := f.nl.RuleAdd(r); err != nil {
				return fmt.Errorf("add routing rule: %w", err)
			}
			f.fixedRules = append(f.fixedRules, r)
		}
	}
	return nil
}

// openOutside makes the namespace that accepts packets to all internet addresses.
func (f *Fabric) openOutside() error {
	if err := f.outside.do(func() error {
		return sysctl(map[string]string{
			"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0", "ipv4/tcp_fwmark_accept": "1",
			"ipv4/fwmark_reflect": "1", "ipv6/fwmark_reflect": "1", "ipv6/conf/default/accept_dad": "0",
		})
	}); err != nil {
		return err
	}
	if err := up(f.outside.nl, "lo"); err != nil {
		return err
	}
	if err := f.wire(outsideID, f.outside, outsideDevice); err != nil {
		return err
	}
	// Everything that arrives is for this host. The local table says so, because the kernel replies to echoes from its
	// addresses only, and so it must not apply to what this host sends.
	lo, err := f.outside.nl.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		p := netip.MustParsePrefix(all)
		if err := f.outside.nl.RouteReplace(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: ipNet(p), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST}); err != nil {
			return fmt.Errorf("accept all addresses outside: %w", err)
		}
		// The next hop stays a neighbour.
		next := netip.PrefixFrom(hop4, 32)
		if p.Addr().Is6() {
			next = netip.PrefixFrom(hop6, 128)
		}
		if err := f.outside.nl.RouteReplace(&netlink.Route{Dst: ipNet(next), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_THROW}); err != nil {
			return fmt.Errorf("except the next hop: %w", err)
		}
		old := netlink.NewRule()
		old.Family, old.Table, old.Priority = netlink.FAMILY_V4, unix.RT_TABLE_LOCAL, 0
		loopback := netlink.NewRule()
		loopback.Table, loopback.Priority, loopback.Dst = unix.RT_TABLE_LOCAL, 5, ipNet(netip.MustParsePrefix("127.0.0.0/8"))
		if p.Addr().Is6() {
			old.Family, loopback.Dst = netlink.FAMILY_V6, ipNet(netip.MustParsePrefix("::1/128"))
		}
		if err := f.outside.nl.RuleAdd(loopback); err != nil {
			return fmt.Errorf("add routing rule: %w", err)
		}
		if err := f.outside.nl.RuleDel(old); err != nil {
			return fmt.Errorf("delete the rule of the local table: %w", err)
		}
	}
	if err := f.outside.accept(outsideDevice); err != nil {
		return err
	}
	// The main table answers ARP requests (see proxy_arp), all with the same address.
	return f.nl.RouteReplace(&netlink.Route{LinkIndex: f.links[outsideID].index, Dst: ipNet(netip.MustParsePrefix("0.0.0.0/0")), Scope: unix.RT_SCOPE_LINK})
}

// Close removes the devices, rules, routes and namespaces that the fabric made.
func (f *Fabric) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	var errs []error
	for id := range f.links {
		f.disconnect(id)
	}
	for _, r := range f.routes {
		_ = f.nl.RouteDel(&r) // most went with their devices
	}
	for _, r := range f.fixedRoutes {
		errs = append(errs, f.nl.RouteDel(&r))
	}
	for _, r := range slices.AppendSeq(f.fixedRules, maps.Values(f.rules)) {
		errs = append(errs, f.nl.RuleDel(r))
	}
	if f.nft != nil {
		for _, fam := range families {
			if f.nft.current[fam] != nil {
				f.nft.conn.DelTable(fam.table)
			}
		}
		errs = append(errs, f.nft.flush(), f.nft.conn.CloseLasting())
	}
	for _, ns := range []*namespace{f.outside, f.nat, f.managed} {
		if ns != nil {
			ns.close()
		}
	}
	if f.nl != nil {
		f.nl.Close()
	}
	return errors.Join(errs...)
}
