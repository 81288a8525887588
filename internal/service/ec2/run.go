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
	BlockDeviceMappings.Ebs.VolumeSize BlockDeviceMappings.Ebs.VolumeType BlockDeviceMappings.NoDevice ClientToken CreditSpecification DisableApiStop DisableApiTermination DryRun EbsOptimized
	IamInstanceProfile ImageId InstanceInitiatedShutdownBehavior InstanceMarketOptions.MarketType
	InstanceMarketOptions.SpotOptions.MaxPrice InstanceMarketOptions.SpotOptions.SpotInstanceType InstanceType KeyName LaunchTemplate MaxCount MetadataOptions MinCount Monitoring
	NetworkInterfaces.AssociatePublicIpAddress NetworkInterfaces.DeleteOnTermination NetworkInterfaces.Description
	NetworkInterfaces.DeviceIndex NetworkInterfaces.Groups NetworkInterfaces.InterfaceType NetworkInterfaces.NetworkCardIndex
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
	devices  []blockDevice
	tags     Tags
	eniTags  Tags
	volTags  Tags
	min, max int
	// requester is the AWS service that launches for a user, if one does.
	requester string
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
func (s *Service) mergeTemplate(ctx context.Context, sc scope, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesInput, *launchTemplateRecord, int64, error) {
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
		if awsapi.CallFrom(ctx).Principal.Type == awsapi.AWSService {
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
func (s *Service) plan(ctx context.Context, sc scope, request *awsec2.RunInstancesInput) (launch, error) {
	var l launch
	in, t, version, err := s.mergeTemplate(ctx, sc, request)
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
	if err := planTags(ctx, &l); err != nil {
		return l, err
	}
	if err := planOptions(in); err != nil {
		return l, err
	}
	if err := planDevices(&l); err != nil {
		return l, err
	}
	return l, s.planNetwork(sc, &l)
}

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
	name := string(l.in.InstanceType)
	if name == "" {
		name = "m1.small" // EC2's default
	}
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
	if spec.Arn != nil && spec.Name != nil {
		return errCombination("The parameter iamInstanceProfile.name may not be used in combination with iamInstanceProfile.arn")
	}
	account, name := sc.account, aws.ToString(spec.Name)
	if spec.Arn != nil {
		a, err := arn.Parse(*spec.Arn)
		path, ok := strings.CutPrefix(a.Resource, "instance-profile/")
		if err != nil || !ok || a.Service != "iam" {
			return errProfileARN(*spec.Arn)
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
		return invalid()
	}
	p, ok, err := s.profiles.InstanceProfile(ctx, account, name)
	if err != nil {
		return fmt.Errorf("looking up instance profile %s: %w", name, err)
	}
	if !ok || spec.Arn != nil && p.ARN != *spec.Arn {
		return invalid()
	}
	if p.RoleARN == "" {
		return errProfileWithoutRole(name)
	}
	l.profile = &instanceProfile{ARN: p.ARN, ID: p.ID, RoleARN: p.RoleARN}
	return nil
}

func planTags(ctx context.Context, l *launch) error {
	launchable := []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeNetworkInterface}
	for _, spec := range l.in.TagSpecifications {
		if spec.ResourceType == ec2types.ResourceTypeSpotInstancesRequest {
			return awserr.NotImplemented("tags of Spot Instance requests in EC2 RunInstances")
		}
	}
	for kind, to := range map[ec2types.ResourceType]*Tags{
		ec2types.ResourceTypeInstance: &l.tags, ec2types.ResourceTypeVolume: &l.volTags, ec2types.ResourceTypeNetworkInterface: &l.eniTags,
	} {
		tags, err := specifiedTags(ctx, l.in.TagSpecifications, kind, launchable...)
		if err != nil {
			return err
		}
		*to = tags
	}
	if l.template != nil {
		// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/launch-templates.html
		l.tags = l.tags.with(Tags{"aws:ec2launchtemplate:id": l.template.ID, "aws:ec2launchtemplate:version": fmt.Sprint(l.version)})
	}
	return nil
}

func planOptions(in *awsec2.RunInstancesInput) error {
	switch in.InstanceInitiatedShutdownBehavior {
	case "", ec2types.ShutdownBehaviorStop, ec2types.ShutdownBehaviorTerminate:
	default:
		return errInvalidValue(in.InstanceInitiatedShutdownBehavior, "instanceInitiatedShutdownBehavior", "")
	}
	if m := in.MetadataOptions; m != nil {
		if h := m.HttpPutResponseHopLimit; h != nil && (*h < 1 || *h > 64) {
			return errInvalidParameter("The HttpPutResponseHopLimit must be between 1 and 64.")
		}
		if t := m.HttpTokens; t != "" && t != ec2types.HttpTokensStateOptional && t != ec2types.HttpTokensStateRequired {
			return errInvalidValue(t, "HttpTokens", "")
		}
	}
	if m := in.InstanceMarketOptions; m != nil && m.MarketType != "" && m.MarketType != ec2types.MarketTypeSpot {
		return errInvalidValue(m.MarketType, "marketType", "")
	}
	if m := in.InstanceMarketOptions; m != nil && m.SpotOptions != nil {
		if t := m.SpotOptions.SpotInstanceType; t != "" && t != ec2types.SpotInstanceTypeOneTime {
			return awserr.NotImplemented("Spot Instances of type " + string(t))
		}
	}
	if p := in.Placement; p != nil && p.Tenancy != "" && p.Tenancy != ec2types.TenancyDefault && p.Tenancy != ec2types.TenancyDedicated {
		return errInvalidValue(p.Tenancy, "tenancy", "")
	}
	return nil
}

// planDevices lays the request's devices over the image's.
func planDevices(l *launch) error {
	for n, d := range l.image.Devices {
		l.devices = append(l.devices, blockDevice{
			Name: d.Name, SizeGiB: d.SizeGiB, Type: d.Type, Encrypted: d.Encrypted, SnapshotID: snapshotOf(l.image.ID, n), DeleteOnTermination: true,
		})
	}
	for _, m := range l.in.BlockDeviceMappings {
		name := aws.ToString(m.DeviceName)
		if name == "" {
			return errMissing("DeviceName")
		}
		i := slices.IndexFunc(l.devices, func(d blockDevice) bool { return d.Name == name })
		if m.NoDevice != nil {
			if i >= 0 {
				l.devices = slices.Delete(l.devices, i, i+1)
			}
			continue
		}
		if m.Ebs == nil {
			continue // nothing is said of the volume
		}
		if i < 0 {
			i = len(l.devices)
			l.devices = append(l.devices, blockDevice{Name: name, Type: "gp2", DeleteOnTermination: true})
		}
		d, ebs := &l.devices[i], m.Ebs
		if ebs.VolumeSize != nil {
			if *ebs.VolumeSize < d.SizeGiB && d.SnapshotID != "" {
				return errf("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", *ebs.VolumeSize, d.SnapshotID, d.SizeGiB)
			}
			d.SizeGiB = *ebs.VolumeSize
		}
		if d.SizeGiB < 1 {
			return errf("MissingParameter", "The request must contain the parameter size or snapshotId")
		}
		if ebs.VolumeType != "" {
			if !slices.Contains(ebs.VolumeType.Values(), ebs.VolumeType) {
				return errInvalidValue(ebs.VolumeType, "volumeType", "")
			}
			d.Type = string(ebs.VolumeType)
		}
		if ebs.DeleteOnTermination != nil {
			d.DeleteOnTermination = *ebs.DeleteOnTermination
		}
		if (d.Type == "io1" || d.Type == "io2") && ebs.Iops == nil {
			return errMissingIOPS(d.Type)
		}
		if ebs.Iops != nil && d.Type != "io1" && d.Type != "io2" && d.Type != "gp3" {
			return errUnsupportedIOPS(d.Type)
		}
		if ebs.Throughput != nil && d.Type != "gp3" {
			return errUnsupportedThroughput()
		}
		d.Encrypted = d.Encrypted || aws.ToBool(ebs.Encrypted)
		d.IOPS, d.Throughput, d.KMSKeyID = aws.ToInt32(ebs.Iops), aws.ToInt32(ebs.Throughput), aws.ToString(ebs.KmsKeyId)
		if ebs.SnapshotId != nil {
			d.SnapshotID = *ebs.SnapshotId
		}
	}
	for i := range l.devices {
		if d := &l.devices[i]; d.Type == "gp3" {
			d.IOPS, d.Throughput = max(d.IOPS, 3000), max(d.Throughput, 125)
		}
	}
	return nil
}

// planNetwork finds the subnet and the interfaces.
func (s *Service) planNetwork(sc scope, l *launch) error {
	in := l.in
	groups := slices.Clone(in.SecurityGroupIds)
	if len(in.NetworkInterfaces) > 0 {
		switch {
		case len(groups)+len(in.SecurityGroups) > 0:
			return errCombination("Network interfaces and an instance-level security groups may not be specified on the same request")
		case in.SubnetId != nil:
			return errCombination("Network interfaces and an instance-level subnet ID may not be specified on the same request")
		case in.PrivateIpAddress != nil:
			return errCombination("Network interfaces and an instance-level private address may not be specified on the same request")
		}
	}
	for _, name := range in.SecurityGroups {
		g, err := findGroup(s.store, sc, nil, &name)
		if err != nil {
			return err
		}
		groups = append(groups, g.ID)
	}
	specs := in.NetworkInterfaces
	if len(specs) == 0 {
		specs = []ec2types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0), SubnetId: in.SubnetId, Groups: groups, PrivateIpAddress: in.PrivateIpAddress, DeleteOnTermination: aws.Bool(true),
		}}
	}
	seen := map[[2]int32]bool{}
	for _, spec := range specs {
		nic, err := s.planInterface(sc, l, spec)
		if err != nil {
			return err
		}
		at := [2]int32{nic.card, nic.device}
		if seen[at] {
			return errInvalidParameter("Each network interface requires a unique device index.")
		}
		seen[at] = true
		l.nics = append(l.nics, nic)
	}
	slices.SortStableFunc(l.nics, func(a, b launchInterface) int { return int(a.device - b.device) })
	first := l.nics[0]
	if first.device != 0 {
		return errInvalidParameter("A primary network interface must be specified: device index 0.")
	}
	if len(l.nics) > l.typ.ENIs {
		return errTooManyInterfaces(len(l.nics), l.typ.Name)
	}
	l.subnet = first.spec.subnet
	for _, nic := range l.nics {
		if nic.spec.subnet.Zone != l.subnet.Zone {
			return errInvalidParameter("All network interfaces of an instance must be in the same Availability Zone.")
		}
		if n := 1 + len(nic.spec.secondary) + nic.spec.extra; n > l.typ.IPv4PerENI {
			return errTooManyAddresses("eni", l.typ.Name, l.typ.IPv4PerENI)
		}
		if l.max > 1 && (nic.existing != "" || nic.spec.primary != "" || len(nic.spec.secondary) > 0) {
			return errCombination("Network interfaces and private addresses can be specified only when launching a single instance.")
		}
	}
	if !offered(l.typ.Name, l.subnet.ZoneID) {
		return errUnsupportedZone(l.typ.Name, l.subnet.Zone, offeringZones(sc.region, l.typ.Name))
	}
	return nil
}

