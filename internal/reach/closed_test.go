package reach_test

import (
	"net/netip"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

// The closed network as a table: each flow as it is, and after removing one thing.
func TestClosedNetwork(t *testing.T) {
	base := closed()
	flows := map[string]func(s *reach.Snapshot) *reach.Verdict{}
	name := func(label, from, to string, port uint16) {
		flows[label] = func(s *reach.Snapshot) *reach.Verdict {
			f := reach.Flow{From: laptop, Protocol: reach.TCP, Port: port}
			if from != "laptop" {
				f.From = reach.At(from)
			}
			return s.CheckName(f, to)
		}
	}
	at := func(label, from, to string, port uint16) {
		flows[label] = func(s *reach.Snapshot) *reach.Verdict {
			f := flow(laptop, reach.At(to), port)
			if from != "laptop" {
				f.From = reach.At(from)
			}
			return s.Check(f)
		}
	}
	name("worker → API server", "i-worker", clusterName, 443)
	name("worker → ec2", "i-worker", "ec2.us-east-1.amazonaws.com", 443)
	name("worker → dkr", "i-worker", "000000000000.dkr.ecr.us-east-1.amazonaws.com", 443)
	name("worker → s3", "i-worker", "bucket.s3.us-east-1.amazonaws.com", 443)
	name("worker → internet", "i-worker", "example.com", 443)
	at("operator → worker", "i-operator", "i-worker", 22)
	at("bastion → operator", "i-bastion", "i-operator", 22)
	at("laptop → bastion", "laptop", "i-bastion", 22)
	at("laptop → operator", "laptop", "i-operator", 22)
	at("control plane → worker", "eni-cpb", "i-worker", 10250)
	name("laptop → API server", "laptop", clusterName, 443)
	name("bastion → API server", "i-bastion", clusterName, 443)

	dropRoute := func(table, target string) *reach.Snapshot {
		return with(t, base, table, func(r *reach.RouteTable) {
			var kept []reach.Route
			for _, x := range r.Routes {
				if x.Target != target {
					kept = append(kept, x)
				}
			}
			r.Routes = kept
		})
	}
	dropRule := func(group, rule string) *reach.Snapshot {
		return with(t, base, group, func(g *reach.SecurityGroup) {
			var kept []reach.Rule
			for _, x := range g.Rules {
				if x.ID != rule {
					kept = append(kept, x)
				}
			}
			g.Rules = kept
		})
	}
	deny := func(acl string, e reach.Entry) *reach.Snapshot {
		return with(t, base, acl, func(a *reach.ACL) { a.Entries = append([]reach.Entry{e}, a.Entries...) })
	}
	replies := reach.Entry{Number: 50, Egress: true, Protocol: reach.TCP, CIDR: anyone, Ports: reach.PortRange{From: 1024, To: 65535}}

	for _, tt := range []struct {
		name, flow, code string // empty if reachable
		net              *reach.Snapshot
	}{
		{"", "worker → API server", "", base},
		{"without its rule", "worker → API server", "ENI_SG_RULES_MISMATCH", dropRule("sg-cp", "sgr-c443")},
		{"", "worker → ec2", "", base},
		{"without the endpoint", "worker → ec2", "NO_ROUTE_TO_DESTINATION", edit(base, "vpce-ec2", "eni-ec2a", "eni-ec2b")},
		{"without the endpoint's rule", "worker → ec2", "SG_HAS_NO_RULES", dropRule("sg-endpoint", "sgr-e443")},
		{"without DNS hostnames", "worker → ec2", "NO_ROUTE_TO_DESTINATION", with(t, base, "vpc-k8s", func(v *reach.VPC) { v.DNSHostnames = false })},
		{"without DNS", "worker → ec2", "NAME_NOT_RESOLVED", with(t, base, "vpc-k8s", func(v *reach.VPC) { v.DNSSupport = false })},
		{"", "worker → dkr", "", base},
		{"without the endpoint", "worker → dkr", "NO_ROUTE_TO_DESTINATION", edit(base, "vpce-dkr", "eni-dkr")},
		{"", "worker → s3", "", base},
		{"without the route", "worker → s3", "NO_ROUTE_TO_DESTINATION", dropRoute("rtb-k8s", "vpce-s3")},
		{"without the endpoint", "worker → s3", "BAD_STATE_ROUTE", edit(base, "vpce-s3")},
		{"with an ACL entry", "worker → s3", "SUBNET_ACL_RESTRICTION", deny("acl-k8s", reach.Entry{Number: 50, Egress: true, Protocol: reach.TCP, CIDR: cidr("54.231.0.0/16"), Ports: reach.PortRange{From: 443, To: 443}})},
		{"", "worker → internet", "NO_ROUTE_TO_DESTINATION", base},
		{"", "operator → worker", "", base},
		{"without the rule", "operator → worker", "ENI_SG_RULES_MISMATCH", dropRule("sg-worker", "sgr-w22")},
		{"with replies denied", "operator → worker", "SUBNET_ACL_RESTRICTION", deny("acl-k8s", replies)},
		{"", "bastion → operator", "", base},
		{"without the route there", "bastion → operator", "DISCONNECTED_VPCS", edit(dropRoute("rtb-bastion", "pcx-1"), "pcx-1")},
		{"without the route back", "bastion → operator", "NO_ROUTE_TO_DESTINATION", dropRoute("rtb-k8s", "pcx-1")},
		{"not accepted yet", "bastion → operator", "BAD_STATE_ROUTE", with(t, base, "pcx-1", func(p *reach.Peering) { p.State = "pending-acceptance" })},
		{"without the rule", "bastion → operator", "ENI_SG_RULES_MISMATCH", dropRule("sg-operator", "sgr-o22")},
		{"", "laptop → bastion", "", base},
		{"without the gateway", "laptop → bastion", "NO_POSSIBLE_DESTINATION", edit(base, "igw-1")},
		{"without the route back", "laptop → bastion", "NO_ROUTE_TO_DESTINATION", dropRoute("rtb-bastion", "igw-1")},
		{"without the rule", "laptop → bastion", "ENI_SG_RULES_MISMATCH", dropRule("sg-bastion", "sgr-b22")},
		{"with replies denied", "laptop → bastion", "SUBNET_ACL_RESTRICTION", deny("acl-bastion", replies)},
		{"without a public address", "laptop → bastion", "IGW_PRIVATE_IP_ASSOCIATION_FOR_INGRESS", with(t, base, "eni-bastion", func(e *reach.Interface) { e.Addresses = []reach.Address{{Private: ip("10.9.1.5")}} })},
		{"", "laptop → operator", "NO_POSSIBLE_DESTINATION", base},
		{"", "control plane → worker", "", base},
		{"without the rule", "control plane → worker", "ENI_SG_RULES_MISMATCH", dropRule("sg-worker", "sgr-w10250")},
		{"without its egress rule", "control plane → worker", "ENI_SG_RULES_MISMATCH", dropRule("sg-cp", "sgr-c10250")},
		{"", "laptop → API server", "", base},
		{"", "bastion → API server", "NO_POSSIBLE_DESTINATION", base},
		{"private only", "bastion → API server", "ENI_SG_RULES_MISMATCH", with(t, base, clusterName, func(h *reach.HostName) { h.Public = nil })},
		{"private only", "laptop → API server", "IGW_PRIVATE_IP_ASSOCIATION_FOR_INGRESS", with(t, base, clusterName, func(h *reach.HostName) { h.Public = nil })},
		{"from elsewhere only", "laptop → API server", "NO_POSSIBLE_DESTINATION", with(t, base, clusterName, func(h *reach.HostName) { h.PublicFrom = []netip.Prefix{cidr("192.0.2.0/24")} })},
	} {
		label := tt.flow
		if tt.name != "" {
			label += ", " + tt.name
		}
		t.Run(label, func(t *testing.T) { wantCode(t, flows[tt.flow](tt.net), tt.code) })
	}
}

func wantCode(t testing.TB, v *reach.Verdict, code string) {
	t.Helper()
	got := ""
	if len(v.Explanations) > 0 {
		got = v.Explanations[0].Code
	}
	if got != code || v.Reachable != (code == "") {
		t.Errorf("got %q, want %q\n%s", got, code, v.Text())
	}
}
