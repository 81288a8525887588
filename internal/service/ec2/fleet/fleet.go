package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/capacity"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// Types and states of a fleet.
const (
	typeInstant  = "instant"
	typeRequest  = "request"
	typeMaintain = "maintain"

	stateSubmitted   = "submitted"
	stateActive      = "active"
	stateDeleted     = "deleted"
	stateRunning     = "deleted_running"
	stateTerminating = "deleted_terminating"
)

// The members of a launch template configuration that CreateFleet and ModifyFleet support.
const ConfigMembers = `LaunchTemplateConfigs.LaunchTemplateSpecification LaunchTemplateConfigs.Overrides.AvailabilityZone
	LaunchTemplateConfigs.Overrides.AvailabilityZoneId LaunchTemplateConfigs.Overrides.BlockDeviceMappings.DeviceName
	LaunchTemplateConfigs.Overrides.BlockDeviceMappings.Ebs LaunchTemplateConfigs.Overrides.BlockDeviceMappings.NoDevice
	LaunchTemplateConfigs.Overrides.ImageId
	LaunchTemplateConfigs.Overrides.InstanceRequirements LaunchTemplateConfigs.Overrides.InstanceType
	LaunchTemplateConfigs.Overrides.MaxPrice
	LaunchTemplateConfigs.Overrides.Placement.GroupId LaunchTemplateConfigs.Overrides.Placement.GroupName
	LaunchTemplateConfigs.Overrides.Placement.PartitionNumber LaunchTemplateConfigs.Overrides.Placement.Tenancy LaunchTemplateConfigs.Overrides.Priority
	LaunchTemplateConfigs.Overrides.SubnetId LaunchTemplateConfigs.Overrides.WeightedCapacity
	TargetCapacitySpecification.DefaultTargetCapacityType TargetCapacitySpecification.OnDemandTargetCapacity
	TargetCapacitySpecification.SpotTargetCapacity TargetCapacitySpecification.TotalTargetCapacity`

// Members are the members that CreateFleet supports.
const Members = ConfigMembers + ` ClientToken Context DryRun ExcessCapacityTerminationPolicy OnDemandOptions.AllocationStrategy
	ReplaceUnhealthyInstances SpotOptions.AllocationStrategy SpotOptions.InstanceInterruptionBehavior SpotOptions.InstancePoolsToUseCount
	TagSpecifications TerminateInstancesWithExpiration Type ValidFrom ValidUntil`

// Except lists what CreateFleet does not support.
const Except = "interruption behaviors other than terminate, " + storage.CreateExcept + ", " + instancetype.RequirementsExcept

// A Fleet is an EC2 Fleet. Its instances are found by their records, which name their fleet.
type Fleet struct {
	ID          string
	Type, State string
	Created     time.Time
	Since       time.Time // when it entered the state
	ClientToken string    `json:",omitempty"`
	Context     string    `json:",omitempty"`
	// Configs are the launch templates and overrides as requested.
	Configs json.RawMessage
	Target  fleetTarget
	// The strategies are as requested, or the defaults.
	OnDemandStrategy, SpotStrategy string
	SpotPools                      int32  `json:",omitempty"` // for lowest-price
	Excess                         string // termination or no-termination
	ReplaceUnhealthy               bool   `json:",omitempty"`
	TerminateExpired               bool   `json:",omitempty"`
	ValidFrom, ValidUntil          time.Time
	Tags                           tag.Set `json:",omitempty"`

	// Groups and Faults are the results of launches: all launches of an instant fleet, the most
	// recent ones of other fleets.
	Groups []fleetGroup `json:",omitempty"`
	Faults []fleetFault `json:",omitempty"`
	// Placed is how many units a request fleet has launched. They are not replaced.
	Placed fleetUnits
	// Pokes counts terminated instances. Incrementing it triggers the reconciler.
	Pokes int `json:",omitempty"`
}

type fleetTarget struct {
	Total, OnDemand, Spot int32
	Default               string
}

// fleetUnits are units of capacity by capacity type.
type fleetUnits struct{ OnDemand, Spot float64 }

