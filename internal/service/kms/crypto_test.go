package kms_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // RSAES_OAEP_SHA_1 is AWS's
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// TestSignatures verifies KMS's signatures with the standard library and with KMS.
func TestSignatures(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, _ := w.root(t)
	message := []byte("a message")
	sum := sha256.Sum256(message)
	for spec, algorithms := range map[kmstypes.KeySpec]string{
		"RSA_2048":              "RSASSA_PSS_SHA_256 RSASSA_PKCS1_V1_5_SHA_256 RSASSA_PSS_SHA_512 RSASSA_PKCS1_V1_5_SHA_384",
		"ECC_NIST_P256":         "ECDSA_SHA_256",
		"ECC_NIST_P384":         "ECDSA_SHA_384",
		"ECC_NIST_P521":         "ECDSA_SHA_512",
		"ECC_NIST_EDWARDS25519": "ED25519_SHA_512",
	} {
		id, arn := newKey(t, c, func(in *awskms.CreateKeyInput) { in.KeySpec, in.KeyUsage = spec, "SIGN_VERIFY" })
		key, err := c.GetPublicKey(ctx, &awskms.GetPublicKeyInput{KeyId: &id})
		check(t, err)
		public, err := x509.ParsePKIXPublicKey(key.PublicKey)
		check(t, err)
		for a := range strings.FieldsSeq(algorithms) {
			algorithm := kmstypes.SigningAlgorithmSpec(a)
			out, err := c.Sign(ctx, &awskms.SignInput{KeyId: &id, Message: message, SigningAlgorithm: algorithm})
			check(t, err)
			switch public := public.(type) {
			case *rsa.PublicKey:
				if a == "RSASSA_PSS_SHA_256" {
					check(t, rsa.VerifyPSS(public, crypto.SHA256, sum[:], out.Signature, nil))
				}
				if a == "RSASSA_PKCS1_V1_5_SHA_256" {
					check(t, rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], out.Signature))
				}
			case *ecdsa.PublicKey:
				if spec == "ECC_NIST_P256" && !ecdsa.VerifyASN1(public, sum[:], out.Signature) {
					t.Errorf("%s: the signature is not the key's", spec)
				}
			}
			verify := func(message, signature []byte) error {
				v, err := c.Verify(ctx, &awskms.VerifyInput{KeyId: &arn, Message: message, Signature: signature, SigningAlgorithm: algorithm})
				if err == nil && !v.SignatureValid {
					t.Errorf("%s: no error, and not valid", a)
				}
				return err
			}
			if err := verify(message, out.Signature); err != nil {
				t.Errorf("%s: %v", a, err)
			}
			wantError(t, verify([]byte("another"), out.Signature), "KMSInvalidSignatureException: ")
			wantError(t, verify(message, []byte("no signature")), "KMSInvalidSignatureException: ")
			if spec == "ECC_NIST_EDWARDS25519" {
				continue
			}
			_, err = c.Sign(ctx, &awskms.SignInput{KeyId: &id, Message: []byte("short"), MessageType: "DIGEST", SigningAlgorithm: algorithm})
			wantError(t, err, "ValidationException: Digest is invalid length for algorithm "+a+".")
		}
		_, err = c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: message})
		wantError(t, err, "InvalidKeyUsageException: "+arn+" key usage is SIGN_VERIFY which is not valid for Encrypt.")
		_, err = c.Decrypt(ctx, &awskms.DecryptInput{KeyId: &id, CiphertextBlob: message})
		wantError(t, err, "IncorrectKeyException: The key ID in the request does not identify a CMK that can perform this operation.")
		_, err = c.EnableKeyRotation(ctx, &awskms.EnableKeyRotationInput{KeyId: &id})
		wantError(t, err, "UnsupportedOperationException: ")
	}
	// A digest is signed without hashing it again.
	id, _ := newKey(t, c, func(in *awskms.CreateKeyInput) { in.KeySpec, in.KeyUsage = "ECC_NIST_P256", "SIGN_VERIFY" })
	out, err := c.Sign(ctx, &awskms.SignInput{KeyId: &id, Message: sum[:], MessageType: "DIGEST", SigningAlgorithm: "ECDSA_SHA_256"})
	check(t, err)
	_, err = c.Verify(ctx, &awskms.VerifyInput{KeyId: &id, Message: message, Signature: out.Signature, SigningAlgorithm: "ECDSA_SHA_256"})
	check(t, err)
	_, err = c.Sign(ctx, &awskms.SignInput{KeyId: &id, Message: message, SigningAlgorithm: "RSASSA_PSS_SHA_256"})
	wantError(t, err, "InvalidKeyUsageException: Algorithm RSASSA_PSS_SHA_256 is incompatible with key spec ECC_NIST_P256.")
}

