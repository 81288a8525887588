package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var (
	everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	openRules  = []Rule{{Match: Match{Protocol: Any}, CIDRs: everywhere}}
)

// twins are VPCs with the same range, each with two interfaces of the same addresses that may do everything.
func twins() *State {
	st := &State{Groups: []Group{{ID: "sg-open", Ingress: openRules, Egress: openRules}}}
	for _, n := range []string{"1", "2"} {
		st.VPCs = append(st.VPCs, VPC{ID: "vpc-" + n, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")},
			Services: []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("10.0.0.2")}})
		st.Subnets = append(st.Subnets, Subnet{ID: "subnet-" + n, VPC: "vpc-" + n, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
			Routes: []Route{{Destination: netip.MustParsePrefix("10.0.0.0/16"), Kind: Local}}})
		for i, name := range []string{"a", "b"} {
			st.Interfaces = append(st.Interfaces, Interface{
				ID: "eni-" + name + n, VPC: "vpc-" + n, Subnet: "subnet-" + n, Groups: []string{"sg-open"},
				Addresses: []Address{{Private: netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + i)})}, {Private: netip.AddrFrom4([4]byte{10, 0, 0, byte(20 + i)})}},
				Prefixes:  []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(64 + 16*i)}), 28)},
			})
		}
	}
	return st
}

// machines attaches every interface to a namespace that answers.
func (l *lab) machines(st *State) {
	l.Helper()
	if err := l.Apply(st); err != nil {
		l.Fatal(err)
	}
	for _, e := range st.Interfaces {
		ns, err := newNamespace()
		if err != nil {
			l.Fatal(err)
		}
		l.hosts[e.ID] = ns
		if err := up(ns.nl, "lo"); err != nil {
			l.Fatal(err)
		}
		if err := l.Attach(e.ID, Attachment{Netns: ns.fd, Device: "eth0"}); err != nil {
			l.Fatal(err)
		}
		l.serve(ns, e.ID, "0.0.0.0")
	}
}

// get connects and returns who answers.
func (l *lab) get(from, to string) (string, error) {
	ctx, cancel := context.WithTimeout(l.Context(), time.Second)
	defer cancel()
	c, err := l.Dial(ctx, from, "tcp4", netip.AddrPort{}, netip.MustParseAddrPort(to))
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	return string(b), err
}

func (l *lab) expect(from, to, want string) {
	l.Helper()
	if got, err := l.get(from, to); got != want {
		drops, _ := l.Drops()
		l.Errorf("%s reaches %q at %s (%v), want %q; drops %v", from, got, to, err, want, drops)
	}
}

func TestVPCsWithTheSameRange(t *testing.T) {
	if !isolated(t) {
		return
	}
	l := newLab(t)
	st := twins()
	l.machines(st)
	for _, n := range []string{"1", "2"} {
		l.expect("eni-a"+n, "10.0.0.11:443", "eni-b"+n)
		l.expect("eni-b"+n, "10.0.0.10:443", "eni-a"+n)
	}

	// Pods with a secondary address and with one of a prefix.
	for i, address := range []string{"10.0.0.21", "10.0.0.81"} {
		pod, err := newNamespace()
		if err != nil {
			t.Fatal(err)
		}
		defer pod.close()
		p := Pod{Netns: pod.fd, Address: netip.MustParseAddr(address), HostDevice: fmt.Sprint("pod", i)}
		for range 2 {
			if err := l.hosts["eni-b1"].do(func() error { return AddPod(p) }); err != nil {
				t.Fatal(err)
			}
		}
		l.serve(pod, address, "0.0.0.0")
		l.expect("eni-a1", address+":443", address)
		if got, err := l.get("eni-a2", address+":443"); got != "" || err == nil {
			t.Errorf("a pod is reached from another VPC")
		}
		for _, x := range []struct {
			ns *namespace
			to string
		}{{pod, "10.0.0.10:443"}, {pod, "10.0.0.11:443"}, {l.hosts["eni-b1"], address + ":443"}} {
			if err := x.ns.do(func() error {
				c, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp4", x.to)
				if err == nil {
					c.Close()
				}
				return err
			}); err != nil {
				t.Errorf("between a pod and machines: %v", err)
			}
		}
		if err := l.hosts["eni-b1"].do(func() error { return DeletePod(p) }); err != nil {
			t.Error(err)
		}
	}

	// A rule that goes ends what is new, but not what is established.
	c, err := l.Dial(t.Context(), "eni-a1", "udp4", netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.11:443"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func() error {
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err := c.Write([]byte("?")); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 10))
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	closed := twins()
	closed.Groups[0].Ingress = []Rule{{Match: Match{Protocol: unix.IPPROTO_UDP, From: 1, To: 2}, CIDRs: everywhere}}
	closed.Interfaces[0].Groups = []string{"sg-open"}
	if err := l.Apply(closed); err != nil {
		t.Fatal(err)
	}
	if _, err := l.get("eni-a1", "10.0.0.11:443"); err == nil {
		t.Error("a new connection passes without a rule")
	}

	// Detached, it is gone from its namespace, and may come back.
	if err := l.Apply(st); err != nil {
		t.Fatal(err)
	}
	if err := l.Detach("eni-b1"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.hosts["eni-b1"].nl.LinkByName("eth0"); err == nil {
		t.Error("a detached interface still has its device")
	}
	if err := l.Attach("eni-b1", Attachment{Netns: l.hosts["eni-b1"].fd, Device: "eth0"}); err != nil {
		t.Fatal(err)
	}
	l.expect("eni-a1", "10.0.0.11:443", "eni-b1")
}

