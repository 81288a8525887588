package fleet

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// pricePerUnit is the price of an instance per unit of its fleet's capacity.
func pricePerUnit(i record.Instance, sc resource.Scope) float64 {
	t, _ := instancetypes.Lookup(i.Type)
	price := instancetype.OnDemandPrice(sc.Region, t)
	if i.SpotRequestID != "" {
		price = instancetype.SpotPrice(sc.Region, i.Zone, t)
	}
	return price / max(i.FleetWeight, 0.001)
}

// activity returns a fleet's activity status.
func (f Fleet) activity(c fleetCount) ec2types.FleetActivityStatus {
	target := f.Target.units()
	have := c.fulfilled.OnDemand + c.fulfilled.Spot
	switch {
	case f.Type == typeInstant:
		return ec2types.FleetActivityStatusFulfilled
	case f.State != stateActive && f.State != stateSubmitted:
		return ""
	case have > target.OnDemand+target.Spot && c.ending > 0:
		return ec2types.FleetActivityStatusPendingTermination
	case have >= target.OnDemand+target.Spot:
		return ec2types.FleetActivityStatusFulfilled
	case f.Type == typeRequest && c.launched.OnDemand+c.launched.Spot >= target.OnDemand+target.Spot:
		return ec2types.FleetActivityStatusFulfilled
	case len(f.Faults) > 0:
		return ec2types.FleetActivityStatusError
	}
	return ec2types.FleetActivityStatusPendingFulfillment
}

// answered returns an allocation strategy as DescribeFleets spells it. [seen] the output in
// https://docs.aws.amazon.com/cli/latest/reference/ec2/describe-fleets.html#examples
func answered(strategy string) string {
	if strategy == "lowest-price" {
		return "lowestPrice"
	}
	return strategy
}

func (s *Service) sdkFleet(sc resource.Scope, f Fleet) (ec2types.FleetData, error) {
	c, err := s.countFleet(s.Store, sc, f.ID)
	if err != nil {
		return ec2types.FleetData{}, err
	}
	configs, err := f.configs()
	if err != nil {
		return ec2types.FleetData{}, err
	}
	out := ec2types.FleetData{
		FleetId: aws.String(f.ID), Type: ec2types.FleetType(f.Type), FleetState: ec2types.FleetStateCode(f.State), ActivityStatus: f.activity(c),
		ClientToken: aws.String(f.ClientToken), Context: resource.Optional(f.Context), CreateTime: aws.Time(f.Created),
		ExcessCapacityTerminationPolicy: ec2types.FleetExcessCapacityTerminationPolicy(f.Excess),
		FulfilledCapacity:               aws.Float64(c.fulfilled.OnDemand + c.fulfilled.Spot), FulfilledOnDemandCapacity: aws.Float64(c.fulfilled.OnDemand),
		ReplaceUnhealthyInstances: aws.Bool(f.ReplaceUnhealthy), TerminateInstancesWithExpiration: aws.Bool(f.TerminateExpired),
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecification{
			TotalTargetCapacity: aws.Int32(f.Target.Total), OnDemandTargetCapacity: aws.Int32(f.Target.OnDemand), SpotTargetCapacity: aws.Int32(f.Target.Spot),
			DefaultTargetCapacityType: ec2types.DefaultTargetCapacityType(f.Target.Default),
		},
		OnDemandOptions: &ec2types.OnDemandOptions{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategy(answered(f.OnDemandStrategy))},
		SpotOptions: &ec2types.SpotOptions{
			AllocationStrategy: ec2types.SpotAllocationStrategy(answered(f.SpotStrategy)), InstanceInterruptionBehavior: ec2types.SpotInstanceInterruptionBehaviorTerminate,
		},
		Tags: f.Tags.SDK(),
	}
	if f.SpotStrategy == "lowest-price" {
		out.SpotOptions.InstancePoolsToUseCount = aws.Int32(f.SpotPools)
	}
	if !f.ValidFrom.IsZero() {
		out.ValidFrom = aws.Time(f.ValidFrom)
	}
	if !f.ValidUntil.IsZero() {
		out.ValidUntil = aws.Time(f.ValidUntil)
	}
	for _, c := range configs {
		out.LaunchTemplateConfigs = append(out.LaunchTemplateConfigs, echoConfig(c))
	}
	if f.Type != typeInstant {
		return out, nil
	}
	for _, g := range f.Groups {
		out.Instances = append(out.Instances, ec2types.DescribeFleetsInstances{
			InstanceIds: g.Instances, InstanceType: ec2types.InstanceType(g.Pool.Type), Lifecycle: g.Pool.lifecycle(), LaunchTemplateAndOverrides: g.Pool.SDK(),
		})
	}
	for _, e := range f.Faults {
		out.Errors = append(out.Errors, ec2types.DescribeFleetError{
			ErrorCode: aws.String(e.Code), ErrorMessage: aws.String(e.Message), Lifecycle: e.Pool.lifecycle(), LaunchTemplateAndOverrides: e.Pool.SDK(),
		})
	}
	return out, nil
}

