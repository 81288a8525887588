package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var laptop = netip.MustParseAddr("192.0.2.10")

func open(t *testing.T, cfg Config) *Authority {
	t.Helper()
	if !cfg.Listen.IsValid() {
		cfg.Listen = netip.MustParseAddr("127.0.0.1")
	}
	a, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// trusts verifies c the way a client does that trusts only the CAs in file.
func trusts(t *testing.T, file []byte, c *tls.Certificate, name string, now time.Time) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(file) {
		t.Fatal("no certificate")
	}
	_, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now})
	return err
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An addressed connection was accepted at the given local address.
type addressed struct {
	net.Conn
	local net.IP
}

func (a addressed) LocalAddr() net.Addr { return &net.TCPAddr{IP: a.local, Port: 4566} }

// Served names get a certificate that is still trusted after a restart; others get none.
func TestIssuesForWhatIsServed(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Dir: dir, Hosts: []string{"Drydock.corp.example", "*.dev.example"}}
	first := open(t, cfg)
	again := open(t, cfg)
	own, named := read(t, first.File()), read(t, first.NamedFile())
	for name, by := range map[string][]byte{
		"": own, "localhost": own, "x.localhost": own, "eks.us-east-1.amazonaws.com": own, "EC2.amazonaws.com": own, "ec2.us-east-1.api.aws": own,
		"sts.cn-north-1.amazonaws.com.cn": own, "public.ecr.aws": own, "drydock.corp.example": named, "a.dev.example": named,
		"example.com": nil, "amazonaws.com.example.com": nil, "notamazonaws.com": nil, "corp.example": nil, "dev.example": nil,
	} {
		c, err := again.certificate(&tls.ClientHelloInfo{ServerName: name})
		if (err == nil) != (by != nil) {
			t.Errorf("certificate for %q: %v, want one: %v", name, err, by != nil)
			continue
		}
		if by == nil {
			continue
		}
		if name == "" {
			name = "127.0.0.1"
		}
		if err := trusts(t, by, c, name, time.Now()); err != nil {
			t.Errorf("certificate for %q, after a restart: %v", name, err)
		}
		if other := map[bool][]byte{true: named, false: own}[&by[0] == &own[0]]; trusts(t, other, c, name, time.Now()) == nil {
			t.Errorf("certificate for %q: trusted by the other CA", name)
		}
	}
}

