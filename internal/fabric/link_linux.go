package fabric

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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
	configured string          // the primary addresses that the device there has
	rules      []*netlink.Rule // there
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
	if l.managed { // its namespace stays
		for _, r := range l.rules {
			_ = l.there.nl.RuleDel(r)
		}
	}
	if l.borrowed {
		l.there.close()
	}
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
