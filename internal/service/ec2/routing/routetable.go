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
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// Origins of a route, as EC2 names them.
const (
	OriginCreateRouteTable = "CreateRouteTable"
	OriginCreateRoute      = "CreateRoute"
)

// LocalRoute is the route within a VPC for one of its blocks.
func LocalRoute(cidr string) record.Route {
	return record.Route{Destination: cidr, GatewayID: "local", Origin: OriginCreateRouteTable}
}

// LocalRoutes are the local routes that every route table of a VPC has.
func LocalRoutes(v record.VPC) []record.Route {
	var out []record.Route
	for _, b := range append(v.Blocks(), v.IPv6...) {
		out = append(out, LocalRoute(b.CIDR))
	}
	return out
}

// A routeTableView is a route table with the routes whose target no longer exists.
type routeTableView struct {
	record.RouteTable
	blackhole map[string]bool // by target ID
}

func (t routeTableView) state(r record.Route) ec2types.RouteState {
	if t.blackhole[r.Target()] {
		return ec2types.RouteStateBlackhole
	}
	return ec2types.RouteStateActive
}

// SDK renders the record for the SDK.
func (t routeTableView) SDK(sc resource.Scope) ec2types.RouteTable {
	out := ec2types.RouteTable{
		RouteTableId:    aws.String(t.ID),
		VpcId:           aws.String(t.VPCID),
		OwnerId:         aws.String(sc.Account),
		Associations:    []ec2types.RouteTableAssociation{},
		PropagatingVgws: []ec2types.PropagatingVgw{},
		Tags:            t.Tags.Listed(),
	}
	for _, a := range t.Associations {
		assoc := ec2types.RouteTableAssociation{
			RouteTableAssociationId: aws.String(a.ID),
			RouteTableId:            aws.String(t.ID),
			Main:                    aws.Bool(a.Main),
			AssociationState:        &ec2types.RouteTableAssociationState{State: ec2types.RouteTableAssociationStateCodeAssociated},
		}
		if a.SubnetID != "" {
			assoc.SubnetId = aws.String(a.SubnetID)
		}
		assoc.GatewayId = resource.Optional(a.GatewayID)
		out.Associations = append(out.Associations, assoc)
	}
	for _, id := range t.Propagating {
		out.PropagatingVgws = append(out.PropagatingVgws, ec2types.PropagatingVgw{GatewayId: aws.String(id)})
	}
	for _, r := range t.Routes {
		sdk := ec2types.Route{Origin: ec2types.RouteOrigin(r.Origin), State: t.state(r)}
		switch {
		case r.IsPrefixList():
			sdk.DestinationPrefixListId = aws.String(r.Destination)
		case record.IsIPv6(r.Destination):
			sdk.DestinationIpv6CidrBlock = aws.String(r.Destination)
		default:
			sdk.DestinationCidrBlock = aws.String(r.Destination)
		}
		sdk.GatewayId = resource.Optional(r.GatewayID)
		sdk.NatGatewayId = resource.Optional(r.NATGatewayID)
		sdk.VpcPeeringConnectionId = resource.Optional(r.PeeringID)
		sdk.EgressOnlyInternetGatewayId = resource.Optional(r.EgressOnlyGatewayID)
		sdk.TransitGatewayId = resource.Optional(r.TransitGatewayID)
		sdk.NetworkInterfaceId = resource.Optional(r.InterfaceID)
		if r.InstanceID != "" {
			sdk.InstanceId, sdk.InstanceOwnerId = aws.String(r.InstanceID), aws.String(sc.Account)
		}
		out.Routes = append(out.Routes, sdk)
	}
	return out
}

func viewRouteTable(r store.Reader, sc resource.Scope, t record.RouteTable) (routeTableView, error) {
	v := routeTableView{t, map[string]bool{}}
	for _, rt := range t.Routes {
		alive, err := routeAlive(rt, r, sc, t.VPCID)
		if err != nil && !resource.NotFound(err) {
			return v, err
		}
		if err != nil || !alive {
			v.blackhole[rt.Target()] = true
		}
	}
	return v, nil
}