func (s *Service) planInterface(sc scope, l *launch, in ec2types.InstanceNetworkInterfaceSpecification) (launchInterface, error) {
	extra, err := secondaryCount(in.SecondaryPrivateIpAddressCount)
	if err != nil {
		return launchInterface{}, err
	}
	nic := launchInterface{
		existing: aws.ToString(in.NetworkInterfaceId), device: aws.ToInt32(in.DeviceIndex), card: aws.ToInt32(in.NetworkCardIndex),
		public: in.AssociatePublicIpAddress, deleteOnTermination: in.DeleteOnTermination == nil || *in.DeleteOnTermination,
	}
	if nic.existing != "" {
		e, err := get(s.store, networkInterfaces, sc, networkInterfaceID, nic.existing)
		if err != nil {
			return nic, err
		}
		nic.deleteOnTermination = aws.ToBool(in.DeleteOnTermination)
		nic.spec.subnet, err = get(s.store, subnets, sc, subnetID, e.SubnetID)
		return nic, err
	}
	sn, err := s.launchSubnet(sc, l.in.Placement, in.SubnetId)
	if err != nil {
		return nic, err
	}
	nic.spec = interfaceSpec{
		subnet: sn, description: aws.ToString(in.Description), primary: aws.ToString(in.PrivateIpAddress),
		extra: extra, groups: in.Groups, kind: aws.ToString(in.InterfaceType), tags: l.eniTags,
	}
	for _, a := range in.PrivateIpAddresses {
		if aws.ToBool(a.Primary) {
			nic.spec.primary = aws.ToString(a.PrivateIpAddress)
		} else {
			nic.spec.secondary = append(nic.spec.secondary, aws.ToString(a.PrivateIpAddress))
		}
	}
	_, err = resolveGroups(s.store, sc, sn.VPCID, in.Groups)
	return nic, err
}

