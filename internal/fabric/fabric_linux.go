package fabric

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// MTU is that of interfaces in EC2.
const MTU = 9001

// tableBase is added to numbers to get the kernel's routing tables.
const (
	tableBase    = 100000
	nowhereTable = tableBase
	hereTable    = tableBase - 1
)

// The fabric's end of links to its own namespaces.
var (
	hop4, hop6   = netip.MustParseAddr("169.254.100.1"), netip.MustParseAddr("fd00:dd::1")
	peer4, peer6 = netip.MustParseAddr("169.254.100.2"), netip.MustParseAddr("fd00:dd::2")
)

// A Fabric is the network of a State in the network namespace of the current process. It makes two namespaces of its
// own: one for NAT gateways and one for the internet. All methods may be called at the same time.
type Fabric struct {
	mu       sync.Mutex
	nl       *netlink.Handle
	nft      *writer
	state    *State
	numbers  map[string]uint32
	free     uint32 // numbers above it were never used
	returned []uint32
	inForce  map[string]bool  // what the kernel's rules have numbers of
	links    map[string]*link // by interface ID, endpoint ID, or outside
	outside  *namespace
	nat      *namespace
	managed  *namespace // of interfaces that AWS manages
	routes   map[string]netlink.Route
	rules    map[string]*netlink.Rule
	neighs   map[string]netlink.Neigh
	closed   bool

	fixedRoutes []netlink.Route
	fixedRules  []*netlink.Rule
}

// A link is a pair of devices between the fabric and another namespace.
type link struct {
	name, peer string // the device here and there
	index      int
	mac        net.HardwareAddr // of the device there
	own        net.HardwareAddr // of the device here
	there      *namespace
	borrowed   bool // it belongs to an interface of the state
	managed    bool // the namespace is the fabric's
	secondary  bool
	configured string // the primary addresses that the device there has
}

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
	if err := up(f.managed.nl, "lo"); err != nil {
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
	if err := f.wire(outsideID, f.outside, "internet"); err != nil {
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
	if err := f.outside.accept("internet"); err != nil {
		return err
	}
	// The main table answers ARP requests (see proxy_arp), all with the same address.
	return f.nl.RouteReplace(&netlink.Route{LinkIndex: f.links[outsideID].index, Dst: ipNet(netip.MustParsePrefix("0.0.0.0/0")), Scope: unix.RT_SCOPE_LINK})
}

// wire connects one of the fabric's own namespaces, and gives it a default route to the fabric in its main table or,
// except for the outside, in a table for what came from that device.
func (f *Fabric) wire(id string, ns *namespace, device string) error {
	l, err := f.connect(id, ns, device, macOf(id))
	if err != nil {
		return err
	}
	dev, err := ns.nl.LinkByName(device)
	if err != nil {
		return err
	}
	table := unix.RT_TABLE_MAIN
	if id != outsideID {
		table = tableBase + int(f.number(id))
	}
	for _, x := range []struct {
		here, there netip.Addr
		all         string
	}{{hop4, peer4, "0.0.0.0/0"}, {hop6, peer6, "::/0"}} {
		if err := f.nl.NeighSet(neighbour(l.index, x.there, l.mac)); err != nil {
			return fmt.Errorf("set neighbour: %w", err)
		}
		if err := ns.nl.NeighSet(neighbour(dev.Attrs().Index, x.here, l.own)); err != nil {
			return fmt.Errorf("set neighbour: %w", err)
		}
		if err := ns.nl.RouteReplace(&netlink.Route{
			LinkIndex: dev.Attrs().Index, Dst: ipNet(netip.MustParsePrefix(x.all)), Gw: x.here.AsSlice(), Flags: int(netlink.FLAG_ONLINK), Table: table,
		}); err != nil {
			return fmt.Errorf("add route to %s in %d: %w", x.all, table, err)
		}
	}
	return nil
}

// connect makes the pair of devices of a link.
func (f *Fabric) connect(id string, ns *namespace, device string, mac net.HardwareAddr) (*link, error) {
	n := f.number(id)
	l := &link{name: fmt.Sprint("i", n), peer: device, mac: mac, own: net.HardwareAddr{2, 0xdd, 0, 0, byte(n >> 8), byte(n)}, there: ns}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = l.name, MTU, l.own
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: device, PeerHardwareAddr: mac, PeerNamespace: netlink.NsFd(ns.fd), PeerMTU: MTU}
	if err := f.nl.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("add device for %s: %w", id, err)
	}
	here, err := f.nl.LinkByName(l.name)
	if err != nil {
		return nil, err
	}
	l.index = here.Attrs().Index
	f.links[id] = l
	if err := sysctl(map[string]string{
		"ipv4/conf/" + l.name + "/proxy_arp": "1", "ipv4/neigh/" + l.name + "/proxy_delay": "0",
	}); err != nil {
		return nil, err
	}
	if err := up(f.nl, l.name); err != nil {
		return nil, err
	}
	if err := ns.do(func() error {
		return sysctl(map[string]string{"ipv4/conf/" + device + "/rp_filter": "0", "ipv6/conf/" + device + "/accept_dad": "0", "ipv6/conf/" + device + "/accept_ra": "0"})
	}); err != nil {
		return nil, err
	}
	return l, up(ns.nl, device)
}

