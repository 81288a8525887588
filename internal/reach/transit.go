package reach

import (
	"net/netip"
	"slices"
	"strings"
)

// A TransitGateway connects the VPCs that are attached to it.
type TransitGateway struct {
	ID, Name   string
	State      string // available, …
	DNSSupport bool
}

// A TransitAttachment attaches a VPC to a transit gateway.
type TransitAttachment struct {
	ID, Name, Gateway, VPC string
	State                  string // available, …
	// Subnets are those with an interface of the gateway, one in each zone. Interfaces are these, in the same order.
	Subnets, Interfaces []string
	IPv6, DNSSupport    bool
	// Table is the route table of the gateway that routes what comes from the VPC.
	Table string
	// Propagates are the tables that have routes to the VPC's blocks.
	Propagates []string
}

// A TransitTable is a route table of a transit gateway, with its static routes.
type TransitTable struct {
	ID, Name, Gateway string
	Routes            []TransitRoute
}

// A TransitRoute leads to an attachment, or nowhere if it has none.
type TransitRoute struct {
	Destination netip.Prefix // or
	PrefixList  string
	Attachment  string
}

// ResourceID returns the ID.
func (r *TransitGateway) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *TransitAttachment) ResourceID() string { return r.ID }

// ResourceID returns the ID.
func (r *TransitTable) ResourceID() string { return r.ID }

// Live reports whether it carries packets.
func (r *TransitAttachment) Live() bool {
	return r.State == "" || r.State == "available" || r.State == "modifying"
}

// Attachment returns a VPC's attachment to a transit gateway, or nil.
func (s *Snapshot) Attachment(gateway, vpc string) *TransitAttachment {
	v := s.vpc(vpc)
	if v == nil {
		return nil
	}
	for _, a := range v.transits {
		if a.Gateway == gateway {
			return a
		}
	}
	return nil
}

// Attachments returns a VPC's attachments to transit gateways, sorted by ID.
func (s *Snapshot) Attachments(vpc string) []*TransitAttachment {
	if v := s.vpc(vpc); v != nil {
		return v.transits
	}
	return nil
}

// carries returns the blocks of an attachment's VPC that it carries packets for.
func (s *Snapshot) carries(a *TransitAttachment) []netip.Prefix {
	var out []netip.Prefix
	if v := s.vpc(a.VPC); v != nil && a.Live() {
		for _, c := range v.CIDRs {
			if c.Addr().Is4() || a.IPv6 {
				out = append(out, c)
			}
		}
	}
	return out
}

// TransitRoutes returns the routes of a transit gateway's table, at most one for each destination, with the best first
// in each place: static routes come before those of prefix lists, and both before propagated ones.
// https://docs.aws.amazon.com/vpc/latest/tgw/how-transit-gateways-work.html#tgw-route-evaluation-overview
func (s *Snapshot) TransitRoutes(t *TransitTable) []TransitRoute {
	var out []TransitRoute
	seen := map[netip.Prefix]bool{}
	add := func(c netip.Prefix, r TransitRoute) {
		if c = c.Masked(); !seen[c] {
			seen[c] = true
			r.Destination = c
			out = append(out, r)
		}
	}
	for _, r := range t.Routes {
		if r.PrefixList == "" {
			add(r.Destination, r)
		}
	}
	for _, r := range t.Routes {
		if pl, ok := get[*PrefixList](s, r.PrefixList); ok {
			for _, c := range pl.CIDRs {
				add(c, r)
			}
		}
	}
	for _, a := range s.topology.transits {
		if slices.Contains(a.Propagates, t.ID) {
			for _, c := range s.carries(a) {
				add(c, TransitRoute{Attachment: a.ID})
			}
		}
	}
	return out
}

// transitRoute returns the route of a transit gateway's table to an address.
func (s *Snapshot) transitRoute(t *TransitTable, dst netip.Addr) (TransitRoute, bool) {
	var best TransitRoute
	for _, r := range s.TransitRoutes(t) {
		if r.Destination.Contains(dst) && (!best.Destination.IsValid() || r.Destination.Bits() > best.Destination.Bits()) {
			best = r
		}
	}
	return best, best.Destination.IsValid()
}

// In returns the attachment's subnet and interface for packets from a zone: those in the zone or, for packets that
// leave the gateway, in the first zone that it has.
func (r *TransitAttachment) In(s *Snapshot, zone string, leaving bool) (*Subnet, *Interface) {
	var found *Subnet
	var through *Interface
	for i, id := range r.Subnets {
		sn, ok := get[*Subnet](s, id)
		if !ok || sn.Zone != zone && (!leaving || found != nil && (found.Zone == zone || found.Zone <= sn.Zone)) {
			continue
		}
		found, through = sn, &Interface{VPC: r.VPC, Subnet: id, Zone: sn.Zone, Type: TypeTransitGateway, Attached: true}
		if i < len(r.Interfaces) {
			if e, ok := get[*Interface](s, r.Interfaces[i]); ok {
				through = e
			}
		}
	}
	return found, through
}