func TestRSAEncryption(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, _ := w.root(t)
	id, _ := newKey(t, c, func(in *awskms.CreateKeyInput) { in.KeySpec, in.KeyUsage = "RSA_2048", "ENCRYPT_DECRYPT" })
	key, err := c.GetPublicKey(ctx, &awskms.GetPublicKeyInput{KeyId: &id})
	check(t, err)
	public, err := x509.ParsePKIXPublicKey(key.PublicKey)
	check(t, err)
	for algorithm, most := range map[kmstypes.EncryptionAlgorithmSpec]int{"RSAES_OAEP_SHA_1": 214, "RSAES_OAEP_SHA_256": 190} {
		h := sha256.New()
		if algorithm == "RSAES_OAEP_SHA_1" {
			h = sha1.New() //nolint:gosec // AWS's
		}
		outside, err := rsa.EncryptOAEP(h, rand.Reader, public.(*rsa.PublicKey), []byte("from outside"), nil)
		check(t, err)
		out, err := c.Decrypt(ctx, &awskms.DecryptInput{KeyId: &id, CiphertextBlob: outside, EncryptionAlgorithm: algorithm})
		if err != nil || string(out.Plaintext) != "from outside" || out.KeyMaterialId != nil {
			t.Errorf("%s: %v %v", algorithm, out, err)
		}
		_, err = c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: make([]byte, most+1), EncryptionAlgorithm: algorithm})
		wantError(t, err, "ValidationException: Algorithm "+string(algorithm)+" and key spec RSA_2048 cannot encrypt data larger than "+map[int]string{214: "214", 190: "190"}[most]+" bytes.")
		sealed, err := c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: make([]byte, most), EncryptionAlgorithm: algorithm})
		check(t, err)
		_, err = c.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: sealed.CiphertextBlob, EncryptionAlgorithm: algorithm})
		wantError(t, err, "InvalidCiphertextException: ")
	}
	_, err = c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: []byte("x")})
	wantError(t, err, "InvalidKeyUsageException: Algorithm SYMMETRIC_DEFAULT is incompatible with key spec RSA_2048.")
}

func TestMacs(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, _ := w.root(t)
	for spec, algorithm := range map[kmstypes.KeySpec]kmstypes.MacAlgorithmSpec{"HMAC_224": "HMAC_SHA_224", "HMAC_256": "HMAC_SHA_256", "HMAC_384": "HMAC_SHA_384", "HMAC_512": "HMAC_SHA_512"} {
		id, arn := newKey(t, c, func(in *awskms.CreateKeyInput) { in.KeySpec, in.KeyUsage = spec, "GENERATE_VERIFY_MAC" })
		out, err := c.GenerateMac(ctx, &awskms.GenerateMacInput{KeyId: &id, Message: []byte("m"), MacAlgorithm: algorithm})
		check(t, err)
		if size := map[kmstypes.KeySpec]int{"HMAC_224": sha256.Size224, "HMAC_256": sha256.Size, "HMAC_384": sha512.Size384, "HMAC_512": sha512.Size}[spec]; len(out.Mac) != size {
			t.Errorf("%s: %d bytes", spec, len(out.Mac))
		}
		verify := func(code []byte) error {
			_, err := c.VerifyMac(ctx, &awskms.VerifyMacInput{KeyId: &id, Message: []byte("m"), MacAlgorithm: algorithm, Mac: code})
			return err
		}
		check(t, verify(out.Mac))
		other := bytes.Clone(out.Mac)
		other[0] ^= 1
		wantError(t, verify(other), "KMSInvalidMacException: ")
		_, err = c.Sign(ctx, &awskms.SignInput{KeyId: &id, Message: []byte("m"), SigningAlgorithm: "ECDSA_SHA_256"})
		wantError(t, err, "InvalidKeyUsageException: "+arn+" key usage is GENERATE_VERIFY_MAC which is not valid for Sign.")
		if hmac.Equal(out.Mac, other) {
			t.Error("the other code is the same")
		}
	}
	id, arn := newKey(t, c, nil)
	_, err := c.GenerateMac(ctx, &awskms.GenerateMacInput{KeyId: &id, Message: []byte("m"), MacAlgorithm: "HMAC_SHA_256"})
	wantError(t, err, "InvalidKeyUsageException: "+arn+" key usage is ENCRYPT_DECRYPT which is not valid for GenerateMac.")
	_, err = c.CreateKey(ctx, &awskms.CreateKeyInput{KeySpec: "HMAC_256"})
	wantError(t, err, "ValidationException: You must specify a KeyUsage value for all KMS keys except for symmetric encryption keys.")
	_, err = c.CreateKey(ctx, &awskms.CreateKeyInput{KeySpec: "HMAC_256", KeyUsage: "SIGN_VERIFY"})
	wantError(t, err, "ValidationException: KeyUsage SIGN_VERIFY is not compatible with KeySpec HMAC_256")
}

