package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

var key = store.Key{Account: "111122223333", Region: "us-east-1", ID: "v2/nlb"}

func open(t testing.TB) *store.Store {
	t.Helper()
	s := testkit.Must(store.Open(t.Context(), store.Config{Ephemeral: true, Log: testlog.New(t)}))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run runs a plane whose targets are at an address on this machine, until the function that it returns is called.
func run(t testing.TB, st *store.Store, target string) (p *balancer.Plane, stop func()) {
	t.Helper()
	p = balancer.New(balancer.Config{
		Store: st, Client: netip.MustParseAddr("203.0.113.7"), Patience: 1000, Log: testlog.New(t),
	})
	network := balancer.Network{
		Dial: func(ctx context.Context, _, _ string, _ balancer.Destination) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", target)
		},
		Runs: func(string, string, balancer.Destination) bool { return true },
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx, network); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return p, stop
}

// tcp is a load balancer with one listener for TCP and one target.
func tcp() balancer.LoadBalancer {
	group := "g"
	return balancer.LoadBalancer{
		DNSName:   "nlb.example",
		Listeners: []balancer.Listener{{Port: 80, Protocol: "TCP", Rules: []balancer.Rule{{Action: elbv2types.Action{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: &group}}}}},
		Groups: []balancer.Group{{
			ID: group, Protocol: "TCP", FailOpen: true, Check: balancer.Check{Protocol: "TCP", Interval: 10 * time.Second, Timeout: time.Second, Healthy: 2, Unhealthy: 2},
			Targets: []balancer.Target{{TargetID: balancer.TargetID{ID: "10.0.0.1", Port: 80}, To: balancer.Destination{Address: netip.MustParseAddr("10.0.0.1"), Port: 80}, CheckPort: 80}},
		}},
	}
}

func local(t testing.TB, p *balancer.Plane) string {
	t.Helper()
	all := p.Open(key)
	if len(all) != 1 || all[0].Local == 0 {
		t.Fatalf("listeners: %+v", all)
	}
	return fmt.Sprintf("127.0.0.1:%d", all[0].Local)
}

// A listener has the same port on this machine after a restart, unless somebody else has taken it.
func TestPortsOutliveARestart(t *testing.T) {
	st := open(t)
	p, stop := run(t, st, "127.0.0.1:1")
	if err := p.Put(t.Context(), key, tcp()); err != nil {
		t.Fatal(err)
	}
	first := local(t, p)
	stop()
	if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", first); err == nil {
		_ = c.Close()
		t.Errorf("%s still listens", first)
	}
	if err := p.Put(t.Context(), key, tcp()); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}

	p, stop = run(t, st, "127.0.0.1:1")
	if err := p.Put(t.Context(), key, tcp()); err != nil {
		t.Fatal(err)
	}
	if again := local(t, p); again != first {
		t.Errorf("%s after a restart, and %s before", again, first)
	}
	stop()

	other := testkit.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", first))(t)
	defer other.Close()
	p, _ = run(t, st, "127.0.0.1:1")
	if err := p.Put(t.Context(), key, tcp()); err != nil {
		t.Fatal(err)
	}
	if again := local(t, p); again == first {
		t.Errorf("%s although it is taken", again)
	}
}

