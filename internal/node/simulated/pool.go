package simulated

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/node"
)

// pool holds a node's addresses for pods, like the datastore of the VPC CNI plugin's daemon.
type pool struct {
	byIP  map[netip.Addr]*address
	order []*address
}

// address is one address for pods.
type address struct {
	ip    netip.Addr
	eni   string
	block netip.Prefix // the delegated prefix that it belongs to; invalid for a single address
	uid   types.UID    // the pod that has it
	// cool is when another pod may get it.
	cool time.Time
	// known says that the interface has it. A pod of an earlier run of the node may hold one that the interface no
	// longer has.
	known bool
}

func newPool() *pool { return &pool{byIP: map[netip.Addr]*address{}} }

// set takes over the interfaces' addresses, or those of their prefixes. Pods keep what they hold.
func (p *pool) set(enis []node.PodInterface, prefixes bool) {
	for _, a := range p.byIP {
		a.known = false
	}
	p.order = p.order[:0]
	add := func(eni string, ip netip.Addr, block netip.Prefix) {
		a := p.byIP[ip]
		if a == nil {
			a = &address{ip: ip}
			p.byIP[ip] = a
		}
		a.eni, a.block, a.known = eni, block, true
		p.order = append(p.order, a)
	}
	for _, e := range enis {
		if !prefixes {
			for _, ip := range e.Addresses {
				add(e.ID, ip, netip.Prefix{})
			}
			continue
		}
		for _, block := range e.Prefixes {
			for ip := block.Addr(); block.Contains(ip); ip = ip.Next() {
				add(e.ID, ip, block)
			}
		}
	}
	for ip, a := range p.byIP {
		if !a.known && a.uid == "" {
			delete(p.byIP, ip)
		}
	}
}

// set6 takes over the first n addresses of the interfaces' IPv6 prefixes, of which each has 2^48.
func (p *pool) set6(enis []node.PodInterface, n int) {
	var all []node.PodInterface
	for _, e := range enis {
		single := node.PodInterface{ID: e.ID}
		for _, block := range e.Prefixes6 {
			for ip := block.Addr(); len(single.Addresses) < n; ip = ip.Next() {
				single.Addresses = append(single.Addresses, ip)
			}
		}
		all = append(all, single)
	}
	p.set(all, false)
}

// take gives an address to a pod.
func (p *pool) take(uid types.UID, now time.Time) (netip.Addr, bool) {
	for _, a := range p.order {
		if a.uid == "" && !now.Before(a.cool) {
			a.uid = uid
			return a.ip, true
		}
	}
	return netip.Addr{}, false
}

// has reports whether take would return an address. If not, next is when the first one has cooled down, or zero if
// none is cooling down.
func (p *pool) has(now time.Time) (ok bool, next time.Time) {
	for _, a := range p.order {
		if a.uid != "" {
			continue
		}
		if !now.Before(a.cool) {
			return true, time.Time{}
		}
		if next.IsZero() || a.cool.Before(next) {
			next = a.cool
		}
	}
	return false, next
}

// claim marks an address that a pod has kept from an earlier run of the node.
func (p *pool) claim(ip netip.Addr, uid types.UID) {
	a := p.byIP[ip]
	if a == nil {
		a = &address{ip: ip}
		p.byIP[ip] = a
	}
	a.uid = uid
}

// release takes an address back from a pod, to be left alone until cool. It returns false if the pod did not have it.
func (p *pool) release(ip netip.Addr, uid types.UID, cool time.Time) bool {
	a := p.byIP[ip]
	if a == nil || a.uid != uid {
		return false
	}
	a.uid, a.cool = "", cool
	if !a.known {
		delete(p.byIP, ip)
	}
	return true
}

// poolStats counts addresses.
type poolStats struct{ total, assigned, blocks, freeBlocks int }

func (s poolStats) available() int { return s.total - s.assigned }

// stats counts all addresses, or those of the interfaces for which only returns true.
func (p *pool) stats(only func(eni string) bool) poolStats {
	var s poolStats
	used := map[netip.Prefix]bool{}
	for _, a := range p.order {
		if only != nil && !only(a.eni) {
			continue
		}
		s.total++
		if a.uid != "" {
			s.assigned++
		}
		if a.block.IsValid() {
			used[a.block] = used[a.block] || a.uid != ""
		}
	}
	s.blocks = len(used)
	for _, u := range used {
		if !u {
			s.freeBlocks++
		}
	}
	return s
}

// idle reports whether no pod has an address of an interface, and from when on none of them is cooling down.
func (p *pool) idle(eni string) (ok bool, cooled time.Time) {
	for _, a := range p.order {
		if a.eni != eni {
			continue
		}
		if a.uid != "" {
			return false, time.Time{}
		}
		if a.cool.After(cooled) {
			cooled = a.cool
		}
	}
	return true, cooled
}

// freeable returns up to n of an interface's single addresses that no pod has and prefixes in which no pod has any.
func (p *pool) freeable(eni string, n int) (ips []netip.Addr, blocks []netip.Prefix) {
	used := map[netip.Prefix]bool{}
	for _, a := range p.order {
		if a.eni == eni && a.block.IsValid() && a.uid != "" {
			used[a.block] = true
		}
	}
	seen := map[netip.Prefix]bool{}
	for _, a := range p.order {
		switch {
		case a.eni != eni || len(ips)+len(blocks) >= n:
		case a.block.IsValid():
			if !used[a.block] && !seen[a.block] {
				seen[a.block] = true
				blocks = append(blocks, a.block)
			}
		case a.uid == "":
			ips = append(ips, a.ip)
		}
	}
	return ips, blocks
}
