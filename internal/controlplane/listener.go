package controlplane

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// holdTime is how long a connection waits for a plane that is starting.
	holdTime = 8 * time.Second

	// Endpoints use ports of this range. It is below the ports that operating systems use for outgoing connections,
	// which might otherwise occupy a port while the daemon restarts, and below Kubernetes' node ports.
	firstPort, lastPort = 21000, 29999
)

// listen opens a plane's endpoint: on port or, if port is 0, on a free port near a position derived from its ID.
func listen(ctx context.Context, address, id string, port int) (net.Listener, error) {
	var lc net.ListenConfig
	open := func(port int) (net.Listener, error) {
		return lc.Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	}
	if port != 0 {
		return open(port)
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, id)
	const n = lastPort - firstPort + 1
	for i := range n {
		l, err := open(firstPort + (int(h.Sum32()%n)+i)%n)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, fmt.Errorf("no free port between %d and %d on %s", firstPort, lastPort, address)
}

// A unixServer serves on a unix socket until it is closed.
type unixServer struct {
	path string
	stop func()
	done chan struct{}
}

// serveUnix has serve answer on a unix socket. stop makes serve return.
func serveUnix(ctx context.Context, path string, serve func(net.Listener) error, stop func()) (*unixServer, error) {
	l, err := listenUnix(ctx, path)
	if err != nil {
		stop()
		return nil, err
	}
	u := &unixServer{path, stop, make(chan struct{})}
	go func() {
		defer close(u.done)
		_ = serve(l) // close ends it
	}()
	return u, nil
}

func (u *unixServer) close() {
	u.stop()
	<-u.done
	_ = os.Remove(u.path)
}

// listenUnix listens on a unix socket that only the daemon's user can reach, replacing one that an earlier daemon
// left at path.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// An endpoint forwards allowed connections to the address that dial connects to.
type endpoint struct {
	listener net.Listener
	seenAs   func(from net.Addr) netip.Addr
	// refusal says why a client may not connect, or returns "".
	refusal func(from netip.Addr) string
	refused func(from netip.Addr, reason string)
	// silence is how long a client that may not connect is left without an answer.
	silence time.Duration
	// dial connects to the backend, waiting for it if necessary.
	dial func(ctx context.Context) (net.Conn, error)

	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // client connections
}

func (e *endpoint) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel, e.conns = cancel, map[net.Conn]struct{}{}
	e.wg.Go(func() {
		for {
			conn, err := e.listener.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil: // if file descriptors ran out, others will be closed
				select {
				case <-ctx.Done():
					return
				case <-time.After(50 * time.Millisecond):
				}
				continue
			}
			if !e.track(ctx, conn) {
				conn.Close()
				return
			}
			e.wg.Go(func() {
				defer e.untrack(conn)
				e.handle(ctx, conn)
			})
		}
	})
}

func (e *endpoint) track(ctx context.Context, conn net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	e.conns[conn] = struct{}{}
	return true
}

func (e *endpoint) untrack(conn net.Conn) {
	conn.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, conn)
}

func (e *endpoint) handle(ctx context.Context, conn net.Conn) {
	from := e.seenAs(conn.RemoteAddr())
	if reason := e.refusal(from); reason != "" {
		e.refused(from, reason)
		ignore(conn, e.silence)
		reset(conn)
		return
	}
	dctx, cancel := context.WithTimeout(ctx, holdTime)
	backend, err := e.dial(dctx)
	cancel()
	if err != nil {
		reset(conn)
		return
	}
	splice(ctx, conn, backend)
}

// ignore answers nothing to a client, until it leaves or for a time.
//
// AWS deviation: on AWS a refused client's packets are dropped, so it cannot even connect.
// No program can do that to a connection that its listener gets.
func ignore(conn net.Conn, patience time.Duration) {
	if conn.SetReadDeadline(time.Now().Add(patience)) == nil {
		_, _ = io.Copy(io.Discard, conn) // ends by the deadline, or when the client leaves
	}
}

// close stops listening and resets all connections.
func (e *endpoint) close() {
	e.listener.Close()
	e.cancel()
	e.mu.Lock()
	for conn := range e.conns {
		reset(conn)
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// reset closes a TCP connection so that the other side gets an error rather than an orderly end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// splice copies in both directions until both have ended or ctx has.
func splice(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { a.Close(); b.Close() })
	defer stop()
	var wg sync.WaitGroup
	one := func(dst, src net.Conn) {
		_, err := io.Copy(dst, src)
		if half, ok := dst.(interface{ CloseWrite() error }); ok && err == nil {
			_ = half.CloseWrite()
			return
		}
		a.Close()
		b.Close()
	}
	wg.Go(func() { one(a, b) })
	one(b, a)
	wg.Wait()
	a.Close()
	b.Close()
}
