package eks_test

import (
	"slices"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// TestPodFacts looks up pods by their names and their controllers' names, including pods that could
// not be created.
func TestPodFacts(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	ctx, client := awsapi.WithCall(t.Context(), &awsapi.Call{Account: w.account, Region: "us-east-1"}), w.kubernetes()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(name, owner string, phase corev1.PodPhase, change func(*corev1.Pod)) {
		t.Helper()
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name), CreationTimestamp: metav1.Time{Time: began}},
			Status:     corev1.PodStatus{Phase: phase},
		}
		if owner != "" {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, Controller: &yes}}
		}
		if change != nil {
			change(p)
		}
		if _, err := client.CoreV1().Pods("shop").Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	event := func(name, kind, of, uid, reason, message string, after time.Duration) {
		t.Helper()
		if _, err := client.CoreV1().Events("shop").Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Reason: reason, Message: message,
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: of, UID: types.UID(uid)}, LastTimestamp: metav1.Time{Time: began.Add(after)},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().ConfigMaps("shop").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "there", Namespace: "shop"}, Data: map[string]string{"a": "b"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	optional := true
	pod("web-abc-1", "web-abc", corev1.PodRunning, nil)
	pod("web-abc-2", "web-abc", corev1.PodPending, func(p *corev1.Pod) {
		p.Spec.NodeName = "gone"
		name := func(n string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: n} }
		p.Spec.Containers = []corev1.Container{{
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: name("env")}}, {ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name("there")}}},
			Env: []corev1.EnvVar{
				{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: name("there"), Key: "z"}}},
				{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: name("never"), Key: "z", Optional: &optional}}},
			},
		}}
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}}}
	})
	pod("web-abc-def-1", "web-abc-def", corev1.PodFailed, nil) // belongs to another Deployment, web-abc
	event("e2", "Pod", "web-abc-2", "web-abc-2", "FailedMount", "second", 2*time.Second)
	event("e1", "Pod", "web-abc-2", "web-abc-2", "Scheduled", "first", time.Second)
	event("e0", "Pod", "web-abc-2", "older", "Failed", "of an earlier pod of that name", 0)
	event("f1", "ReplicaSet", "api-abc", "", "FailedCreate", `pods "api-abc-9" is forbidden`, time.Second)
	event("f2", "ReplicaSet", "web-abc", "", "FailedCreate", `pods "web-abc-9" is forbidden`, -time.Second)
	pod("db-0", "db", corev1.PodRunning, nil)
	event("f3", "StatefulSet", "db", "", "FailedCreate", `create Pod db-1 failed`, time.Minute)

	// A Deployment that has been rolled out twice. The second time no pod can be made.
	deploy := func(name string) *appsv1.Deployment {
		t.Helper()
		d, err := client.AppsV1().Deployments("shop").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	revision := func(d *appsv1.Deployment, name, n string) {
		t.Helper()
		if _, err := client.AppsV1().ReplicaSets("shop").Create(ctx, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", Annotations: map[string]string{"deployment.kubernetes.io/revision": n},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rolled, stuck := deploy("rolled"), deploy("stuck")
	revision(rolled, "rolled-new", "10")
	revision(rolled, "rolled-old", "9")
	pod("rolled-old-1", "rolled-old", corev1.PodPending, nil)
	pod("rolled-new-1", "rolled-new", corev1.PodRunning, nil)
	revision(stuck, "stuck-old", "1")
	revision(stuck, "stuck-new", "2")
	pod("stuck-old-1", "stuck-old", corev1.PodRunning, nil)
	few, err := client.AppsV1().ReplicaSets("shop").Get(ctx, "stuck-new", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	few.Spec.Replicas, few.Status.Replicas = new(int32(3)), 1
	if _, err := client.AppsV1().ReplicaSets("shop").Update(ctx, few, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	event("f4", "ReplicaSet", "stuck-new", "", "FailedCreate", "exceeded quota", time.Minute)
	event("f5", "ReplicaSet", "stuck-old", "", "FailedCreate", "of the revision before", 2*time.Minute)

	for _, tt := range []struct {
		name, pod string
		events    []string
	}{
		{"rolled", "rolled-new-1", nil},
		{"stuck", "", []string{"exceeded quota"}},
		{"web-abc-1", "web-abc-1", nil},
		{"web-abc-2", "web-abc-2", []string{"first", "second"}},
		{"web", "web-abc-2", []string{"first", "second"}},
		{"web-abc", "web-abc-2", []string{"first", "second"}},
		{"api", "", []string{`pods "api-abc-9" is forbidden`}},
		{"api-abc-9", "", []string{`pods "api-abc-9" is forbidden`}},
		{"db", "", []string{"create Pod db-1 failed"}},
		{"nothing", "", nil},
	} {
		f, err := w.svc.PodFacts(ctx, "dev", "shop", tt.name)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]int{"stuck": 2}[tt.name]; f.Wanting != want {
			t.Errorf("%s: %d pods are wanting, want %d", tt.name, f.Wanting, want)
		}
		got := ""
		if f.Pod != nil {
			got = f.Pod.Name
		}
		var events []string
		for _, e := range f.Events {
			events = append(events, e.Message)
		}
		if got != tt.pod || !slices.Equal(events, tt.events) {
			t.Errorf("%s: pod %q with %q, want %q with %q", tt.name, got, events, tt.pod, tt.events)
		}
		if tt.name != "web-abc-2" {
			continue
		}
		want := []eks.MissingObject{{Kind: "Secret", Name: "mounted", Volume: true}, {Kind: "Secret", Name: "env"}, {Kind: "ConfigMap", Name: "there", Key: "z"}}
		if diff := cmp.Diff(want, f.Missing); diff != "" {
			t.Error(diff)
		}
		if f.Node != nil || f.Identity.ServiceAccount != "default" {
			t.Errorf("node %v, identity %+v", f.Node, f.Identity)
		}
	}
	if _, err := w.svc.PodFacts(ctx, "other", "shop", "web"); err == nil {
		t.Error("there is no such cluster")
	}
}
