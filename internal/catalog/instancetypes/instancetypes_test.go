package instancetypes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
)

func TestLookup(t *testing.T) {
	for _, want := range []instancetypes.Type{
		{Name: "t3.medium", VCPU: 2, MemoryMiB: 4096, ENIs: 3, IPv4PerENI: 6, Architectures: []string{"x86_64"}, Burstable: true},
		{Name: "m5.large", VCPU: 2, MemoryMiB: 8192, ENIs: 3, IPv4PerENI: 10, Architectures: []string{"x86_64"}},
		{Name: "m6g.xlarge", VCPU: 4, MemoryMiB: 16384, ENIs: 4, IPv4PerENI: 15, Architectures: []string{"arm64"}},
		{Name: "p4d.24xlarge", VCPU: 96, MemoryMiB: 1179648, ENIs: 15, IPv4PerENI: 50, Architectures: []string{"x86_64"}, GPUs: 8},
	} {
		t.Run(want.Name, func(t *testing.T) {
			got, ok := instancetypes.Lookup(want.Name)
			if !ok {
				t.Fatal("unknown")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, ok := instancetypes.Lookup("m5.gigantic"); ok {
		t.Error("m5.gigantic exists")
	}
}

// The published eni-max-pods.txt of the EKS AMI.
func TestMaxPods(t *testing.T) {
	for name, want := range map[string]int{"t3.micro": 4, "t3.small": 11, "t3.medium": 17, "m5.large": 29, "m5.xlarge": 58, "m5.4xlarge": 234, "c5.18xlarge": 737, "p4d.24xlarge": 737} {
		typ, ok := instancetypes.Lookup(name)
		if !ok || typ.MaxPods() != want {
			t.Errorf("%s: %d pods, want %d", name, typ.MaxPods(), want)
		}
	}
}

func TestEveryTypeDecodes(t *testing.T) {
	all := instancetypes.All()
	if len(all) != 1263 || len(instancetypes.Names()) != len(all) {
		t.Fatalf("%d types, want 1263", len(all))
	}
	for _, i := range all {
		typ, ok := instancetypes.Lookup(string(i.InstanceType))
		if !ok || typ.VCPU == 0 || typ.MemoryMiB == 0 || typ.ENIs == 0 || typ.IPv4PerENI == 0 || len(typ.Architectures) == 0 {
			t.Errorf("%s lacks something every type has: %+v", i.InstanceType, typ)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	for b.Loop() {
		instancetypes.Lookup("m5.large")
	}
}
