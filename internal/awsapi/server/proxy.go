package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// A Proxy answers CONNECT for programs that only know AWS's own endpoints. Connections to AWS names are served here,
// with a certificate for that name. It never dials out: `drydock run`, which sits in front of it, dials all other
// targets as its own user. The proxy serves only this machine, and its caller authenticates the client.
type Proxy struct {
	// listener accepts the connections to AWS's names.
	listener *splitListener
	log      *slog.Logger

	mu    sync.Mutex
	conns map[net.Conn]struct{} // of tunnels; nil once Run has ended
	loops sync.WaitGroup
}

// NewProxy returns a Proxy that passes connections to ln, which comes from Listen or Split.
func NewProxy(ln net.Listener, log *slog.Logger) *Proxy {
	s, _ := ln.(*splitListener)
	return &Proxy{listener: s, log: log, conns: map[net.Conn]struct{}{}}
}

// Run waits until ctx ends, then closes the tunnels.
func (p *Proxy) Run(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close() // its loops notice that
	}
	p.conns = nil
	p.mu.Unlock()
	p.loops.Wait()
	return nil
}

// ServeHTTP answers a CONNECT request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if remote, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !remote.Addr().Unmap().IsLoopback() {
		http.Error(w, "only this machine may use the proxy", http.StatusForbidden)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	host, _, err := net.SplitHostPort(r.Host)
	if !ok || err != nil || p.listener == nil {
		http.Error(w, "want CONNECT HOST:PORT in HTTP/1.1", http.StatusBadRequest)
		return
	}
	if AWSHost(host) {
		p.Answer(w, hijacker, nil)
		return
	}
	http.Error(w, host+" is not served by Drydock", http.StatusMisdirectedRequest)
}

// Answer takes over the connection of a CONNECT request and serves it as if it had come to the listener. wrap, unless
// nil, wraps the connection.
func (p *Proxy) Answer(w http.ResponseWriter, hijacker http.Hijacker, wrap func(net.Conn) net.Conn) {
	near := takeOver(w, hijacker)
	if near == nil {
		return
	}
	if wrap != nil {
		near = wrap(near)
	}
	p.listener.feed(near)
}

// Tunnel joins the connection of a CONNECT request with another, which the proxy owns from then on.
func (p *Proxy) Tunnel(w http.ResponseWriter, hijacker http.Hijacker, far net.Conn) {
	near := takeOver(w, hijacker)
	if near == nil {
		_ = far.Close() // nothing was sent on it
		return
	}
	p.tunnel(near, far)
}

// takeOver accepts a CONNECT request. It returns nil if the client has disconnected.
func takeOver(w http.ResponseWriter, hijacker http.Hijacker) net.Conn {
	near, buffered, err := hijacker.Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return nil
	}
	_ = near.SetDeadline(time.Time{}) // a dead connection fails in Write
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil || buffered.Reader.Buffered() > 0 {
		// The client disconnected, or sent data too early.
		_ = near.Close()
		return nil
	}
	return near
}

// tunnel copies in both directions until both have ended, or one has failed.
func (p *Proxy) tunnel(a, b net.Conn) {
	p.mu.Lock()
	open := p.conns != nil
	if open {
		p.conns[a], p.conns[b] = struct{}{}, struct{}{}
		p.loops.Add(1)
	}
	p.mu.Unlock()
	if !open {
		_ = a.Close()
		_ = b.Close()
		return
	}
	one := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if err == nil {
			err = closeWrite(to) // a side that has finished sending may still receive
		}
		if err != nil {
			p.log.Debug("proxy: a tunnel ended", "error", err)
			_ = a.Close() // the other way ends too
			_ = b.Close()
		}
	}
	go func() {
		defer p.loops.Done()
		var other sync.WaitGroup
		other.Go(func() { one(a, b) })
		one(b, a)
		other.Wait()
		_ = a.Close() // both ends already know
		_ = b.Close()
		p.mu.Lock()
		delete(p.conns, a)
		delete(p.conns, b)
		p.mu.Unlock()
	}()
}

// closeWrite closes a connection for sending but not for receiving.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// AWSHost reports whether a host name is one of AWS's service endpoints.
func AWSHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, suffix := range []string{".amazonaws.com", ".api.aws"} {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}