// launchSubnet returns the given subnet, or a default one in the wanted zone.
func (s *Service) launchSubnet(sc scope, placement *ec2types.Placement, id *string) (subnetRecord, error) {
	zone := ""
	if placement != nil {
		if zone = aws.ToString(placement.AvailabilityZone) + aws.ToString(placement.AvailabilityZoneId); zone != "" {
			z, err := chooseZone(sc, aws.ToString(placement.AvailabilityZone), aws.ToString(placement.AvailabilityZoneId))
			if err != nil {
				return subnetRecord{}, errInvalidParameter("Invalid availability zone: [%s]", zone)
			}
			zone = z.Name
		}
	}
	if id != nil {
		sn, err := get(s.store, subnets, sc, subnetID, *id)
		if err == nil && zone != "" && sn.Zone != zone {
			err = errCombination(fmt.Sprintf("The subnet %s is in the availability zone %s, not in %s.", sn.ID, sn.Zone, zone))
		}
		return sn, err
	}
	if _, ok, err := defaultVPC(s.store, sc); err != nil {
		return subnetRecord{}, err
	} else if !ok {
		return subnetRecord{}, errNoDefaultVPC()
	}
	found, err := list(s.store, subnets, sc, func(sn subnetRecord) bool { return sn.DefaultForZone && (zone == "" || sn.Zone == zone) })
	if err != nil {
		return subnetRecord{}, err
	}
	if len(found) == 0 {
		return subnetRecord{}, errf("MissingInput", "No subnets found for the default VPC '%s'. Please specify a subnet.", zone)
	}
	sortByZone(found)
	return found[0], nil
}

// RunInstances launches instances. Many are launched in several transactions,
// each of which is complete in itself; when a later one fails and fewer than
// MinCount were launched, those launched are taken back.
func (s *Service) RunInstances(ctx context.Context, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if done, err := s.recall(s.store, sc, "RunInstances", in.ClientToken, in); err != nil {
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
