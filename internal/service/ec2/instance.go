package ec2

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// The states of an instance.
const (
	statePending      = "pending"
	stateRunning      = "running"
	stateShuttingDown = "shutting-down"
	stateTerminated   = "terminated"
	stateStopping     = "stopping"
	stateStopped      = "stopped"
)

// An instanceRecord is one instance. Of its interfaces it keeps the IDs; they are
// records of their own.
type instanceRecord struct {
	ID            string
	ReservationID string
	Requester     string `json:",omitempty"` // the AWS service that launched it
	LaunchIndex   int32  `json:",omitempty"`
	ImageID       string
	Type          string
	Architecture  string
	RootDevice    string
	KeyName       string `json:",omitempty"`
	ClientToken   string `json:",omitempty"`
	LaunchTime    time.Time

	State            string
	Since            time.Time // of the state
	ReasonCode       string    `json:",omitempty"`
	ReasonMessage    string    `json:",omitempty"`
	TransitionReason string    `json:",omitempty"`
	// Boot counts the boots: a reboot raises it.
	Boot int `json:",omitempty"`

	VPCID, SubnetID string `json:",omitempty"`
	Zone, ZoneID    string
	PrivateIP       string   `json:",omitempty"`
	PublicIP        string   `json:",omitempty"`
	AutoPublic      bool     `json:",omitempty"` // gets a public address whenever it starts
	Interfaces      []string `json:",omitempty"`

	Profile  *instanceProfile `json:",omitempty"`
	UserData string           `json:",omitempty"` // base64
	Devices  []blockDevice    `json:",omitempty"`

	Tokens           string `json:",omitempty"` // metadata: optional, required
	HopLimit         int32  `json:",omitempty"`
	MetadataEndpoint string `json:",omitempty"`
	MetadataTags     string `json:",omitempty"`
	MetadataIPv6     string `json:",omitempty"`

	Monitoring         bool    `json:",omitempty"`
	EbsOptimized       bool    `json:",omitempty"`
	DisableTermination bool    `json:",omitempty"`
	DisableStop        bool    `json:",omitempty"`
	ShutdownBehavior   string  `json:",omitempty"`
	SpotRequestID      string  `json:",omitempty"` // set: a spot instance
	SpotPersistent     bool    `json:",omitempty"` // its request is persistent
	FleetID            string  `json:",omitempty"` // the EC2 Fleet that launched it
	FleetWeight        float64 `json:",omitempty"` // the units of its capacity this is
	Cores              int32   `json:",omitempty"`
	ThreadsPerCore     int32   `json:",omitempty"`
	AutoRecovery       string  `json:",omitempty"`
	CapacityPreference string  `json:",omitempty"` // of capacity reservations: open, none
	Tenancy            string  `json:",omitempty"`
	CPUCredits         string  `json:",omitempty"`
	HostnameType       string  `json:",omitempty"`
	ResourceNameA      bool    `json:",omitempty"`
	ResourceNameAAAA   bool    `json:",omitempty"`
	Tags               Tags    `json:",omitempty"`
}

type instanceProfile struct {
	ARN, ID, RoleARN string
	AssociationID    string
}

// A blockDevice attaches a volume, which is a record of its own.
type blockDevice struct {
	Name                string
	VolumeID            string
	DeleteOnTermination bool `json:",omitempty"`
	Attached            time.Time
}

// stateCode is the number that goes with a state.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceState.html
func stateCode(state string) int32 {
	switch state {
	case stateRunning:
		return 16
	case stateShuttingDown:
		return 32
	case stateTerminated:
		return 48
	case stateStopping:
		return 64
	case stateStopped:
		return 80
	}
	return 0
}

func sdkState(state string) *ec2types.InstanceState {
	return &ec2types.InstanceState{Name: ec2types.InstanceStateName(state), Code: aws.Int32(stateCode(state))}
}

