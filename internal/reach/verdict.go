package reach

import "net/netip"

// A Verdict is the answer to a Flow.
type Verdict struct {
	Reachable bool `json:"reachable"`
	Flow      Flow `json:"flow"`
	// Source and Destination are the packet's addresses when it started.
	Source      netip.Addr `json:"source,omitzero"`
	Destination netip.Addr `json:"destination,omitzero"`
	// Forward are the hops to the destination, as far as they are known. Return are those of the replies.
	Forward []Hop `json:"forward"`
	Return  []Hop `json:"return,omitempty"`
	// Explanations say what blocks the packet, the decisive one first. The hops after a missing route are unknown.
	Explanations []Explanation `json:"explanations,omitempty"`
	// ReplyPorts are the source's ports that replies reach. It is set if these are not all that the source uses:
	// connections from other ports hang.
	ReplyPorts Ports `json:"replyPorts,omitempty"`
	// Endpoint is the VPC endpoint at which the path ends. Its policy, which this package does not read, decides
	// about the requests.
	Endpoint string `json:"endpoint,omitempty"`
	// Resolution is how the destination's name was resolved, if it was a name.
	Resolution *Resolution `json:"resolution,omitempty"`
}

// Kinds of hops and components, in Reachability Analyzer's words if it has one.
const (
	KindInstance          = "instance"
	KindInterface         = "network-interface"
	KindSecurityGroup     = "security-group"
	KindACL               = "network-acl"
	KindRouteTable        = "route-table"
	KindInternetGateway   = "internet-gateway"
	KindEgressOnly        = "egress-only-internet-gateway"
	KindNATGateway        = "natgateway"
	KindPeering           = "vpc-peering-connection"
	KindVPNGateway        = "vpn-gateway"
	KindTransitGateway    = "transit-gateway"
	KindTransitAttachment = "transit-gateway-attachment"
	KindTransitTable      = "transit-gateway-route-table"
	KindVPCEndpoint       = "vpc-endpoint"
	KindConnectEndpoint   = "instance-connect-endpoint"
	KindPrefixList        = "prefix-list"
	KindSubnet            = "subnet"
	KindVPC               = "vpc"
	KindInternet          = "internet"      // an address outside
	KindLocalService      = "local-service" // metadata, DNS, time: answered by the instance's host
	KindName              = "name"
	KindFault             = "fault" // a deliberate fault
	KindLoadBalancer      = "load-balancer"
)

// Directions of filters.
const (
	Ingress = "ingress"
	Egress  = "egress"
)

// A Hop is one component on the path.
type Hop struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	OK   bool   `json:"ok"`
	// Note describes for a reader what it did to the packet, beyond Rule, Entry and Route.
	Note string `json:"note,omitempty"`

	Direction  string `json:"direction,omitempty"` // for groups and ACLs
	VPC        string `json:"vpc,omitempty"`
	Subnet     string `json:"subnet,omitempty"`
	Zone       string `json:"zone,omitempty"`
	AttachedTo string `json:"attachedTo,omitempty"` // the instance of an interface
	Interface  string `json:"interface,omitempty"`  // the interface that a group filters for
	SourceVPC  string `json:"sourceVpc,omitempty"`  // for a peering connection
	TargetVPC  string `json:"targetVpc,omitempty"`

	Rule  *Rule  `json:"rule,omitempty"`  // the group's rule that allowed it
	Entry *Entry `json:"entry,omitempty"` // the ACL's entry that decided
	Route *Route `json:"route,omitempty"`
	// Tracked says that a group tracks the connection: replies pass, and the connection outlives the rule.
	Tracked bool `json:"tracked,omitempty"`
	// In and Out are the packet's header where it changes, and at both ends.
	In  *Header `json:"in,omitempty"`
	Out *Header `json:"out,omitempty"`

	Explanation *Explanation `json:"explanation,omitempty"` // set if it blocks the packet
}

// A Header is the part of a packet that the network looks at.
type Header struct {
	Source           netip.Addr `json:"source"`
	SourcePorts      Ports      `json:"sourcePorts,omitempty"`
	Destination      netip.Addr `json:"destination"`
	DestinationPorts Ports      `json:"destinationPorts,omitempty"`
	Protocol         Protocol   `json:"protocol"`
}

