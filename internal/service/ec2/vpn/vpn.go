// Package vpn manages virtual private gateways, customer gateways and VPN connections. They are only records: there is
// no network at the other end, so all tunnels are down, and nothing gets through a virtual private gateway.
package vpn

import (
	"context"
	"crypto/rand"
	"encoding/xml"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// Service handles the operations.
type Service struct{ *resource.Core }

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{core} }

// Reconcilers remove what was deleted an hour ago: until then it is described as deleted, which clients wait for.
func (s *Service) Reconcilers() []reconcile.Config {
	return []reconcile.Config{
		{Name: "ec2/vpn-gateway", Watcher: record.VPNGateways.Watch(s.Store, store.Scope{}), Workers: 1, Reconcile: expire(s, record.VPNGateways, func(g record.VPNGateway) time.Time { return g.Deleted })},
		{Name: "ec2/customer-gateway", Watcher: record.CustomerGateways.Watch(s.Store, store.Scope{}), Workers: 1, Reconcile: expire(s, record.CustomerGateways, func(g record.CustomerGateway) time.Time { return g.Deleted })},
		{Name: "ec2/vpn-connection", Watcher: record.VPNConnections.Watch(s.Store, store.Scope{}), Workers: 1, Reconcile: expire(s, record.VPNConnections, func(c record.VPNConnection) time.Time { return c.Deleted })},
	}
}

func expire[T any](s *Service, kind resource.Kind[T], deleted func(T) time.Time) func(context.Context, store.Key) (time.Duration, error) {
	return func(ctx context.Context, k store.Key) (time.Duration, error) {
		v, err := kind.Get(s.Store, k)
		if err != nil || deleted(v).IsZero() {
			return 0, store.IgnoreNotFound(err)
		}
		if left := deleted(v).Add(s.Timing.TransitGatewayDeletedVisible).Sub(s.Now()); left > 0 {
			return left, nil
		}
		return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
			kind.Delete(tx, k)
			return nil
		})
	}
}

var limits = resource.Limits{Min: 1, Max: 1000}

// live returns a record that was not deleted.
func live[T any](r store.Reader, kind resource.Kind[T], sc resource.Scope, id string, deleted func(T) time.Time) (T, error) {
	v, err := resource.Get(r, kind, sc, id)
	if err == nil && !deleted(v).IsZero() {
		err = kind.ID.NotFound(id)
	}
	return v, err
}

func liveGateway(r store.Reader, sc resource.Scope, id *string) (record.VPNGateway, error) {
	return live(r, record.VPNGateways, sc, aws.ToString(id), func(g record.VPNGateway) time.Time { return g.Deleted })
}

func liveConnection(r store.Reader, sc resource.Scope, id *string) (record.VPNConnection, error) {
	return live(r, record.VPNConnections, sc, aws.ToString(id), func(c record.VPNConnection) time.Time { return c.Deleted })
}

// CreateVpnGateway creates a detached gateway.
func (s *Service) CreateVpnGateway(ctx context.Context, in *awsec2.CreateVpnGatewayInput) (*awsec2.CreateVpnGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeVpnGateway)
	if err != nil {
		return nil, err
	}
	if in.Type != ec2types.GatewayTypeIpsec1 {
		return nil, ec2err.InvalidValue(in.Type, "type", "")
	}
	g := record.VPNGateway{ID: ids.Resource("vgw"), ASN: 64512, Tags: tags}
	if in.AmazonSideAsn != nil {
		if g.ASN, err = resource.PrivateASN(*in.AmazonSideAsn); err != nil {
			return nil, err
		}
	}
	if z := aws.ToString(in.AvailabilityZone); z != "" {
		zone, err := resource.ChooseZone(sc, z, "")
		if err != nil {
			return nil, err
		}
		g.Zone = zone.Name
	}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error { return record.VPNGateways.Create(tx, sc.Key(g.ID), g) })
	out := g.SDK(sc)
	out.Tags = g.Tags.SDK() // which only the description has when it is empty
	return &awsec2.CreateVpnGatewayOutput{VpnGateway: &out}, err
}

