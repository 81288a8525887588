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
	"log/slog"
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
	Log  *slog.Logger
}

// Bounds. What is beyond is dropped, so that clients try again.
const (
	maxPending = 1024 // TCP connections that are being made
	maxBuffer  = 256 << 10
)

// A bound is how many connections there may be, and how long they may be silent.
type bound struct {
	all, each int // of all sources together, and of each
	idle      time.Duration
}

type bounds struct{ conns, flows, queries bound }

// usual are the bounds of Run. NAT gateways end what is silent for 350 seconds:
// https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-basics.html
// Resolvers use a new port for each query, so that flows to port 53 are many, and short.
var usual = bounds{conns: bound{8192, 2048, 350 * time.Second}, flows: bound{2048, 512, 350 * time.Second}, queries: bound{1024, 512, 30 * time.Second}}

// Machines that vanish do not end their connections. They are asked when they have been silent for a while.
const (
	keepaliveIdle     = tcpip.KeepaliveIdleOption(60 * time.Second)
	keepaliveInterval = tcpip.KeepaliveIntervalOption(10 * time.Second)
	keepaliveCount    = 5
)

const (
	dnsPort = 53
	nic     = 1
	queue   = 512 // packets to the device
)

// Run carries packets until ctx ends, or the device does, which is an error. It closes the device.
func Run(ctx context.Context, cfg Config) error { return run(ctx, cfg, usual) }

func run(ctx context.Context, cfg Config, b bounds) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	link := channel.New(queue, uint32(cfg.MTU), "")
	s, err := newStack(link)
	if err != nil {
		return err
	}
	defer s.Destroy()
	c := &carrier{
		ctx: ctx, dial: cfg.Dial, mtu: cfg.MTU,
		conns: newQuota("TCP connections", b.conns, cfg.Log), flows: newQuota("flows of UDP", b.flows, cfg.Log), queries: newQuota("flows of UDP to port 53", b.queries, cfg.Log),
	}
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
	packet := make([]byte, cfg.MTU)
	for {
		n, err := cfg.Device.Read(packet)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading packets for the internet: %w", err)
		}
		if !carried(packet[:n]) {
			continue
		}
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(packet[:n])})
		link.InjectInbound(ipv4.ProtocolNumber, p)
		p.DecRef()
	}
}

// newStack returns a stack that is all addresses behind a link.
func newStack(link stack.LinkEndpoint) (*stack.Stack, error) {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	sack, tuned := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true)
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: maxBuffer / 2, Max: maxBuffer}
	send := tcpip.TCPSendBufferSizeRangeOption(receive)
	for _, err := range []tcpip.Error{
		s.SetTransportProtocolOption(tcp.ProtocolNumber, &sack), s.SetTransportProtocolOption(tcp.ProtocolNumber, &tuned),
		s.SetTransportProtocolOption(tcp.ProtocolNumber, &receive), s.SetTransportProtocolOption(tcp.ProtocolNumber, &send),
		s.CreateNIC(nic, link),
		s.SetPromiscuousMode(nic, true), // packets to all addresses are for this stack,
		s.SetSpoofing(nic, true),        // which answers as each of them
	} {
		if err != nil {
			s.Destroy()
			return nil, fmt.Errorf("the stack of the internet: %s", err)
		}
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	return s, nil
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
	ctx                   context.Context //nolint:containedctx // of Run
	dial                  func(ctx context.Context, network, address string) (net.Conn, error)
	mtu                   int
	conns, flows, queries *quota
}

// A quota counts what is open, by the source's address.
type quota struct {
	bound
	what string
	log  *slog.Logger

	mu   sync.Mutex
	open int
	of   map[tcpip.Address]int
	said sync.Once
}

func newQuota(what string, b bound, log *slog.Logger) *quota {
	return &quota{bound: b, what: what, log: log, of: map[tcpip.Address]int{}}
}