func TestDataKeys(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, _ := w.root(t)
	id, arn := newKey(t, c, nil)
	app := map[string]string{"app": "web"}
	out, err := c.GenerateDataKey(ctx, &awskms.GenerateDataKeyInput{KeyId: &id, KeySpec: "AES_256", EncryptionContext: app})
	check(t, err)
	open := func(sealed []byte) []byte {
		t.Helper()
		out, err := c.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: sealed, EncryptionContext: app})
		check(t, err)
		return out.Plaintext
	}
	if *out.KeyId != arn || len(out.Plaintext) != 32 || !bytes.Equal(open(out.CiphertextBlob), out.Plaintext) {
		t.Errorf("%+v", out)
	}
	_, err = c.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: out.CiphertextBlob})
	wantError(t, err, "InvalidCiphertextException: ")
	blind, err := c.GenerateDataKeyWithoutPlaintext(ctx, &awskms.GenerateDataKeyWithoutPlaintextInput{KeyId: &id, NumberOfBytes: aws.Int32(64), EncryptionContext: app})
	check(t, err)
	if len(open(blind.CiphertextBlob)) != 64 {
		t.Error("not 64 bytes")
	}
	pair, err := c.GenerateDataKeyPair(ctx, &awskms.GenerateDataKeyPairInput{KeyId: &id, KeyPairSpec: "ECC_NIST_P256", EncryptionContext: app})
	check(t, err)
	private, err := x509.ParsePKCS8PrivateKey(open(pair.PrivateKeyCiphertextBlob))
	check(t, err)
	public, err := x509.ParsePKIXPublicKey(pair.PublicKey)
	check(t, err)
	if !private.(*ecdsa.PrivateKey).PublicKey.Equal(public) {
		t.Error("the private key is another's")
	}
	_, err = c.GenerateDataKey(ctx, &awskms.GenerateDataKeyInput{KeyId: &id})
	wantError(t, err, "ValidationException: Please specify either number of bytes or key spec.")
	_, err = c.GenerateDataKeyPair(ctx, &awskms.GenerateDataKeyPairInput{KeyId: &id, KeyPairSpec: "SM2"})
	wantError(t, err, "NotImplemented: …")
	for n, want := range map[int32]string{
		0:    "ValidationException: 1 validation error detected: Value '0' at 'numberOfBytes' failed to satisfy constraint: Member must have value greater than or equal to 1",
		1025: "ValidationException: 1 validation error detected: Value '1025' at 'numberOfBytes' failed to satisfy constraint: Member must have value less than or equal to 1024",
	} {
		_, err := c.GenerateRandom(ctx, &awskms.GenerateRandomInput{NumberOfBytes: &n})
		wantError(t, err, want)
	}
	random, err := c.GenerateRandom(ctx, &awskms.GenerateRandomInput{NumberOfBytes: aws.Int32(1024)})
	if err != nil || len(random.Plaintext) != 1024 {
		t.Errorf("%v", err)
	}
}

