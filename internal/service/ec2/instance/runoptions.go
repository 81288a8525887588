package instance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// RunExcept lists the values of supported members that RunInstances refuses.
const RunExcept = "Capacity Block instances, groups of Capacity Reservations, hibernation, enclaves, dedicated hosts, " +
	"instances with more than 82 interfaces, volumes and IPv6 addresses in total, " + storage.CreateExcept

func planTags(ctx context.Context, l *launch) error {
	kinds := map[ec2types.ResourceType]*tag.Set{
		ec2types.ResourceTypeInstance: &l.tags, ec2types.ResourceTypeVolume: &l.volTags,
		ec2types.ResourceTypeNetworkInterface: &l.eniTags, ec2types.ResourceTypeSpotInstancesRequest: &l.spotTags,
	}
	launchable := []ec2types.ResourceType{
		ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeNetworkInterface, ec2types.ResourceTypeSpotInstancesRequest,
	}
	for kind, to := range kinds {
		tags, err := tag.Specified(ctx, l.in.TagSpecifications, kind, launchable...)
		if err != nil {
			return err
		}
		*to = tags
	}
	if l.spot == nil && len(l.spotTags) > 0 && l.fleet == "" {
		return ec2err.Combination("You cannot specify tags for Spot instances requests if there are no Spot instances requests being created by the request.")
	}
	if l.template != nil {
		// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/launch-templates.html
		l.tags = l.tags.With(tag.Set{"aws:ec2launchtemplate:id": l.template.ID, "aws:ec2launchtemplate:version": fmt.Sprint(l.version)})
	}
	if l.fleet != "" {
		l.tags = l.tags.With(tag.Set{"aws:ec2:fleet-id": l.fleet})
	}
	return nil
}

// planOptions checks the request's options for running the instances.
func planOptions(l *launch) error {
	in := l.in
	switch in.InstanceInitiatedShutdownBehavior {
	case "", ec2types.ShutdownBehaviorStop, ec2types.ShutdownBehaviorTerminate:
	default:
		return ec2err.InvalidValue(in.InstanceInitiatedShutdownBehavior, "instanceInitiatedShutdownBehavior", "")
	}
	switch {
	case in.HibernationOptions != nil && aws.ToBool(in.HibernationOptions.Configured):
		return awserr.NotImplemented("hibernation of EC2 RunInstances")
	case in.EnclaveOptions != nil && aws.ToBool(in.EnclaveOptions.Enabled):
		return awserr.NotImplemented("enclaves of EC2 RunInstances")
	}
	if m := in.MetadataOptions; m != nil {
		if err := checkMetadata(string(m.HttpTokens), string(m.HttpEndpoint), string(m.HttpProtocolIpv6), string(m.InstanceMetadataTags), m.HttpPutResponseHopLimit); err != nil {
			return err
		}
	}
	if c := in.CapacityReservationSpecification; c != nil {
		if p := c.CapacityReservationPreference; p != "" && !slices.Contains(p.Values(), p) {
			return ec2err.InvalidValue(p, "capacityReservationPreference", "")
		}
	}
	if m := in.MaintenanceOptions; m != nil {
		if r := m.AutoRecovery; r != "" && !slices.Contains(r.Values(), r) {
			return ec2err.InvalidValue(r, "autoRecovery", "")
		}
	}
	if p := in.Placement; p != nil {
		switch p.Tenancy {
		case "", ec2types.TenancyDefault, ec2types.TenancyDedicated:
		case ec2types.TenancyHost:
			return awserr.NotImplemented("dedicated hosts of EC2 RunInstances")
		default:
			return ec2err.InvalidValue(p.Tenancy, "tenancy", "")
		}
	}
	if c := in.CreditSpecification; c != nil {
		switch credits := aws.ToString(c.CpuCredits); {
		case credits != "standard" && credits != "unlimited":
			return ec2err.InvalidValue(credits, "CpuCredits", "")
		case !l.typ.Burstable && credits == "unlimited":
			return ec2err.NotBurstable(l.typ.Name)
		}
	}
	if p := in.PrivateDnsNameOptions; p != nil && p.HostnameType != "" && !slices.Contains(p.HostnameType.Values(), p.HostnameType) {
		return ec2err.InvalidValue(p.HostnameType, "HostnameType", "")
	}
	if err := planCPU(l); err != nil {
		return err
	}
	return planSpot(l)
}

