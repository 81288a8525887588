package transit

import (
	"context"
	"slices"

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

// Limits that cannot be raised.
// https://docs.aws.amazon.com/vpc/latest/tgw/transit-gateway-quotas.html
const (
	gatewaysPerVPC  = 5
	routesOfGateway = 10000
)

// liveAttachment returns an attachment that was not deleted.
func liveAttachment(r store.Reader, sc resource.Scope, id string) (record.TransitAttachment, error) {
	a, err := resource.Get(r, record.TransitAttachments, sc, id)
	if err == nil && !a.Live() {
		err = resource.TransitAttachmentID.NotFound(id)
	}
	return a, err
}

// CreateTransitGatewayVpcAttachment attaches a VPC, with a network interface in each of the subnets, and associates the
// attachment with the gateway's default route table and lets it propagate there.
func (s *Service) CreateTransitGatewayVpcAttachment(ctx context.Context, in *awsec2.CreateTransitGatewayVpcAttachmentInput) (*awsec2.CreateTransitGatewayVpcAttachmentOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeTransitGatewayAttachment)
	if err != nil {
		return nil, err
	}
	a := record.TransitAttachment{ID: ids.Resource("tgw-attach"), TransitLife: s.begin(), Tags: tags}
	if in.Options != nil {
		var o options
		a.NoDNS, a.IPv6, a.Appliance = !read(&o, in.Options.DnsSupport, true), read(&o, in.Options.Ipv6Support, false), read(&o, in.Options.ApplianceModeSupport, false)
		if o.err != nil {
			return nil, o.err
		}
		if err := refuse("", in.Options.SecurityGroupReferencingSupport); err != nil {
			return nil, err
		}
	}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		g, err := resource.Get(tx, record.TransitGateways, sc, aws.ToString(in.TransitGatewayId))
		switch {
		case err != nil:
			return err
		case !g.Live():
			return resource.TransitGatewayID.NotFound(g.ID)
		case g.State == record.TransitPending:
			return errState(g.ID)
		}
		v, err := resource.Get(tx, record.VPCs, sc, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		a.GatewayID, a.VPCID, a.Table, a.Propagates, a.Subnets = g.ID, v.ID, g.AssociationTable, nil, nil
		if g.PropagationTable != "" {
			a.Propagates = []string{g.PropagationTable}
		}
		same := resource.Exists(tx, record.TransitAttachments, sc, func(o record.TransitAttachment) bool {
			return o.GatewayID == g.ID && o.VPCID == v.ID && o.State != record.TransitDeleted
		})
		if same {
			return errDuplicateAttachment(g.ID)
		}
		live := func(o record.TransitAttachment) bool { return o.Live() && o.VPCID == v.ID }
		if resource.Count(tx, record.TransitAttachments, sc, live) >= gatewaysPerVPC {
			return ec2err.Limit("TransitGatewayAttachmentLimitExceeded", "transit gateways per VPC")
		}
		if err := s.addSubnets(tx, sc, &a, in.SubnetIds); err != nil {
			return err
		}
		return record.TransitAttachments.Create(tx, sc.Key(a.ID), a)
	})
	return &awsec2.CreateTransitGatewayVpcAttachmentOutput{TransitGatewayVpcAttachment: new(a.SDK(sc))}, err
}

// addSubnets adds subnets to an attachment, at most one in each zone.
func (s *Service) addSubnets(tx *store.Tx, sc resource.Scope, a *record.TransitAttachment, subnets []string) error {
	a.Subnets = slices.Clone(a.Subnets)
	for _, id := range resource.SortedUnique(subnets) {
		sn, err := resource.Get(tx, record.Subnets, sc, id)
		switch {
		case err != nil:
			return err
		case sn.VPCID != a.VPCID:
			return resource.SubnetID.NotFound(id)
		case slices.ContainsFunc(a.Subnets, func(o record.TransitSubnet) bool { return o.Zone == sn.Zone }):
			return errSameZone()
		}
		e, err := s.interfaces.Make(tx, sc, eni.Spec{
			ID: ids.Resource("eni"), Subnet: sn, Description: "Network Interface for Transit Gateway Attachment " + a.ID, NoGroups: true,
			Kind: "transit_gateway", Requester: routing.ServiceRequester, Owner: a.ID, Hint: a.ID,
		})
		if err != nil {
			return err
		}
		e.Attachment = record.InterfaceAttachment{ID: ids.Resource("ela-attach"), DeviceIndex: 1, Time: s.Now()}
		if err := record.NetworkInterfaces.Create(tx, sc.Key(e.ID), e); err != nil {
			return err
		}
		a.Subnets = append(a.Subnets, record.TransitSubnet{SubnetID: sn.ID, Zone: sn.Zone, InterfaceID: e.ID})
	}
	return nil
}

