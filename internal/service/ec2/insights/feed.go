package insights

import (
	"cmp"
	"net/netip"
	"strings"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2/endpoint"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// Conversions of records to the types of package reach.

func nameOf(t tag.Set) string { return t["Name"] }

// addressOf parses an address in a record, or returns the zero Addr if there is none.
func addressOf(s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return a
}

// blocksOf parses CIDR blocks in a record and skips invalid ones.
func blocksOf(blocks ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, b := range blocks {
		if p, err := netip.ParsePrefix(b); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func vpcOf(r store.Reader, sc resource.Scope, v record.VPC) reach.Resource {
	out := &reach.VPC{
		ID: v.ID, Name: nameOf(v.Tags), Account: sc.Account, CIDRs: append(v.Prefixes(), v.Prefixes6()...),
		DNSSupport: !v.NoDNSSupport, DNSHostnames: v.DNSHostnames,
	}
	// DHCP option sets are immutable, so it is enough to watch the VPC's record.
	if o, err := record.DHCPOptionSets.Get(r, sc.Key(v.DHCPOptionsID)); err == nil {
		for _, server := range o.Options["domain-name-servers"] {
			if a := addressOf(server); a.IsValid() {
				out.Resolvers = append(out.Resolvers, a)
			}
		}
	}
	return out
}

func subnetOf(_ store.Reader, _ resource.Scope, sn record.Subnet) reach.Resource {
	return &reach.Subnet{
		ID: sn.ID, Name: nameOf(sn.Tags), VPC: sn.VPCID, Zone: sn.Zone,
		CIDRs: append(blocksOf(sn.CIDR), record.PrefixesOf(sn.IPv6)...),
	}
}

func routeTableOf(_ store.Reader, _ resource.Scope, t record.RouteTable) reach.Resource {
	out := &reach.RouteTable{ID: t.ID, Name: nameOf(t.Tags), VPC: t.VPCID}
	for _, a := range t.Associations {
		switch {
		case a.Main:
			out.Main = true
		case a.GatewayID != "":
			out.Gateways = append(out.Gateways, a.GatewayID)
		default:
			out.Subnets = append(out.Subnets, a.SubnetID)
		}
	}
	for _, r := range t.Routes {
		to := reach.Route{Origin: r.Origin, Target: cmp.Or(r.GatewayID, r.NATGatewayID, r.PeeringID, r.EgressOnlyGatewayID, r.TransitGatewayID, r.InterfaceID)}
		if strings.HasPrefix(r.Destination, "pl-") {
			to.PrefixList = r.Destination
		} else if p, err := netip.ParsePrefix(r.Destination); err == nil {
			to.Destination = p
		} else {
			continue
		}
		out.Routes = append(out.Routes, to)
	}
	return out
}

func aclOf(_ store.Reader, _ resource.Scope, a record.NetworkACL) reach.Resource {
	out := &reach.ACL{ID: a.ID, Name: nameOf(a.Tags), VPC: a.VPCID, Default: a.Default}
	for _, as := range a.Associations {
		out.Subnets = append(out.Subnets, as.SubnetID)
	}
	for _, e := range a.Entries {
		protocol, err := reach.ParseProtocol(e.Protocol)
		blocks := blocksOf(cmp.Or(e.CIDR, e.CIDR6))
		if err != nil || len(blocks) == 0 {
			continue
		}
		to := reach.Entry{
			Number: int(e.Number), Egress: e.Egress, Allow: e.Allow, Protocol: protocol, CIDR: blocks[0],
			Ports: reach.PortRange{To: 65535}, ICMPType: -1, ICMPCode: -1,
		}
		if e.Ports != nil {
			to.Ports = portsOf(e.Ports.From, e.Ports.To)
		}
		if e.ICMP != nil {
			to.ICMPType, to.ICMPCode = int(e.ICMP.Type), int(e.ICMP.Code)
		}
		out.Entries = append(out.Entries, to)
	}
	return out
}

// portsOf converts a port range of a record; -1 means all ports.
func portsOf(from, to int32) reach.PortRange {
	if from < 0 || to < 0 || to > 65535 {
		return reach.PortRange{To: 65535}
	}
	return reach.PortRange{From: uint16(from), To: uint16(to)}
}

func groupOf(_ store.Reader, _ resource.Scope, g record.SecurityGroup) reach.Resource {
	out := &reach.SecurityGroup{ID: g.ID, Name: cmp.Or(nameOf(g.Tags), g.Name), VPC: g.VPCID, Rules: make([]reach.Rule, 0, len(g.Rules))}
	for _, r := range g.Rules {
		protocol, err := reach.ParseProtocol(r.Protocol)
		if err != nil {
			continue
		}
		to := reach.Rule{
			ID: r.ID, Egress: r.Egress, Protocol: protocol, PrefixList: r.PrefixListID, Group: r.GroupID,
			Ports: reach.PortRange{To: 65535}, ICMPType: -1, ICMPCode: -1,
		}
		if blocks := blocksOf(cmp.Or(r.CIDR, r.CIDR6)); len(blocks) > 0 {
			to.CIDR = blocks[0]
		}
		switch protocol {
		case reach.TCP, reach.UDP:
			to.Ports = portsOf(r.From, r.To)
		case reach.ICMP, reach.ICMPv6:
			to.ICMPType, to.ICMPCode = int(r.From), int(r.To)
		}
		out.Rules = append(out.Rules, to)
	}
	return out
}

func interfaceOf(_ store.Reader, _ resource.Scope, e record.NetworkInterface) reach.Resource {
	out := &reach.Interface{
		ID: e.ID, Name: nameOf(e.Tags), VPC: e.VPCID, Subnet: e.SubnetID, Zone: e.Zone, Type: e.Type, Description: e.Description,
		Instance: e.Attachment.InstanceID, Primary: e.Attachment.DeviceIndex == 0 && e.Attachment.CardIndex == 0,
		Attached: e.Attachment.ID != "" || e.RequesterID != "", Requester: e.RequesterID, NoSourceDestCheck: e.NoSourceDestCheck,
		Prefixes: append(blocksOf(e.Prefixes...), blocksOf(e.Prefixes6...)...), Groups: e.Groups, Addresses: make([]reach.Address, 0, len(e.Addresses)+len(e.IPv6)),
	}
	for i, a := range e.Addresses {
		to := reach.Address{Private: addressOf(a)}
		if i == 0 {
			to.Public = addressOf(e.PublicIP)
		}
		for _, as := range e.Elastic {
			if as.PrivateIP == a {
				to.Public = addressOf(as.PublicIP)
			}
		}
		out.Addresses = append(out.Addresses, to)
	}
	for _, a := range e.IPv6 {
		out.Addresses = append(out.Addresses, reach.Address{Private: addressOf(a)})
	}
	return out
}

func instanceOf(_ store.Reader, _ resource.Scope, i record.Instance) reach.Resource {
	return &reach.Instance{ID: i.ID, Name: nameOf(i.Tags), State: i.State, ResourceName: i.ResourceNameA || i.HostnameType == "resource-name"}
}

func internetGatewayOf(_ store.Reader, _ resource.Scope, g record.InternetGateway) reach.Resource {
	return &reach.InternetGateway{ID: g.ID, Name: nameOf(g.Tags), VPC: g.VPCID}
}

func egressGatewayOf(_ store.Reader, _ resource.Scope, g record.EgressGateway) reach.Resource {
	return &reach.EgressOnlyGateway{ID: g.ID, Name: nameOf(g.Tags), VPC: g.VPCID}
}

func natGatewayOf(_ store.Reader, _ resource.Scope, n record.NATGateway) reach.Resource {
	out := &reach.NATGateway{ID: n.ID, Name: nameOf(n.Tags), VPC: n.VPCID, Subnet: n.SubnetID, State: n.State}
	if len(n.Addresses) > 0 {
		out.Interface = n.Addresses[0].InterfaceID
	}
	return out
}

func peeringOf(_ store.Reader, _ resource.Scope, p record.Peering) reach.Resource {
	side := func(s record.PeeringSide) reach.PeeringSide {
		return reach.PeeringSide{VPC: s.VPCID, Account: s.Account, Region: s.Region, CIDRs: blocksOf(s.CIDR), ResolveRemote: s.AllowDNS}
	}
	return &reach.Peering{ID: p.ID, Name: nameOf(p.Tags), State: string(p.State), Requester: side(p.Requester), Accepter: side(p.Accepter)}
}

func transitGatewayOf(_ store.Reader, _ resource.Scope, g record.TransitGateway) reach.Resource {
	return &reach.TransitGateway{ID: g.ID, Name: nameOf(g.Tags), State: g.State, DNSSupport: !g.NoDNS}
}

func transitAttachmentOf(_ store.Reader, _ resource.Scope, a record.TransitAttachment) reach.Resource {
	if a.State == record.TransitDeleted {
		return nil
	}
	out := &reach.TransitAttachment{
		ID: a.ID, Name: nameOf(a.Tags), Gateway: a.GatewayID, VPC: a.VPCID, State: a.State,
		IPv6: a.IPv6, DNSSupport: !a.NoDNS, Table: a.Table, Propagates: a.Propagates,
	}
	for _, sn := range a.Subnets {
		out.Subnets, out.Interfaces = append(out.Subnets, sn.SubnetID), append(out.Interfaces, sn.InterfaceID)
	}
	return out
}

func transitTableOf(_ store.Reader, _ resource.Scope, t record.TransitRouteTable) reach.Resource {
	out := &reach.TransitTable{ID: t.ID, Name: nameOf(t.Tags), Gateway: t.GatewayID}
	for _, r := range t.Routes {
		for _, p := range blocksOf(r.Destination) {
			out.Routes = append(out.Routes, reach.TransitRoute{Destination: p, Attachment: r.AttachmentID})
		}
	}
	for _, l := range t.Lists {
		out.Routes = append(out.Routes, reach.TransitRoute{PrefixList: l.Destination, Attachment: l.AttachmentID})
	}
	return out
}

func vpnGatewayOf(_ store.Reader, _ resource.Scope, g record.VPNGateway) reach.Resource {
	return &reach.VPNGateway{ID: g.ID, Name: nameOf(g.Tags), VPC: g.VPCID}
}

func endpointOf(r store.Reader, sc resource.Scope, v record.VPCEndpoint) reach.Resource {
	out := &reach.VPCEndpoint{
		ID: v.ID, Name: nameOf(v.Tags), VPC: v.VPCID, Type: reach.InterfaceEndpoint, Service: v.ServiceName, State: v.State,
		Interfaces: v.InterfaceIDs, Policy: v.Policy,
	}
	if v.Gateway {
		out.Type, out.PrefixList = reach.GatewayEndpoint, endpoint.PrefixListOf(v, sc.Region)
		return out
	}
	out.Names = endpoint.DNSNames(v, r, sc)
	if v.PrivateDNS {
		out.PrivateNames = endpoint.ServiceOf(v, sc.Region).PrivateDNSNames()
	}
	return out
}

func connectEndpointOf(_ store.Reader, _ resource.Scope, c record.ConnectEndpoint) reach.Resource {
	out := &reach.ConnectEndpoint{
		ID: c.ID, Name: nameOf(c.Tags), VPC: c.VPCID, Subnet: c.SubnetID, State: c.State, PreserveClientIP: c.PreserveClientIP,
	}
	if len(c.InterfaceIDs) > 0 {
		out.Interface = c.InterfaceIDs[0]
	}
	return out
}

func prefixListOf(p record.PrefixList) reach.Resource {
	out := &reach.PrefixList{ID: p.ID, Name: p.Name}
	for _, e := range p.Entries() {
		out.CIDRs = append(out.CIDRs, blocksOf(e.CIDR)...)
	}
	return out
}
