package store_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/store/etcdserver"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

func TestExternalTLS(t *testing.T) {
	host := open(t, func(c *store.Config) { c.Prefix = "/host" })
	pki := newPKI(t)
	cert, err := tls.LoadX509KeyPair(pki.cert, pki.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(pki.ca)
	front, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "https://" + front.Addr().String()
	serveLine(t, front, endpointOf(host))

	t.Run("mutual", func(t *testing.T) {
		s := external(t, endpoint, func(c *store.Config) {
			c.CAFile, c.CertFile, c.KeyFile = pki.caFile, pki.cert, pki.key
		})
		put(t, s, key("a"), thing{Name: "secure"})
		if v, err := things.Get(s, key("a")); err != nil || v.Name != "secure" {
			t.Errorf("%v %v", v, err)
		}
		a := s.EtcdAccess()
		if a.CAFile != pki.caFile || a.CertFile != pki.cert || a.KeyFile != pki.key || a.NeedsPassword {
			t.Errorf("access %+v", a)
		}
	})
	for name, tc := range map[string]struct {
		mod  func(*store.Config)
		says string
	}{
		"unknown CA":      {func(c *store.Config) { c.CertFile, c.KeyFile = pki.cert, pki.key }, "unknown authority"},
		"half a pair":     {func(c *store.Config) { c.CAFile, c.CertFile = pki.caFile, pki.cert }, "must be given together"},
		"no such CA":      {func(c *store.Config) { c.CAFile = "/none" }, "/none"},
		"CA without cert": {func(c *store.Config) { c.CAFile = pki.key }, "no certificate in"},
		"not TLS": {func(c *store.Config) {
			c.CAFile, c.Endpoints = pki.caFile, []string{endpointOf(host)}
		}, "https://"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := store.Config{Endpoints: []string{endpoint}, Log: testlog.New(t)}
			tc.mod(&cfg)
			s, err := store.Open(t.Context(), cfg)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			oneLine(t, err, tc.says)
		})
	}
}

func TestExternalPassword(t *testing.T) {
	dir := t.TempDir()
	srv, err := etcdserver.Start(t.Context(), etcdserver.Config{
		Dir: filepath.Join(dir, "etcd"), Socket: filepath.Join(dir, "s"), NoSync: true, QuotaBytes: 1 << 30, Log: testlog.New(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	c, ctx := srv.Client(), t.Context()
	for _, do := range []func() error{
		func() error { _, err := c.RoleAdd(ctx, "root"); return err },
		func() error { _, err := c.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	login := func(password string) func(*store.Config) {
		return func(c *store.Config) {
			c.Ephemeral, c.Endpoints, c.Username, c.Password = false, []string{srv.Endpoint()}, "root", password
		}
	}
	s := open(t, login("secret"))
	put(t, s, key("a"), thing{})
	if !s.EtcdAccess().NeedsPassword {
		t.Error("does not say that API servers cannot log in")
	}
	cfg := store.Config{Log: testlog.New(t)}
	login("wrong")(&cfg)
	if s, err := store.Open(ctx, cfg); err == nil {
		s.Close()
		t.Error("opened with a wrong password")
	} else {
		oneLine(t, err, "authentication failed")
	}
}

type testPKI struct {
	ca                *x509.Certificate
	caFile, cert, key string
}

func newPKI(t *testing.T) testPKI {
	t.Helper()
	dir := t.TempDir()
	write := func(name, typ string, der []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, template, template, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "root"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return testPKI{ca, write("ca.pem", "CERTIFICATE", caDER), write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", keyDER)}
}
