package reach

import (
	"net/netip"
	"slices"
)

// A Resource is a part of the network: a pointer to one of the types below. Do not change a resource after Put.
type Resource interface{ ResourceID() string }

// A VPC is a virtual network.
type VPC struct {
	ID, Name, Account string
	CIDRs             []netip.Prefix // of both families
	// DNSSupport and DNSHostnames are the attributes enableDnsSupport and
	// enableDnsHostnames.
	DNSSupport, DNSHostnames bool
	// Resolvers are the DNS servers in the DHCP options. Empty means Amazon's.
	Resolvers []netip.Addr
}

// A Subnet is a range of a VPC in one zone.
type Subnet struct {
	ID, Name, VPC, Zone string
	CIDRs               []netip.Prefix
}

// A RouteTable routes packets that leave its subnets.
type RouteTable struct {
	ID, Name, VPC string
	Main          bool // for subnets without a table of their own
	Subnets       []string
	Gateways      []string // internet gateways whose packets it routes within the VPC
	Routes        []Route
}

// Local is the target of the routes within a VPC.
const Local = "local"

// A Route sends a destination to a target. The target determines whether it is a blackhole.
type Route struct {
	Destination netip.Prefix `json:"destination,omitzero"` // or
	PrefixList  string       `json:"prefixList,omitempty"`
	// Target is Local or the ID of an internet, egress-only or NAT gateway, a
	// peering connection, a transit gateway, a gateway endpoint or a network interface.
	Target string `json:"target"`
	Origin string `json:"origin,omitempty"` // CreateRouteTable, CreateRoute, …
}

func (r Route) text() string {
	if r.PrefixList != "" {
		return r.PrefixList + " → " + r.Target
	}
	return r.Destination.String() + " → " + r.Target
}

// An ACL is a network ACL.
type ACL struct {
	ID, Name, VPC string
	Default       bool // for subnets without an ACL of their own
	Subnets       []string
	Entries       []Entry
}

// An Entry of an ACL allows or denies traffic.
type Entry struct {
	Number   int          `json:"number"`
	Egress   bool         `json:"egress,omitempty"`
	Allow    bool         `json:"allow,omitempty"`
	Protocol Protocol     `json:"protocol"`
	CIDR     netip.Prefix `json:"cidr"`
	// Ports are destination ports, of TCP and UDP.
	Ports PortRange `json:"ports,omitzero"`
	// ICMPType and ICMPCode are -1 for any.
	ICMPType int `json:"icmpType,omitempty"`
	ICMPCode int `json:"icmpCode,omitempty"`
}

// LastEntry is the number of the entry that denies what no other entry allows. AWS shows it as *.
const LastEntry = 32767

// A SecurityGroup filters the traffic of its interfaces.
type SecurityGroup struct {
	ID, Name, VPC string
	Rules         []Rule
}

// A Rule allows traffic with one peer: a CIDR, a prefix list or a group.
type Rule struct {
	ID         string       `json:"id,omitempty"`
	Egress     bool         `json:"egress,omitempty"`
	Protocol   Protocol     `json:"protocol"`
	Ports      PortRange    `json:"ports,omitzero"` // of TCP and UDP
	ICMPType   int          `json:"icmpType,omitempty"`
	ICMPCode   int          `json:"icmpCode,omitempty"`
	CIDR       netip.Prefix `json:"cidr,omitzero"`
	PrefixList string       `json:"prefixList,omitempty"`
	Group      string       `json:"group,omitempty"`
}

// Types of interfaces with special behaviour.
const (
	TypeNATGateway          = "nat_gateway"
	TypeNetworkLoadBalancer = "network_load_balancer"
	TypeVPCEndpoint         = "vpc_endpoint"
	TypeTransitGateway      = "transit_gateway"
)

// An Interface is an elastic network interface.
type Interface struct {
	ID, Name, VPC, Subnet, Zone string
	Type                        string // as in DescribeNetworkInterfaces
	Description                 string
	Instance                    string // the instance that it is attached to
	// Attached is also true for an interface attached to something that AWS manages.
	Attached bool
	// Primary marks the interface through which the instance's flows leave.
	Primary bool
	// Requester is the AWS service that manages it.
	Requester         string
	NoSourceDestCheck bool
	Addresses         []Address // the first of each family is the primary address
	// Prefixes are delegated to the interface: /28 and /80.
	Prefixes []netip.Prefix
	Groups   []string
}

// An Address is one address of an interface.
type Address struct {
	Private netip.Addr // or its IPv6 address
	Public  netip.Addr // zero if it has none
}

func (e *Interface) primary(v6 bool) (Address, bool) {
	for _, a := range e.Addresses {
		if a.Private.Is6() == v6 {
			return a, true
		}
	}
	return Address{}, false
}

func (e *Interface) find(private netip.Addr) (Address, bool) {
	for _, a := range e.Addresses {
		if a.Private == private {
			return a, true
		}
	}
	if inAny(e.Prefixes, private) {
		return Address{Private: private}, true
	}
	return Address{}, false
}

