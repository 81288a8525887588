package instancetype

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/catalog/prices"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// RequirementsExcept lists the instance requirements that are refused.
const RequirementsExcept = "baseline performance factors and network bandwidth of instance requirements"

// MatchingTypes returns the types of a region with all the required attributes, sorted by name. The
// defaults are EC2's: no bare metal, no burstable types, and no types that cost far more than the
// cheapest.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceRequirements.html
func MatchingTypes(region string, r *ec2types.InstanceRequirementsRequest, architectures []string, isSpot bool) ([]string, error) {
	switch {
	case r.VCpuCount == nil || r.VCpuCount.Min == nil:
		return nil, ec2err.Missing("VCpuCount.Min")
	case r.MemoryMiB == nil || r.MemoryMiB.Min == nil:
		return nil, ec2err.Missing("MemoryMiB.Min")
	case len(r.AllowedInstanceTypes) > 0 && len(r.ExcludedInstanceTypes) > 0:
		return nil, ec2err.Combination("You can specify either AllowedInstanceTypes or ExcludedInstanceTypes, but not both.") // from memory
	case r.BaselinePerformanceFactors != nil:
		return nil, awserr.NotImplemented("BaselinePerformanceFactors of instance requirements")
	case r.NetworkBandwidthGbps != nil:
		return nil, awserr.NotImplemented("NetworkBandwidthGbps of instance requirements")
	}
	var out []string
	for _, info := range instancetypes.All() {
		arch := info.ProcessorInfo != nil && slices.ContainsFunc(info.ProcessorInfo.SupportedArchitectures, func(a ec2types.ArchitectureType) bool {
			return slices.Contains(architectures, string(a))
		})
		if arch && hasAttributes(info, r) && (!isSpot || slices.Contains(info.SupportedUsageClasses, ec2types.UsageClassTypeSpot)) {
			out = append(out, string(info.InstanceType))
		}
	}
	return withinPrice(region, out, r, isSpot), nil
}

// hasAttributes reports whether a type meets the requirements, apart from price.
func hasAttributes(t *ec2types.InstanceTypeInfo, r *ec2types.InstanceRequirementsRequest) bool {
	name := string(t.InstanceType)
	named := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return filter.CompilePattern(p).Match(name) })
	}
	if len(r.AllowedInstanceTypes) > 0 && !named(r.AllowedInstanceTypes) || named(r.ExcludedInstanceTypes) {
		return false
	}
	vcpus, mib := int64(0), int64(0)
	if t.VCpuInfo != nil {
		vcpus = int64(aws.ToInt32(t.VCpuInfo.DefaultVCpus))
	}
	if t.MemoryInfo != nil {
		mib = aws.ToInt64(t.MemoryInfo.SizeInMiB)
	}
	if !between(vcpus, r.VCpuCount.Min, r.VCpuCount.Max) || !between(mib, r.MemoryMiB.Min, r.MemoryMiB.Max) {
		return false
	}
	if m := r.MemoryGiBPerVCpu; m != nil && !betweenFloat(float64(mib)/1024/float64(max(vcpus, 1)), m.Min, m.Max) {
		return false
	}
	if !wanted(string(r.BareMetal), "excluded", aws.ToBool(t.BareMetal)) ||
		!wanted(string(r.BurstablePerformance), "excluded", aws.ToBool(t.BurstablePerformanceSupported)) ||
		!wanted(string(r.LocalStorage), "included", aws.ToBool(t.InstanceStorageSupported)) {
		return false
	}
	if len(r.InstanceGenerations) > 0 {
		generation := ec2types.InstanceGenerationPrevious
		if aws.ToBool(t.CurrentGeneration) {
			generation = ec2types.InstanceGenerationCurrent
		}
		if !slices.Contains(r.InstanceGenerations, generation) {
			return false
		}
	}
	if len(r.CpuManufacturers) > 0 && !slices.Contains(r.CpuManufacturers, cpuManufacturer(t)) {
		return false
	}
	if aws.ToBool(r.RequireHibernateSupport) && !aws.ToBool(t.HibernationSupported) {
		return false
	}
	nics, encrypted := int64(0), false
	if n := t.NetworkInfo; n != nil {
		nics, encrypted = int64(aws.ToInt32(n.MaximumNetworkInterfaces)), aws.ToBool(n.EncryptionInTransitSupported)
	}
	if aws.ToBool(r.RequireEncryptionInTransit) && !encrypted {
		return false
	}
	if n := r.NetworkInterfaceCount; n != nil && !between(nics, n.Min, n.Max) {
		return false
	}
	return hasStorage(t, r) && hasAccelerators(t, r)
}

