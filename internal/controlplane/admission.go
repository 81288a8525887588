package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// admissionConfig makes the API server present its client certificate to the daemon's webhooks, and to no others.
const admissionConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: MutatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %[1]q
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %[1]q
`

// admissionKubeconfig names the daemon by HOST:PORT, by which the API server finds the credentials for a webhook.
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers
func admissionKubeconfig(dir launch.Files, url string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
users:
- name: %q
  user: {client-certificate: %q, client-key: %q}
`, strings.TrimPrefix(url, "https://"), dir.WebhookClient(), dir.WebhookClient())
}

// skipPodIdentity is the label that exempts pods from the pod identity webhook.
const skipPodIdentity = "eks.amazonaws.com/skip-pod-identity-webhook"

// podIdentityWebhook returns the object of every EKS cluster, with the names used there
// (https://github.com/aws/amazon-eks-pod-identity-webhook, deploy/mutatingwebhook.yaml). Its URL has the daemon's
// port, where EKS has 127.0.0.1:23443.
func podIdentityWebhook(url string, ca []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	w := podWebhook("pod-identity-webhook", "iam-for-pods.amazonaws.com", url+mutatePath, ca)
	again := admissionregistrationv1.IfNeededReinvocationPolicy
	w.Webhooks[0].ReinvocationPolicy = &again
	w.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: skipPodIdentity, Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
	return w
}

// fargateWebhook returns the object that EKS adds to a cluster with its first Fargate profile: seen on clusters where
// it is minutes younger than the cluster, as pod-identity-webhook never is
// (https://notes.kodekloud.com/docs/AWS-EKS/Compute-Scaling/Compute-Demo). Its name puts it before all others. That
// its webhook has the object's name is from memory.
//
// AWS deviation: EKS's object has two webhooks; no public source names the second.
func fargateWebhook(url string, ca []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	const name = "0500-amazon-eks-fargate-mutation.amazonaws.com"
	return podWebhook(name, name, url+mutateFargatePath, ca)
}

// podWebhook returns a webhook that is called for every new pod. If the call fails, the pod is admitted unchanged.
func podWebhook(object, name, url string, ca []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	ignore, match := admissionregistrationv1.Ignore, admissionregistrationv1.Equivalent
	none, scope := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.AllScopes
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: object},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:         name,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &scope},
			}},
			FailurePolicy: &ignore, MatchPolicy: &match, SideEffects: &none,
			ObjectSelector:          &metav1.LabelSelector{},
			NamespaceSelector:       &metav1.LabelSelector{},
			TimeoutSeconds:          new(int32(10)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

// FargateWebhook returns the webhook configuration that makes pods Fargate's, for the clusters that have profiles. A
// plane's process keeps its address up to date.
func (m *Manager) FargateWebhook() *admissionregistrationv1.MutatingWebhookConfiguration {
	return fargateWebhook(m.webhooks.url, m.webhooks.ca.CertPEM)
}

// A podMutation returns the JSON patch of a new pod, or nil.
type podMutation func(ctx context.Context, planeID, namespace string, pod *corev1.Pod) (jsonPatch []byte, err error)

// mutate answers a review. It never rejects a pod, even if it fails.
func mutate(ctx context.Context, log *slog.Logger, fn podMutation, planeID string, r *admissionv1.AdmissionReview) {
	req := r.Request
	r.Request, r.Response = nil, &admissionv1.AdmissionResponse{Allowed: true}
	if req == nil {
		return
	}
	r.Response.UID = req.UID
	if fn == nil {
		return
	}
	var pod corev1.Pod
	err := json.Unmarshal(req.Object.Raw, &pod)
	if err == nil {
		r.Response.Patch, err = fn(ctx, planeID, req.Namespace, &pod)
	}
	if err != nil {
		level := slog.LevelError
		if errors.Is(err, context.Canceled) { // the API server no longer waits for the answer
			level = slog.LevelInfo
		}
		log.Log(ctx, level, "pods cannot be changed", "plane", planeID, "namespace", req.Namespace, "err", err)
		return
	}
	if r.Response.Patch != nil {
		patch := admissionv1.PatchTypeJSONPatch
		r.Response.PatchType = &patch
	}
}
