package eks_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

var clusterPolicies = schema.GroupVersionResource{Group: "networking.k8s.aws", Version: "v1alpha1", Resource: "clusternetworkpolicies"}

// ClusterNetworkPolicies become ClusterPolicyEndpoints, also in a cluster that has not had the kind. What nodes drop by them depends on
// the version of the VPC CNI, whose role lets its agent see them or not.
func TestClusterNetworkPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	_, cs := w.planes.only()
	ctx := t.Context()
	const kind = "CustomResourceDefinition /clusternetworkpolicies.networking.k8s.aws"
	if !slices.Contains(w.objects().ids(), kind) {
		t.Fatalf("a new cluster lacks the kind: %q", w.objects().ids())
	}
	objects := w.objects()
	objects.mu.Lock()
	delete(objects.byID, kind)
	objects.mu.Unlock()
	for _, o := range []struct{ name, address string }{{"web", "172.31.0.11"}, {"client", "172.31.0.12"}} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: o.name, Namespace: "shop", Labels: map[string]string{"app": o.name}}, Status: corev1.PodStatus{PodIP: o.address, HostIP: "172.31.0.9"}}
		if _, err := cs.CoreV1().Pods("shop").Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "amazon-vpc-cni", Namespace: "kube-system"}, Data: map[string]string{"enable-network-policy-controller": "true"}}
	if _, err := cs.CoreV1().ConfigMaps("kube-system").Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	policy := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`{apiVersion: networking.k8s.aws/v1alpha1, kind: ClusterNetworkPolicy, metadata: {name: deny, uid: above},
spec: {tier: Admin, priority: 10, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}, ingress: [{action: Deny, from: [{namespaces: {}}], ports: [{portNumber: {protocol: TCP, port: 80}}]}]}}`), &policy.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := w.objects().resource(clusterPolicies).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var id string
	w.eventually(func() error {
		all := w.objects().ids()
		i := slices.IndexFunc(all, func(id string) bool { return strings.HasPrefix(id, "ClusterPolicyEndpoint /deny-") })
		if i < 0 || !slices.Contains(all, kind) {
			return fmt.Errorf("it is not there: %q", all)
		}
		id = all[i]
		return nil
	})
	for path, want := range map[string]string{
		"spec.tier": "Admin", "spec.priority": "10", "spec.policyRef": "map[name:deny]",
		"spec.podSelectorEndpoints": "[map[hostIP:172.31.0.9 name:web namespace:shop podIP:172.31.0.11]]",
		"spec.ingress":              "[map[action:Deny cidr:172.31.0.12 ports:[map[port:80 protocol:TCP]]] map[action:Deny cidr:172.31.0.11 ports:[map[port:80 protocol:TCP]]]]",
		"spec.subject":              "map[pods:map[namespaceSelector:map[] podSelector:map[matchLabels:map[app:web]]]]",
	} {
		if got := fmt.Sprint(w.objects().field(id, path)); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := fmt.Sprint(w.objects().field(id, "metadata.ownerReferences")); !strings.Contains(got, "kind:ClusterNetworkPolicy name:deny uid:above") {
		t.Errorf("its owner is %s", got)
	}

	objects.mu.Lock()
	objects.lists = map[string][]unstructured.Unstructured{"clusterpolicyendpoints": {*objects.byID[id]}}
	objects.mu.Unlock()
	for _, allowed := range []bool{true, false} {
		cs.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
			r.Status.Allowed = allowed && r.Spec.User == "system:serviceaccount:kube-system:aws-node" && r.Spec.ResourceAttributes.Resource == "clusterpolicyendpoints"
			return true, r, nil
		})
		for port, want := range map[uint16]string{80: "deny", 81: ""} {
			d, err := w.svc.NetworkPolicyDrop(ctx, w.account, "us-east-1", netip.MustParseAddr("172.31.0.12"), netip.MustParseAddr("172.31.0.11"), "tcp", port)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if d != nil && d.Denied != nil {
				got = d.Denied.PolicyRef.Name
			}
			if !allowed {
				want = ""
			}
			if got != want {
				t.Errorf("the role may see them: %t: at port %d, %q denies, want %q", allowed, port, got, want)
			}
		}
	}
}

// Network policies become PolicyEndpoints if the VPC CNI's settings say so, and follow the pods. They do not wait for the kind of
// ClusterNetworkPolicies.
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
	const kind = "CustomResourceDefinition /clusternetworkpolicies.networking.k8s.aws"
	objects := w.objects()
	objects.mu.Lock()
	delete(objects.byID, kind)
	objects.mu.Unlock()
	objects.refuse(kind, errors.New("denied by a webhook"))
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
	objects.refuse(kind, nil)
	w.eventually(func() error {
		if !slices.Contains(w.objects().ids(), kind) {
			return errors.New("the kind of ClusterNetworkPolicies is missing")
		}
		return nil
	})
	if err := cs.CoreV1().Pods("shop").Delete(ctx, "client", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("spec.ingress", "<nil>")
}
