package vpc

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// defaultLogFormat is version 2 of the flow log record format.
// https://docs.aws.amazon.com/vpc/latest/userguide/flow-log-records.html
const defaultLogFormat = "${version} ${account-id} ${interface-id} ${srcaddr} ${dstaddr} ${srcport} ${dstport} ${protocol} ${packets} ${bytes} ${start} ${end} ${action} ${log-status}"

// defaultTransitFormat is the default format of transit gateways' flow logs.
// https://docs.aws.amazon.com/vpc/latest/tgw/tgw-flow-logs.html
const defaultTransitFormat = "${version} ${resource-type} ${account-id} ${tgw-id} ${tgw-attachment-id} ${tgw-src-vpc-account-id} ${tgw-dst-vpc-account-id} " +
	"${tgw-src-vpc-id} ${tgw-dst-vpc-id} ${tgw-src-subnet-id} ${tgw-dst-subnet-id} ${tgw-src-eni} ${tgw-dst-eni} ${tgw-src-az-id} ${tgw-dst-az-id} " +
	"${tgw-pair-attachment-id} ${srcaddr} ${dstaddr} ${srcport} ${dstport} ${protocol} ${packets} ${bytes} ${start} ${end} ${log-status} ${type} " +
	"${packets-lost-no-route} ${packets-lost-blackhole} ${packets-lost-mtu-exceeded} ${packets-lost-ttl-expired} ${tcp-flags} ${region} ${flow-direction} " +
	"${pkt-src-aws-service} ${pkt-dst-aws-service}"

// ofTransit reports whether a flow log is of a transit gateway or an attachment: it has no type of traffic, and its
// interval is 60 seconds. https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFlowLogs.html
func ofTransit(in *awsec2.CreateFlowLogsInput) bool {
	return in.ResourceType == ec2types.FlowLogsResourceTypeTransitGateway || in.ResourceType == ec2types.FlowLogsResourceTypeTransitGatewayAttachment
}

// parseFlowLog checks everything that does not depend on the resource.
func parseFlowLog(in *awsec2.CreateFlowLogsInput) (record.FlowLog, error) {
	f := record.FlowLog{
		TrafficType: string(in.TrafficType), DestinationType: string(in.LogDestinationType), Destination: aws.ToString(in.LogDestination),
		LogGroup: aws.ToString(in.LogGroupName), RoleARN: aws.ToString(in.DeliverLogsPermissionArn), CrossAccountARN: aws.ToString(in.DeliverCrossAccountRole),
		Format: aws.ToString(in.LogFormat), Interval: aws.ToInt32(in.MaxAggregationInterval), FileFormat: "plain-text",
	}
	if f.DestinationType == "" {
		f.DestinationType = string(ec2types.LogDestinationTypeCloudWatchLogs)
	}
	if f.Format == "" {
		f.Format = defaultLogFormat
		if ofTransit(in) {
			f.Format = defaultTransitFormat
		}
	}
	if f.Interval == 0 {
		f.Interval = 600
		if ofTransit(in) {
			f.Interval = 60
		}
	}
	if o := in.DestinationOptions; o != nil {
		f.HiveCompatible, f.PerHour = aws.ToBool(o.HiveCompatiblePartitions), aws.ToBool(o.PerHourPartition)
		if o.FileFormat != "" {
			f.FileFormat = string(o.FileFormat)
		}
	}
	switch ec2types.TrafficType(f.TrafficType) {
	case ec2types.TrafficTypeAccept, ec2types.TrafficTypeReject, ec2types.TrafficTypeAll:
		if ofTransit(in) {
			return f, ec2err.FlowLogTransitTraffic()
		}
	case "":
		if ofTransit(in) {
			break
		}
		return f, ec2err.Missing("trafficType")
	default:
		return f, ec2err.InvalidValue(f.TrafficType, "trafficType", "")
	}
	switch ec2types.LogDestinationType(f.DestinationType) {
	case ec2types.LogDestinationTypeCloudWatchLogs:
		if f.LogGroup == "" && f.Destination == "" {
			return f, ec2err.FlowLogNowhere()
		}
		if f.LogGroup != "" && f.Destination != "" {
			return f, ec2err.New("InvalidParameter", "Please only provide LogGroupName or only provide LogDestination.")
		}
		if f.RoleARN == "" {
			return f, ec2err.New("InvalidParameter", "DeliverLogsPermissionArn can't be empty if LogDestinationType is cloud-watch-logs.")
		}
	case ec2types.LogDestinationTypeS3, ec2types.LogDestinationTypeKinesisDataFirehose:
		switch {
		case f.LogGroup != "":
			return f, ec2err.New("InvalidParameter", "LogDestination type must be cloud-watch-logs if LogGroupName is provided.")
		case f.Destination == "":
			return f, ec2err.FlowLogNowhere()
		}
	default:
		return f, ec2err.InvalidValue(f.DestinationType, "logDestinationType", "")
	}
	if f.Interval != 60 && f.Interval != 600 {
		return f, ec2err.New("InvalidParameter", "Invalid Flow Log Max Aggregation Interval")
	}
	if ofTransit(in) && f.Interval != 60 {
		return f, ec2err.FlowLogTransitInterval()
	}
	return f, nil
}

