package imds

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// An Identity signs identity documents.
type Identity struct {
	Key         *rsa.PrivateKey
	Certificate *x509.Certificate
}

// ParseIdentity parses a PKCS #1 key and its certificate.
func ParseIdentity(keyDER, certificateDER []byte) (Identity, error) {
	key, err := x509.ParsePKCS1PrivateKey(keyDER)
	if err != nil {
		return Identity{}, fmt.Errorf("the instance identity key: %w", err)
	}
	cert, err := x509.ParseCertificate(certificateDER)
	if err != nil {
		return Identity{}, fmt.Errorf("the instance identity certificate: %w", err)
	}
	return Identity{key, cert}, nil
}

// NewIdentity creates the key of an installation (PKCS #1) and its certificate, with the same subject as AWS's. now
// is the start of its validity, which is practically unlimited.
func NewIdentity(now time.Time) (keyDER, certificateDER []byte, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the instance identity key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 63))
	if err != nil {
		return nil, nil, fmt.Errorf("creating the instance identity key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject: pkix.Name{
			Country: []string{"US"}, Province: []string{"Washington State"}, Locality: []string{"Seattle"},
			Organization: []string{"Amazon Web Services LLC"}, CommonName: "Drydock instance identity",
		},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(179, 0, 0),
		SignatureAlgorithm: x509.SHA256WithRSA,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the instance identity certificate: %w", err)
	}
	return x509.MarshalPKCS1PrivateKey(key), der, nil
}
