package instance

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// stateCode returns the number of a state.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceState.html
func stateCode(state string) int32 {
	switch state {
	case record.Running:
		return 16
	case record.ShuttingDown:
		return 32
	case record.Terminated:
		return 48
	case record.Stopping:
		return 64
	case record.Stopped:
		return 80
	}
	return 0
}

func sdkState(state string) *ec2types.InstanceState {
	return &ec2types.InstanceState{Name: ec2types.InstanceStateName(state), Code: aws.Int32(stateCode(state))}
}

func (s *Service) sdkInstance(sc resource.Scope, i record.Instance) ec2types.Instance {
	publicDNS := i.PublicDNSName(s.Store, sc)
	out := ec2types.Instance{
		InstanceId: aws.String(i.ID), ImageId: aws.String(i.ImageID), InstanceType: ec2types.InstanceType(i.Type),
		AmiLaunchIndex: aws.Int32(i.LaunchIndex), Architecture: ec2types.ArchitectureValues(i.Architecture),
		KeyName: resource.Optional(i.KeyName), ClientToken: aws.String(i.ClientToken), LaunchTime: aws.Time(i.LaunchTime),
		State: sdkState(i.State), StateTransitionReason: aws.String(i.TransitionReason),
		SubnetId: resource.Optional(i.SubnetID), VpcId: resource.Optional(i.VPCID),
		PrivateIpAddress: resource.Optional(i.PrivateIP), PrivateDnsName: aws.String(i.PrivateDNSName(sc.Region)),
		PublicIpAddress: resource.Optional(i.PublicIP), PublicDnsName: aws.String(publicDNS),
		Placement: &ec2types.Placement{
			AvailabilityZone: aws.String(i.Zone), AvailabilityZoneId: aws.String(i.ZoneID), GroupName: aws.String(i.PlacementGroup),
			GroupId: resource.Optional(i.PlacementGroupID), Tenancy: ec2types.Tenancy(i.Tenancy),
		},
		Monitoring: &ec2types.Monitoring{State: ec2types.MonitoringStateDisabled},
		Hypervisor: ec2types.HypervisorTypeXen, VirtualizationType: ec2types.VirtualizationTypeHvm,
		RootDeviceName: aws.String(i.RootDevice), RootDeviceType: ec2types.DeviceTypeEbs,
		EbsOptimized: aws.Bool(i.EbsOptimized), EnaSupport: aws.Bool(true), ProductCodes: []ec2types.ProductCode{},
		PlatformDetails: aws.String("Linux/UNIX"), UsageOperation: aws.String("RunInstances"), UsageOperationUpdateTime: aws.Time(i.LaunchTime),
		CapacityReservationSpecification: &ec2types.CapacityReservationSpecificationResponse{
			CapacityReservationPreference: ec2types.CapacityReservationPreference(resource.Or(i.CapacityPreference, "open")),
		},
		CpuOptions:         &ec2types.CpuOptions{CoreCount: aws.Int32(i.Cores), ThreadsPerCore: aws.Int32(i.ThreadsPerCore)},
		EnclaveOptions:     &ec2types.EnclaveOptions{Enabled: aws.Bool(false)},
		HibernationOptions: &ec2types.HibernationOptions{Configured: aws.Bool(false)},
		MaintenanceOptions: &ec2types.InstanceMaintenanceOptions{AutoRecovery: ec2types.InstanceAutoRecoveryState(resource.Or(i.AutoRecovery, "default"))},
		MetadataOptions:    i.MetadataOptions(),
		PrivateDnsNameOptions: &ec2types.PrivateDnsNameOptionsResponse{
			HostnameType: ec2types.HostnameType(i.HostnameType), EnableResourceNameDnsARecord: aws.Bool(i.ResourceNameA),
			EnableResourceNameDnsAAAARecord: aws.Bool(i.ResourceNameAAAA),
		},
		BlockDeviceMappings: []ec2types.InstanceBlockDeviceMapping{},
		SecurityGroups:      []ec2types.GroupIdentifier{},
		NetworkInterfaces:   []ec2types.InstanceNetworkInterface{},
		Tags:                i.Tags.SDK(),
		Operator:            record.OperatorSDK(i.Operator),
	}
	if i.Partition != 0 {
		out.Placement.PartitionNumber = aws.Int32(i.Partition)
	}
	out.CapacityReservationId = resource.Optional(s.capacity.Current(s.Store, sc, i.ReservedIn))
	if i.CapacityTarget != "" {
		out.CapacityReservationSpecification.CapacityReservationTarget = &ec2types.CapacityReservationTargetResponse{CapacityReservationId: aws.String(i.CapacityTarget)}
	}
	if i.Monitoring {
		out.Monitoring.State = ec2types.MonitoringStateEnabled
	}
	if i.ReasonCode != "" {
		out.StateReason = &ec2types.StateReason{Code: aws.String(i.ReasonCode), Message: aws.String(i.ReasonMessage)}
	}
	if i.SpotRequestID != "" {
		out.InstanceLifecycle, out.SpotInstanceRequestId = ec2types.InstanceLifecycleTypeSpot, aws.String(i.SpotRequestID)
	}
	if i.Profile != nil {
		out.IamInstanceProfile = &ec2types.IamInstanceProfile{Arn: aws.String(i.Profile.ARN), Id: aws.String(i.Profile.ID)}
	}
	for _, d := range i.Devices {
		out.BlockDeviceMappings = append(out.BlockDeviceMappings, ec2types.InstanceBlockDeviceMapping{
			DeviceName: aws.String(d.Name),
			Ebs: &ec2types.EbsInstanceBlockDevice{
				VolumeId: aws.String(d.VolumeID), AttachTime: aws.Time(d.Attached), Status: ec2types.AttachmentStatusAttached,
				DeleteOnTermination: aws.Bool(d.DeleteOnTermination),
			},
		})
	}
	for n, e := range i.AttachedInterfaces(s.Store, sc) {
		nic := s.sdkInstanceInterface(sc, e, publicDNS)
		if n == 0 {
			out.SecurityGroups, out.SourceDestCheck = nic.Groups, nic.SourceDestCheck
			if len(e.IPv6) > 0 {
				out.Ipv6Address = aws.String(e.IPv6[0])
			}
		}
		out.NetworkInterfaces = append(out.NetworkInterfaces, nic)
	}
	return out
}

