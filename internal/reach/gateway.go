package reach

import (
	"net/netip"
)

// route follows a packet on its way out of a subnet.
func (w *walk) route(sn *Subnet, e *Interface, p packet) {
	h := Hop{Kind: KindRouteTable, VPC: sn.VPC, Subnet: sn.ID}
	t := w.s.tableOf(sn)
	if t != nil {
		h.ID = t.ID
	}
	if w.tooFar(h) {
		return
	}
	r := w.s.lookup(t, p.dst)
	if r == nil {
		w.deny(h, Explanation{Code: CodeNoRoute, Interface: e.ID, Subnet: sn.ID, VPC: sn.VPC, Address: p.dst}, "%s of %s has no route to %s", h.ID, sn.ID, p.dst)
		return
	}
	h.Route = r
	if r.Target == Local {
		w.local(h, sn, p)
		return
	}
	blackhole := func() {
		w.deny(h, Explanation{Code: CodeBadStateRoute, Interface: e.ID, Subnet: sn.ID, VPC: sn.VPC, Address: p.dst, Route: r, State: "blackhole"},
			"the route %s of %s is a blackhole", r.text(), h.ID)
	}
	switch target := w.s.Get(r.Target).(type) {
	case *InternetGateway:
		if target.VPC != sn.VPC {
			blackhole()
			return
		}
		w.pass(h)
		w.internetGateway(target, e, p)
	case *EgressOnlyGateway:
		if target.VPC != sn.VPC {
			blackhole()
			return
		}
		w.pass(h)
		w.egressOnly(target, p)
	case *NATGateway:
		box, ok := get[*Interface](w.s, target.Interface)
		if !ok || target.VPC != sn.VPC || target.State == "deleted" {
			blackhole()
			return
		}
		w.pass(h)
		w.natGateway(target, box, sn, p)
	case *Peering:
		if target.State != "active" || target.Requester.VPC != sn.VPC && target.Accepter.VPC != sn.VPC {
			blackhole()
			return
		}
		w.pass(h)
		w.peering(target, sn, p)
	case *TransitGateway:
		a := w.s.Attachment(target.ID, sn.VPC)
		if a == nil || !a.Live() {
			blackhole()
			return
		}
		w.pass(h)
		if e.Type == TypeTransitGateway { // AWS deviation: it may go on from there
			w.deny(Hop{Kind: KindTransitGateway, ID: target.ID}, Explanation{Code: CodeNoDestination, Subnet: sn.ID}, "the route table of %s leads what comes from a transit gateway to one again", sn.ID)
			return
		}
		w.transitGateway(target, a, sn, p)
	case *VPNGateway:
		if target.VPC != sn.VPC {
			blackhole()
			return
		}
		w.pass(h)
		w.deny(Hop{Kind: KindVPNGateway, ID: target.ID, VPC: target.VPC}, Explanation{Code: CodeBadStateVPN, VPC: target.VPC, State: "DOWN"}, "no VPN connection of %s is up: there is no other network", target.ID)
	case *VPCEndpoint:
		if target.Type != GatewayEndpoint || target.VPC != sn.VPC {
			blackhole()
			return
		}
		w.pass(h)
		w.gatewayEndpoint(target, p)
	case *Interface:
		if target.VPC != sn.VPC || !target.Attached || target.Instance == "" {
			blackhole()
			return
		}
		w.pass(h)
		w.middlebox(target, sn, p)
	default:
		blackhole()
	}
}

// local delivers a packet within the VPC.
func (w *walk) local(h Hop, sn *Subnet, p packet) {
	near := w.s.InterfaceAt(sn.VPC, p.dst)
	if near == nil {
		w.deny(h, Explanation{Code: CodeNoDestination, Kind: KindVPC, Component: sn.VPC, Address: p.dst}, "nothing in %s has the address %s", sn.VPC, p.dst)
		return
	}
	w.pass(h)
	w.enter(near, sn.ID, p)
}

