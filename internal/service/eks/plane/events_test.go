package plane

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// Retries record what failed once and repeat it before the API server forgets it. An event that could not be created is not lost.
func TestEventsDropRepetitions(t *testing.T) {
	cs, now := fake.NewClientset(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := Events{Session: &Session{Client: cs, all: &Sessions{cfg: Config{Log: testlog.New(t)}}}, Now: func() time.Time { return now }}
	ref := corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "data", UID: "1"}
	try := func(why string) {
		e.Begin(t.Context(), ref, "Provisioning", "provisioning", "ProvisioningFailed")
		e.Record(t.Context(), ref, corev1.EventTypeWarning, "ProvisioningFailed", why)
	}
	var got []string
	wants := func(want ...string) {
		t.Helper()
		all, err := cs.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, ev := range all.Items {
			got = append(got, ev.Reason)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	broken := true
	cs.PrependReactor("create", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
		return broken, nil, errors.New("the API server does not answer")
	})
	try("denied 1")
	wants()
	broken = false
	try("denied 2")
	wants("Provisioning", "ProvisioningFailed")
	now = now.Add(warningRepeated - time.Second)
	try("denied 3")
	wants("Provisioning", "ProvisioningFailed")
	now = now.Add(time.Second)
	try("denied 4")
	wants("Provisioning", "ProvisioningFailed", "ProvisioningFailed")
	try("another reason")
	wants("Provisioning", "ProvisioningFailed", "ProvisioningFailed", "ProvisioningFailed")
	for range 2 {
		e.Record(t.Context(), ref, corev1.EventTypeNormal, "ProvisioningSucceeded", "done")
		now = now.Add(time.Hour)
	}
	wants("Provisioning", "ProvisioningFailed", "ProvisioningFailed", "ProvisioningFailed", "ProvisioningSucceeded")
}
