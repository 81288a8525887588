package endpoint

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/routing"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// States of Instance Connect endpoints.
const (
	connectCreating = "create-in-progress"
	connectComplete = "create-complete"
	connectDeleting = "delete-in-progress"
	connectUpdated  = "update-complete"
)

// These quotas are not adjustable.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/eice-quotas.html
const maxConnectEndpoints = 5

// CreateInstanceConnectEndpoint creates an endpoint in a subnet.
func (s *Service) CreateInstanceConnectEndpoint(ctx context.Context, in *awsec2.CreateInstanceConnectEndpointInput) (*awsec2.CreateInstanceConnectEndpointOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.SubnetId == nil {
		return nil, ec2err.Missing("subnetId")
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeInstanceConnectEndpoint)
	if err != nil {
		return nil, err
	}
	e, err := resource.Create(ctx, s.Core, record.ConnectEndpoints, in.DryRun, in.ClientToken, in, func(tx *store.Tx, e *record.ConnectEndpoint) error {
		sn, err := resource.Get(tx, record.Subnets, sc, *in.SubnetId)
		if err != nil {
			return err
		}
		all := resource.List(tx, record.ConnectEndpoints, sc, resource.All)
		for _, o := range all {
			if o.VPCID == sn.VPCID {
				return ec2err.New("InstanceConnectEndpointLimitExceeded", "The maximum number of EC2 Instance Connect Endpoints for the VPC %s has been reached.", sn.VPCID) // from memory
			}
		}
		if len(all) >= maxConnectEndpoints {
			return ec2err.Limit("InstanceConnectEndpointLimitExceeded", "EC2 Instance Connect Endpoints") // from memory
		}
		*e = record.ConnectEndpoint{
			ID: ids.Resource("eice"), SubnetID: sn.ID, VPCID: sn.VPCID, Zone: sn.Zone, ZoneID: sn.ZoneID,
			PreserveClientIP: aws.ToBool(in.PreserveClientIp), // off is the default
			State:            connectCreating, Since: s.Now(), Created: s.Now(), DNSSuffix: ids.Hex(8), Tags: tags,
		}
		eniID := ids.Resource("eni")
		ifc, err := s.interfaces.Make(tx, sc, eni.Spec{
			ID: eniID, Subnet: sn, Description: "EC2 Instance Connect Endpoint - " + e.ID, Groups: in.SecurityGroupIds,
			Kind: "ec2_instance_connect_endpoint", Requester: routing.ServiceRequester, Owner: e.ID, Hint: eniID,
		})
		if err != nil {
			return err
		}
		ifc.Attachment = record.InterfaceAttachment{ID: ids.Resource("ela-attach"), DeviceIndex: 1, Time: s.Now()}
		if err := record.NetworkInterfaces.Create(tx, sc.Key(ifc.ID), ifc); err != nil {
			return err
		}
		e.GroupIDs, e.InterfaceIDs = ifc.Groups, []string{ifc.ID}
		return nil
	})
	return &awsec2.CreateInstanceConnectEndpointOutput{InstanceConnectEndpoint: new(e.SDK(sc)), ClientToken: in.ClientToken}, err
}

// ModifyInstanceConnectEndpoint changes an endpoint's security groups and client IP preservation, at once.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyInstanceConnectEndpoint.html
func (s *Service) ModifyInstanceConnectEndpoint(ctx context.Context, in *awsec2.ModifyInstanceConnectEndpointInput) (*awsec2.ModifyInstanceConnectEndpointOutput, error) {
	sc := resource.ScopeOf(ctx)
	_, err := resource.Change(ctx, s.Core, record.ConnectEndpoints, in.DryRun, in.InstanceConnectEndpointId, func(tx *store.Tx, e *record.ConnectEndpoint) error {
		if e.State != connectComplete && e.State != connectUpdated {
			return ec2err.New("IncorrectState", "The EC2 Instance Connect Endpoint %s is in the state %s.", e.ID, e.State) // from memory
		}
		if in.PreserveClientIp != nil {
			e.PreserveClientIP = *in.PreserveClientIp
		}
		if len(in.SecurityGroupIds) > 0 {
			groups, err := eni.ResolveGroups(tx, sc, e.VPCID, in.SecurityGroupIds)
			if err != nil {
				return err
			}
			e.GroupIDs = groups
			for _, id := range e.InterfaceIDs {
				err := record.NetworkInterfaces.Update(tx, sc.Key(id), func(ifc *record.NetworkInterface) error {
					ifc.Groups = groups
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
		e.State, e.Since = connectUpdated, s.Now()
		return nil
	})
	return &awsec2.ModifyInstanceConnectEndpointOutput{Return: new(err == nil)}, err
}

// DeleteInstanceConnectEndpoint deletes an endpoint.
func (s *Service) DeleteInstanceConnectEndpoint(ctx context.Context, in *awsec2.DeleteInstanceConnectEndpointInput) (*awsec2.DeleteInstanceConnectEndpointOutput, error) {
	sc := resource.ScopeOf(ctx)
	e, err := resource.Change(ctx, s.Core, record.ConnectEndpoints, in.DryRun, in.InstanceConnectEndpointId, func(tx *store.Tx, e *record.ConnectEndpoint) error {
		if e.State != connectDeleting {
			e.State, e.Since = connectDeleting, s.Now()
		}
		return nil
	})
	return &awsec2.DeleteInstanceConnectEndpointOutput{InstanceConnectEndpoint: new(e.SDK(sc))}, err
}

// DescribeInstanceConnectEndpoints lists endpoints.
func (s *Service) DescribeInstanceConnectEndpoints(ctx context.Context, in *awsec2.DescribeInstanceConnectEndpointsInput) (*awsec2.DescribeInstanceConnectEndpointsOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.ConnectEndpoint
	found, next, err := resource.Describe(s.Store, sc, record.ConnectEndpoints, resource.Query{
		IDs: in.InstanceConnectEndpointIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 1, Max: 50},
	}, filter.Fields[v]{
		"instance-connect-endpoint-id": filter.One(func(e v) string { return e.ID }),
		"state":                        filter.One(func(e v) string { return e.State }),
		"subnet-id":                    filter.One(func(e v) string { return e.SubnetID }),
		"tag-value":                    func(e v) []string { return e.Tags.Values() },
		"vpc-id":                       filter.One(func(e v) string { return e.VPCID }),
	})
	return &awsec2.DescribeInstanceConnectEndpointsOutput{InstanceConnectEndpoints: resource.SDKAll(sc, found), NextToken: next}, err
}

// reconcileConnectEndpoint moves an endpoint to its next state when it is due.
func (s *Service) reconcileConnectEndpoint(ctx context.Context, k store.Key) (time.Duration, error) {
	states := endpointStates{connectCreating, connectComplete, connectDeleting}
	return advance(ctx, s, record.ConnectEndpoints, k, states, func(e *record.ConnectEndpoint) endpointLife {
		return endpointLife{&e.State, &e.Since, e.InterfaceIDs}
	})
}
