package routing

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/firewall"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// routeDestination returns the destination of a route request, which must be exactly one.
func routeDestination(v4, v6, list *string) (string, error) {
	given := 0
	for _, d := range []*string{v4, v6, list} {
		if d != nil {
			given++
		}
	}
	switch {
	case given > 1:
		return "", ec2err.Combination("Only one of DestinationCidrBlock, DestinationIpv6CidrBlock and DestinationPrefixListId can be specified.")
	case v4 != nil:
		p, ok := resource.ParseCIDR(*v4)
		if !ok {
			return "", ec2err.CIDR(*v4, "destinationCidrBlock")
		}
		return p.String(), nil
	case v6 != nil:
		p, ok := resource.ParseCIDR6(*v6)
		if !ok {
			return "", ec2err.CIDR(*v6, "destinationIpv6CidrBlock")
		}
		return p.String(), nil
	case list != nil:
		return *list, nil
	}
	return "", ec2err.Missing("destinationCidrBlock")
}

// A routeTarget has the target members of CreateRoute and ReplaceRoute.
type routeTarget struct {
	gateway, nat, peering, egress, eni, instance, transit *string
	local                                                 *bool
}

func (t routeTarget) check() error {
	n := 0
	for _, given := range []bool{t.gateway != nil, t.nat != nil, t.peering != nil, t.egress != nil, t.eni != nil, t.instance != nil, t.transit != nil, aws.ToBool(t.local)} {
		if given {
			n++
		}
	}
	if n != 1 {
		return ec2err.Combination("The request must contain exactly one of gatewayId, natGatewayId, networkInterfaceId, vpcPeeringConnectionId, egressOnlyInternetGatewayId, transitGatewayId, localGatewayId, carrierGatewayId, vpcEndpointId, coreNetworkArn or instanceId")
	}
	return nil
}

