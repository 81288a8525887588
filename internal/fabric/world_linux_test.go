package fabric

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/reach/reachtest"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// A lab is a fabric with a network namespace for each interface, in which something listens. It is kept from world to
// world, so Apply's changes are tested as well as its results.
type lab struct {
	testing.TB
	*Fabric
	hosts map[string]*namespace
	pods  map[string][]netlink.Route // in hosts
}

var testPorts = []uint16{22, 443, 1024, 50000}

func newLab(t testing.TB) *lab {
	t.Helper()
	f, err := Open()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
		needs.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{TB: t, Fabric: f, hosts: map[string]*namespace{}, pods: map[string][]netlink.Route{}}
	t.Cleanup(func() {
		for _, ns := range l.hosts {
			ns.close()
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	// A reply to a datagram comes from the address that the socket is bound to.
	for _, a := range []string{"3.5.0.9", "3.5.0.10", "198.51.100.4", "198.51.100.5", "[2001:db8::1]", "54.0.0.200", "54.1.0.200", "54.2.0.200"} {
		l.serve(f.outside, outsideID, a)
	}
	return l
}

// serve answers on the test's ports with the place's name.
func (l *lab) serve(ns *namespace, name, address string) {
	err := ns.do(func() error {
		lc := net.ListenConfig{Control: bind("")}
		for _, port := range testPorts {
			at := fmt.Sprintf("%s:%d", address, port)
			tcp, err := lc.Listen(l.Context(), "tcp", at)
			if err != nil {
				return err
			}
			l.Cleanup(func() { tcp.Close() })
			go func() {
				for {
					c, err := tcp.Accept()
					if err != nil {
						return
					}
					_, _ = io.WriteString(c, name)
					c.Close()
				}
			}()
			udp, err := lc.ListenPacket(l.Context(), "udp", at)
			if err != nil {
				return err
			}
			l.Cleanup(func() { udp.Close() })
			go func() {
				b := make([]byte, 64)
				for {
					_, from, err := udp.ReadFrom(b)
					if err != nil {
						return
					}
					_, _ = udp.WriteTo([]byte(name), from)
				}
			}()
		}
		return nil
	})
	if err != nil {
		l.Fatal(err)
	}
}

// build makes the fabric carry a network, with a host for each interface.
func (l *lab) build(s *reach.Snapshot) {
	l.Helper()
	st := Compile(s)
	st.Outside = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	if err := l.Apply(st); err != nil {
		l.Fatal(err)
	}
	for _, e := range st.Interfaces {
		if e.NAT || l.links[e.ID] != nil {
			continue
		}
		ns := l.hosts[e.ID]
		if ns == nil {
			var err error
			if ns, err = newNamespace(); err != nil {
				l.Fatal(err)
			}
			l.hosts[e.ID] = ns
			if err := errors.Join(up(ns.nl, "lo"), ns.do(func() error {
				return sysctl(map[string]string{
					"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0", "ipv6/conf/all/forwarding": "1",
					"ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0", "ipv6/conf/default/accept_dad": "0",
				})
			})); err != nil {
				l.Fatal(err)
			}
			l.serve(ns, e.ID, "[::]")
		}
		if err := l.Attach(e.ID, Attachment{Netns: ns.fd, Device: "eth0"}); err != nil {
			l.Fatal(err)
		}
	}
	for _, e := range st.Interfaces {
		if ns := l.hosts[e.ID]; ns != nil {
			l.answer(e, ns)
		}
	}
	for _, name := range []string{"track", "dropped", "inbound", "outbound"} {
		for _, f := range families {
			if l.nft.current[f].sets[name] != nil {
				l.nft.conn.FlushSet(&nftables.Set{Table: f.table, Name: name})
			}
		}
	}
	if err := l.nft.flush(); err != nil {
		l.Fatal(err)
	}
}

// answer makes a host accept packets to the addresses for its pods.
func (l *lab) answer(e Interface, ns *namespace) {
	for _, r := range l.pods[e.ID] {
		if err := ns.nl.RouteDel(&r); err != nil {
			l.Fatal(err)
		}
	}
	var routes []netlink.Route
	add := func(p netip.Prefix) {
		r := netlink.Route{LinkIndex: 1, Dst: ipNet(p), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST}
		if err := ns.nl.RouteReplace(&r); err != nil {
			l.Fatal(err)
		}
		routes = append(routes, r)
	}
	for _, p := range e.Prefixes {
		add(p)
	}
	for _, a := range e.Addresses {
		if own, _ := e.primary(false); a.Private.Is4() && a.Private != own {
			add(netip.PrefixFrom(a.Private, 32))
		}
	}
	l.pods[e.ID] = routes
}

// A question is a flow with its verdict and what happened.
type question struct {
	flow    reach.Flow
	from    string // interface, or empty for the internet
	source  netip.AddrPort
	to      netip.AddrPort
	verdict *reach.Verdict
	allowed bool // by the verdict and, if it is about a Service, by kube-proxy
	service bool
	end     string // where it should arrive
	reached string // where it arrived
	err     error
}

// try makes a connection.
func (l *lab) try(q *question, wait time.Duration) {
	ctx, cancel := context.WithTimeout(l.Context(), wait)
	defer cancel()
	q.reached, q.err = "", nil
	if !q.flow.Protocol.Ported() {
		q.reached, q.err = l.ping(q, wait)
		return
	}
	c, err := l.Dial(ctx, q.from, q.flow.Protocol.String(), q.source, q.to)
	if err != nil {
		q.err = err
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wait))
	b := make([]byte, 64)
	if q.flow.Protocol == reach.UDP {
		if _, q.err = c.Write([]byte("?")); q.err != nil {
			return
		}
		var n int
		n, q.err = c.Read(b)
		q.reached = string(b[:n])
		return
	}
	b, q.err = io.ReadAll(c)
	q.reached = string(b)
}

// ping sends an echo, whose identifier is the source's port.
func (l *lab) ping(q *question, wait time.Duration) (string, error) {
	ns, device, _, err := l.place(q.from, q.to.Addr().Is6())
	if err != nil {
		return "", err
	}
	network, request, reply := "ip4:icmp", byte(8), byte(0)
	if q.to.Addr().Is6() {
		network, request, reply = "ip6:ipv6-icmp", 128, 129
	}
	var c net.PacketConn
	if err := ns.do(func() (err error) {
		lc := net.ListenConfig{Control: bind(device)}
		c, err = lc.ListenPacket(l.Context(), network, q.source.Addr().String())
		return err
	}); err != nil {
		return "", err
	}
	defer c.Close()
	m := []byte{request, 0, 0, 0, 0, 0, 0, 1}
	binary.BigEndian.PutUint16(m[4:], q.source.Port())
	if q.to.Addr().Is4() { // the kernel computes ICMPv6's
		sum := uint32(request)<<8 + uint32(q.source.Port()) + 1
		binary.BigEndian.PutUint16(m[2:], ^uint16(sum+sum>>16))
	}
	if _, err := c.WriteTo(m, &net.IPAddr{IP: q.to.Addr().AsSlice()}); err != nil {
		return "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	b := make([]byte, 256)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return "", err
		}
		if n >= 8 && b[0] == reply && bytes.Equal(b[4:6], m[4:6]) && from.String() == q.to.Addr().String() {
			return q.end, nil // an echo does not say who answered
		}
	}
}

// ask makes questions about a world. Half of the answers are yes, if it has so many.
func ask(r *rand.Rand, w *reachtest.World, seed uint64, count int) []*question {
	st := Compile(w.Snapshot)
	var out []*question
	denied := 0
	for range 20 * count {
		if len(out) == count {
			break
		}
		q := &question{flow: reach.Flow{
			To: reach.Addr(reachtest.Pick(r, w.Destinations...)), Protocol: reachtest.Pick(r, reach.TCP, reach.TCP, reach.TCP, reach.UDP, reach.UDP, reach.ICMP),
			Port: reachtest.Pick(r, testPorts...),
		}}
		dst := q.flow.To.Address
		if q.flow.Protocol == reach.ICMP && dst.Is6() {
			q.flow.Protocol = reach.ICMPv6
		}
		port := uint16(32768 + (int(seed)*count+len(out))%28000)
		if slices.Contains(testPorts, port) {
			port-- // something listens there
		}
		client := reach.Client
		if r.IntN(10) < 8 {
			q.from = reachtest.Pick(r, w.Sources...)
			e := w.Get(q.from).(*reach.Interface)
			own, ok := st.find(q.from).primary(dst.Is6())
			if mine := st.find(q.from); !e.Attached || !ok || inAny(mine.Prefixes, dst) || slices.ContainsFunc(mine.Addresses, func(a Address) bool { return a.Private == dst }) {
				continue // there is no machine that could send this, or it never leaves the machine
			}
			client, q.flow.From = own, reach.At(q.from)
		} else {
			if dst.Is6() {
				client = netip.MustParseAddr("2001:db8::99")
			}
			q.flow.From = reach.Addr(client)
		}
		q.source, q.to = netip.AddrPortFrom(client, port), netip.AddrPortFrom(dst, q.flow.Port)
		if q.flow.Protocol.Ported() {
			q.flow.SourcePorts = reach.Ports{{From: port, To: port}}
		} else {
			q.flow.Port = 0
		}
		q.verdict = w.Check(q.flow)
		q.allowed = q.verdict.Reachable
		if q.flow.Protocol == reach.UDP && dst.Is4() && slices.Contains(reachtest.PodHosts, dst.As4()[3]) {
			continue // the machine answers a datagram from its primary address
		}
		if skip(w, q) || !q.verdict.Reachable && denied == count/2 {
			continue
		}
		if !q.verdict.Reachable {
			denied++
		}
		out = append(out, q)
	}
	return out
}

func (st *State) find(id string) *Interface {
	i := slices.IndexFunc(st.Interfaces, func(e Interface) bool { return e.ID == id })
	if i < 0 {
		return &Interface{}
	}
	return &st.Interfaces[i]
}

// skip finds where the flow should end, and reports whether the fabric cannot decide it.
func skip(w *reachtest.World, q *question) bool {
	translated := false
	for _, hops := range [][]reach.Hop{q.verdict.Forward, q.verdict.Return} {
		for _, h := range hops {
			translated = translated || h.Kind == reach.KindNATGateway || strings.Contains(h.Note, "NAT instance")
			// The verdict is about some port of the translator, and the translator chooses one.
			if translated && strings.HasPrefix(h.Note, "only ports") {
				return true
			}
		}
	}
	for _, h := range q.verdict.Forward {
		switch h.Kind {
		case reach.KindInterface:
			q.end = h.ID
		case reach.KindInternet:
			q.end = outsideID
		case reach.KindVPCEndpoint:
			if v, ok := w.Get(h.ID).(*reach.VPCEndpoint); ok && v.Type == reach.GatewayEndpoint {
				q.end = outsideID
			}
		}
	}
	return q.from == "" && q.end == outsideID && len(q.verdict.Forward) == 1 // from the internet to the internet
}

// translators makes instances translate what reach takes them to translate: what they forward to an internet gateway.
func (l *lab) translators(w *reachtest.World, questions []*question) {
	for id, ns := range l.hosts {
		e, ok := w.Get(id).(*reach.Interface)
		if !ok || !e.NoSourceDestCheck {
			continue
		}
		sn := l.state.Subnets[slices.IndexFunc(l.state.Subnets, func(sn Subnet) bool { return sn.ID == e.Subnet })]
		own := e.Addresses[0].Private
		seen := map[netip.Addr]bool{}
		if err := ns.rewrite(func(conn *nftables.Conn) {
			add := base(conn, "translate", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
			for _, q := range questions {
				dst := q.to.Addr()
				if seen[dst] || !dst.Is4() {
					continue
				}
				seen[dst] = true
				for _, x := range flatten(sn.Routes, false) {
					if x.from.Compare(dst) <= 0 && dst.Compare(x.to) <= 0 && x.Kind == Internet {
						v4 := families[0]
						add(v4.addr(1, v4.dst), &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: dst.AsSlice()},
							v4.addr(1, v4.src), &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: own.AsSlice()},
							value(1, own.AsSlice()), &expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1})
					}
				}
			}
		}); err != nil {
			l.Fatal(err)
		}
	}
}