// Security groups of a connection that was not open to all addresses remember it.
// With custom networking, a machine has an interface for pods in another subnet, with other groups. Packets of pods leave by it, and
// those of the machine itself do not, even to that subnet.
func TestAnInterfaceForPods(t *testing.T) {
	if !isolated(t) {
		return
	}
	l := newLab(t)
	st := twins()
	tcp := Match{Protocol: unix.IPPROTO_TCP, From: 443, To: 443}
	st.Subnets = append(st.Subnets, Subnet{ID: "subnet-pods", VPC: "vpc-1", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")}, Routes: st.Subnets[0].Routes})
	st.Groups = append(st.Groups, Group{ID: "sg-pods", Egress: openRules}, Group{ID: "sg-far", Ingress: []Rule{{Match: tcp, Group: "sg-open"}}, Egress: openRules})
	st.Interfaces = append(st.Interfaces, Interface{ID: "eni-far", VPC: "vpc-1", Subnet: "subnet-pods", Groups: []string{"sg-far"}, Addresses: []Address{{Private: netip.MustParseAddr("10.0.1.20")}}})
	l.machines(st)
	more := *st
	more.Interfaces = append(slices.Clone(st.Interfaces), Interface{
		ID: "eni-pods", VPC: "vpc-1", Subnet: "subnet-pods", Groups: []string{"sg-pods"},
		Addresses: []Address{{Private: netip.MustParseAddr("10.0.1.10")}, {Private: netip.MustParseAddr("10.0.1.11")}},
	})
	if err := l.Apply(&more); err != nil {
		t.Fatal(err)
	}
	host := l.hosts["eni-a1"]
	if err := l.Attach("eni-pods", Attachment{Netns: host.fd, Device: "eth1", Secondary: true}); err != nil {
		t.Fatal(err)
	}
	pod, err := newNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer pod.close()
	p := Pod{Netns: pod.fd, Address: netip.MustParseAddr("10.0.1.11"), HostDevice: "pod1", Interface: "eth1"}
	if err := host.do(func() error { return AddPod(p) }); err != nil {
		t.Fatal(err)
	}
	reaches := func(who string, ns *namespace, want bool) {
		t.Helper()
		err := ns.do(func() error {
			c, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp4", "10.0.1.20:443")
			if err == nil {
				c.Close()
			}
			return err
		})
		if (err == nil) != want {
			drops, _ := l.Drops()
			t.Errorf("from %s: %v; drops %v", who, err, drops)
		}
	}
	reaches("the machine, whose group may", host, true)
	reaches("the pod, whose group may not", pod, false)
	allowed := more
	allowed.Groups = slices.Clone(more.Groups)
	allowed.Groups[2] = Group{ID: "sg-far", Ingress: []Rule{{Match: tcp, Group: "sg-pods"}}, Egress: openRules}
	if err := l.Apply(&allowed); err != nil {
		t.Fatal(err)
	}
	reaches("the machine, whose group may not any more", host, false)
	reaches("the pod, whose group may", pod, true)
}

func TestEstablishedConnectionsOutliveTheirRule(t *testing.T) {
	if !isolated(t) {
		return
	}
	l := newLab(t)
	st := twins()
	st.Groups[0].Ingress = []Rule{{Match: Match{Protocol: Any}, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}}
	l.machines(st)
	c, err := l.Dial(t.Context(), "eni-a1", "udp4", netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.11:443"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err := c.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		gone := twins()
		gone.Groups[0].Ingress = nil
		if err := l.Apply(gone); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.get("eni-a1", "10.0.0.11:443"); err == nil {
		t.Error("a new connection passes without a rule")
	}
}

func TestServices(t *testing.T) {
	if !isolated(t) {
		return
	}
	l := newLab(t)
	l.machines(twins())
	tcp, err := l.ListenService(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, c.(*ServiceConn).Interface, " ", c.LocalAddr())
			c.Close()
		}
	}()
	udp, err := l.ListenServiceUDP(t.Context(), 53)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	go func() {
		b := make([]byte, 100)
		for {
			_, from, err := udp.Read(b)
			if err != nil {
				return
			}
			_ = udp.Reply(fmt.Append(nil, from.Interface, " ", from.Service), from)
		}
	}()
	for _, id := range []string{"eni-a1", "eni-a2", "eni-b2"} {
		l.expect(id, "169.254.169.254:80", id+" 169.254.169.254:80")
		l.expect(id, "10.0.0.2:80", id+" 10.0.0.2:80")
		c, err := l.Dial(t.Context(), id, "udp4", netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.2:53"))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte("?"))
		b := make([]byte, 100)
		n, err := c.Read(b)
		if got, want := string(b[:n]), id+" 10.0.0.2:53"; got != want {
			t.Errorf("%s gets %q (%v), want %q", id, got, err, want)
		}
		c.Close()
	}
}

// At the ports of a proxy, the fabric answers for every address that no machine has. Machines answer for themselves, and
// interfaces that AWS manages only connect.
func TestProxy(t *testing.T) {
	if !isolated(t) {
		return
	}
	l := newLab(t)
	st := twins()
	st.VPCs[0].Proxy = []uint16{443}
	managed := st.Interfaces[0]
	managed.ID, managed.Addresses, managed.Prefixes = "eni-managed", []Address{{Private: netip.MustParseAddr("10.0.0.12")}}, nil
	l.machines(st)
	st.Interfaces = append(st.Interfaces, managed)
	if err := l.Apply(st); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.AttachManaged(managed.ID); err != nil {
			t.Fatal(err)
		}
	}
	proxy, err := l.ListenService(t.Context(), 443)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	go func() {
		for {
			c, err := proxy.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, c.(*ServiceConn).Interface, " ", c.LocalAddr())
			c.Close()
		}
	}()
	for _, to := range []string{"54.0.0.1:443", "10.0.0.12:443", "169.254.170.23:443"} {
		l.expect("eni-a1", to, "eni-a1 "+to)
	}
	l.expect("eni-a1", "10.0.0.11:443", "eni-b1")
	l.expect("eni-managed", "10.0.0.11:443", "eni-b1")
	dark := netip.MustParseAddrPort("54.0.0.1:443")
	for i := range st.Interfaces {
		if st.Interfaces[i].ID == "eni-a1" {
			st.Interfaces[i].Dark = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.11:443"), dark}
		}
	}
	if err := l.Apply(st); err != nil {
		t.Fatal(err)
	}
	got, err := l.get("eni-a1", dark.String())
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		t.Errorf("a dark address answers %q (%v), want no answer", got, err)
	}
	l.expect("eni-a1", "54.0.0.2:443", "eni-a1 54.0.0.2:443")
	l.expect("eni-a1", "10.0.0.11:443", "eni-b1") // by now, a machine has the address
	for i := range st.Interfaces {
		st.Interfaces[i].Dark = nil
	}
	if err := l.Apply(st); err != nil {
		t.Fatal(err)
	}
	l.expect("eni-a1", dark.String(), "eni-a1 "+dark.String())
	for _, to := range []string{"54.0.0.1:444", "10.0.0.99:444"} {
		if got, err := l.get("eni-a1", to); err == nil {
			t.Errorf("%s answers %q", to, got)
		}
	}
	if got, err := l.get("eni-a2", "54.0.0.1:443"); err == nil {
		t.Errorf("a VPC without a proxy gets %q", got)
	}

	// Single addresses and ports, by TCP and UDP.
	st.VPCs[0].ProxyTCP = []netip.AddrPort{netip.MustParseAddrPort("54.0.0.1:444")}
	st.VPCs[0].ProxyUDP = []netip.AddrPort{netip.MustParseAddrPort("54.0.0.1:5353")}
	if err := l.Apply(st); err != nil {
		t.Fatal(err)
	}
	more, err := l.ListenService(t.Context(), 444)
	if err != nil {
		t.Fatal(err)
	}
	defer more.Close()
	go func() {
		for c, err := more.Accept(); err == nil; c, err = more.Accept() {
			fmt.Fprint(c, c.(*ServiceConn).Interface, " ", c.LocalAddr())
			c.Close()
		}
	}()
	packets, err := l.ListenServiceUDP(t.Context(), 5353)
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	go func() {
		b := make([]byte, MTU)
		for _, d, err := packets.Read(b); err == nil; _, d, err = packets.Read(b) {
			_ = packets.Reply([]byte(d.Interface+" "+d.Service.String()), d)
		}
	}()
	l.expect("eni-a1", "54.0.0.1:444", "eni-a1 54.0.0.1:444")
	for _, to := range []string{"54.0.0.2:444", "10.0.0.99:444"} {
		if got, err := l.get("eni-a1", to); err == nil {
			t.Errorf("%s answers %q", to, got)
		}
	}
	ask := func(to string) string {
		t.Helper()
		c, err := l.Dial(t.Context(), "eni-a1", "udp", netip.AddrPort{}, netip.MustParseAddrPort(to))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		b := make([]byte, 100)
		for range 2 {
			_, _ = c.Write([]byte("?"))
		}
		n, _ := c.Read(b)
		return string(b[:n])
	}
	if got := ask("54.0.0.1:5353"); got != "eni-a1 54.0.0.1:5353" {
		t.Errorf("by UDP it answers %q", got)
	}
	if got := ask("54.0.0.2:5353"); got != "" {
		t.Errorf("another address answers %q by UDP", got)
	}
}