// checkMetadata checks the options of the instance metadata service.
func checkMetadata(tokens, endpoint, ipv6, tags string, hops *int32) error {
	if hops != nil && (*hops < 1 || *hops > 64) {
		return ec2err.InvalidParameterValue("The HttpPutResponseHopLimit must be between 1 and 64.")
	}
	for _, o := range []struct{ name, value, a, b string }{
		{"HttpTokens", tokens, "optional", "required"},
		{"HttpEndpoint", endpoint, "enabled", "disabled"},
		{"HttpProtocolIpv6", ipv6, "enabled", "disabled"},
		{"InstanceMetadataTags", tags, "enabled", "disabled"},
	} {
		if o.value != "" && o.value != o.a && o.value != o.b {
			return ec2err.InvalidValue(o.value, o.name, "")
		}
	}
	return nil
}

// planCPU determines the cores and threads.
func planCPU(l *launch) error {
	l.cores, l.threads = int32(l.typ.VCPU), 1
	info, _ := instancetypes.Info(l.typ.Name)
	cpu := info.VCpuInfo
	if cpu != nil && cpu.DefaultCores != nil && cpu.DefaultThreadsPerCore != nil {
		l.cores, l.threads = *cpu.DefaultCores, *cpu.DefaultThreadsPerCore
	}
	o := l.in.CpuOptions
	if o == nil {
		return nil
	}
	valid := func(have []int32, otherwise int32, want *int32) bool {
		return want == nil || *want == otherwise || slices.Contains(have, *want)
	}
	var cores, threads []int32
	if cpu != nil {
		cores, threads = cpu.ValidCores, cpu.ValidThreadsPerCore
	}
	switch {
	case o.CoreCount == nil != (o.ThreadsPerCore == nil):
		// ModifyInstanceCpuOptions' error:
		// https://github.com/hashicorp/terraform-provider-aws/issues/46821
		return ec2err.New("MissingParameter", "When specifying CpuOptions you must specify both CoreCount and ThreadsPerCore.")
	// The texts below are from memory.
	case !valid(cores, l.cores, o.CoreCount):
		return ec2err.InvalidParameterValue("The specified CoreCount, %d, is not valid for the instance type %s.", *o.CoreCount, l.typ.Name)
	case !valid(threads, l.threads, o.ThreadsPerCore):
		return ec2err.InvalidParameterValue("The specified ThreadsPerCore, %d, is not valid for the instance type %s.", *o.ThreadsPerCore, l.typ.Name)
	}
	if o.CoreCount != nil {
		l.cores = *o.CoreCount
	}
	if o.ThreadsPerCore != nil {
		l.threads = *o.ThreadsPerCore
	}
	return nil
}

// vcpus is the number of vCPUs per instance of the launch.
func (l *launch) vcpus() int { return int(l.cores * l.threads) }

// A spotSpec has a launch's Spot options.
type spotSpec struct {
	MaxPrice   string    `json:",omitempty"`
	Persistent bool      `json:",omitempty"`
	Behavior   string    // on interruption: terminate or stop
	ValidUntil time.Time `json:",omitzero"`
}

func planSpot(l *launch) error {
	m := l.in.InstanceMarketOptions
	if m == nil || m.MarketType == "" && m.SpotOptions == nil {
		return nil
	}
	switch m.MarketType {
	case ec2types.MarketTypeSpot:
	case ec2types.MarketTypeCapacityBlock, ec2types.MarketTypeInterruptibleCapacityReservation:
		return awserr.NotImplemented("the market " + string(m.MarketType) + " of EC2 RunInstances")
	case "":
		return ec2err.Missing("InstanceMarketOptions.MarketType")
	default:
		return ec2err.InvalidValue(m.MarketType, "marketType", "")
	}
	o := cmp.Or(m.SpotOptions, &ec2types.SpotMarketOptions{})
	spec, err := parseSpot("RunInstances", o.SpotInstanceType, o.InstanceInterruptionBehavior, o.MaxPrice)
	if err != nil {
		return err
	}
	l.spot = spec
	if spec.Persistent && spec.Behavior == "terminate" {
		return ec2err.SpotTerminatePersistent()
	}
	if o.ValidUntil != nil {
		if !spec.Persistent {
			return ec2err.Combination("ValidUntil can be used only with Spot Instance type 'persistent'.") // from memory
		}
		spec.ValidUntil = *o.ValidUntil
	}
	return nil
}

