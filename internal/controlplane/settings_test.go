package controlplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/fault"
)

// settings returns the settings with which the plane's process was started.
func (w *world) settings(id string) controlplane.Settings {
	w.t.Helper()
	var cfg launch.Config
	if err := json.Unmarshal([]byte(w.get(id, "/config")), &cfg); err != nil {
		w.t.Fatal(err)
	}
	return cfg.Settings
}

func TestConfigureReplacesTheProcess(t *testing.T) {
	w := newWorld(t, nil)
	key := account
	key.Settings = controlplane.Settings{EventTTL: "10m"}
	p := w.claim("arn", key)
	old := w.pid(p.ID)
	if got := w.settings(p.ID); got != key.Settings {
		t.Errorf("a new process has the settings %+v", got)
	}
	to := controlplane.Settings{EventTTL: "20m", NodePorts: "20000-20100"}
	if err := w.Configure(t.Context(), p.ID, to); err != nil {
		t.Fatal(err)
	}
	changed := w.pid(p.ID)
	if got := w.settings(p.ID); got != to || changed == old {
		t.Errorf("settings %+v, the process is the same: %v", got, changed == old)
	}
	if err := w.Configure(t.Context(), p.ID, to); err != nil || w.pid(p.ID) != changed {
		t.Errorf("the repeated change did something: %v", err)
	}

	// A process that never answers does not replace another.
	hang := hangWish(filepath.Join(w.cfg.Dir, p.ID)) + "1.34"
	if err := os.WriteFile(hang, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := w.Configure(ctx, p.ID, controlplane.Settings{}); err == nil {
		t.Error("the settings were changed by a process that never answers")
	}
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	w.ready(p.ID)
	if got := w.settings(p.ID); got != to {
		t.Errorf("after a failure and a restart, the process has the settings %+v", got)
	}
}

// A plane keeps settings that its process has when a fault takes the process down, and does not get others then.
func TestConfigureDuringFaults(t *testing.T) {
	for _, kind := range []fault.Kind{fault.ControlPlane, fault.ExpiredCA} {
		t.Run(string(kind), func(t *testing.T) {
			set := fault.NewSet(fault.Config{})
			w := newWorld(t, func(c *config) { c.Faults = set })
			p := w.claim("arn", account)
			to := controlplane.Settings{EventTTL: "20m"}
			if err := w.Configure(t.Context(), p.ID, to); err != nil {
				t.Fatal(err)
			}
			setFault(set, kind, 0)
			eventually(t, func() error {
				if s, err := w.Status(p.ID); err != nil || !strings.Contains(s.Reason, "fault F-1") {
					return fmt.Errorf("status %+v, %v", s, err)
				}
				return nil
			})
			if err := w.Configure(t.Context(), p.ID, controlplane.Settings{EventTTL: "30m"}); fault.Of(err) == nil {
				t.Errorf("other settings: %v", err)
			}
			if err := w.Configure(t.Context(), p.ID, to); err != nil {
				t.Errorf("the settings that it has: %v", err)
			}
			w.reopen()
			setFault(set, "", 0)
			eventually(t, func() error { return w.WaitReady(t.Context(), p.ID) })
			if got := w.settings(p.ID); got != to {
				t.Errorf("settings %+v", got)
			}
		})
	}
}

// TestSettingsOfKubernetes: the API server and the scheduler do what the settings say.
func TestSettingsOfKubernetes(t *testing.T) {
	w := newKubernetes(t)
	p := w.claim("arn", account)
	client := w.clientset(w.RESTConfig(p.ID))
	service := func(name string) error {
		_, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: 20001}}},
		}, metav1.CreateOptions{})
		return err
	}
	if err := service("before"); err == nil || !strings.Contains(err.Error(), "The range of valid ports is 30000-32767") {
		t.Errorf("a port outside of the range: %v", err)
	}
	for _, name := range []string{"a", "b"} {
		room := corev1.ResourceList{"cpu": resource.MustParse("10"), "memory": resource.MustParse("10Gi"), "pods": resource.MustParse("100")}
		_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: room, Allocatable: room}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := placed(t, client, "spread-1", "spread-2"); got[0] == got[1] {
		t.Errorf("by default, two pods are both on %s", got[0])
	}
	if err := w.Configure(t.Context(), p.ID, controlplane.Settings{
		EventTTL: "10m", NodePorts: "20000-20100", HPASyncPeriod: "10s", Scoring: "MostAllocated", Weights: "cpu=1,memory=1",
	}); err != nil {
		t.Fatal(err)
	}
	if err := service("after"); err != nil {
		t.Error(err)
	}
	if got := placed(t, client, "packed-1", "packed-2", "packed-3"); got[0] != got[1] || got[1] != got[2] {
		t.Errorf("with MostAllocated, pods are on %q", got)
	}
}

var errNotScheduled = errors.New("the pod is on no node")

// placed creates pods one after the other, and returns their nodes.
func placed(t *testing.T, client *kubernetes.Clientset, names ...string) (nodes []string) {
	t.Helper()
	for _, name := range names {
		_, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{Name: "c", Image: "c", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")},
				}}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			pod, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if pod.Spec.NodeName == "" {
				return errNotScheduled
			}
			nodes = append(nodes, pod.Spec.NodeName)
			return nil
		})
	}
	return nodes
}
