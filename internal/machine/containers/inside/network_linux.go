package inside

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// dialPatience is how long a connection attempt lasts.
const dialPatience = 10 * time.Second

// gateway is the next hop of every machine. It exists on no interface: neighbours are permanent entries.
var gateway = net.IPv4(169, 254, 1, 1)

// A network is that of a VPC: a network namespace that routes between the machines' interfaces. Packets to any other
// address are for the namespace itself, where the daemon has sockets that answer for AWS.
type network struct {
	ns   int
	link *netlink.Handle
	next int
	used map[string]string // interfaces by machine
}

// within runs a function in a network namespace.
func within(ns int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		// The thread is not unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			done <- os.NewSyscallError("setns", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// network returns the network of a VPC, and makes it if necessary. h.mu is held.
func (h *host) network(vpc string) (*network, error) {
	if n := h.networks[vpc]; n != nil {
		return n, nil
	}
	n := &network{ns: -1, used: map[string]string{}}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return os.NewSyscallError("unshare", err)
			}
			var err error
			if n.ns, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
				return err
			}
			return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
		}()
	}()
	if err := <-done; err != nil {
		return nil, fmt.Errorf("making the network of %s: %w", vpc, err)
	}
	var err error
	if n.link, err = netlink.NewHandleAt(netns.NsHandle(n.ns)); err != nil {
		return nil, err
	}
	lo, err := n.link.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	if err := n.link.LinkSetUp(lo); err != nil {
		return nil, err
	}
	everything := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	if err := n.link.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: everything, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST}); err != nil {
		return nil, fmt.Errorf("adding the route to AWS: %w", err)
	}
	h.networks[vpc] = n
	return n, nil
}

func oneHost(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: net.IP(a.AsSlice()), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// attach connects the network namespace of a process to the network and returns the index of the network's interface.
func (n *network) attach(pid int, cfg MachineConfig) (int, error) {
	ns, err := netns.GetFromPath(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return 0, err
	}
	defer ns.Close()
	inner, err := netlink.NewHandleAt(ns)
	if err != nil {
		return 0, err
	}
	defer inner.Close()
	n.next++
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "eni"+strconv.Itoa(n.next), 9001
	mac, err := net.ParseMAC(cfg.MAC)
	if err != nil {
		return 0, err
	}
	if err := n.link.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerHardwareAddr: mac, PeerMTU: 9001, PeerNamespace: netlink.NsFd(int(ns))}); err != nil {
		return 0, err
	}
	n.used[cfg.ID] = attrs.Name
	outer, err := n.link.LinkByName(attrs.Name)
	if err != nil {
		return 0, err
	}
	lo, err := inner.LinkByName("lo")
	if err != nil {
		return 0, err
	}
	eth, err := inner.LinkByName("eth0")
	if err != nil {
		return 0, err
	}
	index := eth.Attrs().Index
	via := &net.IPNet{IP: gateway, Mask: net.CIDRMask(32, 32)}
	for _, do := range []func() error{
		func() error { return inner.LinkSetUp(lo) },
		func() error { return n.link.LinkSetUp(outer) },
		func() error { return inner.AddrAdd(eth, &netlink.Addr{IPNet: oneHost(cfg.Address)}) },
		func() error { return inner.LinkSetUp(eth) },
		func() error {
			return inner.RouteAdd(&netlink.Route{LinkIndex: index, Dst: via, Scope: netlink.SCOPE_LINK})
		},
		func() error { return inner.RouteAdd(&netlink.Route{LinkIndex: index, Gw: gateway}) },
		func() error {
			return inner.NeighSet(&netlink.Neigh{LinkIndex: index, IP: gateway, HardwareAddr: outer.Attrs().HardwareAddr, State: netlink.NUD_PERMANENT, Family: netlink.FAMILY_V4})
		},
		func() error { return n.to(outer.Attrs().Index, mac, cfg.Address) },
	} {
		if err := do(); err != nil {
			return 0, err
		}
	}
	return outer.Attrs().Index, nil
}

// to routes an address to an interface.
func (n *network) to(index int, mac net.HardwareAddr, a netip.Addr) error {
	if err := n.link.RouteReplace(&netlink.Route{LinkIndex: index, Dst: oneHost(a), Scope: netlink.SCOPE_LINK}); err != nil {
		return err
	}
	return n.link.NeighSet(&netlink.Neigh{LinkIndex: index, IP: net.IP(a.AsSlice()), HardwareAddr: mac, State: netlink.NUD_PERMANENT, Family: netlink.FAMILY_V4})
}

// route routes the addresses of pods to the interface of their machine.
func (n *network) route(index int, mac net.HardwareAddr, all []netip.Addr) error {
	for _, a := range all {
		if err := n.to(index, mac, a); err != nil {
			return fmt.Errorf("routing %s: %w", a, err)
		}
	}
	return nil
}

// detach removes a machine's interface, which takes its routes with it.
func (n *network) detach(machine string) {
	name := n.used[machine]
	delete(n.used, machine)
	if link, err := n.link.LinkByName(name); err == nil {
		_ = n.link.LinkDel(link) // it goes with the machine's namespace, too
	}
}
