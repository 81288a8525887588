package ec2

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/store"
)

// routeDestination reads the one destination of a route request.
func routeDestination(v4, v6, list *string) (string, error) {
	given := 0
	for _, d := range []*string{v4, v6, list} {
		if d != nil {
			given++
		}
	}
	switch {
	case given > 1:
		return "", errCombination("Only one of DestinationCidrBlock, DestinationIpv6CidrBlock and DestinationPrefixListId can be specified.")
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
	case list != nil:
		return *list, nil
	}
	return "", errMissing("destinationCidrBlock")
}

// A routeTarget is the target members of CreateRoute and ReplaceRoute.
type routeTarget struct {
	gateway, nat, peering, egress, eni, instance *string
	local                                        *bool
}

func (t routeTarget) check() error {
	n := 0
	for _, given := range []bool{t.gateway != nil, t.nat != nil, t.peering != nil, t.egress != nil, t.eni != nil, t.instance != nil, aws.ToBool(t.local)} {
		if given {
			n++
		}
	}
	if n != 1 {
		return errCombination("The request must contain exactly one of gatewayId, natGatewayId, networkInterfaceId, vpcPeeringConnectionId, egressOnlyInternetGatewayId, transitGatewayId, localGatewayId, carrierGatewayId, vpcEndpointId, coreNetworkArn or instanceId")
	}
	return nil
}

