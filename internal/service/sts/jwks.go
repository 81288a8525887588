package sts

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
)

// maxKeySet is the maximum size of a key set. AWS accepts issuers with up to 100 keys.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_create_oidc.html
const maxKeySet = 1 << 18

// A jwk is a public key as issuers publish it.
// https://www.rfc-editor.org/rfc/rfc7518#section-6
type jwk struct {
	KID, Use, KTY, CRV, N, E, X, Y string
}

// verificationKey returns the key that signed a token. If an issuer has a single key, the token
// need not name it.
func verificationKey(keySet []byte, kid string) (crypto.PublicKey, error) {
	if len(keySet) > maxKeySet {
		return nil, errors.New("the issuer's key set is too large")
	}
	var set struct{ Keys []jwk }
	if err := json.Unmarshal(keySet, &set); err != nil {
		return nil, fmt.Errorf("reading the issuer's key set: %w", err)
	}
	for _, k := range set.Keys {
		if k.Use != "" && k.Use != "sig" || k.KID != kid && (kid != "" || len(set.Keys) > 1) {
			continue
		}
		return k.public()
	}
	return nil, fmt.Errorf("the issuer has no key %q", kid)
}

func (k jwk) public() (crypto.PublicKey, error) {
	number := func(s string) (*big.Int, error) {
		b, err := base64.RawURLEncoding.DecodeString(s)
		return new(big.Int).SetBytes(b), err
	}
	switch k.KTY {
	case "RSA":
		n, err1 := number(k.N)
		e, err2 := number(k.E)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if n.BitLen() < 2048 || n.BitLen() > 8192 || !e.IsInt64() || e.Int64() < 3 || e.Int64() >= 1<<31 {
			return nil, errors.New("not an acceptable RSA key")
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
	case "EC":
		if k.CRV != "P-256" {
			return nil, fmt.Errorf("curve %q is not supported", k.CRV)
		}
		x, err1 := base64.RawURLEncoding.DecodeString(k.X)
		y, err2 := base64.RawURLEncoding.DecodeString(k.Y)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if len(x) != 32 || len(y) != 32 {
			return nil, errors.New("not a point of P-256")
		}
		point := append(append([]byte{4}, x...), y...)
		return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	}
	return nil, fmt.Errorf("key type %q is not supported", k.KTY)
}
