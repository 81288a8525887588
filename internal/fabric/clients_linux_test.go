package fabric

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A load balancer's interface connects to targets from clients' addresses. Targets see these, their groups decide by them or by
// the load balancer's groups, and replies come back, whoever has the address.
func TestClientsOfLoadBalancers(t *testing.T) {
	if !isolated(t) {
		return
	}
	l := newLab(t)
	balancer := netip.MustParseAddr("10.0.9.5")
	from := func(groups ...Rule) *State {
		st := twins()
		st.VPCs = append(st.VPCs, VPC{ID: "vpc-peer", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}})
		routes := append([]Route{{Destination: netip.MustParsePrefix("10.5.0.0/16"), Kind: Peering, Target: "vpc-peer"}}, st.Subnets[0].Routes...)
		back := []Route{{Destination: netip.MustParsePrefix("10.5.0.0/16"), Kind: Local}, {Destination: netip.MustParsePrefix("10.0.0.0/16"), Kind: Peering, Target: "vpc-1"}}
		st.Subnets = append(st.Subnets,
			Subnet{ID: "subnet-lb", VPC: "vpc-1", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.9.0/24")}, Routes: routes},
			Subnet{ID: "subnet-peer", VPC: "vpc-peer", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/24")}, Routes: back})
		st.Groups = append(st.Groups, Group{ID: "sg-target", Ingress: groups}, Group{ID: "sg-lb", Egress: openRules})
		for i := range st.Interfaces {
			if st.Interfaces[i].ID == "eni-b1" {
				st.Interfaces[i].Groups = []string{"sg-target"}
			}
		}
		st.Interfaces = append(st.Interfaces,
			Interface{ID: "eni-peer", VPC: "vpc-peer", Subnet: "subnet-peer", Groups: []string{"sg-target"}, Addresses: []Address{{Private: netip.MustParseAddr("10.5.0.10")}}})
		return st
	}
	withBalancer := func(st *State, subnet string) *State {
		st.Interfaces = append(st.Interfaces, Interface{ID: "eni-lb", VPC: "vpc-1", Subnet: subnet, Groups: []string{"sg-lb"}, Addresses: []Address{{Private: balancer}}})
		return st
	}
	clients := []netip.Prefix{netip.MustParsePrefix("10.0.0.10/32"), netip.MustParsePrefix("203.0.113.0/24")}
	forClients := Rule{Match: Match{Protocol: Any}, CIDRs: clients}
	l.machines(from(forClients))
	for _, target := range []string{"eni-b1", "eni-peer"} {
		l.see(l.hosts[target])
	}
	if err := l.Apply(withBalancer(from(forClients), "subnet-lb")); err != nil {
		t.Fatal(err)
	}
	rules := l.countRules(l.managed)
	if err := l.AttachManaged("eni-lb"); err != nil {
		t.Fatal(err)
	}
	if got := l.countRules(l.managed); got <= rules {
		t.Errorf("%d routing rules before, %d after an interface is attached", rules, got)
	}
	ask := func(network, client, to string, wait time.Duration) string {
		t.Helper()
		var source netip.AddrPort
		if client != "" {
			source = netip.AddrPortFrom(netip.MustParseAddr(client), 0)
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		c, err := l.Dial(ctx, "eni-lb", network, source, netip.MustParseAddrPort(to))
		if err != nil {
			return "nothing"
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(wait))
		_, _ = c.Write([]byte("?"))
		b := make([]byte, 64)
		n, err := c.Read(b)
		if n == 0 && err != nil {
			return "nothing"
		}
		seen, err := netip.ParseAddrPort(string(b[:n]))
		if err != nil {
			t.Fatal(err)
		}
		return seen.Addr().String()
	}
	expect := func(what, network, client, to, want string) {
		t.Helper()
		wait := 3 * time.Second
		if want == "nothing" {
			wait = 200 * time.Millisecond
		}
		if got := ask(network, client, to, wait); got != want {
			drops, _ := l.Drops()
			t.Errorf("%s: the target sees %s by %s, want %s; drops %v", what, got, network, want, drops)
		}
	}
	for _, network := range []string{"tcp4", "udp4"} {
		for range 3 {
			expect("a machine in the target's subnet", network, "10.0.0.10", "10.0.0.11:7000", "10.0.0.10")
			expect("a client on the internet", network, "203.0.113.7", "10.0.0.11:7000", "203.0.113.7")
			expect("a client on the internet, of a target in a peered VPC", network, "203.0.113.7", "10.5.0.10:7000", "203.0.113.7")
		}
		expect("another client", network, "198.51.100.1", "10.0.0.11:7000", "nothing")
		expect("the load balancer itself", network, "", "10.0.0.11:7000", "nothing")
		expect("the target itself", network, "10.0.0.11", "10.0.0.11:7000", "nothing")
	}

	// The client's own connections with the same ports come from the client, after the load balancer's, too.
	source := netip.MustParseAddrPort("10.0.0.10:40001")
	for _, network := range []string{"tcp4", "udp4"} {
		for _, id := range []string{"eni-lb", "eni-a1", "eni-lb"} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			c, err := l.Dial(ctx, id, network, source, netip.MustParseAddrPort("10.0.0.11:7000"))
			if err != nil {
				t.Fatalf("from %s by %s: %v", id, network, err)
			}
			_ = c.SetDeadline(time.Now().Add(2 * time.Second))
			tcp, ok := c.(*net.TCPConn)
			if !ok {
				_, _ = c.Write([]byte("?"))
			}
			b := make([]byte, 64)
			n, err := c.Read(b)
			if string(b[:n]) != source.String() {
				t.Errorf("from %s by %s: the target sees %q (%v)", id, network, b[:n], err)
			}
			if ok {
				_ = tcp.SetLinger(0)
			}
			_ = c.Close()
			cancel()
		}
	}

	// A rule for the load balancer's group lets all clients in.
	if err := l.Apply(withBalancer(from(Rule{Match: Match{Protocol: Any}, Group: "sg-lb"}), "subnet-lb")); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"tcp4", "udp4"} {
		expect("by the load balancer's group", network, "198.51.100.1", "10.0.0.11:7000", "198.51.100.1")
		expect("the load balancer itself, by its group", network, "", "10.0.0.11:7000", balancer.String())
	}

	// ACLs apply to replies to clients, on their way to the load balancer's subnet.
	filtered := withBalancer(from(forClients), "subnet-lb")
	all := func(c netip.Prefix, allow bool) Entry {
		return Entry{Match: Match{Protocol: Any}, Allow: allow, CIDR: c}
	}
	filtered.ACLs = []ACL{{ID: "acl-1", Ingress: []Entry{all(everywhere[0], true)}, Egress: []Entry{all(clients[1], false), all(everywhere[0], true)}}}
	filtered.Subnets[0].ACL = "acl-1"
	if err := l.Apply(filtered); err != nil {
		t.Fatal(err)
	}
	expect("a client that an ACL stops replies to", "tcp4", "203.0.113.7", "10.0.0.11:7000", "nothing")
	expect("a client that an ACL lets replies to", "tcp4", "10.0.0.10", "10.0.0.11:7000", "10.0.0.10")
	// They do not apply within a subnet.
	filtered.Interfaces[len(filtered.Interfaces)-1].Subnet = "subnet-1"
	if err := l.Apply(filtered); err != nil {
		t.Fatal(err)
	}
	expect("a client of a load balancer in the target's subnet", "tcp4", "203.0.113.7", "10.0.0.11:7000", "203.0.113.7")

	// A machine that is cut off sends nothing back either.
	near, far := l.hold(l.hosts["eni-b1"], "10.0.0.11:7001", netip.MustParseAddr("203.0.113.7"))
	set := func(down bool) {
		t.Helper()
		for i := range filtered.Interfaces {
			if filtered.Interfaces[i].ID == "eni-b1" {
				filtered.Interfaces[i].Down = down
			}
		}
		if err := l.Apply(filtered); err != nil {
			t.Fatal(err)
		}
	}
	set(true)
	if _, err := far.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	_ = near.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if n, err := near.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a machine that is cut off has sent %d bytes (%v)", n, err)
	}
	set(false)
	_ = near.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := near.Read(make([]byte, 1)); n != 1 {
		t.Errorf("a machine that was cut off sends nothing: %v", err)
	}

	// What is remembered is forgotten soon, unless TCP's keepalives say that the connection is still there.
	for _, e := range l.kept() {
		if e.Timeout <= 0 || e.Timeout > 180*time.Second {
			t.Errorf("a connection is remembered for %s", e.Timeout)
		}
	}
	raw, err := near.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	idle := 0
	if e := raw.Control(func(fd uintptr) { idle, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	if own := keptTimeouts[unix.IPPROTO_TCP]; time.Duration(idle)*time.Second > own/4 {
		t.Errorf("idle connections are remembered for %s, and send a keepalive after %d s", own, idle)
	}
	if err := near.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second}); err != nil {
		t.Fatal(err)
	}
	l.nft.conn.FlushSet(&nftables.Set{Table: families[0].table, Name: "kept"})
	if err := l.nft.flush(); err != nil {
		t.Fatal(err)
	}
	patience, tick := time.After(10*time.Second), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for len(l.kept()) == 0 {
		select {
		case <-tick.C:
		case <-patience:
			t.Fatal("a keepalive does not remember its connection")
		}
	}
	_ = near.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = far.Write([]byte("!"))
	if n, err := near.Read(make([]byte, 1)); n != 1 {
		t.Errorf("after a keepalive, the target sends nothing: %v", err)
	}
	_ = near.Close()

	// Machines still have no addresses but their own.
	if got, err := l.Dial(t.Context(), "eni-a1", "udp4", netip.MustParseAddrPort("203.0.113.7:0"), netip.MustParseAddrPort("10.0.0.11:7000")); err == nil {
		defer got.Close()
		_ = got.SetDeadline(time.Now().Add(300 * time.Millisecond))
		_, _ = got.Write([]byte("?"))
		if n, _ := got.Read(make([]byte, 64)); n > 0 {
			t.Error("a machine has another's address")
		}
	}

	// Nothing of an interface stays.
	if err := l.Detach("eni-lb"); err != nil {
		t.Fatal(err)
	}
	if got := l.countRules(l.managed); got != rules {
		t.Errorf("%d routing rules before, %d after an interface was attached", rules, got)
	}
}

