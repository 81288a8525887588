package simulated

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// world runs one pod machine with a clock that jumps.
type world struct {
	t     *testing.T
	start time.Time
	now   time.Time
	free  []netip.Addr
	m     *podMachine
	obj   *corev1.Pod
}

func newWorld(t *testing.T, pod string) *world {
	t.Helper()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := &world{t: t, start: start, now: start, free: []netip.Addr{netip.MustParseAddr("10.0.0.9")}}
	w.obj = parsePod(t, pod)
	w.m = newPod(w.obj, w.env(), false)
	return w
}

func parsePod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	if p.Name == "" {
		p.Name = "web"
	}
	p.Namespace, p.UID, p.Generation = "default", types.UID("uid-1"), 1
	if p.Spec.RestartPolicy == "" {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	return p
}

func (w *world) env() env {
	return env{
		now: w.now, hostIP: netip.MustParseAddr("10.0.0.1"), jobDuration: time.Second,
		address: func() (netip.Addr, time.Time, *sandboxError) {
			if len(w.free) == 0 {
				return netip.Addr{}, time.Time{}, cniError("failed to assign an IP address to container")
			}
			a := w.free[0]
			w.free = w.free[1:]
			return a, time.Time{}, nil
		},
	}
}

// run runs the pod for d and returns what an observer of its status would have seen, one line per write.
func (w *world) run(d time.Duration) []string {
	w.t.Helper()
	end := w.now.Add(d)
	var seen []string
	for range 1000 {
		next := w.m.advance(w.env())
		if w.m.dirty {
			w.m.dirty = false
			seen = append(seen, fmt.Sprintf("%v %s", w.now.Sub(w.start), describe(w.m)))
		}
		if next.IsZero() || next.After(end) {
			w.now = end
			return seen
		}
		if next.Before(w.now) {
			w.t.Fatalf("at %v the machine asks to be called at %v, in the past", w.now.Sub(w.start), next.Sub(w.start))
		}
		w.now = next
	}
	w.t.Fatal("the machine does not come to rest")
	return nil
}

// describe summarizes a status in one line: phase, readiness, containers.
func describe(m *podMachine) string {
	st := m.status(netip.MustParseAddr("10.0.0.1"))
	var b strings.Builder
	fmt.Fprintf(&b, "%s", st.Phase)
	if st.Reason != "" {
		fmt.Fprintf(&b, "/%s", st.Reason)
	}
	for _, c := range st.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			b.WriteString(" ready")
		}
	}
	if st.PodIP != "" {
		b.WriteString(" " + st.PodIP)
	}
	for _, c := range append(st.InitContainerStatuses, st.ContainerStatuses...) {
		fmt.Fprintf(&b, " %s=", c.Name)
		switch s := c.State; {
		case s.Running != nil:
			b.WriteString("running")
		case s.Terminated != nil:
			fmt.Fprintf(&b, "%s(%d)", s.Terminated.Reason, s.Terminated.ExitCode)
		default:
			b.WriteString(s.Waiting.Reason)
		}
		if c.RestartCount > 0 {
			fmt.Fprintf(&b, "x%d", c.RestartCount)
		}
	}
	if m.stopped {
		b.WriteString(" stopped")
	}
	return b.String()
}