// take reports whether a source may have one more, which it then has until give.
func (q *quota) take(from tcpip.Address) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open >= q.all || q.of[from] >= q.each {
		q.said.Do(func() {
			q.log.Warn("machines have too many connections to the internet: further ones are dropped", "what", q.what, "source", from.String(), "its own", q.of[from], "all", q.open)
		})
		return false
	}
	q.open++
	q.of[from]++
	return true
}

func (q *quota) give(from tcpip.Address) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open--
	if q.of[from]--; q.of[from] == 0 {
		delete(q.of, from)
	}
}

// to returns the address that a packet is for.
func to(id stack.TransportEndpointID) string {
	return netip.AddrPortFrom(netip.AddrFrom4(id.LocalAddress.As4()), id.LocalPort).String()
}

// tcp accepts a connection once the one to the internet is made. What refuses it there is refused here.
func (c *carrier) tcp(r *tcp.ForwarderRequest) {
	from := r.ID().RemoteAddress
	if !c.conns.take(from) {
		r.Complete(false)
		return
	}
	defer c.conns.give(from)
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
	keepAlive(ep)
	near := gonet.NewTCPConn(&wq, ep)
	defer near.Close()
	c.join(near, far, c.conns.idle, copyHalf)
}

// keepAlive finds out when the other end has vanished.
func keepAlive(ep tcpip.Endpoint) {
	idle, interval := keepaliveIdle, keepaliveInterval
	_, _, _ = ep.SetSockOpt(&idle), ep.SetSockOpt(&interval), ep.SetSockOptInt(tcpip.KeepaliveCountOption, keepaliveCount) // no socket of TCP refuses them
	ep.SocketOptions().SetKeepAlive(true)
}

// join carries data in both directions until both are done, neither has carried anything for a while, or Run ends.
func (c *carrier) join(near, far net.Conn, idle time.Duration, carry func(to, from net.Conn, seen func())) {
	end := func() { _ = errors.Join(near.Close(), far.Close()) }
	defer context.AfterFunc(c.ctx, end)()
	silence := time.AfterFunc(idle, end)
	defer silence.Stop()
	seen := func() { silence.Reset(idle) }
	var back sync.WaitGroup
	back.Go(func() { carry(near, far, seen) })
	carry(far, near, seen)
	back.Wait()
}

// copyHalf copies until one end is done, and says so to the other.
func copyHalf(to, from net.Conn, seen func()) {
	b := make([]byte, 32<<10)
	var err error
	for err == nil {
		var n int
		n, err = from.Read(b)
		if n > 0 {
			seen()
			if _, failed := to.Write(b[:n]); failed != nil {
				err = failed
			}
			seen() // a slow reader has taken it
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok && errors.Is(err, io.EOF) {
		_ = half.CloseWrite()
		return
	}
	_ = errors.Join(to.Close(), from.Close()) // one of them is broken
}

// udp carries the datagrams between two addresses until they have been silent.
func (c *carrier) udp(r *udp.ForwarderRequest) {
	from, flows := r.ID().RemoteAddress, c.flows
	if r.ID().LocalPort == dnsPort {
		flows = c.queries
	}
	if !flows.take(from) {
		return
	}
	var wq waiter.Queue
	ep, e := r.CreateEndpoint(&wq)
	if e != nil {
		flows.give(from)
		return
	}
	near := gonet.NewUDPConn(&wq, ep)
	go func() {
		defer flows.give(from)
		defer near.Close()
		far, err := c.dial(c.ctx, "udp4", to(r.ID()))
		if err != nil {
			return
		}
		defer far.Close()
		c.join(near, far, flows.idle, c.copyDatagrams)
	}()
}

// copyDatagrams copies until one end is broken. The network carries no datagrams that are larger than a packet.
func (c *carrier) copyDatagrams(to, from net.Conn, seen func()) {
	b := make([]byte, c.mtu)
	for {
		n, err := from.Read(b)
		switch {
		case err == nil:
			seen()
			_, _ = to.Write(b[:n]) // as lost
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH): // by an earlier datagram
		default:
			_ = errors.Join(to.Close(), from.Close())
			return
		}
	}
}
