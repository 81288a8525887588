package ec2

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// States of Instance Connect endpoints.
const (
	connectCreating = "create-in-progress"
	connectComplete = "create-complete"
	connectDeleting = "delete-in-progress"
)

// A connectEndpointRecord is an EC2 Instance Connect endpoint: a way from the
// EC2 API to instances without a public address.
type connectEndpointRecord struct {
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
	Tags             Tags `json:",omitempty"`
}

// The quotas are not adjustable.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/eice-quotas.html
const maxConnectEndpoints = 5

func connectEndpointKind() kindOf[connectEndpointRecord] {
	return kindOf[connectEndpointRecord]{connectEndpoints, connectEndpointID, func(e *connectEndpointRecord) (string, *Tags) { return e.ID, &e.Tags }}
}

func (e connectEndpointRecord) sdk(sc scope) ec2types.Ec2InstanceConnectEndpoint {
	host := e.ID + "." + e.DNSSuffix
	return ec2types.Ec2InstanceConnectEndpoint{
		InstanceConnectEndpointId: aws.String(e.ID), InstanceConnectEndpointArn: aws.String(sc.arn("instance-connect-endpoint", e.ID)),
		OwnerId: aws.String(sc.account), State: ec2types.Ec2InstanceConnectEndpointState(e.State), StateMessage: aws.String(""),
		DnsName:          aws.String(host + ".ec2-instance-connect-endpoint." + sc.region + ".amazonaws.com"),
		FipsDnsName:      aws.String(host + ".fips.ec2-instance-connect-endpoint." + sc.region + ".amazonaws.com"),
		AvailabilityZone: aws.String(e.Zone), AvailabilityZoneId: aws.String(e.ZoneID), CreatedAt: aws.Time(e.Created),
		SubnetId: aws.String(e.SubnetID), VpcId: aws.String(e.VPCID), PreserveClientIp: aws.Bool(e.PreserveClientIP),
		SecurityGroupIds: e.GroupIDs, NetworkInterfaceIds: e.InterfaceIDs, IpAddressType: ec2types.IpAddressTypeIpv4, Tags: e.Tags.sdk(),
	}
}

// CreateInstanceConnectEndpoint makes an endpoint in a subnet.
func (s *Service) CreateInstanceConnectEndpoint(ctx context.Context, in *awsec2.CreateInstanceConnectEndpointInput) (*awsec2.CreateInstanceConnectEndpointOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.SubnetId == nil {
		return nil, errMissing("subnetId")
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeInstanceConnectEndpoint)
	if err != nil {
		return nil, err
	}
	var e connectEndpointRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if done, err := recallOne(tx, s, sc, "CreateInstanceConnectEndpoint", in.ClientToken, in, connectEndpoints, connectEndpointID, &e); done || err != nil {
			return err
		}
		sn, err := get(tx, subnets, sc, subnetID, *in.SubnetId)
		if err != nil {
			return err
		}
		all, err := list(tx, connectEndpoints, sc, func(connectEndpointRecord) bool { return true })
		if err != nil {
			return err
		}
		for _, o := range all {
			if o.VPCID == sn.VPCID {
				return errf("InstanceConnectEndpointLimitExceeded", "The maximum number of EC2 Instance Connect Endpoints for the VPC %s has been reached.", sn.VPCID) // from memory
			}
		}
		if len(all) >= maxConnectEndpoints {
			return errLimit("InstanceConnectEndpointLimitExceeded", "EC2 Instance Connect Endpoints") // from memory
		}
		e = connectEndpointRecord{
			ID: ids.Resource("eice"), SubnetID: sn.ID, VPCID: sn.VPCID, Zone: sn.Zone, ZoneID: sn.ZoneID,
			PreserveClientIP: aws.ToBool(in.PreserveClientIp), // off is the default
			State:            connectCreating, Since: s.now(), Created: s.now(), DNSSuffix: ids.Hex(8), Tags: tags,
		}
		eni := ids.Resource("eni")
		ifc, err := s.makeInterface(tx, sc, interfaceSpec{
			id: eni, subnet: sn, description: "EC2 Instance Connect Endpoint - " + e.ID, groups: in.SecurityGroupIds,
			kind: "ec2_instance_connect_endpoint", requester: serviceRequester, owner: e.ID, hint: eni,
		})
		if err != nil {
			return err
		}
		ifc.Attachment = interfaceAttachment{ID: ids.Resource("ela-attach"), DeviceIndex: 1, Time: s.now()}
		if err := networkInterfaces.Create(tx, sc.key(ifc.ID), ifc); err != nil {
			return err
		}
		e.GroupIDs, e.InterfaceIDs = ifc.Groups, []string{ifc.ID}
		if err := connectEndpoints.Create(tx, sc.key(e.ID), e); err != nil {
			return err
		}
		return s.remember(tx, sc, "CreateInstanceConnectEndpoint", in.ClientToken, in, false, e.ID)
	})
	if err != nil {
		return nil, err
	}
	out := e.sdk(sc)
	return &awsec2.CreateInstanceConnectEndpointOutput{InstanceConnectEndpoint: &out, ClientToken: in.ClientToken}, nil
}

// DeleteInstanceConnectEndpoint deletes an endpoint.
func (s *Service) DeleteInstanceConnectEndpoint(ctx context.Context, in *awsec2.DeleteInstanceConnectEndpointInput) (*awsec2.DeleteInstanceConnectEndpointOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	var e connectEndpointRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if e, err = get(tx, connectEndpoints, sc, connectEndpointID, aws.ToString(in.InstanceConnectEndpointId)); err != nil {
			return err
		}
		if e.State != connectDeleting {
			e.State, e.Since = connectDeleting, s.now()
		}
		return connectEndpoints.Put(tx, sc.key(e.ID), e)
	})
	if err != nil {
		return nil, err
	}
	out := e.sdk(sc)
	return &awsec2.DeleteInstanceConnectEndpointOutput{InstanceConnectEndpoint: &out}, nil
}

// DescribeInstanceConnectEndpoints lists endpoints.
func (s *Service) DescribeInstanceConnectEndpoints(ctx context.Context, in *awsec2.DescribeInstanceConnectEndpointsInput) (*awsec2.DescribeInstanceConnectEndpointsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	type v = connectEndpointRecord
	found, next, err := describe(s.store, sc, connectEndpointKind(), query{
		ids: in.InstanceConnectEndpointIds, filters: in.Filters, dryRun: in.DryRun, maxResults: in.MaxResults, nextToken: in.NextToken, lim: limits{1, 50},
	}, fields[v]{
		"instance-connect-endpoint-id": one(func(e v) string { return e.ID }),
		"state":                        one(func(e v) string { return e.State }),
		"subnet-id":                    one(func(e v) string { return e.SubnetID }),
		"tag-value":                    func(e v) []string { return e.Tags.values() },
		"vpc-id":                       one(func(e v) string { return e.VPCID }),
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DescribeInstanceConnectEndpointsOutput{InstanceConnectEndpoints: sdkAll(sc, found), NextToken: next}, nil
}

// reconcileConnectEndpoint brings an endpoint to its next state when it is due.
func (s *Service) reconcileConnectEndpoint(ctx context.Context, k store.Key) (time.Duration, error) {
	states := endpointStates{connectCreating, connectComplete, connectDeleting}
	return advanceEndpoint(ctx, s, connectEndpoints, k, states, func(e *connectEndpointRecord) endpointLife {
		return endpointLife{&e.State, &e.Since, e.InterfaceIDs}
	})
}
