package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// encryptedPrefix is the beginning of every value in etcd that a KMS v2 provider encrypted.
	// https://kubernetes.io/docs/tasks/administer-cluster/kms-provider/#verifying-that-the-data-is-encrypted
	encryptedPrefix = "k8s:enc:kms:v2:"
	// encryptionTick is how often to check whether a plane encrypts.
	encryptionTick = 100 * time.Millisecond
	// keyTimeout is how long KMS may take to answer a plane that tries its key.
	keyTimeout = 10 * time.Second
	// keyPause is how long a plane without a process waits before it tries its key again. It doubles up to
	// longestKeyPause, because CloudTrail records every try.
	keyPause, longestKeyPause = time.Second, 30 * time.Second
)

// kmsProvider is the name of EKS's KMS plugin.
const kmsProvider = "aws-encryption-provider"

// EKS encrypts all data of the Kubernetes API, not only secrets. The first provider is the one that encrypts. There is
// always a configuration, so that it can be changed later: an API server reloads a changed configuration, but does not
// notice a new one.
// https://docs.aws.amazon.com/eks/latest/userguide/envelope-encryption.html
const encryptionConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ["*.*"]
  providers:
%s  - identity: {}
`

const kmsConfig = `  - kms:
      apiVersion: v2
      name: %s
      endpoint: %q
      timeout: 10s
