package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/instance"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// A fleetPool is one source of a fleet's instances: an override, an instance type and a subnet.
type fleetPool struct {
	origin   fleetOrigin
	template ec2types.LaunchTemplateSpecification
	override ec2types.FleetLaunchTemplateOverridesRequest
	subnet   string // empty for the launch template's
	price    float64
	priority float64
	weight   float64
	err      error // why nothing can be launched from it
}

// A fleetTemplate is a launch template that a fleet uses.
type fleetTemplate struct {
	spec ec2types.LaunchTemplateSpecification
	base awsec2.RunInstancesInput
	// requirements are the template's instance requirements, for which RunInstances has no member.
	requirements *ec2types.InstanceRequirementsRequest
}

func (s *Service) fleetTemplate(sc resource.Scope, spec *ec2types.FleetLaunchTemplateSpecificationRequest) (fleetTemplate, error) {
	var out fleetTemplate
	t, err := launchtemplate.Find(s.Store, sc, spec.LaunchTemplateId, spec.LaunchTemplateName)
	if err != nil {
		return out, err
	}
	n, err := t.Version(aws.ToString(spec.Version))
	if err != nil {
		return out, err
	}
	v, err := launchtemplate.GetVersion(s.Store, sc, t, n)
	if err != nil {
		return out, err
	}
	out.spec = ec2types.LaunchTemplateSpecification{LaunchTemplateId: aws.String(t.ID), Version: aws.String(fmt.Sprint(n))}
	if err := json.Unmarshal(v.Data, &out.base); err != nil {
		return out, fmt.Errorf("launch template %s version %d: %w", t.ID, n, err)
	}
	var more struct {
		InstanceRequirements *ec2types.InstanceRequirementsRequest
	}
	err = json.Unmarshal(v.Data, &more)
	out.requirements = more.InstanceRequirements
	return out, err
}

// fleetPools returns a fleet's pools for a capacity type, in the order in which they are tried.
func (s *Service) fleetPools(sc resource.Scope, f Fleet, isSpot bool) ([]fleetPool, error) {
	configs, err := f.configs()
	if err != nil {
		return nil, err
	}
	var out []fleetPool
	for _, c := range configs {
		t, err := s.fleetTemplate(sc, c.LaunchTemplateSpecification)
		if err != nil {
			return nil, err
		}
		overrides := c.Overrides
		if len(overrides) == 0 {
			overrides = []ec2types.FleetLaunchTemplateOverridesRequest{{}}
		}
		for _, o := range overrides {
			pools, err := s.expandOverride(sc, t, o, isSpot)
			if err != nil {
				return nil, err
			}
			out = append(out, pools...)
		}
	}
	sortPools(out, f, isSpot)
	return out, nil
}