// A listener for UDP, which carries nothing, may be at the port of one for TCP.
func TestTwoListenersAtAPort(t *testing.T) {
	p, _ := run(t, open(t), "127.0.0.1:1")
	want := tcp()
	for _, listeners := range [][]balancer.Listener{
		{{Port: 80, Protocol: "UDP", Fault: "no"}, want.Listeners[0]}, {want.Listeners[0], {Port: 80, Protocol: "UDP", Fault: "no"}},
		{{Port: 80, Protocol: "UDP", Fault: "no"}}, {want.Listeners[0]},
	} {
		if err := p.Put(t.Context(), key, balancer.LoadBalancer{DNSName: want.DNSName, Listeners: listeners, Groups: want.Groups}); err != nil {
			t.Fatal(err)
		}
		c, err := p.Connect(key, 80, netip.MustParseAddrPort("10.0.0.9:1234"))
		if carries := len(listeners) > 1 || listeners[0].Fault == ""; carries != (err == nil) {
			t.Errorf("%+v: %v", listeners, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// A client that connects through Connect gets its answers, and sees the end of what the target sends.
func TestConnect(t *testing.T) {
	ln := testkit.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c) // health checks end at once
				_ = c.Close()
			}()
		}
	}()
	p, _ := run(t, open(t), ln.Addr().String())
	if _, err := p.Connect(key, 80, netip.AddrPort{}); !errors.Is(err, balancer.ErrNoListener) {
		t.Errorf("without a load balancer: %v", err)
	}
	if err := p.Put(t.Context(), key, tcp()); err != nil {
		t.Fatal(err)
	}
	c := testkit.Must(p.Connect(key, 80, netip.MustParseAddrPort("10.0.0.9:1234")))(t)
	defer c.Close()
	testkit.Must(io.WriteString(c, "hello"))(t)
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Must(io.ReadAll(c))(t); string(got) != "hello" {
		t.Errorf("%q came back", got)
	}
}

// BenchmarkNLB moves bytes from a client through a TCP listener to a target, all on this machine.
func BenchmarkNLB(b *testing.B) {
	ln := testkit.Must(new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0"))(b)
	defer ln.Close()
	received := make(chan int64)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if n, _ := io.Copy(io.Discard, c); n > 0 { // not a health check
					received <- n
				}
			}()
		}
	}()
	p, _ := run(b, open(b), ln.Addr().String())
	if err := p.Put(b.Context(), key, tcp()); err != nil {
		b.Fatal(err)
	}
	c := testkit.Must(new(net.Dialer).DialContext(b.Context(), "tcp", local(b, p)))(b).(*net.TCPConn)
	defer c.Close()
	chunk := make([]byte, 1<<20)
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if _, err := c.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.CloseWrite(); err != nil {
		b.Fatal(err)
	}
	<-received
}

// A target that preserves client IPs gets the client's address and port, and any other target those of the load balancer.
func TestPreserveClient(t *testing.T) {
	dialled := make(chan netip.AddrPort)
	p := balancer.New(balancer.Config{Store: open(t), Client: netip.MustParseAddr("203.0.113.7"), Patience: 1000, Log: testlog.New(t)})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = p.Run(ctx, balancer.Network{
			Dial: func(ctx context.Context, _, _ string, to balancer.Destination) (net.Conn, error) {
				select {
				case dialled <- to.Client:
				case <-ctx.Done():
				}
				return nil, errors.New("no")
			},
			Runs: func(string, string, balancer.Destination) bool { return false }, // and so no health checks
		})
	})
	defer wg.Wait()
	defer cancel()
	for _, preserve := range []bool{true, false} {
		lb := tcp()
		lb.Groups[0].PreserveClient = preserve
		if err := p.Put(t.Context(), key, lb); err != nil {
			t.Fatal(err)
		}
		inside := netip.MustParseAddrPort("10.0.0.9:1234")
		c := testkit.Must(p.Connect(key, 80, inside))(t)
		defer c.Close()
		outside := testkit.Must(net.Dial("tcp", local(t, p)))(t)
		defer outside.Close()
		want := map[netip.AddrPort]int{{}: 2}
		if preserve {
			want = map[netip.AddrPort]int{inside: 1, netip.AddrPortFrom(netip.MustParseAddr("203.0.113.7"), outside.LocalAddr().(*net.TCPAddr).AddrPort().Port()): 1}
		}
		got := map[netip.AddrPort]int{}
		for range 2 {
			got[<-dialled]++
		}
		if !maps.Equal(got, want) {
			t.Errorf("preserving clients: %t: dialled for %v, want %v", preserve, got, want)
		}
	}
}
