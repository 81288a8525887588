package fabric

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
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
	if err := l.AttachManaged("eni-lb"); err != nil {
		t.Fatal(err)
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
	for _, id := range []string{"eni-lb", "eni-a1", "eni-lb"} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		c, err := l.Dial(ctx, id, "tcp4", source, netip.MustParseAddrPort("10.0.0.11:7000"))
		if err != nil {
			t.Fatalf("from %s: %v", id, err)
		}
		b, err := io.ReadAll(c)
		if string(b) != source.String() {
			t.Errorf("from %s: the target sees %q (%v)", id, b, err)
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
		cancel()
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

	// Machines still have no addresses but their own.
	if got, err := l.Dial(t.Context(), "eni-a1", "udp4", netip.MustParseAddrPort("203.0.113.7:0"), netip.MustParseAddrPort("10.0.0.11:7000")); err == nil {
		defer got.Close()
		_ = got.SetDeadline(time.Now().Add(300 * time.Millisecond))
		_, _ = got.Write([]byte("?"))
		if n, _ := got.Read(make([]byte, 64)); n > 0 {
			t.Error("a machine has another's address")
		}
	}
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
