package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/capacity"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/keypair"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/placement"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// RunMembers are the members that RunInstances supports. Launching from a launch template with
// other members is refused.
const RunMembers = `BlockDeviceMappings.DeviceName BlockDeviceMappings.Ebs.DeleteOnTermination BlockDeviceMappings.Ebs.Encrypted
	BlockDeviceMappings.Ebs.Iops BlockDeviceMappings.Ebs.KmsKeyId BlockDeviceMappings.Ebs.SnapshotId BlockDeviceMappings.Ebs.Throughput
	BlockDeviceMappings.Ebs.VolumeSize BlockDeviceMappings.Ebs.VolumeType BlockDeviceMappings.NoDevice
	CapacityReservationSpecification.CapacityReservationPreference
	CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId ClientToken CpuOptions.CoreCount CpuOptions.ThreadsPerCore
	CreditSpecification DisableApiStop DisableApiTermination DryRun EbsOptimized EnclaveOptions.Enabled HibernationOptions.Configured
	IamInstanceProfile ImageId InstanceInitiatedShutdownBehavior InstanceMarketOptions.MarketType
	InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior InstanceMarketOptions.SpotOptions.MaxPrice
	InstanceMarketOptions.SpotOptions.SpotInstanceType InstanceMarketOptions.SpotOptions.ValidUntil InstanceType
	Ipv6AddressCount Ipv6Addresses KeyName LaunchTemplate
	MaintenanceOptions.AutoRecovery MaxCount MetadataOptions MinCount Monitoring Operator.Principal
	NetworkInterfaces.AssociatePublicIpAddress NetworkInterfaces.DeleteOnTermination NetworkInterfaces.Description
	NetworkInterfaces.DeviceIndex NetworkInterfaces.Groups NetworkInterfaces.InterfaceType NetworkInterfaces.NetworkCardIndex
	NetworkInterfaces.Ipv4PrefixCount NetworkInterfaces.Ipv4Prefixes NetworkInterfaces.Ipv6AddressCount NetworkInterfaces.Ipv6Addresses NetworkInterfaces.Ipv6PrefixCount NetworkInterfaces.Ipv6Prefixes
	NetworkInterfaces.NetworkInterfaceId NetworkInterfaces.PrivateIpAddress NetworkInterfaces.PrivateIpAddresses
	NetworkInterfaces.SecondaryPrivateIpAddressCount NetworkInterfaces.SubnetId
	Placement.AvailabilityZone Placement.AvailabilityZoneId Placement.GroupId Placement.GroupName Placement.PartitionNumber Placement.Tenancy PrivateDnsNameOptions PrivateIpAddress
	SecurityGroupIds SecurityGroups SubnetId TagSpecifications UserData`

// A launch is a validated RunInstances request.
type launch struct {
	in       *awsec2.RunInstancesInput // merged with its launch template
	template *launchtemplate.Template
	version  int64
	image    images.Image
	typ      instancetypes.Type
	profile  *record.InstanceProfile
	subnet   record.Subnet
	nics     []launchInterface
	devices  []storage.DeviceSpec
	tags     tag.Set
	eniTags  tag.Set
	volTags  tag.Set
	spotTags tag.Set
	min, max int
	// cores and threads per core: the instance type's, unless the request sets them.
	cores, threads int32
	spot           *spotSpec        // nil for On-Demand
	group          *placement.Group // or nil
	reserved       capacity.Want
	purpose
	// requester is the AWS service that launches on behalf of a user, or empty.
	requester string
	// operator is the service that will manage the instances, or empty.
	operator string
}

// A purpose is what EC2 itself calls RunInstances for, which no member of the request says.
// The zero purpose is a user's.
type purpose struct {
	fleet  string  // its ID
	weight float64 // the units of the fleet's capacity that an instance is
	// spotRequest is the persistent request to fulfill again.
	spotRequest string
}

type purposeKey struct{}

func (p purpose) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, purposeKey{}, p)
}

// ForFleet returns a context in which RunInstances launches for a fleet. An instance is
// weight units of its capacity.
func ForFleet(ctx context.Context, fleet string, weight float64) context.Context {
	return purpose{fleet: fleet, weight: weight}.in(ctx)
}

