package simulated

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// pool holds the addresses that a node has for pods, as the VPC CNI plugin's
// daemon does: an address given back goes to the end of the line.
type pool struct {
	known map[netip.Addr]bool
	free  []netip.Addr
	used  map[netip.Addr]types.UID
}

func newPool() *pool {
	return &pool{known: map[netip.Addr]bool{}, used: map[netip.Addr]types.UID{}}
}

// add makes addresses known; those in use stay so.
func (p *pool) add(addrs []netip.Addr) {
	for _, a := range addrs {
		if p.known[a] {
			continue
		}
		p.known[a] = true
		if _, ok := p.used[a]; !ok {
			p.free = append(p.free, a)
		}
	}
}

// take gives an address to a pod.
func (p *pool) take(uid types.UID) (netip.Addr, bool) {
	for len(p.free) > 0 {
		a := p.free[0]
		p.free = p.free[1:]
		if _, ok := p.used[a]; !ok {
			p.used[a] = uid
			return a, true
		}
	}
	return netip.Addr{}, false
}

// claim marks an address that a pod has from an earlier life of the node.
func (p *pool) claim(a netip.Addr, uid types.UID) { p.used[a] = uid }

// release takes an address back from a pod, and says whether the pod had it.
func (p *pool) release(a netip.Addr, uid types.UID) bool {
	if owner, ok := p.used[a]; !ok || owner != uid {
		return false
	}
	delete(p.used, a)
	if p.known[a] {
		p.free = append(p.free, a)
	}
	return true
}
