package cli

import (
	"bufio"
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

// A forwarder passes the connections to a listener of this process on to the daemon,
// which decides about them. The secret that the daemon asks for stays in this process:
// the command could hand it to anybody, and proxy URLs end up in logs.
type forwarder struct {
	daemon        string // HOST:PORT
	authorization string // Proxy-Authorization
	// target is where all connections go. Empty: the listener is a proxy, whose clients
	// say it by CONNECT.
	target string
	// outside connects a proxy's clients with what is not Drydock's.
	outside func(ctx context.Context, network, address string) (net.Conn, error)
}

// outsidePatience bounds a connection to what is not Drydock's.
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
				continue // a client that left; out of descriptors, it fails for the next one
			}
			return
		}
		wg.Go(func() { f.forward(ctx, conn) })
	}
}

func (f *forwarder) forward(ctx context.Context, near net.Conn) {
	defer near.Close()
	if !ownPeer(near) {
		return // another user of this machine is not the command
	}
	stop := context.AfterFunc(ctx, func() { _ = near.Close() })
	defer stop()
	said, target := bufio.NewReader(near), f.target
	if target == "" {
		r, err := http.ReadRequest(said)
		if err != nil {
			return
		}
		if r.Method != http.MethodConnect {
			answer(near, http.StatusMethodNotAllowed, "this proxy is for https: CONNECT HOST:PORT")
			return
		}
		target = r.Host
	}
	far, heard, err := f.dial(ctx, target)
	if f.target != "" && err != nil {
		return // the command sees a connection that ends; the daemon tells why by a notice
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

// A refusedError is the daemon's answer to a CONNECT that it does not let through.
type refusedError struct {
	status int
	said   string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the daemon answers %d: %s", e.status, e.said)
}

// dial connects to a target by way of the daemon.
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
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what there is of it
		err = &refusedError{resp.StatusCode, string(said)}
	}
	if err != nil {
		_ = far.Close()
		return nil, nil, err
	}
	return far, heard, nil
}

// answer refuses a client of the proxy.
func answer(w io.Writer, status int, said string) {
	_, _ = fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(said), said) // the client may be gone
}

// pass copies until from ends, and tells to. A failure ends both.
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