// AttachVpnGateway attaches a gateway to a VPC that has none.
func (s *Service) AttachVpnGateway(ctx context.Context, in *awsec2.AttachVpnGatewayInput) (*awsec2.AttachVpnGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	g, err := s.changeGateway(ctx, in.DryRun, in.VpnGatewayId, func(tx *store.Tx, g *record.VPNGateway) error {
		v, err := resource.Get(tx, record.VPCs, sc, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		taken := resource.Exists(tx, record.VPNGateways, sc, func(o record.VPNGateway) bool { return o.VPCID == v.ID && o.ID != g.ID })
		switch {
		case taken:
			return ec2err.New("VpnGatewayAttachmentLimitExceeded", "The maximum number of attached VPN gateways for the VPC has been reached.") // the code is AWS's, the text is from memory
		case g.VPCID != "" && g.VPCID != v.ID:
			return ec2err.AlreadyAssociated("resource %s is already attached to network %s", g.ID, g.VPCID)
		}
		g.VPCID = v.ID
		return nil
	})
	return &awsec2.AttachVpnGatewayOutput{VpcAttachment: &ec2types.VpcAttachment{State: ec2types.AttachmentStatusAttaching, VpcId: resource.Optional(g.VPCID)}}, err
}

func (s *Service) changeGateway(ctx context.Context, dryRun *bool, id *string, edit func(*store.Tx, *record.VPNGateway) error) (record.VPNGateway, error) {
	return resource.Change(ctx, s.Core, record.VPNGateways, dryRun, id, func(tx *store.Tx, g *record.VPNGateway) error {
		if !g.Deleted.IsZero() {
			return resource.VPNGatewayID.NotFound(g.ID)
		}
		return edit(tx, g)
	})
}

// DetachVpnGateway detaches a gateway. Route tables to which it propagates forget it, and routes to it become black
// holes.
func (s *Service) DetachVpnGateway(ctx context.Context, in *awsec2.DetachVpnGatewayInput) (*awsec2.DetachVpnGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	_, err := s.changeGateway(ctx, in.DryRun, in.VpnGatewayId, func(tx *store.Tx, g *record.VPNGateway) error {
		if g.VPCID == "" || g.VPCID != aws.ToString(in.VpcId) {
			return ec2err.New("InvalidVpnGatewayAttachment.NotFound", "The attachment with vpn gateway ID '%s' and vpc ID '%s' does not exist", g.ID, aws.ToString(in.VpcId))
		}
		g.VPCID = ""
		tables := resource.List(tx, record.RouteTables, sc, func(t record.RouteTable) bool {
			return slices.Contains(t.Propagating, g.ID) || slices.ContainsFunc(t.Associations, func(a record.RouteTableAssociation) bool { return a.GatewayID == g.ID })
		})
		for _, t := range tables {
			t.Propagating = slices.DeleteFunc(slices.Clone(t.Propagating), func(id string) bool { return id == g.ID })
			t.Associations = slices.DeleteFunc(slices.Clone(t.Associations), func(a record.RouteTableAssociation) bool { return a.GatewayID == g.ID })
			if err := record.RouteTables.Put(tx, sc.Key(t.ID), t); err != nil {
				return err
			}
		}
		return nil
	})
	return &awsec2.DetachVpnGatewayOutput{}, err
}

// DeleteVpnGateway deletes a gateway that is detached and has no connections.
func (s *Service) DeleteVpnGateway(ctx context.Context, in *awsec2.DeleteVpnGatewayInput) (*awsec2.DeleteVpnGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	_, err := s.changeGateway(ctx, in.DryRun, in.VpnGatewayId, func(tx *store.Tx, g *record.VPNGateway) error {
		used := resource.Exists(tx, record.VPNConnections, sc, func(c record.VPNConnection) bool { return c.GatewayID == g.ID && c.Deleted.IsZero() })
		if used || g.VPCID != "" { // Terraform retries on the code
			return ec2err.New("IncorrectState", "The vpnGateway '%s' is in use.", g.ID) // the text is from memory
		}
		g.Deleted = s.Now()
		return nil
	})
	return &awsec2.DeleteVpnGatewayOutput{}, err
}

// DescribeVpnGateways lists gateways. Deleted ones stay listed for an hour.
func (s *Service) DescribeVpnGateways(ctx context.Context, in *awsec2.DescribeVpnGatewaysInput) (*awsec2.DescribeVpnGatewaysOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.VPNGateway
	found, _, err := resource.Describe(s.Store, sc, record.VPNGateways, resource.Query{IDs: in.VpnGatewayIds, Filters: in.Filters, DryRun: in.DryRun, Limits: limits}, filter.Fields[v]{
		"amazon-side-asn":   filter.One(func(g v) string { return strconv.FormatInt(g.ASN, 10) }),
		"attachment.state":  filter.One(func(g v) string { return map[bool]string{true: "attached"}[g.VPCID != ""] }),
		"attachment.vpc-id": filter.One(func(g v) string { return g.VPCID }),
		"availability-zone": filter.One(func(g v) string { return g.Zone }),
		"state":             filter.One(func(g v) string { return string(g.SDK(sc).State) }),
		"type":              filter.One(func(v) string { return "ipsec.1" }),
		"vpn-gateway-id":    filter.One(func(g v) string { return g.ID }),
	})
	return &awsec2.DescribeVpnGatewaysOutput{VpnGateways: resource.SDKAll(sc, found)}, err
}

// propagate changes the gateways that propagate routes to a table.
func (s *Service) propagate(ctx context.Context, dryRun *bool, table, gateway *string, edit func(all []string, id string) []string) error {
	sc := resource.ScopeOf(ctx)
	_, err := resource.Change(ctx, s.Core, record.RouteTables, dryRun, table, func(tx *store.Tx, t *record.RouteTable) error {
		g, err := liveGateway(tx, sc, gateway)
		if err != nil {
			return err
		}
		if g.VPCID != t.VPCID {
			return ec2err.New("Gateway.NotAttached", "resource %s is not attached to network %s", g.ID, t.VPCID) // the code is AWS's
		}
		t.Propagating = edit(slices.DeleteFunc(slices.Clone(t.Propagating), func(id string) bool { return id == g.ID }), g.ID)
		return nil
	})
	return err
}

// EnableVgwRoutePropagation lets a gateway propagate its routes to a table. It has none, because its tunnels are down.
func (s *Service) EnableVgwRoutePropagation(ctx context.Context, in *awsec2.EnableVgwRoutePropagationInput) (*awsec2.EnableVgwRoutePropagationOutput, error) {
	err := s.propagate(ctx, in.DryRun, in.RouteTableId, in.GatewayId, func(all []string, id string) []string { return append(all, id) })
	return &awsec2.EnableVgwRoutePropagationOutput{}, err
}

// DisableVgwRoutePropagation ends that.
func (s *Service) DisableVgwRoutePropagation(ctx context.Context, in *awsec2.DisableVgwRoutePropagationInput) (*awsec2.DisableVgwRoutePropagationOutput, error) {
	err := s.propagate(ctx, in.DryRun, in.RouteTableId, in.GatewayId, func(all []string, _ string) []string { return all })
	return &awsec2.DisableVgwRoutePropagationOutput{}, err
}

// CreateCustomerGateway creates a customer gateway. A repeated request returns the existing one, as EC2 does.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateCustomerGateway.html
func (s *Service) CreateCustomerGateway(ctx context.Context, in *awsec2.CreateCustomerGatewayInput) (*awsec2.CreateCustomerGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeCustomerGateway)
	if err != nil {
		return nil, err
	}
	g := record.CustomerGateway{ID: ids.Resource("cgw"), ASN: 65000, DeviceName: aws.ToString(in.DeviceName), CertificateARN: aws.ToString(in.CertificateArn), Tags: tags}
	switch {
	case in.Type != ec2types.GatewayTypeIpsec1:
		return nil, ec2err.InvalidValue(in.Type, "type", "")
	case in.BgpAsn != nil && in.BgpAsnExtended != nil:
		return nil, ec2err.Combination("BgpAsn and BgpAsnExtended cannot be specified together.") // from memory
	case in.BgpAsn != nil:
		g.ASN = int64(*in.BgpAsn)
	case in.BgpAsnExtended != nil:
		g.ASN = *in.BgpAsnExtended
	}
	if g.IP = aws.ToString(in.IpAddress); g.IP == "" {
		g.IP = aws.ToString(in.PublicIp)
	}
	if g.IP == "" && g.CertificateARN == "" {
		return nil, ec2err.Missing("ipAddress")
	}
	if g.IP != "" {
		if _, err := netip.ParseAddr(g.IP); err != nil {
			return nil, ec2err.InvalidValue(g.IP, "ipAddress", "Invalid IP address.")
		}
	}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		for _, o := range resource.List(tx, record.CustomerGateways, sc, func(o record.CustomerGateway) bool { return o.Deleted.IsZero() }) {
			if o.IP == g.IP && o.ASN == g.ASN && o.DeviceName == g.DeviceName && o.CertificateARN == g.CertificateARN {
				g = o
				return nil
			}
		}
		return record.CustomerGateways.Create(tx, sc.Key(g.ID), g)
	})
	return &awsec2.CreateCustomerGatewayOutput{CustomerGateway: new(g.SDK(sc))}, err
}

