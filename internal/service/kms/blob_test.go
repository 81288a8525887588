package kms

import (
	"bytes"
	"testing"

	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// FuzzParseBlob checks that any input is either parsed as the ciphertext that it is or rejected,
// and can only be decrypted with the key that encrypted it.
func FuzzParseBlob(f *testing.F) {
	sc := scope{regional.At("111122223333", "us-east-1")}
	key, err := newKey(sc, keySpecs[kmstypes.KeySpecSymmetricDefault], kmstypes.KeySpecSymmetricDefault, kmstypes.KeyUsageTypeEncryptDecrypt)
	if err != nil {
		f.Fatal(err)
	}
	made, err := key.seal(sc, []byte("secret"), map[string]string{"a": "1"})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{made, made[:len(made)-1], made[:40], nil, {blobVersion}, bytes.Repeat([]byte{blobVersion}, 64), append([]byte{2}, made[1:]...)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := parseBlob(raw)
		if err != nil {
			return
		}
		header, err := b.header()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if !bytes.HasPrefix(raw, header) || !bytes.Equal(raw[len(header):], b.sealed) {
			t.Errorf("read %x as %+v", raw, b)
		}
		plaintext, _, err := key.open(&b, map[string]string{"a": "1"})
		if err == nil && !bytes.Equal(raw, made) {
			t.Errorf("%x opens as %q", raw, plaintext)
		}
	})
}

// TestContextsAreNotConfused checks that different contexts are authenticated differently.
func TestContextsAreNotConfused(t *testing.T) {
	seen := map[string]int{}
	for i, context := range []map[string]string{nil, {"a": ""}, {"": "a"}, {"a": "b"}, {"ab": ""}, {"a": "1", "b": "2"}, {"a": "1b2"}, {"a1": "b2"}} {
		bound := string(authenticated([]byte("h"), context))
		if j, ok := seen[bound]; ok {
			t.Errorf("contexts %d and %d are the same", i, j)
		}
		seen[bound] = i
	}
}
