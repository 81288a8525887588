package reach

import "net/netip"

// lookup returns the route for a destination: the one with the longest prefix. Among equal ones the local route comes
// first, then those with a CIDR, then those with a prefix list.
// https://docs.aws.amazon.com/vpc/latest/userguide/route-tables-priority.html
func (s *Snapshot) lookup(t *RouteTable, dst netip.Addr) *Route {
	if t == nil {
		return nil
	}
	var best *Route
	longest := -1
	for i := range t.Routes {
		r := &t.Routes[i]
		if r.PrefixList == "" {
			if n := r.Destination.Bits(); r.Destination.Contains(dst) &&
				(n > longest || n == longest && (best.PrefixList != "" || r.Target == Local)) {
				best, longest = r, n
			}
			continue
		}
		pl, ok := get[*PrefixList](s, r.PrefixList)
		if !ok {
			continue
		}
		for _, c := range pl.CIDRs {
			if c.Bits() > longest && c.Contains(dst) {
				best, longest = r, c.Bits()
			}
		}
	}
	return best
}

// peer returns the interface that a packet from an interface to an address reaches directly, within the VPC or
// through a peering connection, or nil. The sender's rules may refer to that interface's groups.
func (s *Snapshot) peer(e *Interface, dst netip.Addr) *Interface {
	near := s.InterfaceAt(e.VPC, dst)
	if near != nil && near.Subnet == e.Subnet {
		return near
	}
	sn, ok := get[*Subnet](s, e.Subnet)
	if !ok {
		return nil
	}
	r := s.lookup(s.tableOf(sn), dst)
	switch {
	case r == nil:
		return nil
	case r.Target == Local:
		return near
	}
	if p, ok := get[*Peering](s, r.Target); ok && p.State == "active" {
		_, there := p.sides(e.VPC)
		return s.InterfaceAt(there.VPC, dst)
	}
	return nil
}
