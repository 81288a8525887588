package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/drydock-dev/drydock/internal/api"
)

// A forwarder passes the connections to a listener of a run on to the daemon, which
// decides about them. The secret by which the daemon knows the run stays in this
// process, so that the command can hand it to nobody.
type forwarder struct {
	daemon, secret, target string
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
		return // another user of this machine is not the pod
	}
	far, err := new(net.Dialer).DialContext(ctx, "tcp", f.daemon)
	if err != nil {
		return // the command sees a connection that ends
	}
	defer far.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = near.Close()
		_ = far.Close()
	})
	defer stop()
	if _, err := fmt.Fprintf(far, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\nProxy-Authorization: %s%s\r\n\r\n", f.target, api.PodRunAuthorization, f.secret); err != nil {
		return
	}
	in := bufio.NewReader(far)
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return // the daemon tells why by a notice
	}
	var other sync.WaitGroup
	other.Go(func() { pass(far, near, near) })
	pass(near, in, far)
	other.Wait()
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
