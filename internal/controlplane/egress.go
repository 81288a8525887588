package controlplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// ErrRunsNothing is the error for a connection to a simulated node or its pods.
var ErrRunsNothing = errors.New("pods on simulated nodes run nothing: there is no kubelet, log, shell or server behind this address")

// serveEgress accepts the connections that a plane's API server makes to nodes, pods and services: HTTP CONNECT on a
// unix socket.
func serveEgress(ctx context.Context, path string, dial func(ctx context.Context, address string) (net.Conn, error)) (*unixServer, error) {
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	server := &http.Server{
		Handler:           connectHandler(serving, dial),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return serving },
	}
	return serveUnix(ctx, path, server.Serve, func() {
		cancel()
		server.Close()
	})
}

// connectHandler ends its connections with ctx, because a request's own context ends when the client has no more to
// send.
func connectHandler(ctx context.Context, dial func(ctx context.Context, address string) (net.Conn, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT is supported", http.StatusMethodNotAllowed)
			return
		}
		backend, err := dial(r.Context(), r.Host)
		conn, buf, herr := http.NewResponseController(w).Hijack()
		if herr != nil {
			if backend != nil {
				backend.Close()
			}
			return
		}
		defer conn.Close()
		if err != nil {
			// The API server only shows the status line to its user.
			reason := strings.Map(printable, err.Error())
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 503 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", reason)
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			backend.Close()
			return
		}
		splice(ctx, &bufferedConn{conn, buf.Reader}, backend)
	}
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return ' '
	}
	return r
}

// bufferedConn first returns what the HTTP server has read beyond the request.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func (c *bufferedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}