// routeAlive reports whether a route's target exists and accepts traffic.
func routeAlive(r record.Route, rd store.Reader, sc resource.Scope, vpc string) (bool, error) {
	switch {
	case strings.HasPrefix(r.GatewayID, "igw-"):
		g, err := record.InternetGateways.Get(rd, sc.Key(r.GatewayID))
		return g.VPCID == vpc, err
	case strings.HasPrefix(r.GatewayID, "vgw-"):
		g, err := record.VPNGateways.Get(rd, sc.Key(r.GatewayID))
		return g.VPCID == vpc, err
	case strings.HasPrefix(r.GatewayID, "vpce-"):
		_, err := record.VPCEndpoints.Get(rd, sc.Key(r.GatewayID))
		return true, err
	case r.NATGatewayID != "":
		n, err := record.NATGateways.Get(rd, sc.Key(r.NATGatewayID))
		return n.State == record.NATAvailable || n.State == record.NATPending, err
	case r.PeeringID != "":
		p, err := record.Peerings.Get(rd, sc.Key(r.PeeringID))
		return p.Active(), err
	case r.TransitGatewayID != "":
		return resource.Exists(rd, record.TransitAttachments, sc, func(a record.TransitAttachment) bool {
			return a.GatewayID == r.TransitGatewayID && a.VPCID == vpc && a.Live()
		}), nil
	case r.EgressOnlyGatewayID != "":
		_, err := record.EgressGateways.Get(rd, sc.Key(r.EgressOnlyGatewayID))
		return true, err
	case r.InstanceID != "":
		i, err := record.Instances.Get(rd, sc.Key(r.InstanceID))
		return i.State == record.Running || i.State == record.Pending, err
	case r.InterfaceID != "":
		e, err := record.NetworkInterfaces.Get(rd, sc.Key(r.InterfaceID))
		return e.Attachment.ID != "", err
	}
	return true, nil
}