// internetGateway follows a packet that leaves a VPC for the internet.
func (w *walk) internetGateway(g *InternetGateway, e *Interface, p packet) {
	h := Hop{Kind: KindInternetGateway, ID: g.ID, VPC: g.VPC, In: p.header()}
	if !w.publicDestination(h, p.dst) {
		return
	}
	owner := w.s.InterfaceAt(g.VPC, p.src)
	if !w.reply && owner != e && e.NoSourceDestCheck && e.Instance != "" {
		p = w.masquerade(e, p)
		owner = e
	}
	if p.src.Is4() {
		if owner == nil || !w.mapped(owner, p.src) {
			x := Explanation{Code: CodePublicForEgress, Address: p.src, VPC: g.VPC}
			if owner != nil {
				x.Interface = owner.ID
			}
			w.deny(h, x, "%s has no public address: %s only carries traffic with a public address", p.src, g.ID)
			return
		}
		a, _ := owner.find(p.src)
		p.src = a.Public
	} else if owner == nil {
		w.deny(h, Explanation{Code: CodeSpoofed, Address: p.src, VPC: g.VPC}, "%s does not belong to an interface of %s", p.src, g.VPC)
		return
	}
	p.from = nil
	h.Out = p.header()
	if h.In.Source != p.src {
		h.Note = "translates " + h.In.Source.String() + " to " + p.src.String()
	}
	w.pass(h)
	w.internet(p)
}

// mapped reports whether a private address has a public one, on an interface that is in use.
func (w *walk) mapped(e *Interface, private netip.Addr) bool {
	a, ok := e.find(private)
	return ok && a.Public.IsValid() && e.Attached
}

// masquerade does what a NAT instance does: it replaces the source address by its own.
func (w *walk) masquerade(e *Interface, p packet) packet {
	own, ok := e.primary(p.src.Is6())
	if !ok {
		return p
	}
	w.natted = append(w.natted, translation{e.ID, p.src, p.sports})
	h := w.eniHop(e, "treated as a NAT instance, because its source/destination check is off")
	h.In = p.header()
	p.src, p.sports, p.from = own.Private, w.natPorts(p), e
	h.Out = p.header()
	w.pass(h)
	return p
}

// natPorts returns the source ports that NAT uses.
func (w *walk) natPorts(p packet) Ports {
	if p.proto.Ported() {
		return Ports{anyClient}
	}
	return p.sports
}

func (w *walk) publicDestination(h Hop, dst netip.Addr) bool {
	switch {
	case public(dst):
		return true
	case inAny(rfc6598, dst):
		w.deny(h, Explanation{Code: CodeNotRFC6598Egress, Address: dst}, "%s is an address of the shared range, which the internet does not route", dst)
	default:
		w.deny(h, Explanation{Code: CodeNotRFC1918Egress, Address: dst}, "%s is a private address, which the internet does not route", dst)
	}
	return false
}

// internet follows a packet on the internet.
func (w *walk) internet(p packet) {
	if w.reply {
		if p.dst != w.v.Source && !w.outside(p.dst) || p.src != w.v.Destination {
			w.deny(Hop{Kind: KindInternet, ID: p.dst.String()}, Explanation{Code: CodeNATReassign, Address: p.src},
				"the reply comes from %s, not from %s, where the packet was sent", p.src, w.v.Destination)
			return
		}
	}
	if w.homed(p.dst) {
		w.fromInternet(p)
		return
	}
	h := Hop{Kind: KindInternet, ID: p.dst.String(), In: p.header()}
	if name := w.s.hostNameAt(p.dst); name != nil && !w.reply {
		h.Note = name.Name
		if name.PublicFrom != nil && !inAny(name.PublicFrom, p.src) {
			w.deny(h, Explanation{Code: CodeNoDestination, Kind: KindName, Component: name.Owner, Address: p.src, PacketField: "source-address"},
				"%s answers only to %s, not to %s", name.Name, prefixes(name.PublicFrom), p.src)
			return
		}
	}
	w.pass(h)
	w.end = end{reached: true, kind: KindInternet, id: h.ID, packet: p}
}

// outside reports whether a was the connection's source address when it reached the internet. Translation may have
// changed it on the way.
func (w *walk) outside(a netip.Addr) bool {
	for i := range w.v.Forward {
		if h := &w.v.Forward[i]; h.Kind == KindInternetGateway && h.Out != nil && h.Out.Source == a {
			return true
		}
	}
	return false
}

