package advice

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/reach"
)

// Costs, by how much a change opens: a single peer costs less than its subnet, which costs less than the VPC. If there
// is no way to the internet yet, opening one costs more than an endpoint.
const (
	costGroup       = 1
	costSubnet      = 2
	costVPC         = 3
	costEverywhere  = 6
	costWorldIn     = 20
	costEntry       = 2 // added to the peer's cost
	costDeleteEntry = 6
	costSetting     = 3
	costEndpoint    = 8
	costDetour      = 24 // an endpoint although there is a way out
	costRoute       = 5
	costAddress     = 6
	costNATGateway  = 15
	costGateway     = 15
	costPeering     = 10
	costOpen        = 40 // for opening a network that was closed
)

// A Need is a connection that must be possible.
type Need struct {
	Flow reach.Flow
	// Name is the host. If empty, the flow names the destination.
	Name string
}

// A Connection is a question about the network: what fails, and what else has to work.
type Connection struct {
	// Needs are the connection that fails and those that follow it.
	Needs []Need
	// Through extends the verdict on a connection that reaches a load balancer; may be nil.
	Through func(*reach.Snapshot, *reach.Verdict) *reach.Verdict
}

func (c *Connection) check(s *reach.Snapshot, n *Need) *reach.Verdict {
	var v *reach.Verdict
	if n.Name != "" {
		v = s.CheckName(n.Flow, n.Name)
	} else {
		v = s.Check(n.Flow)
	}
	if c.Through != nil {
		v = c.Through(s, v)
	}
	return v
}

// A proposer proposes changes to the network in which a need fails.
type proposer struct {
	s     *reach.Snapshot
	need  *Need
	v     *reach.Verdict
	other []string // the services of other needs that fail
}

// propose returns sets of changes, each of which may help the need.
func (p *proposer) propose() [][]Change {
	var out [][]Change
	for i := range p.v.Explanations {
		x := p.astray(&p.v.Explanations[i])
		for _, c := range p.change(x) {
			out = append(out, []Change{c})
		}
		for _, set := range [][]Change{p.throughNewNAT(x), p.throughNewPeering(x)} {
			if set != nil {
				out = append(out, set)
			}
		}
	}
	return append(out, p.endpoints()...)
}

// astray handles a packet to a private address that a default route has taken to an internet gateway. It returns an
// explanation that blames the route table, which lacks a route to the address. It returns other explanations unchanged.
func (p *proposer) astray(x *reach.Explanation) *reach.Explanation {
	if x.Code != reach.CodeNotRFC1918Egress && x.Code != reach.CodeNotRFC6598Egress {
		return x
	}
	hops := p.v.Forward
	if x.Return {
		hops = p.v.Return
	}
	i := slices.IndexFunc(hops, func(h reach.Hop) bool { return h.Kind == reach.KindRouteTable })
	if i < 0 {
		return x
	}
	out := *x
	out.Code, out.Component, out.VPC, out.Subnet = reach.CodeNoRoute, hops[i].ID, hops[i].VPC, hops[i].Subnet
	return &out
}

func (p *proposer) change(x *reach.Explanation) []Change {
	switch x.Code {
	case reach.CodeGroupMismatch, reach.CodeGroupNoRules, reach.CodeGroupReferences:
		return p.rules(x)
	case reach.CodeACL:
		return p.entries(x)
	case reach.CodeNoRoute, reach.CodeBadStateRoute:
		return p.routes(x)
	case reach.CodePublicForEgress, reach.CodePrivateForIngress:
		return p.address(x)
	case reach.CodeSourceDestCheck:
		return []Change{{Kind: DisableCheck, Resource: x.Interface, Cost: costSetting}}
	case reach.CodeNoDestination, reach.CodeName:
		return p.destination(x)
	case reach.CodeBadState:
		switch {
		case x.Kind == reach.KindInstance && (x.State == "stopped" || x.State == "stopping"):
			return []Change{{Kind: StartInstance, Resource: x.Component, Cost: costSetting}}
		}
	case reach.CodeFault:
		if f, ok := p.s.Get(x.Component).(*reach.Fault); ok {
			return []Change{{Kind: ClearFault, Resource: f.ID, Value: f.Fix}}
		}
	}
	return nil
}

