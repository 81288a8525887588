package autonodes

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/pelletier/go-toml/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// Operator is the principal that operates the instances of EKS Auto Mode.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/amazon-ec2-managed-instances.html
const Operator = "eks.amazonaws.com"

// launch launches an instance: with a launch template of its own and an instant fleet, like Karpenter.
func (s *Service) launch(ctx context.Context, key store.Key, rec *record.Cluster, l *automode.Launch) automode.Answer {
	refused := func(what string, err error) automode.Answer {
		// The beginnings are what AWS's troubleshooting page quotes.
		// https://docs.aws.amazon.com/eks/latest/userguide/auto-troubleshoot.html
		return automode.Answer{Failed: automode.LaunchFailed, Problem: &automode.Problem{Reason: reasonOf(err), Message: what + ": " + err.Error()}}
	}
	asCluster, err := s.AsClusterRole(ctx, key, rec)
	if err != nil {
		return refused("Error getting launch template configs", err)
	}
	template, err := s.template(key.Region, rec, l)
	if err != nil {
		return refused("Error getting launch template configs", err)
	}
	made, err := s.AutoNodes.CreateLaunchTemplate(asCluster, template)
	if err != nil {
		return refused("Error getting launch template configs", err)
	}
	defer func() {
		_, err := s.Instances.DeleteLaunchTemplate(s.AsService(context.WithoutCancel(ctx), key.Account, key.Region), &awsec2.DeleteLaunchTemplateInput{LaunchTemplateId: made.LaunchTemplate.LaunchTemplateId})
		if err != nil {
			s.Log.Warn("deleting the launch template of a node of EKS Auto Mode", "cluster", key.String(), "err", err)
		}
	}()
	out, err := s.AutoNodes.CreateFleet(asCluster, fleet(rec, l, *made.LaunchTemplate.LaunchTemplateId))
	if err != nil {
		return refused("Error creating fleet", err)
	}
	if len(out.Instances) == 0 || len(out.Instances[0].InstanceIds) == 0 {
		return noInstance(l, out.Errors)
	}
	i, err := s.instance(ctx, key, out.Instances[0].InstanceIds[0])
	if err != nil {
		return failed(automode.Other, "Instance", err)
	}
	return automode.Answer{Instance: i, Exhausted: exhausted(l, out.Errors)}
}

// noCapacity are the codes of EC2 that mean that another pool may have capacity. Karpenter's AWS provider has the same.
func noCapacity() []string {
	return []string{"InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "UnfulfillableCapacity", "Unsupported",
		"InsufficientFreeAddressesInSubnet", "MaxFleetCountExceeded", "ReservationCapacityExceeded"}
}

// exhausted returns the options that have no capacity.
func exhausted(l *automode.Launch, errs []ec2types.CreateFleetError) []automode.Option {
	var out []automode.Option
	for _, e := range errs {
		if !slices.Contains(noCapacity(), aws.ToString(e.ErrorCode)) || e.LaunchTemplateAndOverrides == nil || e.LaunchTemplateAndOverrides.Overrides == nil {
			continue
		}
		o := e.LaunchTemplateAndOverrides.Overrides
		for _, option := range l.Options {
			if option.Type == string(o.InstanceType) && option.Subnet == aws.ToString(o.SubnetId) {
				out = append(out, option)
			}
		}
	}
	return out
}

// noInstance answers a launch whose fleet has no instance.
func noInstance(l *automode.Launch, errs []ec2types.CreateFleetError) automode.Answer {
	var texts []string
	kind := automode.NoCapacity
	var first error
	for _, e := range errs {
		err := fmt.Errorf("%s: %s", aws.ToString(e.ErrorCode), aws.ToString(e.ErrorMessage))
		if !slices.Contains(texts, err.Error()) {
			texts = append(texts, err.Error())
		}
		if !slices.Contains(noCapacity(), aws.ToString(e.ErrorCode)) && first == nil {
			kind, first = automode.LaunchFailed, err
		}
	}
	if len(texts) > 5 {
		texts = texts[:5]
	}
	reason := "InsufficientCapacity"
	if first != nil {
		reason = reasonOf(first)
	}
	return automode.Answer{Failed: kind, Exhausted: exhausted(l, errs), Problem: &automode.Problem{
		Reason: reason, Message: "Error creating fleet: with fleet error(s), " + strings.Join(texts, "; "),
	}}
}

// reasonOf returns a condition's reason for an error of AWS.
func reasonOf(err error) string {
	for _, text := range []string{"UnauthorizedOperation", "AccessDenied", "not authorized", "could not be assumed", "NotAssumable"} {
		if strings.Contains(err.Error(), text) {
			return "Unauthorized"
		}
	}
	return "LaunchFailed"
}