func (s *Service) sdkInstanceInterface(sc resource.Scope, e record.NetworkInterface, publicDNS string) ec2types.InstanceNetworkInterface {
	at := e.Attachment
	out := ec2types.InstanceNetworkInterface{
		NetworkInterfaceId: aws.String(e.ID), SubnetId: aws.String(e.SubnetID), VpcId: aws.String(e.VPCID), OwnerId: aws.String(sc.Account),
		Description: aws.String(e.Description), MacAddress: aws.String(e.MAC), InterfaceType: aws.String(e.Type),
		Status: e.Status(), SourceDestCheck: aws.Bool(!e.NoSourceDestCheck), Groups: eni.GroupIdentifiers(s.Store, sc, e.Groups),
		PrivateIpAddress: resource.Optional(e.PrivateIP()), PrivateDnsName: resource.Optional(record.PrivateDNSName(sc.Region, e.PrivateIP())),
		Ipv6Addresses: []ec2types.InstanceIpv6Address{}, Association: e.InstanceAssociation(sc, e.PrivateIP(), publicDNS),
		Attachment: &ec2types.InstanceNetworkInterfaceAttachment{
			AttachmentId: aws.String(at.ID), AttachTime: aws.Time(at.Time), DeviceIndex: aws.Int32(at.DeviceIndex),
			NetworkCardIndex: aws.Int32(at.CardIndex), DeleteOnTermination: aws.Bool(at.DeleteOnTermination), Status: ec2types.AttachmentStatusAttached,
		},
		PrivateIpAddresses: make([]ec2types.InstancePrivateIpAddress, 0, len(e.Addresses)),
	}
	for _, a := range e.IPv6 {
		out.Ipv6Addresses = append(out.Ipv6Addresses, ec2types.InstanceIpv6Address{Ipv6Address: aws.String(a)})
	}
	for _, p := range e.Prefixes6 {
		out.Ipv6Prefixes = append(out.Ipv6Prefixes, ec2types.InstanceIpv6Prefix{Ipv6Prefix: aws.String(p)})
	}
	for _, p := range e.Prefixes {
		out.Ipv4Prefixes = append(out.Ipv4Prefixes, ec2types.InstanceIpv4Prefix{Ipv4Prefix: aws.String(p)})
	}
	for n, a := range e.Addresses {
		addr := ec2types.InstancePrivateIpAddress{
			PrivateIpAddress: aws.String(a), PrivateDnsName: aws.String(record.PrivateDNSName(sc.Region, a)), Primary: aws.Bool(n == 0),
			Association: e.InstanceAssociation(sc, a, publicDNS),
		}
		out.PrivateIpAddresses = append(out.PrivateIpAddresses, addr)
	}
	return out
}

