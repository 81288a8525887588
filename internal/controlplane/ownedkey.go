package controlplane

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
)

const (
	// ownedProvider is the name of the KMS provider for data of clusters without a key of the user's, and of data that
	// was written before the cluster got one.
	ownedProvider = "aws-owned-key"
	// ownedSocket is the end of the name of the socket on which that provider's plugin listens.
	ownedSocket = ".own"
)

// newDataKey returns the key that an ownedKey uses.
func newDataKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails, see crypto/rand
	return key
}

// An ownedKey is a KMS whose only key belongs to AWS. EKS encrypts all data of the Kubernetes API with such a key, unless
// the cluster has one of the user's.
// https://docs.aws.amazon.com/eks/latest/userguide/envelope-encryption.html
type ownedKey struct{ aead cipher.AEAD }

func newOwnedKey(key []byte) (ownedKey, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return ownedKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return ownedKey{aead}, err
}

// Encrypt and Decrypt implement KMS.
func (k ownedKey) Encrypt(_ context.Context, _, _ string, plaintext []byte) ([]byte, error) {
	return k.aead.Seal(nil, nil, plaintext, nil), nil
}

func (k ownedKey) Decrypt(_ context.Context, _, _ string, ciphertext []byte) ([]byte, error) {
	return k.aead.Open(nil, nil, ciphertext, nil)
}

func (p *plane) ownedSocket() string { return p.m.besidePath(p.id + ownedSocket) }

// serveOwnedKey serves the API server's requests to use AWS's own key. The caller holds p.lifecycle.
func (p *plane) serveOwnedKey(ctx context.Context) error {
	if p.owned != nil {
		return nil
	}
	kms, err := newOwnedKey(p.keys().DataKey)
	if err != nil {
		return fmt.Errorf("data key of control plane %s: %w", p.id, err)
	}
	if p.owned, err = serveKMSPlugin(ctx, p.ownedSocket(), p.id, ownedProvider, kms, func(error) {}); err != nil {
		return fmt.Errorf("KMS plugin of control plane %s: %w", p.id, err)
	}
	return nil
}

// sealOld encrypts what a plane stored before Drydock encrypted the data of all planes.
func (p *plane) sealOld(ctx context.Context) error {
	if _, err := p.waitReady(ctx); err != nil {
		return err
	}
	if p.snapshot().KMSKey == "" { // otherwise, Encrypt does it
		cfg := rest.CopyConfig(p.clients.config(true))
		err := p.waitEncrypting(ctx, cfg, ownedProvider)
		if err == nil {
			err = p.rewrite(ctx, cfg)
		}
		if err != nil && !errors.Is(err, errOtherKey) {
			return fmt.Errorf("encrypting the data of control plane %s: %w", p.id, err)
		}
	}
	return p.update(ctx, func(r *record) error { r.Sealed = true; return nil })
}