// Loopback and the address the daemon listens on are covered, other addresses are not.
func TestIssuesForTheAddressListenedOn(t *testing.T) {
	a := open(t, Config{Dir: t.TempDir(), Listen: laptop})
	for _, tt := range []struct {
		address string
		ok      bool
	}{{"192.0.2.10", true}, {"127.0.0.1", true}, {"192.0.2.11", false}} {
		c, err := a.certificate(&tls.ClientHelloInfo{Conn: addressed{local: net.ParseIP(tt.address)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := trusts(t, read(t, a.File()), c, tt.address, time.Now()); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.address, err)
		}
	}
}

// The attack: someone steals the CA key and signs certificates for other sites. Clients
// that trust the CA must reject them.
func TestStolenKeyIsUselessForOtherNames(t *testing.T) {
	a := open(t, Config{Dir: t.TempDir(), Hosts: []string{"drydock.corp.example"}})
	for _, by := range []*ca{a.aws, a.named} {
		for _, name := range []string{"bank.example", "registry.npmjs.org", "drydock.corp.example.org"} {
			c, err := by.issue(name, nil, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if err := trusts(t, read(t, by.scope.cert), c, name, time.Now()); err == nil {
				t.Errorf("%s is trusted for %s", by.scope.cert, name)
			}
		}
		c, err := by.issue("localhost", net.ParseIP("198.51.100.1"), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := trusts(t, read(t, by.scope.cert), c, "198.51.100.1", time.Now()); err == nil {
			t.Errorf("%s is trusted for another machine", by.scope.cert)
		}
	}
}

// thumbprint returns the fingerprint of the chain's last certificate, as eksctl and
// Terraform compute it for an OpenID Connect provider.
func thumbprint(t *testing.T, a *Authority) string {
	t.Helper()
	c, err := a.certificate(&tls.ClientHelloInfo{ServerName: "oidc.eks.us-east-1.amazonaws.com"})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha1.Sum(c.Certificate[len(c.Certificate)-1]))
}

// A renewed CA keeps its key and subject, so clients with the old bundle keep working, and
// its thumbprint.
func TestRenewalKeepsTrust(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	at := func(cfg Config, later time.Duration) *Authority {
		cfg.Dir, cfg.Now = dir, func() time.Time { return now.Add(later) }
		return open(t, cfg)
	}
	before := at(Config{}, 0)
	trusted := read(t, before.File())
	if still := at(Config{}, caLife-caRenew-24*time.Hour); !bytes.Equal(read(t, still.File()), trusted) {
		t.Error("renewed with more than a year left")
	}
	for name, renewed := range map[string]*Authority{
		"soon over":       at(Config{}, caLife-caRenew+24*time.Hour),
		"another address": at(Config{Listen: laptop}, caLife-caRenew+24*time.Hour),
	} {
		if bytes.Equal(read(t, renewed.File()), trusted) || renewed.Notice() != "" {
			t.Errorf("%s: not renewed, or announced as replaced: %q", name, renewed.Notice())
		}
		if !bytes.Equal(renewed.aws.leaf.SubjectKeyId, before.aws.leaf.SubjectKeyId) || renewed.aws.leaf.Subject.String() != before.aws.leaf.Subject.String() {
			t.Errorf("%s: another key or subject", name)
		}
		c, err := renewed.certificate(&tls.ClientHelloInfo{ServerName: "eks.us-east-1.amazonaws.com"})
		if err != nil {
			t.Fatal(err)
		}
		if err := trusts(t, trusted, c, "eks.us-east-1.amazonaws.com", now.Add(caLife-caRenew+25*time.Hour)); err != nil {
			t.Errorf("%s: an earlier bundle: %v", name, err)
		}
		if thumbprint(t, renewed) != thumbprint(t, before) {
			t.Errorf("%s: another thumbprint", name)
		}
	}
}

// A folder of a version that did not keep the first certificate keeps its thumbprint, too.
func TestThumbprintOutlivesTheUpgrade(t *testing.T) {
	dir := t.TempDir()
	before := open(t, Config{Dir: dir})
	if err := os.Remove(filepath.Join(dir, "ca-first.pem")); err != nil {
		t.Fatal(err)
	}
	if renewed := open(t, Config{Dir: dir, Listen: laptop}); thumbprint(t, renewed) != thumbprint(t, before) {
		t.Error("another thumbprint")
	}
}

// writeOld writes a CA like those of earlier versions: 10 years, no name constraints.
func writeOld(t *testing.T, dir string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Drydock local CA"}, NotBefore: time.Now(), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	old := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, b := range map[string][]byte{"ca.pem": old, "ca-key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return old
}

// The CA of an earlier version is replaced along with its key, once, with a notice.
func TestOldCAIsReplacedOnce(t *testing.T) {
	dir := t.TempDir()
	old := writeOld(t, dir)
	a := open(t, Config{Dir: dir})
	if a.Notice() == "" {
		t.Error("no notice")
	}
	c, err := a.certificate(&tls.ClientHelloInfo{ServerName: "sts.amazonaws.com"})
	if err != nil {
		t.Fatal(err)
	}
	if trusts(t, old, c, "sts.amazonaws.com", time.Now()) == nil {
		t.Error("the old key is still in use")
	}
	if !bytes.Equal(c.Certificate[1], a.aws.leaf.Raw) {
		t.Error("the old certificate is still sent")
	}
	replaced := read(t, a.File())
	if again := open(t, Config{Dir: dir}); again.Notice() != "" || !bytes.Equal(read(t, again.File()), replaced) {
		t.Errorf("replaced twice: %q", again.Notice())
	}
	if info, err := os.Stat(filepath.Join(dir, "ca-key.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
}