// transitGateway follows a packet from a VPC's subnet through a transit gateway to another VPC, where the route table
// of the attachment's subnet routes it. Network ACLs apply as described in
// https://docs.aws.amazon.com/vpc/latest/tgw/tgw-nacls.html
func (w *walk) transitGateway(g *TransitGateway, from *TransitAttachment, sn *Subnet, p packet) {
	h := Hop{Kind: KindTransitAttachment, ID: from.ID, VPC: sn.VPC, Zone: sn.Zone}
	near, _ := from.In(w.s, sn.Zone, false)
	if near == nil {
		w.deny(h, Explanation{Code: CodeTransitZone, Subnet: sn.ID, VPC: sn.VPC}, "%s has no subnet in %s, so nothing in that zone reaches %s", from.ID, sn.Zone, g.ID)
		return
	}
	p = w.acl(near, false, p)
	if p.dst.Is6() && !from.IPv6 {
		w.deny(h, Explanation{Code: CodeProtocol, Address: p.dst}, "%s does not carry IPv6", from.ID)
		return
	}
	if w.indirect(h, g.ID, p) {
		return
	}
	t, ok := get[*TransitTable](w.s, from.Table)
	if !ok {
		w.deny(h, Explanation{Code: CodeTransitNoTable, VPC: sn.VPC}, "%s is not associated with a route table of %s", from.ID, g.ID)
		return
	}
	w.pass(h)
	w.pass(Hop{Kind: KindTransitGateway, ID: g.ID})
	h = Hop{Kind: KindTransitTable, ID: t.ID}
	r, ok := w.s.transitRoute(t, p.dst)
	if !ok {
		w.deny(h, Explanation{Code: CodeTransitNoRoute, Address: p.dst, VPC: sn.VPC}, "%s of %s has no route to %s", t.ID, g.ID, p.dst)
		return
	}
	h.Note = r.Destination.String() + " → " + r.Attachment
	to, ok := get[*TransitAttachment](w.s, r.Attachment)
	if !ok || !to.Live() {
		h.Note = ""
		w.deny(h, Explanation{Code: CodeTransitBadRoute, Address: p.dst, VPC: sn.VPC, State: "blackhole"}, "the route of %s to %s is a blackhole", t.ID, r.Destination)
		return
	}
	w.pass(h)
	h = Hop{Kind: KindTransitAttachment, ID: to.ID, VPC: to.VPC}
	far, through := to.In(w.s, sn.Zone, true)
	switch {
	case far == nil:
		w.deny(h, Explanation{Code: CodeTransitZone, VPC: to.VPC}, "%s has no subnet", to.ID)
		return
	case p.dst.Is6() && !to.IPv6:
		w.deny(h, Explanation{Code: CodeProtocol, Address: p.dst}, "%s does not carry IPv6", to.ID)
		return
	}
	h.Zone, h.Subnet = far.Zone, far.ID
	w.pass(h)
	p.lost, p.entered = true, to.VPC
	if e := w.s.InterfaceAt(far.VPC, p.dst); e != nil && e.Subnet == far.ID {
		w.arrive(e, p) // network ACLs do not apply
		return
	}
	w.route(far, through, w.acl(far, true, p))
}

// transited returns the transit gateway that two VPCs are attached to, or nil.
func (s *Snapshot) transited(a, b string) *TransitGateway {
	for _, x := range s.Attachments(a) {
		if y := s.Attachment(x.Gateway, b); y != nil && x.Live() && y.Live() {
			if g, ok := get[*TransitGateway](s, x.Gateway); ok {
				return g
			}
		}
	}
	return nil
}

// transitNames reports whether public names of a VPC's instances resolve to private addresses in another VPC because of
// a transit gateway.
// https://docs.aws.amazon.com/vpc/latest/tgw/tgw-vpc-attachments.html
func (s *Snapshot) transitNames(vpc, owner string) bool {
	g := s.transited(vpc, owner)
	return g != nil && g.DNSSupport && s.Attachment(g.ID, vpc).DNSSupport && s.Attachment(g.ID, owner).DNSSupport
}

func byAttachmentID(a, b *TransitAttachment) int { return strings.Compare(a.ID, b.ID) }