// echoConfig returns a launch template configuration as it was requested.
func echoConfig(c ec2types.FleetLaunchTemplateConfigRequest) ec2types.FleetLaunchTemplateConfig {
	out := ec2types.FleetLaunchTemplateConfig{}
	if t := c.LaunchTemplateSpecification; t != nil {
		out.LaunchTemplateSpecification = &ec2types.FleetLaunchTemplateSpecification{
			LaunchTemplateId: t.LaunchTemplateId, LaunchTemplateName: t.LaunchTemplateName, Version: t.Version,
		}
	}
	for _, o := range c.Overrides {
		over := ec2types.FleetLaunchTemplateOverrides{
			AvailabilityZone: o.AvailabilityZone, AvailabilityZoneId: o.AvailabilityZoneId, ImageId: o.ImageId, InstanceType: o.InstanceType,
			MaxPrice: o.MaxPrice, Priority: o.Priority, SubnetId: o.SubnetId, WeightedCapacity: o.WeightedCapacity,
		}
		if r := o.InstanceRequirements; r != nil {
			over.InstanceRequirements = instancetype.EchoRequirements(r)
		}
		for _, d := range o.BlockDeviceMappings {
			m := ec2types.BlockDeviceMappingResponse{DeviceName: d.DeviceName, NoDevice: d.NoDevice}
			if e := d.Ebs; e != nil {
				m.Ebs = &ec2types.EbsBlockDeviceResponse{
					DeleteOnTermination: e.DeleteOnTermination, Encrypted: e.Encrypted, Iops: e.Iops, KmsKeyId: e.KmsKeyId,
					SnapshotId: e.SnapshotId, Throughput: e.Throughput, VolumeSize: e.VolumeSize, VolumeType: e.VolumeType,
				}
			}
			over.BlockDeviceMappings = append(over.BlockDeviceMappings, m)
		}
		out.Overrides = append(out.Overrides, over)
	}
	return out
}

// DescribeFleets lists fleets. Instant fleets are included only if requested by ID.
func (s *Service) DescribeFleets(ctx context.Context, in *awsec2.DescribeFleetsInput) (*awsec2.DescribeFleetsOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = Fleet
	found, next, err := resource.Describe(s.Store, sc, Fleets, resource.Query{
		IDs: in.FleetIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 1, Max: 1000},
	}, filter.Fields[v]{
		"activity-status": filter.One(func(f v) string {
			c, err := s.countFleet(s.Store, sc, f.ID)
			if err != nil {
				return ""
			}
			return string(f.activity(c))
		}),
		"excess-capacity-termination-policy": func(f v) []string { return []string{f.Excess, strings.ReplaceAll(f.Excess, "-", "")} },
		"fleet-state":                        filter.One(func(f v) string { return f.State }),
		"replace-unhealthy-instances":        filter.Flag(func(f v) bool { return f.ReplaceUnhealthy }),
		"type":                               filter.One(func(f v) string { return f.Type }),
	}, func(f v) bool { return f.Type != typeInstant || len(in.FleetIds) > 0 })
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeFleetsOutput{NextToken: next, Fleets: []ec2types.FleetData{}}
	for _, f := range found {
		d, err := s.sdkFleet(sc, f)
		if err != nil {
			return nil, err
		}
		out.Fleets = append(out.Fleets, d)
	}
	return out, nil
}

// Settled reports whether no fleet is still being fulfilled.
func Settled(out *awsec2.DescribeFleetsOutput) bool {
	return !slices.ContainsFunc(out.Fleets, func(f ec2types.FleetData) bool {
		return f.ActivityStatus == ec2types.FleetActivityStatusPendingFulfillment || f.FleetState == ec2types.FleetStateCodeSubmitted ||
			f.FleetState == ec2types.FleetStateCodeDeletedTerminatingInstances
	})
}

// DescribeFleetInstances lists the running instances of a fleet.
func (s *Service) DescribeFleetInstances(ctx context.Context, in *awsec2.DescribeFleetInstancesInput) (*awsec2.DescribeFleetInstancesOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, filter.Fields[record.Instance]{"instance-type": filter.One(func(i record.Instance) string { return i.Type })}, nil)
	if err != nil {
		return nil, err
	}
	f, err := resource.Get(s.Store, Fleets, sc, aws.ToString(in.FleetId))
	if err != nil {
		return nil, err
	}
	if f.Type == typeInstant {
		return nil, ec2err.UnsupportedOperation("DescribeFleetInstances does not support fleets of type instant. Use DescribeFleets instead.") // from memory
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	c, err := s.countFleet(s.Store, sc, f.ID)
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(c.live, func(i record.Instance) bool { return !match(i) })
	found, next, err := resource.Paginate(found, func(i record.Instance) string { return i.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 1000})
	return &awsec2.DescribeFleetInstancesOutput{FleetId: in.FleetId, NextToken: next, ActiveInstances: resource.Map(found, func(i record.Instance) ec2types.ActiveInstance {
		return ec2types.ActiveInstance{
			InstanceId: aws.String(i.ID), InstanceType: aws.String(i.Type), SpotInstanceRequestId: resource.Optional(i.SpotRequestID), InstanceHealth: ec2types.InstanceHealthStatusHealthyStatus,
		}
	})}, err
}

