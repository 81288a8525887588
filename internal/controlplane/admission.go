package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// admissionConfig makes the API server show its certificate to the daemon's
// webhook; it shows none to other webhooks.
const admissionConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: MutatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %q
`

// admissionKubeconfig names the daemon by HOST:PORT, by which the API server finds
// the credentials for a webhook.
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers
func admissionKubeconfig(dir launch.Files, url string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
users:
- name: %q
  user: {client-certificate: %q, client-key: %q}
`, strings.TrimPrefix(url, "https://"), dir.WebhookClient(), dir.WebhookClient())
}

// podIdentityWebhook is the object of every EKS cluster, by its names there
// (https://github.com/aws/amazon-eks-pod-identity-webhook, deploy/mutatingwebhook.yaml).
// A webhook that fails changes nothing and refuses nothing. The daemon's port is in
// its URL, where EKS has 127.0.0.1:23443.
func podIdentityWebhook(url string, ca []byte) []byte {
	ignore, match := admissionregistrationv1.Ignore, admissionregistrationv1.Equivalent
	none, again := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.IfNeededReinvocationPolicy
	scope := admissionregistrationv1.AllScopes
	b, _ := json.Marshal(&admissionregistrationv1.MutatingWebhookConfiguration{ // strings and lists: cannot fail
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "pod-identity-webhook"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:         "iam-for-pods.amazonaws.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &scope},
			}},
			FailurePolicy: &ignore, MatchPolicy: &match, SideEffects: &none, ReinvocationPolicy: &again,
			// Pods labelled eks.amazonaws.com/skip-pod-identity-webhook come here too: the
			// same call matches Fargate profiles, which EKS has another webhook for.
			ObjectSelector:          &metav1.LabelSelector{},
			NamespaceSelector:       &metav1.LabelSelector{},
			TimeoutSeconds:          new(int32(10)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	})
	return b
}

// mutate answers a review. It refuses no pod, whatever happens.
func mutate(ctx context.Context, cfg Config, planeID string, r *admissionv1.AdmissionReview) {
	req := r.Request
	r.Request, r.Response = nil, &admissionv1.AdmissionResponse{Allowed: true}
	if req == nil {
		return
	}
	r.Response.UID = req.UID
	if cfg.MutatePod == nil {
		return
	}
	var pod corev1.Pod
	err := json.Unmarshal(req.Object.Raw, &pod)
	if err == nil {
		r.Response.Patch, err = cfg.MutatePod(ctx, planeID, req.Namespace, &pod)
	}
	if err != nil {
		cfg.Log.Error("pod identity webhook: a pod stays as it is", "plane", planeID, "namespace", req.Namespace, "err", err)
		return
	}
	if r.Response.Patch != nil {
		patch := admissionv1.PatchTypeJSONPatch
		r.Response.PatchType = &patch
	}
}
