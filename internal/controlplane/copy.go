package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2"
	"k8s.io/client-go/kubernetes/scheme"
	kmsservice "k8s.io/kms/pkg/service"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// errCopy is the error for connections from a copy to the cluster's network.
var errCopy = errors.New("this control plane is a copy for a rehearsal, and is not connected to the cluster's network")

// stubPath is the path of the stubs that replace the admission webhooks of copies.
const stubPath = "/stub/{webhook}"

// Copy creates a copy of a control plane, with a consistent snapshot of its Kubernetes state, its keys and its
// issuer. The copy's admission webhooks are stubs that allow everything, and it has no conversion webhooks. The copy calls no AWS APIs and cannot reach
// the cluster's network. Release it after use. It does not outlive the Manager.
func (m *Manager) Copy(ctx context.Context, id string) (Plane, error) {
	source := m.find(id)
	if source == nil {
		return Plane{}, ErrNotFound
	}
	if m.isClosed() {
		return Plane{}, errClosed
	}
	of := source.snapshot()
	rec := newRecord(of.Key, "copy of "+id+" "+ids.Hex(8), m.cfg.Clock.Now())
	rec.CopyOf, rec.KMSKey, rec.Encrypted, rec.Sealed = id, of.KMSKey, of.Encrypted, of.Sealed
	if err := m.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(
			records.Create(tx, recordKey(rec.ID), rec),
			secretRecords.Create(tx, recordKey(rec.ID), source.keys()),
		)
	}); err != nil {
		return Plane{}, err
	}
	p := newPlane(m, rec, source.keys())
	m.mu.Lock()
	m.planes[rec.ID] = p
	m.mu.Unlock()
	err := p.copyState(ctx, of)
	if err == nil {
		err = m.startCopy(ctx, p)
	}
	if err != nil {
		return Plane{}, errors.Join(fmt.Errorf("copying control plane %s: %w", id, err), m.Release(context.WithoutCancel(ctx), rec.ID))
	}
	return p.describe(), nil
}

// startCopy starts a copy, unless the Manager has been closed.
func (m *Manager) startCopy(ctx context.Context, p *plane) error {
	m.birth.Lock()
	defer m.birth.Unlock()
	if m.isClosed() {
		return errClosed
	}
	if err := p.listen(ctx); err != nil {
		return err
	}
	return p.boot(ctx)
}

