package instancetype

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// Offered reports whether a zone has a type. Every zone has every type, except that us-east-1's
// oldest zone, use1-az3, has only old families: the classic way to get the error Unsupported.
func Offered(instanceType, zoneID string) bool {
	if zoneID != "use1-az3" {
		return true
	}
	family, _, _ := strings.Cut(instanceType, ".")
	switch family {
	case "c1", "c3", "c4", "m1", "m2", "m3", "m4", "r3", "r4", "t1", "t2", "i2", "x1":
		return true
	}
	return false
}

// OfferingZones returns the names of the region's zones that have a type.
func OfferingZones(region, instanceType string) []string {
	var out []string
	r, _ := regions.Lookup(region)
	for _, z := range r.Zones {
		if Offered(instanceType, z.ID) {
			out = append(out, z.Name)
		}
	}
	return out
}

type typeInfo = *ec2types.InstanceTypeInfo

// texts converts enumeration values to strings.
func texts[S ~string](in []S) []string {
	out := make([]string, len(in))
	for i, v := range in {
		out[i] = string(v)
	}
	return out
}

func number[N int32 | int64](n *N) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

func boolean(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

// sub returns a field of a member of an optional struct.
func sub[P any](part func(typeInfo) *P, get func(*P) string) func(typeInfo) []string {
	return filter.One(func(t typeInfo) string {
		if p := part(t); p != nil {
			return get(p)
		}
		return ""
	})
}

// subs is sub for lists.
func subs[P any](part func(typeInfo) *P, get func(*P) []string) func(typeInfo) []string {
	return func(t typeInfo) []string {
		if p := part(t); p != nil {
			return get(p)
		}
		return nil
	}
}

func typeFields() filter.Fields[typeInfo] {
	type (
		ebs     = ec2types.EbsInfo
		network = ec2types.NetworkInfo
		storage = ec2types.InstanceStorageInfo
		cpu     = ec2types.VCpuInfo
		proc    = ec2types.ProcessorInfo
	)
	ebsOf := func(t typeInfo) *ebs { return t.EbsInfo }
	ebsOpt := func(t typeInfo) *ec2types.EbsOptimizedInfo {
		if t.EbsInfo == nil {
			return nil
		}
		return t.EbsInfo.EbsOptimizedInfo
	}
	nvmeOf := func(t typeInfo) *storage { return t.InstanceStorageInfo }
	netOf := func(t typeInfo) *network { return t.NetworkInfo }
	cpuOf := func(t typeInfo) *cpu { return t.VCpuInfo }
	procOf := func(t typeInfo) *proc { return t.ProcessorInfo }
	return filter.Fields[typeInfo]{
		"auto-recovery-supported":                                 filter.One(func(t typeInfo) string { return boolean(t.AutoRecoverySupported) }),
		"bare-metal":                                              filter.One(func(t typeInfo) string { return boolean(t.BareMetal) }),
		"burstable-performance-supported":                         filter.One(func(t typeInfo) string { return boolean(t.BurstablePerformanceSupported) }),
		"current-generation":                                      filter.One(func(t typeInfo) string { return boolean(t.CurrentGeneration) }),
		"dedicated-hosts-supported":                               filter.One(func(t typeInfo) string { return boolean(t.DedicatedHostsSupported) }),
		"ebs-info.attachment-limit-type":                          sub(ebsOf, func(e *ebs) string { return string(e.AttachmentLimitType) }),
		"ebs-info.maximum-ebs-attachments":                        sub(ebsOf, func(e *ebs) string { return number(e.MaximumEbsAttachments) }),
		"ebs-info.ebs-optimized-support":                          sub(ebsOf, func(e *ebs) string { return string(e.EbsOptimizedSupport) }),
		"ebs-info.encryption-support":                             sub(ebsOf, func(e *ebs) string { return string(e.EncryptionSupport) }),
		"ebs-info.nvme-support":                                   sub(ebsOf, func(e *ebs) string { return string(e.NvmeSupport) }),
		"ebs-info.ebs-optimized-info.baseline-bandwidth-in-mbps":  sub(ebsOpt, func(e *ec2types.EbsOptimizedInfo) string { return number(e.BaselineBandwidthInMbps) }),
		"ebs-info.ebs-optimized-info.baseline-iops":               sub(ebsOpt, func(e *ec2types.EbsOptimizedInfo) string { return number(e.BaselineIops) }),
		"ebs-info.ebs-optimized-info.baseline-throughput-in-mbps": sub(ebsOpt, func(e *ec2types.EbsOptimizedInfo) string { return resource.Float(e.BaselineThroughputInMBps) }),
		"ebs-info.ebs-optimized-info.maximum-bandwidth-in-mbps":   sub(ebsOpt, func(e *ec2types.EbsOptimizedInfo) string { return number(e.MaximumBandwidthInMbps) }),
		"ebs-info.ebs-optimized-info.maximum-iops":                sub(ebsOpt, func(e *ec2types.EbsOptimizedInfo) string { return number(e.MaximumIops) }),
		"ebs-info.ebs-optimized-info.maximum-throughput-in-mbps":  sub(ebsOpt, func(e *ec2types.EbsOptimizedInfo) string { return resource.Float(e.MaximumThroughputInMBps) }),
		"free-tier-eligible":                                      filter.One(func(t typeInfo) string { return boolean(t.FreeTierEligible) }),
		"hibernation-supported":                                   filter.One(func(t typeInfo) string { return boolean(t.HibernationSupported) }),
		"hypervisor":                                              filter.One(func(t typeInfo) string { return string(t.Hypervisor) }),
		"instance-storage-info.disk.count": subs(nvmeOf, func(s *storage) []string {
			var out []string
			for _, d := range s.Disks {
				out = append(out, number(d.Count))
			}
			return out
		}),
		"instance-storage-info.disk.size-in-gb": subs(nvmeOf, func(s *storage) []string {
			var out []string
			for _, d := range s.Disks {
				out = append(out, number(d.SizeInGB))
			}
			return out
		}),
		"instance-storage-info.disk.type": subs(nvmeOf, func(s *storage) []string {
			var out []string
			for _, d := range s.Disks {
				out = append(out, string(d.Type))
			}
			return out
		}),
		"instance-storage-info.encryption-support": sub(nvmeOf, func(s *storage) string { return string(s.EncryptionSupport) }),
		"instance-storage-info.nvme-support":       sub(nvmeOf, func(s *storage) string { return string(s.NvmeSupport) }),
		"instance-storage-info.total-size-in-gb":   sub(nvmeOf, func(s *storage) string { return number(s.TotalSizeInGB) }),
		"instance-storage-supported":               filter.One(func(t typeInfo) string { return boolean(t.InstanceStorageSupported) }),
		"instance-type":                            filter.One(func(t typeInfo) string { return string(t.InstanceType) }),
		"memory-info.size-in-mib":                  sub(func(t typeInfo) *ec2types.MemoryInfo { return t.MemoryInfo }, func(m *ec2types.MemoryInfo) string { return number(m.SizeInMiB) }),
		"network-info.bandwidth-weightings":        subs(netOf, func(n *network) []string { return texts(n.BandwidthWeightings) }),
		"network-info.efa-info.maximum-efa-interfaces": sub(netOf, func(n *network) string {
			if n.EfaInfo == nil {
				return ""
			}
			return number(n.EfaInfo.MaximumEfaInterfaces)
		}),
		"network-info.efa-supported":                   sub(netOf, func(n *network) string { return boolean(n.EfaSupported) }),
		"network-info.ena-support":                     sub(netOf, func(n *network) string { return string(n.EnaSupport) }),
		"network-info.flexible-ena-queues-support":     sub(netOf, func(n *network) string { return string(n.FlexibleEnaQueuesSupport) }),
		"network-info.encryption-in-transit-supported": sub(netOf, func(n *network) string { return boolean(n.EncryptionInTransitSupported) }),
		"network-info.ipv4-addresses-per-interface":    sub(netOf, func(n *network) string { return number(n.Ipv4AddressesPerInterface) }),
		"network-info.ipv6-addresses-per-interface":    sub(netOf, func(n *network) string { return number(n.Ipv6AddressesPerInterface) }),
		"network-info.ipv6-supported":                  sub(netOf, func(n *network) string { return boolean(n.Ipv6Supported) }),
		"network-info.maximum-network-cards":           sub(netOf, func(n *network) string { return number(n.MaximumNetworkCards) }),
		"network-info.maximum-network-interfaces":      sub(netOf, func(n *network) string { return number(n.MaximumNetworkInterfaces) }),
		"network-info.network-performance":             sub(netOf, func(n *network) string { return aws.ToString(n.NetworkPerformance) }),
		"nitro-enclaves-support":                       filter.One(func(t typeInfo) string { return string(t.NitroEnclavesSupport) }),
		"nitro-tpm-support":                            filter.One(func(t typeInfo) string { return string(t.NitroTpmSupport) }),
		"nitro-tpm-info.supported-versions": func(t typeInfo) []string {
			if t.NitroTpmInfo == nil {
				return nil
			}
			return texts(t.NitroTpmInfo.SupportedVersions)
		},
		"processor-info.supported-architecture":       subs(procOf, func(p *proc) []string { return texts(p.SupportedArchitectures) }),
		"processor-info.sustained-clock-speed-in-ghz": sub(procOf, func(p *proc) string { return resource.Float(p.SustainedClockSpeedInGhz) }),
		"processor-info.supported-features":           subs(procOf, func(p *proc) []string { return texts(p.SupportedFeatures) }),
		"reboot-migration-support":                    filter.One(func(t typeInfo) string { return string(t.RebootMigrationSupport) }),
		"supported-boot-mode":                         func(t typeInfo) []string { return texts(t.SupportedBootModes) },
		"supported-root-device-type":                  func(t typeInfo) []string { return texts(t.SupportedRootDeviceTypes) },
		"supported-usage-class":                       func(t typeInfo) []string { return texts(t.SupportedUsageClasses) },
		"supported-virtualization-type":               func(t typeInfo) []string { return texts(t.SupportedVirtualizationTypes) },
		"vcpu-info.default-cores":                     sub(cpuOf, func(c *cpu) string { return number(c.DefaultCores) }),
		"vcpu-info.default-threads-per-core":          sub(cpuOf, func(c *cpu) string { return number(c.DefaultThreadsPerCore) }),
		"vcpu-info.default-vcpus":                     sub(cpuOf, func(c *cpu) string { return number(c.DefaultVCpus) }),
		"vcpu-info.valid-cores": subs(cpuOf, func(c *cpu) []string {
			var out []string
			for _, n := range c.ValidCores {
				out = append(out, strconv.Itoa(int(n)))
			}
			return out
		}),
		"vcpu-info.valid-threads-per-core": subs(cpuOf, func(c *cpu) []string {
			var out []string
			for _, n := range c.ValidThreadsPerCore {
				out = append(out, strconv.Itoa(int(n)))
			}
			return out
		}),
	}
}

// DescribeInstanceTypes lists instance types. Karpenter checks its permissions with a dry run of
// it.
func (s *Service) DescribeInstanceTypes(ctx context.Context, in *awsec2.DescribeInstanceTypesInput) (*awsec2.DescribeInstanceTypesOutput, error) {
	match, err := filter.Compile(in.Filters, typeFields(), nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if len(in.InstanceTypes) > 0 && in.MaxResults != nil {
		return nil, ec2err.Combination("The parameter InstanceTypes cannot be used with the parameter MaxResults")
	}
	candidates := instancetypes.All()
	if len(in.InstanceTypes) > 0 {
		candidates = nil
		var missing []string
		for _, name := range resource.SortedUnique(texts(in.InstanceTypes)) {
			if info, ok := instancetypes.Info(name); ok {
				candidates = append(candidates, info)
			} else {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			return nil, ec2err.New("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", strings.Join(missing, ", "))
		}
	}
	var found []typeInfo
	for _, t := range candidates {
		if match(t) {
			found = append(found, t)
		}
	}
	found, next, err := resource.Paginate(found, func(t typeInfo) string { return string(t.InstanceType) }, cap100(in.MaxResults, len(in.InstanceTypes)), in.NextToken, resource.Limits{Min: 5, Max: 100})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeInstanceTypesOutput{NextToken: next, InstanceTypes: make([]ec2types.InstanceTypeInfo, len(found))}
	for i, t := range found {
		out.InstanceTypes[i] = *t
	}
	return out, nil
}

// cap100 limits pages to 100 even without MaxResults when all types are listed, as EC2 does.
func cap100(maxResults *int32, named int) *int32 {
	if maxResults == nil && named == 0 {
		return aws.Int32(100)
	}
	return maxResults
}

// DescribeInstanceTypeOfferings lists where types are offered.
func (s *Service) DescribeInstanceTypeOfferings(ctx context.Context, in *awsec2.DescribeInstanceTypeOfferingsInput) (*awsec2.DescribeInstanceTypeOfferingsOutput, error) {
	sc := resource.ScopeOf(ctx)
	type offering struct{ name, location string }
	match, err := filter.Compile(in.Filters, filter.Fields[offering]{
		"instance-type": filter.One(func(o offering) string { return o.name }),
		"location":      filter.One(func(o offering) string { return o.location }),
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	kind := in.LocationType
	if kind == "" {
		kind = ec2types.LocationTypeRegion
	}
	if !slices.Contains(kind.Values(), kind) {
		return nil, ec2err.InvalidValue(kind, "LocationType", "")
	}
	r, _ := regions.Lookup(sc.Region)
	var found []offering
	for _, name := range instancetypes.Names() {
		add := func(location string) {
			if o := (offering{name, location}); match(o) {
				found = append(found, o)
			}
		}
		switch kind {
		case ec2types.LocationTypeRegion:
			add(sc.Region)
		case ec2types.LocationTypeAvailabilityZone, ec2types.LocationTypeAvailabilityZoneId:
			for _, z := range r.Zones {
				if !Offered(name, z.ID) {
					continue
				}
				if kind == ec2types.LocationTypeAvailabilityZone {
					add(z.Name)
				} else {
					add(z.ID)
				}
			}
		}
	}
	id := func(o offering) string { return o.name + "/" + o.location }
	slices.SortFunc(found, func(a, b offering) int { return strings.Compare(id(a), id(b)) })
	if in.MaxResults == nil {
		in.MaxResults = aws.Int32(1000)
	}
	found, next, err := resource.Paginate(found, id, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeInstanceTypeOfferingsOutput{NextToken: next, InstanceTypeOfferings: make([]ec2types.InstanceTypeOffering, len(found))}
	for i, o := range found {
		out.InstanceTypeOfferings[i] = ec2types.InstanceTypeOffering{InstanceType: ec2types.InstanceType(o.name), Location: aws.String(o.location), LocationType: kind}
	}
	return out, nil
}
