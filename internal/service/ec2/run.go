package ec2

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
)

// runMembers are the members RunInstances honours. A launch template may hold
// others; launching from it is then refused.
const runMembers = `BlockDeviceMappings.DeviceName BlockDeviceMappings.Ebs.DeleteOnTermination BlockDeviceMappings.Ebs.Encrypted
	BlockDeviceMappings.Ebs.Iops BlockDeviceMappings.Ebs.KmsKeyId BlockDeviceMappings.Ebs.SnapshotId BlockDeviceMappings.Ebs.Throughput
	BlockDeviceMappings.Ebs.VolumeSize BlockDeviceMappings.Ebs.VolumeType BlockDeviceMappings.NoDevice
	CapacityReservationSpecification.CapacityReservationPreference ClientToken CpuOptions.CoreCount CpuOptions.ThreadsPerCore
	CreditSpecification DisableApiStop DisableApiTermination DryRun EbsOptimized EnclaveOptions.Enabled HibernationOptions.Configured
	IamInstanceProfile ImageId InstanceInitiatedShutdownBehavior InstanceMarketOptions.MarketType
	InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior InstanceMarketOptions.SpotOptions.MaxPrice
	InstanceMarketOptions.SpotOptions.SpotInstanceType InstanceMarketOptions.SpotOptions.ValidUntil InstanceType
	Ipv6AddressCount Ipv6Addresses KeyName LaunchTemplate
	MaintenanceOptions.AutoRecovery MaxCount MetadataOptions MinCount Monitoring
	NetworkInterfaces.AssociatePublicIpAddress NetworkInterfaces.DeleteOnTermination NetworkInterfaces.Description
	NetworkInterfaces.DeviceIndex NetworkInterfaces.Groups NetworkInterfaces.InterfaceType NetworkInterfaces.NetworkCardIndex
	NetworkInterfaces.Ipv4PrefixCount NetworkInterfaces.Ipv4Prefixes NetworkInterfaces.Ipv6AddressCount NetworkInterfaces.Ipv6Addresses
	NetworkInterfaces.NetworkInterfaceId NetworkInterfaces.PrivateIpAddress NetworkInterfaces.PrivateIpAddresses
	NetworkInterfaces.SecondaryPrivateIpAddressCount NetworkInterfaces.SubnetId
	Placement.AvailabilityZone Placement.AvailabilityZoneId Placement.Tenancy PrivateDnsNameOptions PrivateIpAddress
	SecurityGroupIds SecurityGroups SubnetId TagSpecifications UserData`

// A launch is a checked RunInstances request.
type launch struct {
	in       *awsec2.RunInstancesInput // merged with its launch template
	template *launchTemplateRecord
	version  int64
	image    images.Image
	typ      instancetypes.Type
	profile  *instanceProfile
	subnet   subnetRecord
	nics     []launchInterface
	devices  []deviceSpec
	tags     Tags
	eniTags  Tags
	volTags  Tags
	spotTags Tags
	min, max int
	// cores and threads per core, the type's own unless the request says otherwise.
	cores, threads int32
	spot           *spotSpec // nil: on demand
	launchOptions
	// requester is the AWS service that launches for a user, if one does.
	requester string
}

// launchOptions are what launches inside the package want beyond a request.
type launchOptions struct {
	// internal launches are EC2's own: for a fleet or a persistent Spot request.
	internal bool
	fleet    string  // the fleet's ID
	weight   float64 // the units of its capacity that an instance is
	// spotRequest is the persistent request to be fulfilled again.
	spotRequest string
}

type launchInterface struct {
	existing            string // eni-… to attach
	spec                interfaceSpec
	device, card        int32
	public              *bool // nil: as the subnet says
	deleteOnTermination bool
}

