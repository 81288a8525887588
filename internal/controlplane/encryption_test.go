package controlplane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/controlplane"
)

const (
	kmsKey  = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	kmsMark = "sealed by KMS:"
)

// fakeKMS encrypts by reversing bytes, unless its key is disabled.
type fakeKMS struct {
	mu       sync.Mutex
	disabled error
	// undecryptable is an error that only Decrypt returns.
	undecryptable error
	calls         []string
}

func (k *fakeKMS) denyDecrypt(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.undecryptable = err
}

func (k *fakeKMS) disable(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.disabled = err
}

func (k *fakeKMS) call(what, planeID, keyARN string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, fmt.Sprintf("%s %s %s", what, planeID, keyARN))
	if what == "Decrypt" && k.undecryptable != nil {
		return k.undecryptable
	}
	return k.disabled
}

func (k *fakeKMS) Encrypt(_ context.Context, planeID, keyARN string, plaintext []byte) ([]byte, error) {
	if err := k.call("Encrypt", planeID, keyARN); err != nil {
		return nil, err
	}
	out := slices.Clone(plaintext)
	slices.Reverse(out)
	return append([]byte(kmsMark), out...), nil
}

func (k *fakeKMS) Decrypt(_ context.Context, planeID, keyARN string, ciphertext []byte) ([]byte, error) {
	if err := k.call("Decrypt", planeID, keyARN); err != nil {
		return nil, err
	}
	sealed, ok := bytes.CutPrefix(ciphertext, []byte(kmsMark))
	if !ok {
		return nil, errors.New("InvalidCiphertextException")
	}
	out := slices.Clone(sealed)
	slices.Reverse(out)
	return out, nil
}

// stored returns the values in etcd of a plane by their keys.
func (w *world) stored(id string) map[string][]byte {
	w.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: w.store.EtcdAccess().Endpoints, Logger: zap.NewNop()})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	prefix := w.store.ClusterPrefix(id)
	resp, err := c.Get(w.t.Context(), prefix+"/", clientv3.WithPrefix())
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, kv := range resp.Kvs {
		out[strings.TrimPrefix(string(kv.Key), prefix)] = kv.Value
	}
	return out
}

// encrypted reports whether a value is encrypted with the user's key.
func encrypted(value []byte) bool {
	return bytes.HasPrefix(value, []byte("k8s:enc:kms:v2:aws-encryption-provider:"))
}

// wantOwned checks that everything is encrypted with AWS's own key, apart from the allocators' bitmaps.
func (w *world) wantOwned(id string) {
	w.t.Helper()
	n := 0
	for key, v := range w.stored(id) {
		switch {
		case bytes.HasPrefix(v, []byte("k8s:enc:kms:v2:aws-owned-key:")):
			n++
		case !strings.HasPrefix(key, "/ranges/"):
			w.t.Errorf("%s is stored as %.40q", key, v)
		}
	}
	if n < 50 {
		w.t.Errorf("only %d values are encrypted", n)
	}
}

func (w *world) encrypt(id string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if err := w.Encrypt(ctx, id, kmsKey); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) putSecret(id, name string) {
	w.t.Helper()
	_, err := w.clientset(w.RESTConfig(id)).CoreV1().Secrets("default").Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": "correct horse " + name},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) secret(id, name string) error {
	s, err := w.clientset(w.RESTConfig(id)).CoreV1().Secrets("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got, want := string(s.Data["password"]), "correct horse "+name; got != want {
		return fmt.Errorf("secret %s is %q, want %q", name, got, want)
	}
	return nil
}

