package fargatesizes_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drydock-dev/drydock/internal/catalog/fargatesizes"
)

type want struct{ cpu, memory string }

func container(w want, sidecar bool) corev1.Container {
	c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	if w.cpu != "" {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(w.cpu)
	}
	if w.memory != "" {
		c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse(w.memory)
	}
	if sidecar {
		always := corev1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
	}
	return c
}

// The rule and the example of 1 vCPU and 8 GB are those of
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-configuration.html
func TestFor(t *testing.T) {
	for _, tc := range []struct {
		name            string
		apps            []want
		inits, sidecars []want
		size            string
	}{
		{name: "nothing requested", apps: []want{{}}, size: "0.25vCPU 0.5GB"},
		{name: "the overhead just fits", apps: []want{{"250m", "256Mi"}}, size: "0.25vCPU 0.5GB"},
		{name: "the overhead does not fit", apps: []want{{"250m", "257Mi"}}, size: "0.25vCPU 1GB"},
		{name: "a byte more", apps: []want{{"250m", "268435457"}}, size: "0.25vCPU 1GB"},
		{name: "a millicore more", apps: []want{{"251m", ""}}, size: "0.5vCPU 1GB"},
		{name: "two gigabytes in a quarter", apps: []want{{"", "1792Mi"}}, size: "0.25vCPU 2GB"},
		{name: "memory asks for a greater vCPU", apps: []want{{"", "2Gi"}}, size: "0.5vCPU 3GB"},
		{name: "AWS's example", apps: []want{{"1", "8Gi"}}, size: "2vCPU 9GB"},
		{name: "the workshop's example", apps: []want{{"1", "2.5G"}}, size: "1vCPU 3GB"},
		{name: "containers add up", apps: []want{{"500m", "512Mi"}, {"600m", "512Mi"}}, size: "2vCPU 4GB"},
		{name: "the largest init container", apps: []want{{"250m", "256Mi"}}, inits: []want{{"1", "1Gi"}, {"2", "128Mi"}}, size: "2vCPU 4GB"},
		{name: "init containers do not add up", apps: []want{{"1", "1Gi"}}, inits: []want{{"1", "1Gi"}, {"1", "1Gi"}}, size: "1vCPU 2GB"},
		{name: "sidecars run on", apps: []want{{"500m", "512Mi"}}, sidecars: []want{{"500m", "1Gi"}}, size: "1vCPU 2GB"},
		{name: "four in steps of one", apps: []want{{"3", "28000Mi"}}, size: "4vCPU 28GB"},
		{name: "eight in steps of four", apps: []want{{"5", "30Gi"}}, size: "8vCPU 32GB"},
		{name: "sixteen in steps of eight", apps: []want{{"16", "61Gi"}}, size: "16vCPU 64GB"},
		{name: "the largest", apps: []want{{"16", "122624Mi"}}, size: "16vCPU 120GB"},
		{name: "too much memory", apps: []want{{"16", "122625Mi"}}},
		{name: "too many vCPUs", apps: []want{{"16001m", ""}}},
		{name: "absurd", apps: []want{{"1", "8E"}, {"1", "8E"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var spec corev1.PodSpec
			for _, w := range tc.sidecars {
				spec.InitContainers = append(spec.InitContainers, container(w, true))
			}
			for _, w := range tc.inits {
				spec.InitContainers = append(spec.InitContainers, container(w, false))
			}
			for _, w := range tc.apps {
				spec.Containers = append(spec.Containers, container(w, false))
			}
			got, ok := fargatesizes.For(&spec)
			if ok != (tc.size != "") || ok && got.String() != tc.size {
				t.Errorf("For = %s, %t; want %q", got, ok, tc.size)
			}
		})
	}
}

// A pod of exactly a combination's size gets that combination.
func TestAll(t *testing.T) {
	all := fargatesizes.All()
	if first, last := all[0].String(), all[len(all)-1]; first != "0.25vCPU 0.5GB" || last != fargatesizes.Largest() {
		t.Errorf("from %s to %s", first, last)
	}
	for _, s := range all {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(s.MilliCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity((s.MemoryMiB-256)<<20, resource.BinarySI),
		}}}}}
		if got, ok := fargatesizes.For(&spec); !ok || got != s {
			t.Errorf("a pod of %s gets %s, %t", s, got, ok)
		}
	}
}

func TestDiskGiB(t *testing.T) {
	for _, tc := range []struct {
		requests []string
		want     int
		ok       bool
	}{
		{nil, 20, true},
		{[]string{"1Gi"}, 20, true},
		{[]string{"50Gi", "50Gi"}, 115, true}, // AWS's own example
		{[]string{"20500Mi"}, 29, true},
		{[]string{"175Gi"}, 198, true},
		{[]string{"175Gi", "1"}, 0, false},
		{[]string{"9Ei"}, 0, false},
	} {
		var spec corev1.PodSpec
		for _, r := range tc.requests {
			spec.Containers = append(spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(r)},
			}})
		}
		if got, ok := fargatesizes.DiskGiB(&spec); got != tc.want || ok != tc.ok {
			t.Errorf("%v: %d, %t", tc.requests, got, ok)
		}
	}
}