// A peer is something that a rule may name to allow the other end.
type peer struct {
	cidr              netip.Prefix
	group, prefixList string
	cost              int
}

// peers returns what a rule may name for the address at the other end, the narrowest first. An interface is named by
// its group or subnet, because its successor has another address. For the same reason, a host with a public name is
// not named by its address.
func (p *proposer) peers(vpc string, a netip.Addr, egress, groups bool) []peer {
	var out []peer
	e := p.s.InterfaceAt(vpc, a)
	if e == nil {
		if pcx, _ := p.s.PeeringTo(vpc, a); pcx != nil {
			e = p.s.InterfaceAt(pcx.Requester.VPC, a)
			if e == nil || pcx.Requester.VPC == vpc {
				e = p.s.InterfaceAt(pcx.Accepter.VPC, a)
			}
		}
	}
	if e != nil {
		if groups {
			for i, g := range e.Groups {
				out = append(out, peer{group: g, cost: costGroup + min(i, 1)})
			}
		}
		if sn, ok := p.s.Get(e.Subnet).(*reach.Subnet); ok {
			out = append(out, containing(sn.CIDRs, a, costSubnet)...)
		}
		if v := p.s.VPC(e.VPC); v != nil {
			out = append(out, containing(v.CIDRs, a, costVPC)...)
		}
		return out
	}
	if egress {
		for _, service := range []string{"s3", "dynamodb"} {
			if pl := p.s.PrefixListOf(service); pl != nil && slices.ContainsFunc(pl.CIDRs, func(c netip.Prefix) bool { return c.Contains(a) }) {
				out = append(out, peer{prefixList: pl.ID, cost: costGroup})
			}
		}
	}
	named := p.need.Name != "" && p.v.Resolution != nil && !p.v.Resolution.Private && slices.Contains(p.v.Resolution.Addresses, a)
	switch {
	case named && reach.Public(a):
		out = append(out, peer{cidr: all(a), cost: costEverywhere})
	default:
		out = append(out, peer{cidr: netip.PrefixFrom(a, a.BitLen()), cost: costGroup})
	}
	return out
}

func containing(ranges []netip.Prefix, a netip.Addr, cost int) []peer {
	for _, c := range ranges {
		if c.Contains(a) {
			return []peer{{cidr: c, cost: cost}}
		}
	}
	return nil
}

