// Package egress carries packets of a network to the real internet: it reads them from a TUN device and answers them as
// the addresses that they are for, by a TCP/IP stack in this process (gVisor's). Each connection is one ordinary socket of
// this process, so nothing of the host's network changes, and a connection ends with the process.
//
// It decides nothing about the network: who reads from the device sees only packets that passed it. What may be dialled is
// up to the dialler: see dialout.Internet.
package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
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
)

// Config is what Run needs. All fields are required.
type Config struct {
	// Device is where whole IPv4 packets are read and written, such as a TUN device without further headers.
	Device io.ReadWriteCloser
	// MTU is the size of the largest packet.
	MTU int
	// Dial connects to the internet. The network is tcp4 or udp4.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Bounds for all connections together. What is beyond is dropped, so that clients try again.
const (
	maxPending = 1024 // TCP connections that are being made
	maxConns   = 8192 // TCP connections
	maxFlows   = 2048 // UDP flows
)

const (
	// flowIdle ends a UDP flow without a packet. NAT gateways wait 350 seconds:
	// https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-basics.html
	flowIdle = 350 * time.Second
	nic      = 1
	queue    = 512 // packets to the device
)

// Run carries packets until ctx ends or the device does. It closes the device.
func Run(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	link := channel.New(queue, uint32(cfg.MTU), "")
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	defer s.Destroy()
	sack, tuned := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true)
	for _, err := range []tcpip.Error{
		s.SetTransportProtocolOption(tcp.ProtocolNumber, &sack), s.SetTransportProtocolOption(tcp.ProtocolNumber, &tuned),
		s.CreateNIC(nic, link),
		s.SetPromiscuousMode(nic, true), // packets to all addresses are for this stack,
		s.SetSpoofing(nic, true),        // which answers as each of them
	} {
		if err != nil {
			return fmt.Errorf("the stack of the internet: %s", err)
		}
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	c := &carrier{ctx: ctx, dial: cfg.Dial, mtu: cfg.MTU, conns: make(chan struct{}, maxConns), flows: make(chan struct{}, maxFlows)}
	s.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(s, 0, maxPending, c.tcp).HandlePacket)
	s.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(s, c.udp).HandlePacket)

	var all sync.WaitGroup
	defer all.Wait()
	defer context.AfterFunc(ctx, func() { _ = cfg.Device.Close() })()
	defer cancel()
	all.Go(func() {
		for {
			p := link.ReadContext(ctx)
			if p == nil {
				return
			}
			v := p.ToView()
			_, err := cfg.Device.Write(v.AsSlice())
			v.Release()
			p.DecRef()
			if errors.Is(err, os.ErrClosed) {
				return
			}
		}
	})
	b := make([]byte, cfg.MTU)
	for {
		n, err := cfg.Device.Read(b)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading packets for the internet: %w", err)
		}
		if !carried(b[:n]) {
			continue
		}
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b[:n])})
		link.InjectInbound(ipv4.ProtocolNumber, p)
		p.DecRef()
	}
}

// carried reports whether a packet is one of TCP or UDP. The stack would answer echoes itself, whoever they are for.
func carried(b []byte) bool {
	h := header.IPv4(b)
	if len(b) < header.IPv4MinimumSize || !h.IsValid(len(b)) {
		return false
	}
	p := h.TransportProtocol()
	return p == tcp.ProtocolNumber || p == udp.ProtocolNumber
}

// A carrier makes connections for those that the stack is asked for.
type carrier struct {
	ctx          context.Context //nolint:containedctx // of Run
	dial         func(ctx context.Context, network, address string) (net.Conn, error)
	mtu          int
	conns, flows chan struct{}
}

// to returns the address that a packet is for.
func to(id stack.TransportEndpointID) string {
	return netip.AddrPortFrom(netip.AddrFrom4(id.LocalAddress.As4()), id.LocalPort).String()
}

// tcp accepts a connection once the one to the internet is made. What refuses it there is refused here.
func (c *carrier) tcp(r *tcp.ForwarderRequest) {
	select {
	case c.conns <- struct{}{}:
		defer func() { <-c.conns }()
	default:
		r.Complete(false)
		return
	}
	far, err := c.dial(c.ctx, "tcp4", to(r.ID()))
	if err != nil {
		r.Complete(errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET))
		return
	}
	defer far.Close()
	var wq waiter.Queue
	ep, e := r.CreateEndpoint(&wq)
	if e != nil {
		r.Complete(true)
		return
	}
	r.Complete(false)
	ep.SocketOptions().SetKeepAlive(true)
	near := gonet.NewTCPConn(&wq, ep)
	defer near.Close()
	defer context.AfterFunc(c.ctx, func() { _ = errors.Join(near.Close(), far.Close()) })()
	var back sync.WaitGroup
	back.Go(func() { copyHalf(near, far) })
	copyHalf(far, near)
	back.Wait()
}

// copyHalf copies until one end is done, and says so to the other.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = errors.Join(to.Close(), from.Close()) // one of them is broken
}

// udp carries the datagrams between two addresses until they have been silent.
func (c *carrier) udp(r *udp.ForwarderRequest) {
	select {
	case c.flows <- struct{}{}:
	default:
		return
	}
	var wq waiter.Queue
	ep, e := r.CreateEndpoint(&wq)
	if e != nil {
		<-c.flows
		return
	}
	near := gonet.NewUDPConn(&wq, ep)
	go func() {
		defer func() { <-c.flows }()
		defer near.Close()
		far, err := c.dial(c.ctx, "udp4", to(r.ID()))
		if err != nil {
			return
		}
		defer far.Close()
		defer context.AfterFunc(c.ctx, func() { _ = errors.Join(near.Close(), far.Close()) })()
		var last idle
		var back sync.WaitGroup
		back.Go(func() { last.copy(near, far, c.mtu) })
		last.copy(far, near, c.mtu)
		_ = errors.Join(near.Close(), far.Close())
		back.Wait()
	}()
}

// An idle knows when a packet was last seen in either direction.
type idle struct {
	mu   sync.Mutex
	seen time.Time
}

func (i *idle) touch() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen = time.Now()
}

// end returns when the flow ends.
func (i *idle) end() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen.Add(flowIdle)
}

// copy copies datagrams until neither direction has had one for a while. The network carries none that are larger than a packet.
func (i *idle) copy(to, from net.Conn, mtu int) {
	i.touch()
	b := make([]byte, mtu)
	for {
		_ = from.SetReadDeadline(i.end())
		n, err := from.Read(b)
		switch {
		case err == nil:
			i.touch()
			_, _ = to.Write(b[:n]) // as lost
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(i.end()):
		case errors.Is(err, syscall.ECONNREFUSED): // by an earlier datagram
		default:
			return
		}
	}
}