func (u *fleetUnits) of(isSpot bool) *float64 {
	if isSpot {
		return &u.Spot
	}
	return &u.OnDemand
}

// units returns the target units of each capacity type.
func (t fleetTarget) units() fleetUnits {
	u := fleetUnits{float64(t.OnDemand), float64(t.Spot)}
	if rest := float64(t.Total) - u.OnDemand - u.Spot; rest > 0 {
		*u.of(t.Default == capacity.Spot) += rest
	}
	return u
}

// A fleetGroup has the instances launched from one pool.
type fleetGroup struct {
	Pool      fleetOrigin
	Instances []string
}

// A fleetFault is the reason why nothing was launched from a pool.
type fleetFault struct {
	Pool          fleetOrigin
	Code, Message string
}

// A fleetOrigin identifies a pool in responses.
type fleetOrigin struct {
	TemplateID, Version string
	Override            json.RawMessage // of FleetLaunchTemplateOverrides
	Type, Zone, ZoneID  string
	Subnet              string `json:",omitempty"`
	Spot                bool   `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (o fleetOrigin) SDK() *ec2types.LaunchTemplateAndOverridesResponse {
	over := new(ec2types.FleetLaunchTemplateOverrides)
	if len(o.Override) > 0 {
		_ = json.Unmarshal(o.Override, over) // this package created it, so it is valid
	}
	return &ec2types.LaunchTemplateAndOverridesResponse{
		LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecification{LaunchTemplateId: aws.String(o.TemplateID), Version: aws.String(o.Version)},
		Overrides:                   over,
	}
}

func (o fleetOrigin) lifecycle() ec2types.InstanceLifecycle {
	return ec2types.InstanceLifecycle(capacity.TypeOf(o.Spot))
}

func (f Fleet) configs() ([]ec2types.FleetLaunchTemplateConfigRequest, error) {
	var out []ec2types.FleetLaunchTemplateConfigRequest
	if err := json.Unmarshal(f.Configs, &out); err != nil {
		return nil, fmt.Errorf("fleet %s: %w", f.ID, err)
	}
	return out, nil
}

// fleetsUnderWay are the instant fleets that calls in this process are launching. The reconciler
// does not touch them.
type fleetsUnderWay struct{ m sync.Map }

// CreateFleet launches instances of several types, in several zones and with several purchase
// options. An instant fleet is launched before CreateFleet returns; the reconciler launches others.
func (s *Service) CreateFleet(ctx context.Context, in *awsec2.CreateFleetInput) (*awsec2.CreateFleetOutput, error) {
	sc := resource.ScopeOf(ctx)
	if done, err := s.Recall(s.Store, sc, "CreateFleet", in.ClientToken, in); err != nil {
		return nil, err
	} else if done != nil {
		f, err := resource.Get(s.Store, Fleets, sc, done.IDs[0])
		return f.created(), err
	}
	made, err := s.newFleet(ctx, sc, in)
	if err != nil {
		return nil, err
	}
	if made.Type != typeInstant && !aws.ToBool(in.DryRun) && s.ensureServiceRole != nil {
		if err := s.ensureServiceRole(ctx, ServiceRole); err != nil {
			return nil, errNoServiceRole(err)
		}
	}
	s.underWay.m.Store(made.ID, true)
	defer s.underWay.m.Delete(made.ID)
	f, err := resource.Create(ctx, s.Core, Fleets, in.DryRun, in.ClientToken, in, func(_ *store.Tx, f *Fleet) error {
		*f = made
		return nil
	})
	if err != nil {
		return nil, err
	}
	if f.Type != typeInstant || f.State != stateSubmitted {
		return f.created(), nil
	}
	// As its user, in a forward access session of the fleet:
	// https://github.com/aws/karpenter-provider-aws/issues/8190
	groups, faults, err := s.launchFleet(awsapi.Via(ctx, ServiceRole.Service), sc, f, f.Target.units(), instanceTagSpecs(in.TagSpecifications))
	if err != nil {
		// The instances that were launched belong to the fleet. The reconciler records them.
		return nil, err
	}
	f, err = s.launchedFleet(context.WithoutCancel(ctx), sc.Key(f.ID), f, groups, faults)
	return f.created(), err
}

// errNoServiceRole is of a user who may not create the service-linked role. The code and
// the words are those for EC2 Spot, which users of Karpenter see:
// https://karpenter.sh/docs/troubleshooting/#missing-service-linked-role
func errNoServiceRole(err error) error {
	if !ec2err.HasCode(err, "AccessDenied") {
		return fmt.Errorf("creating the service-linked role: %w", err)
	}
	return ec2err.New("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "The provided credentials do not have permission to create the service-linked role for EC2 Fleet.")
}

// launchedFleet records what an instant fleet has launched. It keeps changes that others have made
// in the meantime: tags and the fleet's deletion.
func (s *Service) launchedFleet(ctx context.Context, k store.Key, f Fleet, groups []fleetGroup, faults []fleetFault) (Fleet, error) {
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		stored, err := Fleets.Get(tx, k)
		if err != nil && !resource.NotFound(err) {
			return err
		}
		gone := err != nil
		if !gone {
			f = stored
		}
		f.Groups, f.Faults = groups, faults
		if f.State == stateSubmitted {
			f.State, f.Since = stateActive, s.Now()
		}
		if gone {
			return nil
		}
		return Fleets.Put(tx, k, f)
	})
	return f, err
}

// created returns CreateFleet's output.
func (f Fleet) created() *awsec2.CreateFleetOutput {
	out := &awsec2.CreateFleetOutput{FleetId: aws.String(f.ID)}
	if f.Type != typeInstant {
		return out
	}
	for _, g := range f.Groups {
		out.Instances = append(out.Instances, ec2types.CreateFleetInstance{
			InstanceIds: g.Instances, InstanceType: ec2types.InstanceType(g.Pool.Type), Lifecycle: g.Pool.lifecycle(),
			AvailabilityZone: aws.String(g.Pool.Zone), AvailabilityZoneId: aws.String(g.Pool.ZoneID), SubnetId: resource.Optional(g.Pool.Subnet),
			LaunchTemplateAndOverrides: g.Pool.SDK(),
		})
	}
	for _, e := range f.Faults {
		out.Errors = append(out.Errors, ec2types.CreateFleetError{
			ErrorCode: aws.String(e.Code), ErrorMessage: aws.String(e.Message), Lifecycle: e.Pool.lifecycle(), LaunchTemplateAndOverrides: e.Pool.SDK(),
		})
	}
	return out
}

// instanceTagSpecs returns a fleet request's tags for instances and what belongs to them.
func instanceTagSpecs(specs []ec2types.TagSpecification) []ec2types.TagSpecification {
	return slices.DeleteFunc(slices.Clone(specs), func(t ec2types.TagSpecification) bool { return t.ResourceType == ec2types.ResourceTypeFleet })
}

// newFleet checks a request and returns the record to store.
func (s *Service) newFleet(ctx context.Context, sc resource.Scope, in *awsec2.CreateFleetInput) (Fleet, error) {
	now := s.Now()
	f := Fleet{
		ID: "fleet-" + ids.UUID(), Type: string(in.Type), State: stateSubmitted, Created: now, Since: now,
		ClientToken: aws.ToString(in.ClientToken), Context: aws.ToString(in.Context),
		OnDemandStrategy: "lowest-price", SpotStrategy: "lowest-price", SpotPools: 1, Excess: string(in.ExcessCapacityTerminationPolicy),
		ReplaceUnhealthy: aws.ToBool(in.ReplaceUnhealthyInstances), TerminateExpired: aws.ToBool(in.TerminateInstancesWithExpiration),
		ValidFrom: aws.ToTime(in.ValidFrom), ValidUntil: aws.ToTime(in.ValidUntil),
	}
	switch in.Type {
	case "":
		f.Type = typeMaintain
	case typeInstant, typeRequest, typeMaintain:
	default:
		return f, ec2err.InvalidValue(in.Type, "Type", "")
	}
	switch in.ExcessCapacityTerminationPolicy {
	case "":
		f.Excess = "termination"
	case ec2types.FleetExcessCapacityTerminationPolicyTermination, ec2types.FleetExcessCapacityTerminationPolicyNoTermination:
	default:
		return f, ec2err.InvalidValue(in.ExcessCapacityTerminationPolicy, "ExcessCapacityTerminationPolicy", "")
	}
	if o := in.OnDemandOptions; o != nil && o.AllocationStrategy != "" {
		strategy := hyphenated(o.AllocationStrategy)
		if !slices.Contains(strategy.Values(), strategy) {
			return f, ec2err.InvalidValue(o.AllocationStrategy, "OnDemandOptions.AllocationStrategy", "")
		}
		f.OnDemandStrategy = string(strategy)
	}
	if err := f.takeSpotOptions(in.SpotOptions); err != nil {
		return f, err
	}
	if !f.ValidUntil.IsZero() && !f.ValidUntil.After(now) || !f.ValidUntil.IsZero() && f.ValidUntil.Before(f.ValidFrom) {
		return f, ec2err.InvalidValue(f.ValidUntil.Format(time.RFC3339), "ValidUntil", "")
	}
	if err := f.takeTarget(in.TargetCapacitySpecification); err != nil {
		return f, err
	}
	if err := s.takeConfigs(sc, &f, in.LaunchTemplateConfigs); err != nil {
		return f, err
	}
	allowed := []ec2types.ResourceType{ec2types.ResourceTypeFleet}
	if f.Type == typeInstant {
		allowed = append(allowed, ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeNetworkInterface, ec2types.ResourceTypeSpotInstancesRequest, ec2types.ResourceTypeLaunchTemplate)
	}
	var err error
	f.Tags, err = tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeFleet, allowed...)
	if err != nil {
		return f, err
	}
	for _, spec := range in.TagSpecifications {
		if _, err := tag.Parse(ctx, spec.Tags); err != nil {
			return f, err
		}
	}
	return f, nil
}

// hyphenated returns an allocation strategy as the API model spells it. EC2 also accepts Spot
// Fleet's spelling, lowestPrice, which Terraform sends and DescribeFleets returns.
func hyphenated[S ~string](strategy S) S {
	var b strings.Builder
	for _, r := range string(strategy) {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return S(b.String())
}

func (f *Fleet) takeSpotOptions(o *ec2types.SpotOptionsRequest) error {
	if o == nil {
		return nil
	}
	if o.AllocationStrategy != "" {
		strategy := hyphenated(o.AllocationStrategy)
		if !slices.Contains(strategy.Values(), strategy) {
			return ec2err.InvalidValue(o.AllocationStrategy, "SpotOptions.AllocationStrategy", "")
		}
		f.SpotStrategy = string(strategy)
	}
	if b := o.InstanceInterruptionBehavior; b != "" && b != ec2types.SpotInstanceInterruptionBehaviorTerminate {
		return ec2err.NotHonoured("SpotOptions.InstanceInterruptionBehavior=" + string(b))
	}
	if n := o.InstancePoolsToUseCount; n != nil {
		if f.SpotStrategy != "lowest-price" {
			// [seen] hashicorp/terraform-provider-aws, resource aws_ec2_fleet
			return ec2err.New("InvalidFleetConfig", "InstancePoolsToUseCount option is only available with the lowestPrice allocation strategy.")
		}
		if *n < 1 {
			return ec2err.InvalidValue(*n, "SpotOptions.InstancePoolsToUseCount", "")
		}
		f.SpotPools = *n
	}
	return nil
}

// maxCapacity is the maximum target capacity of a fleet.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/fleet-quotas.html
const maxCapacity = 10_000

func (f *Fleet) takeTarget(t *ec2types.TargetCapacitySpecificationRequest) error {
	if t == nil || t.TotalTargetCapacity == nil {
		return ec2err.Missing("TargetCapacitySpecification.TotalTargetCapacity")
	}
	f.Target.Total = *t.TotalTargetCapacity
	if t.OnDemandTargetCapacity != nil {
		f.Target.OnDemand = *t.OnDemandTargetCapacity
	}
	if t.SpotTargetCapacity != nil {
		f.Target.Spot = *t.SpotTargetCapacity
	}
	switch t.DefaultTargetCapacityType {
	case "":
		f.Target.Default = resource.Or(f.Target.Default, capacity.Spot)
	case capacity.OnDemand, capacity.Spot:
		f.Target.Default = string(t.DefaultTargetCapacityType)
	default:
		return ec2err.NotHonoured("TargetCapacitySpecification.DefaultTargetCapacityType=" + string(t.DefaultTargetCapacityType))
	}
	g := f.Target
	switch {
	case g.Total < 0 || g.OnDemand < 0 || g.Spot < 0 || g.Total == 0 && f.Type == typeInstant:
		return ec2err.InvalidValue(g.Total, "TargetCapacitySpecification.TotalTargetCapacity", "")
	case g.Total > maxCapacity:
		return ec2err.New("InvalidTargetCapacitySpecification", "The total target capacity must not exceed %d.", maxCapacity) // from memory
	case g.OnDemand+g.Spot > g.Total:
		return ec2err.New("InvalidTargetCapacitySpecification", "The sum of the On-Demand and Spot target capacities must not exceed the total target capacity.") // from memory
	}
	return nil
}

// duplicatePools reports whether overrides name a pool, an instance type in an Availability Zone,
// more than once.
func (s *Service) duplicatePools(sc resource.Scope, overrides []ec2types.FleetLaunchTemplateOverridesRequest) bool {
	type pool struct {
		typ  ec2types.InstanceType
		zone string
	}
	seen := map[pool]bool{}
	for _, o := range overrides {
		p := pool{o.InstanceType, aws.ToString(o.AvailabilityZone) + aws.ToString(o.AvailabilityZoneId)}
		if sn, err := record.Subnets.Get(s.Store, sc.Key(aws.ToString(o.SubnetId))); err == nil {
			p.zone = sn.Zone
		}
		if p.typ != "" && seen[p] {
			return true
		}
		seen[p] = true
	}
	return false
}

// takeConfigs validates the launch templates and overrides and stores them in f.
func (s *Service) takeConfigs(sc resource.Scope, f *Fleet, configs []ec2types.FleetLaunchTemplateConfigRequest) error {
	if len(configs) == 0 {
		return ec2err.Missing("LaunchTemplateConfigs")
	}
	overrides, requirements := 0, 0
	for _, c := range configs {
		if c.LaunchTemplateSpecification == nil {
			return ec2err.Missing("LaunchTemplateSpecification")
		}
		if _, err := s.fleetTemplate(sc, c.LaunchTemplateSpecification); err != nil {
			return err
		}
		overrides += len(c.Overrides)
		for _, o := range c.Overrides {
			if o.InstanceType != "" && o.InstanceRequirements != nil {
				return ec2err.Combination("You can specify either InstanceType or InstanceRequirements, but not both.") // from memory
			}
			if o.InstanceRequirements != nil {
				requirements++
			}
			if o.WeightedCapacity != nil && *o.WeightedCapacity <= 0 {
				return ec2err.InvalidValue(*o.WeightedCapacity, "WeightedCapacity", "")
			}
		}
	}
	if requirements > 4 { // https://github.com/osbuild/osbuild-composer/pull/3946
		return ec2err.InvalidParameterValue("Your request contains more than the maximum allowed number of InstanceRequirements (4)")
	}
	if overrides > 300 { // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/fleet-quotas.html
		return ec2err.New("InvalidFleetConfig", "The fleet configuration contains %d overrides; the maximum is 300.", overrides) // from memory
	}
	for _, c := range configs {
		if s.duplicatePools(sc, c.Overrides) {
			// [seen] in notes by users of instant fleets
			return ec2err.New("InvalidFleetConfig", "The fleet configuration contains duplicate instance pools")
		}
	}
	raw, err := launchtemplate.CompactJSON(configs)
	f.Configs = raw
	return err
}

var Fleets = resource.NewKind("fleet", resource.FleetID, func(v *Fleet) (string, *tag.Set) { return v.ID, &v.Tags })