func TestEncryption(t *testing.T) {
	w, kms := newKubernetes(t), &fakeKMS{}
	w.cfg.KMS = kms
	w.reopen()
	p := w.claim("arn", account)

	w.putSecret(p.ID, "before")
	w.wantOwned(p.ID) // without a key of the user's
	pid := w.status(p.ID).PID
	w.encrypt(p.ID)
	w.putSecret(p.ID, "after")
	stored := w.stored(p.ID)
	for _, key := range []string{"/secrets/default/before", "/secrets/default/after"} {
		if v := stored[key]; !encrypted(v) || bytes.Contains(v, []byte("correct horse")) || !bytes.Contains(v, []byte(kmsMark)) {
			t.Errorf("%s is stored as %q", key, v)
		}
	}
	w.wantEncrypted(p.ID)
	if now := w.status(p.ID).PID; now != pid {
		t.Errorf("the process was started again: %d, then %d", pid, now)
	}
	for _, c := range kms.calls {
		if !strings.HasSuffix(c, p.ID+" "+kmsKey) {
			t.Errorf("a call of KMS: %s", c)
		}
	}
	if err := w.Encrypt(t.Context(), p.ID, kmsKey+"0"); err == nil {
		t.Error("the key could be changed")
	}
	if got := w.EncryptionKey(p.ID); got != kmsKey {
		t.Errorf("the plane has taken the key %q", got)
	}

	t.Run("goes on after the process was killed", func(t *testing.T) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if s := w.status(p.ID); s.State != controlplane.Ready || s.PID == pid {
				return fmt.Errorf("status %+v", s)
			}
			return nil
		})
		if err := errors.Join(w.secret(p.ID, "before"), w.secret(p.ID, "after")); err != nil {
			t.Error(err)
		}
	})

	t.Run("goes on with another Manager", func(t *testing.T) {
		w.reopen()
		w.ready(p.ID)
		w.putSecret(p.ID, "later")
		if v := w.stored(p.ID)["/secrets/default/later"]; !encrypted(v) {
			t.Errorf("stored as %q", v)
		}
		if err := w.secret(p.ID, "before"); err != nil {
			t.Error(err)
		}
	})

	t.Run("needs its key to start, and starts when it has it again", func(t *testing.T) {
		kms.disable(errors.New("DisabledException: " + kmsKey + " is disabled."))
		w.reopen()
		eventually(t, func() error {
			if s := w.status(p.ID); s.State != controlplane.Failed || s.PID != 0 || !strings.Contains(s.Reason, "is disabled") {
				return fmt.Errorf("not failed for a reason of KMS: %+v", s)
			}
			return nil
		})
		kms.disable(nil)
		w.ready(p.ID)
		if err := w.secret(p.ID, "later"); err != nil {
			t.Error(err)
		}
	})

	t.Run("needs to decrypt with it", func(t *testing.T) {
		kms.denyDecrypt(errors.New("AccessDeniedException: no kms:Decrypt"))
		w.reopen()
		eventually(t, func() error {
			if s := w.status(p.ID); s.State != controlplane.Failed || s.PID != 0 || !strings.Contains(s.Reason, "no kms:Decrypt") {
				return fmt.Errorf("not failed for a reason of KMS: %+v", s)
			}
			return nil
		})
		kms.denyDecrypt(nil)
		w.ready(p.ID)
	})

	t.Run("can be released without its key", func(t *testing.T) {
		kms.disable(errors.New("DisabledException: " + kmsKey + " is disabled."))
		w.reopen()
		if err := w.Release(t.Context(), p.ID); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAKillDuringTheRewrite: the API server and the Manager die when some Secrets are encrypted with the user's key and others
// are not. After the next start all can be read, and encrypting again encrypts the rest.
func TestAKillDuringTheRewrite(t *testing.T) {
	w := newKubernetes(t)
	w.cfg.KMS = &fakeKMS{}
	w.reopen()
	p := w.claim("arn", account)
	const secrets, rewritten = 40, 10
	var group errgroup.Group
	group.SetLimit(16)
	cfg, err := w.RESTConfig(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	client := w.clientset(cfg, nil).CoreV1().Secrets("default")
	for i := range secrets {
		group.Go(func() error {
			name := fmt.Sprint("s", i)
			_, err := client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": "correct horse " + name}}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	readable := func() {
		t.Helper()
		list, err := w.clientset(w.RESTConfig(p.ID)).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != secrets {
			t.Fatalf("%d secrets, %v", len(list.Items), err)
		}
		for _, s := range list.Items {
			if got := string(s.Data["password"]); got != "correct horse "+s.Name {
				t.Errorf("secret %s is %q", s.Name, got)
			}
		}
	}
	count := func() (n int) {
		t.Helper()
		for key, v := range w.stored(p.ID) {
			if strings.HasPrefix(key, "/secrets/default/") && encrypted(v) {
				n++
			}
		}
		return n
	}

	// A webhook holds the rewrite back after some Secrets: if it does not answer, the API server writes no more.
	var reviews atomic.Int32
	release := make(chan struct{})
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			return // the API server was killed while it sent the request
		}
		if reviews.Add(1) > rewritten {
			select {
			case <-release:
			case <-r.Context().Done():
				return
			}
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(rw).Encode(review)
	}))
	defer webhook.Close()
	defer webhook.CloseClientConnections()
	_, err = w.clientset(cfg, nil).AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hold"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hold.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(30)),
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &webhook.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "default"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { // it is called a moment later
		_, err := client.Patch(t.Context(), "s0", types.MergePatchType, []byte(`{"data":{"a":"Yg=="}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && reviews.Load() == 0 {
			err = errors.New("the webhook is not called yet")
		}
		return err
	})
	reviews.Store(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Encrypt(ctx, p.ID, kmsKey) }()
	eventually(t, func() error {
		select {
		case err := <-ended:
			t.Fatalf("the rewrite ended: %v", err)
		default:
		}
		if n := count(); n != rewritten {
			return fmt.Errorf("%d secrets are encrypted", n)
		}
		return nil
	})
	if err := syscall.Kill(w.status(p.ID).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a rewrite that was killed has succeeded")
	}
	w.reopen()
	w.ready(p.ID)
	if n := count(); n != rewritten {
		t.Errorf("%d secrets are encrypted after the kill, want %d", n, rewritten)
	}
	close(release)
	readable()
	w.encrypt(p.ID)
	w.wantEncrypted(p.ID)
	readable()
}

// TestOlderDataIsEncrypted: what an older Drydock stored in plain text is encrypted after the next start.
func TestOlderDataIsEncrypted(t *testing.T) {
	w := newKubernetes(t)
	p := w.claim("arn", account)
	old := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default", UID: "1234"},
		Data:       map[string][]byte{"password": []byte("correct horse old")},
	}
	var plain bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(old, &plain); err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: w.store.EtcdAccess().Endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(t.Context(), w.store.ClusterPrefix(p.ID)+"/secrets/default/old", plain.String()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.secret(p.ID, "old"), w.Unseal(t.Context(), p.ID)); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	eventually(t, func() error {
		if v := w.stored(p.ID)["/secrets/default/old"]; !bytes.HasPrefix(v, []byte("k8s:enc:kms:v2:aws-owned-key:")) {
			return fmt.Errorf("stored as %.40q", v)
		}
		return nil
	})
	if err := w.secret(p.ID, "old"); err != nil {
		t.Error(err)
	}
	copied, err := w.Copy(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.ready(copied.ID)
	if err := w.secret(copied.ID, "old"); err != nil {
		t.Errorf("in a copy: %v", err)
	}
}

func TestASpareIsEncryptedWhole(t *testing.T) {
	w := newKubernetes(t)
	w.cfg.KMS, w.cfg.WarmSpares, w.cfg.Clock = &fakeKMS{}, 1, testclock.NewFakeClock(time.Now())
	w.reopen()
	w.claim("arn:first", account)
	spare := w.awaitSpares(1)[0]
	p := w.claim("arn:second", account)
	if p.ID != spare {
		t.Fatalf("claimed %s, the spare was %s", p.ID, spare)
	}
	w.encrypt(p.ID)
	w.wantEncrypted(p.ID)
}

func TestWhatIsRewritten(t *testing.T) {
	w := newKubernetes(t)
	var logged bytes.Buffer
	w.cfg.KMS, w.cfg.Log = &fakeKMS{}, slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.reopen()
	p := w.claim("arn", account)
	cfg, err := w.RESTConfig(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	create := func(gvr schema.GroupVersionResource, namespace, manifest string) error {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
			t.Fatal(err)
		}
		_, err := client.Resource(gvr).Namespace(namespace).Create(t.Context(), &o, metav1.CreateOptions{})
		return err
	}
	events := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "events"}
	// Another API server, which is not there, has another version of the same group.
	if err := errors.Join(
		create(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "", `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: events.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: events, singular: event, kind: Event}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`),
		create(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, "", `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v2.example.com}
spec: {group: example.com, version: v2, groupPriorityMinimum: 1000, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: default, name: away}}
`),
		create(corev1.SchemeGroupVersion.WithResource("configmaps"), "default", `
apiVersion: v1
kind: ConfigMap
metadata: {name: stubborn, labels: {stubborn: "yes"}}
`),
		create(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}, "", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: away}
webhooks:
- name: away.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  objectSelector: {matchLabels: {stubborn: "yes"}}
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [configmaps]}]
`),
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { // the definition is served a moment later
		return create(events, "default", `{apiVersion: example.com/v1, kind: Event, metadata: {name: party}}`)
	})
	configmaps := w.clientset(cfg, nil).CoreV1().ConfigMaps("default")
	eventually(t, func() error { // and so is the webhook
		_, err := configmaps.Patch(t.Context(), "stubborn", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("the webhook is not called yet")
		}
		if !controlplane.RefusedByUser(err) {
			t.Fatalf("a webhook that is away: %v", err)
		}
		return nil
	})
	w.encrypt(p.ID)
	stored := w.stored(p.ID)
	if v := stored["/example.com/events/default/party"]; !encrypted(v) {
		t.Errorf("a custom resource that is called events is stored as %q", v)
	}
	if v := stored["/configmaps/default/stubborn"]; encrypted(v) || len(v) == 0 {
		t.Errorf("what a webhook refuses is stored as %q", v)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logged.String(), "objects=1 ") || !strings.Contains(logged.String(), "default/stubborn") {
		t.Errorf("logged: %s", &logged)
	}
}

