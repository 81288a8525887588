package ec2

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// A flowLogRecord says that traffic is to be logged. Nothing is: Drydock keeps
// the record only.
type flowLogRecord struct {
	ID              string // fl-…
	ResourceID      string
	TrafficType     string
	DestinationType string
	Destination     string `json:",omitempty"`
	LogGroup        string `json:",omitempty"`
	RoleARN         string `json:",omitempty"`
	CrossAccountARN string `json:",omitempty"`
	Format          string
	Interval        int32
	FileFormat      string `json:",omitempty"`
	HiveCompatible  bool   `json:",omitempty"`
	PerHour         bool   `json:",omitempty"`
	Created         time.Time
	Tags            Tags `json:",omitempty"`
}

// defaultLogFormat is version 2 of the records.
// https://docs.aws.amazon.com/vpc/latest/userguide/flow-log-records.html
const defaultLogFormat = "${version} ${account-id} ${interface-id} ${srcaddr} ${dstaddr} ${srcport} ${dstport} ${protocol} ${packets} ${bytes} ${start} ${end} ${action} ${log-status}"

func flowLogKind() kindOf[flowLogRecord] {
	return kindOf[flowLogRecord]{flowLogs, flowLogID, func(f *flowLogRecord) (string, *Tags) { return f.ID, &f.Tags }}
}

func (f flowLogRecord) sdk(scope) ec2types.FlowLog {
	out := ec2types.FlowLog{
		FlowLogId: aws.String(f.ID), ResourceId: aws.String(f.ResourceID), TrafficType: ec2types.TrafficType(f.TrafficType),
		FlowLogStatus: aws.String("ACTIVE"), DeliverLogsStatus: aws.String("SUCCESS"), CreationTime: aws.Time(f.Created),
		LogDestinationType: ec2types.LogDestinationType(f.DestinationType), LogDestination: optional(f.Destination), LogGroupName: optional(f.LogGroup),
		DeliverLogsPermissionArn: optional(f.RoleARN), DeliverCrossAccountRole: optional(f.CrossAccountARN),
		LogFormat: aws.String(f.Format), MaxAggregationInterval: aws.Int32(f.Interval), Tags: f.Tags.sdk(),
	}
	if f.DestinationType == string(ec2types.LogDestinationTypeS3) {
		out.DestinationOptions = &ec2types.DestinationOptionsResponse{
			FileFormat: ec2types.DestinationFileFormat(f.FileFormat), HiveCompatiblePartitions: aws.Bool(f.HiveCompatible), PerHourPartition: aws.Bool(f.PerHour),
		}
	}
	return out
}

// parseFlowLog checks what does not depend on the resource.
func parseFlowLog(in *awsec2.CreateFlowLogsInput) (flowLogRecord, error) {
	f := flowLogRecord{
		TrafficType: string(in.TrafficType), DestinationType: string(in.LogDestinationType), Destination: aws.ToString(in.LogDestination),
		LogGroup: aws.ToString(in.LogGroupName), RoleARN: aws.ToString(in.DeliverLogsPermissionArn), CrossAccountARN: aws.ToString(in.DeliverCrossAccountRole),
		Format: aws.ToString(in.LogFormat), Interval: aws.ToInt32(in.MaxAggregationInterval), FileFormat: "plain-text",
	}
	if f.DestinationType == "" {
		f.DestinationType = string(ec2types.LogDestinationTypeCloudWatchLogs)
	}
	if f.Format == "" {
		f.Format = defaultLogFormat
	}
	if f.Interval == 0 {
		f.Interval = 600
	}
	if o := in.DestinationOptions; o != nil {
		f.HiveCompatible, f.PerHour = aws.ToBool(o.HiveCompatiblePartitions), aws.ToBool(o.PerHourPartition)
		if o.FileFormat != "" {
			f.FileFormat = string(o.FileFormat)
		}
	}
	switch ec2types.TrafficType(f.TrafficType) {
	case ec2types.TrafficTypeAccept, ec2types.TrafficTypeReject, ec2types.TrafficTypeAll:
	case "":
		return f, errMissing("trafficType")
	default:
		return f, errInvalidValue(f.TrafficType, "trafficType", "")
	}
	switch ec2types.LogDestinationType(f.DestinationType) {
	case ec2types.LogDestinationTypeCloudWatchLogs:
		if f.LogGroup == "" && f.Destination == "" {
			return f, errFlowLogNowhere()
		}
		if f.LogGroup != "" && f.Destination != "" {
			return f, errf("InvalidParameter", "Please only provide LogGroupName or only provide LogDestination.")
		}
		if f.RoleARN == "" {
			return f, errf("InvalidParameter", "DeliverLogsPermissionArn can't be empty if LogDestinationType is cloud-watch-logs.")
		}
	case ec2types.LogDestinationTypeS3, ec2types.LogDestinationTypeKinesisDataFirehose:
		switch {
		case f.LogGroup != "":
			return f, errf("InvalidParameter", "LogDestination type must be cloud-watch-logs if LogGroupName is provided.")
		case f.Destination == "":
			return f, errFlowLogNowhere()
		}
	default:
		return f, errInvalidValue(f.DestinationType, "logDestinationType", "")
	}
	if f.Interval != 60 && f.Interval != 600 {
		return f, errf("InvalidParameter", "Invalid Flow Log Max Aggregation Interval")
	}
	return f, nil
}

