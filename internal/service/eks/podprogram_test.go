package eks_test

import (
	"errors"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// webPod is a running pod with a token for AWS and one for its cluster.
func webPod(change func(*corev1.Pod)) *corev1.Pod {
	day, hour := int64(86400), int64(3607)
	projected := func(name string, sources ...corev1.VolumeProjection) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}
	}
	token := func(audience string, seconds *int64, path string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: seconds, Path: path}}
	}
	mounts := []corev1.VolumeMount{{Name: "aws", MountPath: "/aws"}, {Name: "api", MountPath: "/api/"}, {Name: "plain", MountPath: "/plain"}}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u-1"},
		Spec: corev1.PodSpec{
			NodeName: "node-1", ServiceAccountName: "cart",
			Containers: []corev1.Container{
				{Name: "app", VolumeMounts: mounts, Env: []corev1.EnvVar{
					{Name: "AWS_WEB_IDENTITY_TOKEN_FILE", Value: "/aws/token"},
					{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "ca"}, Key: "color"}}},
				}},
				{Name: "side", VolumeMounts: []corev1.VolumeMount{{Name: "api", MountPath: "/etc/tokens", SubPath: "deep"}}},
			},
			InitContainers: []corev1.Container{{Name: "init"}},
			Volumes: []corev1.Volume{
				projected("aws", token("sts.amazonaws.com", &day, "token")),
				projected("api", token("", &hour, "deep/token"),
					corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "ca"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
					corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}},
					corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "deep/namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}}),
				projected("plain", corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "ca"}}}),
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "side", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
		}},
	}
	if change != nil {
		change(p)
	}
	return p
}

