package compute

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/reach"
)

// maxServed bounds the ports at which the network answers for load balancers. At others, connections are refused.
const maxServed = 512

// boxAnswers are the addresses and ports at which the network answers machines that run containers besides proxyPorts by TCP.
type boxAnswers struct {
	tcp, udp map[netip.AddrPort]bool               // of load balancers
	ports    map[netip.Addr][]uint16               // those of tcp by address
	guests   map[string]map[netip.Addr]guestAnswer // of simulated machines, by the VPC that packets come from
}

// A guestAnswer is an address of simulated machines, with the ports to which some machine of a VPC may connect. There may be
// several machines, because ranges of VPCs may overlap. Packets get to one of them at most.
type guestAnswer struct {
	classes []int
	ports   []uint16
}

// open reports whether an instance may connect to a port, by where the network lets it connect.
func (g guestAnswer) open(to map[guestPort]bool, port uint16) bool {
	return slices.ContainsFunc(g.classes, func(class int) bool { return to[guestPort{class, port}] })
}

func newBoxAnswers() boxAnswers {
	return boxAnswers{
		tcp: map[netip.AddrPort]bool{}, udp: map[netip.AddrPort]bool{}, ports: map[netip.Addr][]uint16{}, guests: map[string]map[netip.Addr]guestAnswer{},
	}
}

// addGuests adds the simulated machines of the instances' networks. It returns where the network lets each instance connect.
func (b *boxAnswers) addGuests(g *boxGuests, instances map[string]machine.Instance) map[string]map[guestPort]bool {
	open, some := map[string]map[guestPort]bool{}, map[string]map[guestPort]bool{} // by instance and by VPC
	for id, in := range instances {
		open[id] = g.open(in)
		if some[in.VPCID] == nil {
			some[in.VPCID] = map[guestPort]bool{}
		}
		for at, yes := range open[id] {
			some[in.VPCID][at] = some[in.VPCID][at] || yes
		}
	}
	for vpc, open := range some {
		b.guests[vpc] = map[netip.Addr]guestAnswer{}
		for _, to := range g.of(vpc) {
			x := b.guests[vpc][to.at]
			x.classes, x.ports = append(x.classes, to.class), nil
			for _, port := range guestPorts {
				if x.open(open, port) {
					x.ports = append(x.ports, port)
				}
			}
			b.guests[vpc][to.at] = x
		}
	}
	return open
}

// in returns where the network answers in a VPC by TCP, besides proxyPorts.
func (b *boxAnswers) in(vpc string) []netip.AddrPort {
	all := maps.Clone(b.tcp)
	for a, to := range b.guests[vpc] {
		for _, port := range to.ports {
			all[netip.AddrPortFrom(a, port)] = true
		}
	}
	return sorted(all)
}

// addBalancers adds the load balancers of an account and region.
func (b *boxAnswers) addBalancers(all Balancers, scope [2]string, s *reach.Snapshot) {
	if all == nil {
		return
	}
	for r := range s.All {
		lb, ok := r.(*reach.LoadBalancer)
		if !ok {
			continue
		}
		tcp, udp := all.Ports(scope[0], scope[1], lb.Name)
		for _, id := range lb.Interfaces {
			e, ok := s.Get(id).(*reach.Interface)
			if !ok {
				continue
			}
			for _, a := range e.Addresses {
				for _, at := range []netip.Addr{a.Private, a.Public} {
					if !at.Is4() {
						continue
					}
					for _, port := range tcp {
						if to := netip.AddrPortFrom(at, port); !slices.Contains(proxyPorts, port) && !b.tcp[to] {
							b.tcp[to], b.ports[at] = true, append(b.ports[at], port)
						}
					}
					for _, port := range udp {
						b.udp[netip.AddrPortFrom(at, port)] = true
					}
				}
			}
		}
	}
}

// at returns the ports at which the network answers in a VPC for an address by TCP.
func (b *boxAnswers) at(vpc string, a netip.Addr) []uint16 {
	return slices.Concat(proxyPorts, b.ports[a], b.guests[vpc][a].ports)
}