// What a machine does to its own devices does not matter to others, and it may be attached again.
func TestAMachineThatBreaksItsDevices(t *testing.T) {
	if !isolated(t) {
		return
	}
	l := newLab(t)
	st := twins()
	l.machines(st)
	dev, err := l.hosts["eni-b1"].nl.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.hosts["eni-b1"].nl.LinkDel(dev); err != nil {
		t.Fatal(err)
	}
	renamed, err := l.hosts["eni-b2"].nl.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.hosts["eni-b2"].nl.LinkSetDown(renamed), l.hosts["eni-b2"].nl.LinkSetName(renamed, "gone")); err != nil {
		t.Fatal(err)
	}
	next := twins()
	for i := range next.Interfaces {
		if e := &next.Interfaces[i]; e.ID == "eni-b2" || e.ID == "eni-a2" {
			e.Addresses = append([]Address{{Private: netip.AddrFrom4([4]byte{10, 0, 0, byte(100 + i)})}}, e.Addresses...)
		}
	}
	if err := l.Apply(next); err == nil || !strings.Contains(err.Error(), "eni-b2") || strings.Contains(err.Error(), "eni-b1") {
		t.Errorf("applying a state says %v", err)
	}
	if err := l.Attach("eni-b1", Attachment{Netns: l.hosts["eni-b1"].fd, Device: "eth0"}); err != nil {
		t.Fatal(err)
	}
	l.expect("eni-a1", "10.0.0.11:443", "eni-b1")
}

