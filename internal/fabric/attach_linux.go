package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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
		switch {
		case v6:
			a.Flags = unix.IFA_F_NODAD
		case l.secondary && !l.managed:
			// The VPC CNI plugin removes the route to the subnet, too, which would make the machine's own packets leave by this
			// device: https://github.com/aws/amazon-vpc-cni-k8s/blob/master/pkg/networkutils/network.go (setupENINetwork)
			a.Flags = unix.IFA_F_NOPREFIXROUTE
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
		var rules []*netlink.Rule
		if l.secondary {
			r := netlink.NewRule()
			r.Src, r.Table, r.Priority = ipNet(netip.PrefixFrom(own, own.BitLen())), table, 1000
			rules = append(rules, r)
		}
		if l.managed { // sockets may have clients' addresses
			in, out := netlink.NewRule(), netlink.NewRule()
			in.IifName, in.Table, in.Priority = l.peer, hereTable, 10
			out.OifName, out.Table, out.Priority = l.peer, table, 1001
			in.Family, out.Family = netlink.FAMILY_V4, netlink.FAMILY_V4
			if v6 {
				in.Family, out.Family = netlink.FAMILY_V6, netlink.FAMILY_V6
			}
			rules = append(rules, in, out)
		}
		for _, r := range rules {
			switch err := l.there.nl.RuleAdd(r); {
			case err == nil:
				l.rules = append(l.rules, r)
			case !errors.Is(err, unix.EEXIST):
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
