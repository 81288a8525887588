package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func configKey(name, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}
}

func secretKey(name, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}
}

func amount(name string, divisor string) *corev1.EnvVarSource {
	r := &corev1.ResourceFieldSelector{Resource: name}
	if divisor != "" {
		r.Divisor = resource.MustParse(divisor)
	}
	return &corev1.EnvVarSource{ResourceFieldRef: r}
}

// environment returns the environment of a container with these variables.
func environment(env ...corev1.EnvVar) *Environment {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u-1", Labels: map[string]string{"app": "web", "tier": "front"}, Annotations: map[string]string{"a/b": "x"}},
		Spec: corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "cart", Containers: []corev1.Container{{
			Name: "app", Env: env,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("1000Ki")},
				Limits:   corev1.ResourceList{"cpu": resource.MustParse("1500m")},
			},
		}}},
		Status: corev1.PodStatus{HostIP: "10.0.0.1", PodIP: "10.0.0.9", PodIPs: []corev1.PodIP{{IP: "10.0.0.9"}, {IP: "fd00::9"}}},
	}
	return &Environment{
		Pod: pod, Container: &pod.Spec.Containers[0],
		Node: &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"memory": resource.MustParse("2Gi")}}},
		ConfigMap: func(name string) (*corev1.ConfigMap, error) {
			if name != "settings" {
				return nil, nil
			}
			return &corev1.ConfigMap{Data: map[string]string{"color": "blue", "size": "$(HOME)"}}, nil
		},
		Secret: func(name string) (*corev1.Secret, error) {
			if name != "keys" {
				return nil, nil
			}
			return &corev1.Secret{Data: map[string][]byte{"api": []byte("s3cr3t")}}, nil
		},
	}
}

func TestVariables(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  corev1.EnvVar
		want string
	}{
		{"a value", corev1.EnvVar{Name: "V", Value: "x"}, "x"},
		{"an earlier variable", corev1.EnvVar{Name: "V", Value: "$(FIRST)/b"}, "a/b"},
		{"a later or unknown variable", corev1.EnvVar{Name: "V", Value: "$(LATER)"}, "$(LATER)"},
		{"an escaped variable", corev1.EnvVar{Name: "V", Value: "$$(FIRST)"}, "$(FIRST)"},
		{"no variable", corev1.EnvVar{Name: "V", Value: "$(FIRST $5 $"}, "$(FIRST $5 $"},
		{"its name", corev1.EnvVar{Name: "V", ValueFrom: field("metadata.name")}, "web"},
		{"its namespace", corev1.EnvVar{Name: "V", ValueFrom: field("metadata.namespace")}, "shop"},
		{"its UID", corev1.EnvVar{Name: "V", ValueFrom: field("metadata.uid")}, "u-1"},
		{"a label", corev1.EnvVar{Name: "V", ValueFrom: field("metadata.labels['app']")}, "web"},
		{"an annotation", corev1.EnvVar{Name: "V", ValueFrom: field("metadata.annotations['a/b']")}, "x"},
		{"all labels", corev1.EnvVar{Name: "V", ValueFrom: field("metadata.labels")}, "app=\"web\"\ntier=\"front\""},
		{"its node", corev1.EnvVar{Name: "V", ValueFrom: field("spec.nodeName")}, "node-1"},
		{"its service account", corev1.EnvVar{Name: "V", ValueFrom: field("spec.serviceAccountName")}, "cart"},
		{"its node's address", corev1.EnvVar{Name: "V", ValueFrom: field("status.hostIP")}, "10.0.0.1"},
		{"its addresses", corev1.EnvVar{Name: "V", ValueFrom: field("status.podIPs")}, "10.0.0.9,fd00::9"},
		{"a key of a ConfigMap, not expanded", corev1.EnvVar{Name: "V", ValueFrom: configKey("settings", "size", false)}, "$(HOME)"},
		{"a key of a Secret", corev1.EnvVar{Name: "V", ValueFrom: secretKey("keys", "api", false)}, "s3cr3t"},
		{"a CPU limit in whole CPUs", corev1.EnvVar{Name: "V", ValueFrom: amount("limits.cpu", "")}, "2"},
		{"a CPU request in thousandths", corev1.EnvVar{Name: "V", ValueFrom: amount("requests.cpu", "1m")}, "250"},
		{"a memory request in MiB", corev1.EnvVar{Name: "V", ValueFrom: amount("requests.memory", "1Mi")}, "1"},
		{"a limit that is the node's", corev1.EnvVar{Name: "V", ValueFrom: amount("limits.memory", "1Mi")}, "2048"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := environment(corev1.EnvVar{Name: "FIRST", Value: "a"}, tt.env, corev1.EnvVar{Name: "LATER", Value: "z"}).Variables()
			if err != nil || got["V"] != tt.want {
				t.Errorf("V = %q, want %q (%v)", got["V"], tt.want, err)
			}
		})
	}
}

// Env takes precedence over envFrom, and missing optional references are not set.
func TestVariablesOfWholeObjects(t *testing.T) {
	optional := true
	e := environment(corev1.EnvVar{Name: "color", Value: "red"}, corev1.EnvVar{Name: "GONE", ValueFrom: configKey("none", "x", true)}, corev1.EnvVar{Name: "LOST", ValueFrom: secretKey("keys", "x", true)})
	e.Container.EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
		{Prefix: "K_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: &optional}},
	}
	got, err := e.Variables()
	if diff := cmp.Diff(map[string]string{"color": "red", "size": "$(HOME)", "K_api": "s3cr3t"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestVariablesThatCannotBe(t *testing.T) {
	for want, from := range map[string]*corev1.EnvVarSource{
		"there is no key x in ConfigMap none":  configKey("none", "x", false),
		"there is no key x in Secret keys":     secretKey("keys", "x", false),
		"there is no field metadata.finalizer": field("metadata.finalizer"),
		"there is no field spec.labels['x']":   field("spec.labels['x']"),
		"only fieldRef":                        {},
	} {
		_, err := environment(corev1.EnvVar{Name: "V", ValueFrom: from}).Variables()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "variable V of container app") {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
	e := environment()
	e.Container.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}}}
	if _, err := e.Variables(); err == nil || !strings.Contains(err.Error(), "there is no Secret none") {
		t.Errorf("error = %v", err)
	}
}
