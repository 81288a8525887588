package netpolicy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// Policies are what is enforced in a cluster.
type Policies struct {
	Namespaced []Spec
	Cluster    []ClusterSpec
	// Strict is the VPC CNI's mode strict: pods that no policy of their namespace selects send and receive nothing, unless a
	// ClusterNetworkPolicy says otherwise.
	Strict bool
}

// A Drop says why a connection between two addresses is not made.
type Drop struct {
	// Pod is the sender or the receiver, as Direction says, whose policies drop it.
	Pod       Pod
	Direction networkingv1.PolicyType
	// Denied is the ClusterNetworkPolicy that denies it, if one does.
	Denied *ClusterSpec
	// Policies are otherwise those that select the pod for this direction and have no rule for the other end. In the mode strict
	// there may be none.
	Policies []Ref
}

// Check returns what drops a new connection, or nil if it is made. It decides as the rules of Ruleset do if to is
// not the address of a Service. The port counts for protocols that have ports. pod returns the pod with an address, which the mode strict needs, or nil. Fargate has no agent, and
// its pods have the address of their node: they are in no policy.
func (p Policies) Check(from, to netip.Addr, protocol string, port uint16, pod func(netip.Addr) (*Pod, error)) (*Drop, error) {
	for _, end := range []struct {
		direction networkingv1.PolicyType
		pod, peer netip.Addr
	}{{networkingv1.PolicyTypeEgress, from, to}, {networkingv1.PolicyTypeIngress, to, from}} {
		d, decided := p.check(end.direction, end.pod, end.peer, protocol, port)
		if d != nil {
			return d, nil
		}
		if decided || !p.Strict {
			continue
		}
		found, err := pod(end.pod)
		if err != nil {
			return nil, err
		}
		// A node reaches its own pods.
		if found == nil || found.HostIP == found.PodIP || end.direction == networkingv1.PolicyTypeIngress && found.HostIP == end.peer.String() {
			continue
		}
		return &Drop{Pod: *found, Direction: end.direction}, nil
	}
	return nil, nil
}

// check looks at one end, in the order of EKS's agent: the tier Admin, the policies of the pod's namespace, the tier Baseline. It
// reports whether one of them has decided. A pod that a policy of its namespace selects in one direction only is open in the
// other one, and the tier Baseline does not count for it, as on EKS.
func (p Policies) check(direction networkingv1.PolicyType, address, peer netip.Addr, protocol string, port uint16) (d *Drop, decided bool) {
	var pod Pod
	var clusterPolicies []*ClusterSpec
	for i := range p.Cluster {
		if found, ok := selects(p.Cluster[i].PodSelectorEndpoints, address); ok {
			pod, clusterPolicies = found, append(clusterPolicies, &p.Cluster[i])
		}
	}
	var selecting []*Spec
	for i := range p.Namespaced {
		if found, ok := selects(p.Namespaced[i].PodSelectorEndpoints, address); ok {
			pod, selecting = found, append(selecting, &p.Namespaced[i])
		}
	}
	if pod.PodIP == "" {
		return nil, false
	}
	// Pods and their node reach each other.
	if pod.HostIP == pod.PodIP || pod.HostIP == peer.String() {
		return nil, true
	}
	tier := func(name string) bool {
		for _, r := range ordered(clusterPolicies, name, direction) {
			if !r.on.allows(peer, protocol, port) {
				continue
			}
			if r.action == Deny {
				d = &Drop{Pod: pod, Direction: direction, Denied: r.policy}
			}
			return r.action == Deny || r.action == Accept
		}
		return false
	}
	if tier(Admin) {
		return d, true
	}
	if len(selecting) == 0 {
		decided = tier(Baseline)
		return d, decided
	}
	for _, s := range selecting {
		if !slices.Contains(s.PodIsolation, direction) {
			continue
		}
		rules := s.Egress
		if direction == networkingv1.PolicyTypeIngress {
			rules = s.Ingress
		}
		if slices.ContainsFunc(rules, func(e Endpoint) bool { return e.allows(peer, protocol, port) }) {
			return nil, true
		}
		if d == nil {
			d = &Drop{Pod: pod, Direction: direction}
		}
		d.Policies = append(d.Policies, s.PolicyRef)
	}
	if d != nil {
		slices.SortFunc(d.Policies, func(a, b Ref) int { return cmp.Compare(a.Name, b.Name) })
	}
	return d, true
}

// selects returns the pod with an address if it is one of those that a policy selects.
func selects(pods []Pod, address netip.Addr) (Pod, bool) {
	i := slices.IndexFunc(pods, func(p Pod) bool { return p.PodIP == address.String() })
	if i < 0 {
		return Pod{}, false
	}
	return pods[i], true
}

// allows reports whether an endpoint is the other end of a connection. As in statements, one that is not valid allows nothing.
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