// copyState copies the Kubernetes state of another plane. It leaves out events, which would never expire in the copy.
func (p *plane) copyState(ctx context.Context, of record) error {
	key, err := newOwnedKey(p.keys().DataKey)
	if err != nil {
		return err
	}
	codecs := map[string]value.Transformer{} // by the prefix of the values that they encrypt
	if codecs[ownedPrefix], err = kmsTransformer(ctx, ownedProvider, kmsClient{key, of.ID, ownedProvider}); err != nil {
		return err
	}
	if of.KMSKey != "" {
		if codecs[kmsPrefix], err = kmsTransformer(ctx, kmsProvider, kmsClient{p.m.hooks.KMS, of.ID, of.KMSKey}); err != nil {
			return err
		}
	}
	from := p.m.cfg.Store.ClusterPrefix(of.ID) + "/"
	unconverted := map[string]bool{}
	_, err = p.m.cfg.Store.CopyCluster(ctx, of.ID, p.id, func(fromKey, toKey string, v []byte) ([]byte, bool, error) {
		name := strings.TrimPrefix(fromKey, from)
		if strings.HasPrefix(name, "events/") {
			return nil, false, nil
		}
		// An encrypted value is bound to its etcd key.
		var codec value.Transformer
		var prefix string
		for by, c := range codecs {
			sealed, encrypted := bytes.CutPrefix(v, []byte(by))
			if !encrypted {
				continue
			}
			codec, prefix = c, by
			var err error
			if v, _, err = codec.TransformFromStorage(ctx, sealed, value.DefaultContext(fromKey)); err != nil {
				return nil, false, fmt.Errorf("decrypting %s: %w", fromKey, err)
			}
			break
		}
		if strings.HasPrefix(name, "validatingwebhookconfigurations/") || strings.HasPrefix(name, "mutatingwebhookconfigurations/") {
			var err error
			if v, err = p.stubWebhooks(v); err != nil {
				return nil, false, fmt.Errorf("%s: %w", fromKey, err)
			}
		}
		if crd, ok := strings.CutPrefix(name, "apiextensions.k8s.io/customresourcedefinitions/"); ok {
			var called bool
			var err error
			if v, called, err = withoutConversion(v); err != nil {
				return nil, false, fmt.Errorf("%s: %w", fromKey, err)
			}
			if called {
				unconverted[crd] = true
			}
		}
		if codec != nil {
			out, err := codec.TransformToStorage(ctx, v, value.DefaultContext(toKey))
			if err != nil {
				return nil, false, fmt.Errorf("encrypting %s: %w", toKey, err)
			}
			v = append([]byte(prefix), out...)
		}
		return v, true, nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unconverted = slices.Sorted(maps.Keys(unconverted))
	return err
}

// withoutConversion returns a stored CustomResourceDefinition without its conversion webhook, and whether it had one. The
// objects of a copy keep their fields in all versions. A stub could not do more, and API servers show no certificate to
// conversion webhooks, so the daemon could not tell whose call it is.
func withoutConversion(stored []byte) (out []byte, called bool, err error) {
	crd := map[string]any{} // not the type, which may not have all fields
	if err := utiljson.Unmarshal(stored, &crd); err != nil {
		return nil, false, err
	}
	if strategy, _, _ := unstructured.NestedString(crd, "spec", "conversion", "strategy"); strategy != "Webhook" {
		return stored, false, nil
	}
	if err := unstructured.SetNestedMap(crd, map[string]any{"strategy": "None"}, "spec", "conversion"); err != nil {
		return nil, false, err
	}
	out, err = json.Marshal(crd)
	return out, true, err
}

// Unconverted returns the CustomResourceDefinitions of a copy whose conversion webhooks the copy does not call.
func (m *Manager) Unconverted(id string) []string {
	p := m.find(id)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.unconverted)
}

// kmsPrefix and ownedPrefix are the prefixes of values that the API server's KMS providers have encrypted. See kmsConfig.
const (
	kmsPrefix   = encryptedPrefix + kmsProvider + ":"
	ownedPrefix = encryptedPrefix + ownedProvider + ":"
)

// kmsTransformer returns a transformer that encrypts and decrypts values as an API server's provider does.
func kmsTransformer(ctx context.Context, provider string, service kmsClient) (value.Transformer, error) {
	transformer, object, cacheKey, err := kmsv2.GenerateTransformer(ctx, ids.UUID(), service, true)
	if err != nil {
		return nil, err
	}
	state := kmsv2.State{
		Transformer: transformer, CacheKey: cacheKey, KMSProviderName: provider,
		EncryptedObjectKeyID: object.KeyID, EncryptedObjectEncryptedDEKSource: object.EncryptedDEKSource,
		EncryptedObjectAnnotations: object.Annotations, EncryptedObjectEncryptedDEKSourceType: object.EncryptedDEKSourceType,
		ExpirationTimestamp: time.Now().Add(time.Hour),
	}
	return kmsv2.NewEnvelopeTransformer(service, provider, func() (kmsv2.State, error) { return state, nil }, service.planeID), nil
}

// kmsClient uses a key on behalf of a plane's cluster.
type kmsClient struct {
	kms             KMS
	planeID, keyARN string
}

// Encrypt, Decrypt and Status implement kmsservice.Service.
func (k kmsClient) Encrypt(ctx context.Context, _ string, data []byte) (*kmsservice.EncryptResponse, error) {
	out, err := k.kms.Encrypt(ctx, k.planeID, k.keyARN, data)
	return &kmsservice.EncryptResponse{Ciphertext: out, KeyID: k.keyARN}, err
}

func (k kmsClient) Decrypt(ctx context.Context, _ string, in *kmsservice.DecryptRequest) ([]byte, error) {
	return k.kms.Decrypt(ctx, k.planeID, k.keyARN, in.Ciphertext)
}

func (k kmsClient) Status(context.Context) (*kmsservice.StatusResponse, error) {
	return &kmsservice.StatusResponse{Version: "v2", Healthz: "ok", KeyID: k.keyARN}, nil
}

// stubWebhooks returns a stored webhook configuration with its webhooks replaced by stubs.
func (p *plane) stubWebhooks(stored []byte) ([]byte, error) {
	o, kind, err := scheme.Codecs.UniversalDeserializer().Decode(stored, nil, nil)
	if err != nil {
		return nil, err
	}
	stub := func(name string, c *admissionregistrationv1.WebhookClientConfig) {
		*c = admissionregistrationv1.WebhookClientConfig{
			URL: new(p.m.webhooks.url + strings.Replace(stubPath, "{webhook}", name, 1)), CABundle: p.m.webhooks.ca.CertPEM,
		}
	}
	switch o := o.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			stub(o.Webhooks[i].Name, &o.Webhooks[i].ClientConfig)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			stub(o.Webhooks[i].Name, &o.Webhooks[i].ClientConfig)
		}
	default:
		return nil, fmt.Errorf("unexpected %s", kind)
	}
	o.GetObjectKind().SetGroupVersionKind(*kind)
	var out bytes.Buffer
	err = runtime.Encoder(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)).Encode(o, &out)
	return out.Bytes(), err
}

// stub allows a request to a webhook of a copy, and counts it.
func (p *plane) stub(webhook string, r *admissionv1.AdmissionReview) {
	if r.Request == nil {
		return
	}
	r.Response = &admissionv1.AdmissionResponse{UID: r.Request.UID, Allowed: true}
	r.Request = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stubbed == nil {
		p.stubbed = map[string]int{}
	}
	p.stubbed[webhook]++
}

// unlessCopy returns fn, or nil if the plane is a copy, because a copy's pods do not belong to a cluster.
func (p *plane) unlessCopy(fn podMutation) podMutation {
	if p.snapshot().CopyOf != "" {
		return nil
	}
	return fn
}

// StubbedCalls returns how often each admission webhook of a copy would have been called.
func (m *Manager) StubbedCalls(id string) map[string]int {
	p := m.find(id)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.stubbed)
}