func (f *Fabric) disconnect(id string) {
	l := f.links[id]
	if l == nil {
		return
	}
	delete(f.links, id)
	if dev, err := f.nl.LinkByName(l.name); err == nil {
		_ = f.nl.LinkDel(dev) // if it is gone, so is its namespace
	}
	// The kernel has removed what used the device.
	maps.DeleteFunc(f.routes, func(_ string, r netlink.Route) bool { return r.LinkIndex == l.index })
	maps.DeleteFunc(f.neighs, func(_ string, n netlink.Neigh) bool { return n.LinkIndex == l.index })
	if l.borrowed {
		l.there.close()
	}
}

// number returns the number of anything that the rules and devices are named for.
func (f *Fabric) number(id string) uint32 {
	n, ok := f.numbers[id]
	if !ok {
		if len(f.returned) > 0 {
			n, f.returned = f.returned[0], f.returned[1:]
		} else {
			f.free++
			n = f.free
		}
		f.numbers[id] = n
	}
	return n
}

// Apply makes the network like the state. Interfaces that are attached stay attached if the state still has them, and
// established connections survive as they do on AWS. If Apply fails, the network may be incomplete: nothing passes that
// neither the last state nor this one allows, and the next call repairs it.
func (f *Fabric) Apply(st *State) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return net.ErrClosed
	}
	broken, err := f.apply(st)
	return errors.Join(append(slices.Collect(maps.Values(broken)), err)...)
}

// apply returns the interfaces that their machines do not let it configure: a machine may do what it likes with its
// devices, which must not matter to others.
func (f *Fabric) apply(st *State) (broken map[string]error, err error) {
	ids := map[string]bool{outsideID: true}
	for _, v := range st.VPCs {
		ids[v.ID] = true
	}
	for _, g := range st.Groups {
		ids[g.ID] = true
		for _, r := range slices.Concat(g.Ingress, g.Egress) {
			ids[r.Group] = true
		}
	}
	for _, a := range st.ACLs {
		ids[a.ID] = true
	}
	endpoints, known := map[string]bool{}, map[string]bool{}
	for _, sn := range st.Subnets {
		ids[sn.ID] = true
		for _, r := range sn.Routes {
			if r.Kind == Endpoint {
				ids[r.Target], endpoints[r.Target] = true, true
			}
		}
	}
	for _, t := range st.Transits {
		ids[t.ID] = true
	}
	for _, e := range st.Interfaces {
		ids[e.ID], known[e.ID] = true, true
	}
	if len(ids) > maxParts {
		return nil, fmt.Errorf("the network has %d parts; the fabric can carry %d", len(ids), maxParts)
	}
	if err := f.lost(); err != nil {
		return nil, err
	}
	for id := range f.links {
		if id != outsideID && !known[id] && !endpoints[id] {
			f.disconnect(id)
		}
	}
	// What the kernel's rules have numbers of keeps them until they have changed, even if that fails.
	release := func() {
		for id, n := range f.numbers {
			if !ids[id] && !f.inForce[id] {
				delete(f.numbers, id)
				f.returned = append(f.returned, n)
			}
		}
	}
	release()
	for _, e := range st.Interfaces {
		if e.NAT && f.links[e.ID] == nil {
			if err := f.wire(e.ID, f.nat, fmt.Sprint("n", f.number(e.ID))); err != nil {
				return broken, err
			}
		}
	}
	for id := range endpoints {
		if f.links[id] != nil {
			continue
		}
		device := fmt.Sprint("e", f.number(id))
		if err := errors.Join(f.wire(id, f.outside, device), f.outside.accept(device)); err != nil {
			return broken, err
		}
	}
	f.state = st
	for _, e := range st.Interfaces {
		if l := f.links[e.ID]; l != nil && l.borrowed {
			if err := f.configure(&e, l); err != nil {
				if broken == nil {
					broken = map[string]error{}
				}
				broken[e.ID] = fmt.Errorf("configure %s: %w", e.ID, err)
			}
		}
	}
	// Routes that change are gone before the rules change, and come back afterwards: at no time do old rules lead to new
	// routes, or new rules to old routes.
	addRoutes, err := f.applyRoutes()
	if err != nil {
		return broken, err
	}
	if err := f.applyNAT(); err != nil {
		return broken, err
	}
	if err := f.applyEndpoints(endpoints); err != nil {
		return broken, err
	}
	next := map[*family]*ruleset{}
	ports := map[string]port{}
	for id, l := range f.links {
		ports[id] = port{uint32(l.index), l.borrowed && !l.managed}
	}
	for _, fam := range families {
		next[fam] = compile(st, fam, f.number, ports)
	}
	if err := f.nft.apply(next); err != nil {
		return broken, err
	}
	f.inForce = ids
	release()
	return broken, addRoutes()
}

