package advice

import (
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
		return []Change{{Kind: DisableCheck, Resource: x.Interface, Cost: reaches(costSetting)}}
	case reach.CodeNoDestination, reach.CodeName:
		return p.destination(x)
	case reach.CodeBadState:
		switch {
		case x.Kind == reach.KindInstance && (x.State == "stopped" || x.State == "stopping"):
			return []Change{{Kind: StartInstance, Resource: x.Component, Cost: effort(costSetting)}}
		}
	case reach.CodeTransitZone, reach.CodeTransitNoTable, reach.CodeTransitNoRoute, reach.CodeTransitBadRoute:
		return p.transit(x)
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
	if e == nil {
		if to, _ := p.behind(vpc, a); to != nil {
			e, groups = p.s.InterfaceAt(to.VPC, a), false
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
			c := Change{Kind: AddRule, Resource: g, Rules: []reach.Rule{r}, Cost: reaches(to.cost + 2*i)}
			if to.cost == costEverywhere && !r.Egress {
				c.Cost = reaches(costWorldIn)
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
		return []Change{{Kind: DeleteEntry, Resource: a.ID, Entry: x.Entry, Cost: reaches(costDeleteEntry)}}
	}
	var out []Change
	for _, to := range p.peers(x.VPC, x.Address, false, false) {
		e := reach.Entry{Number: n, Egress: egress, Allow: true, Protocol: x.Protocol, CIDR: to.cidr, ICMPType: -1, ICMPCode: -1}
		if len(x.Ports) > 0 {
			e.Ports = reach.PortRange{From: x.Ports[0].From, To: x.Ports[len(x.Ports)-1].To}
		}
		out = append(out, Change{Kind: AddEntry, Resource: a.ID, Entry: &e, Cost: Cost{Reach: to.cost, Effort: costEntry}})
	}
	return out
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
				return Change{Kind: AddRouteTable, Resource: e.ID, Tables: []string{x.Component}, Cost: effort(costSetting)}, true
			}
		}
		return Change{Kind: CreateEndpoint, Resource: "$ENDPOINT-" + service, VPC: x.VPC, Service: service, Tables: []string{x.Component}, Cost: ofEndpoint(costSetting)}, true
	}
	return Change{}, false
}

// address gives the interface a public address, and also the instances that its subnet launches next.
func (p *proposer) address(x *reach.Explanation) []Change {
	e, ok := p.s.Get(x.Interface).(*reach.Interface)
	if !ok || len(e.Addresses) == 0 || e.Addresses[0].Private.Is6() {
		return nil
	}
	c := Change{Kind: AssociateAddress, Resource: e.ID, Cost: reaches(costAddress)}
	if x.Code == reach.CodePublicForEgress && e.Instance != "" {
		c.Subnets = []string{e.Subnet}
	}
	return []Change{c}
}

func (p *proposer) destination(x *reach.Explanation) []Change {
	switch {
	case x.Attribute != "":
		return []Change{{Kind: EnableAttribute, Resource: x.Component, Value: x.Attribute, Cost: effort(costSetting)}}
	case x.Missing == reach.KindInternetGateway:
		return []Change{{Kind: AttachGateway, Resource: gatewayVariable, VPC: x.VPC, Cost: reaches(costGateway)}}
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
		return []Change{{Kind: AllowPublicAccess, Resource: h.Name, Service: cluster, Value: strings.Join(ranges, ","), Cost: reaches(costSubnet)}}
	}
	return nil
}
