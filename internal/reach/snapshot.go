package reach

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// A Snapshot is the network of a region at one moment. It never changes and may be used by any number of goroutines.
type Snapshot struct {
	region    string
	resources *sharded[string, Resource]
	addresses *sharded[place, string]   // to interface IDs
	publics   *sharded[netip.Addr, pub] // public IPv4 addresses
	instances *sharded[string, []string]
	topology  *topology
}

// A place is an address, or a delegated prefix, in a VPC.
type place struct {
	vpc  string
	addr netip.Addr
	bits uint8
}

func (p place) hash() uint32 {
	b := p.addr.As16()
	return (uint32(b[15]) | uint32(b[14])<<8 | uint32(b[13])<<16) * 2654435761 >> 16
}

type pub struct {
	eni     string
	private netip.Addr
}

// topology holds what is looked up by VPC and subnet. It is rebuilt when one of its resources changes, which is rare.
type topology struct {
	vpcs      map[string]*vpcView
	tables    map[string]*RouteTable // by subnet or internet gateway
	acls      map[string]*ACL        // by subnet
	owners    map[string]string      // of the interfaces of NAT gateways, endpoints and load balancers
	hostNames []*HostName
	zones     []*HostedZone // longest names first
	endpoints []*VPCEndpoint
	transits  []*TransitAttachment
	faults    []*Fault
}

type vpcView struct {
	*VPC
	main       *RouteTable
	defaultACL *ACL
	gateway    *InternetGateway
	egressOnly *EgressOnlyGateway
	peerings   []*Peering
	transits   []*TransitAttachment
}

// New returns the empty network of a region.
func New(region string) *Snapshot {
	return &Snapshot{
		region:    region,
		resources: newSharded[string, Resource](fnv),
		addresses: newSharded[place, string](place.hash),
		publics:   newSharded[netip.Addr, pub](func(a netip.Addr) uint32 { return place{addr: a}.hash() }),
		instances: newSharded[string, []string](fnv),
		topology:  &topology{},
	}
}

// Region returns the region's name.
func (s *Snapshot) Region() string { return s.region }

// Get returns the resource with that ID, or nil.
func (s *Snapshot) Get(id string) Resource {
	r, _ := s.resources.get(id)
	return r
}

// get returns a resource if it exists and is of that type.
func get[T Resource](s *Snapshot, id string) (T, bool) {
	r, _ := s.resources.get(id)
	t, ok := r.(T)
	return t, ok
}

// All calls yield for every resource, in no particular order.
func (s *Snapshot) All(yield func(Resource) bool) {
	for _, r := range s.resources.all {
		if !yield(r) {
			return
		}
	}
}

// InterfaceAt returns the interface that has an address in a VPC, or nil.
func (s *Snapshot) InterfaceAt(vpc string, a netip.Addr) *Interface {
	id, ok := s.addresses.get(place{vpc, a, 128})
	if !ok {
		bits := 28
		if a.Is6() {
			bits = 80
		}
		p, err := a.Prefix(bits)
		if err != nil {
			return nil
		}
		if id, ok = s.addresses.get(place{vpc, p.Addr(), uint8(bits)}); !ok {
			return nil
		}
	}
	e, _ := get[*Interface](s, id)
	return e
}

// primaryInterface returns the interface through which an instance's flows leave.
func (s *Snapshot) primaryInterface(instance string) *Interface {
	ids, _ := s.instances.get(instance)
	var first *Interface
	for _, id := range ids {
		if e, ok := get[*Interface](s, id); ok && (first == nil || e.Primary) {
			first = e
		}
	}
	return first
}

func (s *Snapshot) vpc(id string) *vpcView { return s.topology.vpcs[id] }

// tableOf returns the route table of a subnet, or nil if none is known.
func (s *Snapshot) tableOf(sn *Subnet) *RouteTable {
	if t := s.topology.tables[sn.ID]; t != nil {
		return t
	}
	if v := s.vpc(sn.VPC); v != nil {
		return v.main
	}
	return nil
}

func (s *Snapshot) aclOf(sn *Subnet) *ACL {
	if a := s.topology.acls[sn.ID]; a != nil {
		return a
	}
	if v := s.vpc(sn.VPC); v != nil {
		return v.defaultACL
	}
	return nil
}

// A Draft is the next snapshot under construction. Only one goroutine may use it.
type Draft struct {
	next      Snapshot
	resources *shardedEdit[string, Resource]
	addresses *shardedEdit[place, string]
	publics   *shardedEdit[netip.Addr, pub]
	instances *shardedEdit[string, []string]
	reshaped  bool // set if the topology changed
}

// Edit begins the next snapshot.
func (s *Snapshot) Edit() *Draft {
	return &Draft{
		next:      *s,
		resources: s.resources.edit(), addresses: s.addresses.edit(),
		publics: s.publics.edit(), instances: s.instances.edit(),
	}
}

// Put adds a resource and replaces one with the same ID.
func (d *Draft) Put(r Resource) {
	old, ok := d.resources.m.get(r.ResourceID())
	if e, is := old.(*Interface); ok && is {
		d.unindex(e)
	}
	switch r := r.(type) {
	case *Interface:
		d.index(r)
	case *Instance, *SecurityGroup, *PrefixList:
	case *ACL:
		if !slices.IsSortedFunc(r.Entries, byNumber) {
			sorted := *r
			sorted.Entries = slices.Clone(r.Entries)
			slices.SortStableFunc(sorted.Entries, byNumber)
			d.resources.set(r.ID, &sorted)
			d.reshaped = true
			return
		}
		d.reshaped = true
	default:
		d.reshaped = true
	}
	d.resources.set(r.ResourceID(), r)
}

