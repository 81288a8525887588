package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/egress"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// An internetServer stands for the internet: whatever is dialled, it answers with the address.
type internetServer struct{ refused string }

func (s internetServer) dial(_ context.Context, network, address string) (net.Conn, error) {
	if address == s.refused {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		if strings.HasPrefix(network, "udp") {
			_, _ = far.Read(make([]byte, 64))
		}
		_, _ = io.WriteString(far, network+" "+address)
	}()
	return near, nil
}

// leaving makes packets leave the lab's fabric to a server that stands for the internet.
func (l *lab) leaving(s internetServer) (stop func()) {
	l.Helper()
	outside, err := l.Outside()
	if err != nil {
		l.Fatal(err)
	}
	defer outside.Close()
	tun, err := Leave(outside)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		needs.Missing(l, "a TUN device: %v", err)
	}
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.Context())
	done := make(chan error, 1)
	go func() {
		done <- egress.Run(ctx, egress.Config{Device: tun, MTU: MTU, Dial: s.dial, Log: testlog.New(l)})
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			l.Error(err)
		}
	}
}

// askUDP sends a datagram and returns the answer.
func (l *lab) askUDP(from, to string) (string, error) {
	c, err := l.Dial(l.Context(), from, "udp4", netip.AddrPort{}, netip.MustParseAddrPort(to))
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.WriteString(c, "?"); err != nil {
		return "", err
	}
	b := make([]byte, 64)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// Packets leave the fabric only by an internet gateway with a public address, or by a NAT gateway, as far as the security
// group lets them.
func TestLeave(t *testing.T) {
	if !isolated(t) {
		return
	}
	l := newLab(t)
	all := netip.MustParsePrefix("0.0.0.0/0")
	st := twins()
	st.VPCs[0].Gateway, st.VPCs[0].Proxy = true, []uint16{443}
	st.Subnets[0].Routes = append([]Route{{Destination: all, Kind: Internet}}, st.Subnets[0].Routes...)
	st.Subnets = append(st.Subnets, Subnet{ID: "subnet-private", VPC: "vpc-1", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")}, Routes: []Route{
		{Destination: all, Kind: NAT, Target: "eni-nat"}, {Destination: netip.MustParsePrefix("10.0.0.0/16"), Kind: Local},
	}})
	public := &st.Interfaces[slices.IndexFunc(st.Interfaces, func(e Interface) bool { return e.ID == "eni-a1" })]
	public.Addresses[0].Public = netip.MustParseAddr("54.0.0.10")
	private := Interface{ID: "eni-private", VPC: "vpc-1", Subnet: "subnet-private", Groups: []string{"sg-open"}, Addresses: []Address{{Private: netip.MustParseAddr("10.0.1.10")}}}
	nat := Interface{ID: "eni-nat", VPC: "vpc-1", Subnet: "subnet-1", NAT: true, Ungrouped: true,
		Addresses: []Address{{Private: netip.MustParseAddr("10.0.0.200"), Public: netip.MustParseAddr("54.0.0.200")}}}
	st.Interfaces = append(st.Interfaces, private)
	l.machines(st)
	st.Interfaces = append(st.Interfaces, nat)
	change := func(f func(*State)) {
		t.Helper()
		f(st)
		if err := l.Apply(st); err != nil {
			t.Fatal(err)
		}
	}
	change(func(*State) {})
	proxy, err := l.ListenService(t.Context(), 443)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	go func() {
		for c, err := proxy.Accept(); err == nil; c, err = proxy.Accept() {
			fmt.Fprint(c, "proxy")
			c.Close()
		}
	}()
	silent := func(from, to, why string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if c, err := l.Dial(ctx, from, "tcp4", netip.AddrPort{}, netip.MustParseAddrPort(to)); err == nil {
			c.Close()
			t.Errorf("%s: %s reaches %s", why, from, to)
		}
	}
	const server, web = "192.0.32.8:7070", "192.0.32.8:443"

	stop := l.leaving(internetServer{refused: "192.0.32.8:1"})
	silent("eni-a1", server, "internet off")
	l.expect("eni-a1", web, "proxy")

	change(func(st *State) {
		st.Outside, st.Inside = []netip.Prefix{all}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("99.77.128.0/17")}
	})
	for _, from := range []string{"eni-a1", "eni-private"} {
		l.expect(from, server, "tcp4 "+server)
		l.expect(from, web, "tcp4 "+web)
		l.expect(from, "99.77.128.9:443", "proxy")
		silent(from, "99.77.128.9:7070", "AWS's addresses")
		if got, err := l.askUDP(from, server); got != "udp4 "+server {
			t.Errorf("%s gets %q by UDP (%v)", from, got, err)
		}
		if _, err := l.get(from, "192.0.32.8:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s to a port where nothing listens: %v", from, err)
		}
	}
	l.expect("eni-private", "54.0.0.10:22", "eni-a1") // a public address of the fabric's own
	silent("eni-b1", server, "no public address")
	silent("eni-a2", server, "no route")
	if _, err := l.ping(&question{from: "eni-a1", source: netip.MustParseAddrPort("10.0.0.10:77"), to: netip.MustParseAddrPort("192.0.32.8:0")}, 200*time.Millisecond); err == nil {
		t.Error("an echo is answered, although the stack cannot send one to the internet")
	}

	change(func(st *State) {
		st.Groups[0].Egress = []Rule{{Match: openRules[0].Match, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	})
	silent("eni-a1", server, "the security group")
	silent("eni-private", server, "the security group")
	change(func(st *State) { st.Groups[0].Egress = openRules })
	l.expect("eni-private", server, "tcp4 "+server)
	change(func(st *State) { // as Compile does when the NAT gateway is gone
		st.Interfaces = st.Interfaces[:len(st.Interfaces)-1]
		st.Subnets[2].Routes[0] = Route{Destination: all, Kind: Blackhole}
	})
	silent("eni-private", server, "without the NAT gateway")
	l.expect("eni-a1", server, "tcp4 "+server)
	change(func(st *State) { st.VPCs[0].Gateway = false })
	silent("eni-a1", server, "without an internet gateway")

	change(func(st *State) { st.VPCs[0].Gateway = true })
	l.expect("eni-a1", server, "tcp4 "+server)
	stop()
	silent("eni-a1", server, "after the end")
	stop = l.leaving(internetServer{}) // again, as after the end of a daemon
	l.expect("eni-a1", server, "tcp4 "+server)
	change(func(st *State) { st.Outside, st.Inside = nil, nil })
	silent("eni-a1", server, "internet off")
	stop()
}