// all returns the range of all addresses of a's family.
func all(a netip.Addr) netip.Prefix {
	if a.Is6() {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return everywhere
}

// rules adds the missing rule to a group of the interface.
func (p *proposer) rules(x *reach.Explanation) []Change {
	var out []Change
	for i, g := range x.Groups[:min(2, len(x.Groups))] {
		if sg, ok := p.s.Get(g).(*reach.SecurityGroup); !ok || strings.HasPrefix(sg.ID, "$") {
			continue
		}
		for _, to := range p.peers(x.VPC, x.Address, x.Direction == reach.Egress, x.Code != reach.CodeGroupReferences) {
			r := reach.Rule{Egress: x.Direction == reach.Egress, Protocol: x.Protocol, CIDR: to.cidr, Group: to.group, PrefixList: to.prefixList, ICMPType: -1, ICMPCode: -1}
			if len(x.Ports) > 0 {
				r.Ports = reach.PortRange{From: x.Ports[0].From, To: x.Ports[len(x.Ports)-1].To}
			}
			c := Change{Kind: AddRule, Resource: g, Rules: []reach.Rule{r}, Cost: to.cost + 2*i}
			if to.cost == costEverywhere && !r.Egress {
				c.Cost = costWorldIn
			}
			out = append(out, c)
		}
	}
	return out
}

// entries adds an entry with a number just below the one that denies, or deletes the denying entry.
func (p *proposer) entries(x *reach.Explanation) []Change {
	a, ok := p.s.Get(x.Component).(*reach.ACL)
	if !ok {
		return nil
	}
	egress, limit := x.Direction == reach.Egress, reach.LastEntry
	if x.Entry != nil {
		limit = x.Entry.Number
	}
	taken := map[int]bool{}
	for _, e := range a.Entries {
		taken[e.Number] = taken[e.Number] || e.Egress == egress
	}
	n := limit - 1
	if limit >= reach.LastEntry {
		n = 200
	}
	for n > 1 && taken[n] {
		n--
	}
	if n < 1 || taken[n] {
		return []Change{{Kind: DeleteEntry, Resource: a.ID, Entry: x.Entry, Cost: costDeleteEntry}}
	}
	var out []Change
	for _, to := range p.peers(x.VPC, x.Address, false, false) {
		e := reach.Entry{Number: n, Egress: egress, Allow: true, Protocol: x.Protocol, CIDR: to.cidr, ICMPType: -1, ICMPCode: -1}
		if len(x.Ports) > 0 {
			e.Ports = reach.PortRange{From: x.Ports[0].From, To: x.Ports[len(x.Ports)-1].To}
		}
		out = append(out, Change{Kind: AddEntry, Resource: a.ID, Entry: &e, Cost: costEntry + to.cost})
	}
	return out
}

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
			out = append(out, Change{Kind: AcceptPeering, Resource: pcx.ID, Cost: costSetting})
		}
		out = append(out, p.route(x, there, pcx.ID, costSetting))
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
		out = append(out, Change{Kind: AttachGateway, Resource: gatewayVariable, VPC: x.VPC, Cost: costGateway + open})
	}
	return out
}

// route adds a route to the table that lacks one, or replaces one that leads nowhere. It does not replace a route to
// more addresses than needed.
func (p *proposer) route(x *reach.Explanation, to netip.Prefix, target string, cost int) Change {
	c := Change{Kind: AddRoute, Resource: x.Component, Route: &reach.Route{Destination: to, Target: target}, Cost: cost}
	if r := x.Route; r != nil && (r.PrefixList != "" || to.Bits() <= r.Destination.Bits()) {
		c.Kind = ReplaceRoute
		c.Route.Destination, c.Route.PrefixList = r.Destination, r.PrefixList
		c.Cost++
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
		{Kind: CreateNATGateway, Resource: natVariable, VPC: x.VPC, Subnets: public[:1], Cost: cost},
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
	out := []Change{{Kind: CreatePeering, Resource: peeringVariable, VPC: here.ID, Value: there.ID, Cost: costPeering}}
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
				out = append(out, Change{Kind: AddRoute, Resource: t.ID, Route: &reach.Route{Destination: c, Target: peeringVariable}, Cost: costRoute})
			}
		}
	}
	return out
}

func overlap(a, b []netip.Prefix) bool {
	return slices.ContainsFunc(a, func(x netip.Prefix) bool { return slices.ContainsFunc(b, x.Overlaps) })
}

// closed reports whether a VPC has no internet gateway, nor a subnet with another way out.
func closed(s *reach.Snapshot, vpc string) bool {
	if s.Gateway(vpc) != nil {
		return false
	}
	for r := range s.All {
		t, ok := r.(*reach.RouteTable)
		if !ok || t.VPC != vpc {
			continue
		}
		for _, route := range t.Routes {
			if n, ok := s.Get(route.Target).(*reach.NATGateway); ok && (n.State == "" || n.State == "available") {
				return false
			}
		}
	}
	return true
}

// store proposes a gateway endpoint's route to S3 or DynamoDB.
func (p *proposer) store(x *reach.Explanation) (Change, bool) {
	for _, service := range []string{"s3", "dynamodb"} {
		pl := p.s.PrefixListOf(service)
		if pl == nil || !slices.ContainsFunc(pl.CIDRs, func(c netip.Prefix) bool { return c.Contains(x.Address) }) {
			continue
		}
		for _, e := range p.s.Endpoints() {
			if e.VPC == x.VPC && e.PrefixList == pl.ID {
				return Change{Kind: AddRouteTable, Resource: e.ID, Tables: []string{x.Component}, Cost: costSetting}, true
			}
		}
		return Change{Kind: CreateEndpoint, Resource: "$ENDPOINT-" + service, VPC: x.VPC, Service: service, Tables: []string{x.Component}, Cost: costSetting}, true
	}
	return Change{}, false
}