func byNumber(a, b Entry) int { return cmp.Compare(a.Number, b.Number) }

// Delete removes the resource with that ID, if there is one.
func (d *Draft) Delete(id string) {
	old, ok := d.resources.m.get(id)
	if !ok {
		return
	}
	switch r := old.(type) {
	case *Interface:
		d.unindex(r)
	case *Instance, *SecurityGroup, *PrefixList:
	default:
		d.reshaped = true
	}
	d.resources.delete(id)
}

func (e *Interface) places(yield func(place) bool) {
	for _, a := range e.Addresses {
		if !yield(place{e.VPC, a.Private, 128}) {
			return
		}
	}
	for _, p := range e.Prefixes {
		if !yield(place{e.VPC, p.Addr(), uint8(p.Bits())}) {
			return
		}
	}
}

func (d *Draft) index(e *Interface) {
	for p := range e.places {
		d.addresses.set(p, e.ID)
	}
	for _, a := range e.Addresses {
		if a.Public.IsValid() {
			d.publics.set(a.Public, pub{e.ID, a.Private})
		}
	}
	if e.Instance != "" {
		ids, _ := d.instances.m.get(e.Instance)
		ids = append(slices.Clone(ids), e.ID)
		slices.Sort(ids)
		d.instances.set(e.Instance, ids)
	}
}

// unindex removes an interface from the indexes. It keeps entries that another interface has taken over in the
// meantime.
func (d *Draft) unindex(e *Interface) {
	for p := range e.places {
		if id, _ := d.addresses.m.get(p); id == e.ID {
			d.addresses.delete(p)
		}
	}
	for _, a := range e.Addresses {
		if p, _ := d.publics.m.get(a.Public); p.eni == e.ID {
			d.publics.delete(a.Public)
		}
	}
	if e.Instance != "" {
		ids, _ := d.instances.m.get(e.Instance)
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == e.ID })
		if len(ids) == 0 {
			d.instances.delete(e.Instance)
		} else {
			d.instances.set(e.Instance, ids)
		}
	}
}

// Snapshot returns the network as drafted. Do not use the draft afterwards.
func (d *Draft) Snapshot() *Snapshot {
	s := d.next
	s.resources, s.addresses, s.publics, s.instances = d.resources.m, d.addresses.m, d.publics.m, d.instances.m
	if d.reshaped {
		s.topology = s.shape()
	}
	return &s
}

func (s *Snapshot) shape() *topology {
	t := &topology{vpcs: map[string]*vpcView{}, tables: map[string]*RouteTable{}, acls: map[string]*ACL{}, owners: map[string]string{}}
	view := func(id string) *vpcView {
		if t.vpcs[id] == nil {
			t.vpcs[id] = &vpcView{}
		}
		return t.vpcs[id]
	}
	for _, r := range s.resources.all {
		switch r := r.(type) {
		case *VPC:
			view(r.ID).VPC = r
		case *RouteTable:
			if r.Main {
				view(r.VPC).main = r
			}
			for _, id := range slices.Concat(r.Subnets, r.Gateways) {
				t.tables[id] = r
			}
		case *ACL:
			if r.Default {
				view(r.VPC).defaultACL = r
			}
			for _, sn := range r.Subnets {
				t.acls[sn] = r
			}
		case *InternetGateway:
			if r.VPC != "" {
				view(r.VPC).gateway = r
			}
		case *EgressOnlyGateway:
			if r.VPC != "" {
				view(r.VPC).egressOnly = r
			}
		case *Peering:
			for _, side := range []PeeringSide{r.Requester, r.Accepter} {
				v := view(side.VPC)
				v.peerings = append(v.peerings, r)
			}
		case *TransitAttachment:
			t.transits = append(t.transits, r)
			v := view(r.VPC)
			v.transits = append(v.transits, r)
		case *Fault:
			t.faults = append(t.faults, r)
		case *HostName:
			t.hostNames = append(t.hostNames, r)
		case *HostedZone:
			t.zones = append(t.zones, r)
		case *LoadBalancer:
			for _, e := range r.Interfaces {
				t.owners[e] = r.DNSName
			}
		case *NATGateway:
			t.owners[r.Interface] = r.ID
		case *VPCEndpoint:
			for _, e := range r.Interfaces {
				t.owners[e] = r.ID
			}
			t.endpoints = append(t.endpoints, r)
		}
	}
	for id, v := range t.vpcs {
		if v.VPC == nil { // resources of a VPC that was deleted, or is in another region
			delete(t.vpcs, id)
			continue
		}
		slices.SortFunc(v.transits, byAttachmentID)
		slices.SortFunc(v.peerings, func(a, b *Peering) int { return strings.Compare(a.ID, b.ID) })
	}
	slices.SortFunc(t.transits, byAttachmentID)
	slices.SortFunc(t.faults, func(a, b *Fault) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(t.hostNames, func(a, b *HostName) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(t.zones, func(a, b *HostedZone) int {
		return cmp.Or(cmp.Compare(len(b.Name), len(a.Name)), strings.Compare(a.ID, b.ID))
	})
	slices.SortFunc(t.endpoints, func(a, b *VPCEndpoint) int { return strings.Compare(a.ID, b.ID) })
	return t
}

// PeeredAccounts returns the other accounts with which an account's VPCs are peered in this region.
func (s *Snapshot) PeeredAccounts(account string) []string {
	var out []string
	for _, v := range s.topology.vpcs {
		if v.Account != account {
			continue
		}
		for _, p := range v.peerings {
			_, there := p.sides(v.ID)
			if there.Account != "" && there.Account != account && there.Region == s.region && !slices.Contains(out, there.Account) {
				out = append(out, there.Account)
			}
		}
	}
	return out
}
