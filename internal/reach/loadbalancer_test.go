package reach_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

// A Network Load Balancer created without security groups is not filtered by any of its own; one with groups, and
// every other interface without any rule, is.
func TestNetworkLoadBalancerWithoutGroups(t *testing.T) {
	base := with(t, open(), "sg-app", func(g *reach.SecurityGroup) {
		g.Rules = append(g.Rules, tcp("sgr-node", 30080, cidr("10.0.0.0/24")))
	})
	check := func(kind string, groups ...string) bool {
		lb := eni("eni-lb", "vpc-1", "subnet-pub", "10.0.0.60", "", groups...)
		lb.Type, lb.Requester = kind, "amazon-elb"
		return edit(base, lb).Check(reach.Flow{From: reach.At("eni-lb"), To: reach.At("i-app"), Protocol: reach.TCP, Port: 30080}).Reachable
	}
	for name, tt := range map[string]struct {
		kind   string
		groups []string
		want   bool
	}{
		"network, none":         {reach.TypeNetworkLoadBalancer, nil, true},
		"network, lets out":     {reach.TypeNetworkLoadBalancer, []string{"sg-web"}, true},
		"network, of no rules":  {reach.TypeNetworkLoadBalancer, []string{"sg-gone"}, false},
		"application, none":     {"interface", nil, false},
		"application, lets out": {"interface", []string{"sg-web"}, true},
	} {
		if got := check(tt.kind, tt.groups...); got != tt.want {
			t.Errorf("%s: reachable %t", name, got)
		}
	}
}

// balanced is the open network with a load balancer to the internet and an internal one.
func balanced() *reach.Snapshot {
	second := zone(public(eni("eni-lb2", "vpc-1", "subnet-pub", "10.0.0.61", ""), "54.0.0.61"), "us-east-1b")
	inner := eni("eni-inner", "vpc-1", "subnet-priv", "10.0.1.60", "", "sg-web")
	outer := public(eni("eni-lb1", "vpc-1", "subnet-pub", "10.0.0.60", ""), "54.0.0.60")
	for _, e := range []*reach.Interface{outer, second} {
		e.Type = reach.TypeNetworkLoadBalancer
	}
	return edit(open(), outer, second, inner,
		&reach.LoadBalancer{DNSName: "web-1.elb.us-east-1.amazonaws.com", Name: "arn:web", Interfaces: []string{"eni-lb2", "eni-lb1"}},
		&reach.LoadBalancer{DNSName: "internal-app-1.us-east-1.elb.amazonaws.com", Name: "app", Internal: true, Interfaces: []string{"eni-inner"}},
		&reach.LoadBalancer{DNSName: "new-1.elb.us-east-1.amazonaws.com", Name: "arn:new"})
}

// A load balancer's name resolves to the same addresses for all clients.
func TestLoadBalancerNames(t *testing.T) {
	s := balanced()
	for query, want := range map[string]string{
		"web-1.elb.us-east-1.amazonaws.com":                    "[54.0.0.60 54.0.0.61] arn:web",
		"WEB-1.elb.us-east-1.amazonaws.com.":                   "[54.0.0.60 54.0.0.61] arn:web",
		"dualstack.web-1.elb.us-east-1.amazonaws.com":          "[54.0.0.60 54.0.0.61] arn:web",
		"us-east-1b.web-1.elb.us-east-1.amazonaws.com":         "[54.0.0.61] arn:web",
		"us-east-1c.web-1.elb.us-east-1.amazonaws.com":         "[] arn:web",
		"internal-app-1.us-east-1.elb.amazonaws.com":           "[10.0.1.60] app",
		"dualstack.internal-app-1.us-east-1.elb.amazonaws.com": "[10.0.1.60] app",
		"new-1.elb.us-east-1.amazonaws.com":                    "[] arn:new",
	} {
		for _, from := range []reach.Endpoint{laptop, reach.At("i-app")} {
			r := s.Resolve(from, query)
			if got := fmt.Sprint(r.Addresses, " ", r.LoadBalancer); got != want || (r.Explanation != nil) != (len(r.Addresses) == 0) {
				t.Errorf("%s from %v: %s (%+v), want %s", query, from, got, r.Explanation, want)
			}
		}
	}
	if lb := s.LoadBalancerOf("eni-lb2"); lb == nil || lb.Name != "arn:web" {
		t.Errorf("eni-lb2 is of %+v", lb)
	}
	if lb := s.LoadBalancerOf("eni-nat"); lb != nil {
		t.Errorf("eni-nat is of %+v", lb)
	}
}

