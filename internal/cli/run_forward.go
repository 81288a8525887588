package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/dialout"
)

// A forwarder accepts connections on a loopback listener of this process and forwards them
// to the daemon. It adds the secret that the daemon requires, so the secret appears neither
// in the command's environment nor in proxy URLs, which end up in logs.
type forwarder struct {
	daemon        string // HOST:PORT
	authorization string // Proxy-Authorization
	// target is the destination of all connections. If empty, the listener is a proxy and
	// clients name the target with CONNECT.
	target string
	// outside dials proxy targets that Drydock does not serve.
	outside func(ctx context.Context, network, address string) (net.Conn, error)
}

// outsidePatience is the dial timeout for such targets.
const outsidePatience = 30 * time.Second

func newForwarder(daemonURL, authorization, target string) *forwarder {
	return &forwarder{
		daemon: strings.TrimPrefix(daemonURL, "http://"), authorization: authorization, target: target,
		outside: dialout.Dialer(outsidePatience).DialContext,
	}
}

// serve forwards until ctx ends, then closes all connections.
func (f *forwarder) serve(ctx context.Context, ln net.Listener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() }) // Accept sees it
	defer stop()
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ne, ok := err.(interface{ Temporary() bool }); ok && ne.Temporary() && ctx.Err() == nil {
				continue // the client disconnected early, or file descriptors ran out
			}
			return
		}
		wg.Go(func() { f.forward(ctx, conn) })
	}
}

func (f *forwarder) forward(ctx context.Context, near net.Conn) {
	defer near.Close()
	if !ownPeer(near) {
		return // the connection is from another user of this machine
	}
	stop := context.AfterFunc(ctx, func() { _ = near.Close() })
	defer stop()
	said, target := bufio.NewReader(near), f.target
	var plain *http.Request // for http, unlike CONNECT
	if target == "" {
		r, err := http.ReadRequest(said)
		if err != nil {
			return
		}
		target = r.Host
		if r.Method != http.MethodConnect {
			if r.URL.Scheme != "http" || r.URL.Hostname() == "" {
				answer(near, http.StatusBadRequest, "this is a proxy: want CONNECT HOST:PORT, or a request for http://HOST/")
				return
			}
			plain, target = r, net.JoinHostPort(r.URL.Hostname(), cmp.Or(r.URL.Port(), "80"))
		}
	}
	far, heard, err := f.dial(ctx, target)
	if f.target != "" && err != nil {
		return // the daemon explains the refusal in a notice
	}
	refused, ok := errors.AsType[*refusedError](err)
	if ok && refused.status == http.StatusMisdirectedRequest {
		if far, err = f.outside(ctx, "tcp", target); err == nil {
			heard = bufio.NewReader(far)
		}
	} else if ok {
		answer(near, refused.status, refused.said)
		return
	}
	if err != nil {
		answer(near, http.StatusBadGateway, err.Error())
		return
	}
	defer far.Close()
	stopFar := context.AfterFunc(ctx, func() { _ = far.Close() })
	defer stopFar()
	if plain != nil {
		plain.Header.Del("Proxy-Connection")
		plain.Header.Del("Proxy-Authorization")
		plain.Close = true
		if plain.UserAgent() == "" {
			plain.Header.Set("User-Agent", "") // otherwise Write would name a program
		}
		var answer sync.WaitGroup
		answer.Go(func() { _, _ = io.Copy(near, heard) }) // the client may have gone
		_ = plain.Write(far)                              // a server may answer and close before it has read everything
		answer.Wait()
		return
	}
	if f.target == "" {
		if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			return
		}
	}
	var other sync.WaitGroup
	other.Go(func() { pass(far, said, near) })
	pass(near, heard, far)
	other.Wait()
}

// A refusedError is an unsuccessful response of the daemon to CONNECT.
type refusedError struct {
	status int
	said   string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the daemon responded with %d: %s", e.status, e.said)
}

// dial connects to a target through the daemon.
func (f *forwarder) dial(ctx context.Context, target string) (net.Conn, *bufio.Reader, error) {
	far, err := new(net.Dialer).DialContext(ctx, "tcp", f.daemon)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = far.Close() })
	defer stop()
	_, err = fmt.Fprintf(far, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\nProxy-Authorization: %[2]s\r\n\r\n", target, f.authorization)
	heard := bufio.NewReader(far)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(heard, &http.Request{Method: http.MethodConnect})
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // a partial message is better than none
		err = &refusedError{resp.StatusCode, string(said)}
	}
	if err != nil {
		_ = far.Close()
		return nil, nil, err
	}
	return far, heard, nil
}

// answer sends an error response to a client of the proxy.
func answer(w io.Writer, status int, said string) {
	_, _ = fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(said), said) // ignore clients that disconnected
}

// pass copies until EOF and then half-closes to. An error closes both connections.
func pass(to net.Conn, from io.Reader, source net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		err = half.CloseWrite()
	}
	if err != nil {
		_ = to.Close()
		_ = source.Close()
	}
}
