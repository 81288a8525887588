package accountnet

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

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
