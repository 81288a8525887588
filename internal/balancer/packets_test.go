package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// Listeners for UDP forward datagrams and what comes back, each flow to one target, until the listener ends.
func TestPackets(t *testing.T) {
	echo := testkit.Must(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer echo.Close()
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := echo.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = echo.WriteToUDPAddrPort(fmt.Appendf(nil, "%s from %d", b[:n], from.Port()), from)
		}
	}()
	var mu sync.Mutex
	dialled, admitted := []balancer.Destination{}, true
	p := balancer.New(balancer.Config{
		Store: open(t), Client: netip.MustParseAddr("203.0.113.7"), Patience: 1000, Log: testlog.New(t),
	})
	network := balancer.Network{
		Dial: func(ctx context.Context, _, _ string, to balancer.Destination) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dialled = append(dialled, to)
			if to.Network != "udp" {
				return nil, errors.New("the target's port is for UDP")
			}
			return new(net.Dialer).DialContext(ctx, to.Network, echo.LocalAddr().String())
		},
		Admit: func(_ context.Context, _, _, name, network string, port uint16) error {
			mu.Lock()
			defer mu.Unlock()
			if !admitted || name != "nlb.example" || network != "udp" || port != 80 {
				return fmt.Errorf("%s %d of %s is closed", network, port, name)
			}
			return nil
		},
		Runs: func(string, string, balancer.Destination) bool { return false },
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(ctx, network) })
	defer wg.Wait()
	defer cancel()

	lb := tcp() // TCP_UDP is two listeners
	packets := lb.Listeners[0]
	packets.Protocol = "UDP"
	lb.Listeners = append(lb.Listeners, packets)
	lb.Groups[0].PreserveClient = true
	if err := p.Put(t.Context(), key, lb); err != nil {
		t.Fatal(err)
	}
	all := p.Open(key)
	if len(all) != 2 || all[0].Protocol != "TCP" || all[1].Protocol != "UDP" || all[0].Local == 0 || all[0].Local != all[1].Local {
		t.Fatalf("listeners: %+v", all)
	}
	if tcp, udp := p.Ports(key); len(tcp) != 1 || len(udp) != 1 || udp[0] != 80 {
		t.Errorf("ports %v and %v", tcp, udp)
	}
	client := testkit.Must(net.Dial("udp4", fmt.Sprintf("127.0.0.1:%d", all[1].Local)))(t)
	defer client.Close()
	ask := func(c net.Conn, what string, wait time.Duration) string {
		t.Helper()
		_ = c.SetDeadline(time.Now().Add(wait))
		if _, err := c.Write([]byte(what)); err != nil {
			return err.Error()
		}
		b := make([]byte, 1<<16)
		n, err := c.Read(b)
		if err != nil {
			return "nothing"
		}
		return string(b[:n])
	}
	first := ask(client, "a", 10*time.Second)
	var port int
	if _, err := fmt.Sscanf(first, "a from %d", &port); err != nil {
		t.Fatalf("the answer is %q: %v", first, err)
	}
	if got, want := ask(client, "b", 10*time.Second), fmt.Sprintf("b from %d", port); got != want {
		t.Errorf("the next answer of the flow is %q, want %q", got, want)
	}
	mu.Lock()
	if len(dialled) != 1 || dialled[0].Client != netip.AddrPortFrom(netip.MustParseAddr("203.0.113.7"), client.LocalAddr().(*net.UDPAddr).AddrPort().Port()) {
		t.Errorf("dialled %+v", dialled)
	}
	admitted = false
	mu.Unlock()
	other := testkit.Must(net.Dial("udp4", fmt.Sprintf("127.0.0.1:%d", all[1].Local)))(t)
	defer other.Close()
	if got := ask(other, "c", 300*time.Millisecond); got != "nothing" {
		t.Errorf("a refused client gets %q", got)
	}
	within := testkit.Must(p.ConnectPackets(t.Context(), key, 80, netip.MustParseAddrPort("10.0.0.9:1234")))(t)
	if got := ask(within, "d", 10*time.Second); len(got) < 8 || got[:7] != "d from " {
		t.Errorf("a client in the VPC gets %q", got)
	}
	_ = within.Close()

	// Without the listener, its flows have ended, and the one for TCP goes on.
	lb.Listeners = lb.Listeners[:1]
	if err := p.Put(t.Context(), key, lb); err != nil {
		t.Fatal(err)
	}
	if got := ask(client, "e", 300*time.Millisecond); len(got) > 0 && got[0] == 'e' {
		t.Errorf("after the end it answers %q", got)
	}
	if all := p.Open(key); len(all) != 1 || all[0].Protocol != "TCP" {
		t.Errorf("listeners: %+v", all)
	}
	if _, err := p.ConnectPackets(t.Context(), key, 80, netip.AddrPort{}); !errors.Is(err, balancer.ErrNoListener) {
		t.Errorf("ConnectPackets: %v", err)
	}
	if _, err := p.ConnectPackets(t.Context(), store.Key{ID: "none"}, 80, netip.AddrPort{}); !errors.Is(err, balancer.ErrNoListener) {
		t.Errorf("ConnectPackets of another load balancer: %v", err)
	}
}
