package ec2

import (
	"net/netip"
)

// parseCIDR reads an IPv4 block as EC2 does: host bits are cleared. ok is false
// for anything that is not one.
func parseCIDR(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// parseCIDR6 is parseCIDR for IPv6.
func parseCIDR6(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is6() || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// within reports whether inner lies inside outer.
func within(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
