package simulated_test

import (
	"context"
	"net/netip"
	"testing"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated"
)

// Addresses for pods that really run are always in the same order. Those in use stay when aws-node gets another
// configuration, which releases all others of the other kind.
func TestAddressesInUseStay(t *testing.T) {
	b := newBench(t)
	in := b.instance()
	in.Type.ENIs, in.Type.IPv4PerENI = 3, 5
	ec2 := newFakeEC2(100)
	ctx := context.Background()
	p := simulated.NewIPAM(node.Config{PodNetwork: ec2}, clock.RealClock{}, in, 20, map[string]string{"WARM_ENI_TARGET": "1"})
	if err := p.Start(ctx, nil); err != nil {
		t.Fatal(err)
	}
	all := map[netip.Addr]bool{}
	for _, a := range p.Addresses() {
		all[a.IP] = true
	}
	if err := p.Follow(ctx, all); err != nil {
		t.Fatal(err)
	}
	first := p.Addresses()
	if len(first) < 5 {
		t.Fatalf("addresses %v", first)
	}
	for i := range 10 {
		for j, a := range p.Addresses() {
			if a != first[j] {
				t.Fatalf("address %d is %v in pass %d, and was %v", j, a, i, first[j])
			}
		}
	}
	last := first[len(first)-1]
	if last.Device == 0 || first[0].Device != 0 || last.Interface == first[0].Interface {
		t.Errorf("the first is %v, the last %v: want the primary interface first", first[0], last)
	}
	used := map[netip.Addr]bool{first[1].IP: true}
	p.Configure(map[string]string{"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1"})
	if err := p.Start(ctx, used); err != nil {
		t.Fatal(err)
	}
	kept := map[netip.Addr]bool{}
	for _, e := range ec2.enis {
		for _, a := range e.Addresses {
			kept[a] = true
		}
	}
	if !kept[first[1].IP] {
		t.Error("an address in use was released")
	}
	if kept[first[0].IP] {
		t.Error("an address that is not in use is kept beside prefixes")
	}
}