func TestOnlyWhatTheUserRefusesIsLeftPlain(t *testing.T) {
	configmaps := schema.GroupResource{Resource: "configmaps"}
	internal := func(text string) error { return apierrors.NewInternalError(errors.New(text)) }
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewForbidden(configmaps, "a", errors.New("exceeded quota")), true},
		{apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", nil), true},
		{apierrors.NewBadRequest(`admission webhook "a" denied the request without explanation`), true},
		{internal(`failed calling webhook "a": no endpoints available`), true},
		{internal(`admission webhook "a" denied the request: no`), true},
		{internal("failed to encrypt DEK, error: DisabledException"), false},
		{internal("etcdserver: request timed out"), false},
		{apierrors.NewTimeoutError("slow", 1), false},
		{apierrors.NewServerTimeout(configmaps, "patch", 1), false},
		{apierrors.NewServiceUnavailable("starting"), false},
		{apierrors.NewTooManyRequests("busy", 1), false},
		{apierrors.NewUnauthorized("who?"), false},
		{io.ErrUnexpectedEOF, false},
	} {
		if got := controlplane.RefusedByUser(fmt.Errorf("writing: %w", tt.err)); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}

// KMS counts a plane's calls: CloudTrail records them, and they cost money.
func TestAPlaneAsksLessAndLessForAKeyThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kms := &fakeKMS{disabled: errors.New("DisabledException")}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := controlplane.AwaitKey(ctx, kms, kmsKey); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting ended with %v", err)
		}
		// After 0, 1, 3, 7, 15 and 31 seconds, and every 30.
		if n := len(kms.calls); n != 24 {
			t.Errorf("%d calls in 10 minutes", n)
		}
	})
}

// wantEncrypted checks everything that is stored. Events expire by themselves; the allocator of node ports stores a
// bitmap, which is not an object.
func (w *world) wantEncrypted(id string) {
	w.t.Helper()
	n := 0
	for key, v := range w.stored(id) {
		switch {
		case encrypted(v):
			n++
		case !strings.HasPrefix(key, "/events/") && !strings.HasPrefix(key, "/ranges/"):
			w.t.Errorf("%s is not encrypted", key)
		}
	}
	if n < 50 { // the roles that every new cluster has
		w.t.Errorf("only %d values are encrypted", n)
	}
}

func (w *world) status(id string) controlplane.Status {
	w.t.Helper()
	s, err := w.Status(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}