type launchInterface struct {
	existing            string // eni-… of an existing interface
	spec                eni.Spec
	device, card        int32
	public              *bool // nil means the subnet's default
	deleteOnTermination bool
}

// mergeTemplate returns the request with missing values filled in from its launch template. Block
// devices are merged by name, tags by key.
func (s *Service) mergeTemplate(ctx context.Context, sc resource.Scope, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesInput, *launchtemplate.Template, int64, error) {
	if in.LaunchTemplate == nil {
		return in, nil, 0, nil
	}
	t, err := launchtemplate.Find(s.Store, sc, in.LaunchTemplate.LaunchTemplateId, in.LaunchTemplate.LaunchTemplateName)
	if err != nil {
		return nil, nil, 0, err
	}
	n, err := t.Version(aws.ToString(in.LaunchTemplate.Version))
	if err != nil {
		return nil, nil, 0, err
	}
	v, err := launchtemplate.GetVersion(s.Store, sc, t, n)
	if err != nil {
		return nil, nil, 0, err
	}
	if err := checkTemplateMembers(v.Data); err != nil {
		return nil, nil, 0, err
	}
	var base awsec2.RunInstancesInput
	if err := json.Unmarshal(v.Data, &base); err != nil {
		return nil, nil, 0, fmt.Errorf("launch template %s version %d: %w", t.ID, n, err)
	}
	given, err := launchtemplate.CompactJSON(in)
	if err != nil {
		return nil, nil, 0, err
	}
	merged, err := launchtemplate.OverlayJSON(v.Data, given)
	if err != nil {
		return nil, nil, 0, err
	}
	out := new(awsec2.RunInstancesInput)
	if err := json.Unmarshal(merged, out); err != nil {
		return nil, nil, 0, fmt.Errorf("merging launch template %s: %w", t.ID, err)
	}
	out.TagSpecifications = MergeTagSpecs(base.TagSpecifications, in.TagSpecifications)
	out.BlockDeviceMappings = MergeDevices(base.BlockDeviceMappings, in.BlockDeviceMappings)
	if in.SubnetId != nil && in.NetworkInterfaces == nil && len(out.NetworkInterfaces) > 0 {
		// AWS's own launchers (Auto Scaling, EC2 Fleet, EKS) put the subnet into the template's
		// interfaces. For users, this is an error below.
		if awsapi.CallFrom(ctx).Internal() {
			for i := range out.NetworkInterfaces {
				out.NetworkInterfaces[i].SubnetId = in.SubnetId
			}
			out.SubnetId = nil
		}
	}
	return out, &t, n, nil
}

// checkTemplateMembers refuses to launch from a template with members that would be ignored.
func checkTemplateMembers(data json.RawMessage) error {
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return err
	}
	members := awsapi.Members{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				p := k
				if path != "" {
					p = path + "." + k
				}
				members.Add(p)
				walk(p, x)
			}
		case []any:
			for _, x := range v {
				walk(path, x)
			}
		}
	}
	walk("", tree)
	if refused := awsapi.ParseHonours(RunMembers).Refused(members); len(refused) > 0 {
		return awserr.NotImplemented("LaunchTemplateData." + strings.Join(refused, ", LaunchTemplateData.") + " of EC2 RunInstances")
	}
	return nil
}

// MergeTagSpecs adds a request's tags to those of a launch template.
func MergeTagSpecs(base, over []ec2types.TagSpecification) []ec2types.TagSpecification {
	out := slices.Clone(over)
	for _, spec := range base {
		i := slices.IndexFunc(out, func(o ec2types.TagSpecification) bool { return o.ResourceType == spec.ResourceType })
		if i < 0 {
			out = append(out, spec)
			continue
		}
		tags := slices.Clone(out[i].Tags)
		for _, tag := range spec.Tags {
			if !slices.ContainsFunc(tags, func(o ec2types.Tag) bool { return aws.ToString(o.Key) == aws.ToString(tag.Key) }) {
				tags = append(tags, tag)
			}
		}
		out[i].Tags = tags
	}
	return out
}

// MergeDevices merges a request's block devices into those of a launch template.
func MergeDevices(base, over []ec2types.BlockDeviceMapping) []ec2types.BlockDeviceMapping {
	out := slices.Clone(base)
	for _, d := range over {
		i := slices.IndexFunc(out, func(o ec2types.BlockDeviceMapping) bool {
			return aws.ToString(o.DeviceName) == aws.ToString(d.DeviceName)
		})
		if i < 0 {
			out = append(out, d)
		} else {
			out[i] = d
		}
	}
	return out
}

