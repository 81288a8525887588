package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Connect connects to a port of an instance, an address or a name in the network of an account and region, from the
// laptop's address. An *Error with the status 421 means that the destination is not in that network.
func (c *Client) Connect(ctx context.Context, p Place, to, port string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(c.Daemon.URL, "http://"))
	if err != nil {
		return nil, &UnreachableError{c.Daemon.PID, err}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_, err = fmt.Fprintf(conn, "GET %sconnect?%s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: %s\r\nAuthorization: %s%s\r\n\r\n", Prefix, p.values("to", to, "port", port).Encode(), c.Agent, Bearer, c.Daemon.Token)
	heard := bufio.NewReader(conn)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(heard, &http.Request{Method: http.MethodConnect})
	}
	if err != nil {
		_ = conn.Close()
		return nil, &UnreachableError{c.Daemon.PID, err}
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // a part is better than nothing
		_ = conn.Close()
		return nil, &Error{resp.StatusCode, strings.TrimSpace(string(text)), c.Daemon.PID}
	}
	return &buffered{conn, heard}, nil
}

// buffered is a connection of which something has been read ahead.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// CloseWrite closes the connection for sending.
func (b *buffered) CloseWrite() error {
	if half, ok := b.Conn.(*net.TCPConn); ok {
		return half.CloseWrite()
	}
	return b.Conn.Close()
}
