package simulated

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drydock-dev/drydock/internal/catalog/fargatesizes"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
)

// Whatever combination a pod requests fits on the machine that it gets.
func TestFargateMachinesHoldTheirPod(t *testing.T) {
	for _, s := range fargatesizes.All() {
		in := machine.Instance{Fargate: true}
		in.Type.VCPU, in.Type.MemoryMiB = fargate.Capacity(s)
		got, err := measure(in, fargateConfig(&node.Fargate{}))
		if err != nil {
			t.Fatal(err)
		}
		cpu, memory := resource.NewMilliQuantity(s.MilliCPU, resource.DecimalSI), resource.NewQuantity((s.MemoryMiB-256)<<20, resource.BinarySI)
		if has := got.allocatable; has.Cpu().Cmp(*cpu) < 0 || has.Memory().Cmp(*memory) < 0 || has.Pods().Value() != 1 {
			t.Errorf("%s: allocatable %v", s, has)
		}
		if disk := got.allocatable[corev1.ResourceEphemeralStorage]; disk.CmpInt64(15<<30) < 0 {
			t.Errorf("ephemeral storage %s", disk.String())
		}
	}
}

// So does the ephemeral storage that it requests.
func TestFargateDisksHoldWhatIsRequested(t *testing.T) {
	for gib := int64(0); gib <= 175; gib++ {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceEphemeralStorage: *resource.NewQuantity(gib<<30, resource.BinarySI)},
		}}}}
		disk, _ := fargatesizes.DiskGiB(&spec)
		got, err := measure(machine.Instance{Fargate: true, Type: instancetypes.Type{VCPU: 2, MemoryMiB: 4096}, DiskGiB: int32(disk)}, fargateConfig(&node.Fargate{}))
		if err != nil {
			t.Fatal(err)
		}
		if left := got.allocatable[corev1.ResourceEphemeralStorage]; left.CmpInt64(gib<<30) < 0 {
			t.Fatalf("%d GiB requested, a disk of %d: allocatable %s", gib, disk, left.String())
		}
	}
}
