package compute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// The VPC's DNS server asks the internet's only if there is an internet, and only about names that are neither AWS's nor the network's.
func TestNamesOfTheInternet(t *testing.T) {
	in := machine.Instance{Account: "000000000000", Region: "us-east-1", ID: "i-1", VPCID: "vpc-1", PrivateIP: netip.MustParseAddr("10.0.0.5")}
	real := netip.MustParseAddr("192.0.32.8")
	var asked []string
	way := &Internet{Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
		asked = append(asked, name)
		if name == "missing.test" {
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		return []netip.Addr{real}, nil
	}}
	s := edited(guestWorld(), &reach.VPC{ID: "vpc-1", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}, DNSSupport: true, DNSHostnames: true},
		&reach.HostedZone{ID: "Z1", Name: "corp.test", VPCs: []string{"vpc-1"}, Records: map[string]reach.Record{
			"www.corp.test": {Target: "example.test"}, "db.corp.test": {Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")}},
		}})
	network := func(way *Internet, leaves bool) *boxNetwork {
		world := newGuestNetwork(func(context.Context, string, string) (*reach.Snapshot, error) { return s, nil }, 0, clocks.RealClock{})
		m := &Machines{network: world, cfg: Config{Internet: way}}
		n := &boxNetwork{machines: m, guests: &guests{machines: m}, boxes: map[string]*boxLinks{}}
		n.leaves.Store(leaves)
		return n
	}
	resolve := func(way *Internet, name string) ([]netip.Addr, bool, error) {
		return network(way, way != nil).resolve(t.Context(), in, name, true)
	}
	for _, name := range []string{"example.test", "Example.Test.", "www.corp.test"} {
		got, outside, err := resolve(way, name)
		if err != nil || !outside || !slices.Equal(got, []netip.Addr{real}) {
			t.Errorf("%s: %v, outside %v, %v", name, got, outside, err)
		}
		if got, outside, err := resolve(nil, name); err != nil || outside || slices.Contains(got, real) || len(got) != 1 {
			t.Errorf("without an internet, %s: %v, outside %v, %v", name, got, outside, err)
		}
	}
	if got, outside, err := network(way, false).resolve(t.Context(), in, "example.test", true); err != nil || outside || slices.Contains(got, real) {
		t.Errorf("while no packet leaves: %v, outside %v, %v", got, outside, err)
	}
	if !slices.Equal(asked, []string{"example.test", "example.test", "example.test"}) {
		t.Errorf("asked for %v", asked)
	}
	if _, _, err := resolve(way, "missing.test"); !isNotFound(err) {
		t.Errorf("a name that does not exist: %v", err)
	}
	asked = nil
	for kind, want := range map[dnsmessage.Type]int{dnsmessage.TypeA: 1, dnsmessage.TypeAAAA: 0, dnsmessage.TypeMX: 0} {
		query := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{
			{Name: dnsmessage.MustNewName("example.test."), Type: kind, Class: dnsmessage.ClassINET},
		}}
		b, err := query.Pack()
		if err != nil {
			t.Fatal(err)
		}
		b, ok := network(way, true).answerDNS(in, b, 512)
		var answer dnsmessage.Message
		if err := answer.Unpack(b); !ok || err != nil || answer.RCode != dnsmessage.RCodeSuccess || len(answer.Answers) != want {
			t.Errorf("%v: %v, %v, %v", kind, ok, answer.GoString(), err)
		}
	}
	if !slices.Equal(asked, []string{"example.test"}) {
		t.Errorf("asked for %v", asked)
	}
	asked = nil
	for _, name := range []string{"sts.us-east-1.amazonaws.com", "db.corp.test", "none.corp.test", "10.0.0.9", "nobody.internal", "ip-10-0-0-5.ec2.internal"} {
		if got, outside, _ := resolve(way, name); outside {
			t.Errorf("%s is the internet's: %v", name, got)
		}
	}
	if len(asked) > 0 {
		t.Errorf("the internet's DNS servers see %v", asked)
	}
}