// CreateFlowLogs makes a flow log for each resource.
func (s *Service) CreateFlowLogs(ctx context.Context, in *awsec2.CreateFlowLogsInput) (*awsec2.CreateFlowLogsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.ResourceIds) == 0 {
		return nil, errMissing("resourceIds")
	}
	base, err := parseFlowLog(in)
	if err != nil {
		return nil, err
	}
	if base.Tags, err = specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeVpcFlowLog); err != nil {
		return nil, err
	}
	var find func(r store.Reader, id string) error
	switch in.ResourceType {
	case ec2types.FlowLogsResourceTypeVpc:
		find = func(r store.Reader, id string) error { _, err := get(r, vpcs, sc, vpcID, id); return err }
	case ec2types.FlowLogsResourceTypeSubnet:
		find = func(r store.Reader, id string) error { _, err := get(r, subnets, sc, subnetID, id); return err }
	case ec2types.FlowLogsResourceTypeNetworkInterface:
		find = func(r store.Reader, id string) error {
			_, err := get(r, networkInterfaces, sc, networkInterfaceID, id)
			return err
		}
	default:
		return nil, errInvalidValue(in.ResourceType, "resourceType", "")
	}
	var out *awsec2.CreateFlowLogsOutput
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		out = &awsec2.CreateFlowLogsOutput{ClientToken: in.ClientToken, FlowLogIds: []string{}, Unsuccessful: []ec2types.UnsuccessfulItem{}}
		if done, err := s.recall(tx, sc, "CreateFlowLogs", in.ClientToken, in); err != nil {
			return err
		} else if done != nil {
			out.FlowLogIds = done.IDs
			return nil
		}
		for _, resource := range sortedUnique(in.ResourceIds) {
			err := find(tx, resource)
			if err == nil {
				err = s.makeFlowLog(tx, sc, base, resource, out)
			}
			item, err := unsuccessful(resource, err)
			if err != nil {
				return err
			}
			if item != nil {
				out.Unsuccessful = append(out.Unsuccessful, *item)
			}
		}
		return s.remember(tx, sc, "CreateFlowLogs", in.ClientToken, in, false, out.FlowLogIds...)
	})
	return out, err
}

func (s *Service) makeFlowLog(tx *store.Tx, sc scope, f flowLogRecord, resource string, out *awsec2.CreateFlowLogsOutput) error {
	same, err := exists(tx, flowLogs, sc, func(o flowLogRecord) bool {
		return o.ResourceID == resource && o.TrafficType == f.TrafficType && o.DestinationType == f.DestinationType && o.Destination == f.Destination && o.LogGroup == f.LogGroup
	})
	if err != nil {
		return err
	}
	if same {
		return errf("FlowLogAlreadyExists", "Error. There is an existing Flow Log with the same configuration and log destination.")
	}
	f.ID, f.ResourceID, f.Created = ids.Resource("fl"), resource, s.now()
	out.FlowLogIds = append(out.FlowLogIds, f.ID)
	return flowLogs.Create(tx, sc.key(f.ID), f)
}

// DeleteFlowLogs deletes flow logs, each by itself: what fails is listed.
func (s *Service) DeleteFlowLogs(ctx context.Context, in *awsec2.DeleteFlowLogsInput) (*awsec2.DeleteFlowLogsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.FlowLogIds) == 0 {
		return nil, errMissing("flowLogIds")
	}
	var out *awsec2.DeleteFlowLogsOutput
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		out = &awsec2.DeleteFlowLogsOutput{Unsuccessful: []ec2types.UnsuccessfulItem{}}
		for _, id := range in.FlowLogIds {
			_, err := get(tx, flowLogs, sc, flowLogID, id)
			if err == nil {
				flowLogs.Delete(tx, sc.key(id))
			}
			item, err := unsuccessful(id, err)
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
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	type v = flowLogRecord
	found, next, err := describe(s.store, sc, flowLogKind(), query{
		ids: in.FlowLogIds, filters: in.Filter, dryRun: in.DryRun, maxResults: in.MaxResults, nextToken: in.NextToken, lim: limits{1, 1000},
	}, fields[v]{
		"deliver-log-status":   one(func(v) string { return "SUCCESS" }),
		"flow-log-id":          one(func(f v) string { return f.ID }),
		"log-destination-type": one(func(f v) string { return f.DestinationType }),
		"log-group-name":       one(func(f v) string { return f.LogGroup }),
		"resource-id":          one(func(f v) string { return f.ResourceID }),
		"traffic-type":         one(func(f v) string { return strings.ToUpper(f.TrafficType) }),
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DescribeFlowLogsOutput{FlowLogs: sdkAll(sc, found), NextToken: next}, nil
}