func TestPodLife(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  string
		addr int // addresses available, one by default, -1 none
		run  time.Duration
		want []string
	}{
		// Containers run forever unless something says they do not.
		{name: "a plain pod is running and ready with its first status", pod: `{spec: {containers: [{name: c, image: nginx}]}}`, run: time.Hour,
			want: []string{"0s Running ready 10.0.0.9 c=running"}},
		{name: "a pod that is never restarted runs forever all the same", pod: `{spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}`, run: time.Hour,
			want: []string{"0s Running ready 10.0.0.9 c=running"}},
		{name: "a host network pod has the node's address", pod: `{spec: {hostNetwork: true, containers: [{name: c, image: nginx}]}}`, addr: -1, run: time.Hour,
			want: []string{"0s Running ready 10.0.0.1 c=running"}},

		// Addresses.
		{name: "without an address the pod stays", pod: `{spec: {containers: [{name: c, image: nginx}]}}`, addr: -1, run: time.Minute,
			want: []string{"0s Pending c=ContainerCreating"}},

		// Init containers and sidecars.
		{name: "init containers come first and leave their results", pod: `{spec: {initContainers: [{name: i, image: busybox}, {name: j, image: busybox}], containers: [{name: c, image: nginx}]}}`, run: time.Hour,
			want: []string{"0s Running ready 10.0.0.9 i=Completed(0) j=Completed(0) c=running"}},
		{name: "init containers in order, one after the other", pod: `{metadata: {annotations: {simulated.drydock.dev/exit-after.i: 5s}}, spec: {initContainers: [{name: i, image: busybox}, {name: j, image: busybox}], containers: [{name: c, image: nginx}]}}`, run: time.Hour,
			want: []string{"0s Pending 10.0.0.9 i=running j=PodInitializing c=PodInitializing", "5s Running ready 10.0.0.9 i=Completed(0) j=Completed(0) c=running"}},
		{name: "a sidecar keeps running", pod: `{spec: {initContainers: [{name: s, image: envoy, restartPolicy: Always}, {name: i, image: busybox}], containers: [{name: c, image: nginx}]}}`, run: time.Hour,
			want: []string{"0s Running ready 10.0.0.9 s=running i=Completed(0) c=running"}},
		{name: "a sidecar ends with the pod", pod: `{metadata: {annotations: {simulated.drydock.dev/exit-after: 3s}}, spec: {restartPolicy: Never, initContainers: [{name: s, image: envoy, restartPolicy: Always}], containers: [{name: c, image: nginx}]}}`, run: time.Hour,
			want: []string{"0s Running ready 10.0.0.9 s=running c=running", "3s Succeeded 10.0.0.9 s=Completed(0) c=Completed(0)"}},
		{name: "a failing init container fails a pod that is never restarted", pod: `{metadata: {annotations: {simulated.drydock.dev/exit-code.i: "3"}}, spec: {restartPolicy: Never, initContainers: [{name: i, image: busybox}], containers: [{name: c, image: nginx}]}}`, run: time.Hour,
			want: []string{"0s Failed 10.0.0.9 i=Error(3) c=PodInitializing"}},
		{name: "a failing init container is tried again otherwise", pod: `{metadata: {annotations: {simulated.drydock.dev/exit-code.i: "3"}}, spec: {initContainers: [{name: i, image: busybox}], containers: [{name: c, image: nginx}]}}`, run: 15 * time.Second,
			want: []string{"0s Pending 10.0.0.9 i=CrashLoopBackOffx1 c=PodInitializing", "10s Pending 10.0.0.9 i=CrashLoopBackOffx2 c=PodInitializing"}},

		// Endings.
		{name: "a job's pod succeeds after a moment", pod: `{metadata: {ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]}, spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}`, run: time.Hour,
			want: []string{"0s Running ready 10.0.0.9 c=running", "1s Succeeded 10.0.0.9 c=Completed(0)"}},
		{name: "an annotation makes it fail", pod: `{metadata: {annotations: {simulated.drydock.dev/exit-code: "2", simulated.drydock.dev/exit-after: 4s}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]}, spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}`, run: time.Hour,
			want: []string{"0s Running ready 10.0.0.9 c=running", "4s Failed 10.0.0.9 c=Error(2)"}},
		{name: "OnFailure restarts failures only", pod: `{metadata: {annotations: {simulated.drydock.dev/exit-code.a: "1", simulated.drydock.dev/exit-after: 1s}}, spec: {restartPolicy: OnFailure, containers: [{name: a, image: busybox}, {name: b, image: busybox}]}}`, run: 5 * time.Second,
			want: []string{"0s Running ready 10.0.0.9 a=running b=running", "1s Running 10.0.0.9 a=runningx1 b=Completed(0)", "2s Running 10.0.0.9 a=CrashLoopBackOffx1 b=Completed(0)"}},
		{name: "back-off doubles", pod: `{metadata: {annotations: {simulated.drydock.dev/exit-after: 1s}}, spec: {containers: [{name: c, image: busybox}]}}`, run: 40 * time.Second,
			want: []string{"0s Running ready 10.0.0.9 c=running", "1s Running ready 10.0.0.9 c=runningx1", "2s Running 10.0.0.9 c=CrashLoopBackOffx1", "12s Running ready 10.0.0.9 c=runningx2", "13s Running 10.0.0.9 c=CrashLoopBackOffx2", "33s Running ready 10.0.0.9 c=runningx3", "34s Running 10.0.0.9 c=CrashLoopBackOffx3"}},
		{name: "a container may have its own restart rules", pod: `{metadata: {annotations: {simulated.drydock.dev/exit-code: "42", simulated.drydock.dev/exit-after: 1s}}, spec: {restartPolicy: Never, containers: [{name: c, image: busybox, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}]}}`, run: 3 * time.Second,
			want: []string{"0s Running ready 10.0.0.9 c=running", "1s Running ready 10.0.0.9 c=runningx1", "2s Running 10.0.0.9 c=CrashLoopBackOffx1"}},
		{name: "the deadline ends a pod", pod: `{spec: {activeDeadlineSeconds: 7, containers: [{name: c, image: nginx}]}}`, run: time.Hour,
			want: []string{"0s Running ready 10.0.0.9 c=running", "7s Failed/DeadlineExceeded 10.0.0.9 c=Error(143)"}},

		// Containers that cannot start.
		{name: "an image name that is none", pod: `{spec: {containers: [{name: c, image: "Not An Image"}]}}`, run: time.Hour,
			want: []string{"0s Pending 10.0.0.9 c=InvalidImageName"}},
		{name: "readiness gates", pod: `{spec: {readinessGates: [{conditionType: target-health.elbv2.k8s.aws/x}], containers: [{name: c, image: nginx}]}}`, run: time.Hour,
			want: []string{"0s Running 10.0.0.9 c=running"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.pod)
			if tc.addr < 0 {
				w.free = nil
			}
			if diff := cmp.Diff(tc.want, w.run(tc.run)); diff != "" {
				t.Errorf("status writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodDeletion(t *testing.T) {
	deletePod := func(w *world, grace int64) {
		w.obj = w.obj.DeepCopy()
		now := metav1.NewTime(w.now)
		w.obj.DeletionTimestamp, w.obj.DeletionGracePeriodSeconds = &now, &grace
		w.m.observe(w.obj, w.env())
	}
	const plain = `{spec: {containers: [{name: c, image: nginx}]}}`
	const slow = `{spec: {containers: [{name: c, image: nginx, lifecycle: {preStop: {sleep: {seconds: 20}}}}]}}`

	t.Run("containers stop at once", func(t *testing.T) {
		w := newWorld(t, plain)
		w.run(time.Minute)
		deletePod(w, 30)
		want := []string{"1m0s Failed 10.0.0.9 c=Error(143) stopped"}
		if diff := cmp.Diff(want, w.run(time.Hour)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a preStop sleep is slept", func(t *testing.T) {
		w := newWorld(t, slow)
		w.run(time.Minute)
		deletePod(w, 30)
		want := []string{"1m20s Failed 10.0.0.9 c=Error(143) stopped"}
		if diff := cmp.Diff(want, w.run(time.Hour)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("but not longer than the grace period", func(t *testing.T) {
		w := newWorld(t, slow)
		w.run(time.Minute)
		deletePod(w, 5)
		if got := w.run(time.Hour); len(got) != 1 || !strings.HasPrefix(got[0], "1m5s ") {
			t.Error(got)
		}
	})
	t.Run("and force ends it", func(t *testing.T) {
		w := newWorld(t, slow)
		w.run(time.Minute)
		deletePod(w, 30)
		w.run(2 * time.Second)
		deletePod(w, 0)
		if got := w.run(time.Hour); len(got) != 1 || !strings.HasPrefix(got[0], "1m2s ") {
			t.Error(got)
		}
	})
	t.Run("a pod that never started goes too", func(t *testing.T) {
		w := newWorld(t, plain)
		w.free = nil
		w.run(time.Minute)
		deletePod(w, 30)
		w.run(time.Second)
		if !w.m.stopped {
			t.Error("not stopped")
		}
	})
	t.Run("what ended well stays so", func(t *testing.T) {
		w := newWorld(t, `{metadata: {annotations: {simulated.drydock.dev/exit-after: 1s}}, spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}`)
		w.run(time.Minute)
		deletePod(w, 30)
		w.run(time.Second)
		if got, want := describe(w.m), "Succeeded 10.0.0.9 c=Completed(0) stopped"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// The node lifecycle controller marks the pods of a silent node as not ready. When the kubelet is heard again, it
// marks them ready. What it had reported before is not reported again.
func TestReadyIsTakenBack(t *testing.T) {
	w := newWorld(t, `{spec: {containers: [{name: c, image: nginx}]}}`)
	w.run(time.Minute)
	ready := func(status corev1.ConditionStatus, at time.Time) bool {
		p := w.obj.DeepCopy()
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(at)}}
		w.m.dirty = false
		w.m.observe(p, w.env())
		return w.m.dirty
	}
	if ready(corev1.ConditionFalse, w.start.Add(-time.Second)) || ready(corev1.ConditionTrue, w.now) {
		t.Error("reported again for nothing")
	}
	if !ready(corev1.ConditionFalse, w.now) {
		t.Error("a pod that runs stays not ready")
	}
}

func TestPodChanges(t *testing.T) {
	t.Run("a readiness gate opens", func(t *testing.T) {
		w := newWorld(t, `{spec: {readinessGates: [{conditionType: x.y/z}], containers: [{name: c, image: nginx}]}}`)
		w.run(time.Minute)
		w.obj.Status.Conditions = []corev1.PodCondition{{Type: "x.y/z", Status: corev1.ConditionTrue}}
		w.m.observe(w.obj, w.env())
		if diff := cmp.Diff([]string{"1m0s Running ready 10.0.0.9 c=running"}, w.run(time.Minute)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a new image restarts the container", func(t *testing.T) {
		w := newWorld(t, `{spec: {containers: [{name: c, image: nginx}]}}`)
		w.run(time.Minute)
		w.obj = w.obj.DeepCopy()
		w.obj.Generation, w.obj.Spec.Containers[0].Image = 2, "nginx:2"
		w.m.observe(w.obj, w.env())
		if diff := cmp.Diff([]string{"1m0s Running ready 10.0.0.9 c=runningx1"}, w.run(time.Minute)); diff != "" {
			t.Error(diff)
		}
		if got := w.m.status(w.env().hostIP).ContainerStatuses[0].Image; got != "docker.io/library/nginx:2" {
			t.Errorf("image is %s", got)
		}
	})
	t.Run("an own write seen again changes nothing", func(t *testing.T) {
		w := newWorld(t, `{spec: {containers: [{name: c, image: nginx}]}}`)
		w.run(time.Minute)
		w.obj = w.obj.DeepCopy()
		w.obj.Status = w.m.status(w.env().hostIP)
		w.m.observe(w.obj, w.env())
		if got := w.run(time.Hour); got != nil {
			t.Error(got)
		}
	})
}

// A restarted daemon continues with its pods, and writes nothing; a node that was off starts their containers again.
func TestPodIsTakenOver(t *testing.T) {
	for _, tc := range []struct {
		name     string
		pod      string
		rebooted bool
		want     []string
	}{
		{"running", `{spec: {containers: [{name: c, image: nginx}]}}`, false, nil},
		{"running, after a reboot", `{spec: {containers: [{name: c, image: nginx}]}}`, true,
			[]string{"1m0s Running ready 10.0.0.9 c=runningx1"}},
		{"never restarted, after a reboot", `{spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}`, true,
			[]string{"1m0s Failed 10.0.0.9 c=Unknown(255)"}},
		{"ended", `{metadata: {annotations: {simulated.drydock.dev/exit-after: 1s}}, spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}`, false, nil},
		{"with sidecar and init container", `{spec: {initContainers: [{name: s, image: a, restartPolicy: Always}, {name: i, image: a}], containers: [{name: c, image: nginx}]}}`, false, nil},
		{"its end still to come", `{metadata: {annotations: {simulated.drydock.dev/exit-after: 90s}}, spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}`, false,
			[]string{"1m30s Succeeded 10.0.0.9 c=Completed(0)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.pod)
			w.run(time.Minute)
			w.obj = w.obj.DeepCopy()
			// Through the wire, where times lose their fractions.
			raw, err := json.Marshal(w.m.status(w.env().hostIP))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &w.obj.Status); err != nil {
				t.Fatal(err)
			}
			w.m = newPod(w.obj, w.env(), tc.rebooted)
			got := w.run(time.Hour)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPodEvents(t *testing.T) {
	w := newWorld(t, `{metadata: {name: web}, spec: {initContainers: [{name: i, image: busybox}], containers: [{name: c, image: nginx}]}}`)
	w.run(time.Minute)
	var got []string
	for _, h := range w.m.happened {
		got = append(got, strings.Join([]string{h.kind, h.reason, h.container, h.message}, "|"))
	}
	want := []string{
		`Normal|Pulled|spec.initContainers{i}|Container image "busybox" already present on machine and can be accessed by the pod`,
		"Normal|Created|spec.initContainers{i}|Container created",
		"Normal|Started|spec.initContainers{i}|Container started",
		`Normal|Pulled|spec.containers{c}|Container image "nginx" already present on machine and can be accessed by the pod`,
		"Normal|Created|spec.containers{c}|Container created",
		"Normal|Started|spec.containers{c}|Container started",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPodStatusInFull(t *testing.T) {
	w := newWorld(t, `{spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: 100m}}}]}}`)
	w.run(time.Minute)
	body, err := w.m.patch(w.env().hostIP)
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.JSONToYAML(body)
	if err != nil {
		t.Fatal(err)
	}
	const want = `metadata:
  uid: uid-1
status:
  conditions:
  - lastProbeTime: null
    lastTransitionTime: "2026-01-02T03:04:05Z"
    observedGeneration: 1
    status: "True"
    type: PodReadyToStartContainers
  - lastProbeTime: null
    lastTransitionTime: "2026-01-02T03:04:05Z"
    observedGeneration: 1
    status: "True"
    type: Initialized
  - lastProbeTime: null
    lastTransitionTime: "2026-01-02T03:04:05Z"
    observedGeneration: 1
    status: "True"
    type: ContainersReady
  - lastProbeTime: null
    lastTransitionTime: "2026-01-02T03:04:05Z"
    observedGeneration: 1
    status: "True"
    type: Ready
  containerStatuses:
  - allocatedResources:
      cpu: 100m
    containerID: containerd://` + "8b4cbd19bf1e0c3d8d2f" + `
    image: docker.io/library/nginx:latest
    imageID: docker.io/library/nginx@sha256:` + "x" + `
    lastState: {}
    name: c
    ready: true
    resources:
      requests:
        cpu: 100m
    restartCount: 0
    started: true
    state:
      running:
        startedAt: "2026-01-02T03:04:05Z"
  hostIP: 10.0.0.1
  hostIPs:
  - ip: 10.0.0.1
  observedGeneration: 1
  phase: Running
  podIP: 10.0.0.9
  podIPs:
  - ip: 10.0.0.9
  startTime: "2026-01-02T03:04:05Z"
`
	if diff := cmp.Diff(shortenIDs(want), shortenIDs(string(got))); diff != "" {
		t.Error(diff)
	}
}

// shortenIDs hides made-up identifiers: containerd://… and sha256:….
func shortenIDs(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		for _, mark := range []string{"containerd://", "@sha256:"} {
			if at := strings.Index(l, mark); at >= 0 {
				lines[i] = l[:at+len(mark)]
			}
		}
	}
	return strings.Join(lines, "\n")
}
