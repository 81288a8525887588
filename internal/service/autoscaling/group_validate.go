package autoscaling

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
)

func checkSizes(g *autoscalingtypes.AutoScalingGroup) error {
	if *g.MaxSize < *g.MinSize {
		return errBounds(*g.MinSize, *g.MaxSize)
	}
	if *g.DesiredCapacity < *g.MinSize || *g.DesiredCapacity > *g.MaxSize {
		return errDesired(*g.DesiredCapacity, *g.MinSize, *g.MaxSize)
	}
	return nil
}

// checkOptions validates the options in a request and applies them.
func checkOptions(g *autoscalingtypes.AutoScalingGroup, health *string, policies []string, capacityType *string) error {
	if health != nil && *health != "" {
		for t := range strings.SplitSeq(*health, ",") {
			if t != "EC2" && t != "ELB" {
				return errHealthCheckType(*health)
			}
		}
		g.HealthCheckType = health
	}
	if len(policies) > 0 {
		for _, p := range policies {
			if strings.HasPrefix(p, "arn:") {
				return awserr.NotImplemented("custom termination policies with Lambda")
			}
			if !slices.Contains(terminationPolicies(), p) {
				return errTerminationPolicy(p)
			}
		}
		g.TerminationPolicies = policies
	}
	if capacityType != nil {
		if err := checkCapacityType(g, *capacityType); err != nil {
			return err
		}
	}
	return nil
}

// place sets the subnets of a group: those in the request, or the default subnets of its zones.
func (s *Service) place(svc context.Context, g *groupRecord, zones []string, vpcZones *string) error {
	var named []string
	for id := range strings.SplitSeq(aws.ToString(vpcZones), ",") {
		if id = strings.TrimSpace(id); id != "" {
			named = append(named, id)
		}
	}
	if len(named) == 0 && len(zones) == 0 {
		return errNoPlace()
	}
	ask := &awsec2.DescribeSubnetsInput{SubnetIds: named}
	if len(named) == 0 {
		ask.Filters = []ec2types.Filter{
			{Name: aws.String("default-for-az"), Values: []string{"true"}}, {Name: aws.String("availability-zone"), Values: zones},
		}
	}
	out, err := s.cfg.EC2.DescribeSubnets(svc, ask)
	if code := awserr.CodeOf(err); code != "" {
		return errValidation("%s", awserr.TextOf(err))
	} else if err != nil {
		return fmt.Errorf("looking up the subnets: %w", err)
	}
	found := map[string]subnet{}
	byZone := map[string]string{}
	for _, sn := range out.Subnets {
		found[*sn.SubnetId] = subnet{*sn.SubnetId, aws.ToString(sn.AvailabilityZone), aws.ToString(sn.AvailabilityZoneId)}
		byZone[aws.ToString(sn.AvailabilityZone)] = *sn.SubnetId
	}
	var subnets []subnet
	for _, id := range named {
		subnets = append(subnets, found[id])
	}
	if len(named) == 0 {
		for _, z := range zones {
			if byZone[z] == "" {
				return errZone(z)
			}
			subnets = append(subnets, found[byZone[z]])
		}
	}
	var inZones, zoneIDs []string
	for _, sn := range subnets {
		if !slices.Contains(inZones, sn.Zone) {
			inZones, zoneIDs = append(inZones, sn.Zone), append(zoneIDs, sn.ZoneID)
		}
	}
	for _, z := range zones {
		if !slices.Contains(inZones, z) {
			return errZonesOfSubnets()
		}
	}
	if len(zones) > 0 && len(zones) != len(inZones) {
		return errZonesOfSubnets()
	}
	g.Subnets, g.Group.AvailabilityZones, g.Group.AvailabilityZoneIds = subnets, inZones, zoneIDs
	g.Group.VPCZoneIdentifier = nil
	if len(named) > 0 {
		g.Group.VPCZoneIdentifier = aws.String(strings.Join(named, ","))
	}
	return nil
}

// A source is where a group's instances come from. Exactly one field is set.
type source struct {
	config   *string
	template *autoscalingtypes.LaunchTemplateSpecification
	mixed    *autoscalingtypes.MixedInstancesPolicy
}

func (src source) empty() bool { return src.config == nil && src.template == nil && src.mixed == nil }

// setSource checks a source with a dry run, as AWS does, and sets it on the group.
func (s *Service) setSource(ctx context.Context, sc scope, g *groupRecord, src source) error {
	given := 0
	for _, set := range []bool{src.config != nil, src.template != nil, src.mixed != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		return errSource()
	}
	svc := s.asService(ctx, sc.Account, sc.Region)
	switch {
	case src.config != nil:
		if _, err := configs.Get(s.store, sc.group(*src.config)); store.IsNotFound(err) {
			return errNoConfig(*src.config)
		} else if err != nil {
			return err
		}
	case src.template != nil:
		spec, _, data, err := s.template(svc, src.template)
		if err != nil {
			return err
		}
		if err := checkTemplate(data, false); err != nil {
			return err
		}
		src.template = spec
	default:
		mixed, err := s.checkMixed(svc, src.mixed, g.Group.MixedInstancesPolicy)
		if err != nil {
			return err
		}
		src.mixed = mixed
	}
	g.Group.LaunchConfigurationName, g.Group.LaunchTemplate, g.Group.MixedInstancesPolicy = src.config, src.template, src.mixed
	if src.config != nil {
		return nil // checked at its creation; later problems show in an activity
	}
	return s.tryLaunch(svc, sc, g)
}

