package routing

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// AssociateRouteTable associates a subnet or a gateway with a route table.
func (s *Service) AssociateRouteTable(ctx context.Context, in *awsec2.AssociateRouteTableInput) (*awsec2.AssociateRouteTableOutput, error) {
	sc := resource.ScopeOf(ctx)
	switch {
	case in.SubnetId != nil && in.GatewayId != nil:
		return nil, ec2err.Combination("Only one of subnetId and gatewayId can be specified.") // from memory
	case in.GatewayId != nil:
		return s.associateGateway(ctx, in)
	case in.SubnetId == nil:
		return nil, ec2err.Missing("subnetId")
	}
	var id string
	_, err := resource.Change(ctx, s.Core, record.RouteTables, in.DryRun, in.RouteTableId, func(tx *store.Tx, t *record.RouteTable) error {
		sn, err := resource.Get(tx, record.Subnets, sc, *in.SubnetId)
		if err != nil {
			return err
		}
		if sn.VPCID != t.VPCID {
			return ec2err.InvalidParameterValue("Route table %s and network %s belong to different networks", t.ID, sn.ID)
		}
		for _, a := range t.Associations {
			if a.SubnetID == sn.ID { // AWS returns the existing association
				id = a.ID
				return nil
			}
		}
		taken := resource.Exists(tx, record.RouteTables, sc, func(o record.RouteTable) bool { return o.VPCID == t.VPCID && o.Has(sn.ID) })
		if taken {
			return ec2err.AlreadyAssociated("the specified association for route table %s conflicts with an existing association", t.ID)
		}
		id = ids.Resource("rtbassoc")
		t.Associations = append(slices.Clone(t.Associations), record.RouteTableAssociation{ID: id, SubnetID: sn.ID})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AssociateRouteTableOutput{
		AssociationId:    aws.String(id),
		AssociationState: &ec2types.RouteTableAssociationState{State: ec2types.RouteTableAssociationStateCodeAssociated},
	}, nil
}

// associateGateway lets a table route what an internet gateway or a virtual private gateway brings into its VPC.
// https://docs.aws.amazon.com/vpc/latest/userguide/gateway-route-tables.html
func (s *Service) associateGateway(ctx context.Context, in *awsec2.AssociateRouteTableInput) (*awsec2.AssociateRouteTableOutput, error) {
	sc, gateway := resource.ScopeOf(ctx), *in.GatewayId
	id := ""
	_, err := resource.Change(ctx, s.Core, record.RouteTables, in.DryRun, in.RouteTableId, func(tx *store.Tx, t *record.RouteTable) error {
		vpc, err := attachedTo(tx, sc, gateway)
		if err != nil {
			return err
		}
		if vpc != t.VPCID {
			return ec2err.InvalidParameterValue("route table %s and network gateway %s belong to different networks", t.ID, gateway)
		}
		for _, a := range t.Associations {
			if a.GatewayID == gateway {
				id = a.ID
				return nil
			}
		}
		has := func(o record.RouteTable) bool {
			return slices.ContainsFunc(o.Associations, func(a record.RouteTableAssociation) bool { return a.GatewayID == gateway })
		}
		if resource.Exists(tx, record.RouteTables, sc, has) {
			return ec2err.AlreadyAssociated("the specified association for route table %s conflicts with an existing association", t.ID)
		}
		for _, r := range t.Routes {
			if r.GatewayID != "local" && r.InterfaceID == "" {
				return ec2err.New("RouteNotSupported", "Route table contains unsupported route target: %s.", r.Target()) // its end is from memory
			}
		}
		id = ids.Resource("rtbassoc")
		t.Associations = append(slices.Clone(t.Associations), record.RouteTableAssociation{ID: id, GatewayID: gateway})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AssociateRouteTableOutput{
		AssociationId:    aws.String(id),
		AssociationState: &ec2types.RouteTableAssociationState{State: ec2types.RouteTableAssociationStateCodeAssociated},
	}, nil
}

// attachedTo returns the VPC that a gateway is attached to, or "".
func attachedTo(r store.Reader, sc resource.Scope, gateway string) (string, error) {
	if strings.HasPrefix(gateway, "vgw-") {
		g, err := resource.Get(r, record.VPNGateways, sc, gateway)
		return g.VPCID, err
	}
	g, err := resource.Get(r, record.InternetGateways, sc, gateway)
	return g.VPCID, err
}

// DisassociateRouteTable makes a subnet use the main route table again.
func (s *Service) DisassociateRouteTable(ctx context.Context, in *awsec2.DisassociateRouteTableInput) (*awsec2.DisassociateRouteTableOutput, error) {
	sc := resource.ScopeOf(ctx)
	id := aws.ToString(in.AssociationId)
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		t, i, err := findAssociation(tx, sc, id)
		if err != nil {
			return err
		}
		if t.Associations[i].Main {
			return ec2err.InvalidParameterValue("cannot disassociate the main route table association %s", id)
		}
		t.Associations = slices.Delete(slices.Clone(t.Associations), i, i+1)
		return record.RouteTables.Put(tx, sc.Key(t.ID), t)
	})
	return &awsec2.DisassociateRouteTableOutput{}, err
}

// findAssociation returns the table that has an association, and its index in the table.
func findAssociation(r store.Reader, sc resource.Scope, id string) (record.RouteTable, int, error) {
	is := func(a record.RouteTableAssociation) bool { return a.ID == id }
	tables := resource.List(r, record.RouteTables, sc, func(t record.RouteTable) bool { return slices.ContainsFunc(t.Associations, is) })
	if len(tables) == 0 {
		return record.RouteTable{}, 0, ec2err.AssociationNotFound(id)
	}
	return tables[0], slices.IndexFunc(tables[0].Associations, is), nil
}

// ReplaceRouteTableAssociation moves a subnet, or the role of main table, to
// another table of the VPC.
func (s *Service) ReplaceRouteTableAssociation(ctx context.Context, in *awsec2.ReplaceRouteTableAssociationInput) (*awsec2.ReplaceRouteTableAssociationOutput, error) {
	sc := resource.ScopeOf(ctx)
	var id string
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		old, i, err := findAssociation(tx, sc, aws.ToString(in.AssociationId))
		if err != nil {
			return err
		}
		t, err := resource.Get(tx, record.RouteTables, sc, aws.ToString(in.RouteTableId))
		if err != nil {
			return err
		}
		if t.VPCID != old.VPCID {
			return ec2err.InvalidParameterValue("Route table %s and network %s belong to different networks", t.ID, old.VPCID)
		}
		a := old.Associations[i]
		if t.ID == old.ID {
			id = a.ID
			return nil
		}
		a.ID = ids.Resource("rtbassoc")
		id = a.ID
		old.Associations = slices.Delete(slices.Clone(old.Associations), i, i+1)
		t.Associations = append(slices.Clone(t.Associations), a)
		if a.Main {
			err := record.VPCs.Update(tx, sc.Key(t.VPCID), func(v *record.VPC) error {
				v.MainRouteTableID = t.ID
				return nil
			})
			if err != nil {
				return err
			}
		}
		if err := record.RouteTables.Put(tx, sc.Key(old.ID), old); err != nil {
			return err
		}
		return record.RouteTables.Put(tx, sc.Key(t.ID), t)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.ReplaceRouteTableAssociationOutput{
		NewAssociationId: aws.String(id),
		AssociationState: &ec2types.RouteTableAssociationState{State: ec2types.RouteTableAssociationStateCodeAssociated},
	}, nil
}
