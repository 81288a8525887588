package compute

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/fabric"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/reach/reachtest"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

var guestAll = netip.MustParsePrefix("0.0.0.0/0")

// guestEverything is a security group that lets everything out and, in, what the rules allow.
func guestEverything(id string, rules ...reach.Rule) *reach.SecurityGroup {
	out := reach.Rule{ID: "sgr-" + id, Egress: true, Protocol: reach.AllProtocols, CIDR: guestAll}
	return &reach.SecurityGroup{ID: id, VPC: "vpc-1", Rules: append(rules, out)}
}

func guestRule(port uint16, from string) reach.Rule {
	r := reach.Rule{ID: "sgr-" + from, Protocol: reach.TCP, Ports: reach.PortRange{From: port, To: port}}
	if strings.HasPrefix(from, "sg-") {
		r.Group = from
	} else {
		r.CIDR = netip.MustParsePrefix(from)
	}
	return r
}

// guestAt is the interface of an instance with the same number.
func guestAt(number int, address, group string) *reach.Interface {
	return &reach.Interface{
		ID: fmt.Sprintf("eni-%d", number), VPC: "vpc-1", Subnet: "subnet-1", Zone: "us-east-1a", Instance: fmt.Sprintf("i-%d", number),
		Attached: true, Primary: true, Groups: []string{group}, Addresses: []reach.Address{{Private: netip.MustParseAddr(address)}},
	}
}

// boxesOf are instances of the first VPC that run containers.
func boxesOf(ids ...string) map[string]machine.Instance {
	out := map[string]machine.Instance{}
	for _, id := range ids {
		out[id] = machine.Instance{Account: "000000000000", Region: "us-east-1", ID: id, VPCID: "vpc-1"}
	}
	return out
}

// guestsFor is the network of machines that run containers, and where each may connect to simulated machines.
func guestsFor(t testing.TB, s *reach.Snapshot, boxes map[string]machine.Instance) (*boxNetwork, map[string]map[guestPort]bool) {
	n := &boxNetwork{
		machines: &Machines{network: newGuestNetwork(func(context.Context, string, string) (*reach.Snapshot, error) { return s, nil }, 0, clocks.RealClock{})},
		boxes:    map[string]*boxLinks{}, answers: newBoxAnswers(), log: testlog.New(t),
	}
	return n, n.answers.addGuests(n.guestsOf(s, fabric.Compile(s), boxes), boxes)
}

func addressPorts(all ...string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, s := range all {
		out = append(out, netip.MustParseAddrPort(s))
	}
	return out
}

// Simulated machines answer at the ports of sshd and the kubelet, and are dark where the network drops packets to them.
func TestGuestsAnswerBoxes(t *testing.T) {
	boxes := boxesOf("i-1", "i-4")
	for _, tt := range []struct {
		name    string
		rules   []reach.Rule
		answers []netip.AddrPort
		dark    []netip.AddrPort // to i-1
		dark4   []netip.AddrPort // to i-4, which has another group
	}{
		{"no rules", nil, nil, nil, nil},
		{"ssh", []reach.Rule{guestRule(22, "0.0.0.0/0")}, addressPorts("10.0.0.6:22"), nil, nil},
		{"all", []reach.Rule{guestRule(22, "0.0.0.0/0"), guestRule(10250, "0.0.0.0/0")}, addressPorts("10.0.0.6:22", "10.0.0.6:10250"), nil, nil},
		{"ssh for one group", []reach.Rule{guestRule(22, "sg-4"), guestRule(10250, "0.0.0.0/0")}, addressPorts("10.0.0.6:22", "10.0.0.6:10250"), addressPorts("10.0.0.6:22"), nil},
		{"ssh for one address", []reach.Rule{guestRule(22, "10.0.0.5/32")}, addressPorts("10.0.0.6:22"), nil, addressPorts("10.0.0.6:22")},
	} {
		guest := guestAt(2, "10.0.0.6", "sg-2")
		guest.Addresses = append(guest.Addresses, reach.Address{Private: netip.MustParseAddr("10.0.0.60")}) // a pod's
		s := edited(guestWorld(), guestEverything("sg-1"), guestEverything("sg-2", tt.rules...), guestEverything("sg-4"),
			&reach.Instance{ID: "i-2"}, guest, &reach.Instance{ID: "i-4"}, guestAt(4, "10.0.0.8", "sg-4"))
		n, open := guestsFor(t, s, boxes)
		if got := n.answers.in("vpc-1"); !slices.Equal(got, tt.answers) {
			t.Errorf("%s: the network answers at %v, want %v", tt.name, got, tt.answers)
		}
		if got := n.answers.in("vpc-2"); len(got) > 0 {
			t.Errorf("%s: the network answers in another VPC at %v", tt.name, got)
		}
		for id, want := range map[string][]netip.AddrPort{"i-1": tt.dark, "i-4": tt.dark4} {
			if got := n.dark(t.Context(), s, boxes[id], open[id]); !slices.Equal(got, want) {
				t.Errorf("%s: dark to %s are %v, want %v", tt.name, id, got, want)
			}
		}
	}
}

