package compute

import (
	"bytes"
	"context"
	"math"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

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
	n := &boxNetwork{machines: &Machines{network: newGuestNetwork(nil, 0)}, boxes: map[string]*boxLinks{
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
		if got := n.dark(context.Background(), tt.network, in); !slices.Equal(got, tt.want) {
			t.Errorf("%s: dark are %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Simulated machines answer at the ports of sshd and the kubelet, and are dark where the network drops packets to them.
func TestGuestsAnswerBoxes(t *testing.T) {
	in := machine.Instance{Account: "000000000000", Region: "us-east-1", ID: "i-1", VPCID: "vpc-1"}
	all := netip.MustParsePrefix("0.0.0.0/0")
	address := netip.MustParseAddr
	network := func(rules ...reach.Rule) *reach.Snapshot {
		return edited(guestWorld(),
			&reach.SecurityGroup{ID: "sg-1", VPC: "vpc-1", Rules: []reach.Rule{{ID: "sgr-1", Egress: true, Protocol: reach.AllProtocols, CIDR: all}}},
			&reach.SecurityGroup{ID: "sg-2", VPC: "vpc-1", Rules: rules}, &reach.Instance{ID: "i-2"},
			&reach.Interface{
				ID: "eni-2", VPC: "vpc-1", Subnet: "subnet-1", Zone: "us-east-1a", Instance: "i-2", Attached: true, Primary: true, Groups: []string{"sg-2"},
				Addresses: []reach.Address{{Private: address("10.0.0.6")}},
			})
	}
	ssh, kubelet := netip.MustParseAddrPort("10.0.0.6:22"), netip.MustParseAddrPort("10.0.0.6:10250")
	for _, tt := range []struct {
		name  string
		rules []reach.Rule
		dark  []netip.AddrPort
	}{
		{"no rules", nil, []netip.AddrPort{ssh, kubelet}},
		{"ssh", []reach.Rule{{ID: "sgr-2", Protocol: reach.TCP, Ports: reach.PortRange{From: 22, To: 22}, CIDR: all}}, []netip.AddrPort{kubelet}},
		{"all", []reach.Rule{{ID: "sgr-2", Protocol: reach.TCP, Ports: reach.PortRange{From: 0, To: 65535}, CIDR: all}}, nil},
	} {
		s := network(tt.rules...)
		n := &boxNetwork{machines: &Machines{network: newGuestNetwork(nil, 0)}, answers: newBoxAnswers()}
		n.answers.addGuests(s, map[string]machine.Instance{"i-1": in})
		if got := sorted(n.answers.tcp); !slices.Equal(got, []netip.AddrPort{ssh, kubelet}) {
			t.Errorf("%s: the network answers at %v", tt.name, got)
		}
		if got := n.dark(context.Background(), s, in); !slices.Equal(got, tt.dark) {
			t.Errorf("%s: dark are %v, want %v", tt.name, got, tt.dark)
		}
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
