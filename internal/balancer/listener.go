package balancer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// A listener is a listener that runs.
type listener struct {
	b     *running
	want  atomic.Pointer[Listener]
	local uint16 // port on this machine
	ln    net.Listener
	// server serves a listener for HTTP, from conns.
	server *http.Server
	conns  *handoff

	mu     sync.Mutex
	open   map[net.Conn]struct{} // connections of layer 4, and those that have not been passed on
	closed bool
}

const (
	headerPatience    = 60 * time.Second
	handshakePatience = 10 * time.Second
	// refusedPatience is how long the connection of a client stays open that the network does not let through. It gets no
	// answer, as if its packets had been dropped.
	refusedPatience = 2 * time.Minute
	// maxConns is how many connections a listener has at once.
	maxConns = 10_000
)

// same reports whether the listener can go on with new settings.
func (l *listener) same(w *Listener) bool {
	old := l.want.Load()
	return old.Fault == w.Fault && old.layer7() == w.layer7() && (old.TLS == nil) == (w.TLS == nil) && old.Web.HTTP2 == w.Web.HTTP2 && old.Web.Idle == w.Web.Idle
}

// listen starts a listener, at a port of this machine if it is free.
func (b *running) listen(w *Listener, port uint16) (*listener, error) {
	ln, err := listenAt(b.ctx, port)
	if err != nil {
		return nil, err
	}
	l := &listener{b: b, ln: ln, local: uint16(ln.Addr().(*net.TCPAddr).Port), open: map[net.Conn]struct{}{}}
	l.want.Store(w)
	if w.layer7() {
		l.conns = &handoff{conns: make(chan net.Conn), done: make(chan struct{}), at: ln.Addr()}
		l.server = &http.Server{
			Handler: l, ReadHeaderTimeout: headerPatience, IdleTimeout: w.Web.Idle, Protocols: new(http.Protocols),
			MaxHeaderBytes: 64 << 10, // https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
			ErrorLog:       log.New(debugWriter{b.plane}, "", 0),
		}
		l.server.Protocols.SetHTTP1(true)
		l.server.Protocols.SetHTTP2(w.Web.HTTP2)
		b.do(func() { _ = l.server.Serve(l.conns) }) // until it is closed
	}
	b.do(l.accept)
	return l, nil
}

// debugWriter writes what an HTTP server finds wrong with clients.
type debugWriter struct{ p *Plane }

func (d debugWriter) Write(b []byte) (int, error) {
	d.p.log.Debug("load balancer", "says", string(b))
	return len(b), nil
}

func (l *listener) close() {
	if l.ln == nil {
		return
	}
	l.mu.Lock()
	l.closed = true
	for c := range l.open {
		_ = c.Close()
	}
	l.mu.Unlock()
	_ = l.ln.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// accept accepts connections of this machine.
func (l *listener) accept() {
	for {
		c, err := l.ln.Accept()
		if err != nil {
			if ne, ok := errors.AsType[interface {
				error
				Temporary() bool
			}](err); ok && ne.Temporary() && l.b.ctx.Err() == nil {
				select {
				case <-time.After(50 * time.Millisecond): // file descriptors may have run out
				case <-l.b.ctx.Done():
				}
				continue
			}
			return
		}
		from, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err != nil {
			_ = c.Close()
			continue
		}
		client := netip.AddrPortFrom(l.b.plane.cfg.Client, from.Port())
		if !l.track(c) {
			continue
		}
		l.b.do(func() {
			if a := l.accepted(c, client); l.admit(c) {
				l.handle(a)
			} else {
				_ = a.Close()
			}
		})
	}
}

// serve serves a connection that was accepted elsewhere.
func (l *listener) serve(c net.Conn, client netip.AddrPort) {
	if l.track(c) {
		l.b.do(func() { l.handle(l.accepted(c, client)) })
	}
}

func (l *listener) accepted(c net.Conn, client netip.AddrPort) *accepted {
	return &accepted{Conn: c, client: client, gone: func() { l.untrack(c) }}
}

// track keeps a connection, to close it with the listener. If there are too many, it closes it and returns false.
func (l *listener) track(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.open) >= maxConns {
		_ = c.Close()
		return false
	}
	l.open[c] = struct{}{}
	return true
}

func (l *listener) untrack(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// admit reports whether the network lets this machine connect. If not, it first waits until the client gives up.
func (l *listener) admit(c net.Conn) bool {
	p, w := l.b.plane, l.want.Load()
	if p.network.Admit == nil {
		return true
	}
	err := p.network.Admit(l.b.ctx, l.b.key.Account, l.b.key.Region, l.b.name, "tcp", w.Port)
	if err == nil {
		return true
	}
	p.log.Debug("a load balancer's client was refused", "name", l.b.name, "port", w.Port, "err", err)
	_ = c.SetReadDeadline(time.Now().Add(refusedPatience))
	_, _ = io.Copy(io.Discard, c)
	return false
}

// handle serves a connection.
func (l *listener) handle(c *accepted) {
	w := l.want.Load()
	var conn net.Conn = c
	if w.TLS != nil {
		secure := tls.Server(c, &tls.Config{ //nolint:gosec // the listener's policy decides about versions
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.want.Load().TLS, nil },
		})
		ctx, cancel := context.WithTimeout(l.b.ctx, handshakePatience)
		err := secure.HandshakeContext(ctx)
		cancel()
		if err != nil {
			l.b.plane.log.Debug("a load balancer's client does not agree about TLS", "name", l.b.name, "err", err)
			_ = c.Close()
			return
		}
		conn = secure
	}
	if l.server != nil {
		l.conns.give(conn)
		return
	}
	defer conn.Close()
	l.stream(conn, c.client)
}

// A handoff is a listener for connections that were accepted elsewhere.
type handoff struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	at    net.Addr
}

func (h *handoff) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		_ = c.Close()
	}
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
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr implements net.Listener.
func (h *handoff) Addr() net.Addr { return h.at }