// DeleteCustomerGateway deletes a customer gateway without connections.
func (s *Service) DeleteCustomerGateway(ctx context.Context, in *awsec2.DeleteCustomerGatewayInput) (*awsec2.DeleteCustomerGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	_, err := resource.Change(ctx, s.Core, record.CustomerGateways, in.DryRun, in.CustomerGatewayId, func(tx *store.Tx, g *record.CustomerGateway) error {
		used := resource.Exists(tx, record.VPNConnections, sc, func(c record.VPNConnection) bool { return c.CustomerGatewayID == g.ID && c.Deleted.IsZero() })
		switch {
		case !g.Deleted.IsZero():
			return resource.CustomerGatewayID.NotFound(g.ID)
		case used:
			return ec2err.New("IncorrectState", "The customer gateway is in use.")
		}
		g.Deleted = s.Now()
		return nil
	})
	return &awsec2.DeleteCustomerGatewayOutput{}, err
}

// DescribeCustomerGateways lists customer gateways. Deleted ones stay listed for an hour.
func (s *Service) DescribeCustomerGateways(ctx context.Context, in *awsec2.DescribeCustomerGatewaysInput) (*awsec2.DescribeCustomerGatewaysOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.CustomerGateway
	found, _, err := resource.Describe(s.Store, sc, record.CustomerGateways, resource.Query{IDs: in.CustomerGatewayIds, Filters: in.Filters, DryRun: in.DryRun, Limits: limits}, filter.Fields[v]{
		"bgp-asn":             filter.One(func(g v) string { return strconv.FormatInt(g.ASN, 10) }),
		"customer-gateway-id": filter.One(func(g v) string { return g.ID }),
		"ip-address":          filter.One(func(g v) string { return g.IP }),
		"state":               filter.One(func(g v) string { return *g.SDK(sc).State }),
		"type":                filter.One(func(v) string { return "ipsec.1" }),
	})
	return &awsec2.DescribeCustomerGatewaysOutput{CustomerGateways: resource.SDKAll(sc, found)}, err
}