func fleet(rec *record.Cluster, l *automode.Launch, template string) *awsec2.CreateFleetInput {
	tags := tagsOf(rec.Name(), l.NodeClass.Name, l.NodePool, l.NodeClass.Tags)
	in := &awsec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: new(int32(1)), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand,
		},
		TagSpecifications: []ec2types.TagSpecification{
			{ResourceType: ec2types.ResourceTypeInstance, Tags: tags}, {ResourceType: ec2types.ResourceTypeVolume, Tags: tags}, {ResourceType: ec2types.ResourceTypeFleet, Tags: tags},
		},
	}
	overrides := []ec2types.FleetLaunchTemplateOverridesRequest{}
	for _, o := range l.Options {
		overrides = append(overrides, ec2types.FleetLaunchTemplateOverridesRequest{InstanceType: ec2types.InstanceType(o.Type), SubnetId: &o.Subnet})
	}
	in.LaunchTemplateConfigs = []ec2types.FleetLaunchTemplateConfigRequest{{
		LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: &template, Version: new("$Latest")}, Overrides: overrides,
	}}
	if l.Spot {
		in.TargetCapacitySpecification.DefaultTargetCapacityType = ec2types.DefaultTargetCapacityTypeSpot
		in.TagSpecifications = append(in.TagSpecifications, ec2types.TagSpecification{ResourceType: ec2types.ResourceTypeSpotInstancesRequest, Tags: tags})
		in.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyPriceCapacityOptimized}
	} else {
		in.OnDemandOptions = &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyLowestPrice}
	}
	return in
}

// template returns the launch template of a node: Bottlerocket with metadata version 2 for the node alone, and a data
// volume.
// https://docs.aws.amazon.com/eks/latest/userguide/automode-learn-instances.html
func (s *Service) template(region string, rec *record.Cluster, l *automode.Launch) (*awsec2.CreateLaunchTemplateInput, error) {
	arch := "x86_64"
	if l.Arch == "arm64" {
		arch = l.Arch
	}
	image, ok := images.EKS(region, images.Bottlerocket, nodeVersion(rec), arch, "")
	if !ok {
		return nil, fmt.Errorf("there is no image of EKS Auto Mode for Kubernetes %s and %s", nodeVersion(rec), arch)
	}
	data, err := userData(rec, l)
	if err != nil {
		return nil, err
	}
	storage := automode.EphemeralStorage{Size: "80Gi", IOPS: 3000, Throughput: 125}
	if e := l.NodeClass.EphemeralStorage; e != nil {
		storage = *e
	}
	size, err := resource.ParseQuantity(storage.Size)
	if err != nil {
		return nil, fmt.Errorf("ephemeralStorage.size: %w", err)
	}
	gib := int32((size.Value() + 1<<30 - 1) >> 30)
	volume := &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: &gib, VolumeType: ec2types.VolumeTypeGp3, Encrypted: new(true), DeleteOnTermination: new(true)}
	if storage.IOPS != 0 {
		volume.Iops = &storage.IOPS
	}
	if storage.Throughput != 0 {
		volume.Throughput = &storage.Throughput
	}
	if storage.KMSKeyID != "" {
		volume.KmsKeyId = &storage.KMSKeyID
	}
	var groups []string
	for _, g := range l.Resolved.SecurityGroups {
		groups = append(groups, g.ID)
	}
	nic := ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{DeviceIndex: new(int32(0)), Groups: groups}
	if a := l.NodeClass.AdvancedNetworking; a != nil && a.AssociatePublicIPAddress != nil {
		nic.AssociatePublicIpAddress = a.AssociatePublicIPAddress
	}
	tags := tagsOf(rec.Name(), l.NodeClass.Name, l.NodePool, l.NodeClass.Tags)
	return &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: new("eks.amazonaws.com/" + ids.Hex(20)),
		Operator:           &ec2types.OperatorRequest{Principal: new(Operator)},
		TagSpecifications:  []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: tags}},
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: &image.ID, UserData: &data, Operator: &ec2types.OperatorRequest{Principal: new(Operator)},
			IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &l.Resolved.InstanceProfile},
			NetworkInterfaces:  []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{nic},
			BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{
				{DeviceName: new("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeType: ec2types.VolumeTypeGp3, Encrypted: new(true), DeleteOnTermination: new(true)}},
				{DeviceName: new("/dev/xvdb"), Ebs: volume},
			},
			MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
				HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: new(int32(1)), HttpEndpoint: ec2types.LaunchTemplateInstanceMetadataEndpointStateEnabled,
			},
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{ResourceType: ec2types.ResourceTypeNetworkInterface, Tags: tags}},
		},
	}, nil
}

