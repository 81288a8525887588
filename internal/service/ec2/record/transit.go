package record

import (
	"net/netip"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// States of transit gateways, their attachments and their route tables. They share most of their words.
// https://docs.aws.amazon.com/vpc/latest/tgw/tgw-vpc-attachments.html#vpc-attachment-lifecycle
const (
	TransitPending   = "pending"
	TransitAvailable = "available"
	TransitModifying = "modifying"
	TransitDeleting  = "deleting"
	TransitDeleted   = "deleted"
)

// A TransitLife is the state of a transit gateway or of a part of one, and when it began.
type TransitLife struct {
	State   string
	Since   time.Time
	Created time.Time
}

// Live reports whether it exists or is being created or changed.
func (l TransitLife) Live() bool {
	return l.State == TransitPending || l.State == TransitAvailable || l.State == TransitModifying
}

// A TransitGateway connects the VPCs that are attached to it.
type TransitGateway struct {
	ID          string // tgw-…
	Description string `json:",omitempty"`
	TransitLife
	ASN        int64
	AutoAccept bool `json:",omitempty"`
	NoDNS      bool `json:",omitempty"`
	NoECMP     bool `json:",omitempty"`
	// AssociationTable and PropagationTable are the route tables with which new attachments are associated, and to
	// which they propagate. Empty if none.
	AssociationTable string   `json:",omitempty"`
	PropagationTable string   `json:",omitempty"`
	CIDRs            []string `json:",omitempty"`
	Tags             tag.Set  `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (g TransitGateway) SDK(sc resource.Scope) ec2types.TransitGateway {
	o := &ec2types.TransitGatewayOptions{
		AmazonSideAsn:                   aws.Int64(g.ASN),
		AssociationDefaultRouteTableId:  resource.Optional(g.AssociationTable),
		PropagationDefaultRouteTableId:  resource.Optional(g.PropagationTable),
		DefaultRouteTableAssociation:    ec2types.DefaultRouteTableAssociationValue(enabled(g.AssociationTable != "")),
		DefaultRouteTablePropagation:    ec2types.DefaultRouteTablePropagationValue(enabled(g.PropagationTable != "")),
		AutoAcceptSharedAttachments:     ec2types.AutoAcceptSharedAttachmentsValue(enabled(g.AutoAccept)),
		DnsSupport:                      ec2types.DnsSupportValue(enabled(!g.NoDNS)),
		VpnEcmpSupport:                  ec2types.VpnEcmpSupportValue(enabled(!g.NoECMP)),
		MulticastSupport:                ec2types.MulticastSupportValueDisable,
		SecurityGroupReferencingSupport: ec2types.SecurityGroupReferencingSupportValueDisable,
		TransitGatewayCidrBlocks:        g.CIDRs,
	}
	return ec2types.TransitGateway{
		TransitGatewayId: aws.String(g.ID), TransitGatewayArn: aws.String(sc.ARN("transit-gateway", g.ID)), OwnerId: aws.String(sc.Account),
		State: ec2types.TransitGatewayState(g.State), CreationTime: aws.Time(g.Created), Description: aws.String(g.Description),
		Options: o, Tags: g.Tags.SDK(),
	}
}

func enabled(on bool) string {
	if on {
		return "enable"
	}
	return "disable"
}

// A TransitAttachment attaches a VPC to a transit gateway. It has a network interface in each of its subnets.
type TransitAttachment struct {
	ID        string // tgw-attach-…
	GatewayID string
	VPCID     string
	TransitLife
	Subnets   []TransitSubnet
	NoDNS     bool `json:",omitempty"`
	IPv6      bool `json:",omitempty"`
	Appliance bool `json:",omitempty"`
	// Table is the route table that routes what comes from the VPC. Empty if none is associated.
	Table string `json:",omitempty"`
	// Propagates are the route tables that have routes to the VPC's blocks.
	Propagates []string `json:",omitempty"`
	Tags       tag.Set  `json:",omitempty"`
}

// A TransitSubnet is one of an attachment's subnets, each in another zone.
type TransitSubnet struct{ SubnetID, Zone, InterfaceID string }

// SubnetIDs returns the IDs of the attachment's subnets.
func (a TransitAttachment) SubnetIDs() []string {
	return resource.Map(a.Subnets, func(s TransitSubnet) string { return s.SubnetID })
}

// SDK renders the record for the SDK.
func (a TransitAttachment) SDK(sc resource.Scope) ec2types.TransitGatewayVpcAttachment {
	return ec2types.TransitGatewayVpcAttachment{
		TransitGatewayAttachmentId: aws.String(a.ID), TransitGatewayId: aws.String(a.GatewayID),
		VpcId: aws.String(a.VPCID), VpcOwnerId: aws.String(sc.Account),
		State: ec2types.TransitGatewayAttachmentState(a.State), CreationTime: aws.Time(a.Created), SubnetIds: a.SubnetIDs(),
		Options: &ec2types.TransitGatewayVpcAttachmentOptions{
			DnsSupport: ec2types.DnsSupportValue(enabled(!a.NoDNS)), Ipv6Support: ec2types.Ipv6SupportValue(enabled(a.IPv6)),
			ApplianceModeSupport:            ec2types.ApplianceModeSupportValue(enabled(a.Appliance)),
			SecurityGroupReferencingSupport: ec2types.SecurityGroupReferencingSupportValueDisable,
		},
		Tags: a.Tags.SDK(),
	}
}

// A TransitRouteTable routes what comes from the attachments that are associated with it. Its static routes are
// stored; those that attachments propagate follow from the attachments and their VPCs (TransitRoutes).
type TransitRouteTable struct {
	ID        string // tgw-rtb-…
	GatewayID string
	TransitLife
	Routes []TransitRoute `json:",omitempty"`
	Lists  []TransitRoute `json:",omitempty"` // references to prefix lists; the destination is pl-…
	Tags   tag.Set        `json:",omitempty"`
}

// A TransitRoute leads to an attachment, or nowhere if it has none.
type TransitRoute struct {
	Destination  string
	AttachmentID string `json:",omitempty"`
	// Propagated is set for routes that no request created.
	Propagated bool `json:",omitempty"`
	// List is the prefix list that the destination comes from.
	List string `json:",omitempty"`
}

// Live reports whether packets can follow the route.
func (r TransitRoute) Live(rd store.Reader, sc resource.Scope) bool {
	a, err := TransitAttachments.Get(rd, sc.Key(r.AttachmentID))
	return err == nil && a.Live()
}

// TransitRoutes returns all routes of a table, at most one for each destination: a static route comes before those of
// prefix lists, and both before propagated ones.
// https://docs.aws.amazon.com/vpc/latest/tgw/how-transit-gateways-work.html#tgw-route-evaluation-overview
func TransitRoutes(r store.Reader, sc resource.Scope, t TransitRouteTable, entries func(list string) []string) []TransitRoute {
	out := slices.Clone(t.Routes)
	seen := map[string]bool{}
	for _, x := range out {
		seen[x.Destination] = true
	}
	add := func(x TransitRoute) {
		if !seen[x.Destination] {
			seen[x.Destination] = true
			out = append(out, x)
		}
	}
	for _, l := range t.Lists {
		for _, c := range entries(l.Destination) {
			add(TransitRoute{Destination: c, AttachmentID: l.AttachmentID, List: l.Destination})
		}
	}
	attached := resource.List(r, TransitAttachments, sc, func(a TransitAttachment) bool {
		return a.Live() && slices.Contains(a.Propagates, t.ID)
	})
	for _, a := range attached {
		v, err := VPCs.Get(r, sc.Key(a.VPCID))
		if err != nil {
			continue
		}
		for _, p := range v.Prefixes() {
			add(TransitRoute{Destination: p.String(), AttachmentID: a.ID, Propagated: true})
		}
		for _, p := range v.Prefixes6() {
			if a.IPv6 {
				add(TransitRoute{Destination: p.String(), AttachmentID: a.ID, Propagated: true})
			}
		}
	}
	slices.SortFunc(out, func(a, b TransitRoute) int { return comparePrefixes(a.Destination, b.Destination) })
	return out
}

func comparePrefixes(a, b string) int {
	x, _ := netip.ParsePrefix(a)
	y, _ := netip.ParsePrefix(b)
	if c := x.Addr().Compare(y.Addr()); c != 0 {
		return c
	}
	return x.Bits() - y.Bits()
}