// reservations groups instances, which are sorted by ID, into reservations as EC2 does.
func (s *Service) reservations(sc resource.Scope, found []record.Instance) []ec2types.Reservation {
	out := []ec2types.Reservation{}
	index := map[string]int{}
	for _, i := range found {
		n, ok := index[i.ReservationID]
		if !ok {
			n = len(out)
			index[i.ReservationID] = n
			out = append(out, ec2types.Reservation{
				ReservationId: aws.String(i.ReservationID), OwnerId: aws.String(sc.Account), RequesterId: resource.Optional(i.Requester), Groups: []ec2types.GroupIdentifier{},
			})
		}
		out[n].Instances = append(out[n].Instances, s.sdkInstance(sc, i))
	}
	return out
}

// DescribeInstances lists instances.
func (s *Service) DescribeInstances(ctx context.Context, in *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, s.instanceFields(sc), func(i record.Instance) tag.Set { return i.Tags })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := resource.CheckPageOfIDs(in.InstanceIds, "instancesSet", in.MaxResults); err != nil {
		return nil, err
	}
	if len(in.InstanceIds) == 0 && !aws.ToBool(in.IncludeManagedResources) {
		all := match
		match = func(i record.Instance) bool { return !i.Managed() && all(i) }
	}
	var found []record.Instance
	var next *string
	if len(in.InstanceIds) > 0 {
		found, err = resource.Choose(s.Store, record.Instances, sc, in.InstanceIds, match)
	} else {
		found, next, err = resource.Page(s.Store, record.Instances, sc, match, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	}
	if err != nil {
		return nil, err
	}
	return &awsec2.DescribeInstancesOutput{Reservations: s.reservations(sc, found), NextToken: next}, nil
}

// Settled reports whether no instance is changing its state.
func Settled(out *awsec2.DescribeInstancesOutput) bool {
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			switch i.State.Name {
			case record.Pending, record.Stopping, record.ShuttingDown:
				return false
			}
		}
	}
	return true
}

