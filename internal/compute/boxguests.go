package compute

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/fabric"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reach"
)

// guestPorts are those at which programs of simulated machines answer: sshd and the kubelet.
var guestPorts = []uint16{22, 10250}

// maxGuests bounds the addresses of simulated machines of an account and Region that machines that run containers reach at
// guestPorts. Connections to others time out.
const maxGuests = 1024

// boxGuests are the simulated machines of a network, as machines that run containers see them.
type boxGuests struct {
	s       *reach.Snapshot
	private map[string][]boxGuest // by VPC
	public  []boxGuest
	classes map[guestClass]int
	cut     bool                // some are beyond maxGuests
	next    map[string][]string // the VPCs that routes of a VPC lead to
	gateway map[string]bool     // the VPCs with an internet gateway
	seen    map[string][]boxGuest
}

// A boxGuest is an address of a simulated machine.
type boxGuest struct {
	at    netip.Addr
	eni   *reach.Interface
	class int
}

// A guestClass is all that decides whether packets from elsewhere arrive at a guest. Of guests in the same class, it is
// enough to ask for one: a node group of a thousand has few classes.
type guestClass struct {
	subnet, groups string
	passable       bool
	// private and at are the smallest ranges in rules and routes that contain the private address and the one to connect to.
	private, at netip.Prefix
	target      string // the interface, if routes lead to it
}

// A guestPort is a port of all guests of a class.
type guestPort struct {
	class int
	port  uint16
}

// newBoxGuests returns the simulated machines of a network, which are all that run no containers, at the primary addresses
// of their interfaces. Of each account, it takes the first by the IDs of the interfaces.
func newBoxGuests(s *reach.Snapshot, st *fabric.State, boxes map[string]machine.Instance) *boxGuests {
	g := &boxGuests{
		s: s, private: map[string][]boxGuest{}, classes: map[guestClass]int{}, next: map[string][]string{}, gateway: map[string]bool{}, seen: map[string][]boxGuest{},
	}
	g.connect(st)
	var all []*reach.Interface
	for r := range s.All {
		if e, ok := r.(*reach.Interface); ok && e.Instance != "" && boxes[e.Instance].ID == "" {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *reach.Interface) int { return strings.Compare(a.ID, b.ID) })
	ranges, targets := rangesOf(s)
	count := map[string]int{} // by account
	for _, e := range all {
		i := slices.IndexFunc(e.Addresses, func(a reach.Address) bool { return a.Private.Is4() })
		if i < 0 {
			continue
		}
		a, account := e.Addresses[i], ""
		if v := s.VPC(e.VPC); v != nil {
			account = v.Account
		}
		class := guestClass{
			subnet: e.Subnet, groups: strings.Join(e.Groups, " "), passable: e.Attached && s.Passable(e), private: smallest(ranges, a.Private),
		}
		if targets[e.ID] {
			class.target = e.ID
		}
		for _, at := range []netip.Addr{a.Private, a.Public} {
			if !at.Is4() {
				continue
			}
			if count[account]++; count[account] > maxGuests {
				g.cut = true
				break
			}
			class.at = smallest(ranges, at)
			number, ok := g.classes[class]
			if !ok {
				number = len(g.classes)
				g.classes[class] = number
			}
			if to := (boxGuest{at, e, number}); at == a.Private {
				g.private[e.VPC] = append(g.private[e.VPC], to)
			} else {
				g.public = append(g.public, to)
			}
		}
	}
	return g
}

// connect learns which VPCs lead to others.
func (g *boxGuests) connect(st *fabric.State) {
	of := map[string]string{} // VPCs by subnet
	for _, sn := range st.Subnets {
		of[sn.ID] = sn.VPC
		for _, r := range sn.Routes {
			if r.Kind == fabric.Peering {
				g.next[sn.VPC] = append(g.next[sn.VPC], r.Target)
			}
		}
	}
	for _, t := range st.Transits {
		for _, r := range t.Routes {
			if r.Kind == fabric.Enter {
				g.next[t.VPC] = append(g.next[t.VPC], of[r.Target])
			}
		}
	}
	for _, v := range st.VPCs {
		g.gateway[v.ID] = v.Gateway
	}
}

// of returns the guests that packets from a VPC may get to: those of the VPCs that its routes lead to, and those with public
// addresses if there is an internet gateway.
func (g *boxGuests) of(vpc string) []boxGuest {
	out, ok := g.seen[vpc]
	if ok {
		return out
	}
	reached, internet := []string{vpc}, false
	for i := 0; i < len(reached); i++ {
		internet = internet || g.gateway[reached[i]]
		for _, to := range g.next[reached[i]] {
			if !slices.Contains(reached, to) {
				reached = append(reached, to)
			}
		}
	}
	for _, id := range reached {
		for _, to := range g.private[id] {
			if own := g.s.InterfaceAt(vpc, to.at); own == nil || own.ID == to.eni.ID { // ranges of VPCs may overlap
				out = append(out, to)
			}
		}
	}
	if internet {
		out = append(out, g.public...)
	}
	g.seen[vpc] = out
	return out
}

// open returns at which of the guests' ports the network lets an instance connect.
func (g *boxGuests) open(in machine.Instance) map[guestPort]bool {
	out := map[guestPort]bool{}
	for _, to := range g.of(in.VPCID) {
		for _, port := range guestPorts {
			q := guestPort{to.class, port}
			if _, ok := out[q]; ok {
				continue
			}
			v := g.s.Check(reach.Flow{From: reach.At(in.ID), To: reach.Addr(to.at), Protocol: reach.TCP, Port: port})
			id, _, arrives := instanceAt(v)
			out[q] = v.Reachable && arrives && id == to.eni.Instance
		}
	}
	return out
}

// rangesOf returns the ranges of addresses that decide in a network, and what its routes lead to.
func rangesOf(s *reach.Snapshot) (ranges map[netip.Prefix]bool, targets map[string]bool) {
	ranges, targets = map[netip.Prefix]bool{}, map[string]bool{}
	add := func(all ...netip.Prefix) {
		for _, p := range all {
			ranges[p.Masked()] = true
		}
	}
	for r := range s.All {
		switch r := r.(type) {
		case *reach.VPC:
			add(r.CIDRs...)
		case *reach.Subnet:
			add(r.CIDRs...)
		case *reach.RouteTable:
			for _, x := range r.Routes {
				add(x.Destination)
				targets[x.Target] = true
			}
		case *reach.TransitTable:
			for _, x := range r.Routes {
				add(x.Destination)
			}
		case *reach.ACL:
			for _, x := range r.Entries {
				add(x.CIDR)
			}
		case *reach.SecurityGroup:
			for _, x := range r.Rules {
				add(x.CIDR)
			}
		case *reach.PrefixList:
			add(r.CIDRs...)
		case *reach.Peering:
			add(r.Requester.CIDRs...)
			add(r.Accepter.CIDRs...)
		}
	}
	return ranges, targets
}

// smallest returns the smallest of the ranges with an address. Two addresses that have it in common have all in common.
func smallest(ranges map[netip.Prefix]bool, a netip.Addr) netip.Prefix {
	for bits := a.BitLen(); bits > 0; bits-- {
		if p, err := a.Prefix(bits); err == nil && ranges[p] {
			return p
		}
	}
	return netip.Prefix{}
}