// The numbers of a mark are never higher than a mark can hold, and nothing gets another's number while the kernel's rules
// have it.
func TestNumbersAreBounded(t *testing.T) {
	if !isolated(t) {
		return
	}
	l := newLab(t)
	many := func(prefix string, n int) *State {
		st := twins()
		for i := range n {
			st.Groups = append(st.Groups, Group{ID: fmt.Sprint(prefix, i)})
		}
		return st
	}
	for i, n := range []int{maxParts, 1000, 2000, 1000} {
		err := l.Apply(many(fmt.Sprint("sg-", i, "-"), n))
		if (err != nil) != (n == maxParts) {
			t.Fatalf("%d groups: %v", n, err)
		}
		seen := map[uint32]string{}
		for id, number := range l.numbers {
			if other := seen[number]; other != "" || number == 0 || number > maxNumber {
				t.Fatalf("%s has the number %d, as %s", id, number, other)
			}
			seen[number] = id
		}
	}
	if l.free > 4000 {
		t.Errorf("%d numbers were used for at most 3000 groups at a time", l.free)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	if !isolated(t) {
		return
	}
	f, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := newNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.close()
	if err := f.Apply(twins()); err != nil {
		t.Fatal(err)
	}
	if err := f.Attach("eni-a1", Attachment{Netns: ns.fd, Device: "eth0"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, nl := range []func() (*netlink.Handle, error){func() (*netlink.Handle, error) { return netlink.NewHandle() }, func() (*netlink.Handle, error) { return ns.nl, nil }} {
		h, err := nl()
		if err != nil {
			t.Fatal(err)
		}
		links, err := h.LinkList()
		if err != nil || len(links) != 1 {
			t.Errorf("devices %v are left (%v)", links, err)
		}
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := netlink.RuleList(family)
		if want := map[int]int{netlink.FAMILY_V4: 3, netlink.FAMILY_V6: 2}[family]; err != nil || len(rules) > want {
			t.Errorf("rules %v are left (%v)", rules, err)
		}
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		for _, r := range routes {
			if r.Table >= tableBase {
				t.Errorf("route %v is left (%v)", r, err)
			}
		}
	}
	tables, err := (&nftables.Conn{}).ListTables()
	if err != nil || len(tables) != 0 {
		t.Errorf("tables %v are left (%v)", tables, err)
	}
}

func BenchmarkConnect(b *testing.B) {
	if !isolated(b) {
		return
	}
	l := newLab(b)
	l.machines(twins())
	ns := l.hosts["eni-a1"]
	d := net.Dialer{FallbackDelay: -1}
	if err := ns.do(func() error {
		for b.Loop() {
			c, err := d.Dial("tcp4", "10.0.0.11:443")
			if err != nil {
				return err
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkThroughput(b *testing.B) {
	if !isolated(b) {
		return
	}
	l := newLab(b)
	l.machines(twins())
	var listener net.Listener
	if err := l.hosts["eni-b1"].do(func() (err error) {
		listener, err = net.Listen("tcp4", "10.0.0.11:5001")
		return err
	}); err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		buf := make([]byte, 1<<20)
		for err == nil {
			_, err = c.Read(buf)
		}
	}()
	c, err := l.Dial(b.Context(), "eni-a1", "tcp4", netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.11:5001"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	data := make([]byte, 1<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := c.Write(data); err != nil {
			b.Fatal(err)
		}
	}
}

// large is a network of 50 machines with 200 groups of five rules.
func large() *State {
	st := twins()
	st.Interfaces = nil
	for g := range 200 {
		group := Group{ID: fmt.Sprint("sg-", g), Egress: openRules}
		for r := range 5 {
			group.Ingress = append(group.Ingress, Rule{Match: Match{Protocol: unix.IPPROTO_TCP, From: uint16(g), To: uint16(g + r)}, CIDRs: everywhere})
		}
		st.Groups = append(st.Groups, group)
	}
	for n := range 50 {
		e := Interface{ID: fmt.Sprint("eni-", n), VPC: "vpc-1", Subnet: "subnet-1", Addresses: []Address{{Private: netip.AddrFrom4([4]byte{10, 0, 0, byte(n + 10)})}}}
		for g := range 4 {
			e.Groups = append(e.Groups, fmt.Sprint("sg-", n*4+g))
		}
		st.Interfaces = append(st.Interfaces, e)
	}
	return st
}

func BenchmarkApplyFirst(b *testing.B) {
	if !isolated(b) {
		return
	}
	st := large()
	for b.Loop() {
		f, err := Open()
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Apply(st); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkApplyChange(b *testing.B) {
	if !isolated(b) {
		return
	}
	f, err := Open()
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	st := large()
	if err := f.Apply(st); err != nil {
		b.Fatal(err)
	}
	n := uint16(0)
	for b.Loop() {
		n++
		next := *st
		next.Groups = append([]Group(nil), st.Groups...)
		next.Groups[7] = Group{ID: "sg-changed", Ingress: []Rule{{Match: Match{Protocol: unix.IPPROTO_TCP, From: n, To: n}, CIDRs: everywhere}}}
		if err := f.Apply(&next); err != nil {
			b.Fatal(err)
		}
	}
}