// privateDNSName is the name of the instance inside its VPC; empty when it has no
// address any more.
func (i instanceRecord) privateDNSName(region string) string {
	switch {
	case i.PrivateIP == "":
		return ""
	case i.HostnameType == "resource-name":
		return i.ID + "." + internalDomain(region)
	}
	return privateDNSName(region, i.PrivateIP)
}

// publicDNSName is empty unless the instance has a public address in a VPC with
// DNS hostnames.
func (i instanceRecord) publicDNSName(r store.Reader, sc scope) string {
	if i.PublicIP == "" {
		return ""
	}
	v, err := vpcs.Get(r, sc.key(i.VPCID))
	if err != nil || !v.DNSHostnames || v.NoDNSSupport {
		return ""
	}
	return publicDNSName(sc.region, i.PublicIP)
}

// interfaces returns the instance's interfaces by device index.
func (i instanceRecord) interfaces(r store.Reader, sc scope) []networkInterfaceRecord {
	out := make([]networkInterfaceRecord, 0, len(i.Interfaces))
	for _, id := range i.Interfaces {
		if e, err := networkInterfaces.Get(r, sc.key(id)); err == nil {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b networkInterfaceRecord) int {
		return int(a.Attachment.DeviceIndex - b.Attachment.DeviceIndex)
	})
	return out
}

func (i instanceRecord) metadataOptions() *ec2types.InstanceMetadataOptionsResponse {
	return &ec2types.InstanceMetadataOptionsResponse{
		State: ec2types.InstanceMetadataOptionsStateApplied, HttpTokens: ec2types.HttpTokensState(i.Tokens),
		HttpPutResponseHopLimit: aws.Int32(i.HopLimit), HttpEndpoint: ec2types.InstanceMetadataEndpointState(i.MetadataEndpoint),
		HttpProtocolIpv6: ec2types.InstanceMetadataProtocolState(i.MetadataIPv6), InstanceMetadataTags: ec2types.InstanceMetadataTagsState(i.MetadataTags),
	}
}

