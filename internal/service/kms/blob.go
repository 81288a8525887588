package kms

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A blob is a ciphertext of symmetric encryption:
//
//	version 1 byte, account 12 digits, region length 1 byte and text, key ID 16 bytes,
//	material 4 bytes, then nonce, ciphertext and tag of AES-256-GCM
//
// Everything before the nonce is authenticated, together with the encryption context.
type blob struct {
	scope
	keyID    string
	material int // index in the key's materials
	sealed   []byte
}

const blobVersion = 1

// minSealed is the length of nonce and tag together.
const minSealed = 12 + 16

// header returns the part that identifies the key.
func (b *blob) header() ([]byte, error) {
	id, err := hex.DecodeString(strings.ReplaceAll(b.keyID, "-", ""))
	if err != nil || len(id) != 16 || len(b.Account) != 12 || len(b.Region) > 255 {
		return nil, fmt.Errorf("the key %s of %s cannot be put into a ciphertext", b.keyID, b.scope)
	}
	out := append([]byte{blobVersion}, b.Account...)
	out = append(out, byte(len(b.Region)))
	out = append(out, b.Region...)
	out = append(out, id...)
	return binary.BigEndian.AppendUint32(out, uint32(b.material)), nil
}

var errBlob = errors.New("not a ciphertext of symmetric encryption")

// parseBlob parses a ciphertext, which is untrusted input.
func parseBlob(raw []byte) (blob, error) {
	var b blob
	rest := raw
	take := func(n int) []byte {
		if len(rest) < n {
			rest = nil
			return nil
		}
		out := rest[:n]
		rest = rest[n:]
		return out
	}
	version, account, length := take(1), take(12), take(1)
	if version == nil || version[0] != blobVersion || length == nil || strings.Trim(string(account), "0123456789") != "" {
		return blob{}, errBlob
	}
	region, id, index := take(int(length[0])), take(16), take(4)
	if index == nil || len(rest) < minSealed || strings.Trim(string(region), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return blob{}, errBlob
	}
	n := binary.BigEndian.Uint32(index)
	if n > 1<<20 {
		return blob{}, errBlob
	}
	h := hex.EncodeToString(id)
	b.Account, b.Region, b.material, b.sealed = string(account), string(region), int(n), rest
	b.keyID = h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	return b, nil
}

// seal encrypts with the key's current material.
func (k *keyRecord) seal(sc scope, plaintext []byte, context map[string]string) ([]byte, error) {
	b := blob{scope: sc, keyID: k.ID, material: len(k.Materials) - 1}
	header, err := b.header()
	if err != nil {
		return nil, err
	}
	aead, err := newAEAD(k.current().Secret)
	if err != nil {
		return nil, err
	}
	return append(header, aead.Seal(nil, nil, plaintext, authenticated(header, context))...), nil
}

// open decrypts what seal encrypted, and returns the material that it used. Callers cannot tell
// failures apart.
func (k *keyRecord) open(b *blob, context map[string]string) ([]byte, *material, error) {
	if b.keyID != k.ID || b.material >= len(k.Materials) {
		return nil, nil, errBlob
	}
	header, err := b.header()
	if err != nil {
		return nil, nil, err
	}
	m := &k.Materials[b.material]
	aead, err := newAEAD(m.Secret)
	if err != nil {
		return nil, nil, err
	}
	plaintext, err := aead.Open(nil, nil, b.sealed, authenticated(header, context))
	if err != nil {
		return nil, nil, errBlob
	}
	return plaintext, m, nil
}

func newAEAD(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// authenticated returns the additional authenticated data of a ciphertext: its header and the
// encryption context, whose order does not matter.
// https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#encrypt_context
func authenticated(header []byte, context map[string]string) []byte {
	out := slices.Clone(header)
	for _, k := range slices.Sorted(maps.Keys(context)) {
		for _, s := range []string{k, context[k]} {
			out = binary.BigEndian.AppendUint32(out, uint32(len(s)))
			out = append(out, s...)
		}
	}
	return out
}
