package why

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drydock-dev/drydock/internal/reach"
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
