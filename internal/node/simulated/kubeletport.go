package simulated

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
)

// kubeletPort is where the kubelet serves its API.
const kubeletPort = 10250

// serveKubelet returns a function that serves one client of the kubelet's API. Like a kubelet without anonymous access, it
// refuses clients without a token. It has nothing to show to others, because the node runs no containers.
//
// AWS deviation: the certificate is signed by itself, not by the cluster.
func serveKubelet(in machine.Instance, name string) func(net.Conn) {
	certificate := sync.OnceValues(func() (*tls.Certificate, error) { return selfSigned(in, name) })
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		http.Error(w, "the kubelet's API is not implemented on simulated nodes", http.StatusNotImplemented)
	}
	return func(conn net.Conn) {
		one := &oneConn{Conn: conn, closed: make(chan struct{})}
		server := http.Server{
			Handler: http.HandlerFunc(handler), ErrorLog: log.New(io.Discard, "", 0), // of failed handshakes
			ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		}
		_ = server.Serve(&oneListener{conn: tls.Server(one, &tls.Config{ // it ends when the connection does
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
		}), closed: one.closed})
	}
}

// selfSigned returns a serving certificate of a kubelet.
func selfSigned(in machine.Instance, name string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + name},
		NotBefore: now.Add(-time.Minute), NotAfter: now.AddDate(1, 0, 0), DNSNames: []string{name}, IPAddresses: []net.IP{in.PrivateIP.AsSlice()},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// A oneListener accepts one connection, and closes with it.
type oneListener struct {
	mu     sync.Mutex
	conn   net.Conn // nil after it was accepted
	closed <-chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{Port: kubeletPort} }

// A oneConn closes a channel when it is closed.
type oneConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *oneConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