// lost disconnects interfaces whose machines have deleted their devices.
func (f *Fabric) lost() error {
	all, err := f.nl.LinkList()
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	there := map[int]bool{}
	for _, dev := range all {
		there[dev.Attrs().Index] = true
	}
	for id, l := range f.links {
		if l.borrowed && !there[l.index] {
			f.disconnect(id)
		}
	}
	return nil
}

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
		if e.Forwards {
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

// An Attachment says where an interface appears.
type Attachment struct {
	Netns  int    // a descriptor of the network namespace; Attach keeps its own
	Device string // the device's name there
	// Secondary says that the namespace has another interface, whose default route applies. Packets from the addresses
	// of this one still leave by it.
	Secondary bool
}

// Attach connects an interface of the state to a machine's network namespace. The device there has the interface's
// primary addresses and a route to everything. The machine does the rest: secondary addresses and delegated prefixes
// arrive there with the device's own hardware address. If it fails, nothing is attached, and it may be tried again.
func (f *Fabric) Attach(id string, at Attachment) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return net.ErrClosed
	}
	return f.attachTo(id, at, false)
}

// AttachManaged connects an interface that AWS manages, so that Dial connects from it. Those that are attached stay so.
// A proxy answers connections to it.
func (f *Fabric) AttachManaged(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return net.ErrClosed
	}
	if l := f.links[id]; l != nil && l.managed {
		return nil
	}
	return f.attachTo(id, Attachment{Netns: f.managed.fd, Device: fmt.Sprintf("m%x", []byte(macOf(id))), Secondary: true}, true)
}

func (f *Fabric) attachTo(id string, at Attachment, managed bool) error {
	i := slices.IndexFunc(f.state.Interfaces, func(e Interface) bool { return e.ID == id })
	switch {
	case i < 0:
		return fmt.Errorf("attach %s: the state does not have it", id)
	case f.links[id] != nil:
		return fmt.Errorf("attach %s: it is attached", id)
	}
	e := f.state.Interfaces[i]
	fd, err := unix.FcntlInt(uintptr(at.Netns), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("attach %s: %w", id, err)
	}
	ns, err := namespaceAt(fd)
	if err != nil {
		return fmt.Errorf("attach %s: %w", id, err)
	}
	if err := f.attach(&e, ns, at, managed); err != nil {
		if l := f.links[id]; l != nil {
			l.borrowed = true
			f.disconnect(id)
		} else {
			ns.close()
		}
		return fmt.Errorf("attach %s: %w", id, err)
	}
	broken, err := f.apply(f.state)
	if err = errors.Join(broken[id], err); err != nil {
		f.disconnect(id)
		return fmt.Errorf("attach %s: %w", id, err)
	}
	return nil
}

func (f *Fabric) attach(e *Interface, ns *namespace, at Attachment, managed bool) error {
	mac := macOf(e.ID)
	if e.MAC != "" {
		var err error
		if mac, err = net.ParseMAC(e.MAC); err != nil {
			return err
		}
	}
	l, err := f.connect(e.ID, ns, at.Device, mac)
	if err != nil {
		return err
	}
	l.borrowed, l.managed, l.secondary = true, managed, at.Secondary
	return f.configure(e, l)
}

