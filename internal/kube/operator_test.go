package kube_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/kube"
)

// Controllers of Kubernetes make their pods again. Operators are known by their custom resources, and in a twin by an annotation.
func TestOperated(t *testing.T) {
	owned := func(apiVersion, kind string, controller bool) metav1.ObjectMeta {
		return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "x", Controller: &controller}}}
	}
	for _, tt := range []struct {
		name string
		meta metav1.ObjectMeta
		want string
	}{
		{"a bare pod", metav1.ObjectMeta{}, ""},
		{"a ReplicaSet's", owned("apps/v1", "ReplicaSet", true), ""},
		{"a Job's", owned("batch/v1", "Job", true), ""},
		{"a mirror pod", owned("v1", "Node", true), ""},
		{"an operator's", owned("postgresql.cnpg.io/v1", "Cluster", true), "Cluster x"},
		{"a custom StatefulSet's", owned("apps.kruise.io/v1beta1", "StatefulSet", true), "StatefulSet x"},
		{"an operator's that does not say so", owned("sparkoperator.k8s.io/v1beta2", "SparkApplication", false), "SparkApplication x"},
		{"an operator's in a twin", metav1.ObjectMeta{Annotations: map[string]string{kube.AnnotationController: "Cluster db"}}, "Cluster db"},
	} {
		if got := kube.Operated(&corev1.Pod{ObjectMeta: tt.meta}); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
