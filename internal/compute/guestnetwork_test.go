package compute

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/reach"
)

// guestWorld is a VPC with an internet gateway, and an instance with a public
// address in it.
func guestWorld() *reach.Snapshot {
	d := reach.New("us-east-1").Edit()
	all := netip.MustParsePrefix("0.0.0.0/0")
	for _, r := range []reach.Resource{
		&reach.VPC{ID: "vpc-1", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}, DNSSupport: true},
		&reach.Subnet{ID: "subnet-1", VPC: "vpc-1", Zone: "us-east-1a", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}},
		&reach.InternetGateway{ID: "igw-1", VPC: "vpc-1"},
		&reach.RouteTable{ID: "rtb-1", VPC: "vpc-1", Main: true, Routes: []reach.Route{
			{Destination: netip.MustParsePrefix("10.0.0.0/16"), Target: reach.Local}, {Destination: all, Target: "igw-1"},
		}},
		guestACL(true), guestGroup(true),
		&reach.Instance{ID: "i-1"},
		&reach.Interface{
			ID: "eni-1", VPC: "vpc-1", Subnet: "subnet-1", Zone: "us-east-1a", Instance: "i-1", Attached: true, Primary: true, Groups: []string{"sg-1"},
			Addresses: []reach.Address{{Private: netip.MustParseAddr("10.0.0.5"), Public: netip.MustParseAddr("54.0.0.5")}},
		},
	} {
		d.Put(r)
	}
	return d.Snapshot()
}

func guestACL(open bool) *reach.ACL {
	all := netip.MustParsePrefix("0.0.0.0/0")
	return &reach.ACL{ID: "acl-1", VPC: "vpc-1", Default: true, Entries: []reach.Entry{
		{Number: 100, Egress: true, Allow: open, Protocol: reach.AllProtocols, CIDR: all}, {Number: 100, Allow: true, Protocol: reach.AllProtocols, CIDR: all},
	}}
}

// guestGroup allows the addresses of AWS's services by a rule that is tracked.
func guestGroup(open bool) *reach.SecurityGroup {
	g := &reach.SecurityGroup{ID: "sg-1", VPC: "vpc-1"}
	if open {
		g.Rules = []reach.Rule{{ID: "sgr-1", Egress: true, Protocol: reach.TCP, Ports: reach.PortRange{From: 443, To: 443}, CIDR: netip.MustParsePrefix("99.77.0.0/16")}}
	}
	return g
}

// edited is a network with some resources changed.
func edited(s *reach.Snapshot, rs ...reach.Resource) *reach.Snapshot {
	d := s.Edit()
	for _, r := range rs {
		d.Put(r)
	}
	return d.Snapshot()
}

func TestGuestNetworkDecides(t *testing.T) {
	in := machine.Instance{Account: "000000000000", Region: "us-east-1", ID: "i-1"}
	open := guestWorld()
	for _, tt := range []struct {
		name      string
		network   *reach.Snapshot
		host      string
		port      int
		text      string // of the error; empty: none
		code      string
		component string
		timeout   bool
	}{
		{"open", open, "eks.us-east-1.amazonaws.com", 443, "", "", "", false},
		{"another port", open, "eks.us-east-1.amazonaws.com", 80, ":80: i/o timeout", reach.CodeGroupMismatch, "sg-1", true},
		{"no rules", edited(open, guestGroup(false)), "eks.us-east-1.amazonaws.com", 443, "dial tcp 99.77.", reach.CodeGroupNoRules, "sg-1", true},
		{"network ACL", edited(open, guestACL(false)), "eks.us-east-1.amazonaws.com", 443, ":443: i/o timeout", reach.CodeACL, "acl-1", true},
		{"no DNS", edited(open, &reach.VPC{ID: "vpc-1", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}), "eks.us-east-1.amazonaws.com", 443, "lookup eks.us-east-1.amazonaws.com on 169.254.169.253:53: i/o timeout", reach.CodeName, "vpc-1", true},
		{"no such name", open, "nobody.internal", 443, "lookup nobody.internal: no such host", reach.CodeName, "nobody.internal", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newGuestNetwork(func(context.Context, string, string) (*reach.Snapshot, error) { return tt.network, nil }, 0, clocks.RealClock{})
			v, err := n.allow(t.Context(), in, tt.host, tt.port)
			if tt.text == "" {
				if err != nil || !v.Reachable {
					t.Fatalf("%+v, %v", v, err)
				}
				return
			}
			var ne net.Error
			if err == nil || !strings.Contains(err.Error(), tt.text) || !errors.As(err, &ne) || ne.Timeout() != tt.timeout {
				t.Errorf("error %v, want %q in it, a timeout: %v", err, tt.text, tt.timeout)
			}
			if why := node.DecisionOf(err); why == nil || why.Code != tt.code || why.Component != tt.component || why.By != node.ByNetwork {
				t.Errorf("decision %+v, want %s of %s", why, tt.code, tt.component)
			}
		})
	}
}