// askServices makes questions about Services, from machines and from the internet, to cluster IPs and node ports.
func askServices(r *rand.Rand, w *reachtest.World, seed uint64) []*question {
	const count = 12
	var out []*question
	denied := 0
	for range 20 * count {
		if len(out) == count {
			break
		}
		s := reachtest.Pick(r, w.Services...)
		q := &question{flow: reach.Flow{Protocol: reach.TCP}, to: s.ClusterIP, service: true}
		port := uint16(60768 + (int(seed)*count+len(out))%4000) // not that of another question
		source := reach.Ports{{From: port, To: port}}
		from, client := reach.Addr(reach.Client), reach.Client
		if r.IntN(10) < 8 {
			e := w.Get(reachtest.Pick(r, w.Sources...)).(*reach.Interface)
			if !e.Attached || e.ID == s.On {
				continue // nothing is sent, or nothing leaves the machine
			}
			q.from, from, client = e.ID, reach.At(e.ID), e.Addresses[0].Private
		}
		node, at := "", netip.Addr{}
		if q.from == "" || r.IntN(2) == 0 {
			e := w.Get(reachtest.Pick(r, w.Sources...)).(*reach.Interface)
			if at = e.Addresses[0].Private; q.from == "" || r.IntN(4) == 0 {
				at = e.Addresses[0].Public
			}
			if !at.IsValid() || !e.Attached || e.ID == q.from {
				continue
			}
			node, q.to = e.ID, netip.AddrPortFrom(at, s.NodePort)
		}
		q.source = netip.AddrPortFrom(client, port)
		q.verdict, q.allowed = w.CheckService(s, from, node, at, source)
		if skip(w, q) || !q.allowed && denied == count/2 {
			continue
		}
		q.end = s.On
		if !q.allowed {
			denied++
		}
		out = append(out, q)
	}
	return out
}