// DescribeInstanceStatus lists the status checks of running instances, which they always pass.
func (s *Service) DescribeInstanceStatus(ctx context.Context, in *awsec2.DescribeInstanceStatusInput) (*awsec2.DescribeInstanceStatusOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.Instance
	status := func(i v) string {
		if i.State == record.Running {
			return "ok"
		}
		return "not-applicable"
	}
	reachable := func(i v) string {
		if i.State == record.Running {
			return "passed"
		}
		return ""
	}
	found, next, err := resource.Describe(s.Store, sc, record.Instances, resource.Query{
		IDs: in.InstanceIds, Exclusive: "instancesSet", Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, filter.Fields[v]{
		"application-status.status":    filter.Never[v],
		"attached-ebs-status.status":   filter.One(status),
		"availability-zone":            filter.One(func(i v) string { return i.Zone }),
		"availability-zone-id":         filter.One(func(i v) string { return i.ZoneID }),
		"event.code":                   filter.Never[v],
		"event.description":            filter.Never[v],
		"event.instance-event-id":      filter.Never[v],
		"event.not-after":              filter.Never[v],
		"event.not-before":             filter.Never[v],
		"event.not-before-deadline":    filter.Never[v],
		"instance-state-code":          func(i v) []string { return []string{strconv.Itoa(int(stateCode(i.State)))} },
		"instance-state-name":          filter.One(func(i v) string { return i.State }),
		"instance-status.reachability": filter.One(reachable),
		"instance-status.status":       filter.One(status),
		"operator.managed":             filter.Flag(v.Managed),
		"operator.principal":           filter.One(func(i v) string { return i.Operator }),
		"system-status.reachability":   filter.One(reachable),
		"system-status.status":         filter.One(status),
	}, func(i v) bool {
		hidden := i.Managed() && len(in.InstanceIds) == 0 && !aws.ToBool(in.IncludeManagedResources)
		return !hidden && (i.State == record.Running || aws.ToBool(in.IncludeAllInstances))
	})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeInstanceStatusOutput{NextToken: next, InstanceStatuses: []ec2types.InstanceStatus{}}
	for _, i := range found {
		summary := func() *ec2types.InstanceStatusSummary {
			sum := &ec2types.InstanceStatusSummary{Status: ec2types.SummaryStatus(status(i)), Details: []ec2types.InstanceStatusDetails{}}
			if r := reachable(i); r != "" {
				sum.Details = append(sum.Details, ec2types.InstanceStatusDetails{Name: ec2types.StatusNameReachability, Status: ec2types.StatusType(r)})
			}
			return sum
		}
		out.InstanceStatuses = append(out.InstanceStatuses, ec2types.InstanceStatus{
			InstanceId: aws.String(i.ID), AvailabilityZone: aws.String(i.Zone), AvailabilityZoneId: aws.String(i.ZoneID),
			InstanceState: sdkState(i.State), InstanceStatus: summary(), SystemStatus: summary(), Operator: record.OperatorSDK(i.Operator),
		})
	}
	return out, nil
}

// StatusSettled reports whether there is a status to show.
func StatusSettled(out *awsec2.DescribeInstanceStatusOutput) bool {
	return len(out.InstanceStatuses) > 0
}

func (s *Service) instanceFields(sc resource.Scope) filter.Fields[record.Instance] {
	type v = record.Instance
	constant := func(s string) func(v) []string { return func(v) []string { return []string{s} } }
	devices := func(get func(record.BlockDevice) string) func(v) []string {
		return func(i v) []string {
			var out []string
			for _, d := range i.Devices {
				out = append(out, get(d))
			}
			return out
		}
	}
	primary := func(get func(record.NetworkInterface) []string) func(v) []string {
		return func(i v) []string {
			if all := i.AttachedInterfaces(s.Store, sc); len(all) > 0 {
				return get(all[0])
			}
			return nil
		}
	}
	names := func(e record.NetworkInterface) []string {
		var out []string
		for _, g := range eni.GroupIdentifiers(s.Store, sc, e.Groups) {
			out = append(out, *g.GroupName)
		}
		return out
	}
	groups := func(e record.NetworkInterface) []string { return e.Groups }
	out := filter.Fields[v]{
		"affinity":                                   filter.Never[v],
		"architecture":                               filter.One(func(i v) string { return i.Architecture }),
		"availability-zone":                          filter.One(func(i v) string { return i.Zone }),
		"availability-zone-id":                       filter.One(func(i v) string { return i.ZoneID }),
		"block-device-mapping.attach-time":           devices(func(d record.BlockDevice) string { return resource.TimeText(d.Attached) }),
		"block-device-mapping.delete-on-termination": devices(func(d record.BlockDevice) string { return strconv.FormatBool(d.DeleteOnTermination) }),
		"block-device-mapping.device-name":           devices(func(d record.BlockDevice) string { return d.Name }),
		"block-device-mapping.status":                devices(func(record.BlockDevice) string { return "attached" }),
		"block-device-mapping.volume-id":             devices(func(d record.BlockDevice) string { return d.VolumeID }),
		"boot-mode":                                  filter.Never[v],
		"current-instance-boot-mode":                 filter.Never[v],
		"capacity-reservation-id":                    filter.Never[v],
		"capacity-reservation-specification.capacity-reservation-preference": filter.One(func(i v) string { return resource.Or(i.CapacityPreference, "open") }),
		"client-token":                   filter.One(func(i v) string { return i.ClientToken }),
		"dns-name":                       filter.One(func(i v) string { return i.PublicDNSName(s.Store, sc) }),
		"ebs-optimized":                  filter.Flag(func(i v) bool { return i.EbsOptimized }),
		"ena-support":                    constant("true"),
		"enclave-options.enabled":        constant("false"),
		"group-id":                       primary(groups),
		"group-name":                     primary(names),
		"hibernation-options.configured": constant("false"),
		"host-id":                        filter.Never[v],
		"hypervisor":                     constant("xen"),
		"iam-instance-profile.arn": filter.One(func(i v) string {
			if i.Profile == nil {
				return ""
			}
			return i.Profile.ARN
		}),
		"iam-instance-profile.id": filter.One(func(i v) string {
			if i.Profile == nil {
				return ""
			}
			return i.Profile.ID
		}),
		"image-id":    filter.One(func(i v) string { return i.ImageID }),
		"instance-id": filter.One(func(i v) string { return i.ID }),
		"instance-lifecycle": filter.One(func(i v) string {
			if i.SpotRequestID == "" {
				return ""
			}
			return "spot"
		}),
		"instance-state-code": func(i v) []string { return []string{strconv.Itoa(int(stateCode(i.State)))} },
		"instance-state-name": filter.One(func(i v) string { return i.State }),
		"instance-type":       filter.One(func(i v) string { return i.Type }),
		"instance.group-id":   primary(groups),
		"instance.group-name": primary(names),
		"ip-address":          filter.One(func(i v) string { return i.PublicIP }),
		"ipv6-address": func(i v) []string {
			var out []string
			for _, e := range i.AttachedInterfaces(s.Store, sc) {
				out = append(out, e.IPv6...)
			}
			return out
		},
		"kernel-id":                                       filter.Never[v],
		"key-name":                                        filter.One(func(i v) string { return i.KeyName }),
		"launch-index":                                    func(i v) []string { return []string{strconv.Itoa(int(i.LaunchIndex))} },
		"launch-time":                                     filter.One(func(i v) string { return resource.TimeText(i.LaunchTime) }),
		"maintenance-options.auto-recovery":               filter.One(func(i v) string { return resource.Or(i.AutoRecovery, "default") }),
		"metadata-options.http-endpoint":                  filter.One(func(i v) string { return i.MetadataEndpoint }),
		"metadata-options.http-protocol-ipv4":             constant("enabled"),
		"metadata-options.http-protocol-ipv6":             filter.One(func(i v) string { return i.MetadataIPv6 }),
		"metadata-options.http-put-response-hop-limit":    func(i v) []string { return []string{strconv.Itoa(int(i.HopLimit))} },
		"metadata-options.http-tokens":                    filter.One(func(i v) string { return i.Tokens }),
		"metadata-options.state":                          constant("applied"),
		"network-performance-options.bandwidth-weighting": constant("default"),
		"metadata-options.instance-metadata-tags":         filter.One(func(i v) string { return i.MetadataTags }),
		"monitoring-state": filter.One(func(i v) string {
			if i.Monitoring {
				return "enabled"
			}
			return "disabled"
		}),
		"operator.managed":           filter.Flag(v.Managed),
		"operator.principal":         filter.One(func(i v) string { return i.Operator }),
		"outpost-arn":                filter.Never[v],
		"owner-id":                   constant(sc.Account),
		"placement-group-name":       filter.Never[v],
		"placement-partition-number": filter.Never[v],
		"platform":                   filter.Never[v],
		"platform-details":           constant("Linux/UNIX"),
		"private-dns-name":           filter.One(func(i v) string { return i.PrivateDNSName(sc.Region) }),
		"private-dns-name-options.enable-resource-name-dns-a-record":    filter.Flag(func(i v) bool { return i.ResourceNameA }),
		"private-dns-name-options.enable-resource-name-dns-aaaa-record": filter.Flag(func(i v) bool { return i.ResourceNameAAAA }),
		"private-dns-name-options.hostname-type":                        filter.One(func(i v) string { return i.HostnameType }),
		"private-ip-address":                                            filter.One(func(i v) string { return i.PrivateIP }),
		"product-code":                                                  filter.Never[v],
		"product-code.type":                                             filter.Never[v],
		"ramdisk-id":                                                    filter.Never[v],
		"reason":                                                        filter.One(func(i v) string { return i.TransitionReason }),
		"requester-id":                                                  filter.One(func(i v) string { return i.Requester }),
		"reservation-id":                                                filter.One(func(i v) string { return i.ReservationID }),
		"root-device-name":                                              filter.One(func(i v) string { return i.RootDevice }),
		"root-device-type":                                              constant("ebs"),
		"source-dest-check":                                             primary(func(e record.NetworkInterface) []string { return []string{strconv.FormatBool(!e.NoSourceDestCheck)} }),
		"spot-instance-request-id":                                      filter.One(func(i v) string { return i.SpotRequestID }),
		"state-reason-code":                                             filter.One(func(i v) string { return i.ReasonCode }),
		"state-reason-message":                                          filter.One(func(i v) string { return i.ReasonMessage }),
		"subnet-id":                                                     filter.One(func(i v) string { return i.SubnetID }),
		"tenancy":                                                       filter.One(func(i v) string { return i.Tenancy }),
		"tpm-support":                                                   filter.Never[v],
		"usage-operation":                                               constant("RunInstances"),
		"usage-operation-update-time":                                   filter.One(func(i v) string { return resource.TimeText(i.LaunchTime) }),
		"virtualization-type":                                           constant("hvm"),
		"vpc-id":                                                        filter.One(func(i v) string { return i.VPCID }),
	}
	s.addInterfaceFields(sc, out)
	return out
}

// stateText formats a transition as EC2 does: "User initiated (2026-11-21 09:30:00 GMT)".
func stateText(t time.Time) string {
	return "User initiated (" + strings.TrimSuffix(t.UTC().Format("2006-01-02 15:04:05 MST"), "UTC") + "GMT)"
}
