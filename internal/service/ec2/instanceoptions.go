package ec2

import (
	"context"
	"encoding/base64"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/store"
)

// ModifyInstanceMetadataOptions changes how an instance's metadata are served.
func (s *Service) ModifyInstanceMetadataOptions(ctx context.Context, in *awsec2.ModifyInstanceMetadataOptionsInput) (*awsec2.ModifyInstanceMetadataOptionsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkMetadata(string(in.HttpTokens), string(in.HttpEndpoint), string(in.HttpProtocolIpv6), string(in.InstanceMetadataTags), in.HttpPutResponseHopLimit); err != nil {
		return nil, err
	}
	var i instanceRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if i, err = get(tx, instances, sc, instanceID, aws.ToString(in.InstanceId)); err != nil {
			return err
		}
		if i.State == stateTerminated || i.State == stateShuttingDown {
			return errInstanceState(i.ID, "modified")
		}
		i.Tokens = or(string(in.HttpTokens), i.Tokens)
		i.MetadataEndpoint = or(string(in.HttpEndpoint), i.MetadataEndpoint)
		i.MetadataIPv6 = or(string(in.HttpProtocolIpv6), i.MetadataIPv6)
		i.MetadataTags = or(string(in.InstanceMetadataTags), i.MetadataTags)
		if in.HttpPutResponseHopLimit != nil {
			i.HopLimit = *in.HttpPutResponseHopLimit
		}
		return instances.Put(tx, sc.key(i.ID), i)
	})
	if err != nil {
		return nil, err
	}
	options := i.metadataOptions()
	options.State = ec2types.InstanceMetadataOptionsStatePending // applied at once, as described from now on
	return &awsec2.ModifyInstanceMetadataOptionsOutput{InstanceId: in.InstanceId, InstanceMetadataOptions: options}, nil
}

// monitor switches detailed monitoring.
func (s *Service) monitor(ctx context.Context, dryRun *bool, want []string, on bool, answer ec2types.MonitoringState) ([]ec2types.InstanceMonitoring, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(want) == 0 {
		return nil, errMissing("InstanceId")
	}
	all, err := choose(s.store, instances, sc, instanceID, want, func(instanceRecord) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if i.State == stateTerminated || i.State == stateShuttingDown {
			return nil, errInstanceState(i.ID, "monitored")
		}
	}
	var out []ec2types.InstanceMonitoring
	for chunk := range slices.Chunk(all, 80) {
		err := s.update(ctx, dryRun, func(tx *store.Tx) error {
			for _, seen := range chunk {
				err := instances.Update(tx, sc.key(seen.ID), func(i *instanceRecord) error { i.Monitoring = on; return nil })
				if err != nil && !notFound(err) {
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
		if i.Monitoring == on { // nothing changes
			m.Monitoring.State = map[bool]ec2types.MonitoringState{true: ec2types.MonitoringStateEnabled, false: ec2types.MonitoringStateDisabled}[on]
		}
		out = append(out, m)
	}
	return out, nil
}

// MonitorInstances switches detailed monitoring on.
func (s *Service) MonitorInstances(ctx context.Context, in *awsec2.MonitorInstancesInput) (*awsec2.MonitorInstancesOutput, error) {
	out, err := s.monitor(ctx, in.DryRun, in.InstanceIds, true, ec2types.MonitoringStatePending)
	return &awsec2.MonitorInstancesOutput{InstanceMonitorings: out}, err
}

// UnmonitorInstances switches detailed monitoring off.
func (s *Service) UnmonitorInstances(ctx context.Context, in *awsec2.UnmonitorInstancesInput) (*awsec2.UnmonitorInstancesOutput, error) {
	out, err := s.monitor(ctx, in.DryRun, in.InstanceIds, false, ec2types.MonitoringStateDisabling)
	return &awsec2.UnmonitorInstancesOutput{InstanceMonitorings: out}, err
}

// DescribeInstanceCreditSpecifications lists the CPU credit options of burstable instances.
func (s *Service) DescribeInstanceCreditSpecifications(ctx context.Context, in *awsec2.DescribeInstanceCreditSpecificationsInput) (*awsec2.DescribeInstanceCreditSpecificationsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, fields[instanceRecord]{"instance-id": one(func(i instanceRecord) string { return i.ID })}, nil)
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := checkPageOfIDs(in.InstanceIds, "instancesSet", in.MaxResults); err != nil {
		return nil, err
	}
	found, err := choose(s.store, instances, sc, instanceID, in.InstanceIds, match)
	if err != nil {
		return nil, err
	}
	kept := found[:0]
	for _, i := range found {
		if t, _ := instancetypes.Lookup(i.Type); t.Burstable && i.State != stateTerminated && (len(in.InstanceIds) > 0 || i.CPUCredits == "unlimited") {
			kept = append(kept, i)
		} else if len(in.InstanceIds) > 0 {
			return nil, errNotBurstable(i.Type)
		}
	}
	kept, next, err := paginate(kept, func(i instanceRecord) string { return i.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeInstanceCreditSpecificationsOutput{NextToken: next, InstanceCreditSpecifications: []ec2types.InstanceCreditSpecification{}}
	for _, i := range kept {
		out.InstanceCreditSpecifications = append(out.InstanceCreditSpecifications, ec2types.InstanceCreditSpecification{
			InstanceId: aws.String(i.ID), CpuCredits: aws.String(i.CPUCredits),
		})
	}
	return out, nil
}

// GetConsoleOutput returns what an instance has written to its console; nothing
// when what runs it keeps no console.
func (s *Service) GetConsoleOutput(ctx context.Context, in *awsec2.GetConsoleOutputInput) (*awsec2.GetConsoleOutputOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	i, err := get(s.store, instances, sc, instanceID, aws.ToString(in.InstanceId))
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	out := &awsec2.GetConsoleOutputOutput{InstanceId: aws.String(i.ID), Timestamp: aws.Time(s.now())}
	if console, ok := s.machines.(ConsoleReader); ok {
		if text, ok := console.ConsoleOutput(ctx, i.ID); ok {
			out.Output = aws.String(base64.StdEncoding.EncodeToString(text[max(0, len(text)-maxConsole):]))
		}
	}
	return out, nil
}

// maxConsole is how much of the console EC2 shows.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetConsoleOutput.html
const maxConsole = 64 << 10
