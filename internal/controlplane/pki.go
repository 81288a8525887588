package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	caValidity = 10 * 365 * 24 * time.Hour
	// caRenewal is how long an authority must still be valid when its plane starts: as long as the certificates that
	// it signs.
	caRenewal = certValidity
	// certValidity is the validity of the certificates in files. They are renewed when less than certRenewal remains
	// and whenever the child starts.
	certValidity = 365 * 24 * time.Hour
	certRenewal  = 30 * 24 * time.Hour
	// backdate allows for clocks that are slow.
	backdate = 5 * time.Minute
)

// An authority signs certificates. It is a certificate and its key in PEM, as kept in the store.
type authority struct {
	CertPEM, KeyPEM []byte
	// ID identifies one that was added to a plane; see id.
	ID string `json:",omitempty"`
	// AddedAt is when it was added to a plane, or zero for one that the plane was created with.
	AddedAt time.Time `json:",omitzero"`
}

func newAuthority(commonName string, now time.Time) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return authority{}, err
	}
	certPEM, err := selfSign(commonName, key, now)
	return authority{CertPEM: certPEM, KeyPEM: keyPEM}, err
}

func selfSign(commonName string, key crypto.Signer, now time.Time) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caValidity),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{commonName},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return encodeCert(der), nil
}

// renew reissues the authority's certificate if it expires soon. Key and subject stay the same, so certificates that
// it has signed remain valid.
func (a *authority) renew(now time.Time) (renewed bool, err error) {
	pair, err := tls.X509KeyPair(a.CertPEM, a.KeyPEM)
	if err != nil {
		return false, fmt.Errorf("certificate authority: %w", err)
	}
	if pair.Leaf.NotAfter.Sub(now) >= caRenewal {
		return false, nil
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return false, fmt.Errorf("certificate authority: a %T cannot sign", pair.PrivateKey)
	}
	a.CertPEM, err = selfSign(pair.Leaf.Subject.CommonName, key, now)
	return err == nil, err
}

// expiredAt returns the authority as if it had been created long ago and had expired at a time.
func (a authority) expiredAt(end time.Time) (authority, error) {
	pair, err := tls.X509KeyPair(a.CertPEM, a.KeyPEM)
	if err != nil {
		return authority{}, fmt.Errorf("certificate authority: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return authority{}, fmt.Errorf("certificate authority: a %T cannot sign", pair.PrivateKey)
	}
	a.CertPEM, err = selfSign(pair.Leaf.Subject.CommonName, key, end.Add(-caValidity))
	return a, err
}

// A request says what a certificate is for.
type request struct {
	commonName    string
	organizations []string
	// hosts makes it a server's certificate for these names and addresses; without them it is a client's.
	hosts []string
	// validity is how long the certificate is valid, but no certificate outlives its authority.
	validity time.Duration
}

// issue returns a new certificate and its key, concatenated in PEM.
func (a authority) issue(r request, now time.Time) ([]byte, error) {
	pair, err := tls.X509KeyPair(a.CertPEM, a.KeyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	notBefore, notAfter := now.Add(-backdate), now.Add(r.validity)
	if notAfter.After(pair.Leaf.NotAfter) {
		notAfter = pair.Leaf.NotAfter
	}
	if notBefore.After(notAfter) { // the authority has expired
		notBefore = notAfter.Add(-r.validity)
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: r.commonName, Organization: r.organizations},
		NotBefore:    notBefore,
		NotAfter:     notAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(r.hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, h := range r.hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, pair.Leaf, key.Public(), pair.PrivateKey)
	if err != nil {
		return nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return append(encodeCert(der), keyPEM...), nil
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.CertPEM)
	return pool
}

// expiresSoon reports whether the first certificate in b must be renewed. It returns true if there is none.
func expiresSoon(b []byte, now time.Time) bool {
	block, _ := pem.Decode(b)
	if block == nil {
		return true
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err != nil || cert.NotAfter.Sub(now) < certRenewal
}

// newSigningKey creates the key that signs service account tokens. EKS signs with RS256, and some verifiers support
// nothing else.
func newSigningKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return encodeKey(key)
}

func parseSigningKey(b []byte) (*rsa.PublicKey, error) {
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, errors.New("no key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("key is a %T", key)
	}
	return &private.PublicKey, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	b[0] &= 0x7f           // must be positive
	return new(big.Int).SetBytes(b[:])
}
