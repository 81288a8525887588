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

func (r route) target() string { return r.GatewayID + r.InstanceID + r.InterfaceID }

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
		if strings.Contains(r.Destination, ":") {
			sdk.DestinationIpv6CidrBlock = aws.String(r.Destination)
		} else {
			sdk.DestinationCidrBlock = aws.String(r.Destination)
		}
		sdk.GatewayId = optional(r.GatewayID)
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
		var err error
		switch {
		case strings.HasPrefix(rt.GatewayID, "igw-"):
			var g internetGatewayRecord
			g, err = internetGateways.Get(r, sc.key(rt.GatewayID))
			if err == nil && g.VPCID != t.VPCID {
				v.blackhole[rt.target()] = true
			}
		case rt.InterfaceID != "":
			_, err = networkInterfaces.Get(r, sc.key(rt.InterfaceID))
		}
		switch {
		case notFound(err):
			v.blackhole[rt.target()] = true
		case err != nil:
			return v, err
		}
	}
	return v, nil
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
		if done, err := s.recall(tx, sc, "CreateRouteTable", in.ClientToken, in); err != nil {
			return err
		} else if done != nil {
			t, err = get(tx, routeTables, sc, routeTableID, done.IDs[0])
			return err
		}
		v, err := get(tx, vpcs, sc, vpcID, *in.VpcId)
		if err != nil {
			return err
		}
		t = routeTableRecord{
			ID: ids.Resource("rtb"), VPCID: v.ID, Tags: tags,
			Routes: []route{{Destination: v.CIDR, GatewayID: "local", Origin: originCreateRouteTable}},
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
		routeTables.Delete(tx, sc.key(t.ID))
		return nil
	})
	return &awsec2.DeleteRouteTableOutput{}, err
}

// AssociateRouteTable associates a subnet with a route table.
func (s *Service) AssociateRouteTable(ctx context.Context, in *awsec2.AssociateRouteTableInput) (*awsec2.AssociateRouteTableOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.SubnetId == nil {
		return nil, errMissing("subnetId")
	}
	var id string
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		t, err := get(tx, routeTables, sc, routeTableID, aws.ToString(in.RouteTableId))
		if err != nil {
			return err
		}
		sn, err := get(tx, subnets, sc, subnetID, *in.SubnetId)
		if err != nil {
			return err
		}
		if sn.VPCID != t.VPCID {
			return errInvalidParameter("Route table %s and network %s belong to different networks", t.ID, sn.ID)
		}
		for _, a := range t.Associations {
			if a.SubnetID == sn.ID { // AWS answers with the association there is
				id = a.ID
				return nil
			}
		}
		taken, err := exists(tx, routeTables, sc, func(o routeTableRecord) bool { return o.VPCID == t.VPCID && o.has(sn.ID) })
		if err != nil {
			return err
		}
		if taken {
			return errAlreadyAssociated("the specified association for route table %s conflicts with an existing association", t.ID)
		}
		id = ids.Resource("rtbassoc")
		t.Associations = append(slices.Clone(t.Associations), routeTableAssociation{ID: id, SubnetID: sn.ID})
		return routeTables.Put(tx, sc.key(t.ID), t)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AssociateRouteTableOutput{
		AssociationId:    aws.String(id),
		AssociationState: &ec2types.RouteTableAssociationState{State: ec2types.RouteTableAssociationStateCodeAssociated},
	}, nil
}

// DisassociateRouteTable gives a subnet back to the main route table.
func (s *Service) DisassociateRouteTable(ctx context.Context, in *awsec2.DisassociateRouteTableInput) (*awsec2.DisassociateRouteTableOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	id := aws.ToString(in.AssociationId)
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		tables, err := list(tx, routeTables, sc, func(t routeTableRecord) bool {
			return slices.ContainsFunc(t.Associations, func(a routeTableAssociation) bool { return a.ID == id })
		})
		if err != nil {
			return err
		}
		if len(tables) == 0 {
			return errAssociationNotFound(id)
		}
		t := tables[0]
		i := slices.IndexFunc(t.Associations, func(a routeTableAssociation) bool { return a.ID == id })
		if t.Associations[i].Main {
			return errInvalidParameter("cannot disassociate the main route table association %s", id)
		}
		t.Associations = slices.Delete(slices.Clone(t.Associations), i, i+1)
		return routeTables.Put(tx, sc.key(t.ID), t)
	})
	return &awsec2.DisassociateRouteTableOutput{}, err
}