// plan validates a request, except for what only the transaction can know.
func (s *Service) plan(ctx context.Context, sc resource.Scope, request *awsec2.RunInstancesInput) (launch, error) {
	var l launch
	l.purpose, _ = ctx.Value(purposeKey{}).(purpose)
	in, t, version, err := s.mergeTemplate(ctx, sc, request)
	if err != nil {
		return l, err
	}
	l.in, l.template, l.version = in, t, version
	if p := awsapi.CallFrom(ctx).Principal; p.Type == awsapi.AWSService {
		l.requester = p.Name
	}
	if l.operator, err = record.OperatorOf(ctx, in.Operator); err != nil {
		return l, err
	}
	if in.MinCount == nil || in.MaxCount == nil {
		return l, ec2err.Missing("MinCount and MaxCount")
	}
	l.min, l.max = int(*in.MinCount), int(*in.MaxCount)
	if l.min < 1 {
		return l, ec2err.InvalidParameterValue("Value (%d) for parameter minCount is invalid. Minimum value must be 1.", l.min)
	}
	if l.max < l.min {
		return l, ec2err.InvalidParameterValue("Value (%d) for parameter maxCount is invalid. Maximum value must be greater than or equal to the minimum value.", l.max)
	}
	if err := s.planImage(sc, &l); err != nil {
		return l, err
	}
	if err := s.planProfile(ctx, sc, &l); err != nil {
		return l, err
	}
	if in.UserData != nil {
		if _, err := launchtemplate.DecodeUserData(*in.UserData); err != nil {
			return l, err
		}
	}
	if in.KeyName != nil {
		if _, err := keypair.KeyPairs.Get(s.Store, keypair.Key(sc, *in.KeyName)); resource.NotFound(err) {
			return l, ec2err.KeyNotFound(*in.KeyName)
		} else if err != nil {
			return l, err
		}
	}
	if err := planOptions(&l); err != nil {
		return l, err
	}
	if err := planTags(ctx, &l); err != nil {
		return l, err
	}
	if l.devices, err = s.planDevices(sc, l.image, in.BlockDeviceMappings); err != nil {
		return l, err
	}
	if err := s.planNetwork(sc, &l); err != nil {
		return l, err
	}
	if err := s.planPlacement(sc, &l); err != nil {
		return l, err
	}
	return l, s.checkPool(sc, &l)
}

// planPlacement finds the launch's placement group and the Capacity Reservations that it may use.
func (s *Service) planPlacement(sc resource.Scope, l *launch) error {
	var err error
	if l.group, err = placement.Requested(s.Store, sc, l.in.Placement); err != nil {
		return err
	}
	if l.group != nil {
		if err := l.group.Check(l.typ); err != nil {
			return err
		}
		room, err := l.group.Room(s.Store, sc, l.subnet.Zone)
		if err != nil {
			return err
		}
		if l.max = min(l.max, room); l.max < l.min {
			return ec2err.NoCapacity(l.typ.Name, l.subnet.Zone, nil)
		}
	}
	if c := l.in.CapacityReservationSpecification; c != nil {
		l.reserved.Preference = string(c.CapacityReservationPreference)
		if c.CapacityReservationTarget != nil {
			l.reserved.ID = aws.ToString(c.CapacityReservationTarget.CapacityReservationId)
		}
	}
	if l.spot == nil {
		return s.capacity.CheckWant(sc, l.reserved, l.typ.Name, l.subnet.Zone, l.tenancy())
	}
	if l.reserved.Must() {
		return ec2err.Combination("Spot Instances cannot run in Capacity Reservations.") // text from memory
	}
	return nil
}

// tenancy returns the tenancy asked for, or "".
func (l *launch) tenancy() string {
	if l.in.Placement == nil {
		return ""
	}
	return string(l.in.Placement.Tenancy)
}

// defaultType is EC2's instance type for requests that name none.
const defaultType = "m1.small"

