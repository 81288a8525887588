package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// A wire is a device at whose other end a host is, with a stack of its own.
type wire struct {
	*stack.Stack
	link   *channel.Endpoint
	once   sync.Once
	closed chan struct{}
}

func newWire(t *testing.T) *wire {
	w := &wire{closed: make(chan struct{}), link: channel.New(64, 1500, ""), Stack: stack.New(stack.Options{
		NetworkProtocols: []stack.NetworkProtocolFactory{ipv4.NewProtocol}, TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})}
	t.Cleanup(w.Destroy)
	own := func(last byte) tcpip.Error {
		a := tcpip.AddrFrom4([4]byte{10, 0, 0, last}).WithPrefix()
		return w.AddProtocolAddress(1, tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: a}, stack.AddressProperties{})
	}
	for _, err := range []tcpip.Error{w.CreateNIC(1, w.link), own(1), own(2)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}})
	return w
}

// Read reads a packet of the host.
func (w *wire) Read(b []byte) (int, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-w.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	p := w.link.ReadContext(ctx)
	if p == nil {
		return 0, os.ErrClosed
	}
	defer p.DecRef()
	v := p.ToView()
	defer v.Release()
	return copy(b, v.AsSlice()), nil
}

// Write gives the host a packet.
func (w *wire) Write(b []byte) (int, error) {
	p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
	defer p.DecRef()
	w.link.InjectInbound(ipv4.ProtocolNumber, p)
	return len(b), nil
}

// Close is that of a device.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// Connections and datagrams arrive where they are dialled, in both directions and with their ends. When the device is closed, all are.
func TestRun(t *testing.T) {
	w := newWire(t)
	ends := make(chan net.Conn, 1)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		done <- Run(ctx, Config{Device: w, MTU: 1500, Log: testlog.New(t), Dial: func(_ context.Context, network, address string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				b := make([]byte, 64)
				n, err := far.Read(b)
				if err == nil {
					_, err = io.WriteString(far, network+" "+address+" "+string(b[:n]))
				}
				if network == "tcp4" && err == nil {
					ends <- far
					_, _ = far.Read(b) // until the other end is closed
				}
			}()
			return near, nil
		}})
	}()
	to := tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4([4]byte{192, 0, 32, 8}), Port: 80}
	c, err := gonet.DialContextTCP(t.Context(), w.Stack, to, ipv4.ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	u, err := gonet.DialUDP(w.Stack, nil, &to, ipv4.ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for network, c := range map[string]net.Conn{"tcp4": c, "udp4": u} {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 64)
		n, err := c.Read(b)
		if want := network + " 192.0.32.8:80 hello"; string(b[:n]) != want || err != nil {
			t.Errorf("got %q, %v, want %q", b[:n], err, want)
		}
	}
	(<-ends).Close()
	if n, err := c.Read(make([]byte, 8)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the other end has closed the connection: %d bytes, %v", n, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Run ends when its device fails, and ignores malformed packets.
func TestRunWithABrokenDevice(t *testing.T) {
	w := newWire(t)
	_ = w.Close()
	if err := Run(t.Context(), Config{Device: w, MTU: 1500, Log: testlog.New(t)}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("ends with %v", err)
	}
	for _, b := range [][]byte{nil, {0x45}, make([]byte, 40), append([]byte{0x60}, make([]byte, 39)...)} {
		if carried(b) {
			t.Errorf("%x is carried", b)
		}
	}
}

// A source has its share of the connections, and others have theirs. What is beyond is dropped until one ends, and said once.
func TestShares(t *testing.T) {
	w := newWire(t)
	var log bytes.Buffer
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	few := bound{all: 3, each: 1, idle: time.Hour}
	go func() {
		done <- run(ctx, Config{Device: w, MTU: 1500, Log: slog.New(slog.NewTextHandler(&log, nil)), Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				_, _ = io.Copy(far, far) // echoes until the other end is closed
				_ = far.Close()
			}()
			return near, nil
		}}, bounds{few, few, few})
	}()
	to := tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4([4]byte{192, 0, 32, 8}), Port: 80}
	dial := func(last byte, patience time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		from := tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4([4]byte{10, 0, 0, last})}
		return gonet.DialTCPWithBind(ctx, w.Stack, from, to, ipv4.ProtocolNumber)
	}
	ask := func(last byte, port uint16, patience time.Duration) (net.Conn, bool) {
		from, to := tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4([4]byte{10, 0, 0, last})}, to
		to.Port = port
		c, err := gonet.DialUDP(w.Stack, &from, &to, ipv4.ProtocolNumber)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, "hello")
		n, err := c.Read(make([]byte, 8))
		return c, n == 5 && err == nil
	}
	first, err := dial(1, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := dial(1, 100*time.Millisecond); err == nil {
		c.Close()
		t.Error("a second connection of the same source")
	}
	other, err := dial(2, 10*time.Second)
	if err != nil {
		t.Fatalf("another source: %v", err)
	}
	defer other.Close()
	first.Close()
	again, err := dial(1, 10*time.Second) // SYNs are repeated
	if err != nil {
		t.Fatalf("after the first connection: %v", err)
	}
	defer again.Close()
	for _, port := range []uint16{7, dnsPort} {
		if _, ok := ask(1, port, 10*time.Second); !ok {
			t.Errorf("port %d: the first flow gets no answer", port)
		}
		if _, ok := ask(1, port, 50*time.Millisecond); ok {
			t.Errorf("port %d: a second flow of the same source", port)
		}
		if _, ok := ask(2, port, 10*time.Second); !ok {
			t.Errorf("port %d: another source gets no answer", port)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, what := range []string{`what="TCP connections"`, `what="flows of UDP" `, `what="flows of UDP to port 53"`} {
		if n := strings.Count(log.String(), what); n != 1 {
			t.Errorf("%s is said %d times:\n%s", what, n, &log)
		}
	}
}

// Whatever is silent ends, and its place is free again.
func TestSilentFlowsEnd(t *testing.T) {
	w := newWire(t)
	done, ended := make(chan error, 1), make(chan string, 4)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	one := bound{all: 1, each: 1, idle: time.Millisecond}
	go func() {
		done <- run(ctx, Config{Device: w, MTU: 1500, Log: testlog.New(t), Dial: func(_ context.Context, network, _ string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				_, _ = io.Copy(io.Discard, far)
				ended <- network
			}()
			return near, nil
		}}, bounds{one, one, one})
	}()
	to := tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4([4]byte{192, 0, 32, 8}), Port: 80}
	c, err := gonet.DialContextTCP(t.Context(), w.Stack, to, ipv4.ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.Read(make([]byte, 8)); n != 0 || err == nil {
		t.Errorf("a silent connection: %d bytes, %v", n, err)
	}
	u, err := gonet.DialUDP(w.Stack, nil, &to, ipv4.ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := io.WriteString(u, "hello"); err != nil {
		t.Fatal(err)
	}
	if got := []string{<-ended, <-ended}; got[0] == got[1] {
		t.Errorf("ended: %v", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A flaky connection reports errors, then reads.
type flaky struct {
	net.Conn
	errs chan error
}

func (f flaky) Read(b []byte) (int, error) {
	select {
	case err := <-f.errs:
		return 0, err
	default:
		return f.Conn.Read(b)
	}
}

// Silence is measured from the last data in either direction.
func TestSilence(t *testing.T) {
	for name, carry := range map[string]func(to, from net.Conn, seen func()){"TCP": copyHalf, "UDP": (&carrier{mtu: 1500}).copyDatagrams} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, a := net.Pipe()
				far, b := net.Pipe()
				errs := make(chan error, 2)
				if name == "UDP" { // of earlier datagrams
					errs <- &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNREFUSED)}
					errs <- &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.EHOSTUNREACH)}
				}
				go (&carrier{ctx: t.Context()}).join(near, flaky{far, errs}, usual.conns.idle, carry)
				for range 3 {
					for _, ends := range [][2]net.Conn{{a, b}, {b, a}} {
						time.Sleep(usual.conns.idle - time.Second)
						if _, err := io.WriteString(ends[0], "x"); err != nil {
							t.Fatal(err)
						}
						if _, err := ends[1].Read(make([]byte, 1)); err != nil {
							t.Fatal(err)
						}
					}
				}
				began := time.Now()
				if _, err := a.Read(make([]byte, 1)); err == nil || time.Since(began) != usual.conns.idle {
					t.Errorf("ends after %v: %v", time.Since(began), err)
				}
				if _, err := b.Read(make([]byte, 1)); err == nil {
					t.Error("the other end is open")
				}
			})
		})
	}
}

