package fabric

import "net/netip"

// MTU is that of interfaces in EC2.
const MTU = 9001

// A State is a network as the fabric should have it. It is plain data and can be encoded as JSON.
type State struct {
	VPCs       []VPC       `json:"vpcs"`
	Subnets    []Subnet    `json:"subnets"`
	ACLs       []ACL       `json:"acls"`
	Groups     []Group     `json:"groups"`
	Interfaces []Interface `json:"interfaces"`
	Transits   []Transit   `json:"transits,omitempty"`
	// Outside are the internet addresses that the fabric forwards to the outside namespace (see Fabric.Outside). Empty
	// means that there is no internet; VPCs still reach each other's public addresses.
	Outside []netip.Prefix `json:"outside,omitempty"`
	// Inside are ranges within those of Outside that the fabric does not forward. A proxy answers there, as for addresses
	// that are not Outside at all, but not for the rest of Outside.
	Inside []netip.Prefix `json:"inside,omitempty"`
}

// A VPC is a network of its own. VPCs may have the same ranges.
type VPC struct {
	ID    string         `json:"id"`
	CIDRs []netip.Prefix `json:"cidrs"`
	// Services are the addresses that the fabric itself answers: instance metadata, DNS, time.
	Services []netip.Addr `json:"services,omitempty"`
	// Proxy are TCP ports at which the fabric itself answers for every IPv4 address that no machine has and that is not
	// outside, for whoever connects there instead (see Fabric.ListenService). The filters do not apply to such connections.
	Proxy []uint16 `json:"proxy,omitempty"`
	// ProxyTCP and ProxyUDP are single addresses and ports at which the fabric answers in the same way. For datagrams see
	// Fabric.ListenServiceUDP.
	ProxyTCP []netip.AddrPort `json:"proxyTCP,omitempty"`
	ProxyUDP []netip.AddrPort `json:"proxyUDP,omitempty"`
	// Gateway says that an internet gateway is attached.
	Gateway bool `json:"gateway,omitempty"`
	// Ingress are the routes of the internet gateway, if it has a route table of its own.
	Ingress []Route `json:"ingress,omitempty"`
}

// A Subnet has an ACL and routes.
type Subnet struct {
	ID    string         `json:"id"`
	VPC   string         `json:"vpc"`
	CIDRs []netip.Prefix `json:"cidrs"`
	ACL   string         `json:"acl,omitempty"` // empty means that everything passes
	// Routes have different destinations. The longest that contains an address applies.
	Routes []Route `json:"routes,omitempty"`
}

// A Kind is what a route leads to.
type Kind string

// The kinds of routes.
const (
	Local      Kind = "local"
	Internet   Kind = "internet"    // the VPC's internet gateway
	EgressOnly Kind = "egress-only" // its egress-only internet gateway
	NAT        Kind = "nat"         // Target is the NAT gateway's interface
	Peering    Kind = "peering"     // Target is the other VPC
	Endpoint   Kind = "endpoint"    // Target is a gateway endpoint
	Forward    Kind = "forward"     // Target is the interface of an instance
	Through    Kind = "transit"     // Target is a Transit
	Enter      Kind = "enter"       // of a Transit: Target is the subnet that routes what enters its VPC
	Blackhole  Kind = "blackhole"
)

// A Route leads somewhere.
type Route struct {
	Destination netip.Prefix `json:"destination"`
	Kind        Kind         `json:"kind"`
	Target      string       `json:"target,omitempty"`
}

// A Transit is the way from one zone of a VPC through a transit gateway to other VPCs.
type Transit struct {
	ID string `json:"id"`
	// VPC is where packets come from, and Subnet the one with the gateway's interface in the zone. Its ACL filters them.
	VPC    string  `json:"vpc"`
	Subnet string  `json:"subnet"`
	Routes []Route `json:"routes,omitempty"` // as of a Subnet
}

// Any as a protocol, or as a type or code of ICMP, matches all.
const Any = -1

// A Match selects packets by protocol.
type Match struct {
	Protocol int    `json:"protocol"` // number, or Any
	From     uint16 `json:"from,omitempty"`
	To       uint16 `json:"to,omitempty"` // destination ports of TCP and UDP
	ICMPType int    `json:"icmpType,omitempty"`
	ICMPCode int    `json:"icmpCode,omitempty"`
}

// An ACL is a list of entries in each direction. The first that matches decides; the end denies.
type ACL struct {
	ID      string  `json:"id"`
	Ingress []Entry `json:"ingress,omitempty"`
	Egress  []Entry `json:"egress,omitempty"`
}

// An Entry of an ACL allows or denies.
type Entry struct {
	Match
	Allow bool         `json:"allow,omitempty"`
	CIDR  netip.Prefix `json:"cidr"`
}

// A Group is a security group.
type Group struct {
	ID      string `json:"id"`
	Ingress []Rule `json:"ingress,omitempty"`
	Egress  []Rule `json:"egress,omitempty"`
}

// A Rule allows traffic with ranges or with the members of a group.
type Rule struct {
	Match
	CIDRs []netip.Prefix `json:"cidrs,omitempty"`
	Group string         `json:"group,omitempty"`
}

// An Interface is a network interface.
type Interface struct {
	ID        string         `json:"id"`
	VPC       string         `json:"vpc"`
	Subnet    string         `json:"subnet"`
	MAC       string         `json:"mac,omitempty"` // derived from the ID if empty
	Addresses []Address      `json:"addresses"`     // the first of each family is the primary one
	Prefixes  []netip.Prefix `json:"prefixes,omitempty"`
	Groups    []string       `json:"groups,omitempty"`
	// Ungrouped says that no security group filters its packets.
	Ungrouped bool `json:"ungrouped,omitempty"`
	// Forwards says that the source/destination check is off.
	Forwards bool `json:"forwards,omitempty"`
	// NAT says that it belongs to a NAT gateway. The fabric attaches such interfaces itself.
	NAT bool `json:"nat,omitempty"`
	// Dark are addresses of the VPC's proxy that give no answer to this interface: the first packet of a connection is dropped.
	Dark []netip.AddrPort `json:"dark,omitempty"`
	// Down says that no packet passes, except to services.
	Down bool `json:"down,omitempty"`
}

// An Address is a private address and its public one, if it has one.
type Address struct {
	Private netip.Addr `json:"private"`
	Public  netip.Addr `json:"public,omitzero"`
}

// primary returns the primary address of a family.
func (e *Interface) primary(v6 bool) (netip.Addr, bool) {
	for _, a := range e.Addresses {
		if a.Private.Is6() == v6 {
			return a.Private, true
		}
	}
	return netip.Addr{}, false
}
