package reach

import "net/netip"

// Look-ups for code that suggests changes to a network.

// InterfaceOf returns the interface through which a flow from an endpoint leaves, or nil.
func (s *Snapshot) InterfaceOf(from Endpoint) *Interface {
	switch r := s.Get(from.ID).(type) {
	case *Interface:
		return r
	case *Instance:
		return s.primaryInterface(r.ID)
	}
	return nil
}

// VPC returns the VPC with that ID, or nil.
func (s *Snapshot) VPC(id string) *VPC {
	if v := s.vpc(id); v != nil {
		return v.VPC
	}
	return nil
}

// Table returns the route table that a subnet uses, or nil.
func (s *Snapshot) Table(sn *Subnet) *RouteTable { return s.tableOf(sn) }

// IngressTable returns the route table of an internet gateway, or nil.
func (s *Snapshot) IngressTable(gateway string) *RouteTable { return s.topology.tables[gateway] }

// Gateway returns the internet gateway of a VPC, or nil.
func (s *Snapshot) Gateway(vpc string) *InternetGateway {
	if v := s.vpc(vpc); v != nil {
		return v.gateway
	}
	return nil
}

// PeeringTo returns a VPC's peering connection that leads to an address, and the range of the other VPC that contains
// it.
func (s *Snapshot) PeeringTo(vpc string, a netip.Addr) (*Peering, netip.Prefix) {
	if v := s.vpc(vpc); v != nil {
		for _, p := range v.peerings {
			_, there := p.sides(vpc)
			for _, c := range s.ranges(there) {
				if c.Contains(a) {
					return p, c
				}
			}
		}
	}
	return nil, netip.Prefix{}
}

// Endpoints returns the VPC endpoints, sorted by ID.
func (s *Snapshot) Endpoints() []*VPCEndpoint { return s.topology.endpoints }

// HostNames returns the names that are not derived from the network, sorted.
func (s *Snapshot) HostNames() []*HostName { return s.topology.hostNames }

// PrefixListOf returns the prefix list of a gateway endpoint's service, or nil.
func (s *Snapshot) PrefixListOf(service string) *PrefixList {
	return s.prefixList("com.amazonaws." + s.region + "." + service)
}

// Public reports whether an address can be on the internet.
func Public(a netip.Addr) bool { return public(a) }

// ACL returns the network ACL of a subnet, or nil if everything passes.
func (s *Snapshot) ACL(sn *Subnet) *ACL { return s.aclOf(sn) }

// Passable reports whether packets can pass an interface: its instance runs, the VPC endpoint that it belongs to is
// available, and no fault cuts it off.
func (s *Snapshot) Passable(e *Interface) bool {
	if i, ok := get[*Instance](s, e.Instance); ok && !i.on() {
		return false
	}
	if v, ok := get[*VPCEndpoint](s, s.topology.owners[e.ID]); ok && v.State != "" && v.State != "available" {
		return false
	}
	return s.cut(e) == nil
}
