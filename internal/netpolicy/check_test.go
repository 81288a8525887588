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
		{"10.0.0.13", "10.0.0.12", "TCP", 8080, "shop/db Egress [{p shop}]"},                    // an exception
		{"10.0.0.13", "10.0.1.1", "TCP", 8080, "shop/db Egress [{p shop}]"},                     // outside of the range
		{"10.0.0.13", "10.0.0.20", "UDP", 53, "passes"},                                         // all ports of a protocol
		{"10.0.0.13", "10.0.0.20", "ICMP", 0, "shop/db Egress [{p shop}]"},                      // a protocol without ports
		{"10.0.0.11", "10.0.0.20", "TCP", 80, "passes"},                                         // no policy for what it sends
		{"10.0.0.20", "10.0.0.40", "TCP", 80, "passes"},                                         // Fargate
		{"fd00::1", "10.0.0.11", "TCP", 8080, "shop/web-1 Ingress [{clients shop} {p shop}]"},
	} {
		got := "passes"
		if d := Check(all, netip.MustParseAddr(tt.from), netip.MustParseAddr(tt.to), tt.protocol, tt.port); d != nil {
			got = fmt.Sprintf("%s/%s %s %v", d.Pod.Namespace, d.Pod.Name, d.Direction, d.Policies)
		}
		if got != tt.want {
			t.Errorf("%s to %s, %s %d: %s, want %s", tt.from, tt.to, tt.protocol, tt.port, got, tt.want)
		}
	}
	if !Selected(all, netip.MustParseAddr("10.0.0.13")) || Selected(all, netip.MustParseAddr("10.0.0.20")) {
		t.Error("the wrong pods are selected")
	}
}
