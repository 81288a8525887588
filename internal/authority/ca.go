package authority

import (
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

// A CA lasts years, and is renewed a year before its end, so that whoever trusts the one
// before has time to take the next.
const (
	caLife  = 3 * 365 * 24 * time.Hour
	caRenew = 365 * 24 * time.Hour
)

// A scope is what a CA may vouch for, and where it is kept.
type scope struct {
	cert, key string // files
	subject   string
	domains   []string
	addresses []netip.Prefix
}

type ca struct {
	scope  scope
	leaf   *x509.Certificate
	signer *ecdsa.PrivateKey
	notice string
}

// openCA reads a CA, or makes it. One that ends soon, or is for another scope, gets a new
// certificate with the same key and subject: clients that trust the earlier certificate
// trust what it signs, within the scope of theirs. One without a scope is replaced with
// its key, because its certificate is trusted for every name.
func openCA(s scope, now time.Time) (*ca, error) {
	c := &ca{scope: s}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	switch {
	case err == nil && ok && pair.Leaf.Subject.CommonName == s.subject && constrained(pair.Leaf):
		c.leaf, c.signer = pair.Leaf, key
		if s.is(pair.Leaf) && now.After(pair.Leaf.NotBefore) && pair.Leaf.NotAfter.Sub(now) > caRenew {
			return c, nil
		}
		return c, c.certify(now)
	case err == nil:
		c.notice = fmt.Sprintf("The certificate authority in %s was replaced: the one before could vouch for any name. "+
			"Stop trusting it where you installed it, and trust the new one there.", s.cert)
	case exists(s.cert):
		c.notice = fmt.Sprintf("The certificate authority in %s was replaced: the one before was of no use (%v). Trust the new one where you installed it.", s.cert, err)
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
	return c, c.certify(now)
}

// certify gives the CA a certificate.
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
	if len(template.PermittedIPRanges) == 0 { // an absent list would permit all
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

// is reports whether a certificate has this scope.
func (s *scope) is(c *x509.Certificate) bool {
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

// constrained reports whether a CA cannot vouch for any name.
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