// proxies does on every machine what kube-proxy does for the Services of a world.
func (l *lab) proxies(w *reachtest.World) {
	v4 := families[0]
	table := &nftables.Table{Name: "services", Family: nftables.TableFamilyIPv4}
	is := func(offset uint32, a netip.Addr) []expr.Any {
		return rule(v4.addr(1, offset), &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: a.AsSlice()})
	}
	for id, ns := range l.hosts {
		e, ok := w.Get(id).(*reach.Interface)
		if !ok {
			continue
		}
		conn, err := nftables.New(nftables.WithNetNSFd(ns.fd))
		if err != nil {
			l.Fatal(err)
		}
		conn.AddTable(table)
		conn.DelTable(table)
		conn.AddTable(table)
		chain := func(name string, hook *nftables.ChainHook, priority *nftables.ChainPriority) func(...any) {
			c := conn.AddChain(&nftables.Chain{Name: name, Table: table, Type: nftables.ChainTypeNAT, Hooknum: hook, Priority: priority})
			return func(parts ...any) { conn.AddRule(&nftables.Rule{Table: table, Chain: c, Exprs: rule(parts...)}) }
		}
		in := chain("in", nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
		out := chain("out", nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
		leave := chain("leave", nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
		const masquerade = 0x4000 // kube-proxy's mark
		own := e.Addresses[0].Private
		for _, s := range w.Services {
			port := func(n uint16) []expr.Any {
				return rule(protocolIs(unix.IPPROTO_TCP), transport(reg(0), 2, 2), &expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: u16(n)})
			}
			lead := rule(value(1, s.Endpoint.Addr().AsSlice()), value(2, u16(s.Endpoint.Port())),
				&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2})
			out(port(s.ClusterIP.Port()), is(v4.dst, s.ClusterIP.Addr()), lead)
			switch {
			case id == s.On:
				in(port(s.NodePort), is(v4.dst, own), lead)
			case s.Local:
				in(port(s.NodePort), is(v4.dst, own), drop)
			default:
				in(port(s.NodePort), is(v4.dst, own), setMark(0, masquerade), lead)
			}
		}
		leave(marked(expr.CmpOpEq, masquerade, masquerade), value(1, own.AsSlice()), &expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1})
		if err := conn.Flush(); err != nil {
			l.Fatal(err)
		}
	}
}

