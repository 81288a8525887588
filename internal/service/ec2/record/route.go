package record

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// An EgressGateway lets IPv6 connections out of a VPC but not in.
type EgressGateway struct {
	ID    string // eigw-…
	VPCID string
	Tags  tag.Set `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (g EgressGateway) SDK(resource.Scope) ec2types.EgressOnlyInternetGateway {
	return ec2types.EgressOnlyInternetGateway{
		EgressOnlyInternetGatewayId: aws.String(g.ID),
		Attachments:                 []ec2types.InternetGatewayAttachment{{State: ec2types.AttachmentStatusAttached, VpcId: aws.String(g.VPCID)}},
		Tags:                        g.Tags.SDK(),
	}
}

// An InternetGateway connects the VPC that it is attached to with the internet.
type InternetGateway struct {
	ID    string
	VPCID string  `json:",omitempty"` // empty while detached
	Tags  tag.Set `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (g InternetGateway) SDK(sc resource.Scope) ec2types.InternetGateway {
	out := ec2types.InternetGateway{
		InternetGatewayId: aws.String(g.ID),
		OwnerId:           aws.String(sc.Account),
		Attachments:       []ec2types.InternetGatewayAttachment{},
		Tags:              g.Tags.SDK(),
	}
	if g.VPCID != "" {
		// EC2 returns "available", not the enum's "attached". Terraform waits for it.
		out.Attachments = append(out.Attachments, ec2types.InternetGatewayAttachment{State: "available", VpcId: aws.String(g.VPCID)})
	}
	return out
}

// States of NAT gateways.
const (
	NATPending   = "pending"
	NATAvailable = "available"
	NATFailed    = "failed"
	NATDeleting  = "deleting"
	NATDeleted   = "deleted"
)

// A NATGateway translates the addresses of a VPC's interfaces: a public one to its elastic address,
// a private one to its private address.
type NATGateway struct {
	ID       string
	SubnetID string
	VPCID    string
	Zone     string
	Private  bool `json:",omitempty"`
	State    string
	Since    time.Time
	Created  time.Time
	Deleted  time.Time `json:",omitzero"`
	// FailureCode and FailureMessage say why it failed or will fail.
	FailureCode    string `json:",omitempty"`
	FailureMessage string `json:",omitempty"`
	// Addresses are those of its interface, the primary one first.
	Addresses []NATAddress
	Tags      tag.Set `json:",omitempty"`
}

// A NATAddress is an address of a NAT gateway.
type NATAddress struct {
	AllocationID  string `json:",omitempty"`
	AssociationID string `json:",omitempty"`
	PublicIP      string `json:",omitempty"`
	PrivateIP     string `json:",omitempty"`
	InterfaceID   string `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (n NATGateway) SDK(resource.Scope) ec2types.NatGateway {
	out := ec2types.NatGateway{
		NatGatewayId: aws.String(n.ID), SubnetId: aws.String(n.SubnetID), VpcId: aws.String(n.VPCID),
		State: ec2types.NatGatewayState(n.State), CreateTime: aws.Time(n.Created), ConnectivityType: ec2types.ConnectivityTypePublic,
		AvailabilityMode: ec2types.AvailabilityModeZonal, Tags: n.Tags.SDK(),
	}
	if n.Private {
		out.ConnectivityType = ec2types.ConnectivityTypePrivate
	}
	if !n.Deleted.IsZero() {
		out.DeleteTime = aws.Time(n.Deleted)
	}
	if n.State == NATFailed {
		out.FailureCode, out.FailureMessage = resource.Optional(n.FailureCode), resource.Optional(n.FailureMessage)
	}
	for i, a := range n.Addresses {
		out.NatGatewayAddresses = append(out.NatGatewayAddresses, ec2types.NatGatewayAddress{
			AllocationId: resource.Optional(a.AllocationID), AssociationId: resource.Optional(a.AssociationID), PublicIp: resource.Optional(a.PublicIP),
			PrivateIp: resource.Optional(a.PrivateIP), NetworkInterfaceId: resource.Optional(a.InterfaceID),
			IsPrimary: aws.Bool(i == 0), Status: ec2types.NatGatewayAddressStatusSucceeded,
		})
	}
	return out
}

// A Peering connects two VPCs. The account and region of each side has a copy; the copies differ
// only in their tags. If both sides are in the same account and region, there is just one record.
type Peering struct {
	ID        string // pcx-…
	Requester PeeringSide
	Accepter  PeeringSide
	State     ec2types.VpcPeeringConnectionStateReasonCode // only active connections carry traffic
	Message   string
	Since     time.Time
	// Expires is when an unaccepted request expires.
	Expires time.Time `json:",omitzero"`
	Tags    tag.Set   `json:",omitempty"`
}

// A PeeringSide is one of the two VPCs of a connection.
type PeeringSide struct {
	Account, Region string
	VPCID           string
	CIDR            string // the primary block when the connection was requested
	// AllowDNS lets the other VPC resolve this side's public hostnames to private addresses:
	// AllowDnsResolutionFromRemoteVpc.
	AllowDNS bool `json:",omitempty"`
}

// Scope returns the account and region of the side's VPC.
func (d PeeringSide) Scope() resource.Scope {
	return resource.Scope{Account: d.Account, Region: d.Region}
}

// Active reports whether the connection carries traffic.
func (p Peering) Active() bool {
	return p.State == ec2types.VpcPeeringConnectionStateReasonCodeActive
}

// Live reports whether the connection carries traffic or still may.
func (p Peering) Live() bool {
	return p.Active() || p.State == ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance
}

// Side returns the side of a VPC, or nil if the VPC is on neither side.
func (p *Peering) Side(sc resource.Scope, vpc string) *PeeringSide {
	for _, d := range []*PeeringSide{&p.Requester, &p.Accepter} {
		if d.Scope() == sc && d.VPCID == vpc {
			return d
		}
	}
	return nil
}

// Other returns the side opposite a VPC.
func (p Peering) Other(sc resource.Scope, vpc string) PeeringSide {
	if p.Requester.Scope() == sc && p.Requester.VPCID == vpc {
		return p.Accepter
	}
	return p.Requester
}

// Put stores both copies of a connection. Existing copies keep their tags.
func (p Peering) Put(tx *store.Tx) error {
	for i, sc := range []resource.Scope{p.Requester.Scope(), p.Accepter.Scope()} {
		if i == 1 && sc == p.Requester.Scope() {
			break
		}
		mine := p
		old, err := Peerings.Get(tx, sc.Key(p.ID))
		switch {
		case err == nil:
			mine.Tags = old.Tags
		case !resource.NotFound(err):
			return err
		case i == 1:
			mine.Tags = nil
		}
		if err := Peerings.Put(tx, sc.Key(p.ID), mine); err != nil {
			return err
		}
	}
	return nil
}

// ActivePeering returns the active connection between two VPCs.
func ActivePeering(r store.Reader, sc resource.Scope, vpc string, peer resource.Scope, peerVPC string) (Peering, bool) {
	all := resource.List(r, Peerings, sc, func(p Peering) bool {
		o := p.Other(sc, vpc)
		return p.Active() && p.Side(sc, vpc) != nil && o.Scope() == peer && o.VPCID == peerVPC
	})
	if len(all) == 0 {
		return Peering{}, false
	}
	return all[0], true
}

// Options returns the side's options.
func (d PeeringSide) Options() *ec2types.VpcPeeringConnectionOptionsDescription {
	return &ec2types.VpcPeeringConnectionOptionsDescription{
		AllowDnsResolutionFromRemoteVpc:            aws.Bool(d.AllowDNS),
		AllowEgressFromLocalClassicLinkToRemoteVpc: aws.Bool(false),
		AllowEgressFromLocalVpcToRemoteClassicLink: aws.Bool(false),
	}
}

// MayAnswer returns an error unless the caller is the accepter.
func (p Peering) MayAnswer(sc resource.Scope, verb, past string) error {
	switch {
	case p.Accepter.Account != sc.Account:
		return ec2err.NotPermitted("User (%s) cannot %s peering %s", sc.Account, verb, p.ID)
	case p.Accepter.Region != sc.Region:
		return ec2err.NotPermitted("Incorrect region (%s) specified for this request. VPC peering connection %s must be %s in region %s", sc.Region, p.ID, past, p.Accepter.Region)
	}
	return nil
}

// BadTransition returns the error for a state change that the connection does not allow.
func (p Peering) BadTransition(to string) error {
	return ec2err.New("InvalidStateTransition", "Invalid state transition for %s, attempted to transition from %s to %s", p.ID, p.State, to)
}

// A RouteTable is a route table with its routes.
type RouteTable struct {
	ID           string
	VPCID        string
	Associations []RouteTableAssociation `json:",omitempty"`
	Routes       []Route
	// Propagating are the virtual private gateways that propagate their routes to the table.
	Propagating []string `json:",omitempty"`
	Tags        tag.Set  `json:",omitempty"`
}

// A RouteTableAssociation associates a route table with a subnet, with its VPC, or with a gateway, whose traffic to the
// VPC it then routes.
type RouteTableAssociation struct {
	ID        string
	SubnetID  string `json:",omitempty"` // empty for the main association
	GatewayID string `json:",omitempty"` // igw-… or vgw-…
	Main      bool   `json:",omitempty"`
}

// A Route directs traffic for a destination to one target.
type Route struct {
	Destination string // IPv4 or IPv6 block, or prefix list: pl-…
	// Exactly one target is set, except that InstanceID comes with InterfaceID.
	GatewayID           string `json:",omitempty"` // igw-…, vgw-…, local, or vpce-… of a gateway endpoint
	InterfaceID         string `json:",omitempty"`
	InstanceID          string `json:",omitempty"`
	NATGatewayID        string `json:",omitempty"`
	PeeringID           string `json:",omitempty"`
	EgressOnlyGatewayID string `json:",omitempty"`
	TransitGatewayID    string `json:",omitempty"`
	Origin              string
}

// Has reports whether the table is associated with a subnet.
func (t RouteTable) Has(subnet string) bool {
	return slices.ContainsFunc(t.Associations, func(a RouteTableAssociation) bool { return a.SubnetID == subnet })
}

// Without returns t without the association of a subnet.
func (t RouteTable) Without(subnet string) RouteTable {
	t.Associations = slices.DeleteFunc(slices.Clone(t.Associations), func(a RouteTableAssociation) bool { return a.SubnetID == subnet })
	return t
}

// Find returns the index of the route to a destination, or -1 if not found.
func (t RouteTable) Find(destination string) int {
	return slices.IndexFunc(t.Routes, func(r Route) bool { return r.Destination == destination })
}

// Target returns the ID of the route's target.
func (r Route) Target() string {
	return r.GatewayID + r.InstanceID + r.InterfaceID + r.NATGatewayID + r.PeeringID + r.EgressOnlyGatewayID + r.TransitGatewayID
}

// IsPrefixList reports whether the destination is a prefix list.
func (r Route) IsPrefixList() bool { return strings.HasPrefix(r.Destination, "pl-") }