// CreateRouteTable creates a route table with the local route.
func (s *Service) CreateRouteTable(ctx context.Context, in *awsec2.CreateRouteTableInput) (*awsec2.CreateRouteTableOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.VpcId == nil {
		return nil, ec2err.Missing("vpcId")
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeRouteTable)
	if err != nil {
		return nil, err
	}
	t, err := resource.Create(ctx, s.Core, record.RouteTables, in.DryRun, in.ClientToken, in, func(tx *store.Tx, t *record.RouteTable) error {
		v, err := resource.Get(tx, record.VPCs, sc, *in.VpcId)
		if err != nil {
			return err
		}
		if err := quota.Room(tx, sc, quota.RouteTables, record.RouteTables, func(t record.RouteTable) bool { return t.VPCID == v.ID }, ec2err.Limit("RouteTableLimitExceeded", "route tables")); err != nil {
			return err
		}
		*t = record.RouteTable{
			ID: ids.Resource("rtb"), VPCID: v.ID, Tags: tags,
			Routes: LocalRoutes(v),
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := routeTableView{RouteTable: t}.SDK(sc)
	return &awsec2.CreateRouteTableOutput{RouteTable: &out, ClientToken: in.ClientToken}, nil
}

// DeleteRouteTable deletes a route table that no subnet uses.
func (s *Service) DeleteRouteTable(ctx context.Context, in *awsec2.DeleteRouteTableInput) (*awsec2.DeleteRouteTableOutput, error) {
	sc := resource.ScopeOf(ctx)
	_, err := resource.Delete(ctx, s.Core, record.RouteTables, in.DryRun, in.RouteTableId, func(tx *store.Tx, t *record.RouteTable) error {
		if len(t.Associations) > 0 {
			return ec2err.Dependency("The routeTable '%s' has dependencies and cannot be deleted.", t.ID)
		}
		eps := resource.List(tx, record.VPCEndpoints, sc, func(e record.VPCEndpoint) bool { return slices.Contains(e.RouteTableIDs, t.ID) })
		for _, e := range eps { // remove the table from endpoints that use it
			e.RouteTableIDs = Without(e.RouteTableIDs, t.ID)
			if err := record.VPCEndpoints.Put(tx, sc.Key(e.ID), e); err != nil {
				return err
			}
		}
		return nil
	})
	return &awsec2.DeleteRouteTableOutput{}, err
}

func routeTableFields(sc resource.Scope) filter.Fields[routeTableView] {
	type v = routeTableView
	assoc := func(get func(v, record.RouteTableAssociation) string) func(v) []string {
		return func(t v) []string {
			var out []string
			for _, a := range t.Associations {
				if s := get(t, a); s != "" {
					out = append(out, s)
				}
			}
			return out
		}
	}
	routes := func(get func(v, record.Route) string) func(v) []string {
		return func(t v) []string {
			var out []string
			for _, r := range t.Routes {
				if s := get(t, r); s != "" {
					out = append(out, s)
				}
			}
			return out
		}
	}
	return filter.Fields[v]{
		"association.gateway-id": assoc(func(_ v, a record.RouteTableAssociation) string { return a.GatewayID }),
		"association.main": func(t v) []string {
			return boolsOf(t.Associations, func(a record.RouteTableAssociation) bool { return a.Main })
		},
		"association.route-table-association-id": assoc(func(_ v, a record.RouteTableAssociation) string { return a.ID }),
		"association.route-table-id":             assoc(func(t v, _ record.RouteTableAssociation) string { return t.ID }),
		"association.subnet-id":                  assoc(func(_ v, a record.RouteTableAssociation) string { return a.SubnetID }),
		"owner-id":                               filter.One(func(v) string { return sc.Account }),
		"route-table-id":                         filter.One(func(t v) string { return t.ID }),
		"route.destination-cidr-block": routes(func(_ v, r record.Route) string {
			if record.IsIPv6(r.Destination) || r.IsPrefixList() {
				return ""
			}
			return r.Destination
		}),
		"route.destination-ipv6-cidr-block": routes(func(_ v, r record.Route) string {
			if record.IsIPv6(r.Destination) {
				return r.Destination
			}
			return ""
		}),
		"route.destination-prefix-list-id": routes(func(_ v, r record.Route) string {
			if r.IsPrefixList() {
				return r.Destination
			}
			return ""
		}),
		"route.egress-only-internet-gateway-id": routes(func(_ v, r record.Route) string { return r.EgressOnlyGatewayID }),
		"route.gateway-id":                      routes(func(_ v, r record.Route) string { return r.GatewayID }),
		"route.instance-id":                     routes(func(_ v, r record.Route) string { return r.InstanceID }),
		"route.nat-gateway-id":                  routes(func(_ v, r record.Route) string { return r.NATGatewayID }),
		"route.network-interface-id":            routes(func(_ v, r record.Route) string { return r.InterfaceID }),
		"route.origin":                          routes(func(_ v, r record.Route) string { return r.Origin }),
		"route.state":                           routes(func(t v, r record.Route) string { return string(t.state(r)) }),
		"route.transit-gateway-id":              routes(func(_ v, r record.Route) string { return r.TransitGatewayID }),
		"route.vpc-peering-connection-id":       routes(func(_ v, r record.Route) string { return r.PeeringID }),
		"vpc-id":                                filter.One(func(t v) string { return t.VPCID }),
	}
}

func boolsOf[T any](in []T, get func(T) bool) []string {
	var out []string
	for _, v := range in {
		if get(v) {
			out = append(out, "true")
		} else {
			out = append(out, "false")
		}
	}
	return out
}

// DescribeRouteTables lists route tables.
func (s *Service) DescribeRouteTables(ctx context.Context, in *awsec2.DescribeRouteTablesInput) (*awsec2.DescribeRouteTablesOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, routeTableFields(sc), func(t routeTableView) tag.Set { return t.Tags })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	records, err := resource.Choose(s.Store, record.RouteTables, sc, in.RouteTableIds, resource.All)
	if err != nil {
		return nil, err
	}
	var found []routeTableView
	for _, t := range records {
		v, err := viewRouteTable(s.Store, sc, t)
		if err != nil {
			return nil, err
		}
		if match(v) {
			found = append(found, v)
		}
	}
	found, next, err := resource.Paginate(found, func(t routeTableView) string { return t.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 100})
	return &awsec2.DescribeRouteTablesOutput{RouteTables: resource.SDKAll(sc, found), NextToken: next}, err
}