// userData returns the Bottlerocket settings of a node, in base64.
func userData(rec *record.Cluster, l *automode.Launch) (string, error) {
	taints := map[string][]string{}
	for _, t := range l.Taints {
		taints[t.Key] = append(taints[t.Key], t.Value+":"+t.Effect)
	}
	var out bytes.Buffer
	err := toml.NewEncoder(&out).Encode(map[string]any{"settings": map[string]any{"kubernetes": map[string]any{
		"cluster-name": rec.Name(), "api-server": "https://" + rec.Plane.AWSHost, "cluster-certificate": base64.StdEncoding.EncodeToString(rec.Plane.CAPEM),
		"cluster-dns-ip": rec.DNSAddress(), "max-pods": l.MaxPods, "node-labels": l.Labels, "node-taints": taints, "hostname-override-source": "instance-id",
	}}})
	return base64.StdEncoding.EncodeToString(out.Bytes()), err
}

var errGone = errors.New("the instance is terminated")

// instance returns an instance of a cluster's EKS Auto Mode. One that is terminated is errGone.
func (s *Service) instance(ctx context.Context, key store.Key, id string) (*automode.Instance, error) {
	got, err := s.Instances.DescribeInstances(s.AsService(ctx, key.Account, key.Region), &awsec2.DescribeInstancesInput{InstanceIds: []string{id}, IncludeManagedResources: new(true)})
	if err != nil {
		return nil, err
	}
	for _, r := range got.Reservations {
		for _, i := range r.Instances {
			if tagValue(i.Tags, automode.TagCluster) == key.ID && i.State.Name != ec2types.InstanceStateNameTerminated {
				return new(instanceOf(i)), nil
			}
		}
	}
	return nil, errGone
}

// instances returns the instances of a cluster's EKS Auto Mode that have not been terminated.
func (s *Service) instances(ctx context.Context, key store.Key) ([]automode.Instance, error) {
	svc := s.AsService(ctx, key.Account, key.Region)
	in := &awsec2.DescribeInstancesInput{IncludeManagedResources: new(true), Filters: []ec2types.Filter{
		{Name: new("tag:" + automode.TagCluster), Values: []string{key.ID}},
		{Name: new("instance-state-name"), Values: []string{"pending", "running", "shutting-down", "stopping", "stopped"}},
		{Name: new("operator.principal"), Values: []string{Operator}},
	}}
	var out []automode.Instance
	for {
		got, err := s.Instances.DescribeInstances(svc, in)
		if err != nil {
			return nil, err
		}
		for _, r := range got.Reservations {
			for _, i := range r.Instances {
				out = append(out, instanceOf(i))
			}
		}
		if in.NextToken = got.NextToken; in.NextToken == nil {
			return out, nil
		}
	}
}

func instanceOf(i ec2types.Instance) automode.Instance {
	out := automode.Instance{
		ID: *i.InstanceId, Type: string(i.InstanceType), Image: aws.ToString(i.ImageId), Spot: i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot,
		NodePool: tagValue(i.Tags, automode.TagNodePool), NodeClass: tagValue(i.Tags, automode.TagNodeClass),
		Subnet: aws.ToString(i.SubnetId), State: string(i.State.Name), Launched: aws.ToTime(i.LaunchTime),
	}
	if i.Placement != nil {
		out.Zone, out.ZoneID = aws.ToString(i.Placement.AvailabilityZone), aws.ToString(i.Placement.AvailabilityZoneId)
	}
	for _, g := range i.SecurityGroups {
		out.SecurityGroups = append(out.SecurityGroups, aws.ToString(g.GroupId))
	}
	return out
}

// terminate terminates an instance. It answers NotFound when the instance is gone.
func (s *Service) terminate(ctx context.Context, key store.Key, id string) automode.Answer {
	i, err := s.instance(ctx, key, id)
	if err == nil && i.State != string(ec2types.InstanceStateNameShuttingDown) {
		_, err = s.AutoNodes.TerminateInstances(s.AsService(ctx, key.Account, key.Region), &awsec2.TerminateInstancesInput{InstanceIds: []string{id}})
	}
	if err != nil {
		return failed(kindOf(err), "Terminate", err)
	}
	return automode.Answer{}
}

// TerminateAll terminates all instances of a cluster's EKS Auto Mode and returns how many are left.
func (s *Service) TerminateAll(ctx context.Context, key store.Key) (int, error) {
	all, err := s.instances(ctx, key)
	if err != nil {
		return 0, err
	}
	var live []string
	for _, i := range all {
		if i.State != string(ec2types.InstanceStateNameShuttingDown) {
			live = append(live, i.ID)
		}
	}
	if len(live) > 0 {
		_, err = s.AutoNodes.TerminateInstances(s.AsService(ctx, key.Account, key.Region), &awsec2.TerminateInstancesInput{InstanceIds: live})
	}
	return len(all), err
}

// Newer returns how many instances of a cluster's EKS Auto Mode have an image for a newer Kubernetes version than the given
// one.
func (s *Service) Newer(ctx context.Context, key store.Key, version string) (int, error) {
	all, err := s.instances(ctx, key)
	n := 0
	for _, i := range all {
		img, ok := images.ByID(key.Region, i.Image)
		if ok && eksversions.Number(img.KubernetesVersion) > eksversions.Number(version) {
			n++
		}
	}
	return n, err
}
