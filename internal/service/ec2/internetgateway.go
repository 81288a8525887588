package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

type internetGatewayRecord struct {
	ID    string
	VPCID string `json:",omitempty"` // empty while detached
	Tags  Tags   `json:",omitempty"`
}

func (g internetGatewayRecord) sdk(sc scope) ec2types.InternetGateway {
	out := ec2types.InternetGateway{
		InternetGatewayId: aws.String(g.ID),
		OwnerId:           aws.String(sc.account),
		Attachments:       []ec2types.InternetGatewayAttachment{},
		Tags:              g.Tags.sdk(),
	}
	if g.VPCID != "" {
		// EC2 says "available", not the enum's "attached"; Terraform waits for it.
		out.Attachments = append(out.Attachments, ec2types.InternetGatewayAttachment{State: "available", VpcId: aws.String(g.VPCID)})
	}
	return out
}

// CreateInternetGateway creates a detached gateway.
func (s *Service) CreateInternetGateway(ctx context.Context, in *awsec2.CreateInternetGatewayInput) (*awsec2.CreateInternetGatewayOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeInternetGateway)
	if err != nil {
		return nil, err
	}
	g := internetGatewayRecord{ID: ids.Resource("igw"), Tags: tags}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		n, err := count(tx, internetGateways, sc, func(internetGatewayRecord) bool { return true })
		if err != nil {
			return err
		}
		if err := checkQuota(tx, sc, quotaInternetGateways, n+1, errLimit("InternetGatewayLimitExceeded", "internet gateways")); err != nil {
			return err
		}
		return internetGateways.Create(tx, sc.key(g.ID), g)
	})
	if err != nil {
		return nil, err
	}
	out := g.sdk(sc)
	return &awsec2.CreateInternetGatewayOutput{InternetGateway: &out}, nil
}

// AttachInternetGateway attaches a gateway to a VPC that has none.
func (s *Service) AttachInternetGateway(ctx context.Context, in *awsec2.AttachInternetGatewayInput) (*awsec2.AttachInternetGatewayOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		g, err := get(tx, internetGateways, sc, internetGatewayID, aws.ToString(in.InternetGatewayId))
		if err != nil {
			return err
		}
		v, err := get(tx, vpcs, sc, vpcID, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		if g.VPCID != "" {
			return errAlreadyAssociated("resource %s is already attached to network %s", g.ID, g.VPCID)
		}
		taken, err := exists(tx, internetGateways, sc, func(o internetGatewayRecord) bool { return o.VPCID == v.ID })
		if err != nil {
			return err
		}
		if taken {
			return errInvalidParameter("Network %s already has an internet gateway attached", v.ID)
		}
		g.VPCID = v.ID
		return internetGateways.Put(tx, sc.key(g.ID), g)
	})
	return &awsec2.AttachInternetGatewayOutput{}, err
}

// DetachInternetGateway detaches a gateway from its VPC, unless public addresses
// of the VPC are in use.
func (s *Service) DetachInternetGateway(ctx context.Context, in *awsec2.DetachInternetGatewayInput) (*awsec2.DetachInternetGatewayOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		g, err := get(tx, internetGateways, sc, internetGatewayID, aws.ToString(in.InternetGatewayId))
		if err != nil {
			return err
		}
		v, err := get(tx, vpcs, sc, vpcID, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		if g.VPCID != v.ID {
			return errGatewayNotAttached(g.ID, v.ID)
		}
		public, err := exists(tx, networkInterfaces, sc, func(e networkInterfaceRecord) bool {
			return e.VPCID == v.ID && (e.PublicIP != "" || len(e.Elastic) > 0)
		})
		if err != nil {
			return err
		}
		if public {
			return errDependency("Network %s has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.", v.ID)
		}
		g.VPCID = ""
		return internetGateways.Put(tx, sc.key(g.ID), g)
	})
	return &awsec2.DetachInternetGatewayOutput{}, err
}

// DeleteInternetGateway deletes a detached gateway.
func (s *Service) DeleteInternetGateway(ctx context.Context, in *awsec2.DeleteInternetGatewayInput) (*awsec2.DeleteInternetGatewayOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		g, err := get(tx, internetGateways, sc, internetGatewayID, aws.ToString(in.InternetGatewayId))
		if err != nil {
			return err
		}
		if g.VPCID != "" {
			return errDependency("The internetGateway '%s' has dependencies and cannot be deleted.", g.ID)
		}
		internetGateways.Delete(tx, sc.key(g.ID))
		return nil
	})
	return &awsec2.DeleteInternetGatewayOutput{}, err
}

// DescribeInternetGateways lists gateways.
func (s *Service) DescribeInternetGateways(ctx context.Context, in *awsec2.DescribeInternetGatewaysInput) (*awsec2.DescribeInternetGatewaysOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, fields[internetGatewayRecord]{
		"attachment.state": func(g internetGatewayRecord) []string {
			if g.VPCID == "" {
				return nil
			}
			return []string{"available"}
		},
		"attachment.vpc-id":   one(func(g internetGatewayRecord) string { return g.VPCID }),
		"internet-gateway-id": one(func(g internetGatewayRecord) string { return g.ID }),
		"owner-id":            one(func(internetGatewayRecord) string { return sc.account }),
	}, func(g internetGatewayRecord) Tags { return g.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := choose(s.store, internetGateways, sc, internetGatewayID, in.InternetGatewayIds, match)
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(g internetGatewayRecord) string { return g.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	return &awsec2.DescribeInternetGatewaysOutput{InternetGateways: sdkAll(sc, found), NextToken: next}, err
}