// mergeTemplate returns the request with what it leaves out taken from its launch
// template. Block devices are merged by name, tags by key.
func (s *Service) mergeTemplate(ctx context.Context, sc scope, in *awsec2.RunInstancesInput, opts launchOptions) (*awsec2.RunInstancesInput, *launchTemplateRecord, int64, error) {
	if in.LaunchTemplate == nil {
		return in, nil, 0, nil
	}
	t, err := findTemplate(s.store, sc, in.LaunchTemplate.LaunchTemplateId, in.LaunchTemplate.LaunchTemplateName)
	if err != nil {
		return nil, nil, 0, err
	}
	n, err := t.version(aws.ToString(in.LaunchTemplate.Version))
	if err != nil {
		return nil, nil, 0, err
	}
	v, err := getTemplateVersion(s.store, sc, t, n)
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
	given, err := compactJSON(in)
	if err != nil {
		return nil, nil, 0, err
	}
	merged, err := overlayJSON(v.Data, given)
	if err != nil {
		return nil, nil, 0, err
	}
	out := new(awsec2.RunInstancesInput)
	if err := json.Unmarshal(merged, out); err != nil {
		return nil, nil, 0, fmt.Errorf("merging launch template %s: %w", t.ID, err)
	}
	out.TagSpecifications = mergeTagSpecs(base.TagSpecifications, in.TagSpecifications)
	out.BlockDeviceMappings = mergeDevices(base.BlockDeviceMappings, in.BlockDeviceMappings)
	if in.SubnetId != nil && in.NetworkInterfaces == nil && len(out.NetworkInterfaces) > 0 {
		// AWS's own launchers (Auto Scaling, EC2 Fleet, EKS) put the subnet into the
		// template's interfaces; users are refused below.
		if opts.internal || awsapi.CallFrom(ctx).Principal.Type == awsapi.AWSService {
			for i := range out.NetworkInterfaces {
				out.NetworkInterfaces[i].SubnetId = in.SubnetId
			}
			out.SubnetId = nil
		}
	}
	return out, &t, n, nil
}

// checkTemplateMembers refuses to launch with members that would be ignored.
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
	if refused := awsapi.ParseHonours(runMembers).Refused(members); len(refused) > 0 {
		return awserr.NotImplemented("LaunchTemplateData." + strings.Join(refused, ", LaunchTemplateData.") + " of EC2 RunInstances")
	}
	return nil
}