// configure sets the addresses and routes in the machine, if the primary addresses have changed.
func (f *Fabric) configure(e *Interface, l *link) error {
	a4, _ := e.primary(false)
	a6, _ := e.primary(true)
	want := fmt.Sprint(a4, a6)
	if want == l.configured {
		return nil
	}
	dev, err := l.there.nl.LinkByName(l.peer)
	if err != nil {
		return err
	}
	if l.configured != "" {
		old, err := l.there.nl.AddrList(dev, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, a := range old {
			if x, _ := netip.AddrFromSlice(a.IP); x.Unmap() != a4 && x != a6 && !x.IsLinkLocalUnicast() {
				if err := l.there.nl.AddrDel(dev, &a); err != nil {
					return fmt.Errorf("delete address %s: %w", x, err)
				}
			}
		}
	}
	index := dev.Attrs().Index
	table := unix.RT_TABLE_MAIN
	if l.secondary {
		table = tableBase + index
	}
	for _, v6 := range []bool{false, true} {
		own, ok := e.primary(v6)
		if !ok {
			continue
		}
		bits, gateway := own.BitLen(), netip.MustParseAddr("fe80::1")
		if !v6 {
			// As in EC2: the subnet is on the link, and its first address is the router's.
			for _, sn := range f.state.Subnets {
				for _, c := range sn.CIDRs {
					if sn.ID == e.Subnet && c.Contains(own) {
						bits, gateway = c.Bits(), c.Masked().Addr().Next()
					}
				}
			}
		}
		a := &netlink.Addr{IPNet: &net.IPNet{IP: own.AsSlice(), Mask: net.CIDRMask(bits, own.BitLen())}}
		if v6 {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := l.there.nl.AddrReplace(dev, a); err != nil {
			return fmt.Errorf("add address %s: %w", own, err)
		}
		if err := l.there.nl.NeighSet(neighbour(index, gateway, l.own)); err != nil {
			return fmt.Errorf("set neighbour %s: %w", gateway, err)
		}
		all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if v6 {
			all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		if err := l.there.nl.RouteReplace(&netlink.Route{LinkIndex: index, Dst: ipNet(all), Gw: gateway.AsSlice(), Flags: int(netlink.FLAG_ONLINK), Table: table}); err != nil {
			return fmt.Errorf("add default route: %w", err)
		}
		if l.secondary {
			r := netlink.NewRule()
			r.Src, r.Table, r.Priority = ipNet(netip.PrefixFrom(own, own.BitLen())), table, 1000
			if err := l.there.nl.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("add routing rule: %w", err)
			}
		}
	}
	l.configured = want
	return nil
}

// Detach removes an interface's device. It does nothing if the interface is not attached.
func (f *Fabric) Detach(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.links[id]; f.closed || l == nil || !l.borrowed {
		return nil
	}
	f.disconnect(id)
	_, err := f.apply(f.state)
	return err
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

// A namespace is a network namespace.
type namespace struct {
	fd int
	nl *netlink.Handle
}

// newNamespace makes a network namespace that lives as long as it is open.
func newNamespace() (*namespace, error) {
	fd := -1
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		var err error
		fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return namespaceAt(fd)
}

// namespaceAt owns the descriptor.
func namespaceAt(fd int) (*namespace, error) {
	ns := &namespace{fd: fd}
	err := ns.do(func() (err error) {
		ns.nl, err = netlink.NewHandle()
		return err
	})
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return ns, nil
}

func (ns *namespace) close() {
	ns.nl.Close()
	unix.Close(ns.fd)
}

// do runs fn in the namespace, on a thread of its own.
func (ns *namespace) do(fn func() error) error {
	return onThread(func() error {
		if err := unix.Setns(ns.fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return fn()
	})
}

// onThread runs fn on a thread that ends afterwards, so that it may change the thread's namespaces.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- fn()
	}()
	return <-done
}

// accept delivers what comes from a device to this host, whatever its destination.
func (ns *namespace) accept(device string) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		r := netlink.NewRule()
		r.Family, r.IifName, r.Table, r.Priority = family, device, unix.RT_TABLE_LOCAL, 10
		if err := ns.nl.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add routing rule: %w", err)
		}
	}
	return nil
}

func up(nl *netlink.Handle, device string) error {
	dev, err := nl.LinkByName(device)
	if err == nil {
		err = nl.LinkSetUp(dev)
	}
	if err != nil {
		return fmt.Errorf("set %s up: %w", device, err)
	}
	return nil
}