// resolve returns the route to the target from a table's VPC.
func (t routeTarget) resolve(tx *store.Tx, sc resource.Scope, table record.RouteTable, destination string) (record.Route, error) {
	r := record.Route{Destination: destination, Origin: OriginCreateRoute}
	different := func(kind, id string) error {
		return ec2err.InvalidParameterValue("route table %s and %s %s belong to different networks", table.ID, kind, id)
	}
	switch {
	case t.gateway != nil && strings.HasPrefix(*t.gateway, "vpce-"):
		return r, ec2err.New("RouteNotSupported", "Route table contains unsupported route target: %s. VPC Endpoints of this type cannot be used as route targets.", *t.gateway)
	case t.gateway != nil && strings.HasPrefix(*t.gateway, "vgw-"):
		g, err := resource.Get(tx, record.VPNGateways, sc, *t.gateway)
		if err != nil {
			return r, err
		}
		if g.VPCID != table.VPCID {
			return r, different("network gateway", g.ID)
		}
		r.GatewayID = g.ID
	case t.gateway != nil:
		g, err := resource.Get(tx, record.InternetGateways, sc, *t.gateway)
		if err != nil {
			return r, err
		}
		if g.VPCID != table.VPCID {
			return r, different("network gateway", g.ID)
		}
		r.GatewayID = g.ID
	case t.nat != nil:
		n, err := resource.Get(tx, record.NATGateways, sc, *t.nat)
		if err != nil {
			return r, err
		}
		switch {
		case n.State == record.NATFailed || n.State == record.NATDeleted || n.State == record.NATDeleting:
			// Terraform checks the code when it creates routes.
			return r, ec2err.New("InvalidNatGatewayID.NotFound", "The natGateway ID '%s' does not exist", n.ID)
		case n.VPCID != table.VPCID:
			return r, different("NAT gateway", n.ID)
		case record.IsIPv6(destination) && destination != nat64:
			return r, ec2err.InvalidParameterValue("A NAT gateway cannot be the target of IPv6 traffic other than %s.", nat64) // from memory
		}
		r.NATGatewayID = n.ID
	case t.peering != nil:
		p, err := resource.Get(tx, record.Peerings, sc, *t.peering)
		if err != nil {
			return r, err
		}
		switch {
		case p.Side(sc, table.VPCID) == nil:
			return r, different("vpc peering connection", p.ID)
		case !p.Live():
			return r, resource.PeeringID.NotFound(p.ID)
		}
		r.PeeringID = p.ID
	case t.egress != nil:
		g, err := resource.Get(tx, record.EgressGateways, sc, *t.egress)
		if err != nil {
			return r, err
		}
		switch {
		case g.VPCID != table.VPCID:
			return r, different("network gateway", g.ID)
		case !record.IsIPv6(destination) && !r.IsPrefixList():
			return r, ec2err.InvalidParameterValue("An egress-only internet gateway can be the target of IPv6 traffic only.") // from memory
		}
		r.EgressOnlyGatewayID = g.ID
	case t.transit != nil:
		attached := resource.Exists(tx, record.TransitAttachments, sc, func(a record.TransitAttachment) bool {
			return a.GatewayID == *t.transit && a.VPCID == table.VPCID && a.Live()
		})
		if !attached {
			// https://github.com/hashicorp/terraform-provider-aws/issues/9222: also if the gateway exists
			return r, ec2err.New(resource.TransitGatewayID.NotFoundCode, "The transitGateway ID '%s' does not exist", *t.transit)
		}
		r.TransitGatewayID = *t.transit
	case t.eni != nil:
		e, err := resource.Get(tx, record.NetworkInterfaces, sc, *t.eni)
		if err != nil {
			return r, err
		}
		if e.VPCID != table.VPCID {
			return r, different("interface", e.ID)
		}
		r.InterfaceID, r.InstanceID = e.ID, e.Attachment.InstanceID
	case t.instance != nil:
		i, err := resource.Get(tx, record.Instances, sc, *t.instance)
		if err != nil {
			return r, err
		}
		switch {
		case i.VPCID != table.VPCID:
			return r, different("instance", i.ID)
		case len(i.Interfaces) > 1:
			return r, ec2err.New("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.ID)
		}
		r.InstanceID, r.InterfaceID = i.ID, i.Interfaces[0]
	default:
		r.GatewayID = "local"
	}
	return r, nil
}

// nat64 is the only IPv6 destination that NAT gateways accept.
// https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-nat64-dns64.html
const nat64 = "64:ff9b::/96"

// inside reports whether a route for traffic within the VPC may have this target.
func (t routeTarget) inside() bool { return t.nat != nil || t.eni != nil || t.instance != nil }

// [seen] in Terraform's output about routes to gateways, peerings and transit gateways
func errRouteInside(destination string) error {
	return ec2err.InvalidParameterValue("The destination CIDR block %s is equal to or more specific than one of this VPC's CIDR blocks. This route can target only an interface or an instance.", destination)
}

// checkDestination rejects destinations that a VPC may not route elsewhere: its own blocks, parts
// of them that are not subnets, AWS's link-local range, and unknown prefix lists.
// https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Route_Tables.html#RouteTableRules
func checkDestination(tx *store.Tx, sc resource.Scope, t record.RouteTable, destination string, target routeTarget) error {
	if strings.HasPrefix(destination, "pl-") {
		p, err := firewall.FindPrefixList(tx, sc, destination)
		if err != nil {
			return err
		}
		if p.Managed {
			return ec2err.InvalidParameterValue("The prefix list %s is managed by AWS; create a gateway endpoint to route to it.", p.ID) // from memory
		}
		return nil
	}
	p, ok := resource.ParseCIDR(destination)
	if !ok {
		return nil
	}
	linkLocal, _ := resource.ParseCIDR("169.254.168.0/22")
	if resource.Within(linkLocal, p) {
		return ec2err.InvalidParameterValue("The destination CIDR block %s is reserved.", destination) // from memory
	}
	v, err := resource.Get(tx, record.VPCs, sc, t.VPCID)
	if err != nil {
		return err
	}
	blocks := slices.Concat(v.Prefixes(), v.Prefixes6())
	switch {
	case !slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return resource.Within(b, p) }):
		return nil
	case !target.inside():
		return errRouteInside(destination)
	case slices.Contains(blocks, p):
		return nil // the local route, which exists already
	}
	subnet := resource.Exists(tx, record.Subnets, sc, func(sn record.Subnet) bool {
		return sn.VPCID == v.ID && slices.Contains(sn.Prefixes(), p)
	})
	if !subnet {
		// [seen] in Terraform's output about routes to interfaces
		return ec2err.InvalidParameterValue("Route destination doesn't match any subnet CIDR blocks.")
	}
	return nil
}

// routeSize counts a table's entries. A prefix list counts as many times as its maximum size.
func routeSize(r store.Reader, sc resource.Scope, routes []record.Route) (int, error) {
	n := 0
	for _, rt := range routes {
		if !rt.IsPrefixList() {
			n++
			continue
		}
		p, err := firewall.FindPrefixList(r, sc, rt.Destination)
		switch {
		case err != nil && !ec2err.HasCode(err, resource.PrefixListID.NotFoundCode):
			return 0, err
		case !p.Managed: // AWS's own lists do not count
			n += int(p.MaxEntries)
		}
	}
	return n, nil
}

