package routing

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateEgressOnlyInternetGateway creates a gateway that is attached to its VPC.
func (s *Service) CreateEgressOnlyInternetGateway(ctx context.Context, in *awsec2.CreateEgressOnlyInternetGatewayInput) (*awsec2.CreateEgressOnlyInternetGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeEgressOnlyInternetGateway)
	if err != nil {
		return nil, err
	}
	g, err := resource.Create(ctx, s.Core, record.EgressGateways, in.DryRun, in.ClientToken, in, func(tx *store.Tx, g *record.EgressGateway) error {
		v, err := resource.Get(tx, record.VPCs, sc, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		if err := quota.Room(tx, sc, quota.EgressGateways, record.EgressGateways, resource.All, ec2err.Limit("EgressOnlyInternetGatewayLimitExceeded", "egress-only internet gateways")); err != nil {
			return err
		}
		*g = record.EgressGateway{ID: ids.Resource("eigw"), VPCID: v.ID, Tags: tags}
		return nil
	})
	return &awsec2.CreateEgressOnlyInternetGatewayOutput{EgressOnlyInternetGateway: new(g.SDK(sc)), ClientToken: in.ClientToken}, err
}

// DeleteEgressOnlyInternetGateway deletes a gateway; routes to it become black holes.
func (s *Service) DeleteEgressOnlyInternetGateway(ctx context.Context, in *awsec2.DeleteEgressOnlyInternetGatewayInput) (*awsec2.DeleteEgressOnlyInternetGatewayOutput, error) {
	_, err := resource.Delete(ctx, s.Core, record.EgressGateways, in.DryRun, in.EgressOnlyInternetGatewayId, func(*store.Tx, *record.EgressGateway) error { return nil })
	return &awsec2.DeleteEgressOnlyInternetGatewayOutput{ReturnCode: aws.Bool(true)}, err
}

// DescribeEgressOnlyInternetGateways lists gateways. AWS documents only tag filters for it.
func (s *Service) DescribeEgressOnlyInternetGateways(ctx context.Context, in *awsec2.DescribeEgressOnlyInternetGatewaysInput) (*awsec2.DescribeEgressOnlyInternetGatewaysOutput, error) {
	sc := resource.ScopeOf(ctx)
	found, next, err := resource.Describe(s.Store, sc, record.EgressGateways, resource.Query{
		IDs: in.EgressOnlyInternetGatewayIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 255},
	}, nil)
	return &awsec2.DescribeEgressOnlyInternetGatewaysOutput{EgressOnlyInternetGateways: resource.SDKAll(sc, found), NextToken: next}, err
}
