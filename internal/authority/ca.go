package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/atomicfile"
)

// A CA is renewed a year before it expires, which leaves users time to install the new
// certificate where they trust the old one.
const (
	caLife  = 3 * 365 * 24 * time.Hour
	caRenew = 365 * 24 * time.Hour
)

// A scope says which names a CA may certify, and where it is stored.
type scope struct {
	cert, key string // files
	first     string // file of the first certificate issued for the key
	subject   string
	domains   []string
	addresses []netip.Prefix
}

type ca struct {
	scope  scope
	leaf   *x509.Certificate
	first  []byte // the first certificate issued for the key, DER
	signer *ecdsa.PrivateKey
	notice string
}

// openCA loads or creates a CA. If it expires soon or its scope has changed, it gets a new
// certificate with the same key and subject, so clients that trust the old certificate keep
// working. A CA without name constraints is replaced along with its key, because its
// certificate may still be trusted for every name.
func openCA(s scope, now time.Time) (*ca, error) {
	c := &ca{scope: s}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	switch {
	case err == nil && ok && pair.Leaf.Subject.CommonName == s.subject && constrained(pair.Leaf):
		c.leaf, c.signer = pair.Leaf, key
		if err := c.keepFirst(); err != nil {
			return nil, err
		}
		if s.matches(pair.Leaf) && now.After(pair.Leaf.NotBefore) && pair.Leaf.NotAfter.Sub(now) > caRenew {
			return c, nil
		}
		return c, c.certify(now)
	case err == nil:
		c.notice = fmt.Sprintf("The certificate authority in %s was replaced because the old one could sign certificates for any host name. "+
			"Remove the old certificate wherever you trusted it, and trust the new one instead.", s.cert)
	case exists(s.cert):
		c.notice = fmt.Sprintf("The certificate authority in %s was replaced because it could not be read: %v. Trust the new one instead.", s.cert, err)
	}
	if c.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.signer)
	if err != nil {
		return nil, err
	}
	if err := writePEM(s.key, "PRIVATE KEY", der, 0o600); err != nil {
		return nil, err
	}
	if err := c.certify(now); err != nil {
		return nil, err
	}
	return c, c.keepFirst()
}

// keepFirst loads the first certificate issued for the CA's key. If none is stored,
// it stores the current one.
func (c *ca) keepFirst() error {
	if pair, err := tls.LoadX509KeyPair(c.scope.first, c.scope.key); err == nil && bytes.Equal(pair.Leaf.RawSubject, c.leaf.RawSubject) {
		c.first = pair.Leaf.Raw
		return nil
	}
	c.first = c.leaf.Raw
	return writePEM(c.scope.first, "CERTIFICATE", c.first, 0o644)
}

// certify issues and stores the CA's own certificate.
func (c *ca) certify(now time.Time) error {
	template := &x509.Certificate{
		SerialNumber:                serial(),
		Subject:                     pkix.Name{CommonName: c.scope.subject},
		NotBefore:                   now.Add(-time.Hour),
		NotAfter:                    now.Add(caLife),
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid:       true,
		IsCA:                        true,
		MaxPathLenZero:              true,
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         c.scope.domains,
		PermittedIPRanges:           c.scope.ranges(),
	}
	if len(template.PermittedIPRanges) == 0 { // without a list every address would be permitted
		template.ExcludedIPRanges = everyAddress
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, c.signer.Public(), c.signer)
	if err != nil {
		return err
	}
	if c.leaf, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	return writePEM(c.scope.cert, "CERTIFICATE", der, 0o644)
}

var everyAddress = []*net.IPNet{
	{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
	{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
}

func (s *scope) ranges() []*net.IPNet {
	var out []*net.IPNet
	for _, p := range s.addresses {
		out = append(out, &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())})
	}
	return out
}

// matches reports whether a certificate has exactly this scope.
func (s *scope) matches(c *x509.Certificate) bool {
	text := func(all []*net.IPNet) []string {
		var out []string
		for _, n := range all {
			out = append(out, n.String())
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(slices.Sorted(slices.Values(s.domains)), slices.Sorted(slices.Values(c.PermittedDNSDomains))) &&
		slices.Equal(text(s.ranges()), text(c.PermittedIPRanges))
}

// constrained reports whether a CA has name constraints for both names and addresses.
func constrained(c *x509.Certificate) bool {
	return len(c.PermittedDNSDomains) > 0 && len(c.PermittedIPRanges)+len(c.ExcludedIPRanges) > 0
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func writePEM(name, kind string, der []byte, mode os.FileMode) error {
	return atomicfile.Write(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
