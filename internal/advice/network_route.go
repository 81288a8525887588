package advice

import (
	"net/netip"
	"slices"

	"github.com/drydock-dev/drydock/internal/reach"
)

// routes proposes routes to the address: through a gateway endpoint, a peering connection, or out of the VPC.
func (p *proposer) routes(x *reach.Explanation) []Change {
	if x.Component == "" {
		return nil
	}
	var out []Change
	if c, ok := p.store(x); ok {
		out = append(out, c)
	}
	if pcx, there := p.s.PeeringTo(x.VPC, x.Address); pcx != nil {
		if pcx.State == "pending-acceptance" {
			out = append(out, Change{Kind: AcceptPeering, Resource: pcx.ID, Cost: reaches(costSetting)})
		}
		out = append(out, p.route(x, there, pcx.ID, costSetting))
	}
	if to, there := p.behind(x.VPC, x.Address); to != nil {
		out = append(out, p.route(x, there, to.Gateway, costSetting))
	}
	if !reach.Public(x.Address) {
		return out
	}
	open := 0
	if closed(p.s, x.VPC) {
		open = costOpen
	}
	if p.private(x) {
		for _, id := range p.nats(x) {
			out = append(out, p.route(x, all(x.Address), id, costRoute+open))
		}
	}
	if g := p.s.Gateway(x.VPC); g != nil {
		out = append(out, p.route(x, all(x.Address), g.ID, costRoute+1+open))
	} else {
		out = append(out, Change{Kind: AttachGateway, Resource: gatewayVariable, VPC: x.VPC, Cost: reaches(costGateway + open)})
	}
	return out
}

// route adds a route to the table that lacks one, or replaces one that leads nowhere. It does not replace a route to
// more addresses than needed.
func (p *proposer) route(x *reach.Explanation, to netip.Prefix, target string, cost int) Change {
	c := Change{Kind: AddRoute, Resource: x.Component, Route: &reach.Route{Destination: to, Target: target}, Cost: reaches(cost)}
	if r := x.Route; r != nil && (r.PrefixList != "" || to.Bits() <= r.Destination.Bits()) {
		c.Kind = ReplaceRoute
		c.Route.Destination, c.Route.PrefixList = r.Destination, r.PrefixList
		c.Cost.Effort++
	} else if t, ok := p.s.Get(x.Component).(*reach.RouteTable); ok && slices.ContainsFunc(t.Routes, func(r reach.Route) bool { return r.Destination == to }) {
		c.Kind = ReplaceRoute
	}
	return c
}

// private reports whether the interface whose packet needs a way out has no public address.
func (p *proposer) private(x *reach.Explanation) bool {
	e, ok := p.s.Get(x.Interface).(*reach.Interface)
	return ok && !x.Return && x.Address.Is4() && (len(e.Addresses) == 0 || !e.Addresses[0].Public.IsValid())
}

// nats returns working NAT gateways of a VPC in other subnets.
func (p *proposer) nats(x *reach.Explanation) []string {
	var out []string
	for r := range p.s.All {
		if n, ok := r.(*reach.NATGateway); ok && n.VPC == x.VPC && n.Subnet != x.Subnet && (n.State == "" || n.State == "available") {
			out = append(out, n.ID)
		}
	}
	slices.Sort(out)
	return out[:min(2, len(out))]
}

// throughNewNAT proposes a NAT gateway in a subnet that has a way out, with a route to it.
func (p *proposer) throughNewNAT(x *reach.Explanation) []Change {
	if x.Code != reach.CodeNoRoute && x.Code != reach.CodeBadStateRoute || !p.private(x) || !reach.Public(x.Address) || len(p.nats(x)) > 0 || p.s.Get(natVariable) != nil {
		return nil
	}
	g := p.s.Gateway(x.VPC)
	if g == nil {
		return nil
	}
	var public []string
	for r := range p.s.All {
		sn, ok := r.(*reach.Subnet)
		if !ok || sn.VPC != x.VPC || sn.ID == x.Subnet {
			continue
		}
		if t := p.s.Table(sn); t != nil && t.ID != x.Component && slices.ContainsFunc(t.Routes, func(r reach.Route) bool { return r.Target == g.ID && r.Destination == everywhere }) {
			public = append(public, sn.ID)
		}
	}
	if len(public) == 0 {
		return nil
	}
	slices.Sort(public)
	cost := costNATGateway
	if closed(p.s, x.VPC) {
		cost += costOpen
	}
	return []Change{
		{Kind: CreateNATGateway, Resource: natVariable, VPC: x.VPC, Subnets: public[:1], Cost: Cost{Reach: cost - costEndpoint, Effort: costEndpoint}},
		p.route(x, all(x.Address), natVariable, costRoute),
	}
}

// throughNewPeering connects the VPC with the VPC of a private address, with routes in both directions. VPCs whose
// ranges overlap cannot be connected.
// https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-basics.html#vpc-peering-limitations
func (p *proposer) throughNewPeering(x *reach.Explanation) []Change {
	if x.Code != reach.CodeNoRoute && x.Code != reach.CodeBadStateRoute || x.Return || x.Component == "" || reach.Public(x.Address) || p.s.Get(peeringVariable) != nil {
		return nil
	}
	here := p.s.VPC(x.VPC)
	if pcx, _ := p.s.PeeringTo(x.VPC, x.Address); here == nil || pcx != nil {
		return nil
	}
	if to, _ := p.behind(x.VPC, x.Address); to != nil {
		return nil
	}
	var there *reach.VPC
	for r := range p.s.All {
		v, ok := r.(*reach.VPC)
		if !ok || v.ID == here.ID || p.s.InterfaceAt(v.ID, x.Address) == nil {
			continue
		}
		if there != nil {
			return nil // two may be meant
		}
		there = v
	}
	if there == nil || overlap(here.CIDRs, there.CIDRs) {
		return nil
	}
	out := []Change{{Kind: CreatePeering, Resource: peeringVariable, VPC: here.ID, Value: there.ID, Cost: reaches(costPeering)}}
	for _, c := range there.CIDRs {
		if c.Contains(x.Address) {
			out = append(out, p.route(x, c, peeringVariable, costRoute))
		}
	}
	// A name may stand for interfaces in several subnets.
	targets := []netip.Addr{x.Address}
	if p.v.Resolution != nil {
		targets = append(targets, p.v.Resolution.Addresses...)
	}
	seen := map[string]bool{}
	for _, a := range targets {
		e := p.s.InterfaceAt(there.ID, a)
		if e == nil {
			continue
		}
		sn, ok := p.s.Get(e.Subnet).(*reach.Subnet)
		if !ok {
			continue
		}
		if t := p.s.Table(sn); t != nil && !seen[t.ID] {
			seen[t.ID] = true
			for _, c := range here.CIDRs {
				out = append(out, Change{Kind: AddRoute, Resource: t.ID, Route: &reach.Route{Destination: c, Target: peeringVariable}, Cost: reaches(costRoute)})
			}
		}
	}
	return out
}

func overlap(a, b []netip.Prefix) bool {
	return slices.ContainsFunc(a, func(x netip.Prefix) bool { return slices.ContainsFunc(b, x.Overlaps) })
}
