package compute

import (
	"bytes"
	"context"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/fabric"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reach"
)

// What instances of a VPC have resolved is dark to an instance exactly where the network drops its packets.
func TestDarkAddresses(t *testing.T) {
	in := machine.Instance{Account: "000000000000", Region: "us-east-1", ID: "i-1", VPCID: "vpc-1"}
	open := guestWorld()
	const eks, sts, ec2 = "eks.us-east-1.amazonaws.com", "sts.us-east-1.amazonaws.com", "ec2.us-east-1.amazonaws.com"
	at := func(name string) netip.Addr {
		v := open.CheckName(reach.Flow{From: reach.At("i-1"), Protocol: reach.TCP, Port: 443}, name)
		return v.Destination
	}
	n := &boxNetwork{machines: &Machines{network: newGuestNetwork(nil, 0, clocks.RealClock{})}, boxes: map[string]*boxLinks{
		"i-1": {vpc: "vpc-1", names: map[netip.Addr]string{at(eks): eks}},
		"i-2": {vpc: "vpc-1", names: map[netip.Addr]string{at(sts): sts}},
		"i-3": {vpc: "vpc-2", names: map[netip.Addr]string{at(ec2): ec2}}, // of another VPC
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
		if got := n.dark(context.Background(), tt.network, in, nil); !slices.Equal(got, tt.want) {
			t.Errorf("%s: dark are %v, want %v", tt.name, got, tt.want)
		}
	}
}

// However long it takes to change the network, the next change is not put off for long.
func TestRestAfter(t *testing.T) {
	for work, want := range map[time.Duration]time.Duration{
		0: 100 * time.Millisecond, 10 * time.Millisecond: 200 * time.Millisecond, 4 * time.Second: time.Second,
	} {
		if got := restAfter(work); got != want {
			t.Errorf("after %v of work it rests %v, want %v", work, got, want)
		}
	}
}

// The networks of accounts that see each other's are one, with everything once.
func TestMergedNetworks(t *testing.T) {
	all := fabric.State{
		VPCs: []fabric.VPC{{ID: "vpc-1"}}, Subnets: []fabric.Subnet{{ID: "subnet-1"}}, ACLs: []fabric.ACL{{ID: "acl-1"}}, Groups: []fabric.Group{{ID: "sg-1"}},
		Interfaces: []fabric.Interface{{ID: "eni-1"}}, Transits: []fabric.Transit{{ID: "tgw-attach-1 us-east-1a"}},
	}
	out, seen := fabric.State{}, map[string]bool{}
	for range 2 {
		merge(&out, &all, seen)
	}
	if !reflect.DeepEqual(out, all) {
		t.Errorf("merged %+v, want %+v", out, all)
	}
}

// The VPC's DNS server says so if an answer does not fit into a datagram, and gives all of it over TCP.
func TestDNSSizes(t *testing.T) {
	query := func(name string, size uint16) []byte {
		m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
		if size > 0 {
			m.Additionals = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeOPT, Class: dnsmessage.Class(size)}, Body: &dnsmessage.OPTResource{}}}
		}
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tt := range []struct {
		query []byte
		want  int
	}{{query("a.b.", 0), 512}, {query("a.b.", 100), 512}, {query("a.b.", 1232), 1232}, {[]byte("no query"), 512}} {
		if got := dnsSize(tt.query); got != tt.want {
			t.Errorf("the answer may have %d bytes, want %d", got, tt.want)
		}
	}
	long := packDNS(query("many.example.", 0), 100, 512, t)
	if !long.Truncated || len(long.Answers) != 0 {
		t.Errorf("an answer of 100 addresses: truncated %v with %d answers", long.Truncated, len(long.Answers))
	}
	if all := packDNS(query("many.example.", 0), 100, math.MaxUint16, t); all.Truncated || len(all.Answers) != 100 {
		t.Errorf("over TCP: truncated %v with %d answers, want all", all.Truncated, len(all.Answers))
	}
	// Two queries of one connection.
	first, second := query("one.example.", 0), query("two.example.", 0)
	stream := bytes.NewReader(slices.Concat([]byte{0, byte(len(first))}, first, []byte{0, byte(len(second))}, second, []byte{0}))
	for _, want := range [][]byte{first, second} {
		if got, err := readDNS(stream); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	if _, err := readDNS(stream); err == nil {
		t.Error("half a length is a query")
	}
}

func packDNS(query []byte, addresses, size int, t *testing.T) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		t.Fatal(err)
	}
	var all []netip.Addr
	for i := range addresses {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	b, err := answerOf(&m, all, dnsmessage.RCodeSuccess, size)
	if err != nil {
		t.Fatal(err)
	}
	var out dnsmessage.Message
	if err := out.Unpack(b); err != nil {
		t.Fatal(err)
	}
	if out.ID != 7 || !out.Response || len(b) > size {
		t.Errorf("answer %+v of %d bytes, at most %d", out.Header, len(b), size)
	}
	return out
}
