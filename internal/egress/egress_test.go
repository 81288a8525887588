package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
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
	own := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4([4]byte{10, 0, 0, 1}).WithPrefix()}
	for _, err := range []tcpip.Error{w.CreateNIC(1, w.link), w.AddProtocolAddress(1, own, stack.AddressProperties{})} {
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
		done <- Run(ctx, Config{Device: w, MTU: 1500, Dial: func(_ context.Context, network, address string) (net.Conn, error) {
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

// A device that fails ends it, and packets that are none do nothing.
func TestRunWithABrokenDevice(t *testing.T) {
	w := newWire(t)
	_ = w.Close()
	if err := Run(t.Context(), Config{Device: w, MTU: 1500}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("ends with %v", err)
	}
	for _, b := range [][]byte{nil, {0x45}, make([]byte, 40), append([]byte{0x60}, make([]byte, 39)...)} {
		if carried(b) {
			t.Errorf("%x is carried", b)
		}
	}
}