// TestPacketsAgainstVerdicts builds random networks and compares each verdict of package reach with a real connection.
// A connection that the verdict allows must reach the right place, and no other may be made. The networks have what
// package reachtest draws, with Services, for which every machine translates addresses as kube-proxy does. Not compared are flows from interfaces that are not attached, and flows through a translator
// whose choice of port decides.
//
// DRYDOCK_WORLDS sets the number of networks, and DRYDOCK_SEED the first.
func TestPacketsAgainstVerdicts(t *testing.T) {
	if !isolated(t) {
		return
	}
	worlds, first := 20, 0
	if n, err := strconv.Atoi(os.Getenv("DRYDOCK_WORLDS")); err == nil {
		worlds = n
	}
	if n, err := strconv.Atoi(os.Getenv("DRYDOCK_SEED")); err == nil {
		first = n
	}
	l := newLab(t)
	var allowed, denied, unexplained, wrong int
	services := map[bool]int{} // by whether they are reached
	kinds, reasons := map[string]int{}, map[Reason]int{}
	for seed := uint64(first); seed < uint64(first+worlds); seed++ {
		w := reachtest.Random(seed)
		questions := ask(rand.New(rand.NewPCG(seed, 9)), w, seed, 40)
		l.build(w.Snapshot)
		questions = append(questions, askServices(rand.New(rand.NewPCG(seed, 19)), w, seed)...)
		l.translators(w, questions)
		l.proxies(w)
		each := func(qs []*question, do func(*question)) {
			var wg sync.WaitGroup
			for _, q := range qs {
				wg.Go(func() { do(q) })
			}
			wg.Wait()
		}
		each(questions, func(q *question) {
			wait := 150 * time.Millisecond
			if q.allowed {
				wait = 3 * time.Second
			}
			l.try(q, wait)
		})
		drops, err := l.Drops()
		if err != nil {
			t.Fatal(err)
		}
		var again []*question
		for _, q := range questions {
			if q.allowed {
				continue
			}
			// Packets and their replies have the source's port, unless a translator chose another.
			i := slices.IndexFunc(drops, func(d Drop) bool {
				return d.Protocol == int(q.flow.Protocol) && (d.Source.Port() == q.source.Port() || d.Destination.Port() == q.source.Port())
			})
			if i < 0 {
				again = append(again, q)
				continue
			}
			reasons[drops[i].Reason]++
		}
		each(again, func(q *question) {
			if q.reached == "" {
				l.try(q, 300*time.Millisecond)
			}
		})
		unexplained += len(again)
		for _, q := range questions {
			if ok := q.reached != "" && q.reached == q.end; ok != q.allowed || q.reached != "" && !q.allowed {
				wrong++
				var lost []Drop
				for _, d := range drops {
					if d.Source.Port() == q.source.Port() || d.Destination.Port() == q.source.Port() {
						lost = append(lost, d)
					}
				}
				t.Errorf("seed %d: %s %s from %s (%s): reached %q (%v), drops %v, want %q\n%s", seed, q.flow.Protocol, q.to, q.from, q.source, q.reached, q.err, lost, q.end, q.verdict.Text())
				if wrong > 5 {
					t.FailNow()
				}
			}
			if q.service {
				services[q.allowed]++
			}
			if q.allowed {
				allowed++
				for _, h := range q.verdict.Forward {
					kinds[h.Kind]++
				}
			} else {
				denied++
			}
		}
	}
	t.Logf("%d connections, %d refusals (%d without a dropped packet); of these to Services: %d and %d\n%v\n%v", allowed, denied, unexplained, services[true], services[false], kinds, reasons)
}
