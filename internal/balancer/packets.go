package balancer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/drydock-dev/drydock/internal/store"
)

// A packetListener is a listener for UDP that runs. It has the number of its port on this machine in common with one for TCP
// at the same port of the load balancer.
type packetListener struct {
	b      *running
	want   atomic.Pointer[Listener]
	local  uint16
	c      *net.UDPConn
	cancel context.CancelFunc
	flows  *Flows[netip.AddrPort]
}

// setPackets starts and ends the listeners for UDP. ports are the numbers on this machine.
func (b *running) setPackets(want []Listener, ports map[uint16]uint16) error {
	for port, l := range b.packets {
		if !slices.ContainsFunc(want, func(w Listener) bool { return w.Port == port && w.packets() }) {
			l.close()
			delete(b.packets, port)
		}
	}
	for i := range want {
		w := &want[i]
		if !w.packets() {
			continue
		}
		l := b.packets[w.Port]
		if l == nil {
			var err error
			if l, err = b.listenPackets(ports[w.Port]); err != nil {
				return fmt.Errorf("a port for %s:%d: %w", b.name, w.Port, err)
			}
			b.packets[w.Port] = l
			l.want.Store(w)
			b.do(l.accept)
		}
		l.want.Store(w)
	}
	return nil
}

// packets reports whether the listener is for UDP.
func (l *Listener) packets() bool { return l.Protocol == "UDP" }

func (b *running) listenPackets(port uint16) (*packetListener, error) {
	at := net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)}
	c, err := net.ListenUDP("udp4", &at)
	if err != nil && port != 0 {
		at.Port = 0
		c, err = net.ListenUDP("udp4", &at)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(b.ctx)
	return &packetListener{b: b, c: c, local: uint16(c.LocalAddr().(*net.UDPAddr).Port), cancel: cancel, flows: NewFlows(ctx, b.do, netip.AddrPort.String)}, nil
}

func (l *packetListener) close() {
	l.cancel()
	_ = l.c.Close()
}

// accept forwards the datagrams of this machine.
func (l *packetListener) accept() {
	b := make([]byte, MaxDatagram)
	for {
		n, from, err := l.c.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of one datagram
		}
		client := netip.AddrPortFrom(l.b.plane.cfg.Client, from.Port())
		l.flows.Send(from, b[:n], func(ctx context.Context) (net.Conn, error) {
			p := l.b.plane
			if p.network.Admit != nil {
				if err := p.network.Admit(ctx, l.b.key.Account, l.b.key.Region, l.b.name, "udp", l.want.Load().Port); err != nil {
					p.log.Debug("a load balancer's client was refused", "name", l.b.name, "port", l.want.Load().Port, "err", err)
					return nil, err
				}
			}
			return l.dial(ctx, client)
		}, func(b []byte) { _, _ = l.c.WriteToUDPAddrPort(b, from) }) // the client asks again
	}
}

// dial connects to a target for a client.
func (l *packetListener) dial(ctx context.Context, client netip.AddrPort) (net.Conn, error) {
	w := l.want.Load()
	g := l.b.route(w.Rules[len(w.Rules)-1].Action)
	t, ok := choice{}, false
	if g != nil {
		t, ok = g.pick(client, nil)
	}
	if !ok {
		return nil, errNoTarget
	}
	source := netip.AddrPort{}
	if t.PreserveClient {
		source = client
	}
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	c, err := t.dial(ctx, "udp", source)
	if err != nil {
		return nil, err
	}
	return &targeted{c, t.target}, nil
}

var errNoTarget = errors.New("the load balancer has no target")

// A targeted connection is kept by its target until it is closed.
type targeted struct {
	net.Conn
	t *target
}

// Close implements net.Conn.
func (c *targeted) Close() error { return c.t.done(c.Conn) }

// ConnectPackets returns a connection for the datagrams of a client to a target of a listener for UDP. The network has let
// the client through.
func (p *Plane) ConnectPackets(ctx context.Context, key store.Key, port uint16, client netip.AddrPort) (net.Conn, error) {
	l := p.packetsAt(key, port)
	if l == nil {
		return nil, ErrNoListener
	}
	return l.dial(ctx, client)
}

// packetsAt returns the listener for UDP at a port of a load balancer, or nil.
func (p *Plane) packetsAt(key store.Key, port uint16) *packetListener {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.balancers[key]; b != nil {
		return b.packets[port]
	}
	return nil
}

// Ports returns the ports of a load balancer at which it carries traffic.
func (p *Plane) Ports(key store.Key) (tcp, udp []uint16) {
	for _, o := range p.Open(key) {
		switch {
		case o.Protocol == "UDP":
			udp = append(udp, o.Port)
		case o.Fault == "":
			tcp = append(tcp, o.Port)
		}
	}
	return tcp, udp
}