// ModifyFleet changes the target capacity and the launch templates of a maintain fleet.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/modify-ec2-fleet.html
func (s *Service) ModifyFleet(ctx context.Context, in *awsec2.ModifyFleetInput) (*awsec2.ModifyFleetOutput, error) {
	sc := resource.ScopeOf(ctx)
	_, err := resource.Change(ctx, s.Core, Fleets, in.DryRun, in.FleetId, func(tx *store.Tx, f *Fleet) error {
		switch {
		case f.Type != typeMaintain:
			return ec2err.FleetNotModifiable("Fleet Request: %s is not a modifiable fleet request type.", f.ID)
		case f.State != stateActive && f.State != stateSubmitted:
			return ec2err.FleetNotModifiable("Fleet Request: %s is not in a modifiable state.", f.ID) // from memory
		}
		if p := in.ExcessCapacityTerminationPolicy; p != "" {
			if !slices.Contains(p.Values(), p) {
				return ec2err.InvalidValue(p, "ExcessCapacityTerminationPolicy", "")
			}
			f.Excess = string(p)
		}
		if in.Context != nil {
			f.Context = *in.Context
		}
		if in.TargetCapacitySpecification != nil {
			if err := f.takeTarget(in.TargetCapacitySpecification); err != nil {
				return err
			}
		}
		if len(in.LaunchTemplateConfigs) > 0 {
			if err := s.takeConfigs(sc, f, in.LaunchTemplateConfigs); err != nil {
				return err
			}
		}
		return nil
	})
	return &awsec2.ModifyFleetOutput{Return: aws.Bool(true)}, err
}

// DeleteFleets deletes fleets, with or without their instances. A fleet whose instances are kept is
// in the state deleted_running.
func (s *Service) DeleteFleets(ctx context.Context, in *awsec2.DeleteFleetsInput) (*awsec2.DeleteFleetsOutput, error) {
	sc := resource.ScopeOf(ctx)
	switch {
	case len(in.FleetIds) == 0:
		return nil, ec2err.Missing("FleetId")
	case in.TerminateInstances == nil:
		return nil, ec2err.Missing("TerminateInstances")
	case len(in.FleetIds) > 100:
		return nil, ec2err.InvalidParameterValue("The maximum number of fleets in one call is 100.")
	}
	out := &awsec2.DeleteFleetsOutput{}
	for _, id := range in.FleetIds {
		if in.DryRun == nil || !*in.DryRun {
			if err := s.deleteFleet(ctx, sc, id, *in.TerminateInstances, out); err != nil {
				return nil, err
			}
		}
	}
	return out, resource.CheckDryRun(in.DryRun)
}

func (s *Service) deleteFleet(ctx context.Context, sc resource.Scope, id string, terminate bool, out *awsec2.DeleteFleetsOutput) error {
	var before, after string
	var refused ec2types.DeleteFleetErrorCode
	message := ""
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		f, err := Fleets.Get(tx, sc.Key(id))
		switch before, refused = f.State, ""; {
		case resource.NotFound(err) && !strings.HasPrefix(id, "fleet-"):
			refused, message = ec2types.DeleteFleetErrorCodeFleetIdMalformed, "The fleet ID '"+id+"' is malformed"
			return nil
		case resource.NotFound(err):
			refused, message = ec2types.DeleteFleetErrorCodeFleetIdDoesNotExist, "The fleet ID '"+id+"' does not exist"
			return nil
		case err != nil:
			return err
		case f.Type == typeInstant && !terminate:
			// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteFleets.html
			refused, message = ec2types.DeleteFleetErrorCodeFleetNotInDeletableState, "A fleet of type instant cannot be deleted without terminating its instances."
			return nil
		case f.State == stateDeleted || f.State == stateTerminating:
			after = f.State
			return nil
		}
		after = stateRunning
		if terminate {
			after = stateTerminating
		}
		f.State, f.Since = after, s.Now()
		return Fleets.Put(tx, sc.Key(id), f)
	})
	if err != nil {
		return err
	}
	if refused != "" {
		out.UnsuccessfulFleetDeletions = append(out.UnsuccessfulFleetDeletions, ec2types.DeleteFleetErrorItem{
			FleetId: aws.String(id), Error: &ec2types.DeleteFleetError{Code: refused, Message: aws.String(message)},
		})
		return nil
	}
	out.SuccessfulFleetDeletions = append(out.SuccessfulFleetDeletions, ec2types.DeleteFleetSuccessItem{
		FleetId: aws.String(id), PreviousFleetState: ec2types.FleetStateCode(before), CurrentFleetState: ec2types.FleetStateCode(after),
	})
	return nil
}