// parseSpot returns the Spot options of an operation's request.
func parseSpot(operation string, kind ec2types.SpotInstanceType, behavior ec2types.InstanceInterruptionBehavior, maxPrice *string) (*spotSpec, error) {
	spec := &spotSpec{Behavior: "terminate"}
	switch kind {
	case "", ec2types.SpotInstanceTypeOneTime:
	case ec2types.SpotInstanceTypePersistent:
		spec.Persistent = true
	default:
		return nil, ec2err.InvalidValue(kind, "spotInstanceType", "")
	}
	switch behavior {
	case "", ec2types.InstanceInterruptionBehaviorTerminate:
	case ec2types.InstanceInterruptionBehaviorStop:
		if !spec.Persistent {
			return nil, ec2err.SpotStopOnce()
		}
		spec.Behavior = "stop"
	case ec2types.InstanceInterruptionBehaviorHibernate:
		return nil, awserr.NotImplemented("hibernation of EC2 " + operation)
	default:
		return nil, ec2err.InvalidValue(behavior, "instanceInterruptionBehavior", "")
	}
	if p := aws.ToString(maxPrice); p != "" {
		if f, err := strconv.ParseFloat(p, 64); err != nil || f <= 0 {
			return nil, ec2err.InvalidValue(p, "price", `"`+p+`" is an invalid spot instance price`)
		}
		spec.MaxPrice = p
	}
	return spec, nil
}

// applyOptions copies the request's options to an instance.
func applyOptions(i *record.Instance, l *launch, preferred metadataDefaultsRecord) {
	in := l.in
	i.MetadataEndpoint, i.MetadataTags, i.MetadataIPv6, i.Tokens, i.HopLimit = "enabled", "disabled", "disabled", "required", 2
	if f := l.image.Family; f == images.AL2 || f == images.Ubuntu { // true for images without ImdsSupport v2.0
		i.Tokens, i.HopLimit = "optional", 1
	}
	preferred.apply(i)
	if m := in.MetadataOptions; m != nil {
		i.Tokens = resource.Or(string(m.HttpTokens), i.Tokens)
		i.MetadataEndpoint = resource.Or(string(m.HttpEndpoint), i.MetadataEndpoint)
		i.MetadataIPv6 = resource.Or(string(m.HttpProtocolIpv6), i.MetadataIPv6)
		i.MetadataTags = resource.Or(string(m.InstanceMetadataTags), i.MetadataTags)
		if m.HttpPutResponseHopLimit != nil {
			i.HopLimit = *m.HttpPutResponseHopLimit
		}
	}
	if m := in.Monitoring; m != nil {
		i.Monitoring = aws.ToBool(m.Enabled)
	}
	if l.typ.Burstable {
		i.CPUCredits = "unlimited" // the default of all families except T2
		if len(l.typ.Name) > 3 && l.typ.Name[:3] == "t2." {
			i.CPUCredits = "standard"
		}
	}
	if c := in.CreditSpecification; c != nil && l.typ.Burstable {
		i.CPUCredits = aws.ToString(c.CpuCredits)
	}
	i.CapacityPreference, i.CapacityTarget = l.reserved.Preference, l.reserved.ID
	if m := in.MaintenanceOptions; m != nil {
		i.AutoRecovery = string(m.AutoRecovery)
	}
	i.Tenancy = "default"
	if p := in.Placement; p != nil {
		i.Tenancy = resource.Or(string(p.Tenancy), i.Tenancy)
	}
	i.Cores, i.ThreadsPerCore = l.cores, l.threads
	if p := in.PrivateDnsNameOptions; p != nil {
		i.HostnameType = resource.Or(string(p.HostnameType), i.HostnameType)
		if p.EnableResourceNameDnsARecord != nil {
			i.ResourceNameA = *p.EnableResourceNameDnsARecord
		}
		if p.EnableResourceNameDnsAAAARecord != nil {
			i.ResourceNameAAAA = *p.EnableResourceNameDnsAAAARecord
		}
	}
}

// mergedInput copies a request after its launch template has been merged.
func mergedInput(in *awsec2.RunInstancesInput) *awsec2.RunInstancesInput {
	c := *in
	c.LaunchTemplate, c.ClientToken, c.DryRun = nil, nil, nil
	return &c
}