// A flow ends in both directions when one is broken.
func TestBrokenFlow(t *testing.T) {
	for _, broken := range []string{"far", "near"} {
		synctest.Test(t, func(t *testing.T) {
			near, a := net.Pipe()
			far, b := net.Pipe()
			go (&carrier{ctx: t.Context()}).join(near, far, time.Hour, (&carrier{mtu: 1500}).copyDatagrams)
			if broken == "near" {
				a, b = b, a
			}
			began := time.Now()
			b.Close()
			if _, err := a.Read(make([]byte, 1)); err == nil || time.Since(began) != 0 {
				t.Errorf("%s is broken: the other end is closed after %v: %v", broken, time.Since(began), err)
			}
		})
	}
}

// Connections use little memory, and those of machines that have vanished are found.
func TestConnections(t *testing.T) {
	s, err := newStack(channel.New(1, 1500, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Destroy()
	ep, e := s.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, new(waiter.Queue))
	if e != nil {
		t.Fatal(e)
	}
	defer ep.Close()
	keepAlive(ep)
	o := ep.SocketOptions()
	var in tcpip.TCPReceiveBufferSizeRangeOption
	var out tcpip.TCPSendBufferSizeRangeOption
	for _, err := range []tcpip.Error{s.TransportProtocolOption(tcp.ProtocolNumber, &in), s.TransportProtocolOption(tcp.ProtocolNumber, &out)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := max(int(o.GetReceiveBufferSize()), int(o.GetSendBufferSize()), in.Max, out.Max); got > 256<<10 {
		t.Errorf("buffers of up to %d bytes", got)
	}
	var idle tcpip.KeepaliveIdleOption
	var interval tcpip.KeepaliveIntervalOption
	count, e := ep.GetSockOptInt(tcpip.KeepaliveCountOption)
	for _, err := range []tcpip.Error{e, ep.GetSockOpt(&idle), ep.GetSockOpt(&interval)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if all := time.Duration(idle) + time.Duration(count)*time.Duration(interval); !o.GetKeepAlive() || all > 2*time.Minute {
		t.Errorf("vanished machines are found after %v (%v)", all, o.GetKeepAlive())
	}
}
