package transit

import (
	"context"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// on reads an option that is "enable" or "disable". Its default counts if it is absent.
func on[T ~string](v T, byDefault bool) (bool, error) {
	switch v {
	case "":
		return byDefault, nil
	case "enable", "disable":
		return v == "enable", nil
	}
	return false, ec2err.InvalidValue(v, "Options", "Valid values are: enable | disable")
}

// options reads several options.
type options struct{ err error }

func read[T ~string](o *options, v T, byDefault bool) bool {
	b, err := on(v, byDefault)
	if o.err == nil {
		o.err = err
	}
	return b
}

// CreateTransitGateway creates a transit gateway, with its default route table unless the request wants none.
func (s *Service) CreateTransitGateway(ctx context.Context, in *awsec2.CreateTransitGatewayInput) (*awsec2.CreateTransitGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeTransitGateway)
	if err != nil {
		return nil, err
	}
	g := record.TransitGateway{ID: ids.Resource("tgw"), Description: aws.ToString(in.Description), TransitLife: s.begin(), ASN: 64512, Tags: tags}
	var opts ec2types.TransitGatewayRequestOptions
	if in.Options != nil {
		opts = *in.Options
	}
	if err := refuse(opts.MulticastSupport, opts.SecurityGroupReferencingSupport); err != nil {
		return nil, err
	}
	if opts.AmazonSideAsn != nil {
		if g.ASN, err = resource.PrivateASN(*opts.AmazonSideAsn); err != nil {
			return nil, err
		}
	}
	var o options
	associate, propagate := read(&o, opts.DefaultRouteTableAssociation, true), read(&o, opts.DefaultRouteTablePropagation, true)
	g.AutoAccept, g.NoDNS, g.NoECMP = read(&o, opts.AutoAcceptSharedAttachments, false), !read(&o, opts.DnsSupport, true), !read(&o, opts.VpnEcmpSupport, true)
	if o.err != nil {
		return nil, o.err
	}
	if g.CIDRs, err = gatewayCIDRs(opts.TransitGatewayCidrBlocks); err != nil {
		return nil, err
	}
	t := record.TransitRouteTable{ID: ids.Resource("tgw-rtb"), GatewayID: g.ID, TransitLife: s.begin()}
	if associate {
		g.AssociationTable = t.ID
	}
	if propagate {
		g.PropagationTable = t.ID
	}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		live := func(g record.TransitGateway) bool { return g.Live() }
		if err := quota.Room(tx, sc, quota.TransitGateways, record.TransitGateways, live, ec2err.Limit("TransitGatewayLimitExceeded", "transit gateways")); err != nil {
			return err
		}
		if associate || propagate {
			if err := record.TransitRouteTables.Create(tx, sc.Key(t.ID), t); err != nil {
				return err
			}
		}
		return record.TransitGateways.Create(tx, sc.Key(g.ID), g)
	})
	return &awsec2.CreateTransitGatewayOutput{TransitGateway: new(g.SDK(sc))}, err
}

// refuse refuses what would have to have an effect on packets that there is not.
func refuse(multicast ec2types.MulticastSupportValue, groups ec2types.SecurityGroupReferencingSupportValue) error {
	switch {
	case multicast == ec2types.MulticastSupportValueEnable:
		return awserr.NotImplemented("multicast")
	case groups == ec2types.SecurityGroupReferencingSupportValueEnable:
		return awserr.NotImplemented("rules that refer to security groups behind a transit gateway")
	}
	return nil
}

// gatewayCIDRs checks a transit gateway's own blocks, from which Connect peers would get their addresses.
func gatewayCIDRs(blocks []string) ([]string, error) {
	var out []string
	for _, b := range blocks {
		p, ok := resource.ParseCIDR(b)
		most := 24
		if !ok {
			p, ok = resource.ParseCIDR6(b)
			most = 64
		}
		if !ok || p.Bits() > most {
			return nil, ec2err.CIDR(b, "transitGatewayCidrBlocks")
		}
		out = append(out, p.String())
	}
	if len(out) > 5 {
		return nil, ec2err.InvalidParameterValue("A transit gateway can have at most 5 CIDR blocks.") // from memory
	}
	return resource.SortedUnique(out), nil
}

// ModifyTransitGateway changes a transit gateway's options. Existing attachments keep their association and propagation.
func (s *Service) ModifyTransitGateway(ctx context.Context, in *awsec2.ModifyTransitGatewayInput) (*awsec2.ModifyTransitGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	var opts ec2types.ModifyTransitGatewayOptions
	if in.Options != nil {
		opts = *in.Options
	}
	if err := refuse("", opts.SecurityGroupReferencingSupport); err != nil {
		return nil, err
	}
	g, err := resource.Change(ctx, s.Core, record.TransitGateways, in.DryRun, in.TransitGatewayId, func(tx *store.Tx, g *record.TransitGateway) error {
		if g.State != record.TransitAvailable {
			return errState(g.ID)
		}
		if in.Description != nil {
			g.Description = *in.Description
		}
		var err error
		if opts.AmazonSideAsn != nil {
			if g.ASN, err = resource.PrivateASN(*opts.AmazonSideAsn); err != nil {
				return err
			}
		}
		var o options
		g.AutoAccept, g.NoDNS, g.NoECMP = read(&o, opts.AutoAcceptSharedAttachments, g.AutoAccept), !read(&o, opts.DnsSupport, !g.NoDNS), !read(&o, opts.VpnEcmpSupport, !g.NoECMP)
		associate, propagate := read(&o, opts.DefaultRouteTableAssociation, g.AssociationTable != ""), read(&o, opts.DefaultRouteTablePropagation, g.PropagationTable != "")
		if o.err != nil {
			return o.err
		}
		if g.AssociationTable, err = s.defaultTable(tx, sc, g, associate, g.AssociationTable, aws.ToString(opts.AssociationDefaultRouteTableId)); err != nil {
			return err
		}
		if g.PropagationTable, err = s.defaultTable(tx, sc, g, propagate, g.PropagationTable, aws.ToString(opts.PropagationDefaultRouteTableId)); err != nil {
			return err
		}
		more, err := gatewayCIDRs(opts.AddTransitGatewayCidrBlocks)
		if err != nil {
			return err
		}
		kept := slices.DeleteFunc(slices.Clone(g.CIDRs), func(c string) bool { return slices.Contains(opts.RemoveTransitGatewayCidrBlocks, c) })
		if g.CIDRs, err = gatewayCIDRs(slices.Concat(kept, more)); err != nil {
			return err
		}
		s.enter(&g.TransitLife, record.TransitModifying)
		return nil
	})
	return &awsec2.ModifyTransitGatewayOutput{TransitGateway: new(g.SDK(sc))}, err
}

