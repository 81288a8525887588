package kube_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/kube"
)

func TestReady(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status corev1.ConditionStatus
		want   bool
	}{
		{"ready", corev1.ConditionTrue, true},
		{"not ready", corev1.ConditionFalse, false},
		{"not heard of", corev1.ConditionUnknown, false},
		{"without a condition", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, p := &corev1.Node{}, &corev1.Pod{}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
			if tt.status != "" {
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: tt.status})
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: tt.status})
			}
			if node, pod := kube.NodeReady(n), kube.PodReady(p); node != tt.want || pod != tt.want {
				t.Errorf("node %t, pod %t, want %t", node, pod, tt.want)
			}
		})
	}
}

func TestInstanceID(t *testing.T) {
	for providerID, want := range map[string]string{
		"aws:///us-east-1a/i-0123": "i-0123", "aws:///us-east-1a/0a-1b/fargate-ip-10-0-0-1": "fargate-ip-10-0-0-1", "i-0123": "i-0123", "": "",
	} {
		if got := kube.InstanceID(providerID); got != want {
			t.Errorf("InstanceID(%q) = %q, want %q", providerID, got, want)
		}
	}
}