// CreateVpnConnection creates a connection with two tunnels.
func (s *Service) CreateVpnConnection(ctx context.Context, in *awsec2.CreateVpnConnectionInput) (*awsec2.CreateVpnConnectionOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeVpnConnection)
	if err != nil {
		return nil, err
	}
	if aws.ToString(in.Type) != "ipsec.1" {
		return nil, ec2err.InvalidValue(aws.ToString(in.Type), "type", "")
	}
	if in.VpnGatewayId == nil {
		return nil, ec2err.Missing("vpnGatewayId")
	}
	c := record.VPNConnection{ID: ids.Resource("vpn"), LocalCIDR: "0.0.0.0/0", RemoteCIDR: "0.0.0.0/0", Created: s.Now(), Tags: tags, Tunnels: make([]record.VPNTunnel, 2)}
	var given []ec2types.VpnTunnelOptionsSpecification
	if o := in.Options; o != nil {
		c.Static, given = aws.ToBool(o.StaticRoutesOnly), o.TunnelOptions
		for to, text := range map[*string]*string{&c.LocalCIDR: o.LocalIpv4NetworkCidr, &c.RemoteCIDR: o.RemoteIpv4NetworkCidr} {
			if text == nil {
				continue
			}
			p, ok := resource.ParseCIDR(*text)
			if !ok {
				return nil, ec2err.CIDR(*text, "Options")
			}
			*to = p.String()
		}
	}
	if len(given) > 2 {
		return nil, ec2err.InvalidParameterValue("A VPN connection has two tunnels.") // from memory
	}
	for i := range c.Tunnels {
		t := &c.Tunnels[i]
		random := make([]byte, 2)
		rand.Read(random)
		t.InsideCIDR = netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 64 + random[0]%128, random[1] &^ 3}), 30).String()
		t.Key = "dd" + rand.Text()
		if i >= len(given) {
			continue
		}
		if cidr := aws.ToString(given[i].TunnelInsideCidr); cidr != "" {
			p, ok := resource.ParseCIDR(cidr)
			if whole, _ := resource.ParseCIDR("169.254.0.0/16"); !ok || p.Bits() != 30 || !resource.Within(whole, p) {
				return nil, ec2err.InvalidValue(cidr, "TunnelInsideCidr", "It must be a /30 block of 169.254.0.0/16.")
			}
			t.InsideCIDR = p.String()
		}
		if key := aws.ToString(given[i].PreSharedKey); key != "" {
			t.Key = key
		}
	}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		g, err := liveGateway(tx, sc, in.VpnGatewayId)
		if err != nil {
			return err
		}
		customer, err := live(tx, record.CustomerGateways, sc, aws.ToString(in.CustomerGatewayId), func(g record.CustomerGateway) time.Time { return g.Deleted })
		if err != nil {
			return err
		}
		c.GatewayID, c.CustomerGatewayID = g.ID, customer.ID
		outside, err := ipam.Public(sc.Region).Take(tx, len(c.Tunnels), c.ID)
		if err != nil {
			return err
		}
		for i := range c.Tunnels {
			c.Tunnels[i].Outside = outside[i].String()
		}
		return record.VPNConnections.Create(tx, sc.Key(c.ID), c)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.CreateVpnConnectionOutput{VpnConnection: new(s.connection(sc, c))}, nil
}

