package ec2

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

type routeTableRecord struct {
	ID           string
	VPCID        string
	Associations []routeTableAssociation `json:",omitempty"`
	Routes       []route
	Tags         Tags `json:",omitempty"`
}

type routeTableAssociation struct {
	ID       string
	SubnetID string `json:",omitempty"` // empty for the main association
	Main     bool   `json:",omitempty"`
}

// Origins of a route, in EC2's words.
const (
	originCreateRouteTable = "CreateRouteTable"
	originCreateRoute      = "CreateRoute"
)

// A route sends a destination to one target.
type route struct {
	Destination string // IPv4 or IPv6 block, or a prefix list: pl-…
	// Exactly one target is set; the instance's interface besides the instance.
	GatewayID           string `json:",omitempty"` // igw-…, local, or vpce-… of a gateway endpoint
	InterfaceID         string `json:",omitempty"`
	InstanceID          string `json:",omitempty"`
	NATGatewayID        string `json:",omitempty"`
	PeeringID           string `json:",omitempty"`
	EgressOnlyGatewayID string `json:",omitempty"`
	Origin              string
}

func localRoute(cidr string) route {
	return route{Destination: cidr, GatewayID: "local", Origin: originCreateRouteTable}
}

// localRoutes are those that every route table of a VPC has.
func localRoutes(v vpcRecord) []route {
	var out []route
	for _, b := range append(v.blocks(), v.IPv6...) {
		out = append(out, localRoute(b.CIDR))
	}
	return out
}

func (t routeTableRecord) has(subnet string) bool {
	return slices.ContainsFunc(t.Associations, func(a routeTableAssociation) bool { return a.SubnetID == subnet })
}

// without returns t without the association of a subnet.
func (t routeTableRecord) without(subnet string) routeTableRecord {
	t.Associations = slices.DeleteFunc(slices.Clone(t.Associations), func(a routeTableAssociation) bool { return a.SubnetID == subnet })
	return t
}

func (t routeTableRecord) find(destination string) int {
	return slices.IndexFunc(t.Routes, func(r route) bool { return r.Destination == destination })
}

// A routeTableView knows which targets are gone.
type routeTableView struct {
	routeTableRecord
	blackhole map[string]bool // targets
}

func (r route) target() string {
	return r.GatewayID + r.InstanceID + r.InterfaceID + r.NATGatewayID + r.PeeringID + r.EgressOnlyGatewayID
}

func (r route) isPrefixList() bool { return strings.HasPrefix(r.Destination, "pl-") }

func (t routeTableView) state(r route) ec2types.RouteState {
	if t.blackhole[r.target()] {
		return ec2types.RouteStateBlackhole
	}
	return ec2types.RouteStateActive
}

func (t routeTableView) sdk(sc scope) ec2types.RouteTable {
	out := ec2types.RouteTable{
		RouteTableId:    aws.String(t.ID),
		VpcId:           aws.String(t.VPCID),
		OwnerId:         aws.String(sc.account),
		Associations:    []ec2types.RouteTableAssociation{},
		PropagatingVgws: []ec2types.PropagatingVgw{},
		Tags:            t.Tags.sdk(),
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
		out.Associations = append(out.Associations, assoc)
	}
	for _, r := range t.Routes {
		sdk := ec2types.Route{Origin: ec2types.RouteOrigin(r.Origin), State: t.state(r)}
		switch {
		case r.isPrefixList():
			sdk.DestinationPrefixListId = aws.String(r.Destination)
		case isIPv6(r.Destination):
			sdk.DestinationIpv6CidrBlock = aws.String(r.Destination)
		default:
			sdk.DestinationCidrBlock = aws.String(r.Destination)
		}
		sdk.GatewayId = optional(r.GatewayID)
		sdk.NatGatewayId = optional(r.NATGatewayID)
		sdk.VpcPeeringConnectionId = optional(r.PeeringID)
		sdk.EgressOnlyInternetGatewayId = optional(r.EgressOnlyGatewayID)
		sdk.NetworkInterfaceId = optional(r.InterfaceID)
		if r.InstanceID != "" {
			sdk.InstanceId, sdk.InstanceOwnerId = aws.String(r.InstanceID), aws.String(sc.account)
		}
		out.Routes = append(out.Routes, sdk)
	}
	return out
}

