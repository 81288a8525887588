package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	k8sdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// encryptedPrefix begins every value in etcd that a KMS v2 provider encrypted.
	// https://kubernetes.io/docs/tasks/administer-cluster/kms-provider/#verifying-that-the-data-is-encrypted
	encryptedPrefix = "k8s:enc:kms:v2:"
	// encryptionTick is how often is looked whether a plane encrypts.
	encryptionTick = 100 * time.Millisecond
	// keyTick is how often a plane without a process tries its key, and keyTimeout
	// how long KMS may take to answer.
	keyTick, keyTimeout = time.Second, 10 * time.Second
	// rewritePage is how many objects are listed at a time, and rewriters how many
	// are written.
	rewritePage, rewriters = 500, 8
)

// Without a key the API server is told that it encrypts nothing, so that it can
// be told otherwise later: it takes up a changed configuration, but none from
// nowhere.
const identityConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ["*.*"]
  providers:
  - identity: {}
`

// EKS encrypts all data of the Kubernetes API, not secrets alone.
// https://docs.aws.amazon.com/eks/latest/userguide/envelope-encryption.html
const kmsConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ["*.*"]
  providers:
  - kms:
      apiVersion: v2
      name: aws-encryption-provider
      endpoint: %q
      timeout: 10s
  - identity: {}
`

// writeEncryption writes the API server's EncryptionConfiguration.
func (p *plane) writeEncryption(rec record) error {
	config := identityConfig
	if rec.KMSKey != "" {
		config = fmt.Sprintf(kmsConfig, "unix://"+p.kmsSocket())
	}
	return writeFile(p.dir().Encryption(), []byte(config))
}

// serveKMS answers the API server's calls for a key, if there is one. The caller
// holds p.lifecycle.
func (p *plane) serveKMS(ctx context.Context) error {
	key := p.snapshot().KMSKey
	switch {
	case key == "" || p.kms != nil:
		return nil
	case p.m.cfg.KMS == nil:
		return errors.New("controlplane.Config lacks KMS")
	}
	var err error
	if p.kms, err = serveKMSPlugin(ctx, p.kmsSocket(), p.id, key, p.m.cfg.KMS, p.heardKMS); err != nil {
		return fmt.Errorf("KMS plugin of control plane %s: %w", p.id, err)
	}
	return nil
}

