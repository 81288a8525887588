package record

import (
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// The collections, one for each kind of resource.
var (
	Defaults           = store.NewCollection[RegionDefaults]("ec2", "defaults")
	VPCs               = resource.NewKind("vpc", resource.VPCID, func(v *VPC) (string, *tag.Set) { return v.ID, &v.Tags })
	Subnets            = resource.NewKind("subnet", resource.SubnetID, func(v *Subnet) (string, *tag.Set) { return v.ID, &v.Tags })
	InternetGateways   = resource.NewKind("internet-gateway", resource.InternetGatewayID, func(v *InternetGateway) (string, *tag.Set) { return v.ID, &v.Tags })
	RouteTables        = resource.NewKind("route-table", resource.RouteTableID, func(v *RouteTable) (string, *tag.Set) { return v.ID, &v.Tags }, store.Same) // version 2 has transit gateways, edge associations and propagation
	NetworkACLs        = resource.NewKind("network-acl", resource.NetworkACLID, func(v *NetworkACL) (string, *tag.Set) { return v.ID, &v.Tags })
	DHCPOptionSets     = resource.NewKind("dhcp-options", resource.DHCPOptionsID, func(d *DHCPOptions) (string, *tag.Set) { return d.ID, &d.Tags })
	SecurityGroups     = resource.NewKind("security-group", resource.SecurityGroupID, func(v *SecurityGroup) (string, *tag.Set) { return v.ID, &v.Tags })
	NetworkInterfaces  = resource.NewKind("network-interface", resource.NetworkInterfaceID, func(v *NetworkInterface) (string, *tag.Set) { return v.ID, &v.Tags }, store.Same) // version 2 has Prefixes6
	AddressPages       = store.NewCollection[AddressPage]("ec2", "address-page")
	Addresses          = resource.NewKind("address", resource.AddressID, func(a *Address) (string, *tag.Set) { return a.ID, &a.Tags })
	NATGateways        = resource.NewKind("nat-gateway", resource.NATGatewayID, func(n *NATGateway) (string, *tag.Set) { return n.ID, &n.Tags })
	EgressGateways     = resource.NewKind("egress-only-internet-gateway", resource.EgressGatewayID, func(g *EgressGateway) (string, *tag.Set) { return g.ID, &g.Tags })
	Peerings           = resource.NewKind("vpc-peering-connection", resource.PeeringID, func(p *Peering) (string, *tag.Set) { return p.ID, &p.Tags })
	VPCEndpoints       = resource.NewKind("vpc-endpoint", resource.VPCEndpointID, func(e *VPCEndpoint) (string, *tag.Set) { return e.ID, &e.Tags })
	ConnectEndpoints   = resource.NewKind("instance-connect-endpoint", resource.ConnectEndpointID, func(e *ConnectEndpoint) (string, *tag.Set) { return e.ID, &e.Tags })
	PrefixLists        = resource.NewKind("prefix-list", resource.PrefixListID, func(p *PrefixList) (string, *tag.Set) { return p.ID, &p.Tags })
	TransitGateways    = resource.NewKind("transit-gateway", resource.TransitGatewayID, func(g *TransitGateway) (string, *tag.Set) { return g.ID, &g.Tags })
	TransitAttachments = resource.NewKind("transit-gateway-attachment", resource.TransitAttachmentID, func(a *TransitAttachment) (string, *tag.Set) { return a.ID, &a.Tags })
	TransitRouteTables = resource.NewKind("transit-gateway-route-table", resource.TransitRouteTableID, func(t *TransitRouteTable) (string, *tag.Set) { return t.ID, &t.Tags })
	VPNGateways        = resource.NewKind("vpn-gateway", resource.VPNGatewayID, func(g *VPNGateway) (string, *tag.Set) { return g.ID, &g.Tags })
	CustomerGateways   = resource.NewKind("customer-gateway", resource.CustomerGatewayID, func(g *CustomerGateway) (string, *tag.Set) { return g.ID, &g.Tags })
	VPNConnections     = resource.NewKind("vpn-connection", resource.VPNConnectionID, func(c *VPNConnection) (string, *tag.Set) { return c.ID, &c.Tags })
	FlowLogs           = resource.NewKind("flow-log", resource.FlowLogID, func(f *FlowLog) (string, *tag.Set) { return f.ID, &f.Tags })
	IPv6Addresses      = store.NewCollection[resource.Name]("ec2", "ipv6-address")
	Instances          = resource.NewKind("instance", resource.InstanceID, func(v *Instance) (string, *tag.Set) { return v.ID, &v.Tags }, store.Same, store.Same, store.Same, store.Same) // version 4 has Operator, 5 RootTask
)
