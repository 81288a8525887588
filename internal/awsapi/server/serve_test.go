package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A connection that a client has made in advance is there for as long as the client keeps it.
func TestSpareConnectionsStayOpen(t *testing.T) {
	config, _ := certificate(t)
	synctest.Test(t, func(t *testing.T) {
		client, far := net.Pipe()
		conns := make(chan net.Conn, 1)
		conns <- far
		ln := server.Split(pipes{conns}, config)
		<-time.After(http.DefaultTransport.(*http.Transport).IdleConnTimeout)
		go func() { _, _ = client.Write([]byte("G")) }() // the end below sees whether it arrives
		accepted := make(chan error, 1)
		go func() {
			_, err := ln.Accept()
			accepted <- err
		}()
		select {
		case err := <-accepted:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Second):
			t.Error("the connection is gone")
		}
		_, _ = ln.Close(), client.Close() // both end with the test
	})
}

// pipes is a listener of connections in memory.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p.conns); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func certificate(t testing.TB) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"sts.eu-west-1.amazonaws.com"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

func TestHTTPAndHTTPSOnOnePort(t *testing.T) {
	testkit.NoLeaks(t)
	config, pool := certificate(t)
	s, y := start(t, testkit.Config{TLS: config, Internal: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.URL.Path)
	})})
	account := s.Account(t)
	https := strings.Replace(s.URL, "http://", "https://", 1)

	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		cfg := s.AWSConfig(account)
		cfg.BaseEndpoint, cfg.HTTPClient = &https, client
		if _, err := awssts.NewFromConfig(cfg).GetCallerIdentity(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if !y.last().TLS {
			t.Error("the call does not say TLS")
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, https+"/_drydock/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		want := map[bool]string{false: "HTTP/1.1 /_drydock/status", true: "HTTP/2.0 /_drydock/status"}[h2]
		if err := errors.Join(err, resp.Body.Close()); err != nil || string(body) != want {
			t.Errorf("got %q, %v", body, err)
		}
		transport.CloseIdleConnections()
	}
	if _, err := awssts.NewFromConfig(s.AWSConfig(account)).GetCallerIdentity(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if y.last().TLS {
		t.Error("plain http says TLS")
	}
}

func TestASilentClientHoldsUpNobody(t *testing.T) {
	testkit.NoLeaks(t)
	config, _ := certificate(t)
	s, _ := start(t, testkit.Config{TLS: config})
	for range 50 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	if _, err := awssts.NewFromConfig(s.AWSConfig(s.Account(t))).GetCallerIdentity(t.Context(), nil); err != nil {
		t.Error(err)
	}
	began := time.Now()
	s.Stop() // closes the silent ones
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("stopping took %v", took)
	}
}

// A flaky listener fails to accept now and then.
type flaky struct {
	net.Listener
	failures []error
}

func (f *flaky) Accept() (net.Conn, error) {
	if len(f.failures) > 0 {
		err := f.failures[0]
		f.failures = f.failures[1:]
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	return f.Listener.Accept()
}

func TestRunningOutOfFilesPasses(t *testing.T) {
	testkit.NoLeaks(t)
	config, _ := certificate(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // as simple as can be
	if err != nil {
		t.Fatal(err)
	}
	ln := server.Split(&flaky{inner, []error{syscall.EMFILE, syscall.ECONNABORTED}}, config)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln, http.NotFoundHandler(), nil) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ln.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	transport.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestServeSaysWhenTheListenerFails(t *testing.T) {
	testkit.NoLeaks(t)
	config, _ := certificate(t)
	for _, c := range []*tls.Config{nil, config} {
		ln, err := server.Listen(t.Context(), "127.0.0.1:0", c)
		if err != nil {
			t.Fatal(err)
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		if err := server.Serve(t.Context(), ln, http.NotFoundHandler(), testkit.Log(t)); err == nil {
			t.Error("no error")
		}
	}
	if _, err := server.Listen(t.Context(), "127.0.0.1:99999", nil); err == nil {
		t.Error("no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ln, err := server.Listen(t.Context(), "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(ctx, ln, http.NotFoundHandler(), nil); err != nil {
		t.Error(err)
	}
}