// CreateFlowLogs creates a flow log for each resource.
func (s *Service) CreateFlowLogs(ctx context.Context, in *awsec2.CreateFlowLogsInput) (*awsec2.CreateFlowLogsOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.ResourceIds) == 0 {
		return nil, ec2err.Missing("resourceIds")
	}
	base, err := parseFlowLog(in)
	if err != nil {
		return nil, err
	}
	if base.Tags, err = tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeVpcFlowLog); err != nil {
		return nil, err
	}
	var find func(r store.Reader, id string) error
	switch in.ResourceType {
	case ec2types.FlowLogsResourceTypeVpc:
		find = finder(record.VPCs, sc)
	case ec2types.FlowLogsResourceTypeSubnet:
		find = finder(record.Subnets, sc)
	case ec2types.FlowLogsResourceTypeNetworkInterface:
		find = finder(record.NetworkInterfaces, sc)
	case ec2types.FlowLogsResourceTypeTransitGateway:
		find = finder(record.TransitGateways, sc)
	case ec2types.FlowLogsResourceTypeTransitGatewayAttachment:
		find = finder(record.TransitAttachments, sc)
	default:
		return nil, ec2err.InvalidValue(in.ResourceType, "resourceType", "")
	}
	token := in.ClientToken
	if token == nil {
		token = aws.String(ids.UUID())
	}
	var out *awsec2.CreateFlowLogsOutput
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		out = &awsec2.CreateFlowLogsOutput{ClientToken: token, FlowLogIds: []string{}, Unsuccessful: []ec2types.UnsuccessfulItem{}}
		if done, err := s.Recall(tx, sc, "CreateFlowLogs", in.ClientToken, in); err != nil {
			return err
		} else if done != nil {
			out.FlowLogIds = done.IDs
			return nil
		}
		for _, target := range resource.SortedUnique(in.ResourceIds) {
			err := find(tx, target)
			if err == nil {
				err = s.checkBucket(base)
			}
			if err == nil {
				err = s.makeFlowLog(tx, sc, base, target, out)
			}
			item, err := resource.Unsuccessful(target, err)
			if err != nil {
				return err
			}
			if item != nil {
				out.Unsuccessful = append(out.Unsuccessful, *item)
			}
		}
		return s.Remember(tx, sc, "CreateFlowLogs", in.ClientToken, in, false, out.FlowLogIds...)
	})
	return out, err
}

// checkBucket refuses a flow log to a bucket that does not exist.
// [recorded] test_ec2_flow_logs_s3_validation, LocalStack's tests/aws/services/ec2/test_ec2.py
func (s *Service) checkBucket(f record.FlowLog) error {
	if s.bucket == nil || f.DestinationType != string(ec2types.LogDestinationTypeS3) {
		return nil
	}
	name := f.Destination
	if resource, ok := strings.CutPrefix(name, "arn:aws:s3:::"); ok {
		name, _, _ = strings.Cut(resource, "/")
	}
	if !s.bucket(name) {
		return ec2err.New("400", "LogDestination: %s does not exist", name)
	}
	return nil
}

// finder returns a function that fails if there is no resource of a kind with an ID.
func finder[T any](kind resource.Kind[T], sc resource.Scope) func(r store.Reader, id string) error {
	return func(r store.Reader, id string) error {
		_, err := resource.Get(r, kind, sc, id)
		return err
	}
}

func (s *Service) makeFlowLog(tx *store.Tx, sc resource.Scope, f record.FlowLog, target string, out *awsec2.CreateFlowLogsOutput) error {
	same := resource.Exists(tx, record.FlowLogs, sc, func(o record.FlowLog) bool {
		return o.ResourceID == target && o.TrafficType == f.TrafficType && o.DestinationType == f.DestinationType && o.Destination == f.Destination && o.LogGroup == f.LogGroup
	})
	if same {
		return ec2err.New("FlowLogAlreadyExists", "Error. There is an existing Flow Log with the same configuration and log destination.")
	}
	f.ID, f.ResourceID, f.Created = ids.Resource("fl"), target, s.Now()
	out.FlowLogIds = append(out.FlowLogIds, f.ID)
	return record.FlowLogs.Create(tx, sc.Key(f.ID), f)
}

// DeleteFlowLogs deletes flow logs. Each one that fails is reported separately.
func (s *Service) DeleteFlowLogs(ctx context.Context, in *awsec2.DeleteFlowLogsInput) (*awsec2.DeleteFlowLogsOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.FlowLogIds) == 0 {
		return nil, ec2err.Missing("flowLogIds")
	}
	var out *awsec2.DeleteFlowLogsOutput
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		out = &awsec2.DeleteFlowLogsOutput{Unsuccessful: []ec2types.UnsuccessfulItem{}}
		for _, id := range in.FlowLogIds {
			_, err := resource.Get(tx, record.FlowLogs, sc, id)
			if err == nil {
				record.FlowLogs.Delete(tx, sc.Key(id))
			}
			item, err := resource.Unsuccessful(id, err)
			if err != nil {
				return err
			}
			if item != nil {
				out.Unsuccessful = append(out.Unsuccessful, *item)
			}
		}
		return nil
	})
	return out, err
}

// DescribeFlowLogs lists flow logs.
func (s *Service) DescribeFlowLogs(ctx context.Context, in *awsec2.DescribeFlowLogsInput) (*awsec2.DescribeFlowLogsOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.FlowLog
	found, next, err := resource.Describe(s.Store, sc, record.FlowLogs, resource.Query{
		IDs: in.FlowLogIds, Filters: in.Filter, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 1, Max: 1000},
	}, filter.Fields[v]{
		"deliver-log-status":   filter.One(func(v) string { return "SUCCESS" }),
		"flow-log-id":          filter.One(func(f v) string { return f.ID }),
		"log-destination-type": filter.One(func(f v) string { return f.DestinationType }),
		"log-group-name":       filter.One(func(f v) string { return f.LogGroup }),
		"resource-id":          filter.One(func(f v) string { return f.ResourceID }),
		"traffic-type":         filter.One(func(f v) string { return strings.ToUpper(f.TrafficType) }),
	})
	return &awsec2.DescribeFlowLogsOutput{FlowLogs: resource.SDKAll(sc, found), NextToken: next}, err
}