// homed reports whether a public address belongs to one of the VPCs.
func (w *walk) homed(a netip.Addr) bool {
	if a.Is4() {
		_, ok := w.s.publics.get(a)
		return ok
	}
	return w.s.vpcOf(a) != nil
}

// vpcOf returns the VPC with a public IPv6 range that contains the address, or nil.
func (s *Snapshot) vpcOf(a netip.Addr) *vpcView {
	for _, v := range s.topology.vpcs {
		for _, c := range v.CIDRs {
			if c.Addr().Is6() && c.Contains(a) {
				return v
			}
		}
	}
	return nil
}

// fromInternet follows a packet from the internet to a VPC.
func (w *walk) fromInternet(p packet) {
	var e *Interface
	private := p.dst
	var vpc string
	if p.dst.Is4() {
		pub, _ := w.s.publics.get(p.dst)
		e, _ = get[*Interface](w.s, pub.eni)
		private = pub.private
	} else if v := w.s.vpcOf(p.dst); v != nil {
		e, vpc = w.s.InterfaceAt(v.ID, p.dst), v.ID
	}
	if e != nil {
		vpc = e.VPC
	}
	h := Hop{Kind: KindInternetGateway, VPC: vpc, In: p.header()}
	if w.reply && w.out6 != nil && p.dst.Is6() && w.out6.VPC == vpc && e != nil {
		h.Kind, h.ID, h.Note = KindEgressOnly, w.out6.ID, "lets replies in"
		w.pass(h)
		w.enter(e, "", p)
		return
	}
	v := w.s.vpc(vpc)
	if v == nil || v.gateway == nil {
		w.deny(Hop{Kind: KindVPC, ID: vpc, In: h.In}, Explanation{Code: CodeNoDestination, VPC: vpc, Missing: KindInternetGateway, Address: p.dst},
			"%s has no internet gateway", vpc)
		return
	}
	h.ID = v.gateway.ID
	switch {
	case inAny(rfc1918, p.src):
		w.deny(h, Explanation{Code: CodeNotRFC1918Ingress, Address: p.src, VPC: vpc}, "%s is a private address, which cannot come from the internet", p.src)
		return
	case inAny(rfc6598, p.src):
		w.deny(h, Explanation{Code: CodeNotRFC6598Ingress, Address: p.src, VPC: vpc}, "%s is an address of the shared range, which cannot come from the internet", p.src)
		return
	case e == nil || !e.Attached:
		w.deny(h, Explanation{Code: CodePrivateForIngress, Address: p.dst, VPC: vpc}, "%s is not an address of an interface in use", p.dst)
		return
	}
	if private != p.dst {
		p.dst = private
		h.Note = "translates " + h.In.Destination.String() + " to " + private.String()
	}
	p.from = nil
	h.Out = p.header()
	w.pass(h)
	if t := w.s.topology.tables[h.ID]; t != nil {
		w.ingress(t, e, p)
		return
	}
	w.enter(e, "", p)
}

// ingress follows a packet from an internet gateway with a route table of its own. The table leads it to its
// destination, or to an instance that forwards it.
// https://docs.aws.amazon.com/vpc/latest/userguide/gateway-route-tables.html
func (w *walk) ingress(t *RouteTable, e *Interface, p packet) {
	h := Hop{Kind: KindRouteTable, ID: t.ID, VPC: t.VPC, Route: w.s.lookup(t, p.dst)}
	if h.Route == nil || h.Route.Target == Local {
		w.pass(h)
		w.enter(e, "", p)
		return
	}
	box, ok := get[*Interface](w.s, h.Route.Target)
	if !ok || box.VPC != t.VPC || !box.Attached || box.Instance == "" {
		w.deny(h, Explanation{Code: CodeBadStateRoute, VPC: t.VPC, Address: p.dst, Route: h.Route, State: "blackhole"}, "the route %s of %s is a blackhole", h.Route.text(), t.ID)
		return
	}
	w.pass(h)
	w.middlebox(box, &Subnet{}, p)
}

