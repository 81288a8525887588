package simulated_test

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/node"
)

func withImage(name, image string, policy corev1.PullPolicy) *corev1.Pod {
	p := pod(name)
	p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = image, policy
	return p
}

// waits returns what a pod's only container waits for.
func (b *bench) waits(name string) (reason, message string) {
	b.t.Helper()
	st := b.api.pod(name).Status.ContainerStatuses
	if len(st) == 0 || st[0].State.Waiting == nil {
		b.t.Fatalf("%s does not wait: %+v", name, b.api.pod(name).Status)
	}
	return st[0].State.Waiting.Reason, st[0].State.Waiting.Message
}

// said are the events about a pod: reason and message.
func (b *bench) said(name string) []string {
	var out []string
	for _, e := range b.api.events() {
		if e.InvolvedObject.Name == name {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	return out
}

// A node that cannot reach a registry reports it as the kubelet does, waits longer each time, and pulls when it can.
func TestImageThatCannotBePulled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		after(time.Second)
		why := node.Decision{By: node.ByNetwork, Code: "NO_ROUTE_TO_DESTINATION", Component: "rtb-1", Text: "no way"}
		tries := 0
		b.connect = func(host string) error {
			tries++
			return &node.Refusal{Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}, Decision: why}
		}
		b.api.bind(nodeName, withImage("web", "ghcr.io/team/app:1", corev1.PullIfNotPresent))
		after(time.Second)
		if reason, _ := b.waits("web"); reason != "ContainerCreating" {
			t.Errorf("while it is pulled: %s", reason)
		}
		const text = `failed to pull and unpack image "ghcr.io/team/app:1": failed to resolve reference "ghcr.io/team/app:1": failed to do request: Head "https://ghcr.io/v2/team/app/manifests/1": dial tcp: i/o timeout`
		after(5 * time.Second)
		if reason, message := b.waits("web"); reason != "ErrImagePull" || message != text {
			t.Errorf("%s: %s", reason, message)
		}
		after(3 * time.Second)
		if reason, message := b.waits("web"); reason != "ImagePullBackOff" || message != `Back-off pulling image "ghcr.io/team/app:1": ErrImagePull: `+text {
			t.Errorf("%s: %s", reason, message)
		}
		want := []string{
			`Pulling: Pulling image "ghcr.io/team/app:1"`,
			`Failed: Failed to pull image "ghcr.io/team/app:1": ` + text,
			`Failed: Error: ErrImagePull`,
			`BackOff: Back-off pulling image "ghcr.io/team/app:1"`,
			`Failed: Error: ImagePullBackOff`,
		}
		if diff := cmp.Diff(want, b.said("web")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		steps := b.rt.PodSteps("i-0123456789abcdef0", "default", "web")
		if len(steps) != 1 || steps[0].Name != node.StepPodImage || steps[0].Container != "c" || steps[0].Pod != "default/web" || steps[0].Cluster != "dev" ||
			steps[0].Evidence != `Failed to pull image "ghcr.io/team/app:1": `+text {
			t.Fatalf("steps %+v", steps)
		}
		if diff := cmp.Diff(&why, steps[0].Decision); diff != "" {
			t.Error(diff)
		}
		after(10 * time.Minute) // 10 s, 20 s, 40 s, 80 s, 160 s, 300 s, and 5 s each
		if tries < 6 || tries > 9 {
			t.Errorf("%d tries", tries)
		}
		// What repeats is counted, as the kubelet does: normal events too.
		if diff := cmp.Diff(want, b.said("web")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		pulling := func() *corev1.Event {
			events := b.api.events()
			return events[slices.IndexFunc(events, func(e *corev1.Event) bool { return e.InvolvedObject.Name == "web" && e.Reason == "Pulling" })]
		}
		if e := pulling(); int(e.Count) != tries || e.LastTimestamp.Sub(e.FirstTimestamp.Time) < 5*time.Minute {
			t.Errorf("after %d tries: count %d, from %v to %v", tries, e.Count, e.FirstTimestamp, e.LastTimestamp)
		}
		first := pulling().FirstTimestamp
		b.api.expireEvents()
		b.mu.Lock()
		b.connect = nil
		b.mu.Unlock()
		after(6 * time.Minute)
		if p := b.api.pod("web"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("status %+v", p.Status)
		}
		if e := pulling(); int(e.Count) <= tries || !e.FirstTimestamp.Equal(&first) {
			t.Errorf("after the event had expired: count %d since %v, want more than %d since %v", e.Count, e.FirstTimestamp, tries, first)
		}
		if got := b.rt.PodSteps("i-0123456789abcdef0", "default", "web"); got != nil {
			t.Errorf("steps %+v", got)
		}
	})
}

func TestImagePullPolicies(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy corev1.PullPolicy
		before bool // the image is there
		down   bool // the registry, when the pod comes
		reason string
		event  string
	}{
		{name: "absent", policy: corev1.PullIfNotPresent, event: `Pulled: Successfully pulled image "quay.io/a/b:1" in 0s (0s including waiting)`},
		{name: "present", policy: corev1.PullIfNotPresent, before: true, down: true, event: `Pulled: Container image "quay.io/a/b:1" already present on machine and can be accessed by the pod`},
		{name: "always asked for", policy: corev1.PullAlways, before: true, event: `Pulled: Successfully pulled image "quay.io/a/b:1" in 0s (0s including waiting)`},
		{name: "always asked for in vain", policy: corev1.PullAlways, before: true, down: true, reason: "ErrImagePull", event: "Failed: Error: ErrImagePull"},
		{name: "never pulled", policy: corev1.PullNever, reason: "ErrImageNeverPull", event: `ErrImageNeverPull: Container image "quay.io/a/b:1" is not present with pull policy of Never`},
		{name: "never pulled and present", policy: corev1.PullNever, before: true, event: `Pulled: Container image "quay.io/a/b:1" already present on machine and can be accessed by the pod`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.launch(b.instance())
				if tc.before {
					b.api.bind(nodeName, withImage("first", "quay.io/a/b:1", corev1.PullIfNotPresent))
				}
				after(time.Second)
				if tc.down {
					b.connect = func(string) error { return errors.New("connection refused") }
				}
				b.api.bind(nodeName, withImage("web", "quay.io/a/b:1", tc.policy))
				after(time.Second)
				if tc.reason == "" {
					if p := b.api.pod("web"); p.Status.Phase != corev1.PodRunning {
						t.Errorf("status %+v", p.Status)
					}
				} else if reason, _ := b.waits("web"); reason != tc.reason {
					t.Errorf("it waits for %s", reason)
				}
				if got := b.said("web"); !slices.Contains(got, tc.event) {
					t.Errorf("events %s", strings.Join(got, "\n"))
				}
			})
		})
	}
}
