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

// Ruleset returns a script for nft that makes the rules of a node's pods as PolicyEndpoints say, in place of older ones. It is
// for IPv4. local reports whether an address is the node's.
//
// As with EKS's agent, connections from the node itself to its pods always pass, so that probes do, and so do replies. What
// a pod sends passes its egress rules, and, at its destination, the ingress rules of the pod there, after kube-proxy has
// replaced the addresses of Services.
//
// In the mode strict, pods that no policy selects send and receive nothing. Their interfaces on the node begin with "eni", as
// those of the VPC CNI do.
func Ruleset(all []Spec, local func(hostIP string) bool, strict bool) string {
	in, out := map[netip.Addr][]Endpoint{}, map[netip.Addr][]Endpoint{} // a pod without any may receive or send nothing
	selected := map[netip.Addr]bool{}
	for i := range all {
		s := &all[i]
		for _, p := range s.PodSelectorEndpoints {
			a, err := netip.ParseAddr(p.PodIP)
			if err != nil || !a.Is4() || !local(p.HostIP) {
				continue
			}
			selected[a] = true
			if slices.Contains(s.PodIsolation, networkingv1.PolicyTypeIngress) {
				in[a] = append(in[a], s.Ingress...)
			}
			if slices.Contains(s.PodIsolation, networkingv1.PolicyTypeEgress) {
				out[a] = append(out[a], s.Egress...)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %[1]s {}\ndelete table ip %[1]s\ntable ip %[1]s {\n", Table)
	for _, d := range []struct {
		name, peer string
		filters    map[netip.Addr][]Endpoint
	}{{"ingress", "saddr", in}, {"egress", "daddr", out}} {
		pods := slices.SortedFunc(maps.Keys(d.filters), netip.Addr.Compare)
		var elements []string
		for _, a := range pods {
			chain := d.name + "_" + strings.ReplaceAll(a.String(), ".", "_")
			elements = append(elements, fmt.Sprintf("%s : jump %s", a, chain))
			fmt.Fprintf(&b, "\tchain %s {\n", chain)
			for _, rule := range rules(d.filters[a], d.peer) {
				fmt.Fprintf(&b, "\t\t%s\n", rule)
			}
			b.WriteString("\t\tdrop\n\t}\n")
		}
		fmt.Fprintf(&b, "\tmap %s {\n\t\ttype ipv4_addr : verdict\n", d.name)
		if len(elements) > 0 {
			fmt.Fprintf(&b, "\t\telements = { %s }\n", strings.Join(elements, ", "))
		}
		b.WriteString("\t}\n")
	}
	var unselectedFrom, unselectedTo string
	if strict {
		unselectedFrom, unselectedTo = unselected("iifname", "saddr", selected), unselected("oifname", "daddr", selected)
	}
	fmt.Fprintf(&b, `	chain forward {
		type filter hook forward priority filter; policy accept;
		ct state established,related accept
%[1]s		ip saddr vmap @egress
%[2]s		ip daddr vmap @ingress
	}
	chain input {
		type filter hook input priority filter; policy accept;
		ct state established,related accept
%[1]s		ip saddr vmap @egress
	}
}
`, unselectedFrom, unselectedTo)
	return b.String()
}

// unselected returns a rule that drops the packets of all pods that no policy selects.
func unselected(device, field string, selected map[netip.Addr]bool) string {
	match := fmt.Sprintf("%s \"eni*\"", device)
	if len(selected) > 0 {
		var pods []string
		for _, a := range slices.SortedFunc(maps.Keys(selected), netip.Addr.Compare) {
			pods = append(pods, a.String())
		}
		match += fmt.Sprintf(" ip %s != { %s }", field, strings.Join(pods, ", "))
	}
	return "\t\t" + match + " drop\n"
}

// rules returns nft's rules that return if a packet may pass, each once. peer is the field with the other end's address. An
// endpoint that is not valid allows nothing.
func rules(of []Endpoint, peer string) []string {
	var out []string
	for _, e := range of {
		cidr, ok := valid(e.CIDR)
		if !ok {
			continue
		}
		match := fmt.Sprintf("ip %s %s", peer, cidr)
		for _, x := range e.Except {
			// A range that cannot be excepted would let too much pass.
			except, fine := valid(x)
			if ok = ok && fine; ok {
				match += fmt.Sprintf(" ip %s != %s", peer, except)
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
			if text, ok := p.match(); ok {
				ports = append(ports, text)
			}
		}
		for _, p := range ports {
			if rule := match + p + " return"; !slices.Contains(out, rule) {
				out = append(out, rule)
			}
		}
	}
	return out
}

// match returns nft's expression for a port, or false if it is not valid.
func (p Port) match() (string, bool) {
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
	if first == last {
		return fmt.Sprintf(" %s dport %d", protocol, first), true
	}
	return fmt.Sprintf(" %s dport %d-%d", protocol, first, last), true
}