// dropSubnets removes the subnets that match, with their interfaces.
func dropSubnets(tx *store.Tx, sc resource.Scope, a *record.TransitAttachment, match func(record.TransitSubnet) bool) error {
	for _, sn := range a.Subnets {
		if match(sn) {
			if err := routing.RemoveInterfaceByID(tx, sc, sn.InterfaceID); err != nil {
				return err
			}
		}
	}
	a.Subnets = slices.DeleteFunc(slices.Clone(a.Subnets), match)
	return nil
}

// ModifyTransitGatewayVpcAttachment changes an attachment's subnets and options.
func (s *Service) ModifyTransitGatewayVpcAttachment(ctx context.Context, in *awsec2.ModifyTransitGatewayVpcAttachmentInput) (*awsec2.ModifyTransitGatewayVpcAttachmentOutput, error) {
	sc := resource.ScopeOf(ctx)
	a, err := resource.Change(ctx, s.Core, record.TransitAttachments, in.DryRun, in.TransitGatewayAttachmentId, func(tx *store.Tx, a *record.TransitAttachment) error {
		switch {
		case !a.Live():
			return resource.TransitAttachmentID.NotFound(a.ID)
		case a.State != record.TransitAvailable:
			return errState(a.ID)
		}
		if in.Options != nil {
			var o options
			a.NoDNS, a.IPv6 = !read(&o, in.Options.DnsSupport, !a.NoDNS), read(&o, in.Options.Ipv6Support, a.IPv6)
			a.Appliance = read(&o, in.Options.ApplianceModeSupport, a.Appliance)
			if o.err != nil {
				return o.err
			}
			if err := refuse("", in.Options.SecurityGroupReferencingSupport); err != nil {
				return err
			}
		}
		for _, id := range in.RemoveSubnetIds {
			if !slices.Contains(a.SubnetIDs(), id) {
				return resource.SubnetID.NotFound(id)
			}
		}
		if err := dropSubnets(tx, sc, a, func(sn record.TransitSubnet) bool { return slices.Contains(in.RemoveSubnetIds, sn.SubnetID) }); err != nil {
			return err
		}
		if err := s.addSubnets(tx, sc, a, in.AddSubnetIds); err != nil {
			return err
		}
		if len(a.Subnets) == 0 {
			return ec2err.InvalidParameterValue("Transit Gateway VPC Attachment %s must have at least one subnet", a.ID) // from memory
		}
		s.enter(&a.TransitLife, record.TransitModifying)
		return nil
	})
	return &awsec2.ModifyTransitGatewayVpcAttachmentOutput{TransitGatewayVpcAttachment: new(a.SDK(sc))}, err
}

// DeleteTransitGatewayVpcAttachment detaches a VPC. VPC routes to the gateway become black holes.
func (s *Service) DeleteTransitGatewayVpcAttachment(ctx context.Context, in *awsec2.DeleteTransitGatewayVpcAttachmentInput) (*awsec2.DeleteTransitGatewayVpcAttachmentOutput, error) {
	sc := resource.ScopeOf(ctx)
	a, err := resource.Change(ctx, s.Core, record.TransitAttachments, in.DryRun, in.TransitGatewayAttachmentId, func(tx *store.Tx, a *record.TransitAttachment) error {
		if !a.Live() {
			return resource.TransitAttachmentID.NotFound(a.ID)
		}
		for _, sn := range a.Subnets { // the record still lists its subnets
			if err := routing.RemoveInterfaceByID(tx, sc, sn.InterfaceID); err != nil {
				return err
			}
		}
		a.Table, a.Propagates = "", nil
		s.enter(&a.TransitLife, record.TransitDeleting)
		return nil
	})
	return &awsec2.DeleteTransitGatewayVpcAttachmentOutput{TransitGatewayVpcAttachment: new(a.SDK(sc))}, err
}