// address gives the interface a public address, and also the instances that its subnet launches next.
func (p *proposer) address(x *reach.Explanation) []Change {
	e, ok := p.s.Get(x.Interface).(*reach.Interface)
	if !ok || len(e.Addresses) == 0 || e.Addresses[0].Private.Is6() {
		return nil
	}
	c := Change{Kind: AssociateAddress, Resource: e.ID, Cost: costAddress}
	if x.Code == reach.CodePublicForEgress && e.Instance != "" {
		c.Subnets = []string{e.Subnet}
	}
	return []Change{c}
}

func (p *proposer) destination(x *reach.Explanation) []Change {
	switch {
	case x.Attribute != "":
		return []Change{{Kind: EnableAttribute, Resource: x.Component, Value: x.Attribute, Cost: costSetting}}
	case x.Missing == reach.KindInternetGateway:
		return []Change{{Kind: AttachGateway, Resource: gatewayVariable, VPC: x.VPC, Cost: costGateway}}
	}
	return p.publicAccess(x)
}

// publicAccess opens a cluster's public endpoint for the calling address, in addition to those that are already
// allowed.
func (p *proposer) publicAccess(x *reach.Explanation) []Change {
	for _, h := range p.s.HostNames() {
		_, cluster, ok := strings.Cut(h.Owner, ":cluster/")
		if !ok || h.Owner != x.Component || !x.Address.IsValid() {
			continue
		}
		var ranges []string
		for _, c := range h.PublicFrom {
			ranges = append(ranges, c.String())
		}
		ranges = append(ranges, netip.PrefixFrom(x.Address, x.Address.BitLen()).String())
		return []Change{{Kind: AllowPublicAccess, Resource: h.Name, Service: cluster, Value: strings.Join(ranges, ","), Cost: costSubnet}}
	}
	return nil
}

// endpoints proposes endpoints for the service that is called at a public address: a new one, or a fix for an existing
// one that does not answer. If several services are unreachable, another set has endpoints for all of them.
func (p *proposer) endpoints() [][]Change {
	e := p.s.InterfaceOf(p.need.Flow.From)
	name := strings.ToLower(strings.TrimSuffix(p.need.Name, "."))
	service, ok := serviceOf(p.s.Region(), name)
	if e == nil || !ok || p.v.Resolution == nil || p.v.Resolution.Private || len(p.v.Resolution.Addresses) == 0 {
		return nil
	}
	v := p.s.VPC(e.VPC)
	if v == nil {
		return nil
	}
	if !v.DNSSupport {
		return nil
	}
	var out [][]Change
	var first []Change // the change that private DNS requires
	if !v.DNSHostnames {
		first = []Change{{Kind: EnableAttribute, Resource: v.ID, Value: reach.AttributeDNSHostnames, Cost: costSetting}}
		out = append(out, first)
	}
	for _, old := range p.s.Endpoints() {
		if old.VPC == v.ID && old.Type == reach.InterfaceEndpoint && old.Service == "com.amazonaws."+p.s.Region()+"."+service && len(old.PrivateNames) == 0 {
			return append(out, append(slices.Clip(first), Change{Kind: EnablePrivateDNS, Resource: old.ID, Cost: costSetting}))
		}
	}
	if slices.ContainsFunc(p.s.Endpoints(), func(old *reach.VPCEndpoint) bool {
		return old.VPC == v.ID && old.Type == reach.InterfaceEndpoint && old.Service == "com.amazonaws."+p.s.Region()+"."+service
	}) {
		return out // AWS refuses a second one with private DNS
	}
	for _, groups := range p.endpointGroups(v) {
		set := slices.Concat(first, groups.first)
		set = append(set, p.endpoint(e, service, groups.ids))
		out = append(out, set)
		if len(p.other) > 0 {
			more := slices.Clone(set)
			for _, s := range p.other {
				if s != service && (s == "s3" || s == "dynamodb") {
					if sn, ok := p.s.Get(e.Subnet).(*reach.Subnet); ok {
						if t := p.s.Table(sn); t != nil {
							more = append(more, Change{Kind: CreateEndpoint, Resource: "$ENDPOINT-" + s, VPC: v.ID, Service: s, Tables: []string{t.ID}, Cost: costSetting})
						}
					}
				} else if s != service {
					more = append(more, p.endpoint(e, s, groups.ids))
				}
			}
			out = append(out, more)
		}
	}
	return out
}

