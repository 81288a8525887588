package karpenter

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/catalog/prices"
)

const (
	labelZoneID = "topology.k8s.aws/zone-id"
	// maxPods is the most pods that EKS Auto Mode allows on a node. Nodes get prefixes of 16 addresses, so even small
	// ones have enough.
	// https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html
	maxPods = 110
	// memoryOverhead is the share of a machine's memory that its kernel does not report. Karpenter's AWS provider assumes
	// the same until it has seen a node of a type.
	memoryOverhead = 0.075
)

// instanceLabels are the suffixes of the labels eks.amazonaws.com/instance-….
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
func instanceLabels() []string {
	return []string{
		"hypervisor", "encryption-in-transit-supported", "category", "generation", "family", "size", "cpu", "cpu-manufacturer",
		"cpu-sustained-clock-speed-mhz", "memory", "ebs-bandwidth", "network-bandwidth", "gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory",
		"local-nvme", "capability-flex",
	}
}

func wellKnownLabels() sets.Set[string] {
	out := sets.New(labelCompute, labelZoneID, labelNodeClass)
	for _, l := range instanceLabels() {
		out.Insert(group + "/instance-" + l)
	}
	return out
}

// families returns the families that EKS Auto Mode launches.
// https://docs.aws.amazon.com/eks/latest/userguide/automode-learn-instances.html
func families() sets.Set[string] {
	return sets.New(strings.Fields(`c8id c8i c8i-flex c8gd c8gn c8g c8a c8gb c7a c7g c7gn c7gd c7i c7i-flex c6a c6g c6i c6gn c6id c6in c6gd c5 c5a c5d c5ad c5n c4
		m8id m8i m8i-flex m8a m8azn m8gn m8gb m8gd m8g m7i m7a m7g m7gd m7i-flex m6a m6i m6in m6g m6idn m6id m6gd m5 m5a m5ad m5n m5dn m5d m5zn m4
		r8id r8i r8i-flex r8gn r8gb r8gd r8g r8a r7a r7iz r7gd r7i r7g r6a r6i r6id r6in r6idn r6g r6gd r5 r5n r5a r5dn r5b r5ad r5d r4
		t4g t3 t3a t2 z1d x8aedz x8g x8i x2gd i8ge i7i i8g i7ie i4g i4i i3 i3en is4gen d3 d3en im4gn
		p6-b200 p6-b300 p5 p5e p5en p4d p4de p3dn g7e g6 gr6 g6e g5g g5 g4dn g4ad inf2 inf1 trn1 trn1n trn2 hpc8a x2iezn x2iedn x2idn`)...)
}

// A kind is an instance type that EKS Auto Mode launches.
type kind struct {
	name, arch     string
	labels         map[string]string // without the prefix eks.amazonaws.com/instance-
	memoryMiB      int64
	vcpu           int
	capacity       corev1.ResourceList
	overhead       *cloudprovider.InstanceTypeOverhead
	localStorageGB int64
}

// kinds returns all of them, by name.
var kinds = sync.OnceValue(func() map[string]*kind {
	known := families()
	out := map[string]*kind{}
	for _, info := range instancetypes.All() {
		name := string(info.InstanceType)
		family, size, _ := strings.Cut(name, ".")
		t, ok := instancetypes.Lookup(name)
		if !ok || !known.Has(family) || t.VCPU <= 1 || t.BareMetal || slices.Contains([]string{"nano", "micro", "small"}, size) {
			continue
		}
		k := newKind(info, t)
		if k.arch != "" {
			out[name] = k
		}
	}
	return out
})

func newKind(info *ec2types.InstanceTypeInfo, t instancetypes.Type) *kind {
	family, size, _ := strings.Cut(t.Name, ".")
	k := &kind{name: t.Name, memoryMiB: t.MemoryMiB, vcpu: t.VCPU}
	switch {
	case slices.Contains(t.Architectures, "x86_64"):
		k.arch = karpv1.ArchitectureAmd64
	case slices.Contains(t.Architectures, "arm64"):
		k.arch = karpv1.ArchitectureArm64
	}
	digit := strings.IndexFunc(family, unicode.IsDigit)
	generation := family[digit:]
	if i := strings.IndexFunc(generation, func(r rune) bool { return !unicode.IsDigit(r) }); i >= 0 {
		generation = generation[:i]
	}
	k.labels = map[string]string{
		"category": family[:digit], "generation": generation, "family": family, "size": size,
		"cpu": strconv.Itoa(t.VCPU), "memory": strconv.FormatInt(t.MemoryMiB, 10),
		"hypervisor": string(info.Hypervisor), "capability-flex": strconv.FormatBool(strings.HasSuffix(family, "-flex")),
		"encryption-in-transit-supported": "false",
	}
	if p := info.ProcessorInfo; p != nil {
		if m := aws.ToString(p.Manufacturer); m != "" {
			k.labels["cpu-manufacturer"] = strings.ToLower(strings.Fields(m)[0])
			if strings.HasPrefix(m, "Amazon") {
				k.labels["cpu-manufacturer"] = "aws"
			}
		}
		if p.SustainedClockSpeedInGhz != nil {
			k.labels["cpu-sustained-clock-speed-mhz"] = strconv.Itoa(int(*p.SustainedClockSpeedInGhz*1000 + .5))
		}
	}
	if n := info.NetworkInfo; n != nil {
		k.labels["encryption-in-transit-supported"] = strconv.FormatBool(aws.ToBool(n.EncryptionInTransitSupported))
		if len(n.NetworkCards) > 0 && n.NetworkCards[0].BaselineBandwidthInGbps != nil {
			k.labels["network-bandwidth"] = strconv.Itoa(int(*n.NetworkCards[0].BaselineBandwidthInGbps * 1000))
		}
	}
	if e := info.EbsInfo; e != nil && e.EbsOptimizedInfo != nil && e.EbsOptimizedInfo.MaximumBandwidthInMbps != nil {
		k.labels["ebs-bandwidth"] = strconv.Itoa(int(*e.EbsOptimizedInfo.MaximumBandwidthInMbps))
	}
	if s := info.InstanceStorageInfo; s != nil && s.NvmeSupport != ec2types.EphemeralNvmeSupportUnsupported && s.TotalSizeInGB != nil {
		k.localStorageGB = *s.TotalSizeInGB
		k.labels["local-nvme"] = strconv.FormatInt(k.localStorageGB, 10)
	}
	k.capacity = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(t.VCPU), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(float64(t.MemoryMiB<<20)*(1-memoryOverhead)), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	if g := info.GpuInfo; g != nil && len(g.Gpus) > 0 {
		gpu := g.Gpus[0]
		k.labels["gpu-name"] = strings.ToLower(strings.ReplaceAll(aws.ToString(gpu.Name), " ", "-"))
		k.labels["gpu-manufacturer"] = strings.ToLower(aws.ToString(gpu.Manufacturer))
		k.labels["gpu-count"] = strconv.Itoa(t.GPUs)
		if gpu.MemoryInfo != nil && gpu.MemoryInfo.SizeInMiB != nil {
			k.labels["gpu-memory"] = strconv.Itoa(int(*gpu.MemoryInfo.SizeInMiB))
		}
	}
	k.overhead = &cloudprovider.InstanceTypeOverhead{
		KubeReserved: corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewMilliQuantity(reservedMilliCPU(t.VCPU), resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity((11*maxPods+255)<<20, resource.BinarySI),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Gi"),
		},
		EvictionThreshold: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")},
	}
	return k
}

