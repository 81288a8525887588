package instance

import (
	"context"
	"encoding/base64"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// ModifyInstanceMetadataOptions changes the metadata options of an instance.
func (s *Service) ModifyInstanceMetadataOptions(ctx context.Context, in *awsec2.ModifyInstanceMetadataOptionsInput) (*awsec2.ModifyInstanceMetadataOptionsOutput, error) {
	if err := checkMetadata(string(in.HttpTokens), string(in.HttpEndpoint), string(in.HttpProtocolIpv6), string(in.InstanceMetadataTags), in.HttpPutResponseHopLimit); err != nil {
		return nil, err
	}
	i, err := resource.Change(ctx, s.Core, record.Instances, in.DryRun, in.InstanceId, func(tx *store.Tx, i *record.Instance) error {
		if i.State == record.Terminated || i.State == record.ShuttingDown {
			return ec2err.InstanceState(i.ID, "modified")
		}
		i.Tokens = resource.Or(string(in.HttpTokens), i.Tokens)
		i.MetadataEndpoint = resource.Or(string(in.HttpEndpoint), i.MetadataEndpoint)
		i.MetadataIPv6 = resource.Or(string(in.HttpProtocolIpv6), i.MetadataIPv6)
		i.MetadataTags = resource.Or(string(in.InstanceMetadataTags), i.MetadataTags)
		if in.HttpPutResponseHopLimit != nil {
			i.HopLimit = *in.HttpPutResponseHopLimit
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	options := i.MetadataOptions()
	options.State = ec2types.InstanceMetadataOptionsStatePending // the change takes effect at once, and later calls show that
	return &awsec2.ModifyInstanceMetadataOptionsOutput{InstanceId: in.InstanceId, InstanceMetadataOptions: options}, nil
}

// monitor turns detailed monitoring on or off.
func (s *Service) monitor(ctx context.Context, dryRun *bool, want []string, on bool, answer ec2types.MonitoringState) ([]ec2types.InstanceMonitoring, error) {
	sc := resource.ScopeOf(ctx)
	if len(want) == 0 {
		return nil, ec2err.Missing("InstanceId")
	}
	all, err := resource.Choose(s.Store, record.Instances, sc, want, resource.All)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if i.State == record.Terminated || i.State == record.ShuttingDown {
			return nil, ec2err.InstanceState(i.ID, "monitored")
		}
	}
	var out []ec2types.InstanceMonitoring
	for chunk := range slices.Chunk(all, 80) {
		err := s.Update(ctx, dryRun, func(tx *store.Tx) error {
			for _, seen := range chunk {
				err := record.Instances.Update(tx, sc.Key(seen.ID), func(i *record.Instance) error { i.Monitoring = on; return nil })
				if err != nil && !resource.NotFound(err) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, i := range all {
		m := ec2types.InstanceMonitoring{InstanceId: aws.String(i.ID), Monitoring: &ec2types.Monitoring{State: answer}}
		if i.Monitoring == on { // no change
			m.Monitoring.State = map[bool]ec2types.MonitoringState{true: ec2types.MonitoringStateEnabled, false: ec2types.MonitoringStateDisabled}[on]
		}
		out = append(out, m)
	}
	return out, nil
}

// MonitorInstances turns detailed monitoring on.
func (s *Service) MonitorInstances(ctx context.Context, in *awsec2.MonitorInstancesInput) (*awsec2.MonitorInstancesOutput, error) {
	out, err := s.monitor(ctx, in.DryRun, in.InstanceIds, true, ec2types.MonitoringStatePending)
	return &awsec2.MonitorInstancesOutput{InstanceMonitorings: out}, err
}

// UnmonitorInstances turns detailed monitoring off.
func (s *Service) UnmonitorInstances(ctx context.Context, in *awsec2.UnmonitorInstancesInput) (*awsec2.UnmonitorInstancesOutput, error) {
	out, err := s.monitor(ctx, in.DryRun, in.InstanceIds, false, ec2types.MonitoringStateDisabling)
	return &awsec2.UnmonitorInstancesOutput{InstanceMonitorings: out}, err
}

// DescribeInstanceCreditSpecifications lists the CPU credit options of burstable instances.
func (s *Service) DescribeInstanceCreditSpecifications(ctx context.Context, in *awsec2.DescribeInstanceCreditSpecificationsInput) (*awsec2.DescribeInstanceCreditSpecificationsOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, filter.Fields[record.Instance]{"instance-id": filter.One(func(i record.Instance) string { return i.ID })}, nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := resource.CheckPageOfIDs(in.InstanceIds, "instancesSet", in.MaxResults); err != nil {
		return nil, err
	}
	found, err := resource.Choose(s.Store, record.Instances, sc, in.InstanceIds, match)
	if err != nil {
		return nil, err
	}
	kept := found[:0]
	for _, i := range found {
		if t, _ := instancetypes.Lookup(i.Type); t.Burstable && i.State != record.Terminated && (len(in.InstanceIds) > 0 || i.CPUCredits == "unlimited") {
			kept = append(kept, i)
		} else if len(in.InstanceIds) > 0 {
			return nil, ec2err.NotBurstable(i.Type)
		}
	}
	kept, next, err := resource.Paginate(kept, func(i record.Instance) string { return i.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	return &awsec2.DescribeInstanceCreditSpecificationsOutput{NextToken: next, InstanceCreditSpecifications: resource.Map(kept, func(i record.Instance) ec2types.InstanceCreditSpecification {
		return ec2types.InstanceCreditSpecification{
			InstanceId: aws.String(i.ID), CpuCredits: aws.String(i.CPUCredits),
		}
	})}, err
}

// GetConsoleOutput returns what an instance has written to its console, or nothing if its machine
// keeps no console.
func (s *Service) GetConsoleOutput(ctx context.Context, in *awsec2.GetConsoleOutputInput) (*awsec2.GetConsoleOutputOutput, error) {
	sc := resource.ScopeOf(ctx)
	i, err := resource.Get(s.Store, record.Instances, sc, aws.ToString(in.InstanceId))
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	out := &awsec2.GetConsoleOutputOutput{InstanceId: aws.String(i.ID), Timestamp: aws.Time(s.Now())}
	if b, ok := s.booted.get(sc.Key(i.ID)); ok && b.machine != nil {
		out.Output = aws.String(base64.StdEncoding.EncodeToString(b.machine.Console()))
	}
	return out, nil
}
