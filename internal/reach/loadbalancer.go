package reach

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A LoadBalancer of Elastic Load Balancing accepts connections at its network interfaces. For forwarding see
// Snapshot.CheckTarget.
type LoadBalancer struct {
	// DNSName is in lower case. It is also the resource's ID.
	DNSName string
	// Name identifies the load balancer in messages: the ARN, or the name of a Classic Load Balancer.
	Name string
	// Internal load balancers have no public addresses.
	Internal   bool
	Interfaces []string
}

// ResourceID returns the DNS name.
func (r *LoadBalancer) ResourceID() string { return r.DNSName }

// LoadBalancerOf returns the load balancer that a network interface belongs to, if any.
func (s *Snapshot) LoadBalancerOf(eni string) *LoadBalancer {
	lb, _ := get[*LoadBalancer](s, s.topology.owners[eni])
	return lb
}

// IsBalancerName reports whether a name is in a zone in which only Elastic Load Balancing creates names.
func IsBalancerName(name string) bool {
	n := strings.ToLower(strings.TrimSuffix(name, "."))
	if strings.HasSuffix(n, ".elb.amazonaws.com") {
		return true
	}
	before, region, ok := strings.Cut(strings.TrimSuffix(n, ".amazonaws.com"), ".elb.")
	return ok && before != "" && region != "" && !strings.Contains(region, ".") && strings.HasSuffix(n, ".amazonaws.com")
}

// balancerAddresses returns the addresses that the name of a load balancer resolves to, for every client: private
// ones if it is internal. The name may be preceded by the label dualstack or by one of its zones.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/network-load-balancers.html#dns-name
func (s *Snapshot) balancerAddresses(n string) (lb *LoadBalancer, out []netip.Addr) {
	zone := ""
	lb, ok := get[*LoadBalancer](s, n)
	if !ok {
		label, rest, _ := strings.Cut(n, ".")
		if lb, ok = get[*LoadBalancer](s, rest); !ok {
			return nil, nil
		}
		if label != "dualstack" {
			zone = label
		}
	}
	for _, id := range lb.Interfaces {
		e, ok := get[*Interface](s, id)
		if !ok || zone != "" && e.Zone != zone {
			continue
		}
		a, ok := e.primary(false)
		switch {
		case !ok:
		case lb.Internal:
			out = append(out, a.Private)
		case a.Public.IsValid():
			out = append(out, a.Public)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return lb, out
}

// CheckTarget decides the flow from a load balancer's interface to one of its targets. If the target is to see the
// client's address, the target's filters decide by that address, or by the load balancer's groups. Replies to it go back the
// way they came. Clients of the other address family are not seen.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/edit-target-group-attributes.html#client-ip-preservation
func (s *Snapshot) CheckTarget(f Flow, client netip.Addr) *Verdict {
	w := &walk{s: s, v: &Verdict{}}
	if to := s.Check(f).Destination; client.Is4() == to.Is4() {
		w.client = client
	}
	v := w.decide(f)
	if w.client.IsValid() {
		v.Flow.From.Address = client
	}
	return v
}

// indirect denies packets with a client's address that something forwards between the load balancer and the target: they must
// flow directly.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/edit-target-group-attributes.html#client-ip-preservation
func (w *walk) indirect(h Hop, through string, p packet) bool {
	if w.client.IsValid() {
		w.deny(h, Explanation{Code: CodeUnsupported}, "%s is behind %s, through which load balancers cannot preserve clients' addresses", p.dst, through)
	}
	return w.client.IsValid()
}

// hairpin denies packets with a client's address to the instance that has it, also for a pod. They would not get back to the load
// balancer.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-troubleshooting.html#loopback-timeout
func (w *walk) hairpin(e *Interface) bool {
	if w.reply || !w.client.IsValid() {
		return false
	}
	at := w.s.InterfaceAt(e.VPC, w.client)
	if at == nil || at.ID != e.ID && (at.Instance == "" || at.Instance != e.Instance) {
		return false
	}
	h := w.eniHop(e, "")
	where := e.ID
	if e.Instance != "" {
		where = e.Instance
	}
	w.deny(h, Explanation{Code: CodeUnsupported, Address: w.client, Interface: e.ID, VPC: e.VPC},
		"the client %s is on %s, which is also the target: load balancers that preserve clients' addresses cannot lead a connection back to where it comes from", w.client, where)
	return true
}

// Through returns the verdict on a connection that v takes to a load balancer. hop describes what the load
// balancer does with it. next, unless the connection ends at the load balancer, is the verdict on the flow to a
// target.
func (v *Verdict) Through(hop Hop, next *Verdict) *Verdict {
	out := *v
	out.Forward = append(slices.Clone(v.Forward), hop)
	if hop.Explanation != nil {
		out.Explanations = append(slices.Clone(v.Explanations), *hop.Explanation)
	}
	if next != nil {
		out.Forward = append(out.Forward, next.Forward...)
		out.Return = append(slices.Clone(next.Return), v.Return...)
		out.Explanations = append(slices.Clone(out.Explanations), next.Explanations...)
	}
	if out.Reachable = len(out.Explanations) == 0; !out.Reachable {
		out.Return = nil // there is no reply
	}
	return &out
}

// BalancerHop returns the hop of a load balancer on the path, with a note about what it does.
func BalancerHop(lb *LoadBalancer, note string) Hop {
	return Hop{Kind: KindLoadBalancer, ID: lb.Name, OK: true, Note: note}
}

// Refuse returns the hop as one that blocks the packet.
func (h Hop) Refuse(code, format string, args ...any) Hop {
	h.OK = false
	h.Explanation = &Explanation{Code: code, Kind: h.Kind, Component: h.ID, Text: fmt.Sprintf(format, args...)}
	return h
}