// sysctl sets parameters of the current namespace's network, and skips those of protocols that the kernel lacks.
func sysctl(values map[string]string) error {
	for name, value := range values {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func neighbour(index int, a netip.Addr, mac net.HardwareAddr) *netlink.Neigh {
	family := netlink.FAMILY_V4
	if a.Is6() {
		family = netlink.FAMILY_V6
	}
	return &netlink.Neigh{LinkIndex: index, Family: family, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: mac}
}

// macOf returns a hardware address made from an ID.
func macOf(id string) net.HardwareAddr {
	h := fnv.New64a()
	h.Write([]byte(id))
	b := binary.BigEndian.AppendUint64(nil, h.Sum64())
	return append(net.HardwareAddr{0x02}, b[:5]...)
}

// Dial connects to an address as an attached interface does: its source address is the interface's primary address
// and all filters apply. An empty ID dials from the internet. Network is that of net.Dial, and the address must not
// contain names. A source that is valid replaces the source address and port.
func (f *Fabric) Dial(ctx context.Context, id string, network string, source netip.AddrPort, to netip.AddrPort) (net.Conn, error) {
	ns, device, own, err := f.place(id, to.Addr().Is6())
	if err != nil {
		return nil, err
	}
	if source.Addr().IsValid() {
		own = source.Addr()
	}
	d := net.Dialer{FallbackDelay: -1, Control: bind(device)}
	local := netip.AddrPortFrom(own, source.Port())
	switch {
	case !own.IsValid():
	case network[:3] == "udp":
		d.LocalAddr = net.UDPAddrFromAddrPort(local)
	default:
		d.LocalAddr = net.TCPAddrFromAddrPort(local)
	}
	var c net.Conn
	err = ns.do(func() (err error) {
		c, err = d.DialContext(ctx, network, to.String())
		return err
	})
	return c, err
}

// Listen accepts connections to an attached interface in the namespace that it is attached to. An empty ID listens on
// the internet, where an unspecified address means all addresses: the connection's LocalAddr is the one dialled.
func (f *Fabric) Listen(ctx context.Context, id string, network string, at netip.AddrPort) (net.Listener, error) {
	ns, device, _, err := f.place(id, at.Addr().Is6())
	if err != nil {
		return nil, err
	}
	if id == "" {
		device = "" // gateway endpoints have devices of their own
	}
	var l net.Listener
	lc := net.ListenConfig{Control: bind(device)}
	err = ns.do(func() (err error) {
		l, err = lc.Listen(ctx, network, at.String())
		return err
	})
	return l, err
}

// place returns where an interface is attached.
func (f *Fabric) place(id string, v6 bool) (ns *namespace, device string, own netip.Addr, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, "", own, net.ErrClosed
	}
	if id == "" {
		return f.outside, "internet", own, nil
	}
	l := f.links[id]
	if l == nil || !l.borrowed {
		return nil, "", own, fmt.Errorf("%s is not attached", id)
	}
	for _, e := range f.state.Interfaces {
		if e.ID == id {
			own, _ = e.primary(v6)
		}
	}
	return l.there, l.peer, own, nil
}

// bind lets a socket use addresses that the host does not have, and only one device, if a device is given.
func bind(device string) func(string, string, syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) {
			level, option := unix.IPPROTO_IP, unix.IP_TRANSPARENT
			if strings.HasPrefix(network, "ip6") || strings.HasSuffix(network, "6") {
				level, option = unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT
			}
			if err = unix.SetsockoptInt(int(fd), level, option, 1); err == nil && device != "" {
				err = unix.BindToDevice(int(fd), device)
			}
		}); e != nil {
			return e
		}
		return err
	}
}

// A Drop is a packet that the fabric dropped.
type Drop struct {
	Reason      Reason         `json:"reason"`
	Interface   string         `json:"interface,omitempty"` // that it came from
	Protocol    int            `json:"protocol"`
	Source      netip.AddrPort `json:"source"` // the port is the identifier of ICMP echoes
	Destination netip.AddrPort `json:"destination"`
}

// Drops returns the different packets dropped in the last minute, in no particular order. There are at most 4096 for
// each family.
func (f *Fabric) Drops() ([]Drop, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, net.ErrClosed
	}
	names := map[uint32]string{}
	for id, n := range f.numbers {
		names[n] = id
	}
	var out []Drop
	for _, fam := range families {
		if f.nft.current[fam] == nil {
			continue
		}
		elements, err := f.nft.conn.GetSetElements(&nftables.Set{Table: fam.table, Name: "dropped"})
		if err != nil {
			return nil, err
		}
		for _, e := range elements {
			k, n := e.Key, int(fam.length)
			if len(k) < 20+2*n {
				continue
			}
			src, _ := netip.AddrFromSlice(k[12 : 12+n])
			dst, _ := netip.AddrFromSlice(k[12+n : 12+2*n])
			d := Drop{Interface: names[binary.NativeEndian.Uint32(k[4:])], Protocol: int(k[8])}
			if i := int(binary.NativeEndian.Uint32(k)); i < len(reasons) {
				d.Reason = reasons[i]
			}
			d.Source = netip.AddrPortFrom(src, binary.BigEndian.Uint16(k[12+2*n:]))
			d.Destination = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(k[16+2*n:]))
			out = append(out, d)
		}
	}
	return out, nil
}