// optional is nil for an empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func viewRouteTable(r store.Reader, sc scope, t routeTableRecord) (routeTableView, error) {
	v := routeTableView{t, map[string]bool{}}
	for _, rt := range t.Routes {
		alive, err := rt.alive(r, sc, t.VPCID)
		if err != nil && !notFound(err) {
			return v, err
		}
		if err != nil || !alive {
			v.blackhole[rt.target()] = true
		}
	}
	return v, nil
}

// alive reports whether the target of a route is there and takes traffic.
func (r route) alive(rd store.Reader, sc scope, vpc string) (bool, error) {
	switch {
	case strings.HasPrefix(r.GatewayID, "igw-"):
		g, err := internetGateways.Get(rd, sc.key(r.GatewayID))
		return g.VPCID == vpc, err
	case strings.HasPrefix(r.GatewayID, "vpce-"):
		_, err := vpcEndpoints.Get(rd, sc.key(r.GatewayID))
		return true, err
	case r.NATGatewayID != "":
		n, err := natGateways.Get(rd, sc.key(r.NATGatewayID))
		return n.State == natAvailable || n.State == natPending, err
	case r.PeeringID != "":
		p, err := peerings.Get(rd, sc.key(r.PeeringID))
		return p.active(), err
	case r.EgressOnlyGatewayID != "":
		_, err := egressGateways.Get(rd, sc.key(r.EgressOnlyGatewayID))
		return true, err
	case r.InstanceID != "":
		i, err := instances.Get(rd, sc.key(r.InstanceID))
		return i.State == stateRunning || i.State == statePending, err
	case r.InterfaceID != "":
		e, err := networkInterfaces.Get(rd, sc.key(r.InterfaceID))
		return e.Attachment.ID != "", err
	}
	return true, nil
}

// CreateRouteTable creates a route table with the local route.
func (s *Service) CreateRouteTable(ctx context.Context, in *awsec2.CreateRouteTableInput) (*awsec2.CreateRouteTableOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.VpcId == nil {
		return nil, errMissing("vpcId")
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeRouteTable)
	if err != nil {
		return nil, err
	}
	var t routeTableRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if done, err := recallOne(tx, s, sc, "CreateRouteTable", in.ClientToken, in, routeTables, routeTableID, &t); done || err != nil {
			return err
		}
		v, err := get(tx, vpcs, sc, vpcID, *in.VpcId)
		if err != nil {
			return err
		}
		n, err := count(tx, routeTables, sc, func(t routeTableRecord) bool { return t.VPCID == v.ID })
		if err != nil {
			return err
		}
		if err := checkQuota(tx, sc, quotaRouteTables, n+1, errLimit("RouteTableLimitExceeded", "route tables")); err != nil {
			return err
		}
		t = routeTableRecord{
			ID: ids.Resource("rtb"), VPCID: v.ID, Tags: tags,
			Routes: localRoutes(v),
		}
		if err := routeTables.Create(tx, sc.key(t.ID), t); err != nil {
			return err
		}
		return s.remember(tx, sc, "CreateRouteTable", in.ClientToken, in, false, t.ID)
	})
	if err != nil {
		return nil, err
	}
	out := routeTableView{routeTableRecord: t}.sdk(sc)
	return &awsec2.CreateRouteTableOutput{RouteTable: &out, ClientToken: in.ClientToken}, nil
}

