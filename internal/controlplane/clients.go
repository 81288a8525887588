package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// clients are the HTTP transports to a plane's process. They bypass the endpoint, follow the process through restarts
// and share their connections between all users.
type clients struct {
	plane *plane

	mu        sync.Mutex
	admin     *http.Transport
	anonymous *http.Transport
	cert      *tls.Certificate
}

// config returns a client configuration with a ready transport, because client-go never releases a transport that it
// creates for a custom dialer.
func (c *clients) config(admin bool) *rest.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	transport := &c.anonymous
	if admin {
		transport = &c.admin
	}
	if *transport == nil {
		*transport = c.transport(admin)
	}
	return &rest.Config{
		Host:      "https://" + c.plane.snapshot().awsHost(),
		Transport: *transport,
		UserAgent: "drydock",
	}
}

func (c *clients) transport(admin bool) *http.Transport {
	p := c.plane
	tlsConfig := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: p.snapshot().awsHost(),
		// VerifyConnection verifies instead, because the authorities can change.
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: p.keys().pool(), DNSName: c.ServerName, CurrentTime: p.m.cfg.Clock.Now()})
			return err
		},
	}
	if admin {
		tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return c.adminCert()
		}
	}
	return utilnet.SetTransportDefaults(&http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) },
		Proxy:               func(*http.Request) (*url.URL, error) { return nil, nil },
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 25,
		IdleConnTimeout:     90 * time.Second,
	})
}

// adminCert returns a certificate of system:masters. It is valid as long as its authority, because the API server
// checks a connection's certificate with every request, and a connection with watches may last as long as the
// process. The key exists only in memory.
func (c *clients) adminCert() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cert != nil {
		return c.cert, nil
	}
	b, err := c.plane.keys().CA.issue(request{
		commonName: "drydock", organizations: []string{"system:masters"}, validity: caValidity,
	}, c.plane.m.cfg.Clock.Now())
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(b, b)
	if err != nil {
		return nil, err
	}
	c.cert = &cert
	return c.cert, nil
}

// renewCert makes new connections use a certificate of the authority that signs now.
func (c *clients) renewCert() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cert = nil
}

func (c *clients) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range []*http.Transport{c.admin, c.anonymous} {
		if t != nil {
			t.CloseIdleConnections()
		}
	}
}
