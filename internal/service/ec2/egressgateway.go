package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// An egressGatewayRecord lets IPv6 connections out of a VPC and none in.
type egressGatewayRecord struct {
	ID    string // eigw-…
	VPCID string
	Tags  Tags `json:",omitempty"`
}

func egressGatewayKind() kindOf[egressGatewayRecord] {
	return kindOf[egressGatewayRecord]{egressGateways, egressGatewayID, func(g *egressGatewayRecord) (string, *Tags) { return g.ID, &g.Tags }}
}

func (g egressGatewayRecord) sdk(scope) ec2types.EgressOnlyInternetGateway {
	return ec2types.EgressOnlyInternetGateway{
		EgressOnlyInternetGatewayId: aws.String(g.ID),
		Attachments:                 []ec2types.InternetGatewayAttachment{{State: ec2types.AttachmentStatusAttached, VpcId: aws.String(g.VPCID)}},
		Tags:                        g.Tags.sdk(),
	}
}

// CreateEgressOnlyInternetGateway creates a gateway that is attached to its VPC.
func (s *Service) CreateEgressOnlyInternetGateway(ctx context.Context, in *awsec2.CreateEgressOnlyInternetGatewayInput) (*awsec2.CreateEgressOnlyInternetGatewayOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeEgressOnlyInternetGateway)
	if err != nil {
		return nil, err
	}
	var g egressGatewayRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if done, err := recallOne(tx, s, sc, "CreateEgressOnlyInternetGateway", in.ClientToken, in, egressGateways, egressGatewayID, &g); done || err != nil {
			return err
		}
		v, err := get(tx, vpcs, sc, vpcID, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		all, err := list(tx, egressGateways, sc, func(egressGatewayRecord) bool { return true })
		if err != nil {
			return err
		}
		if err := checkQuota(tx, sc, quotaEgressGateways, len(all)+1, errLimit("EgressOnlyInternetGatewayLimitExceeded", "egress-only internet gateways")); err != nil {
			return err
		}
		g = egressGatewayRecord{ID: ids.Resource("eigw"), VPCID: v.ID, Tags: tags}
		if err := egressGateways.Create(tx, sc.key(g.ID), g); err != nil {
			return err
		}
		return s.remember(tx, sc, "CreateEgressOnlyInternetGateway", in.ClientToken, in, false, g.ID)
	})
	if err != nil {
		return nil, err
	}
	out := g.sdk(sc)
	return &awsec2.CreateEgressOnlyInternetGatewayOutput{EgressOnlyInternetGateway: &out, ClientToken: in.ClientToken}, nil
}

// DeleteEgressOnlyInternetGateway deletes a gateway; routes to it become black holes.
func (s *Service) DeleteEgressOnlyInternetGateway(ctx context.Context, in *awsec2.DeleteEgressOnlyInternetGatewayInput) (*awsec2.DeleteEgressOnlyInternetGatewayOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		g, err := get(tx, egressGateways, sc, egressGatewayID, aws.ToString(in.EgressOnlyInternetGatewayId))
		if err != nil {
			return err
		}
		egressGateways.Delete(tx, sc.key(g.ID))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DeleteEgressOnlyInternetGatewayOutput{ReturnCode: aws.Bool(true)}, nil
}

// DescribeEgressOnlyInternetGateways lists gateways. It documents tag filters only.
func (s *Service) DescribeEgressOnlyInternetGateways(ctx context.Context, in *awsec2.DescribeEgressOnlyInternetGatewaysInput) (*awsec2.DescribeEgressOnlyInternetGatewaysOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	found, next, err := describe(s.store, sc, egressGatewayKind(), query{
		ids: in.EgressOnlyInternetGatewayIds, filters: in.Filters, dryRun: in.DryRun, maxResults: in.MaxResults, nextToken: in.NextToken, lim: limits{5, 255},
	}, nil)
	if err != nil {
		return nil, err
	}
	return &awsec2.DescribeEgressOnlyInternetGatewaysOutput{EgressOnlyInternetGateways: sdkAll(sc, found), NextToken: next}, nil
}
