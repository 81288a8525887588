package compute

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"sync"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// A boxConn is a connection of an instance or its pods to what is not a machine.
type boxConn struct {
	net.Conn
	in    machine.Instance
	once  sync.Once
	close func()
}

type boxConnKey struct{}

// Close implements net.Conn.
func (c *boxConn) Close() error {
	c.once.Do(c.close)
	return c.Conn.Close()
}

// CloseWrite ends what the instance reads.
func (c *boxConn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return c.Close()
}

// reset makes Close end the connection as if nothing listened.
func (c *boxConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// A handoff is a listener for connections that were accepted elsewhere.
type handoff struct {
	conns chan net.Conn
	done  <-chan struct{}
}

// Accept implements net.Listener.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handoff) Close() error { return nil }

// Addr implements net.Listener.
func (h *handoff) Addr() net.Addr { return metadataAddress }

// accept serves a connection of an instance, unless it has too many. serve closes the connection.
func (n *boxNetwork) accept(raw net.Conn, eni string, serve func(*boxConn)) {
	in, ok := n.from(eni)
	if ok {
		n.links(in, func(b *boxLinks) {
			if ok = b.conns < maxBoxConns; ok {
				b.conns++
			}
		})
	}
	if !ok {
		_ = raw.Close()
		return
	}
	go serve(&boxConn{Conn: raw, in: in, close: func() { n.links(in, func(b *boxLinks) { b.conns = max(0, b.conns-1) }) }})
}

func (n *boxNetwork) serveMetadata(w http.ResponseWriter, r *http.Request) {
	in, ok := r.Context().Value(boxConnKey{}).(machine.Instance)
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !ok {
		panic(http.ErrAbortHandler)
	}
	hops := 1
	if from.Addr() != in.PrivateIP { // a pod's
		hops = 2
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: metadataAddress.IP.String()})
			if xff := p.In.Header.Values("X-Forwarded-For"); len(xff) > 0 {
				p.Out.Header["X-Forwarded-For"] = xff // the metadata service refuses tokens to proxies
			}
		},
		Transport:    n.machines.Metadata(in.ID, hops),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // as if no answer came
	}
	proxy.ServeHTTP(w, r)
}

// lead leads a connection to where the client believes to be connected.
func (n *boxNetwork) lead(c *boxConn, metadata *handoff) {
	to, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err == nil && to.String() == metadataAddress.String() && c.in.Fargate { // Fargate has no metadata service
		c.reset()
		_ = c.Close()
		return
	}
	if err == nil && to.String() == metadataAddress.String() {
		select {
		case metadata.conns <- c:
		case <-metadata.done:
			_ = c.Close()
		}
		return
	}
	defer c.Close()
	if err != nil {
		return
	}
	name := n.nameOf(c.in, to.Addr())
	from, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	backend, err := n.guests.dial(machine.WithSource(ctx, from), c.in, name, int(to.Port()))
	if err != nil {
		n.log.Debug("a connection of a machine was refused", "instance", c.in.ID, "to", name, "port", to.Port(), "err", err)
		n.learn(ctx, c.in, name, to.Addr())
		if silent(err) && node.DecisionOf(err) != nil && n.dropped(ctx, c.in, name, to.Port()) { // the network has just changed; a target that does not answer may do so later
			if err := n.darken(ctx, map[string][]netip.AddrPort{c.in.ID: {to}}); err != nil {
				n.log.Warn("the network of machines that run containers could not be changed", "err", err)
			}
		}
		c.reset()
		return
	}
	defer backend.Close()
	join(c, backend)
}

// nameOf returns the name from which an address was last resolved by an instance, or by another of its VPC, such as one that
// runs the cluster's DNS server; otherwise, and for simulated machines, the address itself.
func (n *boxNetwork) nameOf(in machine.Instance, a netip.Addr) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	// If an instance has only tried the address, the name that another one has resolved says more.
	own := ""
	if b := n.boxes[in.ID]; b != nil {
		own = b.names[a]
	}
	if own != "" && own != a.String() {
		return n.answers.host(in.VPCID, a, own)
	}
	for _, b := range n.boxes {
		if b.vpc == in.VPCID && b.names[a] != "" {
			return n.answers.host(in.VPCID, a, b.names[a])
		}
	}
	return a.String()
}

// join copies in both directions until both have ended.
func join(a, b net.Conn) {
	one := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
			return
		}
		_ = to.Close()
	}
	var wg sync.WaitGroup
	wg.Go(func() { one(a, b) })
	one(b, a)
	wg.Wait()
}