// awaitKey waits until a plane's key works, if it has one: an API server that
// cannot decrypt what it stored would not come up.
func (p *plane) awaitKey(ctx context.Context, keyARN string) error {
	if keyARN == "" {
		return nil
	}
	tick := time.NewTicker(keyTick)
	defer tick.Stop()
	for told := false; ; told = true {
		try, cancel := context.WithTimeout(ctx, keyTimeout)
		_, err := p.m.cfg.KMS.Encrypt(try, p.id, keyARN, kmsProbe)
		cancel()
		p.heardKMS(err)
		if err == nil {
			return nil
		}
		if !told {
			p.setStatus(Failed, "it waits for its key")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Encrypt has a plane's data encrypted with a key of AWS KMS, once and for all.
// It returns when new data are, and old data have been written again; meanwhile
// the plane answers as ever. It may be repeated after an error.
func (m *Manager) Encrypt(ctx context.Context, id, keyARN string) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	if keyARN == "" || m.cfg.KMS == nil {
		return errors.New("encryption needs a key, and controlplane.Config its KMS")
	}
	rec := p.snapshot()
	switch {
	case rec.KMSKey != "" && rec.KMSKey != keyARN:
		return fmt.Errorf("control plane %s is encrypted with %s already", id, rec.KMSKey)
	case rec.Encrypted:
		return nil
	}
	if err := p.update(ctx, func(r *record) error { r.KMSKey = keyARN; return nil }); err != nil {
		return err
	}
	if err := p.offerKMS(ctx); err != nil {
		return err
	}
	if _, err := p.waitReady(ctx); err != nil {
		return err
	}
	cfg := rest.CopyConfig(p.clients.config(true))
	cfg.QPS = -1 // the writers below are few, and the process is ours
	if err := p.waitEncrypting(ctx, cfg); err != nil {
		return err
	}
	if err := p.rewrite(ctx, cfg); err != nil {
		return fmt.Errorf("encrypting the data of control plane %s: %w", id, err)
	}
	return p.update(ctx, func(r *record) error { r.Encrypted = true; return nil })
}

// offerKMS gives a process that runs, or is about to, its key.
func (p *plane) offerKMS(ctx context.Context) error {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	rec := p.snapshot()
	if rec.Releasing {
		return ErrNotFound
	}
	if p.child == nil {
		return nil // boot does the rest
	}
	return errors.Join(p.serveKMS(ctx), p.writeEncryption(rec))
}

// waitEncrypting waits until the process encrypts what it writes: it takes up its
// changed configuration only when it sees it, and when the key works.
func (p *plane) waitEncrypting(ctx context.Context, cfg *rest.Config) error {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	tick := time.NewTicker(encryptionTick)
	defer tick.Stop()
	for {
		// Patching nothing writes what should be stored otherwise than it is.
		_, err := namespaces.Patch(ctx, metav1.NamespaceDefault, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		var stored []byte
		if err == nil {
			stored, err = p.m.cfg.Store.ClusterValue(ctx, p.id, "/namespaces/"+metav1.NamespaceDefault)
		}
		if err == nil && bytes.HasPrefix(stored, []byte(encryptedPrefix)) {
			return nil
		}
		if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, store.ErrNotFound) && !apierrors.IsInternalError(err) {
			return fmt.Errorf("looking whether control plane %s encrypts: %w", p.id, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("control plane %s does not encrypt yet: %w", p.id, errors.Join(ctx.Err(), p.kmsTrouble()))
		case <-tick.C:
		}
	}
}

// heardKMS remembers how a call of KMS ended, to tell it when the plane is not
// ready.
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

// rewrite writes every object again, which encrypts those that are not. EKS's
// eks:kms-storage-migrator does that. Events are left out: they end within the
// hour, and writing them would prolong it.
func (p *plane) rewrite(ctx context.Context, cfg *rest.Config) error {
	resources, err := storedResources(ctx, cfg)
	if err != nil {
		return err
	}
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	for _, gvr := range resources {
		objects := client.Resource(gvr)
		for next := ""; ; {
			page, err := objects.List(ctx, metav1.ListOptions{Limit: rewritePage, Continue: next})
			if apierrors.IsNotFound(err) {
				break // its definition has just been deleted
			}
			if err != nil {
				return fmt.Errorf("listing %s: %w", gvr.Resource, err)
			}
			var group errgroup.Group
			group.SetLimit(rewriters)
			for i := range page.Items {
				group.Go(func() error { return p.rewriteObject(ctx, objects, gvr, &page.Items[i]) })
			}
			if err := group.Wait(); err != nil {
				return err
			}
			if next = page.Continue; next == "" {
				break
			}
		}
	}
	return nil
}

func (p *plane) rewriteObject(ctx context.Context, objects metadata.Getter, gvr schema.GroupVersionResource, o *metav1.PartialObjectMetadata) error {
	var in metadata.ResourceInterface = objects
	if o.Namespace != "" {
		in = objects.Namespace(o.Namespace)
	}
	// Who has changed it since has written it anew, which is all that is wanted.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q}}`, o.UID, o.ResourceVersion)
	_, err := in.Patch(ctx, o.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case ctx.Err() == nil && gvr.Group+"/"+gvr.Resource != "/secrets" && !apierrors.IsTooManyRequests(err):
		// A webhook of the user's may refuse even this.
		p.m.cfg.Log.Warn("an object stays as it is until it is written again: it is not encrypted with the cluster's key",
			"plane", p.id, "resource", gvr.Resource, "namespace", o.Namespace, "name", o.Name, "err", err)
		return nil
	}
	return fmt.Errorf("writing %s %s/%s: %w", gvr.Resource, o.Namespace, o.Name, err)
}

// storedResources lists what a plane's own API server stores: not what it hands
// on to aggregated API servers.
func storedResources(ctx context.Context, cfg *rest.Config) ([]schema.GroupVersionResource, error) {
	services, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	all, err := services.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing API services: %w", err)
	}
	elsewhere := sets.New[string]()
	for _, s := range all.Items {
		if service, found, _ := unstructured.NestedMap(s.Object, "spec", "service"); found && service != nil {
			group, _, _ := unstructured.NestedString(s.Object, "spec", "group")
			elsewhere.Insert(group)
		}
	}
	client, err := k8sdiscovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	lists, err := client.ServerPreferredResources()
	if err != nil && !k8sdiscovery.IsGroupDiscoveryFailedError(err) { // an aggregated API server that is away
		return nil, fmt.Errorf("discovering resources: %w", err)
	}
	var out []schema.GroupVersionResource
	for _, list := range k8sdiscovery.FilteredBy(k8sdiscovery.SupportsAllVerbs{Verbs: []string{"list", "patch"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || elsewhere.Has(gv.Group) {
			continue
		}
		for _, r := range list.APIResources {
			if r.Name != "events" {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, nil
}
