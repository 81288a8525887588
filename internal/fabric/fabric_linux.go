package fabric

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
)

// tableBase is added to numbers to get the kernel's routing tables.
const (
	tableBase    = 100000
	nowhereTable = tableBase
	hereTable    = tableBase - 1
)

// The fabric's end of links to its own namespaces.
var (
	hop4, hop6   = netip.MustParseAddr("169.254.100.1"), netip.MustParseAddr("fd00:dd::1")
	peer4, peer6 = netip.MustParseAddr("169.254.100.2"), netip.MustParseAddr("fd00:dd::2")
)

// A Fabric is the network of a State in the network namespace of the current process. It makes two namespaces of its
// own: one for NAT gateways and one for the internet. All methods may be called at the same time.
type Fabric struct {
	mu       sync.Mutex
	nl       *netlink.Handle
	nft      *writer
	state    *State
	numbers  map[string]uint32
	free     uint32 // numbers above it were never used
	returned []uint32
	inForce  map[string]bool  // what the kernel's rules have numbers of
	links    map[string]*link // by interface ID, endpoint ID, or outside
	outside  *namespace
	nat      *namespace
	managed  *namespace // of interfaces that AWS manages
	routes   map[string]netlink.Route
	rules    map[string]*netlink.Rule
	neighs   map[string]netlink.Neigh
	closed   bool

	fixedRoutes []netlink.Route
	fixedRules  []*netlink.Rule
}

// number returns the number of anything that the rules and devices are named for.
func (f *Fabric) number(id string) uint32 {
	n, ok := f.numbers[id]
	if !ok {
		if len(f.returned) > 0 {
			n, f.returned = f.returned[0], f.returned[1:]
		} else {
			f.free++
			n = f.free
		}
		f.numbers[id] = n
	}
	return n
}

// Apply makes the network like the state. Interfaces that are attached stay attached if the state still has them, and
// established connections survive as they do on AWS. If Apply fails, the network may be incomplete: nothing passes that
// neither the last state nor this one allows, and the next call repairs it.
func (f *Fabric) Apply(st *State) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return net.ErrClosed
	}
	broken, err := f.apply(st)
	return errors.Join(append(slices.Collect(maps.Values(broken)), err)...)
}

// apply returns the interfaces that their machines do not let it configure: a machine may do what it likes with its
// devices, which must not matter to others.
func (f *Fabric) apply(st *State) (broken map[string]error, err error) {
	ids := map[string]bool{outsideID: true}
	for _, v := range st.VPCs {
		ids[v.ID] = true
	}
	for _, g := range st.Groups {
		ids[g.ID] = true
		for _, r := range slices.Concat(g.Ingress, g.Egress) {
			ids[r.Group] = true
		}
	}
	for _, a := range st.ACLs {
		ids[a.ID] = true
	}
	endpoints, known := map[string]bool{}, map[string]bool{}
	for _, sn := range st.Subnets {
		ids[sn.ID] = true
		for _, r := range sn.Routes {
			if r.Kind == Endpoint {
				ids[r.Target], endpoints[r.Target] = true, true
			}
		}
	}
	for _, t := range st.Transits {
		ids[t.ID] = true
	}
	for _, e := range st.Interfaces {
		ids[e.ID], known[e.ID] = true, true
	}
	if len(ids) > maxParts {
		return nil, fmt.Errorf("the network has %d parts; the fabric can carry %d", len(ids), maxParts)
	}
	if err := f.lost(); err != nil {
		return nil, err
	}
	for id := range f.links {
		if id != outsideID && !known[id] && !endpoints[id] {
			f.disconnect(id)
		}
	}
	// What the kernel's rules have numbers of keeps them until they have changed, even if that fails.
	release := func() {
		for id, n := range f.numbers {
			if !ids[id] && !f.inForce[id] {
				delete(f.numbers, id)
				f.returned = append(f.returned, n)
			}
		}
	}
	release()
	for _, e := range st.Interfaces {
		if e.NAT && f.links[e.ID] == nil {
			if err := f.wire(e.ID, f.nat, fmt.Sprint("n", f.number(e.ID))); err != nil {
				return broken, err
			}
		}
	}
	for id := range endpoints {
		if f.links[id] != nil {
			continue
		}
		device := fmt.Sprint("e", f.number(id))
		if err := errors.Join(f.wire(id, f.outside, device), f.outside.accept(device)); err != nil {
			return broken, err
		}
	}
	f.state = st
	for _, e := range st.Interfaces {
		if l := f.links[e.ID]; l != nil && l.borrowed {
			if err := f.configure(&e, l); err != nil {
				if broken == nil {
					broken = map[string]error{}
				}
				broken[e.ID] = fmt.Errorf("configure %s: %w", e.ID, err)
			}
		}
	}
	// Routes that change are gone before the rules change, and come back afterwards: at no time do old rules lead to new
	// routes, or new rules to old routes.
	addRoutes, err := f.applyRoutes()
	if err != nil {
		return broken, err
	}
	if err := f.applyNAT(); err != nil {
		return broken, err
	}
	if err := f.applyEndpoints(endpoints); err != nil {
		return broken, err
	}
	next := map[*family]*ruleset{}
	ports := map[string]port{}
	for id, l := range f.links {
		ports[id] = port{uint32(l.index), l.borrowed && !l.managed, l.managed}
	}
	for _, fam := range families {
		next[fam] = compile(st, fam, f.number, ports)
	}
	if err := f.nft.apply(next); err != nil {
		return broken, err
	}
	f.inForce = ids
	release()
	return broken, addRoutes()
}
