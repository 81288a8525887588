// Package dialout dials targets chosen by someone else, such as the clients of a proxy. It refuses this machine's
// loopback and link-local addresses, because services on loopback often trust local callers, and a cloud machine's
// metadata service returns its credentials.
package dialout

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Dialer returns a dialer that refuses such addresses. It checks the resolved address, so a
// DNS name cannot get around it.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if local(to.Addr()) {
			return fmt.Errorf("%s is a loopback or link-local address", to.Addr())
		}
		return nil
	}}
}

// metadata is the IPv6 range of EC2's metadata, time and DNS services.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
var metadata = netip.MustParsePrefix("fd00:ec2::/32")

func local(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() || metadata.Contains(a)
}

// Internet returns a dialer that connects only to what is neither this machine nor in its networks: besides the addresses
// that Dialer refuses, it refuses those that the internet does not route, all addresses of this machine, those of the
// networks that its interfaces are in, and those to which its kernel sends nothing.
func Internet(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return OnInternet(to.Addr())
	}}
}

// OnInternet returns an error if Internet refuses an address. The interfaces and routes of this machine are read each time.
func OnInternet(a netip.Addr) error { return here.onInternet(a) }

// A place is a machine that dials. Its functions read its interfaces' addresses, and return an error unless an address is
// another machine's.
type place struct {
	interfaces func() ([]net.Addr, error)
	routed     func(netip.Addr) error
}

var here = place{net.InterfaceAddrs, routed}

func (h place) onInternet(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	if local(a) {
		return fmt.Errorf("%s is a loopback or link-local address", a)
	}
	if slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return fmt.Errorf("%s is not an address of the internet", a)
	}
	own, err := h.interfaces()
	if err != nil {
		return fmt.Errorf("finding the addresses of this machine: %w", err)
	}
	for _, o := range own {
		if p, err := netip.ParsePrefix(o.String()); err == nil && p.Masked().Contains(a) {
			return fmt.Errorf("%s is in a network of this machine, %s", a, p.Masked())
		}
	}
	return h.routed(a)
}

// special are the addresses that the internet does not route, and transition mechanisms that would reach IPv4 addresses among them.
// 168.63.129.16 is the platform's endpoint in virtual machines of Azure: DNS, and the agent's certificates and extensions.
// https://learn.microsoft.com/en-us/azure/virtual-network/what-is-ip-address-168-63-129-16
// https://www.iana.org/assignments/iana-ipv4-special-registry/
// https://www.iana.org/assignments/iana-ipv6-special-registry/
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("224.0.0.0/3"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("::/8"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("100::/64"), netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("3fff::/20"), netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("ff00::/8"),
}

// Special returns the IPv4 addresses that the internet does not route.
func Special() []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(special), func(p netip.Prefix) bool { return p.Addr().Is6() })
}
