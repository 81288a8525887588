package fabric

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The device of Leave, and the table that leads to it.
const (
	leaveDevice = "leave"
	leaveTable  = tableBase
)

// Outside returns a descriptor of the namespace that accepts packets to the internet, for Leave.
func (f *Fabric) Outside() (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, os.ErrClosed
	}
	fd, err := unix.FcntlInt(uintptr(f.outside.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "outside"), nil
}

// Leave makes what comes from VPCs to IPv4 addresses of the internet leave a fabric, whose outside namespace is given. Whoever has
// the result reads whole packets from it and writes those that come back. When it is closed, the namespace accepts the
// packets itself again. Only State.Outside gets there, and not what comes through gateway endpoints.
//
// It needs no privileges in the current namespaces, but some in the given one, and a device file that it may open: a child
// without root's privileges may not, so the daemon calls it with a child's namespace.
func Leave(outside *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(outside.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	ns, err := namespaceAt(fd)
	if err != nil {
		return nil, fmt.Errorf("leave the fabric: %w", err)
	}
	defer ns.close()
	var tun *os.File
	err = ns.do(func() (err error) {
		if tun, err = openTUN(leaveDevice); err != nil {
			return err
		}
		return sysctl(map[string]string{"ipv4/ip_forward": "1", "ipv4/conf/" + leaveDevice + "/rp_filter": "0"})
	})
	if err == nil {
		err = ns.leaveBy(leaveDevice)
	}
	if err != nil {
		if tun != nil {
			err = errors.Join(err, tun.Close())
		}
		return nil, fmt.Errorf("leave the fabric: %w", err)
	}
	return tun, nil
}

// leaveBy routes what comes from the fabric to a device.
func (ns *namespace) leaveBy(device string) error {
	dev, err := ns.nl.LinkByName(device)
	if err != nil {
		return err
	}
	if err := errors.Join(ns.nl.LinkSetMTU(dev, MTU), ns.nl.LinkSetUp(dev)); err != nil {
		return fmt.Errorf("set %s up: %w", device, err)
	}
	all := ipNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	if err := ns.nl.RouteReplace(&netlink.Route{LinkIndex: dev.Attrs().Index, Dst: all, Table: leaveTable, Scope: unix.RT_SCOPE_LINK}); err != nil {
		return fmt.Errorf("add route to %s: %w", device, err)
	}
	r := netlink.NewRule()
	r.Family, r.IifName, r.Table, r.Priority = netlink.FAMILY_V4, outsideDevice, leaveTable, 8 // before that of accept
	if err := ns.nl.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add routing rule: %w", err)
	}
	return nil
}

// openTUN makes a TUN device in the current network namespace, which is gone when the result is closed.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = os.NewSyscallError("TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, req))
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil // after it has a device, so that it can be polled
}
