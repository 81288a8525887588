package controlplane_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A copy of an encrypted control plane has the same objects, keys and issuer, encrypts its objects, calls neither AWS nor the
// user's webhooks, can be upgraded, and does not change the original.
func TestCopyOfAControlPlane(t *testing.T) {
	w := newKubernetes(t)
	w.cfg.KMS = &fakeKMS{}
	var asking sync.Mutex
	asked := map[string]int{} // how often the cloud controller of each plane has begun to work for its load balancers
	w.cfg.Cloud = func(_ context.Context, id string) (controlplane.Cloud, error) {
		asking.Lock()
		defer asking.Unlock()
		asked[id]++
		return controlplane.Cloud{}, errors.New("no cloud in this test")
	}
	w.reopen()
	p := w.claim("arn", account)
	w.putSecret(p.ID, "s")
	w.encrypt(p.ID)
	source := w.clientset(w.RESTConfig(p.ID))
	ctx, fail, none := t.Context(), admissionv1.Fail, admissionv1.SideEffectClassNone
	if _, err := source.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "check.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "gone"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	if _, err := source.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		asking.Lock()
		defer asking.Unlock()
		if asked[p.ID] == 0 {
			return errors.New("the original's cloud controller does not work")
		}
		return nil
	})

	crd := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := w.dynamicClient(p.ID).Resource(crd).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{version("v1", true), version("v2", false)},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": "https://127.0.0.1:1/convert"},
			}},
		},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	c, err := w.Copy(ctx, p.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.ready(c.ID)
	if c.Issuer != p.Issuer || string(c.CAPEM) != string(p.CAPEM) || c.Endpoint == p.Endpoint {
		t.Errorf("copy %+v of %+v", c, p)
	}
	if err := w.Upgrade(ctx, c.ID, "1.35"); err != nil {
		t.Fatal(err)
	}
	if err := w.secret(c.ID, "s"); err != nil {
		t.Error(err)
	}
	w.wantEncrypted(c.ID)
	copied := w.clientset(w.RESTConfig(c.ID))
	eventually(t, func() error { // the stub is used as soon as the API server has read the configuration
		_, err := copied.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return err
	})
	if n := w.StubbedCalls(c.ID)["check.example.com"]; n == 0 {
		t.Error("the stub was not called")
	}
	if got := w.Unconverted(c.ID); len(got) != 1 || got[0] != "widgets.example.com" {
		t.Errorf("without their conversion webhooks: %q", got)
	}
	widgets := func(version string) dynamic.ResourceInterface {
		return w.dynamicClient(c.ID).Resource(schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"}).Namespace("default")
	}
	eventually(t, func() error { // the API server serves a new CustomResourceDefinition after a moment
		_, err := widgets("v1").Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return err
	})
	if o, err := widgets("v2").Get(ctx, "a", metav1.GetOptions{}); err != nil || o.GetAPIVersion() != "example.com/v2" {
		t.Errorf("in the other version: %v, %v", o, err)
	}

	if _, err := source.CoreV1().ConfigMaps("default").Get(ctx, "new", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the original has the copy's object: %v", err)
	}
	if v, err := source.Discovery().ServerVersion(); err != nil || v.Minor != "34" {
		t.Errorf("the original's version: %+v, %v", v, err)
	}
	for _, other := range w.Planes() {
		if other.ID != p.ID {
			t.Errorf("the copy is a plane of a cluster: %+v", other)
		}
	}
	if _, err := copied.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	asking.Lock()
	if n := asked[c.ID]; n > 0 {
		t.Errorf("the copy's cloud controller began to work %d times", n)
	}
	asking.Unlock()
	// A copy does not outlive its Manager.
	w.reopen()
	w.ready(p.ID)
	eventually(t, func() error {
		n, err := w.store.CountClusterKeys(ctx, c.ID)
		if err == nil && n > 0 {
			return controlplane.ErrNotFound
		}
		return err
	})
	if _, err := w.Copy(ctx, strings.Repeat("0", 32)); err != controlplane.ErrNotFound {
		t.Errorf("copying nothing: %v", err)
	}
}

// dynamicClient returns a client for objects of any kind of a plane.
func (w *world) dynamicClient(id string) dynamic.Interface {
	w.t.Helper()
	cfg, err := w.RESTConfig(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return testkit.Must(dynamic.NewForConfig(cfg))(w.t)
}

// version returns a version of a CustomResourceDefinition.
func version(name string, stored bool) map[string]any {
	return map[string]any{"name": name, "served": true, "storage": stored, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
}