func mergeTagSpecs(base, over []ec2types.TagSpecification) []ec2types.TagSpecification {
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

func mergeDevices(base, over []ec2types.BlockDeviceMapping) []ec2types.BlockDeviceMapping {
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

// plan checks a request completely, short of what only the transaction can know.
func (s *Service) plan(ctx context.Context, sc scope, request *awsec2.RunInstancesInput, opts launchOptions) (launch, error) {
	l := launch{launchOptions: opts}
	in, t, version, err := s.mergeTemplate(ctx, sc, request, opts)
	if err != nil {
		return l, err
	}
	l.in, l.template, l.version = in, t, version
	if p := awsapi.CallFrom(ctx).Principal; p.Type == awsapi.AWSService {
		l.requester = p.Name
	}
	if in.MinCount == nil || in.MaxCount == nil {
		return l, errMissing("MinCount and MaxCount")
	}
	l.min, l.max = int(*in.MinCount), int(*in.MaxCount)
	if l.min < 1 {
		return l, errInvalidParameter("Value (%d) for parameter minCount is invalid. Minimum value must be 1.", l.min)
	}
	if l.max < l.min {
		return l, errInvalidParameter("Value (%d) for parameter maxCount is invalid. Maximum value must be greater than or equal to the minimum value.", l.max)
	}
	if err := s.planImage(sc, &l); err != nil {
		return l, err
	}
	if err := s.planProfile(ctx, sc, &l); err != nil {
		return l, err
	}
	if in.UserData != nil {
		if _, err := decodeUserData(*in.UserData); err != nil {
			return l, err
		}
	}
	if in.KeyName != nil {
		if _, err := keyPairs.Get(s.store, keyNameKey(sc, *in.KeyName)); notFound(err) {
			return l, errKeyNotFound(*in.KeyName)
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
	if l.devices, err = planDevices(l.image, in.BlockDeviceMappings); err != nil {
		return l, err
	}
	if err := s.planNetwork(sc, &l); err != nil {
		return l, err
	}
	return l, s.checkPool(sc, &l)
}

// defaultType is EC2's instance type for requests without one.
const defaultType = "m1.small"

func (s *Service) planImage(sc scope, l *launch) error {
	id := aws.ToString(l.in.ImageId)
	if id == "" {
		return errf("MissingParameter", "The request must contain the parameter ImageId")
	}
	if !strings.HasPrefix(id, "resolve:ssm:") {
		if err := imageID.check(id); err != nil {
			return err
		}
	}
	img, ok := s.resolveImage(sc, id)
	if !ok {
		return imageID.notFound(id)
	}
	l.image = img
	name := or(string(l.in.InstanceType), defaultType)
	if l.typ, ok = instancetypes.Lookup(name); !ok {
		return errInstanceType(name)
	}
	if !l.typ.Supports(img.Architecture) {
		return errArchitecture(strings.Join(l.typ.Architectures, ","), img.Architecture)
	}
	return nil
}

func (s *Service) planProfile(ctx context.Context, sc scope, l *launch) error {
	spec := l.in.IamInstanceProfile
	if spec == nil || spec.Arn == nil && spec.Name == nil {
		return nil
	}
	var err error
	l.profile, err = s.findProfile(ctx, sc, spec)
	return err
}

// findProfile returns the instance profile a request names, with its role.
func (s *Service) findProfile(ctx context.Context, sc scope, spec *ec2types.IamInstanceProfileSpecification) (*instanceProfile, error) {
	if spec.Arn != nil && spec.Name != nil {
		return nil, errCombination("The parameter iamInstanceProfile.name may not be used in combination with iamInstanceProfile.arn")
	}
	account, name := sc.account, aws.ToString(spec.Name)
	if spec.Arn != nil {
		a, err := arn.Parse(*spec.Arn)
		path, ok := strings.CutPrefix(a.Resource, "instance-profile/")
		if err != nil || !ok || a.Service != "iam" {
			return nil, errProfileARN(*spec.Arn)
		}
		account, name = a.Account, path[strings.LastIndexByte(path, '/')+1:]
	}
	invalid := func() error {
		if spec.Arn != nil {
			return errProfileARN(*spec.Arn)
		}
		return errProfileName(name)
	}
	if s.profiles == nil || account != sc.account {
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
		return nil, errProfileWithoutRole(name)
	}
	return &instanceProfile{ARN: p.ARN, ID: p.ID, RoleARN: p.RoleARN}, nil
}

// RunInstances launches instances. Many are launched in several transactions,
// each of which is complete in itself; when a later one fails and fewer than
// MinCount were launched, those launched are taken back.
func (s *Service) RunInstances(ctx context.Context, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := s.run(ctx, sc, in, launchOptions{})
	if err != nil {
		return nil, err
	}
	return s.launched(sc, ids)
}

// run launches instances and returns their IDs.
func (s *Service) run(ctx context.Context, sc scope, in *awsec2.RunInstancesInput, opts launchOptions) ([]string, error) {
	if done, err := s.recall(s.store, sc, "RunInstances", in.ClientToken, in); err != nil {
		return nil, err
	} else if done != nil && !done.Incomplete {
		return done.IDs, nil
	}
	l, err := s.plan(ctx, sc, in, opts)
	if err != nil {
		return nil, err
	}
	return s.launch(ctx, sc, in, l)
}

// launched is the answer for instances there are.
func (s *Service) launched(sc scope, ids []string) (*awsec2.RunInstancesOutput, error) {
	found := make([]instanceRecord, 0, len(ids))
	for _, id := range ids {
		i, err := instances.Get(s.store, sc.key(id))
		if notFound(err) {
			continue // long terminated
		}
		if err != nil {
			return nil, err
		}
		found = append(found, i)
	}
	if len(found) == 0 {
		return nil, errIdempotentInstanceTerminated()
	}
	r := s.reservations(sc, found)[0]
	return &awsec2.RunInstancesOutput{
		ReservationId: r.ReservationId, OwnerId: r.OwnerId, RequesterId: r.RequesterId, Groups: r.Groups, Instances: r.Instances,
	}, nil
}