// host returns the host by which connections from a VPC to an address are decided: the name that it was resolved from or,
// for a simulated machine, the address itself, because the name may lead to others, too.
func (b *boxAnswers) host(vpc string, a netip.Addr, name string) string {
	if _, ok := b.guests[vpc][a]; ok {
		return a.String()
	}
	return name
}

func sorted(all map[netip.AddrPort]bool) []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(all), netip.AddrPort.Compare)
}

// balances reports whether a load balancer answers at an address.
func (n *boxNetwork) balances(network string, at netip.AddrPort) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if network == "udp" {
		return n.answers.udp[at]
	}
	return n.answers.tcp[at]
}

// serveAnswers answers at the ports of load balancers. Those that are served once stay so until the run of the host ends.
// One that cannot be served does not hold up the others, or other changes of the network. The caller holds apply.
func (n *boxNetwork) serveAnswers(ctx context.Context) {
	n.mu.Lock()
	b := n.answers
	n.mu.Unlock()
	for network, all := range map[string]map[netip.AddrPort]bool{"tcp": b.tcp, "udp": b.udp} {
		for at := range all {
			s := inside.Service{Network: network, Port: at.Port()}
			if n.served[s] || len(n.served) >= maxServed {
				continue
			}
			var err error
			if metadata, flows := n.metadata, n.flows; network == "tcp" {
				err = n.rt.Serve(ctx, s.Port, func(c net.Conn, eni string) {
					n.accept(c, eni, func(c *boxConn) { n.lead(c, metadata) })
				})
			} else {
				err = n.rt.ServePackets(ctx, s.Port, func(d inside.Datagram, answer func([]byte)) { n.servePackets(flows, d, answer) })
			}
			if err != nil {
				n.log.Warn("machines that run containers get no answer at a port", "port", s.Port, "network", s.Network, "err", err)
				continue
			}
			n.served[s] = true
		}
	}
}

// A boxFlow is a flow of UDP from an interface to a load balancer.
type boxFlow struct {
	eni        string
	client, to netip.AddrPort
}

// servePackets forwards a datagram to the target of a load balancer's listener for UDP, if the network lets it through.
func (n *boxNetwork) servePackets(flows *balancer.Flows[boxFlow], d inside.Datagram, answer func([]byte)) {
	in, ok := n.from(d.Interface)
	if !ok || !n.balances("udp", d.Service) {
		return
	}
	flows.Send(boxFlow{d.Interface, d.Remote, d.Service}, d.Data, func(ctx context.Context) (net.Conn, error) {
		return n.machines.connectPackets(ctx, in, n.nameOf(in, d.Service.Addr()), d.Service, d.Remote)
	}, answer)
}

// connectPackets returns a connection for datagrams of an instance, or of a pod on it, to a target of a load balancer.
func (m *Machines) connectPackets(ctx context.Context, in machine.Instance, host string, to, from netip.AddrPort) (net.Conn, error) {
	s, err := m.network.since(ctx, in.Account, in.Region, m.network.clock.Now().Add(-recentEnough))
	if err != nil {
		return nil, err
	}
	flow := reach.Flow{From: reach.At(in.ID), Protocol: reach.UDP, Port: to.Port()}
	if asPod(s, in, from.Addr(), to.Addr()) {
		flow.From.Address = from.Addr()
	}
	v := s.CheckName(flow, host)
	if !v.Reachable {
		return nil, refusal(v, in, host, int(to.Port()))
	}
	client := in.PrivateIP
	for _, h := range v.Forward {
		if lb := s.LoadBalancerOf(h.ID); lb != nil {
			return m.cfg.Balancers.ConnectPackets(ctx, in.Account, in.Region, lb.Name, to.Port(), netip.AddrPortFrom(client, from.Port()))
		}
		if h.Out != nil {
			client = h.Out.Source
		}
	}
	return nil, refusal(v, in, host, int(to.Port()))
}