func hasStorage(t *ec2types.InstanceTypeInfo, r *ec2types.InstanceRequirementsRequest) bool {
	if b := r.BaselineEbsBandwidthMbps; b != nil {
		mbps := int64(0)
		if t.EbsInfo != nil && t.EbsInfo.EbsOptimizedInfo != nil {
			mbps = int64(aws.ToInt32(t.EbsInfo.EbsOptimizedInfo.BaselineBandwidthInMbps))
		}
		if !between(mbps, b.Min, b.Max) {
			return false
		}
	}
	total, kinds := 0.0, []ec2types.LocalStorageType{}
	if s := t.InstanceStorageInfo; s != nil {
		total = float64(aws.ToInt64(s.TotalSizeInGB))
		for _, d := range s.Disks {
			kinds = append(kinds, ec2types.LocalStorageType(d.Type))
		}
	}
	if g := r.TotalLocalStorageGB; g != nil && !betweenFloat(total, g.Min, g.Max) {
		return false
	}
	if len(r.LocalStorageTypes) > 0 && len(kinds) > 0 {
		return slices.ContainsFunc(kinds, func(k ec2types.LocalStorageType) bool { return slices.Contains(r.LocalStorageTypes, k) })
	}
	return true
}

// An accelerator is a GPU, FPGA or inference chip of a type.
type accelerator struct {
	kind, maker, name string
	count, mib        int64
}

func acceleratorsOf(t *ec2types.InstanceTypeInfo) []accelerator {
	var out []accelerator
	add := func(kind string, maker, name *string, count, mib *int32) {
		n := int64(aws.ToInt32(count))
		out = append(out, accelerator{kind: kind, maker: aws.ToString(maker), name: aws.ToString(name), count: n, mib: n * int64(aws.ToInt32(mib))})
	}
	if g := t.GpuInfo; g != nil {
		for _, d := range g.Gpus {
			m := cmp.Or(d.MemoryInfo, &ec2types.GpuDeviceMemoryInfo{})
			add("gpu", d.Manufacturer, d.Name, d.Count, m.SizeInMiB)
		}
	}
	if f := t.FpgaInfo; f != nil {
		for _, d := range f.Fpgas {
			m := cmp.Or(d.MemoryInfo, &ec2types.FpgaDeviceMemoryInfo{})
			add("fpga", d.Manufacturer, d.Name, d.Count, m.SizeInMiB)
		}
	}
	if i := t.InferenceAcceleratorInfo; i != nil {
		for _, d := range i.Accelerators {
			m := cmp.Or(d.MemoryInfo, &ec2types.InferenceDeviceMemoryInfo{})
			add("inference", d.Manufacturer, d.Name, d.Count, m.SizeInMiB)
		}
	}
	return out
}

func hasAccelerators(t *ec2types.InstanceTypeInfo, r *ec2types.InstanceRequirementsRequest) bool {
	all := acceleratorsOf(t)
	var count, mib int64
	for _, a := range all {
		count, mib = count+a.count, mib+a.mib
	}
	if c := r.AcceleratorCount; c != nil && !between(count, c.Min, c.Max) {
		return false
	}
	if m := r.AcceleratorTotalMemoryMiB; m != nil && !between(mib, m.Min, m.Max) {
		return false
	}
	// "V100" becomes the accelerator v100, "Amazon" the manufacturer amazon-web-services.
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), " ", "-") }
	some := func(fits func(accelerator) bool) bool { return slices.ContainsFunc(all, fits) }
	if len(r.AcceleratorTypes) > 0 && !some(func(a accelerator) bool { return slices.Contains(texts(r.AcceleratorTypes), a.kind) }) {
		return false
	}
	if len(r.AcceleratorNames) > 0 && !some(func(a accelerator) bool { return slices.Contains(texts(r.AcceleratorNames), plain(a.name)) }) {
		return false
	}
	return len(r.AcceleratorManufacturers) == 0 || some(func(a accelerator) bool {
		maker := plain(a.maker)
		if maker == "aws" || maker == "amazon" {
			maker = "amazon-web-services"
		}
		return slices.Contains(texts(r.AcceleratorManufacturers), maker)
	})
}

// cpuManufacturer derives the CPU manufacturer from the attributes in a type's name: "a" is AMD,
// "g" Graviton.
// https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
func cpuManufacturer(t *ec2types.InstanceTypeInfo) ec2types.CpuManufacturer {
	if p := t.ProcessorInfo; p != nil {
		switch maker := aws.ToString(p.Manufacturer); {
		case strings.Contains(maker, "AMD"):
			return ec2types.CpuManufacturerAmd
		case strings.Contains(maker, "AWS"), strings.Contains(maker, "Amazon"):
			return ec2types.CpuManufacturerAmazonWebServices
		case strings.Contains(maker, "Apple"):
			return ec2types.CpuManufacturerApple
		case maker != "":
			return ec2types.CpuManufacturerIntel
		}
	}
	family, _, _ := strings.Cut(string(t.InstanceType), ".")
	attributes := ""
	if n := strings.IndexAny(family, "0123456789"); n >= 0 {
		attributes = strings.TrimLeft(family[n:], "0123456789")
	}
	switch {
	case strings.HasPrefix(family, "mac"):
		return ec2types.CpuManufacturerApple
	case strings.HasPrefix(attributes, "g"), family == "a1":
		return ec2types.CpuManufacturerAmazonWebServices
	case strings.HasPrefix(attributes, "a"):
		return ec2types.CpuManufacturerAmd
	}
	return ec2types.CpuManufacturerIntel
}