// A VPC has the simulated machines of VPCs that its routes lead to, and only if the network lets packets through.
func TestGuestsOfConnectedVPCs(t *testing.T) {
	prefix := netip.MustParsePrefix
	vpc := func(id, account, cidr, subnet string, routes ...reach.Route) []reach.Resource {
		routes = append(routes, reach.Route{Destination: prefix(cidr), Target: reach.Local})
		return []reach.Resource{
			&reach.VPC{ID: id, Account: account, CIDRs: []netip.Prefix{prefix(cidr)}},
			&reach.Subnet{ID: "subnet-of-" + id, VPC: id, Zone: "us-east-1a", CIDRs: []netip.Prefix{prefix(subnet)}},
			&reach.RouteTable{ID: "rtb-of-" + id, VPC: id, Main: true, Routes: routes},
		}
	}
	guest := func(number int, vpc, address string) []reach.Resource {
		e := guestAt(number, address, fmt.Sprintf("sg-%d", number))
		e.VPC, e.Subnet = vpc, "subnet-of-"+vpc
		g := guestEverything(e.Groups[0], guestRule(22, "0.0.0.0/0"))
		g.VPC = vpc
		return []reach.Resource{&reach.Instance{ID: e.Instance}, e, g}
	}
	back := reach.Route{Destination: prefix("10.0.0.0/16"), Target: "pcx-2"}
	s := edited(guestWorld(), slices.Concat(
		[]reach.Resource{guestEverything("sg-1"), &reach.RouteTable{ID: "rtb-1", VPC: "vpc-1", Main: true, Routes: []reach.Route{
			{Destination: prefix("10.0.0.0/16"), Target: reach.Local}, {Destination: prefix("10.2.0.0/16"), Target: "pcx-2"}, {Destination: guestAll, Target: "igw-1"},
		}}},
		vpc("vpc-2", "222222222222", "10.2.0.0/16", "10.2.0.0/24", back, reach.Route{Destination: prefix("10.3.0.0/16"), Target: "pcx-3"}),
		vpc("vpc-3", "222222222222", "10.3.0.0/16", "10.3.0.0/24", reach.Route{Destination: prefix("10.2.0.0/16"), Target: "pcx-3"}),
		vpc("vpc-4", "222222222222", "10.0.0.0/16", "10.0.0.0/24"),
		[]reach.Resource{
			&reach.Peering{ID: "pcx-2", State: "active", Requester: reach.PeeringSide{VPC: "vpc-1"}, Accepter: reach.PeeringSide{VPC: "vpc-2"}},
			&reach.Peering{ID: "pcx-3", State: "active", Requester: reach.PeeringSide{VPC: "vpc-2"}, Accepter: reach.PeeringSide{VPC: "vpc-3"}},
		},
		guest(2, "vpc-2", "10.2.0.6"),
		guest(3, "vpc-3", "10.3.0.6"), // peered with a peer
		guest(4, "vpc-4", "10.0.0.6"), // of the same range, but not connected
	)...)
	n, _ := guestsFor(t, s, boxesOf("i-1"))
	if got, want := n.answers.in("vpc-1"), addressPorts("10.2.0.6:22"); !slices.Equal(got, want) {
		t.Errorf("the network answers at %v, want %v", got, want)
	}
	// With a public address, all are reached through internet gateways.
	public := *s.Get("eni-4").(*reach.Interface)
	public.Addresses = []reach.Address{{Private: netip.MustParseAddr("10.0.0.6"), Public: netip.MustParseAddr("54.0.0.6")}}
	s = edited(s, &public, &reach.InternetGateway{ID: "igw-4", VPC: "vpc-4"}, &reach.RouteTable{ID: "rtb-of-vpc-4", VPC: "vpc-4", Main: true, Routes: []reach.Route{
		{Destination: prefix("10.0.0.0/16"), Target: reach.Local}, {Destination: guestAll, Target: "igw-4"},
	}})
	n, _ = guestsFor(t, s, boxesOf("i-1"))
	if got, want := n.answers.in("vpc-1"), addressPorts("10.2.0.6:22", "54.0.0.6:22"); !slices.Equal(got, want) {
		t.Errorf("with an internet gateway, the network answers at %v, want %v", got, want)
	}
}