// hold makes a connection from eni-lb, with a client's address, to a machine, which holds it.
func (l *lab) hold(ns *namespace, at string, client netip.Addr) (near *net.TCPConn, far net.Conn) {
	l.Helper()
	var tcp net.Listener
	if err := ns.do(func() (err error) {
		tcp, err = net.Listen("tcp4", at)
		return err
	}); err != nil {
		l.Fatal(err)
	}
	defer tcp.Close()
	ctx, cancel := context.WithTimeout(l.Context(), 5*time.Second)
	defer cancel()
	c, err := l.Dial(ctx, "eni-lb", "tcp4", netip.AddrPortFrom(client, 0), netip.MustParseAddrPort(at))
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { c.Close() })
	_ = tcp.(*net.TCPListener).SetDeadline(time.Now().Add(5 * time.Second))
	if far, err = tcp.Accept(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { far.Close() })
	return c.(*net.TCPConn), far
}

// kept returns the connections from clients' addresses that the fabric remembers.
func (l *lab) kept() []nftables.SetElement {
	l.Helper()
	out, err := l.nft.conn.GetSetElements(&nftables.Set{Table: families[0].table, Name: "kept"})
	if err != nil {
		l.Fatal(err)
	}
	return out
}

func (l *lab) countRules(ns *namespace) int {
	l.Helper()
	all, err := ns.nl.RuleList(netlink.FAMILY_V4)
	if err != nil {
		l.Fatal(err)
	}
	return len(all)
}

// see answers at port 7000 with the address and port that the client has.
func (l *lab) see(ns *namespace) {
	l.Helper()
	err := ns.do(func() error {
		tcp, err := net.Listen("tcp4", "0.0.0.0:7000")
		if err != nil {
			return err
		}
		l.Cleanup(func() { tcp.Close() })
		go func() {
			for c, err := tcp.Accept(); err == nil; c, err = tcp.Accept() {
				_, _ = io.WriteString(c, c.RemoteAddr().String())
				_ = c.Close()
			}
		}()
		udp, err := net.ListenPacket("udp4", "0.0.0.0:7000")
		if err != nil {
			return err
		}
		l.Cleanup(func() { udp.Close() })
		go func() {
			b := make([]byte, 64)
			for _, from, err := udp.ReadFrom(b); err == nil; _, from, err = udp.ReadFrom(b) {
				_, _ = udp.WriteTo([]byte(from.String()), from)
			}
		}()
		return nil
	})
	if err != nil {
		l.Fatal(err)
	}
}
