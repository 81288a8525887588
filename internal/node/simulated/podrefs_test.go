package simulated_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/drydock-dev/drydock/internal/node"
)

// put creates an object that nodes do not create.
func (a *fakeAPI) put(collection, name string, obj runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store(collection, "default/"+name, obj, watch.Added)
}

// A pod waits for the ConfigMaps and Secrets that it refers to, and reports that as the kubelet does.
func TestPodsWaitForWhatTheyReferTo(t *testing.T) {
	settings := func(key string) func(*fakeAPI) {
		return func(a *fakeAPI) {
			a.put("configmaps", "settings", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}, Data: map[string]string{key: "v"}})
		}
	}
	password := func(key string) func(*fakeAPI) {
		return func(a *fakeAPI) {
			a.put("secrets", "password", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password", Namespace: "default"}, Data: map[string][]byte{key: nil}})
		}
	}
	env := func(from corev1.EnvVarSource) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].Env = []corev1.EnvVar{{Name: "X", ValueFrom: &from}} }
	}
	volume := func(from corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: from}} }
	}
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	for _, tc := range []struct {
		name   string
		pod    func(*corev1.PodSpec)
		before func(*fakeAPI)
		reason string // empty if it runs at once
		event  string
		step   string
		mend   func(*fakeAPI)
	}{
		{name: "environment of a ConfigMap", pod: env(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("settings"), Key: "a"}}),
			reason: "CreateContainerConfigError", event: `Failed: Error: configmap "settings" not found`, step: node.StepPodConfig, mend: settings("a")},
		{name: "a key of a ConfigMap", pod: env(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("settings"), Key: "a"}}), before: settings("b"),
			reason: "CreateContainerConfigError", event: `Failed: Error: couldn't find key a in ConfigMap default/settings`, step: node.StepPodConfig, mend: settings("a")},
		{name: "a key that may be missing", pod: env(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("settings"), Key: "a", Optional: new(true)}})},
		{name: "environment of a Secret", pod: env(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("password"), Key: "a"}}), before: password("b"),
			reason: "CreateContainerConfigError", event: `Failed: Error: couldn't find key a in Secret default/password`, step: node.StepPodConfig, mend: password("a")},
		{name: "all of a Secret", pod: func(s *corev1.PodSpec) {
			s.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("password")}}}
		}, reason: "CreateContainerConfigError", event: `Failed: Error: secret "password" not found`, step: node.StepPodConfig, mend: password("x")},
		{name: "a volume of a Secret", pod: volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password"}}),
			reason: "ContainerCreating", event: `FailedMount: MountVolume.SetUp failed for volume "v" : secret "password" not found`, step: node.StepPodVolumes, mend: password("x")},
		{name: "a key in a volume", pod: volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("settings"), Items: []corev1.KeyToPath{{Key: "a", Path: "a"}}}}), before: settings("b"),
			reason: "ContainerCreating", event: `FailedMount: MountVolume.SetUp failed for volume "v" : references non-existent config key: a`, step: node.StepPodVolumes, mend: settings("a")},
		{name: "the cluster's authority", pod: volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("kube-root-ca.crt")}}}}})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				if tc.before != nil {
					tc.before(b.api)
				}
				b.launch(b.instance())
				p := pod("web")
				tc.pod(&p.Spec)
				b.api.bind(nodeName, p)
				after(3 * time.Second)
				if tc.reason == "" {
					if got := b.api.pod("web").Status.Phase; got != corev1.PodRunning {
						t.Errorf("the pod is %s", got)
					}
					return
				}
				if reason, _ := b.waits("web"); reason != tc.reason {
					t.Errorf("it waits for %s", reason)
				}
				if got := b.said("web"); !slices.Contains(got, tc.event) {
					t.Errorf("events %q", got)
				}
				if s := b.rt.PodSteps("i-0123456789abcdef0", "default", "web"); len(s) != 1 || s[0].Name != tc.step || s[0].Decision == nil {
					t.Errorf("steps %+v", s)
				}
				tc.mend(b.api)
				after(20 * time.Second)
				if got := b.api.pod("web").Status.Phase; got != corev1.PodRunning {
					t.Errorf("the pod is %s; events %q", got, b.said("web"))
				}
			})
		})
	}
}

// A pod that bypassed the scheduler must still fit on its node.
func TestPodsThatDoNotFit(t *testing.T) {
	asking := func(name, cpu, memory string) *corev1.Pod {
		p := pod(name)
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
		return p
	}
	for _, tc := range []struct {
		name        string
		cpu, memory string
		reason      string
		message     string
	}{
		{"it fits", "900m", "1Gi", "", ""},
		{"too few cores", "1", "1Gi", "OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 1000, capacity: 1930"},
		{"too little memory", "100m", "6Gi", "OutOfmemory", "Pod was rejected: Node didn't have enough resource: memory, requested: 6442450944, used: 1073741824, capacity: 7458516992"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.launch(b.instance())
				after(time.Second)
				b.api.bind(nodeName, asking("first", "1", "1Gi"))
				b.api.bind(nodeName, asking("second", tc.cpu, tc.memory))
				after(time.Second)
				st := b.api.pod("second").Status
				if st.Reason != tc.reason || st.Message != tc.message {
					t.Errorf("%s: %s", st.Reason, st.Message)
				}
				steps := b.rt.PodSteps("i-0123456789abcdef0", "default", "second")
				if (len(steps) == 1 && steps[0].Name == node.StepPodAdmission) != (tc.reason != "") {
					t.Errorf("steps %+v", steps)
				}
			})
		})
	}
}