// DeleteVpnConnection deletes a connection.
func (s *Service) DeleteVpnConnection(ctx context.Context, in *awsec2.DeleteVpnConnectionInput) (*awsec2.DeleteVpnConnectionOutput, error) {
	_, err := resource.Change(ctx, s.Core, record.VPNConnections, in.DryRun, in.VpnConnectionId, func(tx *store.Tx, c *record.VPNConnection) error {
		if !c.Deleted.IsZero() {
			return resource.VPNConnectionID.NotFound(c.ID)
		}
		for _, t := range c.Tunnels {
			if a, err := netip.ParseAddr(t.Outside); err == nil {
				if err := ipam.Public(resource.ScopeOf(ctx).Region).Release(tx, a); err != nil {
					return err
				}
			}
		}
		c.Deleted = s.Now()
		return nil
	})
	return &awsec2.DeleteVpnConnectionOutput{}, err
}

func (s *Service) changeRoutes(ctx context.Context, id, destination *string, edit func(routes []string, destination string, at int) ([]string, error)) error {
	p, ok := resource.ParseCIDR(aws.ToString(destination))
	if !ok {
		return ec2err.CIDR(aws.ToString(destination), "destinationCidrBlock")
	}
	sc := resource.ScopeOf(ctx)
	_, err := resource.Change(ctx, s.Core, record.VPNConnections, nil, id, func(tx *store.Tx, c *record.VPNConnection) error {
		if _, err := liveConnection(tx, sc, id); err != nil {
			return err
		}
		if !c.Static {
			return ec2err.New("UnsupportedOperation", "VPN connection %s does not use static routes", c.ID) // from memory
		}
		var err error
		c.Routes, err = edit(slices.Clone(c.Routes), p.String(), slices.Index(c.Routes, p.String()))
		return err
	})
	return err
}