func (s *Service) sdkInstance(sc scope, i instanceRecord) ec2types.Instance {
	publicDNS := i.publicDNSName(s.store, sc)
	out := ec2types.Instance{
		InstanceId: aws.String(i.ID), ImageId: aws.String(i.ImageID), InstanceType: ec2types.InstanceType(i.Type),
		AmiLaunchIndex: aws.Int32(i.LaunchIndex), Architecture: ec2types.ArchitectureValues(i.Architecture),
		KeyName: optional(i.KeyName), ClientToken: aws.String(i.ClientToken), LaunchTime: aws.Time(i.LaunchTime),
		State: sdkState(i.State), StateTransitionReason: aws.String(i.TransitionReason),
		SubnetId: optional(i.SubnetID), VpcId: optional(i.VPCID),
		PrivateIpAddress: optional(i.PrivateIP), PrivateDnsName: aws.String(i.privateDNSName(sc.region)),
		PublicIpAddress: optional(i.PublicIP), PublicDnsName: aws.String(publicDNS),
		Placement: &ec2types.Placement{
			AvailabilityZone: aws.String(i.Zone), AvailabilityZoneId: aws.String(i.ZoneID), GroupName: aws.String(""), Tenancy: ec2types.Tenancy(i.Tenancy),
		},
		Monitoring: &ec2types.Monitoring{State: ec2types.MonitoringStateDisabled},
		Hypervisor: ec2types.HypervisorTypeXen, VirtualizationType: ec2types.VirtualizationTypeHvm,
		RootDeviceName: aws.String(i.RootDevice), RootDeviceType: ec2types.DeviceTypeEbs,
		EbsOptimized: aws.Bool(i.EbsOptimized), EnaSupport: aws.Bool(true), ProductCodes: []ec2types.ProductCode{},
		PlatformDetails: aws.String("Linux/UNIX"), UsageOperation: aws.String("RunInstances"), UsageOperationUpdateTime: aws.Time(i.LaunchTime),
		CapacityReservationSpecification: &ec2types.CapacityReservationSpecificationResponse{
			CapacityReservationPreference: ec2types.CapacityReservationPreference(or(i.CapacityPreference, "open")),
		},
		CpuOptions:         &ec2types.CpuOptions{CoreCount: aws.Int32(i.Cores), ThreadsPerCore: aws.Int32(i.ThreadsPerCore)},
		EnclaveOptions:     &ec2types.EnclaveOptions{Enabled: aws.Bool(false)},
		HibernationOptions: &ec2types.HibernationOptions{Configured: aws.Bool(false)},
		MaintenanceOptions: &ec2types.InstanceMaintenanceOptions{AutoRecovery: ec2types.InstanceAutoRecoveryState(or(i.AutoRecovery, "default"))},
		MetadataOptions:    i.metadataOptions(),
		PrivateDnsNameOptions: &ec2types.PrivateDnsNameOptionsResponse{
			HostnameType: ec2types.HostnameType(i.HostnameType), EnableResourceNameDnsARecord: aws.Bool(i.ResourceNameA),
			EnableResourceNameDnsAAAARecord: aws.Bool(i.ResourceNameAAAA),
		},
		BlockDeviceMappings: []ec2types.InstanceBlockDeviceMapping{},
		SecurityGroups:      []ec2types.GroupIdentifier{},
		NetworkInterfaces:   []ec2types.InstanceNetworkInterface{},
		Tags:                i.Tags.sdk(),
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
	for n, e := range i.interfaces(s.store, sc) {
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

func (s *Service) sdkInstanceInterface(sc scope, e networkInterfaceRecord, publicDNS string) ec2types.InstanceNetworkInterface {
	at := e.Attachment
	out := ec2types.InstanceNetworkInterface{
		NetworkInterfaceId: aws.String(e.ID), SubnetId: aws.String(e.SubnetID), VpcId: aws.String(e.VPCID), OwnerId: aws.String(sc.account),
		Description: aws.String(e.Description), MacAddress: aws.String(e.MAC), InterfaceType: aws.String(e.Type),
		Status: e.status(), SourceDestCheck: aws.Bool(!e.NoSourceDestCheck), Groups: groupIdentifiers(s.store, sc, e.Groups),
		PrivateIpAddress: aws.String(e.Addresses[0]), PrivateDnsName: aws.String(privateDNSName(sc.region, e.Addresses[0])),
		Ipv6Addresses: []ec2types.InstanceIpv6Address{}, Association: e.instanceAssociation(sc, e.Addresses[0], publicDNS),
		Attachment: &ec2types.InstanceNetworkInterfaceAttachment{
			AttachmentId: aws.String(at.ID), AttachTime: aws.Time(at.Time), DeviceIndex: aws.Int32(at.DeviceIndex),
			NetworkCardIndex: aws.Int32(at.CardIndex), DeleteOnTermination: aws.Bool(at.DeleteOnTermination), Status: ec2types.AttachmentStatusAttached,
		},
		PrivateIpAddresses: make([]ec2types.InstancePrivateIpAddress, 0, len(e.Addresses)),
	}
	for _, a := range e.IPv6 {
		out.Ipv6Addresses = append(out.Ipv6Addresses, ec2types.InstanceIpv6Address{Ipv6Address: aws.String(a)})
	}
	for _, p := range e.Prefixes {
		out.Ipv4Prefixes = append(out.Ipv4Prefixes, ec2types.InstanceIpv4Prefix{Ipv4Prefix: aws.String(p)})
	}
	for n, a := range e.Addresses {
		addr := ec2types.InstancePrivateIpAddress{
			PrivateIpAddress: aws.String(a), PrivateDnsName: aws.String(privateDNSName(sc.region, a)), Primary: aws.Bool(n == 0),
			Association: e.instanceAssociation(sc, a, publicDNS),
		}
		out.PrivateIpAddresses = append(out.PrivateIpAddresses, addr)
	}
	return out
}

// reservations groups instances, which are sorted by ID, as EC2 answers them.
func (s *Service) reservations(sc scope, found []instanceRecord) []ec2types.Reservation {
	out := []ec2types.Reservation{}
	index := map[string]int{}
	for _, i := range found {
		n, ok := index[i.ReservationID]
		if !ok {
			n = len(out)
			index[i.ReservationID] = n
			out = append(out, ec2types.Reservation{
				ReservationId: aws.String(i.ReservationID), OwnerId: aws.String(sc.account), RequesterId: optional(i.Requester), Groups: []ec2types.GroupIdentifier{},
			})
		}
		out[n].Instances = append(out[n].Instances, s.sdkInstance(sc, i))
	}
	return out
}

// DescribeInstances lists instances.
func (s *Service) DescribeInstances(ctx context.Context, in *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, s.instanceFields(sc), func(i instanceRecord) Tags { return i.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := checkPageOfIDs(in.InstanceIds, "instancesSet", in.MaxResults); err != nil {
		return nil, err
	}
	var found []instanceRecord
	var next *string
	if len(in.InstanceIds) > 0 {
		found, err = choose(s.store, instances, sc, instanceID, in.InstanceIds, match)
	} else {
		found, next, err = page(s.store, instances, sc, match, in.MaxResults, in.NextToken, limits{5, 1000})
	}
	if err != nil {
		return nil, err
	}
	return &awsec2.DescribeInstancesOutput{Reservations: s.reservations(sc, found), NextToken: next}, nil
}

// instancesSettled is false while any instance changes its state.
func instancesSettled(out *awsec2.DescribeInstancesOutput) bool {
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			switch i.State.Name {
			case statePending, stateStopping, stateShuttingDown:
				return false
			}
		}
	}
	return true
}

// DescribeInstanceStatus lists the status checks of running instances. A running
// instance passes them.
func (s *Service) DescribeInstanceStatus(ctx context.Context, in *awsec2.DescribeInstanceStatusInput) (*awsec2.DescribeInstanceStatusOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	type v = instanceRecord
	status := func(i v) string {
		if i.State == stateRunning {
			return "ok"
		}
		return "not-applicable"
	}
	reachable := func(i v) string {
		if i.State == stateRunning {
			return "passed"
		}
		return ""
	}
	match, err := compileFilters(in.Filters, fields[v]{
		"application-status.status":    never[v],
		"attached-ebs-status.status":   one(status),
		"availability-zone":            one(func(i v) string { return i.Zone }),
		"availability-zone-id":         one(func(i v) string { return i.ZoneID }),
		"event.code":                   never[v],
		"event.description":            never[v],
		"event.instance-event-id":      never[v],
		"event.not-after":              never[v],
		"event.not-before":             never[v],
		"event.not-before-deadline":    never[v],
		"instance-state-code":          func(i v) []string { return []string{strconv.Itoa(int(stateCode(i.State)))} },
		"instance-state-name":          one(func(i v) string { return i.State }),
		"instance-status.reachability": one(reachable),
		"instance-status.status":       one(status),
		"operator.managed":             flag(func(v) bool { return false }),
		"operator.principal":           never[v],
		"system-status.reachability":   one(reachable),
		"system-status.status":         one(status),
	}, func(i v) Tags { return i.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := checkPageOfIDs(in.InstanceIds, "instancesSet", in.MaxResults); err != nil {
		return nil, err
	}
	found, err := choose(s.store, instances, sc, instanceID, in.InstanceIds, func(i v) bool {
		return (i.State == stateRunning || aws.ToBool(in.IncludeAllInstances)) && match(i)
	})
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(i v) string { return i.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
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
			InstanceState: sdkState(i.State), InstanceStatus: summary(), SystemStatus: summary(),
		})
	}
	return out, nil
}

func statusSettled(out *awsec2.DescribeInstanceStatusOutput) bool {
	return len(out.InstanceStatuses) > 0
}

func (s *Service) instanceFields(sc scope) fields[instanceRecord] {
	type v = instanceRecord
	constant := func(s string) func(v) []string { return func(v) []string { return []string{s} } }
	devices := func(get func(blockDevice) string) func(v) []string {
		return func(i v) []string {
			var out []string
			for _, d := range i.Devices {
				out = append(out, get(d))
			}
			return out
		}
	}
	primary := func(get func(networkInterfaceRecord) []string) func(v) []string {
		return func(i v) []string {
			if all := i.interfaces(s.store, sc); len(all) > 0 {
				return get(all[0])
			}
			return nil
		}
	}
	names := func(e networkInterfaceRecord) []string {
		var out []string
		for _, g := range groupIdentifiers(s.store, sc, e.Groups) {
			out = append(out, *g.GroupName)
		}
		return out
	}
	groups := func(e networkInterfaceRecord) []string { return e.Groups }
	out := fields[v]{
		"affinity":                                   never[v],
		"architecture":                               one(func(i v) string { return i.Architecture }),
		"availability-zone":                          one(func(i v) string { return i.Zone }),
		"availability-zone-id":                       one(func(i v) string { return i.ZoneID }),
		"block-device-mapping.attach-time":           devices(func(d blockDevice) string { return timeText(d.Attached) }),
		"block-device-mapping.delete-on-termination": devices(func(d blockDevice) string { return strconv.FormatBool(d.DeleteOnTermination) }),
		"block-device-mapping.device-name":           devices(func(d blockDevice) string { return d.Name }),
		"block-device-mapping.status":                devices(func(blockDevice) string { return "attached" }),
		"block-device-mapping.volume-id":             devices(func(d blockDevice) string { return d.VolumeID }),
		"boot-mode":                                  never[v],
		"current-instance-boot-mode":                 never[v],
		"capacity-reservation-id":                    never[v],
		"capacity-reservation-specification.capacity-reservation-preference": one(func(i v) string { return or(i.CapacityPreference, "open") }),
		"client-token":                   one(func(i v) string { return i.ClientToken }),
		"dns-name":                       one(func(i v) string { return i.publicDNSName(s.store, sc) }),
		"ebs-optimized":                  flag(func(i v) bool { return i.EbsOptimized }),
		"ena-support":                    constant("true"),
		"enclave-options.enabled":        constant("false"),
		"group-id":                       primary(groups),
		"group-name":                     primary(names),
		"hibernation-options.configured": constant("false"),
		"host-id":                        never[v],
		"hypervisor":                     constant("xen"),
		"iam-instance-profile.arn": one(func(i v) string {
			if i.Profile == nil {
				return ""
			}
			return i.Profile.ARN
		}),
		"iam-instance-profile.id": one(func(i v) string {
			if i.Profile == nil {
				return ""
			}
			return i.Profile.ID
		}),
		"image-id":    one(func(i v) string { return i.ImageID }),
		"instance-id": one(func(i v) string { return i.ID }),
		"instance-lifecycle": one(func(i v) string {
			if i.SpotRequestID == "" {
				return ""
			}
			return "spot"
		}),
		"instance-state-code": func(i v) []string { return []string{strconv.Itoa(int(stateCode(i.State)))} },
		"instance-state-name": one(func(i v) string { return i.State }),
		"instance-type":       one(func(i v) string { return i.Type }),
		"instance.group-id":   primary(groups),
		"instance.group-name": primary(names),
		"ip-address":          one(func(i v) string { return i.PublicIP }),
		"ipv6-address": func(i v) []string {
			var out []string
			for _, e := range i.interfaces(s.store, sc) {
				out = append(out, e.IPv6...)
			}
			return out
		},
		"kernel-id":                                       never[v],
		"key-name":                                        one(func(i v) string { return i.KeyName }),
		"launch-index":                                    func(i v) []string { return []string{strconv.Itoa(int(i.LaunchIndex))} },
		"launch-time":                                     one(func(i v) string { return timeText(i.LaunchTime) }),
		"maintenance-options.auto-recovery":               one(func(i v) string { return or(i.AutoRecovery, "default") }),
		"metadata-options.http-endpoint":                  one(func(i v) string { return i.MetadataEndpoint }),
		"metadata-options.http-protocol-ipv4":             constant("enabled"),
		"metadata-options.http-protocol-ipv6":             one(func(i v) string { return i.MetadataIPv6 }),
		"metadata-options.http-put-response-hop-limit":    func(i v) []string { return []string{strconv.Itoa(int(i.HopLimit))} },
		"metadata-options.http-tokens":                    one(func(i v) string { return i.Tokens }),
		"metadata-options.state":                          constant("applied"),
		"network-performance-options.bandwidth-weighting": constant("default"),
		"metadata-options.instance-metadata-tags":         one(func(i v) string { return i.MetadataTags }),
		"monitoring-state": one(func(i v) string {
			if i.Monitoring {
				return "enabled"
			}
			return "disabled"
		}),
		"operator.managed":           constant("false"),
		"operator.principal":         never[v],
		"outpost-arn":                never[v],
		"owner-id":                   constant(sc.account),
		"placement-group-name":       never[v],
		"placement-partition-number": never[v],
		"platform":                   never[v],
		"platform-details":           constant("Linux/UNIX"),
		"private-dns-name":           one(func(i v) string { return i.privateDNSName(sc.region) }),
		"private-dns-name-options.enable-resource-name-dns-a-record":    flag(func(i v) bool { return i.ResourceNameA }),
		"private-dns-name-options.enable-resource-name-dns-aaaa-record": flag(func(i v) bool { return i.ResourceNameAAAA }),
		"private-dns-name-options.hostname-type":                        one(func(i v) string { return i.HostnameType }),
		"private-ip-address":                                            one(func(i v) string { return i.PrivateIP }),
		"product-code":                                                  never[v],
		"product-code.type":                                             never[v],
		"ramdisk-id":                                                    never[v],
		"reason":                                                        one(func(i v) string { return i.TransitionReason }),
		"requester-id":                                                  one(func(i v) string { return i.Requester }),
		"reservation-id":                                                one(func(i v) string { return i.ReservationID }),
		"root-device-name":                                              one(func(i v) string { return i.RootDevice }),
		"root-device-type":                                              constant("ebs"),
		"source-dest-check":                                             primary(func(e networkInterfaceRecord) []string { return []string{strconv.FormatBool(!e.NoSourceDestCheck)} }),
		"spot-instance-request-id":                                      one(func(i v) string { return i.SpotRequestID }),
		"state-reason-code":                                             one(func(i v) string { return i.ReasonCode }),
		"state-reason-message":                                          one(func(i v) string { return i.ReasonMessage }),
		"subnet-id":                                                     one(func(i v) string { return i.SubnetID }),
		"tenancy":                                                       one(func(i v) string { return i.Tenancy }),
		"tpm-support":                                                   never[v],
		"usage-operation":                                               constant("RunInstances"),
		"usage-operation-update-time":                                   one(func(i v) string { return timeText(i.LaunchTime) }),
		"virtualization-type":                                           constant("hvm"),
		"vpc-id":                                                        one(func(i v) string { return i.VPCID }),
	}
	s.addInterfaceFields(sc, out)
	return out
}

// stateText spells a transition as EC2 does: "User initiated (2026-11-21 09:30:00 GMT)".
func stateText(t time.Time) string {
	return "User initiated (" + strings.TrimSuffix(t.UTC().Format("2006-01-02 15:04:05 MST"), "UTC") + "GMT)"
}