// defaultTable returns a gateway's default route table: the one that a request names, the one that it has, or a new one.
func (s *Service) defaultTable(tx *store.Tx, sc resource.Scope, g *record.TransitGateway, wanted bool, have, named string) (string, error) {
	switch {
	case !wanted:
		return "", nil
	case named != "":
		t, err := liveTable(tx, sc, named)
		if err == nil && t.GatewayID != g.ID {
			err = resource.TransitRouteTableID.NotFound(named)
		}
		return named, err
	case have != "":
		return have, nil
	case g.AssociationTable+g.PropagationTable != "":
		return g.AssociationTable + g.PropagationTable, nil // of the other kind
	}
	t := record.TransitRouteTable{ID: ids.Resource("tgw-rtb"), GatewayID: g.ID, TransitLife: s.begin()}
	return t.ID, record.TransitRouteTables.Create(tx, sc.Key(t.ID), t)
}

// DeleteTransitGateway deletes a transit gateway without attachments, and its route tables.
func (s *Service) DeleteTransitGateway(ctx context.Context, in *awsec2.DeleteTransitGatewayInput) (*awsec2.DeleteTransitGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	g, err := resource.Change(ctx, s.Core, record.TransitGateways, in.DryRun, in.TransitGatewayId, func(tx *store.Tx, g *record.TransitGateway) error {
		switch {
		case g.State == record.TransitDeleted || g.State == record.TransitDeleting:
			return resource.TransitGatewayID.NotFound(g.ID)
		case g.State != record.TransitAvailable:
			return errState(g.ID)
		}
		attached := resource.List(tx, record.TransitAttachments, sc, func(a record.TransitAttachment) bool { return a.GatewayID == g.ID && a.State != record.TransitDeleted })
		if len(attached) > 0 {
			return errHasAttachments(g.ID, resource.Map(attached, func(a record.TransitAttachment) string { return a.ID }))
		}
		tables := resource.List(tx, record.TransitRouteTables, sc, func(t record.TransitRouteTable) bool { return t.GatewayID == g.ID && t.Live() })
		for _, t := range tables {
			s.enter(&t.TransitLife, record.TransitDeleting)
			if err := record.TransitRouteTables.Put(tx, sc.Key(t.ID), t); err != nil {
				return err
			}
		}
		s.enter(&g.TransitLife, record.TransitDeleting)
		return nil
	})
	return &awsec2.DeleteTransitGatewayOutput{TransitGateway: new(g.SDK(sc))}, err
}

// DescribeTransitGateways lists transit gateways. Deleted ones stay listed for an hour.
func (s *Service) DescribeTransitGateways(ctx context.Context, in *awsec2.DescribeTransitGatewaysInput) (*awsec2.DescribeTransitGatewaysOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.TransitGateway
	option := func(get func(v) bool) func(v) []string {
		return func(g v) []string { return []string{map[bool]string{true: "enable", false: "disable"}[get(g)]} }
	}
	found, next, err := resource.Describe(s.Store, sc, record.TransitGateways, resource.Query{
		IDs: in.TransitGatewayIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: limits,
	}, filter.Fields[v]{
		"transit-gateway-id":      filter.One(func(g v) string { return g.ID }),
		"owner-id":                filter.One(func(v) string { return sc.Account }),
		"state":                   filter.One(func(g v) string { return g.State }),
		"options.amazon-side-asn": filter.One(func(g v) string { return strconv.FormatInt(g.ASN, 10) }),
		"options.association-default-route-table-id": filter.One(func(g v) string { return g.AssociationTable }),
		"options.propagation-default-route-table-id": filter.One(func(g v) string { return g.PropagationTable }),
		"options.auto-accept-shared-attachments":     option(func(g v) bool { return g.AutoAccept }),
		"options.default-route-table-association":    option(func(g v) bool { return g.AssociationTable != "" }),
		"options.default-route-table-propagation":    option(func(g v) bool { return g.PropagationTable != "" }),
		"options.dns-support":                        option(func(g v) bool { return !g.NoDNS }),
		"options.vpn-ecmp-support":                   option(func(g v) bool { return !g.NoECMP }),
	})
	return &awsec2.DescribeTransitGatewaysOutput{TransitGateways: resource.SDKAll(sc, found), NextToken: next}, err
}

// limits are those of the pages of all calls here.
var limits = resource.Limits{Min: 5, Max: 1000}

// GatewaysSettled reports whether none of the gateways is changing its state.
func GatewaysSettled(out *awsec2.DescribeTransitGatewaysOutput) bool {
	return !slices.ContainsFunc(out.TransitGateways, func(g ec2types.TransitGateway) bool { return changing(string(g.State)) })
}

func changing(state string) bool {
	return state == record.TransitPending || state == record.TransitModifying || state == record.TransitDeleting
}
