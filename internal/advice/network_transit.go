package advice

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/drydock-dev/drydock/internal/reach"
)

// behind returns the attachment of another VPC that has the address and is attached to one of the VPC's transit
// gateways, and the block of that VPC which contains the address.
func (p *proposer) behind(vpc string, a netip.Addr) (*reach.TransitAttachment, netip.Prefix) {
	for _, from := range p.s.Attachments(vpc) {
		for r := range p.s.All {
			to, ok := r.(*reach.TransitAttachment)
			if !ok || to.Gateway != from.Gateway || to.VPC == vpc || !from.Live() || !to.Live() || p.s.InterfaceAt(to.VPC, a) == nil {
				continue
			}
			for _, c := range p.s.VPC(to.VPC).CIDRs {
				if c.Contains(a) {
					return to, c
				}
			}
		}
	}
	return nil, netip.Prefix{}
}

// transit proposes changes to a transit gateway.
func (p *proposer) transit(x *reach.Explanation) []Change {
	to, block := p.behind(x.VPC, x.Address)
	switch x.Code {
	case reach.CodeTransitZone:
		a, ok := p.s.Get(x.Component).(*reach.TransitAttachment)
		if !ok || x.Subnet == "" {
			return nil
		}
		return []Change{{Kind: AddTransitSubnet, Resource: a.ID, Subnets: []string{x.Subnet}, Cost: reaches(costSetting)}}
	case reach.CodeTransitNoTable:
		a, ok := p.s.Get(x.Component).(*reach.TransitAttachment)
		if !ok {
			return nil
		}
		var out []Change
		for r := range p.s.All {
			if t, ok := r.(*reach.TransitTable); ok && t.Gateway == a.Gateway {
				out = append(out, Change{Kind: AssociateTransit, Resource: a.ID, Tables: []string{t.ID}, Cost: reaches(costSetting)})
			}
		}
		slices.SortFunc(out, func(a, b Change) int { return slices.Compare(a.Tables, b.Tables) })
		return out[:min(2, len(out))]
	case reach.CodeTransitNoRoute:
		if to == nil {
			return nil
		}
		return []Change{{Kind: PropagateTransit, Resource: to.ID, Tables: []string{x.Component}, Cost: reaches(costRoute)}}
	case reach.CodeTransitBadRoute:
		t, ok := p.s.Get(x.Component).(*reach.TransitTable)
		if !ok || to == nil {
			return nil
		}
		static := slices.ContainsFunc(t.Routes, func(r reach.TransitRoute) bool { return r.Destination == block })
		return []Change{{Kind: RouteTransit, Resource: t.ID, Route: &reach.Route{Destination: block, Target: to.ID}, Value: map[bool]string{true: "replace", false: "create"}[static], Cost: reaches(costRoute)}}
	}
	return nil
}

// applyTransit makes a change to a transit gateway, or returns false if it cannot be made.
func (c *Change) applyTransit(s *reach.Snapshot, d *reach.Draft) bool {
	if c.Kind == RouteTransit {
		t, ok := s.Get(c.Resource).(*reach.TransitTable)
		if !ok {
			return false
		}
		next := *t
		next.Routes = slices.DeleteFunc(slices.Clone(t.Routes), func(r reach.TransitRoute) bool { return r.Destination == c.Route.Destination })
		next.Routes = append(next.Routes, reach.TransitRoute{Destination: c.Route.Destination, Attachment: c.Route.Target})
		d.Put(&next)
		return true
	}
	a, ok := s.Get(c.Resource).(*reach.TransitAttachment)
	if !ok {
		return false
	}
	next := *a
	switch c.Kind {
	case AssociateTransit:
		next.Table = c.Tables[0]
	case PropagateTransit:
		next.Propagates = append(slices.Clone(a.Propagates), c.Tables...)
	case AddTransitSubnet:
		next.Subnets, next.Interfaces = append(slices.Clone(a.Subnets), c.Subnets...), nil
	}
	d.Put(&next)
	return true
}

func (c *Change) transitCommand() string {
	switch c.Kind {
	case AssociateTransit:
		return fmt.Sprintf("aws ec2 associate-transit-gateway-route-table --transit-gateway-route-table-id %s --transit-gateway-attachment-id %s", c.Tables[0], c.Resource)
	case PropagateTransit:
		return fmt.Sprintf("aws ec2 enable-transit-gateway-route-table-propagation --transit-gateway-route-table-id %s --transit-gateway-attachment-id %s", c.Tables[0], c.Resource)
	case AddTransitSubnet:
		return fmt.Sprintf("aws ec2 modify-transit-gateway-vpc-attachment --transit-gateway-attachment-id %s --add-subnet-ids %s", c.Resource, c.Subnets[0])
	}
	return fmt.Sprintf("aws ec2 %s-transit-gateway-route --transit-gateway-route-table-id %s --destination-cidr-block %s --transit-gateway-attachment-id %s",
		c.Value, c.Resource, c.Route.Destination, c.Route.Target)
}