// DeleteRouteTable deletes a route table that no subnet uses.
func (s *Service) DeleteRouteTable(ctx context.Context, in *awsec2.DeleteRouteTableInput) (*awsec2.DeleteRouteTableOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		t, err := get(tx, routeTables, sc, routeTableID, aws.ToString(in.RouteTableId))
		if err != nil {
			return err
		}
		if len(t.Associations) > 0 {
			return errDependency("The routeTable '%s' has dependencies and cannot be deleted.", t.ID)
		}
		eps, err := list(tx, vpcEndpoints, sc, func(e vpcEndpointRecord) bool { return slices.Contains(e.RouteTableIDs, t.ID) })
		if err != nil {
			return err
		}
		for _, e := range eps { // the endpoint lets go of the table
			e.RouteTableIDs = without(e.RouteTableIDs, t.ID)
			if err := vpcEndpoints.Put(tx, sc.key(e.ID), e); err != nil {
				return err
			}
		}
		routeTables.Delete(tx, sc.key(t.ID))
		return nil
	})
	return &awsec2.DeleteRouteTableOutput{}, err
}

func routeTableFields(sc scope) fields[routeTableView] {
	type v = routeTableView
	assoc := func(get func(v, routeTableAssociation) string) func(v) []string {
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
	routes := func(get func(v, route) string) func(v) []string {
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
	return fields[v]{
		"association.gateway-id": never[v],
		"association.main": func(t v) []string {
			return boolsOf(t.Associations, func(a routeTableAssociation) bool { return a.Main })
		},
		"association.route-table-association-id": assoc(func(_ v, a routeTableAssociation) string { return a.ID }),
		"association.route-table-id":             assoc(func(t v, _ routeTableAssociation) string { return t.ID }),
		"association.subnet-id":                  assoc(func(_ v, a routeTableAssociation) string { return a.SubnetID }),
		"owner-id":                               one(func(v) string { return sc.account }),
		"route-table-id":                         one(func(t v) string { return t.ID }),
		"route.destination-cidr-block": routes(func(_ v, r route) string {
			if isIPv6(r.Destination) || r.isPrefixList() {
				return ""
			}
			return r.Destination
		}),
		"route.destination-ipv6-cidr-block": routes(func(_ v, r route) string {
			if isIPv6(r.Destination) {
				return r.Destination
			}
			return ""
		}),
		"route.destination-prefix-list-id": routes(func(_ v, r route) string {
			if r.isPrefixList() {
				return r.Destination
			}
			return ""
		}),
		"route.egress-only-internet-gateway-id": routes(func(_ v, r route) string { return r.EgressOnlyGatewayID }),
		"route.gateway-id":                      routes(func(_ v, r route) string { return r.GatewayID }),
		"route.instance-id":                     routes(func(_ v, r route) string { return r.InstanceID }),
		"route.nat-gateway-id":                  routes(func(_ v, r route) string { return r.NATGatewayID }),
		"route.network-interface-id":            routes(func(_ v, r route) string { return r.InterfaceID }),
		"route.origin":                          routes(func(_ v, r route) string { return r.Origin }),
		"route.state":                           routes(func(t v, r route) string { return string(t.state(r)) }),
		"route.transit-gateway-id":              never[v],
		"route.vpc-peering-connection-id":       routes(func(_ v, r route) string { return r.PeeringID }),
		"vpc-id":                                one(func(t v) string { return t.VPCID }),
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
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, routeTableFields(sc), func(t routeTableView) Tags { return t.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	records, err := choose(s.store, routeTables, sc, routeTableID, in.RouteTableIds, func(routeTableRecord) bool { return true })
	if err != nil {
		return nil, err
	}
	var found []routeTableView
	for _, t := range records {
		v, err := viewRouteTable(s.store, sc, t)
		if err != nil {
			return nil, err
		}
		if match(v) {
			found = append(found, v)
		}
	}
	found, next, err := paginate(found, func(t routeTableView) string { return t.ID }, in.MaxResults, in.NextToken, limits{5, 100})
	return &awsec2.DescribeRouteTablesOutput{RouteTables: sdkAll(sc, found), NextToken: next}, err
}