func attachmentFields() filter.Fields[record.TransitAttachment] {
	type v = record.TransitAttachment
	return filter.Fields[v]{
		"state":                         filter.One(func(a v) string { return a.State }),
		"transit-gateway-attachment-id": filter.One(func(a v) string { return a.ID }),
		"transit-gateway-id":            filter.One(func(a v) string { return a.GatewayID }),
		"vpc-id":                        filter.One(func(a v) string { return a.VPCID }),
	}
}

// DescribeTransitGatewayVpcAttachments lists attachments. Deleted ones stay listed for an hour.
func (s *Service) DescribeTransitGatewayVpcAttachments(ctx context.Context, in *awsec2.DescribeTransitGatewayVpcAttachmentsInput) (*awsec2.DescribeTransitGatewayVpcAttachmentsOutput, error) {
	sc := resource.ScopeOf(ctx)
	found, next, err := resource.Describe(s.Store, sc, record.TransitAttachments, resource.Query{
		IDs: in.TransitGatewayAttachmentIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: limits,
	}, attachmentFields())
	return &awsec2.DescribeTransitGatewayVpcAttachmentsOutput{TransitGatewayVpcAttachments: resource.SDKAll(sc, found), NextToken: next}, err
}

// DescribeTransitGatewayAttachments lists attachments of every kind, with their associations. All are of VPCs here.
func (s *Service) DescribeTransitGatewayAttachments(ctx context.Context, in *awsec2.DescribeTransitGatewayAttachmentsInput) (*awsec2.DescribeTransitGatewayAttachmentsOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.TransitAttachment
	owner := filter.One(func(v) string { return sc.Account })
	known := attachmentFields()
	delete(known, "vpc-id")
	known["resource-id"] = filter.One(func(a v) string { return a.VPCID })
	known["resource-type"] = filter.One(func(v) string { return "vpc" })
	known["resource-owner-id"], known["transit-gateway-owner-id"] = owner, owner
	known["association.transit-gateway-route-table-id"] = filter.One(func(a v) string { return a.Table })
	known["association.state"] = filter.One(func(a v) string {
		if a.Table == "" {
			return ""
		}
		return "associated"
	})
	found, next, err := resource.Describe(s.Store, sc, record.TransitAttachments, resource.Query{
		IDs: in.TransitGatewayAttachmentIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: limits,
	}, known)
	return &awsec2.DescribeTransitGatewayAttachmentsOutput{NextToken: next, TransitGatewayAttachments: resource.Map(found, func(a v) ec2types.TransitGatewayAttachment {
		out := ec2types.TransitGatewayAttachment{
			TransitGatewayAttachmentId: aws.String(a.ID), TransitGatewayId: aws.String(a.GatewayID), TransitGatewayOwnerId: aws.String(sc.Account),
			ResourceId: aws.String(a.VPCID), ResourceOwnerId: aws.String(sc.Account), ResourceType: ec2types.TransitGatewayAttachmentResourceTypeVpc,
			State: ec2types.TransitGatewayAttachmentState(a.State), CreationTime: aws.Time(a.Created), Tags: a.Tags.SDK(),
		}
		if a.Table != "" {
			out.Association = &ec2types.TransitGatewayAttachmentAssociation{State: ec2types.TransitGatewayAssociationStateAssociated, TransitGatewayRouteTableId: aws.String(a.Table)}
		}
		return out
	})}, err
}

// AttachmentsSettled reports whether none of the attachments is changing its state.
func AttachmentsSettled(out *awsec2.DescribeTransitGatewayVpcAttachmentsOutput) bool {
	return !slices.ContainsFunc(out.TransitGatewayVpcAttachments, func(a ec2types.TransitGatewayVpcAttachment) bool { return changing(string(a.State)) })
}
