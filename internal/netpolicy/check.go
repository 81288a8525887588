package netpolicy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// A Drop says why a connection between two addresses is not made.
type Drop struct {
	// Pod is the sender or the receiver, as Direction says, whose policies have no rule for the other end.
	Pod       Pod
	Direction networkingv1.PolicyType
	// Policies are those that select the pod for this direction. In the mode strict there may be none.
	Policies []Ref
}

// Check returns what drops a new connection, or nil if it is made. It decides as the rules of Ruleset do, without the mode strict.
// The port counts for protocols that have ports.
func Check(all []Spec, from, to netip.Addr, protocol string, port uint16) *Drop {
	if d := check(all, networkingv1.PolicyTypeEgress, from, to, protocol, port); d != nil {
		return d
	}
	return check(all, networkingv1.PolicyTypeIngress, to, from, protocol, port)
}

// check looks at one end. Fargate has no agent, and its pods have the address of their node. A node reaches its own pods.
func check(all []Spec, direction networkingv1.PolicyType, pod, peer netip.Addr, protocol string, port uint16) *Drop {
	var d *Drop
	for i := range all {
		s := &all[i]
		p, ok := s.selects(pod)
		if !ok || !slices.Contains(s.PodIsolation, direction) {
			continue
		}
		rules := s.Egress
		if direction == networkingv1.PolicyTypeIngress {
			rules = s.Ingress
		}
		if p.HostIP == p.PodIP || direction == networkingv1.PolicyTypeIngress && p.HostIP == peer.String() ||
			slices.ContainsFunc(rules, func(e Endpoint) bool { return e.allows(peer, protocol, port) }) {
			return nil
		}
		if d == nil {
			d = &Drop{Pod: p, Direction: direction}
		}
		d.Policies = append(d.Policies, s.PolicyRef)
	}
	if d != nil {
		slices.SortFunc(d.Policies, func(a, b Ref) int { return cmp.Compare(a.Name, b.Name) })
	}
	return d
}

// selects returns the pod with an address if the policy selects it.
func (s *Spec) selects(address netip.Addr) (Pod, bool) {
	i := slices.IndexFunc(s.PodSelectorEndpoints, func(p Pod) bool { return p.PodIP == address.String() })
	if i < 0 {
		return Pod{}, false
	}
	return s.PodSelectorEndpoints[i], true
}

// Selected reports whether a policy selects the pod with an address. In the mode strict, pods that none selects send and receive
// nothing.
func Selected(all []Spec, address netip.Addr) bool {
	return slices.ContainsFunc(all, func(s Spec) bool { _, ok := s.selects(address); return ok })
}

// allows reports whether an endpoint is the other end of a connection. As in rules, one that is not valid allows nothing.
func (e Endpoint) allows(peer netip.Addr, protocol string, port uint16) bool {
	cidr, ok := valid(e.CIDR)
	if !ok || !cidr.Contains(peer) {
		return false
	}
	for _, x := range e.Except {
		if except, ok := valid(x); !ok || except.Contains(peer) {
			return false
		}
	}
	return len(e.Ports) == 0 || slices.ContainsFunc(e.Ports, func(p Port) bool {
		if !strings.EqualFold(cmp.Or(p.Protocol, "TCP"), protocol) {
			return false
		}
		if p.Port == nil {
			return true
		}
		last := *p.Port
		if p.EndPort != nil {
			last = *p.EndPort
		}
		return *p.Port <= int32(port) && int32(port) <= last
	})
}
