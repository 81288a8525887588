package simulated

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

func instanceOf(vcpu int, mib int64, enis, ips int) machine.Instance {
	return machine.Instance{Type: instancetypes.Type{VCPU: vcpu, MemoryMiB: mib, ENIs: enis, IPv4PerENI: ips}, DiskGiB: 20}
}

// Max pods as in eni-max-pods.txt, CPU as on nodes of these types, memory by
// nodeadm's formula from the memory that the kernel reports.
// https://github.com/awslabs/amazon-eks-ami/blob/main/templates/shared/runtime/eni-max-pods.txt
func TestSizesOfInstanceTypes(t *testing.T) {
	for _, tc := range []struct {
		name     string
		in       machine.Instance
		pods     int32
		cpu      string
		reserved int64 // MiB, eviction threshold included
	}{
		{"t3.small", instanceOf(2, 2048, 3, 4), 11, "1930m", 255 + 11*11 + 100},
		{"t3.medium", instanceOf(2, 4096, 3, 6), 17, "1930m", 255 + 11*17 + 100},
		{"m5.large", instanceOf(2, 8192, 3, 10), 29, "1930m", 255 + 11*29 + 100},
		{"m5.xlarge", instanceOf(4, 16384, 4, 15), 58, "3920m", 255 + 11*58 + 100},
		{"m5.2xlarge", instanceOf(8, 32768, 4, 15), 58, "7910m", 255 + 11*58 + 100},
		{"m5.4xlarge", instanceOf(16, 65536, 8, 30), 234, "15890m", 255 + 11*234 + 100},
		{"m5.24xlarge", instanceOf(96, 393216, 15, 50), 737, "95690m", 255 + 11*737 + 100},
		{"a type nobody knows", instanceOf(1, 1024, 0, 0), 110, "940m", 921}, // all it has: 1565 MiB should be
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := measure(tc.in, &userdata.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if got.maxPods != tc.pods {
				t.Errorf("max pods %d, want %d", got.maxPods, tc.pods)
			}
			if cpu := got.allocatable[corev1.ResourceCPU]; cpu.String() != tc.cpu {
				t.Errorf("allocatable CPU %s, want %s", cpu.String(), tc.cpu)
			}
			memory, left := got.capacity[corev1.ResourceMemory], got.allocatable[corev1.ResourceMemory]
			if kept := (memory.Value() - left.Value()) >> 20; kept != tc.reserved {
				t.Errorf("%d MiB reserved, want %d", kept, tc.reserved)
			}
			if memory.Value() >= tc.in.Type.MemoryMiB<<20 {
				t.Errorf("all of the memory is left to the kernel's guests")
			}
			disk := got.allocatable[corev1.ResourceEphemeralStorage]
			if got, want := disk.Value(), int64(18242267956); got != want { // nodes say 18242267924
				t.Errorf("%d bytes of disk, want %d", got, want)
			}
		})
	}
}

// Measured by Karpenter's authors on AL2: see memoryBytes.
func TestMemoryIsAsMeasured(t *testing.T) {
	for _, m := range []struct {
		typ       string
		mib, kept int64 // in bytes
	}{
		{"t3.nano", 512, 92966912}, {"t3.micro", 1024, 108433408}, {"t3.small", 2048, 137269248}, {"t3a.small", 2048, 130977792},
		{"t3.medium", 4096, 264945664}, {"c6i.large", 4096, 285917184}, {"m6i.large", 8192, 424321024}, {"t3.large", 8192, 382386176},
		{"m6i.xlarge", 16384, 703729664}, {"m5n.2xlarge", 32768, 1203826688}, {"m6i.4xlarge", 65536, 2380177408}, {"r5.4xlarge", 131072, 3923714048},
		{"m6i.24xlarge", 393216, 12969508864}, {"m5.24xlarge", 393216, 11086274560},
	} {
		got, want := memoryBytes(m.mib), m.mib<<20-m.kept
		if off := float64(got-want) / float64(m.mib<<20); off > 0.01 || off < -0.01 {
			t.Errorf("%s reports %d MiB, %d measured: %.1f %% of its memory apart", m.typ, got>>20, want>>20, 100*off)
		}
	}
}

