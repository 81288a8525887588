package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

const (
	// peekTimeout is how long a new connection may stay silent. It is that of idle ones:
	// clients keep connections that they have made in advance for 90 s, and a request that
	// is sent while the server closes one fails with "use of closed network connection".
	peekTimeout = idleTimeout
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 2 * time.Minute
	// acceptPause is the pause after a temporary failure to accept.
	acceptPause = 100 * time.Millisecond
	// answerTimeout is how long a whole request may take, from its header to the end of its answer, so that a client
	// that does not read ties up nothing for longer. Endless answers set their own deadline; tunnels have none.
	answerTimeout = 5 * time.Minute
	// drainTimeout is how long requests in progress may take when serving ends.
	drainTimeout = 5 * time.Second
)

// Listen listens on a TCP address for both http and https; see Split.
func Listen(ctx context.Context, address string, tlsConfig *tls.Config) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return Split(ln, tlsConfig), nil
}

// Split makes ln serve http and https alike: a connection whose first byte
// begins a TLS handshake is wrapped by tlsConfig. A client that sends nothing
// does not block others and is dropped after two minutes. A nil tlsConfig
// returns ln.
func Split(ln net.Listener, tlsConfig *tls.Config) net.Listener {
	if tlsConfig == nil {
		return ln
	}
	tlsConfig = tlsConfig.Clone()
	if len(tlsConfig.NextProtos) == 0 {
		tlsConfig.NextProtos = []string{"h2", "http/1.1"}
	}
	s := &splitListener{
		Listener: ln, config: tlsConfig,
		ready: make(chan net.Conn), failed: make(chan error, 1), done: make(chan struct{}),
		waiting: map[net.Conn]struct{}{},
	}
	s.loops.Go(s.accept)
	return s
}

type splitListener struct {
	net.Listener
	config *tls.Config
	ready  chan net.Conn
	failed chan error
	done   chan struct{}
	close  sync.Once
	loops  sync.WaitGroup

	mu      sync.Mutex
	waiting map[net.Conn]struct{} // connections silent so far; nil once closed
}

func (s *splitListener) accept() {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			if passing(err) {
				select {
				case <-time.After(acceptPause):
					continue
				case <-s.done:
				}
			}
			s.failed <- err
			return
		}
		s.feed(conn)
	}
}

// feed accepts a new connection on which nothing was sent yet.
func (s *splitListener) feed(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		_ = conn.Close() // the listener is closed
		return
	}
	s.waiting[conn] = struct{}{}
	s.loops.Go(func() { s.peek(conn) })
}

// passing reports whether accepting may work again later, as when file descriptors ran out or a client disconnected
// before it was accepted.
func passing(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
}

func (s *splitListener) peek(conn net.Conn) {
	var first [1]byte
	_ = conn.SetReadDeadline(time.Now().Add(peekTimeout)) // a dead connection fails in Read
	_, err := conn.Read(first[:])
	s.mu.Lock()
	delete(s.waiting, conn)
	s.mu.Unlock()
	if err != nil {
		_ = conn.Close() // nothing was sent on it
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	var out net.Conn = &peekedConn{Conn: conn, first: first[:]}
	if first[0] == 0x16 { // TLS handshake record
		out = tls.Server(out, s.config)
	}
	select {
	case s.ready <- out:
	case <-s.done:
		_ = conn.Close() // the listener is closed
	}
}

func (s *splitListener) Accept() (net.Conn, error) {
	select {
	case c := <-s.ready:
		return c, nil
	case err := <-s.failed:
		s.failed <- err // for the next caller
		return nil, err
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and every connection that has not sent anything yet. It returns when all of its
// goroutines have ended.
func (s *splitListener) Close() error {
	err := net.ErrClosed
	s.close.Do(func() {
		close(s.done)
		err = s.Listener.Close()
		s.mu.Lock()
		for c := range s.waiting {
			_ = c.Close() // its peek returns
		}
		s.waiting = nil
		s.mu.Unlock()
		s.loops.Wait()
	})
	return err
}

// A peekedConn gives back the byte that was read to tell TLS from HTTP.
type peekedConn struct {
	net.Conn
	first []byte
}

func (c *peekedConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite lets tunnels half-close: see Proxy.
func (c *peekedConn) CloseWrite() error { return closeWrite(c.Conn) }

// Serve answers requests on ln with h until ctx ends. It then sends held answers at once, waits a few seconds for
// requests in progress, and closes ln. It returns nil after such an end. HTTP/2 is available if ln is from Listen or
// Split.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	if log == nil {
		log = slog.Default()
	}
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       2 * time.Minute,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context {
			return withDrain(context.WithoutCancel(ctx), ctx.Done())
		},
	}
	if s, ok := ln.(*splitListener); ok {
		srv.TLSConfig = s.config
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		_ = srv.Close() // some requests did not end in time
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