// reservedMilliCPU reserves 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of the rest, as
// Bottlerocket does.
func reservedMilliCPU(vcpu int) int64 {
	out := int64(60)
	for core := 2; core <= vcpu; core++ {
		switch {
		case core == 2:
			out += 10
		case core <= 4:
			out += 5
		}
	}
	return out + int64(max(vcpu-4, 0))*5/2
}

// A pool is what can run out of capacity.
type pool struct {
	kind, zone string
	spot       bool
}

// instanceType returns a type as Karpenter sees it, in the zones of a NodeClass. exhausted tells the pools that have had
// no capacity recently.
func (k *kind) instanceType(region string, nc *NodeClass, exhausted func(pool) bool) *cloudprovider.InstanceType {
	zones, ids := sets.New[string](), map[string]string{}
	for _, s := range nc.Status.Subnets {
		zones.Insert(s.Zone)
		ids[s.Zone] = s.ZoneID
	}
	in := func(key string, values ...string) *scheduling.Requirement {
		if len(values) == 0 {
			return scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist)
		}
		return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
	}
	var offerings cloudprovider.Offerings
	capacityTypes, zoneIDs := sets.New[string](), sets.New[string]()
	for _, zone := range sets.List(zones) {
		for capacityType, price := range map[string]func() (float64, bool){
			karpv1.CapacityTypeOnDemand: func() (float64, bool) { return prices.OnDemand(region, k.name) },
			karpv1.CapacityTypeSpot:     func() (float64, bool) { return prices.Spot(region, zone, k.name) },
		} {
			usd, ok := price()
			if !ok {
				continue
			}
			capacityTypes.Insert(capacityType)
			zoneIDs.Insert(ids[zone])
			offerings = append(offerings, &cloudprovider.Offering{
				Requirements: scheduling.NewRequirements(in(karpv1.CapacityTypeLabelKey, capacityType), in(corev1.LabelTopologyZone, zone), in(labelZoneID, ids[zone])),
				Price:        usd, Available: !exhausted(pool{k.name, zone, capacityType == karpv1.CapacityTypeSpot}),
			})
		}
	}
	requirements := scheduling.NewRequirements(
		in(corev1.LabelInstanceTypeStable, k.name), in(corev1.LabelArchStable, k.arch), in(corev1.LabelOSStable, string(corev1.Linux)),
		in(corev1.LabelTopologyZone, sets.List(zones)...), in(corev1.LabelTopologyRegion, region), in(labelZoneID, sets.List(zoneIDs)...),
		in(karpv1.CapacityTypeLabelKey, sets.List(capacityTypes)...), in(corev1.LabelWindowsBuild),
		in(labelCompute, "auto"), in(labelNodeClass, nc.Name),
	)
	for _, l := range instanceLabels() {
		if v, ok := k.labels[l]; ok && v != "" {
			requirements.Add(in(group+"/instance-"+l, v))
		} else {
			requirements.Add(in(group + "/instance-" + l))
		}
	}
	capacity := k.capacity.DeepCopy()
	capacity[corev1.ResourceEphemeralStorage] = ephemeralStorage(nc)
	return &cloudprovider.InstanceType{Name: k.name, Requirements: requirements, Offerings: offerings, Capacity: capacity, Overhead: k.overhead}
}

// ephemeralStorage returns the size of a NodeClass's data volumes.
func ephemeralStorage(nc *NodeClass) resource.Quantity {
	if s := nc.Spec.EphemeralStorage; s != nil && s.Size != "" {
		if q, err := resource.ParseQuantity(s.Size); err == nil {
			return q
		}
	}
	return resource.MustParse("80Gi")
}