// Default price protection, in percent above the cheapest type.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-attribute-based-instance-type-selection.html
const (
	onDemandProtection = 20
	spotProtection     = 100
	// noProtection is the value that turns protection off.
	noProtection = 999999
)

// withinPrice removes the types whose price is too far above the cheapest of a current generation.
func withinPrice(region string, names []string, r *ec2types.InstanceRequirementsRequest, isSpot bool) []string {
	percent := int32(onDemandProtection)
	switch {
	case isSpot && r.SpotMaxPricePercentageOverLowestPrice != nil:
		percent = *r.SpotMaxPricePercentageOverLowestPrice
	case isSpot && r.MaxSpotPriceAsPercentageOfOptimalOnDemandPrice != nil:
		// The percentage refers to the cheapest type's On-Demand price, of which the Spot price is
		// a fixed share.
		percent = int32(float64(*r.MaxSpotPriceAsPercentageOfOptimalOnDemandPrice)/prices.SpotShare) - 100
	case isSpot:
		percent = spotProtection
	case r.OnDemandMaxPricePercentageOverLowestPrice != nil:
		percent = *r.OnDemandMaxPricePercentageOverLowestPrice
	}
	if percent >= noProtection {
		return names
	}
	lowest := 0.0
	for _, name := range names {
		info, _ := instancetypes.Info(name)
		p, ok := prices.OnDemand(region, name)
		if ok && aws.ToBool(info.CurrentGeneration) && (lowest == 0 || p < lowest) {
			lowest = p
		}
	}
	if lowest == 0 {
		return names
	}
	limit := lowest * (1 + float64(percent)/100)
	return slices.DeleteFunc(names, func(name string) bool {
		p, ok := prices.OnDemand(region, name)
		return !ok || p > limit
	})
}

func between[N int32 | int64](n int64, least, most *N) bool {
	return (least == nil || n >= int64(*least)) && (most == nil || n <= int64(*most))
}

func betweenFloat(n float64, least, most *float64) bool {
	return (least == nil || n >= *least) && (most == nil || n <= *most)
}

// wanted reports whether a type meets a rule: included, excluded or required.
func wanted(rule, otherwise string, has bool) bool {
	switch resource.Or(rule, otherwise) {
	case "excluded":
		return !has
	case "required":
		return has
	}
	return true
}

// GetInstanceTypesFromInstanceRequirements lists the types that meet requirements. Price protection
// is that of On-Demand Instances.
func (s *Service) GetInstanceTypesFromInstanceRequirements(ctx context.Context, in *awsec2.GetInstanceTypesFromInstanceRequirementsInput) (*awsec2.GetInstanceTypesFromInstanceRequirementsOutput, error) {
	sc := resource.ScopeOf(ctx)
	switch {
	case len(in.ArchitectureTypes) == 0:
		return nil, ec2err.Missing("ArchitectureType")
	case len(in.VirtualizationTypes) == 0:
		return nil, ec2err.Missing("VirtualizationType")
	case in.InstanceRequirements == nil:
		return nil, ec2err.Missing("InstanceRequirements")
	}
	names, err := MatchingTypes(sc.Region, in.InstanceRequirements, texts(in.ArchitectureTypes), false)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		info, _ := instancetypes.Info(name)
		return !slices.ContainsFunc(info.SupportedVirtualizationTypes, func(v ec2types.VirtualizationType) bool { return slices.Contains(in.VirtualizationTypes, v) })
	})
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if in.MaxResults == nil {
		in.MaxResults = aws.Int32(1000)
	}
	names, next, err := resource.Paginate(names, func(n string) string { return n }, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 1000})
	return &awsec2.GetInstanceTypesFromInstanceRequirementsOutput{NextToken: next, InstanceTypes: resource.Map(names, func(n string) ec2types.InstanceTypeInfoFromInstanceRequirements {
		return ec2types.InstanceTypeInfoFromInstanceRequirements{InstanceType: aws.String(n)}
	})}, err
}

// EchoRequirements converts a request's requirements to the response type, whose members have the
// same names.
func EchoRequirements(r *ec2types.InstanceRequirementsRequest) *ec2types.InstanceRequirements {
	out := new(ec2types.InstanceRequirements)
	if raw, err := json.Marshal(r); err == nil {
		_ = json.Unmarshal(raw, out)
	}
	return out
}
