package kms

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // RSAES_OAEP_SHA_1 is AWS's
	"crypto/sha256"
	"crypto/x509"
	"hash"
	"slices"
	"strings"

	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// A publicKeyer is any private key of the standard library.
type publicKeyer interface{ Public() crypto.PublicKey }

// private returns the private key of an asymmetric key.
func (k *keyRecord) private() (any, error) { return x509.ParsePKCS8PrivateKey(k.current().Secret) }

func oaep(algorithm kmstypes.EncryptionAlgorithmSpec) hash.Hash {
	if algorithm == kmstypes.EncryptionAlgorithmSpecRsaesOaepSha1 {
		return sha1.New() //nolint:gosec // AWS's
	}
	return sha256.New()
}

func (k *keyRecord) encryptRSA(algorithm kmstypes.EncryptionAlgorithmSpec, plaintext []byte) ([]byte, error) {
	private, err := k.private()
	if err != nil {
		return nil, err
	}
	public, h := &private.(*rsa.PrivateKey).PublicKey, oaep(algorithm)
	if most := public.Size() - 2*h.Size() - 2; len(plaintext) > most {
		return nil, errTooLarge(algorithm, k.Spec, most)
	}
	return rsa.EncryptOAEP(h, rand.Reader, public, plaintext, nil)
}

func (k *keyRecord) decryptRSA(algorithm kmstypes.EncryptionAlgorithmSpec, ciphertext []byte) ([]byte, error) {
	private, err := k.private()
	if err != nil {
		return nil, err
	}
	return rsa.DecryptOAEP(oaep(algorithm), nil, private.(*rsa.PrivateKey), ciphertext, nil)
}

// hashOf returns the hash function of a signing algorithm.
func hashOf(algorithm kmstypes.SigningAlgorithmSpec) crypto.Hash {
	switch name := string(algorithm); {
	case strings.HasSuffix(name, "_384"):
		return crypto.SHA384
	case strings.HasSuffix(name, "_512"):
		return crypto.SHA512
	}
	return crypto.SHA256
}

// digest returns what is signed for a message: its hash, or the message itself if that already is
// the hash or if the algorithm hashes it.
func (k *keyRecord) digest(algorithm kmstypes.SigningAlgorithmSpec, kind kmstypes.MessageType, message []byte) ([]byte, error) {
	if kind == "" {
		kind = kmstypes.MessageTypeRaw
	}
	if !slices.Contains(keySpecs[k.Spec].signing, algorithm) {
		return nil, errAlgorithm(string(algorithm), k.Spec)
	}
	h := hashOf(algorithm)
	switch {
	case kind == kmstypes.MessageTypeExternalMu,
		kind == kmstypes.MessageTypeDigest && algorithm == kmstypes.SigningAlgorithmSpecEd25519Sha512,
		kind == kmstypes.MessageTypeRaw && algorithm == kmstypes.SigningAlgorithmSpecEd25519PhSha512:
		return nil, errMessageType(kind, algorithm)
	case kind == kmstypes.MessageTypeDigest && len(message) != h.Size():
		return nil, errValidation("Digest is invalid length for algorithm %s.", algorithm)
	case kind == kmstypes.MessageTypeDigest, algorithm == kmstypes.SigningAlgorithmSpecEd25519Sha512:
		return message, nil
	}
	sum := h.New()
	sum.Write(message)
	return sum.Sum(nil), nil
}

// pss returns the options for PSS signatures, or nil for PKCS #1 v1.5.
func pss(algorithm kmstypes.SigningAlgorithmSpec) *rsa.PSSOptions {
	if !strings.HasPrefix(string(algorithm), "RSASSA_PSS_") {
		return nil
	}
	return &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hashOf(algorithm)}
}

// ed25519Hash returns the hash that an Ed25519 message was hashed with, or 0 if the message is not
// hashed.
func ed25519Hash(algorithm kmstypes.SigningAlgorithmSpec) crypto.Hash {
	if algorithm == kmstypes.SigningAlgorithmSpecEd25519PhSha512 {
		return crypto.SHA512
	}
	return 0
}

// agree derives the secret that the key shares with the owner of a public key on the same curve,
// given as SubjectPublicKeyInfo.
func (k *keyRecord) agree(raw []byte) ([]byte, error) {
	own, err := k.private()
	if err != nil {
		return nil, err
	}
	private, err := own.(*ecdsa.PrivateKey).ECDH()
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(raw)
	if err != nil {
		return nil, errPublicKey()
	}
	other, ok := parsed.(*ecdsa.PublicKey)
	if !ok {
		return nil, errPublicKey()
	}
	public, err := other.ECDH()
	if err != nil {
		return nil, errPublicKey()
	}
	secret, err := private.ECDH(public)
	if err != nil {
		return nil, errPublicKey()
	}
	return secret, nil
}

func (k *keyRecord) sign(algorithm kmstypes.SigningAlgorithmSpec, digest []byte) ([]byte, error) {
	private, err := k.private()
	if err != nil {
		return nil, err
	}
	options := crypto.SignerOpts(hashOf(algorithm))
	switch private.(type) {
	case *rsa.PrivateKey:
		if p := pss(algorithm); p != nil {
			options = p
		}
	case ed25519.PrivateKey:
		options = ed25519Hash(algorithm)
	}
	return private.(crypto.Signer).Sign(rand.Reader, digest, options)
}

// verify reports whether a signature was made with the key.
func (k *keyRecord) verify(algorithm kmstypes.SigningAlgorithmSpec, digest, signature []byte) (bool, error) {
	private, err := k.private()
	if err != nil {
		return false, err
	}
	switch private := private.(type) {
	case *rsa.PrivateKey:
		if p := pss(algorithm); p != nil {
			return rsa.VerifyPSS(&private.PublicKey, p.Hash, digest, signature, p) == nil, nil
		}
		return rsa.VerifyPKCS1v15(&private.PublicKey, hashOf(algorithm), digest, signature) == nil, nil
	case *ecdsa.PrivateKey:
		return ecdsa.VerifyASN1(&private.PublicKey, digest, signature), nil
	case ed25519.PrivateKey:
		public := private.Public().(ed25519.PublicKey)
		return ed25519.VerifyWithOptions(public, digest, signature, &ed25519.Options{Hash: ed25519Hash(algorithm)}) == nil, nil
	}
	return false, nil
}