// expandOverride returns the pools of an override: one for each matching type and each subnet.
func (s *Service) expandOverride(sc resource.Scope, t fleetTemplate, o ec2types.FleetLaunchTemplateOverridesRequest, isSpot bool) ([]fleetPool, error) {
	types := []string{resource.Or(string(o.InstanceType), string(t.base.InstanceType))}
	requirements := o.InstanceRequirements
	if requirements == nil && o.InstanceType == "" && t.base.InstanceType == "" {
		requirements = t.requirements
	}
	if requirements != nil {
		img, ok := s.images.LookupImage(sc, resource.Or(aws.ToString(o.ImageId), aws.ToString(t.base.ImageId)))
		if !ok {
			return nil, resource.ImageID.NotFound(resource.Or(aws.ToString(o.ImageId), aws.ToString(t.base.ImageId)))
		}
		var err error
		if types, err = instancetype.MatchingTypes(sc.Region, requirements, []string{img.Architecture}, isSpot); err != nil {
			return nil, err
		}
	}
	where, err := s.overrideSubnets(sc, t, o)
	if err != nil {
		return nil, err
	}
	var out []fleetPool
	for _, name := range types {
		typ, known := instancetypes.Lookup(name)
		for _, at := range where {
			p := fleetPool{template: t.spec, override: o, subnet: at.subnet, weight: 1, priority: math.Inf(1), err: at.err}
			if o.WeightedCapacity != nil {
				p.weight = *o.WeightedCapacity
			}
			if o.Priority != nil {
				p.priority = *o.Priority
			}
			p.override.InstanceType, p.override.InstanceRequirements = ec2types.InstanceType(name), nil
			if !known && p.err == nil {
				p.err = ec2err.InstanceType(name)
			}
			p.origin = fleetOrigin{
				TemplateID: *t.spec.LaunchTemplateId, Version: *t.spec.Version, Type: name, Zone: at.zone, ZoneID: at.zoneID,
				Subnet: at.subnet, Spot: isSpot,
			}
			if p.origin.Override, err = echoOverride(p); err != nil {
				return nil, err
			}
			p.price = instancetype.OnDemandPrice(sc.Region, typ)
			if isSpot {
				p.price = instancetype.SpotPrice(sc.Region, at.zone, typ)
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// echoOverride returns a pool's override for a response. It always includes type and zone, because
// Karpenter reads them from every error without checking.
func echoOverride(p fleetPool) (json.RawMessage, error) {
	o := p.override
	out := ec2types.FleetLaunchTemplateOverrides{
		InstanceType: o.InstanceType, SubnetId: resource.Optional(p.subnet), AvailabilityZone: resource.Optional(p.origin.Zone), AvailabilityZoneId: resource.Optional(p.origin.ZoneID),
		ImageId: o.ImageId, MaxPrice: o.MaxPrice, Priority: o.Priority, WeightedCapacity: o.WeightedCapacity,
	}
	return launchtemplate.CompactJSON(out)
}

// A place is the location of a pool.
type place struct {
	subnet, zone, zoneID string
	err                  error
}

// overrideSubnets returns the subnets for an override: its own, the template's, or the default
// subnets of its zone or of all zones.
func (s *Service) overrideSubnets(sc resource.Scope, t fleetTemplate, o ec2types.FleetLaunchTemplateOverridesRequest) ([]place, error) {
	var names []string
	for id := range strings.SplitSeq(aws.ToString(o.SubnetId), ",") {
		if id = strings.TrimSpace(id); id != "" {
			names = append(names, id)
		}
	}
	own := len(names) > 0
	if !own {
		if id := aws.ToString(t.base.SubnetId); id != "" {
			names = append(names, id)
		} else if n := t.base.NetworkInterfaces; len(n) > 0 && aws.ToString(n[0].SubnetId) != "" {
			names = append(names, *n[0].SubnetId)
		}
	}
	zone := aws.ToString(o.AvailabilityZone) + aws.ToString(o.AvailabilityZoneId)
	if zone == "" && t.base.Placement != nil && !own {
		zone = aws.ToString(t.base.Placement.AvailabilityZone) + aws.ToString(t.base.Placement.AvailabilityZoneId)
	}
	var out []place
	for _, id := range names {
		sn, err := resource.Get(s.Store, record.Subnets, sc, id)
		at := place{subnet: id, zone: sn.Zone, zoneID: sn.ZoneID, err: err}
		if err != nil {
			at.zone = zone
		} else if zone != "" && zone != sn.Zone && zone != sn.ZoneID {
			at.err = ec2err.Combination(fmt.Sprintf("The subnet %s is in the availability zone %s, not in %s.", sn.ID, sn.Zone, zone))
		}
		out = append(out, at)
	}
	if len(out) > 0 {
		return out, nil
	}
	found := resource.List(s.Store, record.Subnets, sc, func(sn record.Subnet) bool {
		return sn.DefaultForZone && (zone == "" || zone == sn.Zone || zone == sn.ZoneID)
	})
	record.SortByZone(found)
	for _, sn := range found {
		out = append(out, place{subnet: sn.ID, zone: sn.Zone, zoneID: sn.ZoneID})
	}
	if len(out) == 0 {
		out = append(out, place{zone: zone, err: ec2err.New("MissingInput", "No subnets found for the default VPC '%s'. Please specify a subnet.", zone)})
	}
	return out, nil
}

// sortPools sorts pools in the order in which the allocation strategy tries them. The depth of Spot
// pools is not known, so all pools with capacity count as equally deep. The capacity-optimized
// strategies therefore go by price, and the prioritized ones by priority.
func sortPools(pools []fleetPool, f Fleet, isSpot bool) {
	strategy := f.OnDemandStrategy
	if isSpot {
		strategy = f.SpotStrategy
	}
	prioritized := strategy == "prioritized" || strategy == "capacity-optimized-prioritized"
	slices.SortStableFunc(pools, func(a, b fleetPool) int {
		if prioritized && a.priority != b.priority {
			return cmp.Compare(a.priority, b.priority)
		}
		return cmp.Compare(a.price/a.weight, b.price/b.weight)
	})
}

// spread is how many pools a strategy launches from at the same time.
func (f Fleet) spread(isSpot bool, pools int) int {
	switch {
	case isSpot && f.SpotStrategy == "diversified":
		return pools
	case isSpot && f.SpotStrategy == "lowest-price":
		return int(f.SpotPools)
	}
	return 1
}

// launchFleet launches units of each capacity type and says what came of every
// pool it tried. ctx says who launches. An error is not about a pool: part of it may
// have been launched.
func (s *Service) launchFleet(ctx context.Context, sc resource.Scope, f Fleet, want fleetUnits, tags []ec2types.TagSpecification) ([]fleetGroup, []fleetFault, error) {
	var groups []fleetGroup
	var faults []fleetFault
	for _, isSpot := range []bool{false, true} {
		if *want.of(isSpot) <= 0 {
			continue
		}
		pools, err := s.fleetPools(sc, f, isSpot)
		if err != nil {
			return groups, faults, err
		}
		a := allocation{s: s, sc: sc, fleet: f, tags: tags, spread: f.spread(isSpot, len(pools))}
		err = a.run(ctx, pools, *want.of(isSpot))
		groups, faults = append(groups, a.groups...), append(faults, a.faults...)
		if err != nil {
			return groups, faults, err
		}
	}
	return groups, faults, nil
}

// An allocation launches a fleet's units of one capacity type.
type allocation struct {
	s      *Service
	sc     resource.Scope
	fleet  Fleet
	tags   []ec2types.TagSpecification
	spread int
	groups []fleetGroup
	faults []fleetFault
}

// run divides the units among the first pools. What a pool cannot provide goes to the next ones.
func (a *allocation) run(ctx context.Context, pools []fleetPool, units float64) error {
	for units > 0 && len(pools) > 0 {
		active := pools[:min(max(a.spread, 1), len(pools))]
		share := units / float64(len(active))
		failed := map[int]bool{}
		for n, p := range active {
			if units <= 0 {
				break
			}
			mine := int(math.Ceil(min(math.Ceil(share), units) / p.weight))
			launched, err := a.launch(ctx, p, mine)
			if err != nil {
				return err
			}
			units -= float64(launched) * p.weight
			failed[n] = launched < mine
		}
		var left []fleetPool
		for n, p := range pools {
			if !failed[n] {
				left = append(left, p)
			}
		}
		pools = left
	}
	return nil
}

// launch launches up to count instances from a pool. If EC2 refuses, the error becomes the pool's
// fault.
func (a *allocation) launch(ctx context.Context, p fleetPool, count int) (int, error) {
	ctx, err := instance.ForFleet(ctx, a.fleet.ID, p.weight), p.err
	var launched []string
	for err == nil && len(launched) < count {
		// If a pool provided only some instances, the next attempt returns the reason.
		var out *awsec2.RunInstancesOutput
		if out, err = a.s.launcher.RunInstances(ctx, p.request(count-len(launched), a.tags)); err == nil {
			for _, i := range out.Instances {
				launched = append(launched, *i.InstanceId)
			}
		}
	}
	if len(launched) > 0 {
		a.groups = append(a.groups, fleetGroup{Pool: p.origin, Instances: launched})
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		a.faults = append(a.faults, fleetFault{Pool: p.origin, Code: api.ErrorCode(), Message: api.ErrorMessage()})
		err = nil
	}
	return len(launched), err
}

// request returns the RunInstances request for a pool.
func (p fleetPool) request(count int, tags []ec2types.TagSpecification) *awsec2.RunInstancesInput {
	o := p.override
	in := &awsec2.RunInstancesInput{
		LaunchTemplate: &p.template, MinCount: aws.Int32(1), MaxCount: aws.Int32(int32(count)), TagSpecifications: tags,
		InstanceType: o.InstanceType, ImageId: o.ImageId, SubnetId: resource.Optional(p.subnet),
	}
	if pl := o.Placement; pl != nil {
		in.Placement = &ec2types.Placement{Tenancy: pl.Tenancy, GroupId: pl.GroupId, GroupName: pl.GroupName, PartitionNumber: pl.PartitionNumber}
	}
	for _, d := range o.BlockDeviceMappings {
		m := ec2types.BlockDeviceMapping{DeviceName: d.DeviceName, NoDevice: d.NoDevice}
		if e := d.Ebs; e != nil {
			m.Ebs = &ec2types.EbsBlockDevice{
				DeleteOnTermination: e.DeleteOnTermination, Encrypted: e.Encrypted, Iops: e.Iops, KmsKeyId: e.KmsKeyId, SnapshotId: e.SnapshotId,
				Throughput: e.Throughput, VolumeSize: e.VolumeSize, VolumeType: e.VolumeType,
			}
		}
		in.BlockDeviceMappings = append(in.BlockDeviceMappings, m)
	}
	if p.origin.Spot {
		in.InstanceMarketOptions = &ec2types.InstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeSpot}
		if o.MaxPrice != nil {
			in.InstanceMarketOptions.SpotOptions = &ec2types.SpotMarketOptions{MaxPrice: o.MaxPrice}
		}
	}
	return in
}
