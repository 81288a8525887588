package simulated

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// healthPort is the port on localhost at which a kubelet reports its health.
// https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
const healthPort = 10248

// serveHealth answers one request.
func serveHealth(conn net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	status, text := http.StatusOK, "ok"
	if req.URL.Path != "/healthz" {
		status, text = http.StatusNotFound, "404 page not found\n"
	}
	answer := http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Request: req, Close: true, ContentLength: int64(len(text)),
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: io.NopCloser(strings.NewReader(text)),
	}
	_ = answer.Write(conn) // the client may have disconnected
}

// localHTTP sends requests for localhost to the machine's own programs, and all others to the network.
type localHTTP struct {
	dial func(ctx context.Context, host string, port int) (net.Conn, error)
	out  http.RoundTripper // nil means that there is no route out
}

// RoundTrip implements http.RoundTripper.
func (t *localHTTP) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Hostname()
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		if t.out == nil {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return t.out.RoundTrip(req)
	}
	return (&http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			number, err := strconv.Atoi(port)
			if err != nil {
				return nil, err
			}
			return t.dial(ctx, host, number)
		},
	}).RoundTrip(req)
}

// dial connects like a program on the machine. A port of localhost at which DescribeCluster says that a cluster listens is
// that cluster's endpoint, because people copy it to machines in a kubeconfig. The network decides as for its AWS name.
func (m *instance) dial(ctx context.Context, host string, port int) (net.Conn, error) {
	if net.ParseIP(host).IsLoopback() && m.rt.cfg.DialEndpoint != nil {
		conn, err := m.rt.cfg.DialEndpoint(ctx, m.in, host, port)
		if de, ok := errors.AsType[*net.DNSError](err); !ok || de.Name != host {
			return conn, err
		}
	}
	return m.computer.Dial(ctx, host, port)
}