// CreateVpnConnectionRoute adds a static route.
func (s *Service) CreateVpnConnectionRoute(ctx context.Context, in *awsec2.CreateVpnConnectionRouteInput) (*awsec2.CreateVpnConnectionRouteOutput, error) {
	err := s.changeRoutes(ctx, in.VpnConnectionId, in.DestinationCidrBlock, func(routes []string, to string, at int) ([]string, error) {
		if at < 0 {
			routes = append(routes, to)
		}
		return routes, nil
	})
	return &awsec2.CreateVpnConnectionRouteOutput{}, err
}

// DeleteVpnConnectionRoute removes a static route.
func (s *Service) DeleteVpnConnectionRoute(ctx context.Context, in *awsec2.DeleteVpnConnectionRouteInput) (*awsec2.DeleteVpnConnectionRouteOutput, error) {
	err := s.changeRoutes(ctx, in.VpnConnectionId, in.DestinationCidrBlock, func(routes []string, to string, at int) ([]string, error) {
		if at < 0 {
			return nil, ec2err.New("InvalidRoute.NotFound", "The specified route %s does not exist", to)
		}
		return slices.Delete(routes, at, at+1), nil
	})
	return &awsec2.DeleteVpnConnectionRouteOutput{}, err
}

// connection renders a connection for the SDK.
func (s *Service) connection(sc resource.Scope, c record.VPNConnection) ec2types.VpnConnection {
	out := ec2types.VpnConnection{
		VpnConnectionId: aws.String(c.ID), VpnGatewayId: aws.String(c.GatewayID), CustomerGatewayId: aws.String(c.CustomerGatewayID),
		Type: ec2types.GatewayTypeIpsec1, Category: aws.String("VPN"), State: ec2types.VpnStateAvailable, Tags: c.Tags.SDK(), Routes: []ec2types.VpnStaticRoute{},
		Options: &ec2types.VpnConnectionOptions{
			StaticRoutesOnly: aws.Bool(c.Static), EnableAcceleration: aws.Bool(false), TunnelInsideIpVersion: ec2types.TunnelInsideIpVersionIpv4,
			LocalIpv4NetworkCidr: aws.String(c.LocalCIDR), RemoteIpv4NetworkCidr: aws.String(c.RemoteCIDR), OutsideIpAddressType: aws.String("PublicIpv4"),
		},
	}
	if !c.Deleted.IsZero() {
		out.State = ec2types.VpnStateDeleted
		return out
	}
	for _, t := range c.Tunnels {
		out.Options.TunnelOptions = append(out.Options.TunnelOptions, ec2types.TunnelOption{
			OutsideIpAddress: aws.String(t.Outside), TunnelInsideCidr: aws.String(t.InsideCIDR), PreSharedKey: aws.String(t.Key),
		})
		out.VgwTelemetry = append(out.VgwTelemetry, ec2types.VgwTelemetry{
			OutsideIpAddress: aws.String(t.Outside), Status: ec2types.TelemetryStatusDown, StatusMessage: aws.String("IPSEC IS DOWN"),
			AcceptedRouteCount: aws.Int32(0), LastStatusChange: aws.Time(c.Created),
		})
	}
	for _, r := range c.Routes {
		out.Routes = append(out.Routes, ec2types.VpnStaticRoute{DestinationCidrBlock: aws.String(r), State: ec2types.VpnStateAvailable, Source: ec2types.VpnStaticRouteSourceStatic})
	}
	out.CustomerGatewayConfiguration = aws.String(s.configuration(sc, c))
	return out
}