// Ungrouped reports whether no security group filters the interface's packets. NAT gateways and transit gateways have
// none, nor do Network Load Balancers that were created without.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-security-groups.html
func (e *Interface) Ungrouped() bool {
	return e.Type == TypeNATGateway || e.Type == TypeTransitGateway || e.Type == TypeNetworkLoadBalancer && len(e.Groups) == 0
}

func (e *Interface) member(group string) bool { return slices.Contains(e.Groups, group) }

// An Instance is a machine.
type Instance struct {
	ID, Name string
	// State is pending, running, stopped, …; empty means running.
	State string
	// ResourceName says that i-….REGION.compute.internal is also its name.
	ResourceName bool
}

func (i *Instance) on() bool {
	return i.State == "" || i.State == "running" || i.State == "pending"
}

// An InternetGateway connects a VPC to the internet.
type InternetGateway struct{ ID, Name, VPC string }

// A VPNGateway is a virtual private gateway. Nothing is behind it.
type VPNGateway struct{ ID, Name, VPC string }

// ResourceID returns the ID.
func (r *VPNGateway) ResourceID() string { return r.ID }

// An EgressOnlyGateway lets IPv6 connections out.
type EgressOnlyGateway struct{ ID, Name, VPC string }

// A NATGateway uses the address of its own interface.
type NATGateway struct {
	ID, Name, VPC, Subnet string
	State                 string // available, …
	Interface             string
}

// A Peering is a peering connection.
type Peering struct {
	ID, Name            string
	State               string // active, …
	Requester, Accepter PeeringSide
}

// A PeeringSide is one of the two VPCs.
type PeeringSide struct {
	VPC, Account, Region string
	CIDRs                []netip.Prefix
	// ResolveRemote says that names of this VPC's instances resolve to private addresses in the other VPC
	// (AllowDnsResolutionFromRemoteVpc).
	ResolveRemote bool
}

func (p *Peering) sides(from string) (here, there PeeringSide) {
	if p.Requester.VPC == from {
		return p.Requester, p.Accepter
	}
	return p.Accepter, p.Requester
}

// Types of VPC endpoints.
const (
	InterfaceEndpoint = "Interface"
	GatewayEndpoint   = "Gateway"
)

// A VPCEndpoint is an interface or gateway endpoint.
type VPCEndpoint struct {
	ID, Name, VPC string
	Type          string
	Service       string // com.amazonaws.us-east-1.s3
	State         string // available, …
	PrefixList    string // of a gateway endpoint
	Interfaces    []string
	// PrivateNames are the names that it answers for in its VPC if private DNS is on. The first label may be *.
	PrivateNames []string
	// Names are its own names, which resolve everywhere.
	Names []string
	// Policy is for the code that authorizes requests through it.
	Policy string
}

// A ConnectEndpoint is an EC2 Instance Connect endpoint.
type ConnectEndpoint struct {
	ID, Name, VPC, Subnet string
	State                 string // create-complete, update-complete, …
	Interface             string
	PreserveClientIP      bool
}

// A PrefixList is a managed prefix list.
type PrefixList struct {
	ID, Name string
	CIDRs    []netip.Prefix
}

// A HostName is a name that is not derived from the network, such as a cluster's endpoint.
type HostName struct {
	Name string
	// VPC, if set, is the VPC in which the name resolves to Private.
	VPC     string
	Private []netip.Addr
	// Public are the addresses for all other clients. If there are none, they get those of Private, which AWS
	// publishes for clusters without public access.
	Public []netip.Addr
	// PublicFrom are the ranges that the public addresses answer to. Nil means all.
	PublicFrom []netip.Prefix
	// Owner identifies the name's owner in messages: the cluster's ARN.
	Owner string
}

// A HostedZone is a zone of Route 53 with its records.
type HostedZone struct {
	ID string
	// Name is the domain, in lower case and without the trailing dot.
	Name string
	// VPCs are the VPCs in which a private zone answers. A public zone, which has none, answers for the internet.
	VPCs []string
	// Records are the records by name, written like Name. A name that begins with *. answers for all names below it
	// that have no records. A name that only has records of other types has an empty Record.
	Records map[string]Record
	// Unread says why the records are unknown, if they are.
	Unread string
}

// A Record is what a name of a zone resolves to: addresses, or another name (of a CNAME or an alias).
type Record struct {
	Addresses []netip.Addr
	Target    string
}

// ResourceID returns the ID.
func (r *HostedZone) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *VPC) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *Subnet) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *RouteTable) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *ACL) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *SecurityGroup) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *Interface) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *Instance) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *InternetGateway) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *EgressOnlyGateway) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *NATGateway) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *Peering) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *VPCEndpoint) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *ConnectEndpoint) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *PrefixList) ResourceID() string { return r.ID }

// ResourceID returns the name.
func (r *HostName) ResourceID() string { return r.Name }
