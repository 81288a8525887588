package fabric

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

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
		return f.outside, outsideDevice, own, nil
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