func (p *proposer) endpoint(e *reach.Interface, service string, groups []string) Change {
	cost := costEndpoint
	if !closed(p.s, e.VPC) { // everything in the VPC would then use it
		cost = costDetour
	}
	return Change{Kind: CreateEndpoint, Resource: "$ENDPOINT-" + service, VPC: e.VPC, Service: service, Subnets: p.subnets(e), Groups: groups, Cost: cost}
}

// subnets returns the caller's subnet and, for each other zone with instances, one of their subnets.
func (p *proposer) subnets(e *reach.Interface) []string {
	byZone := map[string]string{e.Zone: e.Subnet}
	for r := range p.s.All {
		o, ok := r.(*reach.Interface)
		if !ok || o.VPC != e.VPC || o.Instance == "" || o.Zone == e.Zone {
			continue
		}
		if had := byZone[o.Zone]; had == "" || o.Subnet < had {
			byZone[o.Zone] = o.Subnet
		}
	}
	out := []string{e.Subnet}
	for _, sn := range byZone {
		if sn != e.Subnet {
			out = append(out, sn)
		}
	}
	slices.Sort(out[1:])
	return out
}

// An endpointGroups has groups for an endpoint, and the changes that must come first.
type endpointGroups struct {
	ids   []string
	first []Change
}

// endpointGroups returns the groups of other endpoints in the VPC, and a new group that allows everything in the VPC,
// because with private DNS everything there uses the endpoint.
func (p *proposer) endpointGroups(v *reach.VPC) []endpointGroups {
	var out []endpointGroups
	for _, e := range p.s.Endpoints() {
		if e.VPC != v.ID || e.Type != reach.InterfaceEndpoint || len(e.Interfaces) == 0 {
			continue
		}
		if eni, ok := p.s.Get(e.Interfaces[0]).(*reach.Interface); ok && len(eni.Groups) > 0 &&
			!slices.ContainsFunc(out, func(g endpointGroups) bool { return slices.Equal(g.ids, eni.Groups) }) {
			out = append(out, endpointGroups{ids: eni.Groups})
		}
	}
	out = out[:min(2, len(out))]
	if p.s.Get(groupVariable) != nil {
		return out
	}
	c := Change{Kind: CreateGroup, Resource: groupVariable, VPC: v.ID, Value: p.groupName(v), Cost: costVPC}
	for _, r := range v.CIDRs {
		c.Rules = append(c.Rules, reach.Rule{Protocol: reach.TCP, Ports: reach.PortRange{From: 443, To: 443}, CIDR: r})
	}
	return append(out, endpointGroups{ids: []string{groupVariable}, first: []Change{c}})
}

// groupName returns a name that no group of the VPC has.
func (p *proposer) groupName(v *reach.VPC) string {
	taken := map[string]bool{}
	for r := range p.s.All {
		if g, ok := r.(*reach.SecurityGroup); ok && g.VPC == v.ID {
			taken[g.Name] = true
		}
	}
	name := "vpc-endpoints"
	for i := 2; taken[name]; i++ {
		name = "vpc-endpoints-" + string(rune('0'+i%10))
		if i > 9 {
			return cmp.Or(strings.ReplaceAll(v.ID, "vpc-", "endpoints-"), name)
		}
	}
	return name
}
