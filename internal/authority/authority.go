// Package authority issues the TLS certificates of the AWS endpoint. Users trust its CA
// through AWS_CA_BUNDLE or machine-wide, so X.509 name constraints limit the CA to the names
// and addresses that Drydock serves. Certificates for host names that users add
// (--allow-host) come from a second CA, which is created only when it is needed and has to
// be trusted separately.
//
// The private keys never leave the data folder.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Names are the domains that Drydock serves, including their subdomains.
var Names = []string{"amazonaws.com", "amazonaws.com.cn", "api.aws", "public.ecr.aws", "localhost"}

// loopback addresses always reach the endpoint.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

const (
	subject      = "Drydock CA for AWS names"
	namedSubject = "Drydock CA for user-defined names"
)

// Config describes what Drydock serves.
type Config struct {
	// Dir holds ca.pem, its key, and the first ca.pem issued for that key. If there are Hosts, it holds the same
	// three files of named-ca.pem.
	Dir string
	// Listen is the endpoint's address. If unspecified, all addresses of this machine are served.
	Listen netip.Addr
	// Hosts are the names given by --allow-host; *.example.com covers all subdomains.
	Hosts []string
	// Now defaults to time.Now.
	Now func() time.Time
}

// An Authority issues certificates for the names that clients request.
type Authority struct {
	aws, named *ca // named is nil without Hosts
	now        func() time.Time

	mu     sync.Mutex
	issued map[string]*tls.Certificate
}

// maxIssued limits the certificate cache, because clients choose the names.
const maxIssued = 256

// Open loads the CAs from the folder and creates or renews them as needed.
func Open(cfg Config) (*Authority, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Authority{now: cfg.Now, issued: map[string]*tls.Certificate{}}
	addresses, err := served(cfg.Listen)
	if err != nil {
		return nil, err
	}
	a.aws, err = openCA(scope{
		cert: filepath.Join(cfg.Dir, "ca.pem"), key: filepath.Join(cfg.Dir, "ca-key.pem"), first: filepath.Join(cfg.Dir, "ca-first.pem"),
		subject: subject, domains: Names, addresses: addresses,
	}, cfg.Now())
	if err != nil || len(cfg.Hosts) == 0 {
		return a, err
	}
	var domains []string
	for _, h := range cfg.Hosts {
		domains = append(domains, strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(h, "*"), "."))) // .example.com matches subdomains only
	}
	a.named, err = openCA(scope{
		cert: filepath.Join(cfg.Dir, "named-ca.pem"), key: filepath.Join(cfg.Dir, "named-ca-key.pem"), first: filepath.Join(cfg.Dir, "named-ca-first.pem"),
		subject: namedSubject, domains: domains,
	}, cfg.Now())
	return a, err
}

// served returns the addresses that certificates may name.
func served(listen netip.Addr) ([]netip.Prefix, error) {
	out := loopback
	single := func(a netip.Addr) {
		a = a.Unmap().WithZone("")
		if !a.IsLoopback() {
			out = append(out[:len(out):len(out)], netip.PrefixFrom(a, a.BitLen()))
		}
	}
	if !listen.IsUnspecified() {
		single(listen)
		return out, nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing this machine's addresses: %w", err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			single(p.Addr())
		}
	}
	return out, nil
}

// File returns the certificate file of the CA for AWS names and this machine's addresses.
func (a *Authority) File() string { return a.aws.scope.cert }

// NamedFile returns the certificate file of the CA for Hosts, or "" if Hosts is empty.
func (a *Authority) NamedFile() string {
	if a.named == nil {
		return ""
	}
	return a.named.scope.cert
}

// Notice returns a message for the user if Open replaced a CA, or "".
func (a *Authority) Notice() string {
	if a.named == nil {
		return a.aws.notice
	}
	return strings.Trim(a.aws.notice+"\n"+a.named.notice, "\n")
}

// TLS returns the TLS configuration of the endpoint.
func (a *Authority) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: a.certificate,
	}
}

// certificate returns a certificate for the name that the client requests.
func (a *Authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	var local net.IP // set if the client connects by IP address
	if name == "" {
		name = "localhost"
		if hello.Conn != nil {
			if a, ok := hello.Conn.LocalAddr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
				local = a.IP
			}
		}
	}
	by := a.aws
	switch {
	case below(name, Names...):
	case a.named != nil && below(name, a.named.scope.domains...):
		by = a.named
	default:
		return nil, fmt.Errorf("no certificate for %q", name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id := name + " " + local.String()
	if c := a.issued[id]; c != nil && c.Leaf.NotAfter.Sub(a.now()) > 24*time.Hour {
		return c, nil
	}
	c, err := by.issue(name, local, a.now())
	if err != nil {
		return nil, err
	}
	if len(a.issued) >= maxIssued {
		clear(a.issued)
	}
	a.issued[id] = c
	return c, nil
}

// below reports whether name equals one of the domains or is a subdomain of one. A domain
// with a leading dot matches subdomains only.
func below(name string, domains ...string) bool {
	for _, d := range domains {
		if name == d || strings.HasSuffix(name, "."+strings.TrimPrefix(d, ".")) {
			return true
		}
	}
	return false
}

// leafLife is the validity of the endpoint's certificates.
const leafLife = 90 * 24 * time.Hour

func (c *ca) issue(name string, local net.IP, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: "drydock"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(leafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{name},
	}
	if name == "localhost" {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
		if local != nil {
			template.IPAddresses = append(template.IPAddresses, local)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.leaf, key.Public(), c.signer)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// Send a CA certificate, too: tools use the fingerprint of the chain's last certificate as the thumbprint of an
	// OpenID Connect provider. It is the first one issued for the key, so that thumbprints survive renewals. Clients
	// verify with the one they trust, which has the same key and subject.
	return &tls.Certificate{Certificate: [][]byte{der, c.first}, PrivateKey: key, Leaf: leaf}, nil
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return n
}