// A configuration is the part of EC2's XML document for customer gateways that clients read, Terraform above all.
type configuration struct {
	XMLName  xml.Name `xml:"vpn_connection"`
	ID       string   `xml:"id,attr"`
	Customer string   `xml:"customer_gateway_id"`
	Gateway  string   `xml:"vpn_gateway_id"`
	Type     string   `xml:"vpn_connection_type"`
	Tunnels  []tunnel `xml:"ipsec_tunnel"`
}

type tunnel struct {
	Customer side   `xml:"customer_gateway"`
	Gateway  side   `xml:"vpn_gateway"`
	Key      string `xml:"ike>pre_shared_key"`
}

type side struct {
	Outside string `xml:"tunnel_outside_address>ip_address"`
	Inside  string `xml:"tunnel_inside_address>ip_address"`
	Mask    string `xml:"tunnel_inside_address>network_mask"`
	CIDR    string `xml:"tunnel_inside_address>network_cidr"`
	ASN     int64  `xml:"bgp>asn"`
	Hold    int    `xml:"bgp>hold_time"`
}

func (s *Service) configuration(sc resource.Scope, c record.VPNConnection) string {
	customer, _ := record.CustomerGateways.Get(s.Store, sc.Key(c.CustomerGatewayID)) // neither can be deleted before the connection
	gateway, _ := record.VPNGateways.Get(s.Store, sc.Key(c.GatewayID))
	out := configuration{ID: c.ID, Customer: c.CustomerGatewayID, Gateway: c.GatewayID, Type: "ipsec.1"}
	for _, t := range c.Tunnels {
		inside, err := netip.ParsePrefix(t.InsideCIDR)
		if err != nil {
			continue
		}
		first := inside.Addr().Next()
		end := func(outside string, at netip.Addr, asn int64) side {
			return side{Outside: outside, Inside: at.String(), Mask: "255.255.255.252", CIDR: "30", ASN: asn, Hold: 30}
		}
		out.Tunnels = append(out.Tunnels, tunnel{Gateway: end(t.Outside, first, gateway.ASN), Customer: end(customer.IP, first.Next(), customer.ASN), Key: t.Key})
	}
	b, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return "" // strings and numbers can be marshalled
	}
	return xml.Header + string(b)
}

// DescribeVpnConnections lists connections. Deleted ones stay listed for an hour.
func (s *Service) DescribeVpnConnections(ctx context.Context, in *awsec2.DescribeVpnConnectionsInput) (*awsec2.DescribeVpnConnectionsOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.VPNConnection
	found, _, err := resource.Describe(s.Store, sc, record.VPNConnections, resource.Query{IDs: in.VpnConnectionIds, Filters: in.Filters, DryRun: in.DryRun, Limits: limits}, filter.Fields[v]{
		"bgp-asn": filter.One(func(c v) string {
			g, _ := record.CustomerGateways.Get(s.Store, sc.Key(c.CustomerGatewayID))
			return strconv.FormatInt(g.ASN, 10)
		}),
		"customer-gateway-configuration": filter.One(func(c v) string { return s.configuration(sc, c) }),
		"customer-gateway-id":            filter.One(func(c v) string { return c.CustomerGatewayID }),
		"option.static-routes-only":      filter.Flag(func(c v) bool { return c.Static }),
		"route.destination-cidr-block":   func(c v) []string { return c.Routes },
		"state":                          filter.One(func(c v) string { return string(s.connection(sc, c).State) }),
		"transit-gateway-id":             filter.Never[v],
		"type":                           filter.One(func(v) string { return "ipsec.1" }),
		"vpn-connection-id":              filter.One(func(c v) string { return c.ID }),
		"vpn-gateway-id":                 filter.One(func(c v) string { return c.GatewayID }),
	})
	return &awsec2.DescribeVpnConnectionsOutput{VpnConnections: resource.Map(found, func(c v) ec2types.VpnConnection { return s.connection(sc, c) })}, err
}