// The ranges of two peers overlap, and routes lead to one of them.
func TestGuestsOfOverlappingVPCs(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, way := range []string{"pcx-2", "pcx-3"} {
		all := []reach.Resource{guestEverything("sg-1"), &reach.RouteTable{ID: "rtb-1", VPC: "vpc-1", Main: true, Routes: []reach.Route{
			{Destination: prefix("10.0.0.0/16"), Target: reach.Local}, {Destination: prefix("10.9.0.0/24"), Target: way},
			{Destination: prefix("10.2.0.0/16"), Target: "pcx-2"}, {Destination: prefix("10.3.0.0/16"), Target: "pcx-3"},
		}}}
		for i, vpc := range []string{"vpc-2", "vpc-3"} {
			cidr := prefix(fmt.Sprintf("10.%d.0.0/16", i+2))
			peering := fmt.Sprintf("pcx-%d", i+2)
			e := guestAt(i+2, "10.9.0.6", fmt.Sprintf("sg-%d", i+2))
			e.VPC, e.Subnet = vpc, "subnet-of-"+vpc
			g := guestEverything(e.Groups[0], guestRule(22, "0.0.0.0/0"))
			g.VPC = vpc
			all = append(all, e, g, &reach.Instance{ID: e.Instance},
				&reach.VPC{ID: vpc, CIDRs: []netip.Prefix{cidr, prefix("10.9.0.0/16")}},
				&reach.Subnet{ID: e.Subnet, VPC: vpc, Zone: "us-east-1a", CIDRs: []netip.Prefix{prefix("10.9.0.0/24")}},
				&reach.RouteTable{ID: "rtb-of-" + vpc, VPC: vpc, Main: true, Routes: []reach.Route{
					{Destination: cidr, Target: reach.Local}, {Destination: prefix("10.9.0.0/16"), Target: reach.Local}, {Destination: prefix("10.0.0.0/16"), Target: peering},
				}},
				&reach.Peering{ID: peering, State: "active", Requester: reach.PeeringSide{VPC: "vpc-1"}, Accepter: reach.PeeringSide{VPC: vpc}})
		}
		boxes := boxesOf("i-1")
		n, open := guestsFor(t, edited(guestWorld(), all...), boxes)
		if got, want := n.answers.in("vpc-1"), addressPorts("10.9.0.6:22"); !slices.Equal(got, want) {
			t.Errorf("by %s: the network answers at %v, want %v", way, got, want)
		}
		if got := n.dark(t.Context(), edited(guestWorld(), all...), boxes["i-1"], open["i-1"]); len(got) > 0 {
			t.Errorf("by %s: %v are dark", way, got)
		}
	}
}

// Each account has its own bound of simulated machines. The set is always the same, and that there are more is said once.
func TestGuestsAreBounded(t *testing.T) {
	d := edited(guestWorld(), guestEverything("sg-1"), guestEverything("sg-2", guestRule(22, "0.0.0.0/0"))).Edit()
	d.Put(&reach.VPC{ID: "vpc-2", Account: "222222222222", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}})
	for i := range maxGuests + 50 {
		for vpc, id := range map[string]string{"vpc-1": "eni-a", "vpc-2": "eni-0"} { // the other account's come first
			e := guestAt(2, fmt.Sprintf("10.0.%d.%d", 1+i/200, 1+i%200), "sg-2")
			e.ID, e.VPC, e.Instance = fmt.Sprintf("%s%04d", id, i), vpc, fmt.Sprintf("%s%04d", strings.Replace(id, "eni", "i", 1), i)
			d.Put(e)
			d.Put(&reach.Instance{ID: e.Instance})
		}
	}
	s := d.Snapshot()
	var log bytes.Buffer
	n := &boxNetwork{log: slog.New(slog.NewTextHandler(&log, nil))}
	var want []netip.AddrPort
	for i := range maxGuests {
		want = append(want, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(1 + i/200), byte(1 + i%200)}), 22))
	}
	for range 2 {
		n.answers = newBoxAnswers()
		n.answers.addGuests(n.guestsOf(s, fabric.Compile(s), boxesOf("i-1")), boxesOf("i-1"))
		if got := n.answers.in("vpc-1"); !slices.Equal(got, want) {
			t.Errorf("the network answers at %d addresses up to %v, want %d up to %v", len(got), got[len(got)-1], len(want), want[len(want)-1])
		}
	}
	if got := strings.Count(log.String(), "only some simulated instances"); got != 1 {
		t.Errorf("the bound was logged %d times:\n%s", got, &log)
	}
}

