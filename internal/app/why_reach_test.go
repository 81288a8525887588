package app

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
		{"no port", "from=laptop&to=i-1&port=70000&protocol=tcp", reachQuery{}, "is none"},
		{"no protocol", "from=laptop&to=i-1&port=22&protocol=x", reachQuery{}, "none of tcp"},
		{"all protocols", "from=laptop&to=i-1&protocol=-1", reachQuery{}, "none of tcp"},
		{"no account", "from=laptop&to=i-1&port=22&protocol=tcp&account=1", reachQuery{}, "12 digits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := url.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parseReachQuery(v, client)
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

// What a cluster's name resolves to by its access mode.
func TestHostName(t *testing.T) {
	d := reach.New("us-east-1").Edit()
	d.Put(&reach.VPC{ID: "vpc-1", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}, DNSSupport: true, DNSHostnames: true})
	d.Put(&reach.Interface{ID: "eni-cp", VPC: "vpc-1", Addresses: []reach.Address{{Private: netip.MustParseAddr("10.0.0.9")}}})
	d.Put(&reach.Interface{ID: "eni-1", VPC: "vpc-1", Addresses: []reach.Address{{Private: netip.MustParseAddr("10.0.0.10")}}})
	s := d.Snapshot()
	const host = "ABC.gr7.us-east-1.eks.amazonaws.com"
	for _, tt := range []struct {
		name            string
		public, private bool
		inside, outside string // addresses; public
	}{
		{"public", true, false, "public", "public"},
		{"both", true, true, "10.0.0.9", "public"},
		{"private", false, true, "10.0.0.9", "10.0.0.9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := s.Edit()
			d.Put(hostName(s, eks.APIEndpoint{
				Host: host, ARN: "arn", VPCID: "vpc-1", Interfaces: []string{"eni-cp"}, Public: tt.public, Private: tt.private, PublicCIDRs: []string{"203.0.113.0/24"},
			}))
			for from, want := range map[reach.Endpoint]string{reach.At("eni-1"): tt.inside, reach.Addr(reach.Client): tt.outside} {
				if want == "public" {
					want = reach.StableAddress(strings.ToLower(host)).String()
				}
				r := d.Snapshot().Resolve(from, host)
				if len(r.Addresses) != 1 || r.Addresses[0].String() != want {
					t.Errorf("from %+v: %v, want %s", from, r.Addresses, want)
				}
			}
			f := reach.Flow{From: reach.Addr(netip.MustParseAddr("198.51.100.1")), Protocol: reach.TCP, Port: 443}
			if v := d.Snapshot().CheckName(f, host); v.Reachable {
				t.Errorf("reached from outside its public access CIDRs:\n%s", v.Text())
			}
		})
	}
}