// A refusal always reflects the current network; a permission may be slightly out of date.
func TestGuestNetworkLooksAgainBeforeItRefuses(t *testing.T) {
	open := guestWorld()
	var now atomic.Pointer[reach.Snapshot]
	now.Store(edited(open, guestGroup(false)))
	n := newGuestNetwork(func(context.Context, string, string) (*reach.Snapshot, error) { return now.Load(), nil }, 0, clocks.RealClock{})
	in := machine.Instance{Account: "000000000000", Region: "us-east-1", ID: "i-1"}
	if _, err := n.allow(t.Context(), in, "eks.us-east-1.amazonaws.com", 443); err == nil {
		t.Error("let through")
	}
	now.Store(open)
	if _, err := n.allow(t.Context(), in, "eks.us-east-1.amazonaws.com", 443); err != nil {
		t.Error(err)
	}
}

// The networks of accounts that are no longer used are dropped.
func TestGuestNetworkForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := guestWorld()
		n := newGuestNetwork(func(context.Context, string, string) (*reach.Snapshot, error) { return open, nil }, 0, clocks.RealClock{})
		for i := range 100 {
			in := machine.Instance{Account: fmt.Sprintf("%012d", i), Region: "us-east-1", ID: "i-1"}
			if _, err := n.allow(t.Context(), in, "eks.us-east-1.amazonaws.com", 443); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if len(n.recent) > 11 {
			t.Errorf("%d networks are kept, which were asked for within 100 s", len(n.recent))
		}
	})
}

// Connections survive a revoked rule, because they are tracked, but not a network ACL's deny.
func TestGuestNetworkCuts(t *testing.T) {
	open := guestWorld()
	var now atomic.Pointer[reach.Snapshot]
	now.Store(open)
	n := newGuestNetwork(func(context.Context, string, string) (*reach.Snapshot, error) { return now.Load(), nil }, 0, clocks.RealClock{})
	in := machine.Instance{Account: "000000000000", Region: "us-east-1", ID: "i-1"}
	v, err := n.allow(t.Context(), in, "eks.us-east-1.amazonaws.com", 443)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	defer theirs.Close() //nolint:errcheck // a pipe
	c := n.track(ours, in, "eks.us-east-1.amazonaws.com", v)
	if r := c.(node.Routed).Route(); r.Name != "eks.us-east-1.amazonaws.com" || r.By != "public DNS" || !r.Address.IsValid() {
		t.Errorf("route %+v", r)
	}
	for _, step := range []struct {
		name    string
		network *reach.Snapshot
		cut     int
	}{
		{"nothing has changed", open, 0},
		{"the rule is revoked", edited(open, guestGroup(false)), 0},
		{"a network ACL denies", edited(open, guestACL(false)), 1},
		{"it is gone", edited(open, guestACL(false)), 0},
	} {
		now.Store(step.network)
		if got, err := n.cut(t.Context()); err != nil || got != step.cut {
			t.Errorf("%s: %d connections cut, want %d (%v)", step.name, got, step.cut, err)
		}
	}
	if _, err := ours.Write([]byte("x")); err == nil {
		t.Error("the connection is open")
	}
}

// Calls through a VPC endpoint carry its ID; others come from the public address.
func TestGuestOrigin(t *testing.T) {
	in := machine.Instance{ID: "i-1", VPCID: "vpc-1", Account: "111122223333", Region: "eu-west-1"}
	v := guestWorld().CheckName(reach.Flow{From: reach.At("i-1"), Protocol: reach.TCP, Port: 443}, "eks.us-east-1.amazonaws.com")
	if got, want := (&guestConn{in: in, verdict: v}).origin(), (Origin{Address: netip.MustParseAddr("54.0.0.5")}); got != want {
		t.Errorf("by the internet gateway: %+v, want %+v", got, want)
	}
	through := &reach.Verdict{Endpoint: "vpce-1", Source: netip.MustParseAddr("10.0.0.5")}
	if got, want := (&guestConn{in: in, verdict: through}).origin(), (Origin{awsapi.VPCEndpoint{ID: "vpce-1", VPCID: "vpc-1", Account: "111122223333", Region: "eu-west-1"}, netip.MustParseAddr("10.0.0.5")}); got != want {
		t.Errorf("by an endpoint: %+v, want %+v", got, want)
	}
}
