package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/server"
)

// authority signs the certificates of the AWS endpoint. Clients trust it by
// AWS_CA_BUNDLE; its key never leaves the data folder.
type authority struct {
	file string // ca.pem
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu     sync.Mutex
	issued map[string]*tls.Certificate
}

// maxIssued bounds the cache of certificates; names come from clients.
const maxIssued = 256

// openAuthority reads the CA of the data folder, or makes one.
func openAuthority(dir string) (*authority, error) {
	a := &authority{file: filepath.Join(dir, "ca.pem"), issued: map[string]*tls.Certificate{}}
	keyFile := filepath.Join(dir, "ca-key.pem")
	pair, err := tls.LoadX509KeyPair(a.file, keyFile)
	if err == nil {
		key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
		if ok && time.Until(pair.Leaf.NotAfter) > 30*24*time.Hour {
			a.cert, a.key = pair.Leaf, key
			return a, nil
		}
	} // else there is none, or it is of no use: make one
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "Drydock local CA"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(10, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	if err := writeFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600); err != nil {
		return nil, err
	}
	return a, writeFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // the system has no randomness
	}
	return n
}

// config is the TLS configuration of the endpoint.
func (a *authority) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: a.certificate,
	}
}

// certificate issues a certificate for the name the client wants: AWS's names
// and this machine's, nobody else's.
func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName)
	var local net.IP // of a client that asked for an address
	if name == "" {
		name = "localhost"
		if hello.Conn != nil {
			if a, ok := hello.Conn.LocalAddr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
				local = a.IP
			}
		}
	}
	if name != "localhost" && !server.AWSHost(name) {
		return nil, fmt.Errorf("no certificate for %q", name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id := name + " " + local.String()
	if c := a.issued[id]; c != nil && time.Until(c.Leaf.NotAfter) > 24*time.Hour {
		return c, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: "drydock"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(0, 3, 0),
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
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if len(a.issued) >= maxIssued {
		clear(a.issued)
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	a.issued[id] = c
	return c, nil
}
