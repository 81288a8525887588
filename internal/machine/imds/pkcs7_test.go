package imds_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
)

// Object identifiers of PKCS #7 (RFC 2315, 14) and of the algorithms used with it.
var (
	oidData       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidSignedData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidRSA        = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	oidSHA256     = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
)

// verifyPKCS7 returns what a SignedData in base64 holds, when its one signer is
// that of cert. It reads the structure on its own, not with the types that wrote it.
func verifyPKCS7(text string, cert *x509.Certificate) ([]byte, error) {
	der, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
	if err != nil {
		return nil, err
	}
	var outer struct {
		Type    asn1.ObjectIdentifier
		Content struct {
			Version int
			Digests []pkix.AlgorithmIdentifier `asn1:"set"`
			Inner   struct {
				Type asn1.ObjectIdentifier
				Data []byte `asn1:"explicit,tag:0"`
			}
			Signers []struct {
				Version int
				Name    struct {
					Issuer asn1.RawValue
					Serial *big.Int
				}
				Digest    pkix.AlgorithmIdentifier
				Algorithm pkix.AlgorithmIdentifier
				Signature []byte
			} `asn1:"set"`
		} `asn1:"explicit,tag:0"`
	}
	rest, err := asn1.Unmarshal(der, &outer)
	if err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("%w, and %d bytes after it", err, len(rest))
	}
	d := outer.Content
	if !outer.Type.Equal(oidSignedData) || !d.Inner.Type.Equal(oidData) || d.Version != 1 || len(d.Signers) != 1 || len(d.Digests) != 1 || !d.Digests[0].Algorithm.Equal(oidSHA256) {
		return nil, fmt.Errorf("not data with one signature by SHA-256: %+v", d)
	}
	s := d.Signers[0]
	if !bytes.Equal(s.Name.Issuer.FullBytes, cert.RawIssuer) || s.Name.Serial.Cmp(cert.SerialNumber) != 0 {
		return nil, errors.New("signed by another certificate")
	}
	if !s.Digest.Algorithm.Equal(oidSHA256) || !s.Algorithm.Algorithm.Equal(oidRSA) {
		return nil, fmt.Errorf("signed with %v over %v", s.Algorithm.Algorithm, s.Digest.Algorithm)
	}
	return d.Inner.Data, cert.CheckSignature(x509.SHA256WithRSA, d.Inner.Data, s.Signature)
}

// The verification rejects anything that was not signed with the certificate.
func TestVerifyPKCS7(t *testing.T) {
	for _, text := range []string{"", "%", "MAA=", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0x30, 0x80}, 20))} {
		if _, err := verifyPKCS7(text, &x509.Certificate{SerialNumber: big.NewInt(1)}); err == nil {
			t.Errorf("%q is a signature", text)
		}
	}
}
