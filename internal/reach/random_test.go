package reach_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/reach/reachtest"
)

// compare runs the same questions through engine and oracle for one network, and returns how many flows are
// reachable.
func compare(t testing.TB, seed uint64, questions int, seen map[string]int) (reachable int) {
	t.Helper()
	w := reachtest.Random(seed)
	m, s := rand.New(rand.NewPCG(seed, 8)), w.Snapshot
	o := newOracle(s)
	for range questions {
		f := reach.Flow{
			To: reach.Addr(reachtest.Pick(m, w.Destinations...)), Protocol: reachtest.Pick(m, reach.TCP, reach.TCP, reach.TCP, reach.UDP, reach.ICMP),
			Port: reachtest.Pick(m, uint16(22), 443, 1024, 50000),
		}
		var from *reach.Interface
		client := reach.Client
		if m.IntN(10) < 8 {
			f.From = reach.At(reachtest.Pick(m, w.Sources...))
			from = s.Get(f.From.ID).(*reach.Interface)
		} else {
			if f.To.Address.Is6() {
				client = ip("2001:db8::99")
			}
			f.From = reach.Addr(client)
		}
		v := s.Check(f)
		want := o.reachable(from, client, f.To.Address, f.Protocol, f.Port)
		if v.Reachable != want {
			t.Fatalf("seed %d: the oracle says %v\n%s", seed, want, v.Text())
		}
		for _, x := range v.Explanations {
			seen[x.Code]++
		}
		if v.Reachable {
			reachable++
			for _, h := range v.Forward {
				seen[h.Kind]++
				if strings.Contains(h.Note, "NAT instance") || h.Note == "forwards" {
					seen[h.Note]++
				}
			}
			if len(v.ReplyPorts) > 0 {
				seen["some reply ports"]++
			}
			if c, ok := v.Established(); !ok || !s.Continues(c).Reachable {
				t.Fatalf("seed %d: nothing changed, and the connection ends\n%s", seed, s.Continues(c).Text())
			}
		}
	}
	return reachable
}

func TestAgainstOracle(t *testing.T) {
	reachable, asked, seen := 0, 0, map[string]int{}
	for seed := range uint64(2000) {
		reachable += compare(t, seed, 12, seen)
		asked += 12
	}
	t.Logf("%d of %d flows can be made: %v", reachable, asked, seen)
	for _, s := range []string{
		reach.KindInstance, reach.KindInternetGateway, reach.KindEgressOnly, reach.KindNATGateway, reach.KindPeering, reach.KindTransitGateway, reach.KindVPCEndpoint,
		reach.CodeTransitZone, reach.CodeTransitNoTable, reach.CodeTransitNoRoute, reach.CodeTransitBadRoute,
		"forwards", "treated as a NAT instance, because its source/destination check is off", "some reply ports",
		reach.CodeBadState, reach.CodeBadStateRoute, reach.CodeGroupMismatch, reach.CodeGroupNoRules, reach.CodeGroupReferences,
		reach.CodeSourceDestCheck, reach.CodeACL, reach.CodeNoRoute, reach.CodeNoDestination, reach.CodePublicForEgress,
		reach.CodePrivateForIngress, reach.CodeNotRFC1918Egress, reach.CodeNATReassign, reach.CodePeeringCIDR, reach.CodeGatewayEndpointProto,
	} {
		if seen[s] == 0 {
			t.Errorf("no flow meets %q", s)
		}
	}
	if reachable < asked/20 || reachable > asked/2 {
		t.Errorf("%d of %d flows can be made: the networks are too tight or too open to tell", reachable, asked)
	}
}

func FuzzAgainstOracle(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { compare(t, seed, 6, map[string]int{}) })
}
