// Package fargatesizes knows the combinations of vCPU and memory that Fargate has for
// pods, and which of them a pod gets. It is pure; any package may import it.
package fargatesizes

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A Size is a combination: what a pod is given, and what it costs.
type Size struct {
	MilliCPU  int64
	MemoryMiB int64
}

// String is the size as the annotation CapacityProvisioned tells it: "0.25vCPU 0.5GB".
func (s Size) String() string {
	return number(float64(s.MilliCPU)/1000) + "vCPU " + number(float64(s.MemoryMiB)/1024) + "GB"
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// overheadMiB is what Fargate adds to a pod's memory for the kubelet, kube-proxy and
// containerd.
const overheadMiB = 256

// A row is the memory that goes with a number of vCPUs: from least to most in steps.
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

// Largest is the greatest combination.
func Largest() Size { last := table[len(table)-1]; return Size{last.milliCPU, last.most} }

// For returns the combination for a pod: of the larger of what its containers request
// together and what any init container does, and the overhead, rounded up. False: it
// wants more than there is.
//
// Init containers that go on running count with both: with the long-running ones, and
// with the init containers after them, as the Kubernetes scheduler counts them.
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

// Ephemeral storage, in GiB: what every pod gets, and the most that one may request.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-configuration.html#fargate-storage
const (
	leastDisk   = 20
	mostStorage = 175
)

// DiskGiB is the disk for a pod: what its containers request, a tenth of that, and 5 GiB.
// False: it requests more than there is.
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
