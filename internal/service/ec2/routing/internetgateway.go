package routing

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateInternetGateway creates a detached gateway.
func (s *Service) CreateInternetGateway(ctx context.Context, in *awsec2.CreateInternetGatewayInput) (*awsec2.CreateInternetGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeInternetGateway)
	if err != nil {
		return nil, err
	}
	g := record.InternetGateway{ID: ids.Resource("igw"), Tags: tags}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		if err := quota.Room(tx, sc, quota.InternetGateways, record.InternetGateways, resource.All, ec2err.Limit("InternetGatewayLimitExceeded", "internet gateways")); err != nil {
			return err
		}
		return record.InternetGateways.Create(tx, sc.Key(g.ID), g)
	})
	return &awsec2.CreateInternetGatewayOutput{InternetGateway: new(g.SDK(sc))}, err
}

// AttachInternetGateway attaches a gateway to a VPC that has none.
func (s *Service) AttachInternetGateway(ctx context.Context, in *awsec2.AttachInternetGatewayInput) (*awsec2.AttachInternetGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	_, err := resource.Change(ctx, s.Core, record.InternetGateways, in.DryRun, in.InternetGatewayId, func(tx *store.Tx, g *record.InternetGateway) error {
		v, err := resource.Get(tx, record.VPCs, sc, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		if g.VPCID != "" {
			return ec2err.AlreadyAssociated("resource %s is already attached to network %s", g.ID, g.VPCID)
		}
		taken := resource.Exists(tx, record.InternetGateways, sc, func(o record.InternetGateway) bool { return o.VPCID == v.ID })
		if taken {
			return ec2err.InvalidParameterValue("Network %s already has an internet gateway attached", v.ID)
		}
		g.VPCID = v.ID
		return nil
	})
	return &awsec2.AttachInternetGatewayOutput{}, err
}

// DetachInternetGateway detaches a gateway from its VPC, unless public addresses in the VPC are in
// use.
func (s *Service) DetachInternetGateway(ctx context.Context, in *awsec2.DetachInternetGatewayInput) (*awsec2.DetachInternetGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	_, err := resource.Change(ctx, s.Core, record.InternetGateways, in.DryRun, in.InternetGatewayId, func(tx *store.Tx, g *record.InternetGateway) error {
		v, err := resource.Get(tx, record.VPCs, sc, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		if g.VPCID != v.ID {
			return ec2err.GatewayNotAttached(g.ID, v.ID)
		}
		public := resource.Exists(tx, record.NetworkInterfaces, sc, func(e record.NetworkInterface) bool {
			return e.VPCID == v.ID && (e.PublicIP != "" || len(e.Elastic) > 0)
		})
		if public {
			return ec2err.Dependency("Network %s has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.", v.ID)
		}
		g.VPCID = ""
		tables := resource.List(tx, record.RouteTables, sc, func(t record.RouteTable) bool {
			return slices.ContainsFunc(t.Associations, func(a record.RouteTableAssociation) bool { return a.GatewayID == g.ID })
		})
		for _, t := range tables {
			t.Associations = slices.DeleteFunc(slices.Clone(t.Associations), func(a record.RouteTableAssociation) bool { return a.GatewayID == g.ID })
			if err := record.RouteTables.Put(tx, sc.Key(t.ID), t); err != nil {
				return err
			}
		}
		return nil
	})
	return &awsec2.DetachInternetGatewayOutput{}, err
}

// DeleteInternetGateway deletes a detached gateway.
func (s *Service) DeleteInternetGateway(ctx context.Context, in *awsec2.DeleteInternetGatewayInput) (*awsec2.DeleteInternetGatewayOutput, error) {
	_, err := resource.Delete(ctx, s.Core, record.InternetGateways, in.DryRun, in.InternetGatewayId, func(tx *store.Tx, g *record.InternetGateway) error {
		if g.VPCID != "" {
			return ec2err.Dependency("The internetGateway '%s' has dependencies and cannot be deleted.", g.ID)
		}
		return nil
	})
	return &awsec2.DeleteInternetGatewayOutput{}, err
}

// DescribeInternetGateways lists gateways.
func (s *Service) DescribeInternetGateways(ctx context.Context, in *awsec2.DescribeInternetGatewaysInput) (*awsec2.DescribeInternetGatewaysOutput, error) {
	sc := resource.ScopeOf(ctx)
	known := filter.Fields[record.InternetGateway]{
		"attachment.state": func(g record.InternetGateway) []string {
			if g.VPCID == "" {
				return nil
			}
			return []string{"available"}
		},
		"attachment.vpc-id":   filter.One(func(g record.InternetGateway) string { return g.VPCID }),
		"internet-gateway-id": filter.One(func(g record.InternetGateway) string { return g.ID }),
		"owner-id":            filter.One(func(record.InternetGateway) string { return sc.Account }),
	}
	found, next, err := resource.Describe(s.Store, sc, record.InternetGateways, resource.Query{
		IDs: in.InternetGatewayIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, known)
	return &awsec2.DescribeInternetGatewaysOutput{InternetGateways: resource.SDKAll(sc, found), NextToken: next}, err
}
