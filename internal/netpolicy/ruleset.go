package netpolicy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// Table is the nftables table of Ruleset.
const Table = "aws_network_policy"

// originalPeer is the field with the address that a packet was sent to, before kube-proxy replaced the address of a Service.
const originalPeer = "ct original ip daddr"

// Ruleset returns a script for nft that makes the rules of a node's pods as PolicyEndpoints and ClusterPolicyEndpoints say, in
// place of older ones. It is for IPv4. local reports whether an address is the node's.
//
// As with EKS's agent, connections from the node itself to its pods always pass, so that probes do, and so do those of selected pods
// to their node, and replies. What a pod sends passes its egress rules, and, at its destination, the ingress rules of the pod
// there, after kube-proxy has replaced the addresses of Services. EKS's agent decides about what pods send before that, so
// ClusterNetworkPolicies for Services' addresses also match the original destination.
//
// Each direction has a base chain of its own, because accept only ends the base chain. In turn, the tier Admin, the policies of the
// pod's namespace, the tier Baseline, and the mode decide. The chain of a tier returns for a packet about which the tier does not
// decide. No chain leads to the next tier, because the kernel checks a chain again for each rule and each element that leads to it.
// Pods that the same ClusterNetworkPolicies select share the chains of the tiers.
//
// In the mode strict, pods for which nothing decides send and receive nothing. Their interfaces on the node begin with "eni", as
// those of the VPC CNI do.
func (p Policies) Ruleset(local func(hostIP string) bool) string {
	pods, groups := p.selected(local)
	addresses := slices.SortedFunc(maps.Keys(pods), netip.Addr.Compare)
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %[1]s {}\ndelete table ip %[1]s\ntable ip %[1]s {\n", Table)
	for _, d := range []side{
		{"egress", "ip saddr", []string{"ip daddr", originalPeer}, "iifname", networkingv1.PolicyTypeEgress},
		{"ingress", "ip daddr", []string{"ip saddr"}, "oifname", networkingv1.PolicyTypeIngress},
	} {
		for _, name := range []string{Admin, Baseline} {
			var elements []string
			for i, policies := range groups {
				rules := tierRules(ordered(policies, name, d.direction), d.peers)
				if len(rules) == 0 {
					continue
				}
				c := fmt.Sprintf("%s_%s_%d", d.name, strings.ToLower(name), i)
				chain(&b, c, rules)
				for _, a := range addresses {
					if pods[a].group == i {
						elements = append(elements, fmt.Sprintf("%s : jump %s", a, c))
					}
				}
			}
			verdicts(&b, d.name+"_"+strings.ToLower(name), elements)
		}

		var own, hosts []string
		for _, a := range addresses {
			pod := pods[a]
			if !slices.Contains(hosts, pod.host) {
				hosts = append(hosts, pod.host)
			}
			if len(pod.namespaced) == 0 {
				continue
			}
			var allowed []Endpoint
			isolated := false
			for _, s := range pod.namespaced {
				if slices.Contains(s.PodIsolation, d.direction) {
					isolated = true
					allowed = append(allowed, d.endpoints(s)...)
				}
			}
			if !isolated {
				own = append(own, fmt.Sprintf("%s : accept", a))
				continue
			}
			c := d.name + "_" + strings.ReplaceAll(a.String(), ".", "_")
			chain(&b, c, append(statements(allowed, d.peers[0], "accept"), "drop"))
			own = append(own, fmt.Sprintf("%s : goto %s", a, c))
		}
		verdicts(&b, d.name+"_pods", own)

		var rules []string
		if len(addresses) > 0 {
			rules = append(rules, fmt.Sprintf("%s %s %s %s accept", d.own, set(addresses), d.peers[0], set(hosts)))
		}
		for _, name := range []string{Admin, "pods", Baseline} {
			rules = append(rules, fmt.Sprintf("%s vmap @%s_%s", d.own, d.name, strings.ToLower(name)))
		}
		if p.Strict {
			rules = append(rules, d.device+` "eni*" drop`)
		}
		chain(&b, d.name, rules)
	}
	b.WriteString(`	chain forward_egress {
		type filter hook forward priority 0; policy accept;
		ct state established,related accept
		jump egress
	}
	chain forward_ingress {
		type filter hook forward priority 1; policy accept;
		ct state established,related accept
		jump ingress
	}
	chain input {
		type filter hook input priority 0; policy accept;
		ct state established,related accept
		jump egress
	}
}
`)
	return b.String()
}

// A side is a direction: the field of a packet with the address of the pod, those with the address of the other end, and that with
// the pod's device.
type side struct {
	name, own string
	peers     []string
	device    string
	direction networkingv1.PolicyType
}

func (d side) endpoints(s *Spec) []Endpoint {
	if d.direction == networkingv1.PolicyTypeIngress {
		return s.Ingress
	}
	return s.Egress
}

// A selectedPod is one of the node's. Its ClusterNetworkPolicies are those of a group.
type selectedPod struct {
	host       string
	namespaced []*Spec
	group      int
}

// selected returns the node's pods that policies select, and the groups of ClusterNetworkPolicies that select the same pods.
func (p Policies) selected(local func(hostIP string) bool) (map[netip.Addr]*selectedPod, [][]*ClusterSpec) {
	out := map[netip.Addr]*selectedPod{}
	each := func(pods []Pod, f func(netip.Addr, *selectedPod)) {
		for _, pod := range pods {
			a, err := netip.ParseAddr(pod.PodIP)
			host, err2 := netip.ParseAddr(pod.HostIP)
			if err != nil || err2 != nil || !a.Is4() || !host.Is4() || !local(pod.HostIP) {
				continue
			}
			if out[a] == nil {
				out[a] = &selectedPod{host: host.String(), group: -1}
			}
			f(a, out[a])
		}
	}
	for i := range p.Namespaced {
		each(p.Namespaced[i].PodSelectorEndpoints, func(_ netip.Addr, pod *selectedPod) { pod.namespaced = append(pod.namespaced, &p.Namespaced[i]) })
	}
	by := map[netip.Addr][]int{}
	for i := range p.Cluster {
		each(p.Cluster[i].PodSelectorEndpoints, func(a netip.Addr, _ *selectedPod) { by[a] = append(by[a], i) })
	}
	var groups [][]*ClusterSpec
	known := map[string]int{}
	for _, a := range slices.SortedFunc(maps.Keys(by), netip.Addr.Compare) {
		key := fmt.Sprint(by[a])
		if _, ok := known[key]; !ok {
			known[key] = len(groups)
			var g []*ClusterSpec
			for _, i := range by[a] {
				g = append(g, &p.Cluster[i])
			}
			groups = append(groups, g)
		}
		out[a].group = known[key]
	}
	return out, groups
}

// tierRules returns nft's rules for those of a tier. peers are the fields with the other end's address.
func tierRules(rules []clusterRule, peers []string) []string {
	var out []string
	for len(rules) > 0 {
		n := 1
		for n < len(rules) && rules[n].policy.Priority == rules[0].policy.Priority && rules[n].action == rules[0].action {
			n++
		}
		var of []Endpoint
		for _, r := range rules[:n] {
			of = append(of, r.on)
		}
		verdict := "return"
		switch rules[0].action {
		case Deny:
			verdict = "drop"
		case Accept:
			verdict = "accept"
		}
		for _, peer := range peers {
			out = append(out, statements(of, peer, verdict)...)
		}
		rules = rules[n:]
	}
	return out
}

func chain(b *strings.Builder, name string, rules []string) {
	fmt.Fprintf(b, "\tchain %s {\n", name)
	for _, r := range rules {
		fmt.Fprintf(b, "\t\t%s\n", r)
	}
	b.WriteString("\t}\n")
}

func verdicts(b *strings.Builder, name string, elements []string) {
	fmt.Fprintf(b, "\tmap %s {\n\t\ttype ipv4_addr : verdict\n", name)
	if len(elements) > 0 {
		fmt.Fprintf(b, "\t\telements = { %s }\n", strings.Join(elements, ", "))
	}
	b.WriteString("\t}\n")
}

// set returns nft's expression for one or more different addresses.
func set[T any](of []T) string {
	var texts []string
	for _, a := range of {
		texts = append(texts, fmt.Sprint(a))
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "{ " + strings.Join(texts, ", ") + " }"
}

// statements returns nft's rules that have a verdict for packets of endpoints, each once. peer is the field with the other end's
// address. Addresses with the same ports are a set, which is looked up at once. An endpoint that is not valid matches nothing.
func statements(of []Endpoint, peer, verdict string) []string {
	type rule struct {
		addresses []netip.Addr
		match     string // if there are no addresses
		ports     string
	}
	var rules []*rule
	sets := map[string]*rule{} // by ports
	seen := map[string]bool{}
	for _, e := range of {
		cidr, ok := valid(e.CIDR)
		if !ok {
			continue
		}
		match := fmt.Sprintf("%s %s", peer, cidr)
		for _, x := range e.Except {
			// A range that cannot be excepted would let too much pass.
			except, fine := valid(x)
			if ok = ok && fine; ok {
				match += fmt.Sprintf(" %s != %s", peer, except)
			}
		}
		if !ok {
			continue
		}
		ports := []string{""}
		if len(e.Ports) > 0 {
			ports = nil
		}
		for _, p := range e.Ports {
			if text, ok := p.match(peer == originalPeer); ok {
				ports = append(ports, text)
			}
		}
		for _, p := range ports {
			if seen[match+p] {
				continue
			}
			seen[match+p] = true
			if !cidr.IsSingleIP() || len(e.Except) > 0 {
				rules = append(rules, &rule{match: match, ports: p})
				continue
			}
			if sets[p] == nil {
				sets[p] = &rule{ports: p}
				rules = append(rules, sets[p])
			}
			sets[p].addresses = append(sets[p].addresses, cidr.Addr())
		}
	}
	var out []string
	for _, r := range rules {
		match := r.match
		if len(r.addresses) > 0 {
			match = fmt.Sprintf("%s %s", peer, set(r.addresses))
		}
		out = append(out, match+r.ports+" "+verdict)
	}
	return out
}

// match returns nft's expression for a port, or false if it is not valid. With original it is for the port that a packet was sent
// to, before kube-proxy replaced that of a Service.
func (p Port) match(original bool) (string, bool) {
	protocol := strings.ToLower(p.Protocol)
	switch protocol {
	case "":
		protocol = "tcp"
	case "tcp", "udp", "sctp":
	default:
		return "", false
	}
	if p.Port == nil {
		return " ip protocol " + protocol, true
	}
	first, last := *p.Port, *p.Port
	if p.EndPort != nil {
		last = *p.EndPort
	}
	if first < 0 || last > 65535 || last < first {
		return "", false
	}
	field := protocol + " dport"
	if original {
		field = "ip protocol " + protocol + " ct original proto-dst"
	}
	if first == last {
		return fmt.Sprintf(" %s %d", field, first), true
	}
	return fmt.Sprintf(" %s %d-%d", field, first, last), true
}