// CreateRoute adds a route.
func (s *Service) CreateRoute(ctx context.Context, in *awsec2.CreateRouteInput) (*awsec2.CreateRouteOutput, error) {
	sc := resource.ScopeOf(ctx)
	destination, err := routeDestination(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock, in.DestinationPrefixListId)
	if err != nil {
		return nil, err
	}
	target := routeTarget{
		gateway: in.GatewayId, nat: in.NatGatewayId, peering: in.VpcPeeringConnectionId,
		egress: in.EgressOnlyInternetGatewayId, eni: in.NetworkInterfaceId, instance: in.InstanceId, transit: in.TransitGatewayId,
	}
	if err := target.check(); err != nil {
		return nil, err
	}
	_, err = resource.Change(ctx, s.Core, record.RouteTables, in.DryRun, in.RouteTableId, func(tx *store.Tx, t *record.RouteTable) error {
		if err := checkDestination(tx, sc, *t, destination, target); err != nil {
			return err
		}
		if t.Find(destination) >= 0 {
			return ec2err.RouteExists(destination)
		}
		r, err := target.resolve(tx, sc, *t, destination)
		if err != nil {
			return err
		}
		t.Routes = append(slices.Clone(t.Routes), r)
		n, err := routeSize(tx, sc, t.Routes)
		if err != nil {
			return err
		}
		return quota.Check(tx, sc, quota.Routes, n, ec2err.Limit("RouteLimitExceeded", "routes"))
	})
	return &awsec2.CreateRouteOutput{Return: aws.Bool(true)}, err
}

// ReplaceRoute changes a route's target.
func (s *Service) ReplaceRoute(ctx context.Context, in *awsec2.ReplaceRouteInput) (*awsec2.ReplaceRouteOutput, error) {
	sc := resource.ScopeOf(ctx)
	destination, err := routeDestination(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock, in.DestinationPrefixListId)
	if err != nil {
		return nil, err
	}
	target := routeTarget{
		gateway: in.GatewayId, nat: in.NatGatewayId, peering: in.VpcPeeringConnectionId, egress: in.EgressOnlyInternetGatewayId,
		eni: in.NetworkInterfaceId, instance: in.InstanceId, transit: in.TransitGatewayId, local: in.LocalTarget,
	}
	if err := target.check(); err != nil {
		return nil, err
	}
	_, err = resource.Change(ctx, s.Core, record.RouteTables, in.DryRun, in.RouteTableId, func(tx *store.Tx, t *record.RouteTable) error {
		i := t.Find(destination)
		if i < 0 {
			return ec2err.InvalidParameterValue("There is no route defined for '%s' in the route table. Use CreateRoute instead.", destination)
		}
		local := t.Routes[i].Origin == OriginCreateRouteTable
		switch {
		case strings.HasPrefix(t.Routes[i].GatewayID, "vpce-"):
			return ec2err.InvalidParameterValue("cannot replace the route of gateway endpoint %s", t.Routes[i].GatewayID) // from memory
		case aws.ToBool(in.LocalTarget) && !local:
			return ec2err.InvalidParameterValue("The destination '%s' is not a CIDR block of the VPC.", destination) // from memory
		case local && (in.GatewayId != nil || in.VpcPeeringConnectionId != nil || in.EgressOnlyInternetGatewayId != nil || in.TransitGatewayId != nil):
			return errRouteInside(destination)
		}
		r, err := target.resolve(tx, sc, *t, destination)
		if err != nil {
			return err
		}
		if local {
			r.Origin = OriginCreateRouteTable
		}
		t.Routes = slices.Clone(t.Routes)
		t.Routes[i] = r
		return nil
	})
	return &awsec2.ReplaceRouteOutput{}, err
}

// DeleteRoute removes a route.
func (s *Service) DeleteRoute(ctx context.Context, in *awsec2.DeleteRouteInput) (*awsec2.DeleteRouteOutput, error) {
	destination, err := routeDestination(in.DestinationCidrBlock, in.DestinationIpv6CidrBlock, in.DestinationPrefixListId)
	if err != nil {
		return nil, err
	}
	_, err = resource.Change(ctx, s.Core, record.RouteTables, in.DryRun, in.RouteTableId, func(tx *store.Tx, t *record.RouteTable) error {
		i := t.Find(destination)
		if i < 0 {
			return ec2err.RouteNotFound(t.ID, destination)
		}
		switch gateway := t.Routes[i].GatewayID; {
		case t.Routes[i].Origin == OriginCreateRouteTable:
			return ec2err.InvalidParameterValue("cannot remove local route %s in route table %s", destination, t.ID)
		case strings.HasPrefix(gateway, "vpce-"):
			return ec2err.InvalidParameterValue("cannot remove VPC endpoint route %s in route table %s", destination, t.ID) // [seen] its beginning; the rest is from memory
		}
		t.Routes = slices.Delete(slices.Clone(t.Routes), i, i+1)
		return nil
	})
	return &awsec2.DeleteRouteOutput{}, err
}

// Without returns a list without one of its elements.
func Without(all []string, gone string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == gone })
}
