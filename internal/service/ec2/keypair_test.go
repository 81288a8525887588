package ec2_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"golang.org/x/crypto/ssh"
)

func TestImportedKeys(t *testing.T) {
	w := newWorld(t)
	rsaKey := func(bits int) any {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		return &key.PublicKey
	}
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	two := rsaKey(2048)
	openSSH := func(key any) string { return string(ssh.MarshalAuthorizedKey(must(ssh.NewPublicKey(key))(t))) }
	der := must(x509.MarshalPKIXPublicKey(two))(t)
	ssh2 := fmt.Sprintf("---- BEGIN SSH2 PUBLIC KEY ----\nComment: \"one \\\nof two lines\"\n%s\n---- END SSH2 PUBLIC KEY ----\n",
		base64.StdEncoding.EncodeToString(must(ssh.NewPublicKey(two))(t).Marshal()))
	var first string
	for _, tt := range []struct {
		name, material string
		kind           string // empty if refused
	}{
		{"RSA 2048", openSSH(two), "rsa"},
		{"the same in PEM", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), "rsa"},
		{"the same in DER", base64.StdEncoding.EncodeToString(der), "rsa"},
		{"the same in SSH2", ssh2, "rsa"},
		{"RSA 1024", openSSH(rsaKey(1024)), "rsa"},
		{"ED25519", openSSH(edwards), "ed25519"},
		{"RSA 3072", openSSH(rsaKey(3072)), ""},
		{"ECDSA", openSSH(&curve.PublicKey), ""},
		{"two keys", openSSH(two) + openSSH(edwards), ""},
		{"a private key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:50]})), ""},
		{"nothing of the kind", "hello", ""},
		{"SSH2 without end", ssh2[:100], ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := w.ImportKeyPair(t.Context(), &awsec2.ImportKeyPairInput{KeyName: &tt.name, PublicKeyMaterial: []byte(tt.material)})
			if tt.kind == "" {
				wantError(t, err, "InvalidKey.Format", "Key is not in valid OpenSSH public key format")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = *out.KeyFingerprint
			}
			if tt.material != openSSH(two) && len(tt.name) > 8 && tt.name[:8] == "the same" && *out.KeyFingerprint != first {
				t.Errorf("fingerprint %s, want %s", *out.KeyFingerprint, first)
			}
			got := must(w.DescribeKeyPairs(t.Context(), &awsec2.DescribeKeyPairsInput{KeyNames: []string{tt.name}}))(t).KeyPairs[0]
			if string(got.KeyType) != tt.kind {
				t.Errorf("a key of type %s", got.KeyType)
			}
		})
	}
	_, err = w.CreateKeyPair(t.Context(), &awsec2.CreateKeyPairInput{KeyName: aws.String("putty"), KeyFormat: "ppk"})
	wantError(t, err, "NotImplemented", "")
}