func isNotFound(err error) bool {
	de, ok := errors.AsType[*net.DNSError](err)
	return ok && de.IsNotFound
}

// Addresses of AWS and of the network do not lead to the internet.
func TestInsideOfTheInternet(t *testing.T) {
	s := edited(guestWorld(), &reach.PrefixList{ID: "pl-1", Name: "com.amazonaws.us-east-1.s3", CIDRs: []netip.Prefix{netip.MustParsePrefix("3.5.0.0/22")}},
		&reach.PrefixList{ID: "pl-2", Name: "offices", CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.32.0/24")}},
		&reach.HostName{Name: "c.example", Public: []netip.Addr{netip.MustParseAddr("18.0.0.1")}},
		&reach.VPC{ID: "vpc-2", CIDRs: []netip.Prefix{netip.MustParsePrefix("11.0.0.0/16"), netip.MustParsePrefix("2600:1f18::/56")}},
		&reach.Peering{ID: "pcx-1", Requester: reach.PeeringSide{VPC: "vpc-2"}, Accepter: reach.PeeringSide{VPC: "vpc-3", CIDRs: []netip.Prefix{netip.MustParsePrefix("12.0.0.0/16")}}})
	inside := insideOf(map[[2]string]*reach.Snapshot{{"1", "a"}: s, {"2", "a"}: s})
	if !slices.IsSortedFunc(inside, netip.Prefix.Compare) || len(slices.Compact(slices.Clone(inside))) != len(inside) {
		t.Errorf("not sorted, or with duplicates: %v", inside)
	}
	var last netip.Addr // of the public addresses of all Regions
	for a := netip.MustParseAddr("54.0.255.255"); ec2.PublicRegion(a) != ""; a = netip.AddrFrom4([4]byte{54, a.As4()[1] + 1, 255, 255}) {
		last = a
	}
	for a, want := range map[string]bool{
		"54.0.0.5": true, "3.5.0.9": true, "18.0.0.1": true, "10.0.0.5": true, "198.51.100.4": true, "169.254.169.254": true, "127.0.0.1": true,
		reach.StableAddress("eks.us-east-1.amazonaws.com").String(): true,
		"54.0.0.6": true, last.String(): true, "11.0.0.9": true, "12.0.255.1": true,
		last.Next().String(): false, "11.1.0.1": false, "12.1.0.1": false, "3.5.4.1": false, "192.0.32.8": false, "8.8.8.8": false,
	} {
		if got := slices.ContainsFunc(inside, func(p netip.Prefix) bool { return p.Contains(netip.MustParseAddr(a)) }); got != want {
			t.Errorf("%s inside: %v, want %v", a, got, want)
		}
	}
}

// When the device fails, or cannot be opened, no packets leave until there is one again, which is tried after a pause.
func TestTheWayOutFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var got []string
		happens := func(what string) { got = append(got, fmt.Sprintf("%v %s", time.Since(began), what)) }
		carried, opened := 0, 0
		w := wayOut{
			carry: func(io.ReadWriteCloser) error {
				happens("carries")
				if carried++; carried == 3 {
					cancel()
					return nil
				}
				return fs.ErrClosed
			},
			open: func() (io.ReadWriteCloser, error) {
				if opened++; opened == 3 {
					return nil, fs.ErrNotExist
				}
				return nil, nil
			},
			changed: func(leaves bool) { happens(fmt.Sprint(leaves)) },
			clock:   clocks.RealClock{}, log: testkit.Log(t),
		}
		w.keep(ctx, nil, fs.ErrPermission)
		want := []string{"10s true", "10s carries", "10s false", "20s true", "20s carries", "20s false", "40s true", "40s carries"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		w.keep(ctx, nil, fs.ErrPermission) // has ended
	})
}