// egressOnly follows an IPv6 packet that leaves by an egress-only gateway.
func (w *walk) egressOnly(g *EgressOnlyGateway, p packet) {
	h := Hop{Kind: KindEgressOnly, ID: g.ID, VPC: g.VPC, In: p.header()}
	switch {
	case p.dst.Is4():
		w.deny(h, Explanation{Code: CodeProtocol, Address: p.dst}, "%s is for IPv6 only", g.ID)
	case w.reply && w.out6 != g:
		w.deny(h, Explanation{Code: CodeNoDestination, Address: p.dst}, "%s only lets out connections that begin in its VPC, and lets in their replies", g.ID)
	case !w.publicDestination(h, p.dst):
	case w.s.InterfaceAt(g.VPC, p.src) == nil:
		w.deny(h, Explanation{Code: CodeSpoofed, Address: p.src, VPC: g.VPC}, "%s does not belong to an interface of %s", p.src, g.VPC)
	default:
		if !w.reply {
			w.out6 = g
		}
		p.from = nil
		w.pass(h)
		w.internet(p)
	}
}

// natOf returns the NAT gateway that an interface belongs to.
func (s *Snapshot) natOf(e *Interface) string {
	if id, ok := s.topology.owners[e.ID]; ok {
		return id
	}
	return e.ID
}

// natGateway follows a packet that is routed to a NAT gateway. It comes from its VPC, or through a transit gateway.
// https://docs.aws.amazon.com/vpc/latest/tgw/transit-gateway-nat-igw.html
// https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-basics.html
func (w *walk) natGateway(n *NATGateway, box *Interface, from *Subnet, p packet) {
	h := Hop{Kind: KindNATGateway, ID: n.ID, VPC: n.VPC, Subnet: n.Subnet, In: p.header()}
	if n.State != "" && n.State != "available" {
		w.deny(h, Explanation{Code: CodeBadState, State: n.State}, "%s is %s", n.ID, n.State)
		return
	}
	if w.severed(box) {
		return
	}
	own, ok := box.primary(p.src.Is6())
	switch {
	case w.reply:
		w.deny(h, Explanation{Code: CodeNATReassign, Address: p.src}, "the reply would leave through %s, with its address instead of %s", n.ID, p.src)
		return
	case !p.proto.Ported() && p.proto != ICMP:
		w.deny(h, Explanation{Code: CodeProtocol, Protocol: p.proto}, "%s carries TCP, UDP and ICMP over IPv4 only", n.ID)
		return
	case !ok || p.src.Is6():
		w.deny(h, Explanation{Code: CodeProtocol, Address: p.src}, "%s carries TCP, UDP and ICMP over IPv4 only", n.ID)
		return
	case p.entered != n.VPC && w.s.InterfaceAt(n.VPC, p.src) == nil:
		w.deny(h, Explanation{Code: CodeNATSource, Address: p.src, VPC: n.VPC}, "%s is not an address of %s", p.src, n.VPC)
		return
	}
	for _, t := range w.natted {
		if t.box == box.ID {
			w.deny(h, Explanation{Code: CodeNoDestination, Subnet: n.Subnet}, "the route table of %s's own subnet %s leads back to it", n.ID, n.Subnet)
			return
		}
	}
	if w.indirect(h, n.ID, p) {
		return
	}
	if sn, ok := get[*Subnet](w.s, n.Subnet); ok && n.Subnet != from.ID {
		p = w.acl(sn, false, p)
	}
	w.natted = append(w.natted, translation{box.ID, p.src, p.sports})
	h.Note = "translates " + p.src.String() + " to " + own.Private.String()
	p.src, p.sports, p.from = own.Private, w.natPorts(p), nil
	h.Out = p.header()
	w.pass(h)
	w.send(box, p)
}

