package compute

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reach"
)

// What instances of a VPC have resolved is dark to an instance exactly where the network drops its packets.
func TestDarkAddresses(t *testing.T) {
	in := machine.Instance{Account: "000000000000", Region: "us-east-1", ID: "i-1", VPCID: "vpc-1"}
	running := map[string]machine.Instance{"i-1": in, "i-2": {ID: "i-2", VPCID: "vpc-1"}, "i-3": {ID: "i-3", VPCID: "vpc-2"}}
	open := guestWorld()
	const eks, sts, ec2 = "eks.us-east-1.amazonaws.com", "sts.us-east-1.amazonaws.com", "ec2.us-east-1.amazonaws.com"
	at := func(name string) netip.Addr {
		v := open.CheckName(reach.Flow{From: reach.At("i-1"), Protocol: reach.TCP, Port: 443}, name)
		return v.Destination
	}
	n := &boxNetwork{machines: &Machines{network: newGuestNetwork(nil, 0)}, boxes: map[string]*boxLinks{
		"i-1": {names: map[netip.Addr]string{at(eks): eks}},
		"i-2": {names: map[netip.Addr]string{at(sts): sts}},
		"i-3": {names: map[netip.Addr]string{at(ec2): ec2}}, // of another VPC
	}}
	for _, tt := range []struct {
		name    string
		network *reach.Snapshot
		want    []netip.AddrPort
	}{
		{"only 443 is allowed", open, []netip.AddrPort{netip.AddrPortFrom(at(eks), 80), netip.AddrPortFrom(at(sts), 80)}},
		{"nothing is allowed", edited(open, guestGroup(false)), []netip.AddrPort{
			netip.AddrPortFrom(at(eks), 80), netip.AddrPortFrom(at(eks), 443), netip.AddrPortFrom(at(sts), 80), netip.AddrPortFrom(at(sts), 443),
		}},
	} {
		slices.SortFunc(tt.want, netip.AddrPort.Compare)
		if got := n.dark(context.Background(), tt.network, running, in); !slices.Equal(got, tt.want) {
			t.Errorf("%s: dark are %v, want %v", tt.name, got, tt.want)
		}
	}
}
