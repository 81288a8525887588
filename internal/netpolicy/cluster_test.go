package netpolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func resolveCluster(t *testing.T, text string) ClusterSpec {
	t.Helper()
	var p ClusterPolicy
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	s, err := ResolveCluster("p", p, cluster())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestResolveCluster(t *testing.T) {
	for _, tt := range []struct{ name, policy, selected, ingress, egress string }{
		{"namespaces", `{tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {team: ops}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`, "ops/probe",
			`10.0.0.20 Deny, 10.0.0.30 Deny, 10.0.0.13 Deny, 10.0.0.11 Deny, 10.0.0.12 Deny`, ``},
		{"pods", `{tier: Admin, priority: 1, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: probe}}}},
ingress: [{action: Accept, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}], ports: [{portNumber: {protocol: UDP, port: 53}}, {portRange: {start: 1, end: 9}}]}]}`, "ops/probe other/probe",
			`10.0.0.13 [{"protocol":"UDP","port":53},{"port":1,"endPort":9}] Accept`, ``},
		{"ranges and names", `{tier: Admin, priority: 1, subject: {namespaces: {}},
egress: [{action: Pass, to: [{networks: [10.0.0.0/8, "::/0"]}, {domainNames: [example.com]}], ports: [{portNumber: {protocol: TCP, port: 443}}]}]}`, "ops/probe other/probe shop/db shop/web-1 shop/web-2",
			``, `10.0.0.0/8 [{"protocol":"TCP","port":443}] Pass, ::/0 [{"protocol":"TCP","port":443}] Pass, example.com [{"protocol":"TCP","port":443}] Pass`},
		// A name is the receiver's: that of the subjects, or of each peer.
		{"named ports", `{tier: Admin, priority: 1, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}},
ingress: [{action: Deny, from: [{networks: [10.0.0.0/8]}], ports: [{namedPort: http}]}],
egress: [{action: Deny, to: [{pods: {namespaceSelector: {}, podSelector: {}}}], ports: [{namedPort: sql}]}]}`, "shop/web-1 shop/web-2",
			`10.0.0.0/8 [{"protocol":"TCP","port":8080},{"protocol":"TCP","port":8081}] Deny`, `10.0.0.13 [{"protocol":"TCP","port":5432}] Deny`},
		{"ports with no member or several", `{tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {team: ops}}},
ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: ops}}}], ports: [{}]}],
egress: [{action: Deny, to: [{networks: [10.0.0.0/8]}], ports: [{}, {portNumber: {protocol: UDP, port: 53}, portRange: {protocol: TCP, start: 1, end: 9}, namedPort: sql}]}]}`, "ops/probe",
			`10.0.0.20 Deny`, `10.0.0.0/8 [{"protocol":"UDP","port":53},{"protocol":"TCP","port":1,"endPort":9}] Deny`},
		{"once", `{tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {team: ops}}},
egress: [{action: Deny, to: [{networks: [10.0.0.0/8]}, {networks: [10.0.0.0/8, 10.0.0.13]}, {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}]},
{action: Accept, to: [{networks: [10.0.0.0/8]}]}, {action: Deny, to: [{networks: [10.0.0.0/8]}]},
{action: Deny, to: [{networks: [10.0.0.0/8]}], ports: [{portRange: {protocol: TCP, start: 1, end: 9}}, {portRange: {protocol: TCP, start: 1, end: 9}}]},
{action: Deny, to: [{networks: [10.0.0.0/8]}], ports: [{portRange: {protocol: TCP, start: 1, end: 8}}]}]}`, "ops/probe",
			``, `10.0.0.0/8 Deny, 10.0.0.13 Deny, 10.0.0.0/8 Accept, 10.0.0.0/8 [{"protocol":"TCP","port":1,"endPort":9},{"protocol":"TCP","port":1,"endPort":9}] Deny, 10.0.0.0/8 [{"protocol":"TCP","port":1,"endPort":8}] Deny`},
		{"no pod is selected", `{tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {team: none}}}, egress: [{action: Deny, to: [{}]}]}`, "", ``, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := resolveCluster(t, tt.policy)
			var selected []string
			for _, p := range s.PodSelectorEndpoints {
				selected = append(selected, p.Namespace+"/"+p.Name)
			}
			text := func(of []ClusterEndpoint) string {
				var out []string
				for _, e := range of {
					ports := ""
					if len(e.Ports) > 0 {
						b, err := json.Marshal(e.Ports)
						if err != nil {
							t.Fatal(err)
						}
						ports = string(b) + " "
					}
					out = append(out, fmt.Sprintf("%s%s %s%s", e.CIDR, e.DomainName, ports, e.Action))
				}
				return strings.Join(out, ", ")
			}
			if diff := cmp.Diff([]string{tt.selected, tt.ingress, tt.egress}, []string{strings.Join(selected, " "), text(s.Ingress), text(s.Egress)}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if s.PolicyRef.Name != "p" || s.Tier != Admin || s.Priority != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A policy for many pods is resolved once for each of them, unless the result is too large to be stored.
func TestResolveClusterSize(t *testing.T) {
	c := Cluster{Namespaces: map[string]*corev1.Namespace{"shop": {}}}
	for i := range 1000 {
		c.Pods = append(c.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(i)}, Status: corev1.PodStatus{PodIP: fmt.Sprintf("10.0.%d.%d", i/250, i%250), HostIP: "10.0.9.9"},
		})
	}
	for _, differ := range []bool{false, true} {
		p := ClusterPolicy{Tier: Admin, Subject: ClusterPeer{Namespaces: &metav1.LabelSelector{}}}
		for i := range 100 {
			r := ClusterRule{Action: Deny}
			for range 100 {
				r.From = append(r.From, ClusterPeer{Namespaces: &metav1.LabelSelector{}})
			}
			if differ {
				name := fmt.Sprint(i)
				r.Ports = []ClusterPort{{NamedPort: &name}}
				c.Pods[0].Spec.Containers = append(c.Pods[0].Spec.Containers, corev1.Container{Ports: []corev1.ContainerPort{{Name: name, ContainerPort: int32(i)}}})
			}
			p.Ingress = append(p.Ingress, r)
		}
		s, err := ResolveCluster("p", p, c)
		if differ != errors.Is(err, ErrTooLarge) || !differ && len(s.Ingress) != 1000 {
			t.Errorf("rules with different ports: %t: %d endpoints, %v", differ, len(s.Ingress), err)
		}
	}
}

// Agents read a protocol that they do not know as TCP.
func TestUnknownProtocol(t *testing.T) {
	s := resolveCluster(t, `{tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Deny, to: [{networks: [192.0.2.0/24]}], ports: [{portNumber: {protocol: icmp, port: 7}}]}]}`)
	for protocol, want := range map[string]bool{"tcp": true, "udp": false, "icmp": false} {
		d, err := Policies{Cluster: []ClusterSpec{s}}.Check(netip.MustParseAddr("10.0.0.13"), netip.MustParseAddr("192.0.2.1"), protocol, 7, nil)
		if err != nil || (d != nil) != want {
			t.Errorf("%s is dropped: %t, %v", protocol, d != nil, err)
		}
	}
}

// Rules of ClusterNetworkPolicies match the address and the port of a Service, and those behind it.
func TestServiceAddresses(t *testing.T) {
	const to = `{tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: %s, to: [{networks: [%s]}], ports: [{portNumber: {protocol: TCP, port: %d}}]}]}`
	isolated := resolve(t, `{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress]}`)
	sent := packet{
		saddr: netip.MustParseAddr("10.0.0.13"), daddr: netip.MustParseAddr("192.0.2.1"), original: netip.MustParseAddr("10.100.0.7"),
		iifname: "eni1", oifname: "ens5", protocol: "tcp", port: 8080, originalPort: 80,
	}
	for _, tt := range []struct {
		action, network string
		port            int
		namespaced      []Spec
		want            bool
	}{
		{"Deny", "10.100.0.0/16", 80, nil, false},
		{"Deny", "10.100.0.7", 80, nil, false},
		{"Deny", "10.100.0.0/16", 8080, nil, true},
		{"Deny", "192.0.2.0/24", 8080, nil, false},
		{"Deny", "192.0.2.0/24", 80, nil, true},
		{"Accept", "10.100.0.0/16", 80, []Spec{isolated}, true},
		{"Accept", "10.101.0.0/16", 80, []Spec{isolated}, false},
	} {
		p := Policies{Namespaced: tt.namespaced, Cluster: []ClusterSpec{resolveCluster(t, fmt.Sprintf(to, tt.action, tt.network, tt.port))}}
		s := parseScript(t, p.Ruleset(func(ip string) bool { return ip == "10.0.0.1" }))
		if got := s.passes("forward", sent); got != tt.want {
			t.Errorf("%+v: the packet passes: %t\n%s", tt, got, s.text)
		}
	}
}

// The tiers, the priorities, and the actions at one priority decide in this order.
func TestClusterPolicies(t *testing.T) {
	web := `pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}`
	policy := func(tier string, priority int, action, from string) ClusterSpec {
		s := resolveCluster(t, fmt.Sprintf(`{tier: %s, priority: %d, subject: {%s}, ingress: [{action: %s, from: [%s]}]}`, tier, priority, web, action, from))
		s.PolicyRef.Name = fmt.Sprintf("%s-%d-%s", tier, priority, action)
		return s
	}
	const all, db = `{namespaces: {}}`, `{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}`
	isolated := resolve(t, `podSelector: {matchLabels: {app: web}}`)
	open := resolve(t, `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}]}]}`)
	sends := resolve(t, `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress]}`)
	for _, tt := range []struct {
		name       string
		cluster    []ClusterSpec
		namespaced []Spec
		want       string // of a connection from db to web-1
	}{
		{"deny", []ClusterSpec{policy(Admin, 5, "Deny", db)}, nil, "Admin-5-Deny"},
		{"deny of others", []ClusterSpec{policy(Admin, 5, "Deny", `{namespaces: {matchLabels: {team: ops}}}`)}, nil, "passes"},
		{"deny what a policy allows", []ClusterSpec{policy(Admin, 5, "Deny", db)}, []Spec{open}, "Admin-5-Deny"},
		{"accept what a policy does not allow", []ClusterSpec{policy(Admin, 5, "Accept", db)}, []Spec{isolated}, "passes"},
		{"the lower number", []ClusterSpec{policy(Admin, 5, "Deny", db), policy(Admin, 4, "Accept", all)}, []Spec{isolated}, "passes"},
		{"deny at the same number", []ClusterSpec{policy(Admin, 5, "Accept", db), policy(Admin, 5, "Deny", all)}, nil, "Admin-5-Deny"},
		{"accept before pass", []ClusterSpec{policy(Admin, 5, "Pass", db), policy(Admin, 5, "Accept", all)}, []Spec{isolated}, "passes"},
		{"pass to the policies", []ClusterSpec{policy(Admin, 4, "Pass", db), policy(Admin, 5, "Deny", all)}, []Spec{isolated}, "[{p shop}]"},
		{"pass to what is open", []ClusterSpec{policy(Admin, 4, "Pass", db), policy(Admin, 5, "Deny", all)}, nil, "passes"},
		{"pass to the baseline", []ClusterSpec{policy(Admin, 4, "Pass", db), policy(Baseline, 0, "Deny", all)}, nil, "Baseline-0-Deny"},
		{"a policy before the baseline", []ClusterSpec{policy(Baseline, 0, "Deny", all)}, []Spec{open}, "passes"},
		{"isolation before the baseline", []ClusterSpec{policy(Baseline, 0, "Accept", all)}, []Spec{isolated}, "[{p shop}]"},
		{"a policy for the other direction before the baseline", []ClusterSpec{policy(Baseline, 0, "Deny", all)}, []Spec{sends}, "passes"},
		{"the baseline's numbers", []ClusterSpec{policy(Baseline, 2, "Deny", all), policy(Baseline, 1, "Accept", db)}, nil, "passes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Policies{Namespaced: tt.namespaced, Cluster: tt.cluster}.Check(netip.MustParseAddr("10.0.0.13"), netip.MustParseAddr("10.0.0.11"), "tcp", 80, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := "passes"
			switch {
			case d == nil:
			case d.Denied != nil:
				got = d.Denied.PolicyRef.Name
			default:
				got = fmt.Sprint(d.Policies)
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// What the rules of nodes do with random packets under random policies is what Check says.
func TestRulesetDecidesAsCheck(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	nodes := []string{"10.0.0.1", "10.0.0.2"}
	var pods []Pod
	for i := range 8 {
		pods = append(pods, Pod{HostIP: nodes[i%2], PodIP: fmt.Sprintf("10.0.0.%d", 16+i), Name: fmt.Sprint(i), Namespace: "shop"})
	}
	some := func() (out []Pod) {
		for _, p := range pods {
			if r.IntN(2) == 0 {
				out = append(out, p)
			}
		}
		return out
	}
	endpoint := func() Endpoint {
		e := Endpoint{CIDR: []string{"10.0.0.0/24", "10.0.0.16/29", "10.0.0.16/30", "0.0.0.0/0", "::/0", "x", pods[r.IntN(len(pods))].PodIP, pods[r.IntN(len(pods))].PodIP}[r.IntN(8)]}
		for range r.IntN(3) {
			first, last := int32(r.IntN(4)), int32(4)
			e.Ports = append(e.Ports, []Port{{Protocol: "TCP"}, {Port: &first}, {Protocol: "UDP", Port: &first, EndPort: &last}}[r.IntN(3)])
		}
		return e
	}
	pod := func(a netip.Addr) (*Pod, error) {
		if i := slices.IndexFunc(pods, func(p Pod) bool { return p.PodIP == a.String() }); i >= 0 {
			return &pods[i], nil
		}
		return nil, nil
	}
	outcomes := map[bool]int{}
	for range 400 {
		p := Policies{Strict: r.IntN(3) == 0}
		for range r.IntN(3) {
			s := Spec{PodSelectorEndpoints: some(), PodIsolation: [][]networkingv1.PolicyType{{"Ingress"}, {"Egress"}, {"Ingress", "Egress"}}[r.IntN(3)]}
			for range r.IntN(3) {
				e := endpoint()
				if e.CIDR == "10.0.0.0/24" {
					e.Except = []string{"10.0.0.16/30"}
				}
				s.Ingress, s.Egress = append(s.Ingress, e), append(s.Egress, endpoint())
			}
			p.Namespaced = append(p.Namespaced, s)
		}
		for range r.IntN(4) {
			s := ClusterSpec{Tier: []string{Admin, Baseline}[r.IntN(2)], Priority: int32(r.IntN(2)), PodSelectorEndpoints: some()}
			for range r.IntN(4) {
				in, out := endpoint(), endpoint()
				s.Ingress = append(s.Ingress, ClusterEndpoint{CIDR: in.CIDR, Ports: in.Ports, Action: []Action{Accept, Deny, Pass}[r.IntN(3)]})
				s.Egress = append(s.Egress, ClusterEndpoint{CIDR: out.CIDR, Ports: out.Ports, Action: []Action{Accept, Deny, Pass}[r.IntN(3)]})
			}
			p.Cluster = append(p.Cluster, s)
		}
		var scripts []*script
		for _, n := range nodes {
			scripts = append(scripts, parseScript(t, p.Ruleset(func(ip string) bool { return ip == n })))
		}
		for range 60 {
			packet := packet{protocol: []string{"tcp", "udp", "icmp"}[r.IntN(3)], port: r.IntN(6)}
			packet.saddr = netip.MustParseAddr(pods[r.IntN(len(pods))].PodIP)
			packet.daddr = netip.MustParseAddr(append(nodes, "192.0.2.1", pods[r.IntN(len(pods))].PodIP, pods[r.IntN(len(pods))].PodIP)[r.IntN(5)])
			if r.IntN(4) == 0 {
				packet.saddr = netip.MustParseAddr("192.0.2.1")
			}
			packet.original, packet.originalPort = packet.daddr, packet.port
			passes := true
			for i, n := range nodes {
				here := packet
				from, _ := pod(packet.saddr)
				to, _ := pod(packet.daddr)
				if here.iifname = "ens5"; from != nil && from.HostIP == n {
					here.iifname = "eni1"
				}
				if here.oifname = "ens5"; to != nil && to.HostIP == n {
					here.oifname = "eni2"
				}
				hook := "forward"
				if packet.daddr.String() == n {
					hook = "input"
				}
				passes = passes && scripts[i].passes(hook, here)
			}
			d, err := p.Check(packet.saddr, packet.daddr, packet.protocol, uint16(packet.port), pod)
			if err != nil {
				t.Fatal(err)
			}
			outcomes[passes]++
			if passes != (d == nil) {
				t.Fatalf("%+v: the rules let it pass: %t, Check: %+v\npolicies: %+v\n%s\n%s", packet, passes, d, p, scripts[0].text, scripts[1].text)
			}
		}
	}
	if outcomes[true] < 1000 || outcomes[false] < 1000 {
		t.Errorf("the packets say little: %v", outcomes)
	}
}

type packet struct {
	saddr, daddr, original netip.Addr
	iifname, oifname       string
	protocol               string
	port, originalPort     int
}

// A script is one for nft, as far as Ruleset uses its language.
type script struct {
	t      *testing.T
	text   string
	chains map[string][]string
	maps   map[string]map[string]string
}

func parseScript(t *testing.T, text string) *script {
	s := &script{t, text, map[string][]string{}, map[string]map[string]string{}}
	for _, m := range regexp.MustCompile(`(?s)\tchain (\w+) \{\n(.*?)\t\}\n`).FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(m[2]) {
			s.chains[m[1]] = append(s.chains[m[1]], strings.TrimSpace(line))
		}
		if s.chains[m[1]] == nil {
			s.chains[m[1]] = []string{}
		}
	}
	for _, m := range regexp.MustCompile(`(?s)\tmap (\w+) \{\n(.*?)\t\}\n`).FindAllStringSubmatch(text, -1) {
		s.maps[m[1]] = map[string]string{}
		_, elements, _ := strings.Cut(m[2], "elements = { ")
		elements, _, _ = strings.Cut(elements, " }")
		for e := range strings.SplitSeq(elements, ", ") {
			key, verdict, _ := strings.Cut(e, " : ")
			s.maps[m[1]][key] = verdict
		}
	}
	return s
}

// passes reports whether a packet passes the base chains of a hook.
func (s *script) passes(hook string, p packet) bool {
	chains := []string{"forward_egress", "forward_ingress"}
	if hook == "input" {
		chains = []string{"input"}
	}
	return !slices.ContainsFunc(chains, func(c string) bool { return s.run(c, p) == "drop" })
}

// run returns how a chain ends: "accept", "drop" or "return".
func (s *script) run(chain string, p packet) string {
	rules, ok := s.chains[chain]
	if !ok {
		s.t.Fatalf("no chain %s in\n%s", chain, s.text)
	}
	for _, rule := range rules {
		verdict, ok := s.match(rule, p)
		if !ok {
			continue
		}
		switch name, _ := strings.CutPrefix(verdict, "goto "); {
		case name != verdict:
			return s.run(name, p)
		case strings.HasPrefix(verdict, "jump "):
			if v := s.run(strings.TrimPrefix(verdict, "jump "), p); v != "return" {
				return v
			}
		case verdict == "accept", verdict == "drop", verdict == "return":
			return verdict
		default:
			s.t.Fatalf("the verdict %q in %q", verdict, rule)
		}
	}
	return "return"
}

var (
	address = regexp.MustCompile(`^(ip saddr|ip daddr|ct original ip daddr) (!= )?(\{[^}]*\}|[0-9./]+) ?(.*)$`)
	vmap    = regexp.MustCompile(`^(ip saddr|ip daddr) vmap @(\w+)$`)
	device  = regexp.MustCompile(`^([io]ifname) "eni\*" (.*)$`)
	ofPort  = regexp.MustCompile(`^(?:(tcp|udp|sctp) dport|ct original proto-dst) (\d+)(?:-(\d+))? (.*)$`)
	ofAny   = regexp.MustCompile(`^ip protocol (\w+) (.*)$`)
)

// match returns the verdict of a rule that matches a packet.
func (s *script) match(rule string, p packet) (verdict string, ok bool) {
	if strings.HasPrefix(rule, "type ") || strings.HasPrefix(rule, "ct state ") {
		return "", false // the packet is the first of its connection
	}
	field := map[string]netip.Addr{"ip saddr": p.saddr, "ip daddr": p.daddr, "ct original ip daddr": p.original}
	if m := vmap.FindStringSubmatch(rule); m != nil {
		elements, ok := s.maps[m[2]]
		if !ok {
			s.t.Fatalf("no map %s in\n%s", m[2], s.text)
		}
		verdict, ok = elements[field[m[1]].String()]
		return verdict, ok
	}
	if m := address.FindStringSubmatch(rule); m != nil {
		in := false
		for a := range strings.SplitSeq(strings.Trim(m[3], "{ }"), ", ") {
			prefix, fine := valid(a)
			if !fine {
				s.t.Fatalf("the address %q in %q", a, rule)
			}
			in = in || prefix.Contains(field[m[1]])
		}
		if in == (m[2] != "") {
			return "", false
		}
		return s.match(m[4], p)
	}
	if m := device.FindStringSubmatch(rule); m != nil {
		if name := map[string]string{"iifname": p.iifname, "oifname": p.oifname}[m[1]]; !strings.HasPrefix(name, "eni") {
			return "", false
		}
		return s.match(m[2], p)
	}
	if m := ofPort.FindStringSubmatch(rule); m != nil {
		var first, last int
		if _, err := fmt.Sscan(m[2], &first); err != nil {
			s.t.Fatal(err)
		}
		if last = first; m[3] != "" {
			if _, err := fmt.Sscan(m[3], &last); err != nil {
				s.t.Fatal(err)
			}
		}
		port := p.port
		if m[1] == "" {
			port = p.originalPort
		}
		if m[1] != "" && p.protocol != m[1] || port < first || port > last {
			return "", false
		}
		return s.match(m[4], p)
	}
	if m := ofAny.FindStringSubmatch(rule); m != nil {
		if p.protocol != m[1] {
			return "", false
		}
		return s.match(m[2], p)
	}
	return rule, true
}
