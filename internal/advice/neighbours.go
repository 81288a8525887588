package advice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/reach"
)

// maxKinds bounds how many different kinds of neighbours are checked.
const maxKinds = 64

// harmless reports whether everything that worked before the changes still works: connections of other interfaces in
// the VPC, and of the laptop, to AWS's services and to clusters.
func (p *prover) harmless(after *reach.Snapshot) bool {
	if p.before == nil {
		p.before = p.working()
	}
	for i := range p.before {
		if !p.c.check(after, &p.before[i]).Reachable {
			return false
		}
	}
	return true
}

// working returns what works in the current network.
func (p *prover) working() []Need {
	names := []string{}
	add := func(n string) {
		if n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	vpcs := map[string]bool{}
	for _, n := range p.c.Needs {
		add(n.Name)
		for _, end := range []reach.Endpoint{n.Flow.From, n.Flow.To} {
			if e := p.base.InterfaceOf(end); e != nil {
				vpcs[e.VPC] = true
			}
		}
	}
	r := p.base.Region()
	for _, service := range []string{"ec2", "api.ecr", "sts", "eks", "s3", "ssm", "autoscaling"} {
		add(service + "." + r + ".amazonaws.com")
	}
	add("000000000000.dkr.ecr." + r + ".amazonaws.com")
	for _, h := range p.base.HostNames() {
		add(h.Name)
		vpcs[h.VPC] = true
	}
	froms := []reach.Endpoint{reach.Addr(reach.Client)}
	kinds := map[string]bool{}
	for _, e := range p.interfaces() {
		key := fmt.Sprint(e.VPC, e.Subnet, e.Groups, len(e.Addresses) > 0 && e.Addresses[0].Public.IsValid())
		if !vpcs[e.VPC] || kinds[key] || len(kinds) == maxKinds {
			continue
		}
		kinds[key] = true
		froms = append(froms, reach.At(e.ID))
	}
	out := []Need{}
	for _, from := range froms {
		for _, name := range names {
			n := Need{Flow: reach.Flow{From: from, Protocol: reach.TCP, Port: 443}, Name: name}
			if p.c.check(p.base, &n).Reachable {
				out = append(out, n)
			}
		}
	}
	return out
}

// interfaces returns the users' interfaces in a fixed order.
func (p *prover) interfaces() []*reach.Interface {
	var out []*reach.Interface
	for r := range p.base.All {
		if e, ok := r.(*reach.Interface); ok && e.Attached && e.Requester == "" && e.Type != reach.TypeVPCEndpoint && e.Type != reach.TypeNATGateway {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *reach.Interface) int { return strings.Compare(a.ID, b.ID) })
	return out
}
