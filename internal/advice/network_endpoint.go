package advice

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/reach"
)

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
		first = []Change{{Kind: EnableAttribute, Resource: v.ID, Value: reach.AttributeDNSHostnames, Cost: effort(costSetting)}}
		out = append(out, first)
	}
	for _, old := range p.s.Endpoints() {
		if old.VPC == v.ID && old.Type == reach.InterfaceEndpoint && old.Service == "com.amazonaws."+p.s.Region()+"."+service && len(old.PrivateNames) == 0 {
			return append(out, append(slices.Clip(first), Change{Kind: EnablePrivateDNS, Resource: old.ID, Cost: effort(costSetting)}))
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
							more = append(more, Change{Kind: CreateEndpoint, Resource: "$ENDPOINT-" + s, VPC: v.ID, Service: s, Tables: []string{t.ID}, Cost: ofEndpoint(costSetting)})
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

// ofEndpoint returns the cost of an endpoint. It is almost all effort, because the endpoint leads only to an AWS
// service.
func ofEndpoint(points int) Cost { return Cost{Reach: 1, Effort: points - 1} }

func (p *proposer) endpoint(e *reach.Interface, service string, groups []string) Change {
	cost := costEndpoint
	if !closed(p.s, e.VPC) { // everything in the VPC would then use it
		cost = costDetour
	}
	return Change{Kind: CreateEndpoint, Resource: "$ENDPOINT-" + service, VPC: e.VPC, Service: service, Subnets: p.subnets(e), Groups: groups, Cost: ofEndpoint(cost)}
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
	c := Change{Kind: CreateGroup, Resource: groupVariable, VPC: v.ID, Value: p.groupName(v), Cost: reaches(costVPC)}
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