func (s *Service) planImage(sc resource.Scope, l *launch) error {
	id := aws.ToString(l.in.ImageId)
	if id == "" {
		return ec2err.New("MissingParameter", "The request must contain the parameter ImageId")
	}
	if !strings.HasPrefix(id, "resolve:ssm:") {
		if err := resource.ImageID.Check(id); err != nil {
			return err
		}
	}
	img, ok := s.images.LookupImage(sc, id)
	if !ok {
		return resource.ImageID.NotFound(id)
	}
	l.image = img
	name := resource.Or(string(l.in.InstanceType), defaultType)
	if l.typ, ok = instancetypes.Lookup(name); !ok {
		return ec2err.InstanceType(name)
	}
	if !l.typ.Supports(img.Architecture) {
		return ec2err.Architecture(strings.Join(l.typ.Architectures, ","), img.Architecture)
	}
	return nil
}

func (s *Service) planProfile(ctx context.Context, sc resource.Scope, l *launch) error {
	spec := l.in.IamInstanceProfile
	if spec == nil || spec.Arn == nil && spec.Name == nil {
		return nil
	}
	var err error
	l.profile, err = s.findProfile(ctx, sc, spec)
	return err
}

// findProfile returns the instance profile in a request, with its role.
func (s *Service) findProfile(ctx context.Context, sc resource.Scope, spec *ec2types.IamInstanceProfileSpecification) (*record.InstanceProfile, error) {
	if spec.Arn != nil && spec.Name != nil {
		return nil, ec2err.Combination("The parameter iamInstanceProfile.name may not be used in combination with iamInstanceProfile.arn")
	}
	account, name := sc.Account, aws.ToString(spec.Name)
	if spec.Arn != nil {
		a, err := arn.Parse(*spec.Arn)
		path, ok := strings.CutPrefix(a.Resource, "instance-profile/")
		if err != nil || !ok || a.Service != "iam" {
			return nil, ec2err.ProfileARN(*spec.Arn)
		}
		account, name = a.Account, path[strings.LastIndexByte(path, '/')+1:]
	}
	invalid := func() error {
		if spec.Arn != nil {
			return ec2err.ProfileARN(*spec.Arn)
		}
		return ec2err.ProfileName(name)
	}
	if s.profiles == nil || account != sc.Account {
		return nil, invalid()
	}
	p, ok, err := s.profiles.InstanceProfile(ctx, account, name)
	if err != nil {
		return nil, fmt.Errorf("looking up instance profile %s: %w", name, err)
	}
	if !ok || spec.Arn != nil && p.ARN != *spec.Arn {
		return nil, invalid()
	}
	if p.RoleARN == "" {
		return nil, ec2err.ProfileWithoutRole(name)
	}
	return &record.InstanceProfile{ARN: p.ARN, ID: p.ID, RoleARN: p.RoleARN}, nil
}

// RunInstances launches instances. Many instances take several transactions, each complete in
// itself. If a later one fails before MinCount is reached, the launched instances are terminated.
func (s *Service) RunInstances(ctx context.Context, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesOutput, error) {
	sc := resource.ScopeOf(ctx)
	if done, err := s.Recall(s.Store, sc, "RunInstances", in.ClientToken, in); err != nil {
		return nil, err
	} else if done != nil && !done.Incomplete {
		return s.launched(sc, done.IDs)
	}
	l, err := s.plan(ctx, sc, in)
	if err != nil {
		return nil, err
	}
	ids, err := s.launch(ctx, sc, in, l)
	if err != nil {
		return nil, err
	}
	return s.launched(sc, ids)
}

// launched returns RunInstances' answer for existing instances.
func (s *Service) launched(sc resource.Scope, ids []string) (*awsec2.RunInstancesOutput, error) {
	found := make([]record.Instance, 0, len(ids))
	for _, id := range ids {
		i, err := record.Instances.Get(s.Store, sc.Key(id))
		if resource.NotFound(err) {
			continue // terminated long ago
		}
		if err != nil {
			return nil, err
		}
		found = append(found, i)
	}
	if len(found) == 0 {
		return nil, ec2err.IdempotentInstanceTerminated()
	}
	r := s.reservations(sc, found)[0]
	return &awsec2.RunInstancesOutput{
		ReservationId: r.ReservationId, OwnerId: r.OwnerId, RequesterId: r.RequesterId, Groups: r.Groups, Instances: r.Instances,
	}, nil
}
