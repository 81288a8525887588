package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"time"
)

// Keys and certificates as acctest makes them for configurations.

func newKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func privateKey() string { return block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(newKey())) }

func parseKey(text string) *rsa.PrivateKey {
	b, _ := pem.Decode([]byte(text))
	if b == nil {
		fail("a private key that is not PEM")
	}
	key, err := x509.ParsePKCS1PrivateKey(b.Bytes)
	if err != nil {
		panic(err)
	}
	return key
}

func publicKey(private string) string {
	der, err := x509.MarshalPKIXPublicKey(&parseKey(private).PublicKey)
	if err != nil {
		panic(err)
	}
	return block("PUBLIC KEY", der)
}

func selfSigned(private, name string) string {
	key := parseKey(private)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{"ACME Examples, Inc"}},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour), BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return block("CERTIFICATE", der)
}

// sshKey returns a public key as in an authorized_keys file.
func sshKey(comment string) string {
	key := newKey().PublicKey
	var wire []byte
	field := func(b []byte) {
		wire = binary.BigEndian.AppendUint32(wire, uint32(len(b)))
		wire = append(wire, b...)
	}
	field([]byte("ssh-rsa"))
	field(big.NewInt(int64(key.E)).Bytes())
	field(append([]byte{0}, key.N.Bytes()...))
	return "ssh-rsa " + base64.StdEncoding.EncodeToString(wire) + " " + comment
}
