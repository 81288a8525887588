package why

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/netpolicy"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

func TestParseReachQuery(t *testing.T) {
	client := netip.MustParseAddr("192.0.2.7")
	flow := func(from, to reach.Endpoint) reach.Flow {
		return reach.Flow{From: from, To: to, Protocol: reach.TCP, Port: 22}
	}
	for _, tt := range []struct {
		name, query string
		want        reachQuery
		err         string
	}{
		{"the laptop to an instance", "from=laptop&to=i-1&port=22&protocol=tcp", reachQuery{"000000000000", "us-east-1", flow(reach.Addr(client), reach.At("i-1")), ""}, ""},
		{"an address to an address", "from=198.51.100.1&to=2001:db8::1&port=22&protocol=6", reachQuery{"000000000000", "us-east-1", flow(reach.Addr(netip.MustParseAddr("198.51.100.1")), reach.Addr(netip.MustParseAddr("2001:db8::1"))), ""}, ""},
		{"an instance to a name", "from=i-1&to=i-2.ec2.internal&port=22&protocol=tcp&account=111122223333&region=eu-west-1", reachQuery{"111122223333", "eu-west-1", flow(reach.At("i-1"), reach.Endpoint{}), "i-2.ec2.internal"}, ""},
		{"through a Connect endpoint", "from=eice-1&to=i-1&port=22&protocol=tcp", reachQuery{"000000000000", "us-east-1", flow(reach.Endpoint{ID: "eice-1", Address: client}, reach.At("i-1")), ""}, ""},
		{"no source", "to=i-1&port=22&protocol=tcp", reachQuery{}, "from is missing"},
		{"no destination", "from=laptop&port=22&protocol=tcp", reachQuery{}, "to is missing"},
		{"no port", "from=laptop&to=i-1&port=70000&protocol=tcp", reachQuery{}, "invalid port"},
		{"no protocol", "from=laptop&to=i-1&port=22&protocol=x", reachQuery{}, "want tcp"},
		{"all protocols", "from=laptop&to=i-1&protocol=-1", reachQuery{}, "want tcp"},
		{"no account", "from=laptop&to=i-1&port=22&protocol=tcp&account=1", reachQuery{}, "12 digits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseReachQuery(httptest.NewRequest("GET", "/_drydock/why/reach?"+tt.query, nil), client)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q in it", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(reachQuery{}), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// listeners are clusters, as far as their endpoints go.
type listeners struct {
	EKS
	clusters  []eks.ClusterStatus
	endpoints []eks.APIEndpoint
}

func (l listeners) Clusters(context.Context) ([]eks.ClusterStatus, error) { return l.clusters, nil }

func (l listeners) APIEndpoints(context.Context, string, string) ([]eks.APIEndpoint, error) {
	return l.endpoints, nil
}

// What DescribeCluster calls the endpoint is an address of this machine; meant is the cluster's.
func TestListenersStandForEndpoints(t *testing.T) {
	const account, host = "000000000000", "0123.gr7.us-east-1.eks.amazonaws.com"
	x := New(Config{EKS: listeners{
		clusters: []eks.ClusterStatus{
			{Account: account, Region: "eu-west-1", Name: "dev", Endpoint: "https://127.0.0.1:27002"},
			{Account: account, Region: "us-east-1", Name: "dev", Endpoint: "https://127.0.0.1:27001"},
		},
		endpoints: []eks.APIEndpoint{{Host: "x", ARN: "arn:aws:eks:us-east-1:" + account + ":cluster/other"}, {Host: host, ARN: "arn:aws:eks:us-east-1:" + account + ":cluster/dev"}},
	}})
	for to, want := range map[string]string{
		"to=127.0.0.1&port=27001": host + " 443",
		"to=127.0.0.1&port=27002": " 27002",
		"to=10.0.0.1&port=27001":  " 27001",
		"to=" + host + "&port=1":  host + " 1",
	} {
		q, err := parseReachQuery(httptest.NewRequest("GET", "/_drydock/why/reach?from=laptop&protocol=tcp&"+to, nil), netip.Addr{})
		if err == nil {
			err = x.endpointAt(t.Context(), &q)
		}
		if got := fmt.Sprint(q.name, " ", q.flow.Port); err != nil || got != want || q.flow.To.Address.IsValid() == (q.name != "") {
			t.Errorf("%s: %s, %v, %v, want %s", to, got, q.flow.To, err, want)
		}
	}
}

// policies drop what is not for port 80.
type policies struct {
	EKS
	drop eks.NetworkPolicyDrop
}

func (p policies) NetworkPolicyDrop(_ context.Context, _, _ string, _, _ netip.Addr, protocol string, port uint16) (*eks.NetworkPolicyDrop, error) {
	if protocol == "tcp" && port == 80 {
		return nil, nil
	}
	return &p.drop, nil
}

func TestNetworkPolicies(t *testing.T) {
	pod := netpolicy.Pod{Namespace: "shop", Name: "web"}
	for _, tt := range []struct {
		name     string
		drop     netpolicy.Drop
		port     uint16
		protocol string
		want     string
	}{
		{"allowed", netpolicy.Drop{}, 80, "tcp", ""},
		{"one policy", netpolicy.Drop{Pod: pod, Direction: "Ingress", Policies: []netpolicy.Ref{{Name: "deny", Namespace: "shop"}}}, 81, "tcp",
			"the network policy shop/deny of cluster dev selects pod shop/web and has no ingress rule for 10.0.0.1 tcp 81"},
		{"two policies", netpolicy.Drop{Pod: pod, Direction: "Egress", Policies: []netpolicy.Ref{{Name: "a", Namespace: "shop"}, {Name: "b", Namespace: "shop"}}}, 0, "icmp",
			"the network policies shop/a, shop/b of cluster dev select pod shop/web and have no egress rule for 10.0.0.2 icmp"},
		{"a cluster policy", netpolicy.Drop{Pod: pod, Direction: "Egress", Denied: &netpolicy.ClusterSpec{PolicyRef: netpolicy.ClusterRef{Name: "imds"}, Tier: netpolicy.Admin, Priority: 7}}, 81, "tcp",
			"the ClusterNetworkPolicy imds of cluster dev (tier Admin, priority 7) selects pod shop/web and denies egress for 10.0.0.2 tcp 81"},
		{"strict", netpolicy.Drop{Pod: pod, Direction: "Ingress"}, 81, "tcp",
			"no network policy of cluster dev selects pod shop/web, and the mode strict of the VPC CNI lets such pods send and receive nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			protocol, err := reach.ParseProtocol(tt.protocol)
			if err != nil {
				t.Fatal(err)
			}
			out := api.ReachExplanation{Verdict: reach.Verdict{
				Reachable: true, Source: netip.MustParseAddr("10.0.0.1"), Destination: netip.MustParseAddr("10.0.0.2"), Flow: reach.Flow{Protocol: protocol, Port: tt.port},
			}}
			x := New(Config{EKS: policies{drop: eks.NetworkPolicyDrop{Cluster: "dev", Drop: tt.drop}}})
			if err := x.networkPolicies(t.Context(), "000000000000", "us-east-1", &out); err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(out.Explanations) > 0 {
				got = out.Explanations[0].Text
			}
			if got != tt.want || out.Reachable != (tt.want == "") {
				t.Errorf("reachable: %t, %q, want %q", out.Reachable, got, tt.want)
			}
		})
	}
}