// TestPodProgram checks the environment of programs in a pod, and the errors if there is none.
func TestPodProgram(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	ctx, client := awsapi.WithCall(t.Context(), &awsapi.Call{Account: w.account, Region: "us-east-1"}), w.kubernetes()
	for _, m := range []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "ca", Namespace: "shop"}, Data: map[string]string{"ca.crt": "PEM", "color": "blue"}}} {
		if _, err := client.CoreV1().ConfigMaps("shop").Create(ctx, m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().Secrets("shop").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys", Namespace: "shop"}, Data: map[string][]byte{"key": []byte("k")}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	put := func(p *corev1.Pod) {
		t.Helper()
		if _, err := client.CoreV1().Pods("shop").Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	put(webPod(nil))
	put(webPod(func(p *corev1.Pod) {
		p.Name, p.Status.ContainerStatuses[1].State = "both", p.Status.ContainerStatuses[0].State
	}))
	put(webPod(func(p *corev1.Pod) {
		p.Name, p.Status.ContainerStatuses[1].State = "ended", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	}))
	put(webPod(func(p *corev1.Pod) { p.Name, p.Status.Phase = "pending", corev1.PodPending }))
	put(webPod(func(p *corev1.Pod) { p.Name, p.Status.Phase = "done", corev1.PodSucceeded }))
	put(webPod(func(p *corev1.Pod) {
		p.Name, p.Annotations = "annotated", map[string]string{"kubectl.kubernetes.io/default-container": "init"}
	}))

	got, err := w.svc.PodProgram(ctx, "dev", "shop", "web", "")
	if err != nil {
		t.Fatal(err)
	}
	got.Pod, got.PlaneID = nil, ""
	want := eks.PodProgram{
		Cluster: "dev", Account: w.account, Region: "us-east-1", Container: "app", Containers: []string{"app", "side"},
		Env:    map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/aws/token", "COLOR": "blue"},
		Tokens: []eks.PodToken{{Path: "/aws/token", Audience: "sts.amazonaws.com", Seconds: 86400}, {Path: "/api/deep/token", Seconds: 3607}},
		Files:  map[string][]byte{"/api/ca.crt": []byte("PEM"), "/api/key": []byte("k"), "/api/deep/namespace": []byte("shop")},
		Mounts: []string{"/aws", "/api"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err = w.svc.PodProgram(ctx, "dev", "shop", "both", "side")
	if err != nil {
		t.Fatal(err)
	}
	wantTokens, wantFiles := []eks.PodToken{{Path: "/etc/tokens/token", Seconds: 3607}}, map[string][]byte{"/etc/tokens/namespace": []byte("shop")}
	if diff := cmp.Diff(wantTokens, got.Tokens) + cmp.Diff(wantFiles, got.Files); diff != "" {
		t.Errorf("below a subPath (-want +got):\n%s", diff)
	}
	if got, err := w.svc.PodProgram(ctx, "dev", "shop", "annotated", ""); err != nil || got.Container != "init" {
		t.Errorf("container %q by annotation, %v", got.Container, err)
	}
	for _, tt := range []struct{ pod, container, want string }{
		{"nobody", "", "no such pod"},
		{"web", "none", "it has no container none; it has app, side"},
		{"web", "side", "its container side is waiting: CrashLoopBackOff"},
		{"ended", "side", "its container side has ended"},
		{"pending", "", "it is Pending"},
		{"done", "", "it is Succeeded"},
	} {
		if _, err := w.svc.PodProgram(ctx, "dev", "shop", tt.pod, tt.container); err == nil || err.Error() != tt.want {
			t.Errorf("%s %s: %v, want %s", tt.pod, tt.container, err, tt.want)
		}
	}
	if _, err := w.svc.PodProgram(ctx, "other", "shop", "web", ""); err == nil {
		t.Error("there is no such cluster")
	}
}

// A token is bound to the pod, with the audience and lifetime set in the volume.
func TestIssuePodToken(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	ctx := awsapi.WithCall(t.Context(), &awsapi.Call{Account: w.account, Region: "us-east-1"})
	_, cs := w.planes.only()
	if _, err := cs.CoreV1().Pods("shop").Create(ctx, webPod(func(p *corev1.Pod) { p.Spec.Containers[0].Env = nil }), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p, err := w.svc.PodProgram(ctx, "dev", "shop", "web", "app")
	if err != nil {
		t.Fatal(err)
	}
	expires := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	refuse := false
	cs.PrependReactor("create", "serviceaccounts", func(a k8stesting.Action) (bool, runtime.Object, error) {
		c := a.(k8stesting.CreateActionImpl)
		req := c.GetObject().(*authenticationv1.TokenRequest)
		want := authenticationv1.TokenRequestSpec{
			Audiences: []string{"sts.amazonaws.com"}, ExpirationSeconds: new(int64(86400)),
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "u-1"},
		}
		if diff := cmp.Diff(want, req.Spec); diff != "" || c.Subresource != "token" || c.Name != "cart" || c.Namespace != "shop" {
			t.Errorf("asked for %s/%s %s:\n%s", c.Namespace, c.Name, c.Subresource, diff)
		}
		if refuse {
			return true, nil, errors.New("no more")
		}
		req.Status = authenticationv1.TokenRequestStatus{Token: "t", ExpirationTimestamp: metav1.Time{Time: expires}}
		return true, req, nil
	})
	token, until, err := w.svc.IssuePodToken(ctx, &p, p.Tokens[0])
	if err != nil || token != "t" || !until.Equal(expires) {
		t.Errorf("%q until %v: %v", token, until, err)
	}
	refuse = true
	if _, _, err := w.svc.IssuePodToken(ctx, &p, p.Tokens[0]); err == nil || err.Error() != "a token of the service account shop/cart: no more" {
		t.Errorf("error = %v", err)
	}
}

// The agent runs on a node if a pod of its add-on is Ready there.
func TestPodIdentityAgentRuns(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	ctx := awsapi.WithCall(t.Context(), &awsapi.Call{Account: w.account, Region: "us-east-1"})
	plane, cs := w.planes.only()
	agent := func(node string, ready corev1.ConditionStatus) {
		t.Helper()
		if _, err := cs.CoreV1().Pods("kube-system").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "agent-" + node, Namespace: "kube-system", Labels: map[string]string{"app.kubernetes.io/name": "eks-pod-identity-agent"}},
			Spec:       corev1.PodSpec{NodeName: node},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	agent("ready", corev1.ConditionTrue)
	agent("starting", corev1.ConditionFalse)
	for node, want := range map[string]bool{"ready": true, "starting": false, "none": false} {
		if got, err := w.svc.PodIdentityAgentRuns(ctx, plane.ID, node); err != nil || got != want {
			t.Errorf("on %s: %v, %v", node, got, err)
		}
	}
}
