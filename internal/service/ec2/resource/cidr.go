package resource

import "net/netip"

// ParseCIDR parses an IPv4 block as EC2 does, clearing the host bits. ok is false if text is not an
// IPv4 block.
func ParseCIDR(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// ParseCIDR6 is ParseCIDR for IPv6.
func ParseCIDR6(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is6() || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// Within reports whether inner is inside outer.
func Within(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