func TestSizesThatUserDataChanges(t *testing.T) {
	in := instanceOf(2, 8192, 3, 10) // m5.large
	for _, tc := range []struct {
		name string
		cfg  userdata.Config
		pods int32
		kept [2]int64 // millicores and MiB not allocatable
	}{
		{"nothing", userdata.Config{}, 29, [2]int64{70, 255 + 11*29 + 100}},
		// nodeadm reserves for its own number of pods, whatever the kubelet is told.
		{"maxPods", userdata.Config{MaxPods: 110}, 110, [2]int64{70, 255 + 11*29 + 100}},
		{"max-pods of Bottlerocket", userdata.Config{MaxPods: 110, ReservedForPods: 110}, 110, [2]int64{70, 255 + 11*110 + 100}},
		{"podsPerCore", userdata.Config{PodsPerCore: 5}, 10, [2]int64{70, 255 + 11*29 + 100}},
		{"expression", userdata.Config{MaxPodsExpression: "(default_enis - 1) * (ips_per_eni - 1) + 2"}, 20, [2]int64{70, 255 + 11*20 + 100}},
		{"prefixes", userdata.Config{MaxPodsExpression: "min([110, max_pods * 16])"}, 29, [2]int64{70, 255 + 11*29 + 100}}, // CEL has no min here
		{"expression of no sense", userdata.Config{MaxPodsExpression: "'a'"}, 29, [2]int64{70, 255 + 11*29 + 100}},
		{"expression without end", userdata.Config{MaxPodsExpression: "[1,2,3,4,5,6,7,8,9,10].map(a,[1,2,3,4,5,6,7,8,9,10].map(b,[1,2,3,4,5,6,7,8,9,10].map(c,[1,2,3,4,5,6,7,8,9,10].map(d,[1,2,3,4,5,6,7,8,9,10].map(e,1))))).size()"}, 29, [2]int64{70, 255 + 11*29 + 100}},
		{"reservations", userdata.Config{
			KubeReserved: map[string]string{"cpu": "200m"}, SystemReserved: map[string]string{"cpu": "100m", "memory": "500Mi"},
			EvictionHard: map[string]string{"memory.available": "200Mi"},
		}, 29, [2]int64{300, 255 + 11*29 + 500 + 200}},
		{"eviction by share", userdata.Config{EvictionHard: map[string]string{"memory.available": "50%"}}, 29, [2]int64{70, 255 + 11*29 + 7786/2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := measure(in, &tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got.maxPods != tc.pods {
				t.Errorf("max pods %d, want %d", got.maxPods, tc.pods)
			}
			cpu, acpu := got.capacity[corev1.ResourceCPU], got.allocatable[corev1.ResourceCPU]
			mem, amem := got.capacity[corev1.ResourceMemory], got.allocatable[corev1.ResourceMemory]
			kept := [2]int64{cpu.MilliValue() - acpu.MilliValue(), (mem.Value() - amem.Value()) >> 20}
			if diff := cmp.Diff(tc.kept, kept); diff != "" {
				t.Errorf("kept back: %s", diff)
			}
		})
	}
	for name, cfg := range map[string]userdata.Config{
		"no quantity":     {KubeReserved: map[string]string{"cpu": "much"}},
		"less than none":  {SystemReserved: map[string]string{"memory": "-1Gi"}},
		"no share":        {EvictionHard: map[string]string{"nodefs.available": "x%"}},
		"more than whole": {EvictionHard: map[string]string{"nodefs.available": "101%"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := measure(in, &cfg); err == nil {
				t.Error("no error")
			}
		})
	}
}