// TestReEncryption checks that both keys must be allowed, each with its own action.
func TestReEncryption(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, account := w.root(t)
	from, fromARN := newKey(t, c, nil)
	to, toARN := newKey(t, c, nil)
	sealed, err := c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &from, Plaintext: []byte("secret")})
	check(t, err)
	out, err := c.ReEncrypt(ctx, &awskms.ReEncryptInput{CiphertextBlob: sealed.CiphertextBlob, DestinationKeyId: &to, DestinationEncryptionContext: map[string]string{"a": "1"}})
	check(t, err)
	if *out.KeyId != toARN || *out.SourceKeyId != fromARN {
		t.Errorf("%+v", out)
	}
	clear, err := c.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: out.CiphertextBlob, KeyId: &to, EncryptionContext: map[string]string{"a": "1"}})
	if err != nil || string(clear.Plaintext) != "secret" {
		t.Errorf("%v %v", clear, err)
	}
	_, err = c.ReEncrypt(ctx, &awskms.ReEncryptInput{CiphertextBlob: sealed.CiphertextBlob, SourceKeyId: &to, DestinationKeyId: &to})
	wantError(t, err, "IncorrectKeyException: The key ID in the request does not identify a CMK that can perform this operation.")
	half := w.user(t, account, "half", "kms:ReEncryptFrom")
	_, err = half.ReEncrypt(ctx, &awskms.ReEncryptInput{CiphertextBlob: sealed.CiphertextBlob, DestinationKeyId: &to})
	wantError(t, err, "AccessDeniedException: User: arn:aws:iam::"+account+":user/half is not authorized to perform: kms:ReEncryptTo on resource: "+toARN+" because no identity-based policy allows the kms:ReEncryptTo action")
	whole := w.user(t, account, "whole", "kms:ReEncrypt*")
	_, err = whole.ReEncrypt(ctx, &awskms.ReEncryptInput{CiphertextBlob: sealed.CiphertextBlob, DestinationKeyId: &to})
	check(t, err)
}

func TestKeyAgreement(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, _ := w.root(t)
	for spec, curve := range map[kmstypes.KeySpec]elliptic.Curve{"ECC_NIST_P256": elliptic.P256(), "ECC_NIST_P521": elliptic.P521()} {
		id, arn := newKey(t, c, func(in *awskms.CreateKeyInput) { in.KeySpec, in.KeyUsage = spec, "KEY_AGREEMENT" })
		mine, err := ecdsa.GenerateKey(curve, rand.Reader)
		check(t, err)
		raw, err := x509.MarshalPKIXPublicKey(&mine.PublicKey)
		check(t, err)
		out, err := c.DeriveSharedSecret(ctx, &awskms.DeriveSharedSecretInput{KeyId: &id, KeyAgreementAlgorithm: "ECDH", PublicKey: raw})
		check(t, err)
		theirs, err := c.GetPublicKey(ctx, &awskms.GetPublicKeyInput{KeyId: &id})
		check(t, err)
		parsed, err := x509.ParsePKIXPublicKey(theirs.PublicKey)
		check(t, err)
		private, err := mine.ECDH()
		check(t, err)
		public, err := parsed.(*ecdsa.PublicKey).ECDH()
		check(t, err)
		if want, err := private.ECDH(public); err != nil || !bytes.Equal(want, out.SharedSecret) || len(theirs.KeyAgreementAlgorithms) != 1 {
			t.Errorf("%s: the secrets differ (%v)", spec, err)
		}
		other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		check(t, err)
		if raw, err = x509.MarshalPKIXPublicKey(&other.PublicKey); err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]byte{raw, []byte("no key")} {
			_, err = c.DeriveSharedSecret(ctx, &awskms.DeriveSharedSecretInput{KeyId: &id, KeyAgreementAlgorithm: "ECDH", PublicKey: bad})
			wantError(t, err, "ValidationException: …")
		}
		_, err = c.Sign(ctx, &awskms.SignInput{KeyId: &id, Message: []byte("m"), SigningAlgorithm: "ECDSA_SHA_256"})
		wantError(t, err, "InvalidKeyUsageException: "+arn+" key usage is KEY_AGREEMENT which is not valid for Sign.")
	}
	_, err := c.CreateKey(ctx, &awskms.CreateKeyInput{KeySpec: "RSA_2048", KeyUsage: "KEY_AGREEMENT"})
	wantError(t, err, "ValidationException: KeyUsage KEY_AGREEMENT is not compatible with KeySpec RSA_2048")
}