// An Explanation says why a component blocks the packet.
type Explanation struct {
	Code string `json:"code"`
	// Text is a sentence about this particular case.
	Text string `json:"text"`
	// Return says that it blocks the replies.
	Return    bool   `json:"return,omitempty"`
	Kind      string `json:"kind"` // of Component
	Component string `json:"component"`

	Direction   string     `json:"direction,omitempty"`
	VPC         string     `json:"vpc,omitempty"`
	Subnet      string     `json:"subnet,omitempty"`
	Interface   string     `json:"interface,omitempty"`
	Groups      []string   `json:"groups,omitempty"`
	Entry       *Entry     `json:"entry,omitempty"`
	Route       *Route     `json:"route,omitempty"`
	Address     netip.Addr `json:"address,omitzero"` // the other end's address, as the component sees it
	Ports       Ports      `json:"ports,omitempty"`
	Protocol    Protocol   `json:"protocol,omitempty"`
	PacketField string     `json:"packetField,omitempty"`
	Missing     string     `json:"missing,omitempty"` // kind of the missing component
	State       string     `json:"state,omitempty"`
	TargetVPC   string     `json:"targetVpc,omitempty"`
	// Attribute is the VPC attribute that would have to be on.
	Attribute string `json:"attribute,omitempty"`
	// TargetGroup is the ARN of the target group that a load balancer's listener forwards to.
	TargetGroup string `json:"targetGroup,omitempty"`
}

// The attributes of a VPC that name resolution depends on.
const (
	AttributeDNSSupport   = "enableDnsSupport"
	AttributeDNSHostnames = "enableDnsHostnames"
)

// Explanation codes.
// https://docs.aws.amazon.com/vpc/latest/reachability/explanation-codes.html
const (
	CodeBadState              = "BAD_STATE"
	CodeBadStateVPN           = "BAD_STATE_VPN"
	CodeBadStateRoute         = "BAD_STATE_ROUTE"
	CodeGroupMismatch         = "ENI_SG_RULES_MISMATCH"
	CodeGroupNoRules          = "SG_HAS_NO_RULES"
	CodeGroupReferences       = "SG_REFERENCES_NOT_PRESERVED"
	CodeSourceDestCheck       = "ENI_SOURCE_DEST_CHECK_RESTRICTION"
	CodeSpoofed               = "GATEWAY_REJECTS_SPOOFED_TRAFFIC"
	CodeACL                   = "SUBNET_ACL_RESTRICTION"
	CodeNoRoute               = "NO_ROUTE_TO_DESTINATION"
	CodeNoDestination         = "NO_POSSIBLE_DESTINATION"
	CodePublicForEgress       = "IGW_PUBLIC_IP_ASSOCIATION_FOR_EGRESS"
	CodePrivateForIngress     = "IGW_PRIVATE_IP_ASSOCIATION_FOR_INGRESS"
	CodeNotRFC1918Egress      = "IGW_DESTINATION_ADDRESS_NOT_IN_RFC1918_EGRESS"
	CodeNotRFC6598Egress      = "IGW_DESTINATION_ADDRESS_NOT_IN_RFC6598_EGRESS"
	CodeNotRFC1918Ingress     = "IGW_SOURCE_ADDRESS_NOT_IN_RFC1918_INGRESS"
	CodeNotRFC6598Ingress     = "IGW_SOURCE_ADDRESS_NOT_IN_RFC6598_INGRESS"
	CodeNATSource             = "NGW_REQUIRES_SOURCE_IN_VPC"
	CodeNATReassign           = "NGW_SOURCE_ADDRESS_REASSIGN"
	CodePeeringCIDR           = "PCX_REQUIRES_ADDRESS_IN_VPC_CIDR"
	CodeProtocol              = "PROTOCOL_RESTRICTION"
	CodeGatewayEndpointProto  = "VPCE_GATEWAY_PROTOCOL_RESTRICTION"
	CodeEndpointInitiates     = "VPCE_INTRA_VPC_TRAFFIC"
	CodeDisconnectedVPCs      = "DISCONNECTED_VPCS"
	CodeNoSourceOrDestination = "NO_SOURCE_OR_DESTINATION"
	CodeUnassociated          = "UNASSOCIATED_COMPONENT"
	CodeUnsupported           = "UNSUPPORTED_COMPONENT"
	CodeNoPath                = "NO_PATH"
	// CodeTransitZone also stands for an attachment without subnets.
	CodeTransitZone     = "TGW_ROUTE_AZ_RESTRICTION"
	CodeTransitNoTable  = "TGW_ATTACH_MISSING_TGW_RTB_ASSOCIATION"
	CodeTransitNoRoute  = "TGW_RTB_NO_ROUTE_TO_TGW_ATTACHMENT"
	CodeTransitBadRoute = "TGW_RTB_BAD_STATE_ROUTE"
	// CodeName is Drydock's own: Reachability Analyzer does not support names.
	CodeName             = "NAME_NOT_RESOLVED"
	CodeClassicListeners = "ELB_LISTENERS_MISMATCH"
	CodeListeners        = "ELBV2_LISTENERS_MISMATCH"
	CodeNoTargets        = "ELBV2_LISTENER_HAS_NO_TG"
	// CodeTargetHealth is Drydock's own: Reachability Analyzer does not check health.
	CodeTargetHealth = "TARGET_UNHEALTHY"
	// CodeFault is Drydock's own, too: something is deliberately broken.
	CodeFault = "FAULT"
)
