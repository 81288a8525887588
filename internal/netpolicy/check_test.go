package netpolicy

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestCheck(t *testing.T) {
	all := []Spec{
		resolve(t, `{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}`),
		resolve(t, `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: http}]}]}`),
		resolve(t, `{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.12/32]}}], ports: [{port: 8000, endPort: 8100}, {protocol: UDP}]}]}`),
	}
	all[1].PolicyRef.Name = "clients"
	fargate := resolve(t, `podSelector: {matchLabels: {app: probe}}`)
	fargate.PodSelectorEndpoints = []Pod{{HostIP: "10.0.0.40", PodIP: "10.0.0.40", Name: "alone", Namespace: "shop"}}
	all = append(all, fargate)
	for _, tt := range []struct {
		from, to, protocol string
		port               uint16
		want               string
	}{ //nolint:gofmt
		{"10.0.0.13", "10.0.0.11", "TCP", 8080, "passes"},
		{"10.0.0.13", "10.0.0.11", "TCP", 8081, "passes"},                                       // the port of web-2 has the same name
		{"10.0.0.13", "10.0.0.11", "tcp", 8099, "shop/web-1 Ingress [{clients shop} {p shop}]"}, // a port without a rule
		{"10.0.0.20", "10.0.0.11", "TCP", 8080, "shop/web-1 Ingress [{clients shop} {p shop}]"}, // an address without a rule
		{"10.0.0.1", "10.0.0.11", "TCP", 8080, "passes"},                                        // its node
		{"10.0.0.13", "10.0.0.1", "TCP", 80, "passes"},                                          // to its node
		{"10.0.0.13", "10.0.0.12", "TCP", 8080, "shop/db Egress [{p shop}]"},                    // an exception
		{"10.0.0.13", "10.0.1.1", "TCP", 8080, "shop/db Egress [{p shop}]"},                     // outside of the range
		{"10.0.0.13", "10.0.0.20", "UDP", 53, "passes"},                                         // all ports of a protocol
		{"10.0.0.13", "10.0.0.20", "ICMP", 0, "shop/db Egress [{p shop}]"},                      // a protocol without ports
		{"10.0.0.11", "10.0.0.20", "TCP", 80, "passes"},                                         // no policy for what it sends
		{"10.0.0.20", "10.0.0.40", "TCP", 80, "passes"},                                         // Fargate
		{"fd00::1", "10.0.0.11", "TCP", 8080, "shop/web-1 Ingress [{clients shop} {p shop}]"},
	} {
		got := "passes"
		d, err := Policies{Namespaced: all}.Check(netip.MustParseAddr(tt.from), netip.MustParseAddr(tt.to), tt.protocol, tt.port, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d != nil {
			got = fmt.Sprintf("%s/%s %s %v", d.Pod.Namespace, d.Pod.Name, d.Direction, d.Policies)
		}
		if got != tt.want {
			t.Errorf("%s to %s, %s %d: %s, want %s", tt.from, tt.to, tt.protocol, tt.port, got, tt.want)
		}
	}
}

func TestCheckStrict(t *testing.T) {
	one := resolve(t, `{podSelector: {matchLabels: {app: db}}, ingress: [{}]}`)
	baseline := resolveCluster(t, `{tier: Baseline, priority: 1, subject: {namespaces: {matchLabels: {team: ops}}}, egress: [{action: Accept, to: [{networks: [10.0.0.0/24]}]}]}`)
	p := Policies{Namespaced: []Spec{one}, Cluster: []ClusterSpec{baseline}, Strict: true}
	pod := func(a netip.Addr) (*Pod, error) {
		switch a.String() {
		case "10.0.0.11", "10.0.0.20":
			return &Pod{HostIP: "10.0.0.1", PodIP: a.String(), Name: "p"}, nil
		case "10.0.0.50": // Fargate
			return &Pod{HostIP: "10.0.0.50", PodIP: a.String(), Name: "p"}, nil
		}
		return nil, nil
	}
	for _, tt := range []struct{ from, to, want string }{
		{"10.0.0.11", "10.0.0.13", "Egress"}, // nothing selects the sender
		{"10.0.0.13", "10.0.0.11", "Ingress"},
		{"10.0.0.20", "10.0.0.13", ""}, // the tier Baseline lets it send
		{"10.0.0.20", "10.0.9.9", "Egress"},
		{"10.0.0.13", "10.0.0.20", "Ingress"},
		{"10.0.0.50", "10.0.0.13", ""},
		{"10.0.0.1", "10.0.0.11", ""}, // its node
		{"192.0.2.1", "10.0.0.13", ""},
	} {
		d, err := p.Check(netip.MustParseAddr(tt.from), netip.MustParseAddr(tt.to), "tcp", 80, pod)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if d != nil {
			got = string(d.Direction)
			if d.Policies != nil || d.Denied != nil || d.Pod.Name != "p" {
				t.Errorf("%s to %s: %+v", tt.from, tt.to, d)
			}
		}
		if got != tt.want {
			t.Errorf("%s to %s: %q, want %q", tt.from, tt.to, got, tt.want)
		}
	}
}
