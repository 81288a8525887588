package controlplane_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/controlplane"
)

// A copy of an encrypted control plane has the same objects, keys and issuer, encrypts its objects, calls none of the
// user's webhooks, can be upgraded, and does not change the original.
func TestCopyOfAControlPlane(t *testing.T) {
	w := newKubernetes(t)
	w.cfg.KMS = &fakeKMS{}
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
