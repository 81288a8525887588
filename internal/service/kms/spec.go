package kms

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"slices"

	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// A keySpec describes what keys with a spec can do and how their material is generated.
// https://docs.aws.amazon.com/kms/latest/developerguide/symm-asymm-choose-key-spec.html
type keySpec struct {
	usages     []kmstypes.KeyUsageType
	encryption []kmstypes.EncryptionAlgorithmSpec
	signing    []kmstypes.SigningAlgorithmSpec
	mac        []kmstypes.MacAlgorithmSpec
	agreement  []kmstypes.KeyAgreementAlgorithmSpec
	make       func() ([]byte, error)
}

var (
	rsaEncryption = []kmstypes.EncryptionAlgorithmSpec{kmstypes.EncryptionAlgorithmSpecRsaesOaepSha1, kmstypes.EncryptionAlgorithmSpecRsaesOaepSha256}
	rsaSigning    = []kmstypes.SigningAlgorithmSpec{
		kmstypes.SigningAlgorithmSpecRsassaPkcs1V15Sha256, kmstypes.SigningAlgorithmSpecRsassaPkcs1V15Sha384, kmstypes.SigningAlgorithmSpecRsassaPkcs1V15Sha512,
		kmstypes.SigningAlgorithmSpecRsassaPssSha256, kmstypes.SigningAlgorithmSpecRsassaPssSha384, kmstypes.SigningAlgorithmSpecRsassaPssSha512,
	}
)

var keySpecs = map[kmstypes.KeySpec]keySpec{
	kmstypes.KeySpecSymmetricDefault: {
		usages:     []kmstypes.KeyUsageType{kmstypes.KeyUsageTypeEncryptDecrypt},
		encryption: []kmstypes.EncryptionAlgorithmSpec{kmstypes.EncryptionAlgorithmSpecSymmetricDefault},
		make:       random(32),
	},
	kmstypes.KeySpecRsa2048:     rsaSpec(2048),
	kmstypes.KeySpecRsa3072:     rsaSpec(3072),
	kmstypes.KeySpecRsa4096:     rsaSpec(4096),
	kmstypes.KeySpecEccNistP256: eccSpec(elliptic.P256(), kmstypes.SigningAlgorithmSpecEcdsaSha256),
	kmstypes.KeySpecEccNistP384: eccSpec(elliptic.P384(), kmstypes.SigningAlgorithmSpecEcdsaSha384),
	kmstypes.KeySpecEccNistP521: eccSpec(elliptic.P521(), kmstypes.SigningAlgorithmSpecEcdsaSha512),
	kmstypes.KeySpecEccNistEdwards25519: {
		usages:  []kmstypes.KeyUsageType{kmstypes.KeyUsageTypeSignVerify},
		signing: []kmstypes.SigningAlgorithmSpec{kmstypes.SigningAlgorithmSpecEd25519Sha512, kmstypes.SigningAlgorithmSpecEd25519PhSha512},
		make: func() ([]byte, error) {
			_, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return nil, err
			}
			return x509.MarshalPKCS8PrivateKey(private)
		},
	},
	kmstypes.KeySpecHmac224: macSpec(28, kmstypes.MacAlgorithmSpecHmacSha224),
	kmstypes.KeySpecHmac256: macSpec(32, kmstypes.MacAlgorithmSpecHmacSha256),
	kmstypes.KeySpecHmac384: macSpec(48, kmstypes.MacAlgorithmSpecHmacSha384),
	kmstypes.KeySpecHmac512: macSpec(64, kmstypes.MacAlgorithmSpecHmacSha512),
}

func random(n int) func() ([]byte, error) {
	return func() ([]byte, error) {
		b := make([]byte, n)
		_, _ = rand.Read(b) // never fails
		return b, nil
	}
}

func rsaSpec(bits int) keySpec {
	return keySpec{
		usages:     []kmstypes.KeyUsageType{kmstypes.KeyUsageTypeEncryptDecrypt, kmstypes.KeyUsageTypeSignVerify},
		encryption: rsaEncryption, signing: rsaSigning,
		make: func() ([]byte, error) {
			private, err := rsa.GenerateKey(rand.Reader, bits)
			if err != nil {
				return nil, err
			}
			return x509.MarshalPKCS8PrivateKey(private)
		},
	}
}

func eccSpec(curve elliptic.Curve, algorithm kmstypes.SigningAlgorithmSpec) keySpec {
	return keySpec{
		usages:    []kmstypes.KeyUsageType{kmstypes.KeyUsageTypeSignVerify, kmstypes.KeyUsageTypeKeyAgreement},
		signing:   []kmstypes.SigningAlgorithmSpec{algorithm},
		agreement: []kmstypes.KeyAgreementAlgorithmSpec{kmstypes.KeyAgreementAlgorithmSpecEcdh},
		make: func() ([]byte, error) {
			private, err := ecdsa.GenerateKey(curve, rand.Reader)
			if err != nil {
				return nil, err
			}
			return x509.MarshalPKCS8PrivateKey(private)
		},
	}
}

func macSpec(bytes int, algorithm kmstypes.MacAlgorithmSpec) keySpec {
	return keySpec{usages: []kmstypes.KeyUsageType{kmstypes.KeyUsageTypeGenerateVerifyMac}, mac: []kmstypes.MacAlgorithmSpec{algorithm}, make: random(bytes)}
}

// specOf returns the spec and usage in a CreateKey request.
func specOf(spec kmstypes.KeySpec, usage kmstypes.KeyUsageType) (keySpec, kmstypes.KeySpec, kmstypes.KeyUsageType, error) {
	if spec == "" {
		spec = kmstypes.KeySpecSymmetricDefault
	}
	def, ok := keySpecs[spec]
	if !ok {
		return keySpec{}, "", "", awserr.NotImplemented("KMS keys of the spec " + string(spec) + " for " + string(usage))
	}
	switch {
	case usage == "" && spec == kmstypes.KeySpecSymmetricDefault:
		usage = kmstypes.KeyUsageTypeEncryptDecrypt
	case usage == "":
		return keySpec{}, "", "", errValidation("You must specify a KeyUsage value for all KMS keys except for symmetric encryption keys.")
	case !slices.Contains(def.usages, usage):
		return keySpec{}, "", "", errValidation("KeyUsage %s is not compatible with KeySpec %s", usage, spec)
	}
	return def, spec, usage, nil
}
