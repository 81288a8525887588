// Package fargatesizes lists the combinations of vCPU and memory that Fargate offers for pods, and chooses the one
// for a pod. It is pure; any package may import it.
package fargatesizes

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A Size is a combination of vCPU and memory: what a pod gets and is billed for.
type Size struct {
	MilliCPU  int64
	MemoryMiB int64
}

// String returns the size as in the annotation CapacityProvisioned: "0.25vCPU 0.5GB".
func (s Size) String() string {
	return number(float64(s.MilliCPU)/1000) + "vCPU " + number(float64(s.MemoryMiB)/1024) + "GB"
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// overheadMiB is what Fargate adds to a pod's memory for the kubelet, kube-proxy and
// containerd.
const overheadMiB = 256

// A row lists the memory sizes for a number of vCPUs: from the smallest to the largest, in steps.
type row struct{ milliCPU, least, most, step int64 }

// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-configuration.html#fargate-cpu-and-memory
var table = []row{
	{250, 512, 512, 512}, {250, 1024, 2048, 1024}, // 0.5, 1 and 2 GB
	{500, 1 << 10, 4 << 10, 1 << 10},
	{1000, 2 << 10, 8 << 10, 1 << 10},
	{2000, 4 << 10, 16 << 10, 1 << 10},
	{4000, 8 << 10, 30 << 10, 1 << 10},
	{8000, 16 << 10, 60 << 10, 4 << 10},
	{16000, 32 << 10, 120 << 10, 8 << 10},
}

// All returns every combination, smallest first.
func All() []Size {
	var out []Size
	for _, r := range table {
		for m := r.least; m <= r.most; m += r.step {
			out = append(out, Size{r.milliCPU, m})
		}
	}
	return out
}

// Largest returns the largest combination.
func Largest() Size { last := table[len(table)-1]; return Size{last.milliCPU, last.most} }

// For returns the combination for a pod. It is based on what its containers request together or what any init
// container requests, whichever is larger, plus the overhead, rounded up. It returns false if the pod requests more
// than the largest combination.
//
// Init containers that keep running count as the Kubernetes scheduler counts them: together with the long-running
// containers, and together with the init containers after them.
func For(spec *corev1.PodSpec) (Size, bool) {
	cpu, memory := requests(spec, corev1.ResourceCPU), requests(spec, corev1.ResourceMemory)
	const mib = 1 << 20
	if cpu.CmpInt64(Largest().MilliCPU/1000) > 0 || memory.CmpInt64(Largest().MemoryMiB*mib) > 0 { // before it overflows an integer
		return Size{}, false
	}
	milli := cpu.MilliValue()
	need := (memory.Value()+mib-1)/mib + overheadMiB
	for _, r := range table {
		if r.milliCPU < milli || r.most < need {
			continue
		}
		m := r.least
		if need > m {
			m += (need - r.least + r.step - 1) / r.step * r.step
		}
		return Size{r.milliCPU, m}, true
	}
	return Size{}, false
}

// Ephemeral storage in GiB: what every pod gets, and the maximum that a pod may request.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-configuration.html#fargate-storage
const (
	leastDisk   = 20
	mostStorage = 175
)

// DiskGiB returns the disk size for a pod: what its containers request, a tenth of that, and 5 GiB. It returns false
// if the pod requests more than the maximum.
// https://aws.amazon.com/blogs/containers/amazon-eks-fargate-adds-support-for-larger-ephemeral-volumes/
func DiskGiB(spec *corev1.PodSpec) (int, bool) {
	const gib = 1 << 30
	want := requests(spec, corev1.ResourceEphemeralStorage)
	if want.CmpInt64(mostStorage*gib) > 0 {
		return 0, false
	}
	asked := int((want.Value() + gib - 1) / gib)
	return max(leastDisk, asked+(asked+9)/10+5), true
}

func requests(spec *corev1.PodSpec, name corev1.ResourceName) resource.Quantity {
	var running, sidecars, most resource.Quantity
	for i := range spec.Containers {
		running.Add(spec.Containers[i].Resources.Requests[name])
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		want := c.Resources.Requests[name].DeepCopy()
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars.Add(want)
			want = sidecars.DeepCopy()
		} else {
			want.Add(sidecars)
		}
		if want.Cmp(most) > 0 {
			most = want
		}
	}
	running.Add(sidecars)
	if most.Cmp(running) > 0 {
		return most
	}
	return running
}
