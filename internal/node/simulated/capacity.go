package simulated

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// size is what a node offers.
type size struct {
	capacity, allocatable corev1.ResourceList
	maxPods               int32
}

// defaultMaxPods is the kubelet's default, which nodeadm uses for an instance type that it does not know.
const defaultMaxPods = 110

// measure computes a node's size as nodeadm and the kubelet do.
// https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go
func measure(in machine.Instance, cfg *userdata.Config) (size, error) {
	standard := standardMaxPods(in)
	if cfg.MaxPodsExpression != "" {
		// nodeadm warns about a bad expression and continues with the standard value.
		if n, err := evalMaxPods(cfg.MaxPodsExpression, in, standard); err == nil {
			standard = n
		}
	}
	pods := standard
	if cfg.MaxPods > 0 {
		pods = cfg.MaxPods
	}
	if cfg.PodsPerCore > 0 {
		pods = min(pods, cfg.PodsPerCore*int32(in.Type.VCPU))
	}
	reservedFor := standard
	if cfg.ReservedForPods > 0 {
		reservedFor = cfg.ReservedForPods
	}

	memory := memoryBytes(in.Type.MemoryMiB)
	disk := diskBytes(int(in.DiskGiB))
	reserved := map[string]string{
		"cpu":               fmt.Sprintf("%dm", reservedMilliCPU(in.Type.VCPU)),
		"memory":            fmt.Sprintf("%dMi", 11*reservedFor+255),
		"ephemeral-storage": "1Gi",
	}
	for k, v := range cfg.KubeReserved {
		reserved[k] = v
	}
	eviction := map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}
	if len(cfg.EvictionHard) > 0 {
		// A kubelet drop-in's thresholds are merged with the defaults key by key.
		for k, v := range cfg.EvictionHard {
			eviction[k] = v
		}
	}

	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(in.Type.VCPU), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(int64(pods), resource.DecimalSI),
		"hugepages-1Gi":                 *resource.NewQuantity(0, resource.DecimalSI),
		"hugepages-2Mi":                 *resource.NewQuantity(0, resource.DecimalSI),
	}
	allocatable := capacity.DeepCopy()
	for _, r := range []struct {
		name   corev1.ResourceName
		signal string
	}{{corev1.ResourceCPU, ""}, {corev1.ResourceMemory, "memory.available"}, {corev1.ResourceEphemeralStorage, "nodefs.available"}} {
		total := capacity[r.name]
		left := total.DeepCopy()
		for _, set := range []map[string]string{reserved, cfg.SystemReserved} {
			q, err := parseQuantity(set[string(r.name)])
			if err != nil {
				return size{}, fmt.Errorf("reserved %s: %w", r.name, err)
			}
			left.Sub(q)
		}
		if r.signal != "" {
			q, err := threshold(eviction[r.signal], total)
			if err != nil {
				return size{}, fmt.Errorf("evictionHard %s: %w", r.signal, err)
			}
			left.Sub(q)
		}
		if left.Sign() < 0 {
			left = *resource.NewQuantity(0, left.Format)
		}
		if r.name == corev1.ResourceEphemeralStorage {
			// The kubelet reports it in bytes.
			left = *resource.NewQuantity(left.Value(), resource.DecimalSI)
		}
		allocatable[r.name] = left
	}
	return size{capacity: capacity, allocatable: allocatable, maxPods: pods}, nil
}

// standardMaxPods is the number of pods for which the VPC CNI has addresses, plus kube-proxy and the CNI itself,
// which use the node's address.
func standardMaxPods(in machine.Instance) int32 {
	if in.Type.ENIs <= 0 || in.Type.IPv4PerENI <= 0 {
		return defaultMaxPods
	}
	return int32(in.Type.ENIs*(in.Type.IPv4PerENI-1) + 2)
}

// reservedMilliCPU reserves 6 % of the first core, 1 % of the second, 0.5 % of the
// next two and 0.25 % of the rest.
func reservedMilliCPU(vcpu int) int64 {
	total := int64(vcpu) * 1000
	bounds := []int64{0, 1000, 2000, 4000, total}
	tenThousandths := []int64{600, 100, 50, 25}
	var sum int64
	for i, share := range tenThousandths {
		if total > bounds[i] {
			sum += (min(total, bounds[i+1]) - bounds[i]) * share / 10000
		}
	}
	return sum
}

// memoryBytes returns the memory that a guest's kernel reports.
//
// AWS deviation: AWS publishes no formula for what the hypervisor, firmware and kernel keep. These lines lie between
// what Karpenter's authors measured on AL2 nodes of the types of one size: zz_generated.memory_overhead.go in
// https://github.com/aws/karpenter-provider-aws/pull/4517, where t3.small lacks 131 MiB (6.4 %, 130 here), t3.medium
// 253 (283 here), m6i.large 405 (405 here), m6i.24xlarge 12369 (11956 here). From 4 GiB on there is more, which is
// kept for crash dumps.
func memoryBytes(mib int64) int64 {
	kept := 75 + mib*27/1000
	if mib > 2048 {
		kept = 160 + mib*30/1000
	}
	return max(mib-kept, mib/2)<<20 - 4<<10 // never a whole number of MiB, so that it is shown in Ki
}

// diskBytes returns the size of the root file system on a volume. The partition table and boot partition of the EKS
// images take 12308 KiB.
func diskBytes(gib int) int64 {
	if gib <= 0 {
		gib = 20
	}
	return int64(gib)<<30 - 12308<<10
}

func parseQuantity(s string) (resource.Quantity, error) {
	if s == "" {
		return resource.Quantity{}, nil
	}
	q, err := resource.ParseQuantity(s)
	if err == nil && q.Sign() < 0 {
		err = fmt.Errorf("%s is negative", s)
	}
	return q, err
}

// threshold reads an eviction threshold: a quantity or a percentage of total.
func threshold(s string, total resource.Quantity) (resource.Quantity, error) {
	percent, ok := strings.CutSuffix(s, "%")
	if !ok {
		return parseQuantity(s)
	}
	f, err := strconv.ParseFloat(percent, 64)
	if err != nil || f < 0 || f > 100 {
		return resource.Quantity{}, fmt.Errorf("invalid percentage %q", s)
	}
	return *resource.NewQuantity(int64(float64(total.Value())*f/100), resource.BinarySI), nil
}

// evalMaxPods evaluates nodeadm's maxPodsExpression. The expression comes from a user, so its cost is bounded.
func evalMaxPods(expression string, in machine.Instance, standard int32) (int32, error) {
	env, err := cel.NewEnv(
		cel.Variable("default_enis", cel.IntType),
		cel.Variable("ips_per_eni", cel.IntType),
		cel.Variable("max_pods", cel.IntType),
	)
	if err != nil {
		return 0, fmt.Errorf("preparing maxPodsExpression: %w", err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return 0, fmt.Errorf("compiling maxPodsExpression: %w", issues.Err())
	}
	program, err := env.Program(ast, cel.CostLimit(10_000), cel.InterruptCheckFrequency(100))
	if err != nil {
		return 0, fmt.Errorf("compiling maxPodsExpression: %w", err)
	}
	out, _, err := program.ContextEval(context.Background(), map[string]any{
		"default_enis": int64(in.Type.ENIs), "ips_per_eni": int64(in.Type.IPv4PerENI), "max_pods": int64(standard),
	})
	if err != nil {
		return 0, fmt.Errorf("evaluating maxPodsExpression: %w", err)
	}
	n, ok := out.ConvertToType(cel.IntType).Value().(int64)
	if !ok || n <= 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("maxPodsExpression gives %v", out.Value())
	}
	return int32(n), nil
}
