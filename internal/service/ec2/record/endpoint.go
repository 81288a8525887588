package record

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// A ConnectEndpoint is an EC2 Instance Connect endpoint, which connects to instances without a
// public address.
type ConnectEndpoint struct {
	ID               string // eice-…
	SubnetID         string
	VPCID            string
	Zone             string
	ZoneID           string
	GroupIDs         []string
	InterfaceIDs     []string
	PreserveClientIP bool `json:",omitempty"`
	State            string
	Since            time.Time
	Created          time.Time
	DNSSuffix        string
	Tags             tag.Set `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (e ConnectEndpoint) SDK(sc resource.Scope) ec2types.Ec2InstanceConnectEndpoint {
	host := e.ID + "." + e.DNSSuffix
	return ec2types.Ec2InstanceConnectEndpoint{
		InstanceConnectEndpointId: aws.String(e.ID), InstanceConnectEndpointArn: aws.String(sc.ARN("instance-connect-endpoint", e.ID)),
		OwnerId: aws.String(sc.Account), State: ec2types.Ec2InstanceConnectEndpointState(e.State), StateMessage: aws.String(""),
		DnsName:          aws.String(host + ".ec2-instance-connect-endpoint." + sc.Region + ".amazonaws.com"),
		FipsDnsName:      aws.String(host + ".fips.ec2-instance-connect-endpoint." + sc.Region + ".amazonaws.com"),
		AvailabilityZone: aws.String(e.Zone), AvailabilityZoneId: aws.String(e.ZoneID), CreatedAt: aws.Time(e.Created),
		SubnetId: aws.String(e.SubnetID), VpcId: aws.String(e.VPCID), PreserveClientIp: aws.Bool(e.PreserveClientIP),
		SecurityGroupIds: e.GroupIDs, NetworkInterfaceIds: e.InterfaceIDs, IpAddressType: ec2types.IpAddressTypeIpv4, Tags: e.Tags.SDK(),
	}
}

// A FlowLog is a request to log traffic. Drydock only keeps the record and logs nothing.
type FlowLog struct {
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
	Tags            tag.Set `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (f FlowLog) SDK(resource.Scope) ec2types.FlowLog {
	out := ec2types.FlowLog{
		FlowLogId: aws.String(f.ID), ResourceId: aws.String(f.ResourceID), TrafficType: ec2types.TrafficType(f.TrafficType),
		FlowLogStatus: aws.String("ACTIVE"), DeliverLogsStatus: aws.String("SUCCESS"), CreationTime: aws.Time(f.Created),
		LogDestinationType: ec2types.LogDestinationType(f.DestinationType), LogDestination: resource.Optional(f.Destination), LogGroupName: resource.Optional(f.LogGroup),
		DeliverLogsPermissionArn: resource.Optional(f.RoleARN), DeliverCrossAccountRole: resource.Optional(f.CrossAccountARN),
		LogFormat: aws.String(f.Format), MaxAggregationInterval: aws.Int32(f.Interval), Tags: f.Tags.Listed(),
	}
	if f.DestinationType == string(ec2types.LogDestinationTypeS3) {
		out.DestinationOptions = &ec2types.DestinationOptionsResponse{
			FileFormat: ec2types.DestinationFileFormat(f.FileFormat), HiveCompatiblePartitions: aws.Bool(f.HiveCompatible), PerHourPartition: aws.Bool(f.PerHour),
		}
	}
	return out
}

// A VPCEndpoint is a private connection to a service, by interfaces in subnets or by routes to a
// gateway.
type VPCEndpoint struct {
	ID          string // vpce-…
	VPCID       string
	ServiceName string // such as com.amazonaws.us-east-1.ecr.api
	Gateway     bool   `json:",omitempty"` // otherwise an interface endpoint
	State       string
	Since       time.Time
	Created     time.Time
	// Policy is the endpoint policy as given. If empty, it allows everything.
	Policy string `json:",omitempty"`
	// RouteTableIDs are the tables that contain the route of a gateway endpoint.
	RouteTableIDs []string `json:",omitempty"`
	// SubnetIDs, GroupIDs, InterfaceIDs and PrivateDNS are for interface endpoints. InterfaceIDs[i]
	// is in SubnetIDs[i].
	SubnetIDs    []string `json:",omitempty"`
	GroupIDs     []string `json:",omitempty"`
	InterfaceIDs []string `json:",omitempty"`
	PrivateDNS   bool     `json:",omitempty"`
	// RequesterID is the AWS service that created and manages the endpoint.
	RequesterID string `json:",omitempty"`
	// DNSSuffix makes the endpoint's DNS names unique: vpce-…-SUFFIX.ec2.….
	DNSSuffix string  `json:",omitempty"`
	Tags      tag.Set `json:",omitempty"`
}

// Kind returns the endpoint's type.
func (e VPCEndpoint) Kind() ec2types.VpcEndpointType {
	if e.Gateway {
		return ec2types.VpcEndpointTypeGateway
	}
	return ec2types.VpcEndpointTypeInterface
}