// resolve makes the route from a table's VPC to the target.
func (t routeTarget) resolve(tx *store.Tx, sc scope, table routeTableRecord, destination string) (route, error) {
	r := route{Destination: destination, Origin: originCreateRoute}
	different := func(kind, id string) error {
		return errInvalidParameter("route table %s and %s %s belong to different networks", table.ID, kind, id)
	}
	switch {
	case t.gateway != nil && strings.HasPrefix(*t.gateway, "vpce-"):
		return r, errf("RouteNotSupported", "Route table contains unsupported route target: %s. VPC Endpoints of this type cannot be used as route targets.", *t.gateway)
	case t.gateway != nil:
		g, err := get(tx, internetGateways, sc, internetGatewayID, *t.gateway)
		if err != nil {
			return r, err
		}
		if g.VPCID != table.VPCID {
			return r, different("network gateway", g.ID)
		}
		r.GatewayID = g.ID
	case t.nat != nil:
		n, err := get(tx, natGateways, sc, natGatewayID, *t.nat)
		if err != nil {
			return r, err
		}
		switch {
		case n.State == natFailed || n.State == natDeleted || n.State == natDeleting:
			// Terraform's routes read the code.
			return r, errf("InvalidNatGatewayID.NotFound", "The natGateway ID '%s' does not exist", n.ID)
		case n.VPCID != table.VPCID:
			return r, different("NAT gateway", n.ID)
		case isIPv6(destination) && destination != nat64:
			return r, errInvalidParameter("A NAT gateway cannot be the target of IPv6 traffic other than %s.", nat64) // from memory
		}
		r.NATGatewayID = n.ID
	case t.peering != nil:
		p, err := get(tx, peerings, sc, peeringID, *t.peering)
		if err != nil {
			return r, err
		}
		switch {
		case p.side(sc, table.VPCID) == nil:
			return r, different("vpc peering connection", p.ID)
		case !p.live():
			return r, peeringID.notFound(p.ID)
		}
		r.PeeringID = p.ID
	case t.egress != nil:
		g, err := get(tx, egressGateways, sc, egressGatewayID, *t.egress)
		if err != nil {
			return r, err
		}
		switch {
		case g.VPCID != table.VPCID:
			return r, different("network gateway", g.ID)
		case !isIPv6(destination) && !r.isPrefixList():
			return r, errInvalidParameter("An egress-only internet gateway can be the target of IPv6 traffic only.") // from memory
		}
		r.EgressOnlyGatewayID = g.ID
	case t.eni != nil:
		e, err := get(tx, networkInterfaces, sc, networkInterfaceID, *t.eni)
		if err != nil {
			return r, err
		}
		if e.VPCID != table.VPCID {
			return r, different("interface", e.ID)
		}
		r.InterfaceID, r.InstanceID = e.ID, e.Attachment.InstanceID
	case t.instance != nil:
		i, err := get(tx, instances, sc, instanceID, *t.instance)
		if err != nil {
			return r, err
		}
		switch {
		case i.VPCID != table.VPCID:
			return r, different("instance", i.ID)
		case len(i.Interfaces) > 1:
			return r, errf("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.ID)
		}
		r.InstanceID, r.InterfaceID = i.ID, i.Interfaces[0]
	default:
		r.GatewayID = "local"
	}
	return r, nil
}

// nat64 is the one IPv6 destination that NAT gateways take.
// https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-nat64-dns64.html
const nat64 = "64:ff9b::/96"

// inside reports whether traffic within a VPC may take a route of its own to the
// target.
func (t routeTarget) inside() bool { return t.nat != nil || t.eni != nil || t.instance != nil }

// [seen] in Terraform's output of routes to gateways, peerings and transit gateways
func errRouteInside(destination string) error {
	return errInvalidParameter("The destination CIDR block %s is equal to or more specific than one of this VPC's CIDR blocks. This route can target only an interface or an instance.", destination)
}

// checkDestination refuses what a VPC may not route elsewhere: its own blocks and
// parts of them that are no subnet, AWS's link-local range, unknown prefix lists.
// https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Route_Tables.html#RouteTableRules
func checkDestination(tx *store.Tx, sc scope, t routeTableRecord, destination string, target routeTarget) error {
	if strings.HasPrefix(destination, "pl-") {
		p, err := findPrefixList(tx, sc, destination)
		if err != nil {
			return err
		}
		if p.managed {
			return errInvalidParameter("The prefix list %s is managed by AWS; create a gateway endpoint to route to it.", p.ID) // from memory
		}
		return nil
	}
	p, ok := parseCIDR(destination)
	if !ok {
		return nil
	}
	linkLocal, _ := parseCIDR("169.254.168.0/22")
	if within(linkLocal, p) {
		return errInvalidParameter("The destination CIDR block %s is reserved.", destination) // from memory
	}
	v, err := get(tx, vpcs, sc, vpcID, t.VPCID)
	if err != nil {
		return err
	}
	blocks := slices.Concat(v.prefixes(), v.prefixes6())
	switch {
	case !slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return within(b, p) }):
		return nil
	case !target.inside():
		return errRouteInside(destination)
	case slices.Contains(blocks, p):
		return nil // the local route, which is there already
	}
	subnet, err := exists(tx, subnets, sc, func(sn subnetRecord) bool {
		return sn.VPCID == v.ID && slices.Contains(sn.prefixes(), p)
	})
	if err == nil && !subnet {
		// [seen] in Terraform's output of routes to interfaces
		return errInvalidParameter("Route destination doesn't match any subnet CIDR blocks.")
	}
	return err
}

// routeSize counts the entries of a table: a prefix list counts with its size.
func routeSize(r store.Reader, sc scope, routes []route) (int, error) {
	n := 0
	for _, rt := range routes {
		if !rt.isPrefixList() {
			n++
			continue
		}
		p, err := findPrefixList(r, sc, rt.Destination)
		switch {
		case err != nil && !isCode(err, prefixListID.notFoundCode):
			return 0, err
		case !p.managed: // AWS's own do not count
			n += int(p.MaxEntries)
		}
	}
	return n, nil
}