// What is decided for a class of simulated machines is what the network decides for each of them.
func TestGuestClasses(t *testing.T) {
	asked, reachable, checks := 0, 0, 0
	for seed := range uint64(60) {
		w := reachtest.Random(seed)
		s := crowded(w)
		g := newBoxGuests(s, fabric.Compile(s), nil)
		for _, source := range w.Sources {
			from := s.Get(source).(*reach.Interface)
			if from.Instance == "" {
				continue
			}
			got := g.open(machine.Instance{ID: from.Instance, VPCID: from.VPC})
			classes := map[int]bool{}
			for _, to := range slices.Concat(slices.Concat(slices.Collect(maps.Values(g.private))...), g.public) {
				if to.eni.ID == source {
					continue // it is the machine itself
				}
				classes[to.class] = true
				for _, port := range guestPorts {
					v := s.Check(reach.Flow{From: reach.At(from.Instance), To: reach.Addr(to.at), Protocol: reach.TCP, Port: port})
					asked++
					if v.Reachable {
						reachable++
					}
					if got[guestPort{to.class, port}] != v.Reachable {
						t.Fatalf("seed %d: %s to %s at %s: open %v, want %v\n%s", seed, source, to.eni.ID, to.at, !v.Reachable, v.Reachable, v.Text())
					}
				}
			}
			checks += len(classes) * len(guestPorts)
		}
	}
	t.Logf("%d of %d flows can be made; their classes are %d", reachable, asked, checks)
	if reachable < asked/20 || checks > asked*2/3 {
		t.Errorf("%d of %d flows can be made, and their classes are %d: this tells nothing", reachable, asked, checks)
	}
}

// crowded is a random network with more instances beside each, and rules for single addresses.
func crowded(w *reachtest.World) *reach.Snapshot {
	d := w.Edit()
	for r := range w.All {
		switch r := r.(type) {
		case *reach.Interface:
			if r.Instance == "" || len(r.Addresses) == 0 {
				continue
			}
			for i := range byte(4) {
				e, at := *r, func(a netip.Addr) netip.Addr {
					b := a.As4()
					b[3] += 100 + 10*i
					return netip.AddrFrom4(b)
				}
				e.ID, e.Instance, e.Prefixes = fmt.Sprintf("%s%d", r.ID, i), fmt.Sprintf("%s%d", r.Instance, i), nil
				e.Addresses = []reach.Address{{Private: at(r.Addresses[0].Private)}}
				if p := r.Addresses[0].Public; p.IsValid() {
					e.Addresses[0].Public = at(p)
				}
				d.Put(&e)
				in := *w.Get(r.Instance).(*reach.Instance)
				if in.ID = e.Instance; i == 3 {
					in.State = "stopped"
				}
				d.Put(&in)
			}
		case *reach.ACL:
			if len(r.Entries) > 1 {
				a := *r
				a.Entries = append([]reach.Entry{{Number: 1, Protocol: reach.TCP, Ports: reach.PortRange{To: 65535}, CIDR: netip.MustParsePrefix("10.0.0.120/32")},
					{Number: 2, Egress: true, Protocol: reach.TCP, Ports: reach.PortRange{To: 65535}, CIDR: netip.MustParsePrefix("10.1.1.120/30")}}, r.Entries...)
				d.Put(&a)
			}
		case *reach.SecurityGroup:
			g := *r
			g.Rules = append(slices.Clone(r.Rules), guestRule(22, "54.0.1.121/32"), reach.Rule{Egress: true, Protocol: reach.TCP, Ports: reach.PortRange{To: 65535}, CIDR: netip.MustParsePrefix("10.0.2.131/32")})
			d.Put(&g)
		}
	}
	d.Put(&reach.RouteTable{ID: "rtb-igw", VPC: "vpc-0", Gateways: []string{"igw-0"}, Routes: []reach.Route{
		{Destination: netip.MustParsePrefix("10.0.0.0/16"), Target: reach.Local}, {Destination: netip.MustParsePrefix("10.0.1.120/30"), Target: "eni-02b"},
	}})
	return d.Snapshot()
}