// The filters of a target that sees the client's address decide by that address, or by the load balancer's groups.
func TestCheckTarget(t *testing.T) {
	s := with(t, balanced(), "sg-app", func(g *reach.SecurityGroup) {
		g.Rules = append(g.Rules, tcp("sgr-node", 30080, cidr("10.0.0.0/24")))
	})
	forEverybody := with(t, s, "sg-app", func(g *reach.SecurityGroup) { g.Rules = append(g.Rules, tcp("sgr-all", 30080, anyone)) })
	forClients := with(t, balanced(), "sg-app", func(g *reach.SecurityGroup) {
		g.Rules = append(g.Rules, tcp("sgr-clients", 30080, cidr("203.0.113.0/24")))
	})
	grouped := with(t, with(t, balanced(), "eni-lb1", func(e *reach.Interface) { e.Groups = []string{"sg-web"} }), "sg-app", func(g *reach.SecurityGroup) {
		g.Rules = append(g.Rules, reach.Rule{ID: "sgr-lb", Protocol: reach.TCP, Ports: reach.PortRange{From: 30080, To: 30080}, Group: "sg-web"})
	})
	noReplies := with(t, forClients, "acl-1", func(a *reach.ACL) {
		a.Entries = append(a.Entries, reach.Entry{Number: 50, Egress: true, Protocol: reach.AllProtocols, CIDR: cidr("203.0.113.0/24")})
	})
	forNeighbours := with(t, balanced(), "sg-app", func(g *reach.SecurityGroup) {
		g.Rules = append(g.Rules, tcp("sgr-neighbours", 30080, cidr("10.0.1.0/24")))
	})
	// Pods have addresses of their instance's interfaces.
	pods := with(t, forEverybody, "eni-app", func(e *reach.Interface) { e.Prefixes = cidrs("10.0.1.16/28") })
	second := eni("eni-app2", "vpc-1", "subnet-pub", "10.0.0.90", "i-app", "sg-app")
	second.Primary = false
	pods = edit(pods, second)
	box := eni("eni-box", "vpc-1", "subnet-priv", "10.0.1.77", "i-box", "sg-web")
	box.NoSourceDestCheck = true
	boxed := edit(with(t, forEverybody, "sg-web", func(g *reach.SecurityGroup) { g.Rules = append(g.Rules, tcp("sgr-box", 30080, anyone)) }), box, &reach.Instance{ID: "i-box"})
	boxed = reroute(t, boxed, "rtb-pub", cidr("10.0.1.0/24"), "eni-box")
	own := reroute(t, forEverybody, "rtb-pub", cidr("10.0.1.0/24"), "eni-app")
	nat := reroute(t, forEverybody, "rtb-pub", cidr("10.0.1.0/24"), "nat-1")
	f := flow(reach.At("eni-lb1"), reach.At("i-app"), 30080)
	for _, tt := range []struct {
		name   string
		net    *reach.Snapshot
		client netip.Addr
		want   string // the code
	}{
		{"its own address", s, netip.Addr{}, ""},
		{"the client's", s, ip("203.0.113.10"), reach.CodeGroupMismatch},
		{"the client's, who is let in", forEverybody, ip("203.0.113.10"), ""},
		{"a client in the range", s, ip("10.0.0.10"), ""},
		{"only the client's is let in", forClients, ip("203.0.113.10"), ""},
		{"only the client's is let in, and it is not seen", forClients, netip.Addr{}, reach.CodeGroupMismatch},
		{"the load balancer's group", grouped, ip("203.0.113.10"), ""},
		{"an ACL that stops replies to clients", noReplies, ip("203.0.113.10"), reach.CodeACL},
		{"a client in the target's subnet", forNeighbours, ip("10.0.1.50"), ""},
		{"another family", s, netip.MustParseAddr("2001:db8::1"), ""},
		{"the target itself", forEverybody, ip("10.0.1.10"), reach.CodeUnsupported},
		{"a pod on the target", pods, ip("10.0.1.20"), reach.CodeUnsupported},
		{"another interface of the target", pods, ip("10.0.0.90"), reach.CodeUnsupported},
		{"a pod elsewhere", pods, ip("10.0.1.40"), ""},
		{"a target that is its own client, which is not seen", forEverybody, netip.Addr{}, ""},
		{"a middlebox", boxed, ip("203.0.113.10"), reach.CodeUnsupported},
		{"a middlebox, and the client is not seen", boxed, netip.Addr{}, ""},
		{"a route to the target itself", own, ip("203.0.113.10"), ""},
		{"a NAT gateway", nat, ip("10.0.0.10"), reach.CodeUnsupported},
		{"neither", balanced(), ip("203.0.113.10"), reach.CodeGroupMismatch},
	} {
		v := tt.net.CheckTarget(f, tt.client)
		got := ""
		if len(v.Explanations) > 0 {
			got = v.Explanations[0].Code
		}
		if got != tt.want || v.Reachable != (tt.want == "") || len(v.Explanations) > 1 {
			t.Errorf("%s: %+v, want %q", tt.name, v.Explanations, tt.want)
		}
	}
}

// A verdict continues behind a load balancer, there and back.
func TestThroughALoadBalancer(t *testing.T) {
	s := with(t, balanced(), "sg-app", func(g *reach.SecurityGroup) { g.Rules = append(g.Rules, tcp("sgr-node", 30080, cidr("10.0.0.0/24"))) })
	first := s.CheckName(flow(laptop, reach.Endpoint{}, 80), "web-1.elb.us-east-1.amazonaws.com")
	hop := reach.BalancerHop(s.LoadBalancerOf("eni-lb1"), "listener TCP:80")
	next := s.CheckTarget(flow(reach.At("eni-lb1"), reach.At("i-app"), 30080), netip.Addr{})
	v := first.Through(hop, next)
	if !v.Reachable || len(v.Forward) != len(first.Forward)+1+len(next.Forward) || len(v.Return) != len(first.Return)+len(next.Return) {
		t.Errorf("%s", v.Text())
	}
	if v := first.Through(hop.Refuse(reach.CodeListeners, "no"), nil); v.Reachable || v.Explanations[0].Component != "arn:web" || len(v.Return) > 0 {
		t.Errorf("%+v", v)
	}
	if !first.Reachable || hop.Explanation != nil {
		t.Error("the verdict that was gone on with has changed")
	}
}