// CreateRoute adds a route.
func (s *Service) CreateRoute(ctx context.Context, in *awsec2.CreateRouteInput) (*awsec2.CreateRouteOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	destination, err := routeDestination(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock, in.DestinationPrefixListId)
	if err != nil {
		return nil, err
	}
	target := routeTarget{
		gateway: in.GatewayId, nat: in.NatGatewayId, peering: in.VpcPeeringConnectionId,
		egress: in.EgressOnlyInternetGatewayId, eni: in.NetworkInterfaceId, instance: in.InstanceId,
	}
	if err := target.check(); err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		t, err := get(tx, routeTables, sc, routeTableID, aws.ToString(in.RouteTableId))
		if err != nil {
			return err
		}
		if err := checkDestination(tx, sc, t, destination, target); err != nil {
			return err
		}
		if t.find(destination) >= 0 {
			return errRouteExists(destination)
		}
		r, err := target.resolve(tx, sc, t, destination)
		if err != nil {
			return err
		}
		t.Routes = append(slices.Clone(t.Routes), r)
		n, err := routeSize(tx, sc, t.Routes)
		if err != nil {
			return err
		}
		if err := checkQuota(tx, sc, quotaRoutes, n, errLimit("RouteLimitExceeded", "routes")); err != nil {
			return err
		}
		return routeTables.Put(tx, sc.key(t.ID), t)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.CreateRouteOutput{Return: aws.Bool(true)}, nil
}

// ReplaceRoute gives a route another target.
func (s *Service) ReplaceRoute(ctx context.Context, in *awsec2.ReplaceRouteInput) (*awsec2.ReplaceRouteOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	destination, err := routeDestination(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock, in.DestinationPrefixListId)
	if err != nil {
		return nil, err
	}
	target := routeTarget{
		gateway: in.GatewayId, nat: in.NatGatewayId, peering: in.VpcPeeringConnectionId, egress: in.EgressOnlyInternetGatewayId,
		eni: in.NetworkInterfaceId, instance: in.InstanceId, local: in.LocalTarget,
	}
	if err := target.check(); err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		t, err := get(tx, routeTables, sc, routeTableID, aws.ToString(in.RouteTableId))
		if err != nil {
			return err
		}
		i := t.find(destination)
		if i < 0 {
			return errInvalidParameter("There is no route defined for '%s' in the route table. Use CreateRoute instead.", destination)
		}
		local := t.Routes[i].Origin == originCreateRouteTable
		switch {
		case strings.HasPrefix(t.Routes[i].GatewayID, "vpce-"):
			return errInvalidParameter("cannot replace the route of gateway endpoint %s", t.Routes[i].GatewayID) // from memory
		case aws.ToBool(in.LocalTarget) && !local:
			return errInvalidParameter("The destination '%s' is not a CIDR block of the VPC.", destination) // from memory
		case local && (in.GatewayId != nil || in.VpcPeeringConnectionId != nil || in.EgressOnlyInternetGatewayId != nil):
			return errRouteInside(destination)
		}
		r, err := target.resolve(tx, sc, t, destination)
		if err != nil {
			return err
		}
		if local {
			r.Origin = originCreateRouteTable
		}
		t.Routes = slices.Clone(t.Routes)
		t.Routes[i] = r
		return routeTables.Put(tx, sc.key(t.ID), t)
	})
	return &awsec2.ReplaceRouteOutput{}, err
}

// DeleteRoute removes a route.
func (s *Service) DeleteRoute(ctx context.Context, in *awsec2.DeleteRouteInput) (*awsec2.DeleteRouteOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	destination, err := routeDestination(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock, in.DestinationPrefixListId)
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
		switch gateway := t.Routes[i].GatewayID; {
		case t.Routes[i].Origin == originCreateRouteTable:
			return errInvalidParameter("cannot remove local route %s in route table %s", destination, t.ID)
		case strings.HasPrefix(gateway, "vpce-"):
			return errInvalidParameter("cannot remove VPC endpoint route %s in route table %s", destination, t.ID) // [seen] its beginning; the rest is from memory
		}
		t.Routes = slices.Delete(slices.Clone(t.Routes), i, i+1)
		return routeTables.Put(tx, sc.key(t.ID), t)
	})
	return &awsec2.DeleteRouteOutput{}, err
}

// without returns a list without one of its elements.
func without(all []string, gone string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == gone })
}