// template resolves a launch template. shown is the specification as Describe returns it, pinned
// has the version's current number, and data is that version's.
func (s *Service) template(svc context.Context, spec *autoscalingtypes.LaunchTemplateSpecification) (shown, pinned *autoscalingtypes.LaunchTemplateSpecification, data *ec2types.ResponseLaunchTemplateData, err error) {
	if (aws.ToString(spec.LaunchTemplateId) == "") == (aws.ToString(spec.LaunchTemplateName) == "") {
		return nil, nil, nil, errTemplateSpec()
	}
	version := aws.ToString(spec.Version)
	if version == "" {
		version = "$Default"
	}
	if _, err := strconv.ParseUint(version, 10, 63); err != nil && version != "$Default" && version != "$Latest" {
		return nil, nil, nil, errTemplateVersion()
	}
	out, err := s.cfg.EC2.DescribeLaunchTemplateVersions(svc, &awsec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: spec.LaunchTemplateId, LaunchTemplateName: spec.LaunchTemplateName, Versions: []string{version},
	})
	if awserr.CodeOf(err) != "" {
		return nil, nil, nil, errTemplate(awserr.TextOf(err))
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("looking up the launch template: %w", err)
	}
	if len(out.LaunchTemplateVersions) != 1 {
		return nil, nil, nil, errTemplate("Could not find the specified version " + version + " for the launch template.")
	}
	v := out.LaunchTemplateVersions[0]
	of := func(version string) *autoscalingtypes.LaunchTemplateSpecification {
		return &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: v.LaunchTemplateId, LaunchTemplateName: v.LaunchTemplateName, Version: &version}
	}
	return of(version), of(fmt.Sprint(aws.ToInt64(v.VersionNumber))), v.LaunchTemplateData, nil
}

// checkTemplate rejects settings that a group's template must not have.
func checkTemplate(data *ec2types.ResponseLaunchTemplateData, mixed bool) error {
	switch {
	case data == nil:
	case mixed && data.InstanceMarketOptions != nil && data.InstanceMarketOptions.MarketType == ec2types.MarketTypeSpot:
		return errTemplateSpot()
	case len(data.NetworkInterfaces) > 0 && len(data.SecurityGroupIds)+len(data.SecurityGroups) > 0:
		return errTemplateGroups()
	}
	return nil
}

// lowestPrice is the allocation strategy that uses SpotInstancePools.
const lowestPrice = "lowest-price"

// checkMixed validates a mixed instances policy. Missing values default to those of old, or else to
// AWS's defaults.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_InstancesDistribution.html
func (s *Service) checkMixed(svc context.Context, in, old *autoscalingtypes.MixedInstancesPolicy) (*autoscalingtypes.MixedInstancesPolicy, error) {
	out := &autoscalingtypes.MixedInstancesPolicy{InstancesDistribution: &autoscalingtypes.InstancesDistribution{
		OnDemandAllocationStrategy: aws.String("prioritized"), OnDemandBaseCapacity: aws.Int32(0),
		OnDemandPercentageAboveBaseCapacity: aws.Int32(100), SpotAllocationStrategy: aws.String(lowestPrice), SpotInstancePools: aws.Int32(2),
	}}
	if old != nil {
		dist := *old.InstancesDistribution
		out.InstancesDistribution, out.LaunchTemplate = &dist, old.LaunchTemplate
	}
	if in.LaunchTemplate != nil {
		if in.LaunchTemplate.LaunchTemplateSpecification == nil {
			return nil, errTemplateSpec()
		}
		shown, _, data, err := s.template(svc, in.LaunchTemplate.LaunchTemplateSpecification)
		if err != nil {
			return nil, err
		}
		if err := checkTemplate(data, true); err != nil {
			return nil, err
		}
		overrides, err := s.checkOverrides(svc, in.LaunchTemplate.Overrides)
		if err != nil {
			return nil, err
		}
		out.LaunchTemplate = &autoscalingtypes.LaunchTemplate{LaunchTemplateSpecification: shown, Overrides: overrides}
		if old == nil && byRequirements(overrides) { // there is no order of preference
			out.InstancesDistribution.OnDemandAllocationStrategy = aws.String(lowestPrice)
		}
	}
	if out.LaunchTemplate == nil {
		return nil, errSource()
	}
	d := in.InstancesDistribution
	if d == nil {
		return out, nil
	}
	to := out.InstancesDistribution
	if v := aws.ToString(d.OnDemandAllocationStrategy); v != "" {
		if v != "prioritized" && v != lowestPrice {
			return nil, errOnDemandStrategy()
		}
		to.OnDemandAllocationStrategy = &v
	}
	if v := aws.ToString(d.SpotAllocationStrategy); v != "" {
		if all := []string{lowestPrice, "capacity-optimized", "capacity-optimized-prioritized", "price-capacity-optimized"}; !slices.Contains(all, v) {
			return nil, errSpotStrategy(all)
		}
		to.SpotAllocationStrategy = &v
	}
	if v := d.OnDemandBaseCapacity; v != nil {
		to.OnDemandBaseCapacity = v
	}
	if v := d.OnDemandPercentageAboveBaseCapacity; v != nil {
		if *v < 0 || *v > 100 {
			return nil, errValidation("OnDemandPercentageAboveBaseCapacity must be between 0 and 100, got %d", *v) // from memory
		}
		to.OnDemandPercentageAboveBaseCapacity = v
	}
	switch {
	case d.SpotInstancePools != nil:
		to.SpotInstancePools = d.SpotInstancePools
	case old == nil && *to.SpotAllocationStrategy != lowestPrice:
		to.SpotInstancePools = nil // an update must set it to 0 explicitly
	}
	if *to.SpotAllocationStrategy != lowestPrice && aws.ToInt32(to.SpotInstancePools) != 0 {
		return nil, errSpotPools()
	}
	if d.SpotMaxPrice != nil {
		to.SpotMaxPrice = d.SpotMaxPrice
	}
	return out, nil
}