// routeDestination reads the one destination of a route request.
func routeDestination(v4, v6 *string) (string, error) {
	switch {
	case v4 != nil && v6 != nil:
		return "", errCombination("Only one of DestinationCidrBlock and DestinationIpv6CidrBlock can be specified.")
	case v4 != nil:
		p, ok := parseCIDR(*v4)
		if !ok {
			return "", errCIDR(*v4, "destinationCidrBlock")
		}
		return p.String(), nil
	case v6 != nil:
		p, ok := parseCIDR6(*v6)
		if !ok {
			return "", errCIDR(*v6, "destinationIpv6CidrBlock")
		}
		return p.String(), nil
	}
	return "", errMissing("destinationCidrBlock")
}

// CreateRoute adds a route.
func (s *Service) CreateRoute(ctx context.Context, in *awsec2.CreateRouteInput) (*awsec2.CreateRouteOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	destination, err := routeDestination(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock)
	if err != nil {
		return nil, err
	}
	targets := 0
	for _, t := range []*string{in.GatewayId, in.NetworkInterfaceId, in.InstanceId} {
		if t != nil {
			targets++
		}
	}
	if targets != 1 {
		return nil, errCombination("The request must contain exactly one of gatewayId, natGatewayId, networkInterfaceId, vpcPeeringConnectionId, egressOnlyInternetGatewayId, transitGatewayId, localGatewayId, carrierGatewayId, vpcEndpointId, coreNetworkArn or instanceId")
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		t, err := get(tx, routeTables, sc, routeTableID, aws.ToString(in.RouteTableId))
		if err != nil {
			return err
		}
		if t.find(destination) >= 0 {
			return errRouteExists(destination)
		}
		r := route{Destination: destination, Origin: originCreateRoute}
		switch {
		case in.GatewayId != nil:
			g, err := get(tx, internetGateways, sc, internetGatewayID, *in.GatewayId)
			if err != nil {
				return err
			}
			if g.VPCID != t.VPCID {
				return errInvalidParameter("route table %s and network gateway %s belong to different networks", t.ID, g.ID)
			}
			r.GatewayID = g.ID
		case in.NetworkInterfaceId != nil:
			e, err := get(tx, networkInterfaces, sc, networkInterfaceID, *in.NetworkInterfaceId)
			if err != nil {
				return err
			}
			if e.VPCID != t.VPCID {
				return errInvalidParameter("route table %s and interface %s belong to different networks", t.ID, e.ID)
			}
			r.InterfaceID, r.InstanceID = e.ID, e.Attachment.InstanceID
		default:
			i, err := get(tx, instances, sc, instanceID, *in.InstanceId)
			if err != nil {
				return err
			}
			if i.VPCID != t.VPCID {
				return errInvalidParameter("route table %s and instance %s belong to different networks", t.ID, i.ID)
			}
			r.InstanceID, r.InterfaceID = i.ID, i.Interfaces[0]
		}
		t.Routes = append(slices.Clone(t.Routes), r)
		return routeTables.Put(tx, sc.key(t.ID), t)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.CreateRouteOutput{Return: aws.Bool(true)}, nil
}

// DeleteRoute removes a route.
func (s *Service) DeleteRoute(ctx context.Context, in *awsec2.DeleteRouteInput) (*awsec2.DeleteRouteOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	destination, err := routeDestination(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		t, err := get(tx, routeTables, sc, routeTableID, aws.ToString(in.RouteTableId))
		if err != nil {
			return err
		}
		i := t.find(destination)
		if i < 0 {
			return errRouteNotFound(t.ID, destination)
		}
		if t.Routes[i].GatewayID == "local" {
			return errInvalidParameter("cannot remove local route %s in route table %s", destination, t.ID)
		}
		t.Routes = slices.Delete(slices.Clone(t.Routes), i, i+1)
		return routeTables.Put(tx, sc.key(t.ID), t)
	})
	return &awsec2.DeleteRouteOutput{}, err
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
			if strings.Contains(r.Destination, ":") {
				return ""
			}
			return r.Destination
		}),
		"route.destination-ipv6-cidr-block": routes(func(_ v, r route) string {
			if strings.Contains(r.Destination, ":") {
				return r.Destination
			}
			return ""
		}),
		"route.destination-prefix-list-id":      never[v],
		"route.egress-only-internet-gateway-id": never[v],
		"route.gateway-id":                      routes(func(_ v, r route) string { return r.GatewayID }),
		"route.instance-id":                     routes(func(_ v, r route) string { return r.InstanceID }),
		"route.nat-gateway-id":                  never[v],
		"route.network-interface-id":            routes(func(_ v, r route) string { return r.InterfaceID }),
		"route.origin":                          routes(func(_ v, r route) string { return r.Origin }),
		"route.state":                           routes(func(t v, r route) string { return string(t.state(r)) }),
		"route.transit-gateway-id":              never[v],
		"route.vpc-peering-connection-id":       never[v],
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
