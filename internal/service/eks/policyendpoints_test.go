package eks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Network policies become PolicyEndpoints if the VPC CNI's settings say so, and follow the pods.
func TestPolicyEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	_, cs := w.planes.only()
	ctx := t.Context()
	pod := func(name, address string) {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: map[string]string{"app": name}}, Status: corev1.PodStatus{PodIP: address, HostIP: "172.31.0.9"}}
		if _, err := cs.CoreV1().Pods("shop").Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	endpoint := func() (id string) {
		i := slices.IndexFunc(w.objects().ids(), func(id string) bool { return strings.HasPrefix(id, "PolicyEndpoint shop/web-") })
		if i < 0 {
			return ""
		}
		return w.objects().ids()[i]
	}
	eventually := func(path, want string) {
		t.Helper()
		w.eventually(func() error {
			if id := endpoint(); id == "" || fmt.Sprint(w.objects().field(id, path)) != want {
				return fmt.Errorf("%s of %q is not %s", path, id, want)
			}
			return nil
		})
	}
	if _, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "amazon-vpc-cni", Namespace: "kube-system"}, Data: map[string]string{"enable-network-policy-controller": "false"}}
	if _, err := cs.CoreV1().ConfigMaps("kube-system").Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod("web", "172.31.0.11")
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "policy"}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "client"}}}}}},
	}}
	if _, err := cs.NetworkingV1().NetworkPolicies("shop").Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settings.Data["enable-network-policy-controller"] = "true"
	if _, err := cs.CoreV1().ConfigMaps("kube-system").Update(ctx, settings, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("spec.podSelectorEndpoints", "[map[hostIP:172.31.0.9 name:web namespace:shop podIP:172.31.0.11]]")
	eventually("spec.ingress", "<nil>")
	eventually("spec.policyRef", "map[name:web namespace:shop]")
	if got := fmt.Sprint(w.objects().field(endpoint(), "metadata.ownerReferences")); !strings.Contains(got, "kind:NetworkPolicy name:web uid:policy") {
		t.Errorf("its owner is %s", got)
	}
	pod("client", "172.31.0.12")
	eventually("spec.ingress", "[map[cidr:172.31.0.12]]")
	if err := cs.CoreV1().Pods("shop").Delete(ctx, "client", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("spec.ingress", "<nil>")
}