`

// writeEncryption writes the API server's EncryptionConfiguration. The caller holds
// p.encryption.
func (p *plane) writeEncryption(rec record) error {
	providers := fmt.Sprintf(kmsConfig, ownedProvider, "unix://"+p.ownedSocket())
	if rec.KMSKey != "" {
		providers = fmt.Sprintf(kmsConfig, kmsProvider, "unix://"+p.kmsSocket()) + providers
	}
	return writeFile(p.dir().Encryption(), fmt.Appendf(nil, encryptionConfig, providers))
}

// prepareEncryption writes the EncryptionConfiguration of the next process, waits for its key, and returns the record
// that it was written from.
func (p *plane) prepareEncryption(ctx context.Context) (record, error) {
	for {
		key := p.snapshot().KMSKey
		if err := p.awaitKey(ctx, key); err != nil {
			return record{}, err
		}
		rec, done, err := p.writeEncryptionOf(key)
		if done || err != nil {
			return rec, err
		}
	}
}

// writeEncryptionOf is writeEncryption if the plane's key is still keyARN. Otherwise it returns done as false.
func (p *plane) writeEncryptionOf(keyARN string) (rec record, done bool, err error) {
	p.encryption.Lock()
	defer p.encryption.Unlock()
	if rec = p.snapshot(); rec.KMSKey != keyARN {
		return rec, false, nil
	}
	return rec, true, p.writeEncryption(rec)
}

// serveKMS serves the API server's requests to use the key, if there is one. The caller holds p.lifecycle.
func (p *plane) serveKMS(ctx context.Context) error {
	key := p.snapshot().KMSKey
	switch {
	case key == "" || p.kms != nil:
		return nil
	case p.m.hooks.KMS == nil:
		return errors.New("controlplane.Config lacks KMS")
	}
	var err error
	if p.kms, err = serveKMSPlugin(ctx, p.kmsSocket(), p.cluster(), key, p.m.hooks.KMS, p.heardKMS); err != nil {
		return fmt.Errorf("KMS plugin of control plane %s: %w", p.id, err)
	}
	return nil
}

// awaitKey waits until a plane's key works, if it has one: an API server that cannot decrypt what it has stored would
// not start.
func (p *plane) awaitKey(ctx context.Context, keyARN string) error {
	if keyARN == "" {
		return nil
	}
	for pause, told := keyPause, false; ; pause, told = min(2*pause, p.m.cfg.KeyPause), true {
		try, cancel := context.WithTimeout(ctx, keyTimeout)
		err := tryKMS(try, p.m.hooks.KMS, p.cluster(), keyARN)
		cancel()
		p.heardKMS(err)
		if err == nil {
			return nil
		}
		if !told && p.processStatus().State != Ready {
			p.setStatus(Failed, "waiting for its key")
		}
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		case <-again.C:
		}
	}
}

// Encrypt permanently encrypts a plane's data with a key of AWS KMS. It returns when new data is encrypted and old
// data has been rewritten; the plane keeps serving in the meantime. It may be repeated after an error.
func (m *Manager) Encrypt(ctx context.Context, id, keyARN string) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	if keyARN == "" || m.hooks.KMS == nil {
		return errors.New("encryption needs a key and controlplane.Config.KMS")
	}
	if err := p.offerKMS(ctx, keyARN); err != nil {
		return err
	}
	if p.snapshot().Encrypted {
		return nil
	}
	if _, err := p.waitReady(ctx); err != nil {
		return err
	}
	cfg := rest.CopyConfig(p.clients.config(true))
	cfg.QPS = -1 // the writers below are few, and the process is our own
	if err := p.waitEncrypting(ctx, cfg, kmsProvider); err != nil {
		return err
	}
	if err := p.rewrite(ctx, cfg); err != nil {
		return fmt.Errorf("encrypting the data of control plane %s: %w", id, err)
	}
	return p.update(ctx, func(r *record) error { r.Encrypted = true; return nil })
}

// EncryptionKey returns the key that a plane has accepted and will keep, or "". Its data need not be encrypted yet.
func (m *Manager) EncryptionKey(id string) string {
	if p := m.find(id); p != nil {
		return p.snapshot().KMSKey
	}
	return ""
}

// offerKMS sets a plane's key. If the process runs or is starting, it also gets what it needs to use the key.
func (p *plane) offerKMS(ctx context.Context, keyARN string) error {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	p.encryption.Lock()
	defer p.encryption.Unlock()
	switch rec := p.snapshot(); {
	case rec.Releasing:
		return ErrNotFound
	case rec.KMSKey == "":
		if err := p.update(ctx, func(r *record) error { r.KMSKey = keyARN; return nil }); err != nil {
			return err
		}
	case rec.KMSKey != keyARN:
		return fmt.Errorf("control plane %s is already encrypted with %s", p.id, rec.KMSKey)
	case rec.Encrypted:
		return nil
	}
	if p.process == nil {
		return nil // boot does the rest
	}
	return errors.Join(p.serveKMS(ctx), p.writeEncryption(p.snapshot()))
}

// errOtherKey means that a plane has got a key of the user's, with which Encrypt encrypts all of its data.
var errOtherKey = errors.New("the cluster has a key of its own")

// waitEncrypting waits until the process encrypts what it writes with a provider. That takes until it notices its changed
// configuration and the key works.
func (p *plane) waitEncrypting(ctx context.Context, cfg *rest.Config, provider string) error {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	tick := time.NewTicker(encryptionTick)
	defer tick.Stop()
	for {
		if provider == ownedProvider && p.snapshot().KMSKey != "" {
			return errOtherKey
		}
		// An empty patch rewrites an object if it should be stored differently.
		_, err := namespaces.Patch(ctx, metav1.NamespaceDefault, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		var stored []byte
		if err == nil {
			stored, err = p.m.cfg.Store.ClusterValue(ctx, p.id, "/namespaces/"+metav1.NamespaceDefault)
		}
		if err == nil && bytes.HasPrefix(stored, []byte(encryptedPrefix+provider+":")) {
			return nil
		}
		if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, store.ErrNotFound) && !apierrors.IsInternalError(err) {
			return fmt.Errorf("checking whether control plane %s encrypts its data: %w", p.id, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("control plane %s does not encrypt its data yet: %w", p.id, errors.Join(ctx.Err(), p.kmsTrouble()))
		case <-tick.C:
		}
	}
}

// heardKMS records the last result of using the plane's key, for the status of a plane that is not ready: the error
// of a call, or nil if the key was tried and works.
func (p *plane) heardKMS(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kmsError = err
}

func (p *plane) kmsTrouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kmsError
}