// A connection to a simulated machine leads there, although its address was resolved from a name that others have, too.
func TestGuestsThatShareAName(t *testing.T) {
	const name = "nodes.example.internal"
	s := edited(guestWorld(), guestEverything("sg-1"), guestEverything("sg-2", reach.Rule{ID: "sgr-2", Protocol: reach.AllProtocols, CIDR: guestAll}), guestEverything("sg-3", guestRule(22, "0.0.0.0/0")),
		&reach.VPC{ID: "vpc-1", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}, DNSSupport: true, DNSHostnames: true},
		&reach.HostedZone{ID: "Z1", Name: "example.internal", VPCs: []string{"vpc-1"}, Records: map[string]reach.Record{
			name: {Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.6"), netip.MustParseAddr("10.0.0.7")}},
		}},
		&reach.Instance{ID: "i-2"}, guestAt(2, "10.0.0.6", "sg-2"), &reach.Instance{ID: "i-3"}, guestAt(3, "10.0.0.7", "sg-3"))
	boxes := boxesOf("i-1")
	n, open := guestsFor(t, s, boxes)
	m := n.machines
	m.cfg.ControlPlanes, m.runtime = noPlanes{}, namedMachines{}
	n.guests = &guests{machines: m}
	n.boxes["i-1"] = &boxLinks{vpc: "vpc-1", names: map[netip.Addr]string{netip.MustParseAddr("10.0.0.6"): name, netip.MustParseAddr("10.0.0.7"): name}}
	if v := s.CheckName(reach.Flow{From: reach.At("i-1"), Protocol: reach.TCP, Port: 22}, name); v.Destination.String() != "10.0.0.6" {
		t.Fatalf("the name leads to %s", v.Destination)
	}
	for to, want := range map[string]string{"10.0.0.6:22": "i-2", "10.0.0.7:22": "i-3"} {
		ours, theirs := net.Pipe()
		go n.lead(&boxConn{Conn: connAt{theirs, netip.MustParseAddrPort(to)}, in: boxes["i-1"], close: func() {}}, nil)
		if got, err := io.ReadAll(ours); err != nil || string(got) != want {
			t.Errorf("at %s, %q answers, want %s (%v)", to, got, want, err)
		}
	}
	// A connection to the address alone does not forget the name.
	n.learn(t.Context(), boxes["i-1"], "10.0.0.6", netip.MustParseAddr("10.0.0.6"))
	if got := n.boxes["i-1"].names[netip.MustParseAddr("10.0.0.6")]; got != name {
		t.Errorf("the address is that of %s, want %s", got, name)
	}
	// The first of the name's addresses lets these ports in, the second does not.
	if got, want := n.dark(t.Context(), s, boxes["i-1"], open["i-1"]), addressPorts("10.0.0.7:80", "10.0.0.7:443"); !slices.Equal(got, want) {
		t.Errorf("dark are %v, want %v", got, want)
	}
}

// connAt is a connection to an address.
type connAt struct {
	net.Conn
	at netip.AddrPort
}

func (c connAt) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.at) }

type noPlanes struct{ ControlPlanes }

func (noPlanes) ByHost(string) (controlplane.Plane, bool)     { return controlplane.Plane{}, false }
func (noPlanes) ByEndpoint(string) (controlplane.Plane, bool) { return controlplane.Plane{}, false }
func (noPlanes) Planes() []controlplane.Plane                 { return nil }

// namedMachines answer with their IDs.
type namedMachines struct{ machine.Runtime }

func (namedMachines) Machine(id string) (machine.Machine, bool) { return namedMachine{id: id}, true }

type namedMachine struct {
	machine.Machine
	id string
}

func (m namedMachine) Dial(context.Context, string, int) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = io.WriteString(theirs, m.id)
		_ = theirs.Close()
	}()
	return ours, nil
}
