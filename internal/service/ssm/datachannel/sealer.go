package datachannel

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
)

// A Sealer encrypts and decrypts the output and input of an encrypted session, in the form of the plugin's
// encrypter.go: a nonce, followed by the text encrypted by AES-GCM.
type Sealer struct{ out, in cipher.AEAD }

// NewSealer returns the Sealer of the agent's end, for a data key of 64 bytes. Each direction uses one half of it.
func NewSealer(key []byte) (*Sealer, error) {
	if len(key) != 64 {
		return nil, fmt.Errorf("a data key of %d bytes; want 64", len(key))
	}
	var s Sealer
	for i, to := range []*cipher.AEAD{&s.out, &s.in} {
		block, err := aes.NewCipher(key[32*i : 32*i+32])
		if err != nil {
			return nil, err
		}
		if *to, err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
	}
	return &s, nil
}

// Seal encrypts what the agent sends.
func (s *Sealer) Seal(text []byte) []byte {
	nonce := make([]byte, s.out.NonceSize(), s.out.NonceSize()+len(text)+s.out.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return s.out.Seal(nonce, nonce, text, nil)
}

// Open decrypts what the client sends.
func (s *Sealer) Open(sealed []byte) ([]byte, error) {
	n := s.in.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("too short to be encrypted")
	}
	return s.in.Open(nil, sealed[:n], sealed[n:], nil)
}
