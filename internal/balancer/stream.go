package balancer

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// connectPatience is how long a target may take to accept a connection.
const connectPatience = 10 * time.Second

// stream forwards a connection of layer 4 to a target, until both directions have ended. If there is no target, the
// connection is reset.
func (l *listener) stream(c net.Conn, client netip.AddrPort) {
	w, p := l.want.Load(), l.b.plane
	g := l.b.route(w.Rules[len(w.Rules)-1].Action)
	t, ok := choice{}, false
	if g != nil {
		t, ok = g.pick(client, nil)
	}
	if !ok {
		p.log.Debug("a load balancer has no target", "name", l.b.name, "port", w.Port)
		reset(c)
		return
	}
	ctx, cancel := context.WithTimeout(l.b.ctx, connectPatience)
	defer cancel()
	source := netip.AddrPort{}
	if t.PreserveClient {
		source = client
	}
	raw, err := t.dial(ctx, "", source)
	if err != nil {
		p.log.Debug("a load balancer does not reach a target", "name", l.b.name, "target", t.TargetID.ID, "port", t.Port, "err", err)
		reset(c)
		return
	}
	defer func() { _ = t.done(raw) }()
	if t.Proxy > 0 {
		_, err = raw.Write(proxyHeader(t.Proxy, client, netip.AddrPortFrom(addressOf(raw.LocalAddr()), w.Port)))
	}
	far := raw
	if err == nil && (t.Protocol == "TLS" || t.Protocol == "SSL") {
		secure := tls.Client(raw, anyTarget())
		far, err = secure, secure.HandshakeContext(ctx)
	}
	if err != nil {
		p.log.Debug("a load balancer does not reach a target", "name", l.b.name, "target", t.TargetID.ID, "port", t.Port, "err", err)
		reset(c)
		return
	}
	join(c, far)
}

// route returns the group that an action forwards to, by chance according to their weights.
func (b *running) route(a elbv2types.Action) *group {
	b.plane.mu.Lock()
	defer b.plane.mu.Unlock()
	return b.groups[chosen(a)]
}

// reset makes the client see that its connection was reset.
func reset(c net.Conn) {
	if tcp, ok := plain(c).(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// plain returns the connection below those that only know more about it.
func plain(c net.Conn) net.Conn {
	if a, ok := c.(*accepted); ok {
		return a.Conn
	}
	return c
}

// join copies in both directions until both have ended. The kernel moves the bytes where it can.
func join(a, b net.Conn) {
	a, b = plain(a), plain(b)
	one := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if err == nil {
			err = closeWrite(to)
		}
		if err != nil { // the other direction ends, too
			_ = a.Close()
			_ = b.Close()
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { one(a, b) })
	one(b, a)
	wg.Wait()
}

// closeWrite closes a connection for sending, but not for receiving.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// addressOf returns the IP address in an address, or 0.0.0.0.
func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.IPv4Unspecified()
}

// proxyHeader returns the header of the proxy protocol, which tells a target who the client is.
// https://www.haproxy.org/download/1.8/doc/proxy-protocol.txt
func proxyHeader(version int, from, to netip.AddrPort) []byte {
	if version == 1 {
		return fmt.Appendf(nil, "PROXY TCP4 %s %s %d %d\r\n", from.Addr(), to.Addr(), from.Port(), to.Port())
	}
	out := []byte("\r\n\r\n\x00\r\nQUIT\n\x21")
	family := byte(0x11) // TCP over IPv4
	if !from.Addr().Is4() || !to.Addr().Is4() {
		family = 0x21
	}
	var addresses []byte
	for _, a := range []netip.Addr{from.Addr(), to.Addr()} {
		if family == 0x21 {
			b := a.As16()
			addresses = append(addresses, b[:]...)
		} else {
			addresses = append(addresses, a.AsSlice()...)
		}
	}
	addresses = binary.BigEndian.AppendUint16(addresses, from.Port())
	addresses = binary.BigEndian.AppendUint16(addresses, to.Port())
	out = append(out, family)
	out = binary.BigEndian.AppendUint16(out, uint16(len(addresses)))
	return append(out, addresses...)
}