// peering follows a packet into the other VPC. It is delivered there or dropped: peering is not transitive, so no
// gateway or other peering of that VPC forwards it.
// https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-basics.html#vpc-peering-limitations
func (w *walk) peering(c *Peering, sn *Subnet, p packet) {
	here, there := c.sides(sn.VPC)
	h := Hop{Kind: KindPeering, ID: c.ID, SourceVPC: here.VPC, TargetVPC: there.VPC}
	x := Explanation{Code: CodePeeringCIDR, TargetVPC: there.VPC, VPC: here.VPC}
	if !inAny(w.s.ranges(there), p.dst) {
		x.Address, x.PacketField = p.dst, "destination-address"
		w.deny(h, x, "%s is not in %s: %s does not lead beyond it", p.dst, there.VPC, c.ID)
		return
	}
	if !inAny(w.s.ranges(here), p.src) && p.src != w.client {
		x.Address, x.PacketField = p.src, "source-address"
		w.deny(h, x, "%s is not in %s: %s accepts only traffic from there", p.src, here.VPC, c.ID)
		return
	}
	if w.s.vpc(there.VPC) == nil {
		w.deny(h, Explanation{Code: CodeNoDestination, TargetVPC: there.VPC}, "%s is in another account or Region", there.VPC)
		return
	}
	near := w.s.InterfaceAt(there.VPC, p.dst)
	if near == nil {
		w.pass(h)
		w.deny(Hop{Kind: KindVPC, ID: there.VPC}, Explanation{Code: CodeNoDestination, Address: p.dst, VPC: there.VPC},
			"nothing in %s has the address %s", there.VPC, p.dst)
		return
	}
	w.pass(h)
	w.enter(near, "", p)
}

// ranges returns a side's CIDRs: the VPC's current ones, if the VPC is known.
func (s *Snapshot) ranges(side PeeringSide) []netip.Prefix {
	if v := s.vpc(side.VPC); v != nil {
		return v.CIDRs
	}
	return side.CIDRs
}

// gatewayEndpoint follows a packet to S3 or DynamoDB through a gateway endpoint.
func (w *walk) gatewayEndpoint(v *VPCEndpoint, p packet) {
	h := Hop{Kind: KindVPCEndpoint, ID: v.ID, VPC: v.VPC, Note: v.Service, In: p.header()}
	switch {
	case v.State != "" && v.State != "available":
		w.deny(h, Explanation{Code: CodeBadState, State: v.State}, "%s is %s", v.ID, v.State)
	case w.reply:
		w.deny(h, Explanation{Code: CodeNATReassign, Address: p.src}, "the reply would go to %s", v.Service)
	case p.proto != TCP && p.proto != ICMP:
		w.deny(h, Explanation{Code: CodeGatewayEndpointProto, Protocol: p.proto}, "%s takes TCP and ICMP echo only", v.ID)
	case w.s.InterfaceAt(v.VPC, p.src) == nil:
		w.deny(h, Explanation{Code: CodeSpoofed, Address: p.src, VPC: v.VPC}, "%s does not belong to an interface of %s", p.src, v.VPC)
	default:
		w.pass(h)
		w.v.Endpoint = v.ID
		w.end = end{reached: true, kind: KindVPCEndpoint, id: v.ID, vpc: v.VPC, packet: p}
	}
}

// middlebox follows a packet that is routed to the interface of an instance that forwards it.
func (w *walk) middlebox(e *Interface, from *Subnet, p packet) {
	if sn, ok := get[*Subnet](w.s, e.Subnet); ok && e.Subnet != from.ID {
		p = w.acl(sn, false, p)
	}
	if _, own := e.find(p.dst); own { // it is there, whoever routed it
		w.arrive(e, p)
		return
	}
	if w.severed(e) {
		return
	}
	w.groups(e, false, p)
	h := w.eniHop(e, "forwards")
	if !e.NoSourceDestCheck {
		w.deny(h, Explanation{Code: CodeSourceDestCheck, Address: p.dst, Interface: e.ID},
			"%s has its source/destination check on: it accepts only packets for its own addresses", e.ID)
		return
	}
	if w.indirect(h, e.ID, p) {
		return
	}
	w.pass(h)
	w.instance(e, nil, nil)
	p.lost = true
	w.leave(e, p)
}

// prefixes formats a list of ranges.
func prefixes(ps []netip.Prefix) string {
	if len(ps) == 0 {
		return "nobody"
	}
	s := ""
	for i, p := range ps {
		if i > 0 {
			s += ", "
		}
		s += p.String()
	}
	return s
}
