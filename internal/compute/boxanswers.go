package compute

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/reach"
)

// maxServed bounds the ports at which the network answers for load balancers. At others, connections are refused.
const maxServed = 512

// guestPorts are those at which programs of simulated machines answer: sshd and the kubelet.
var guestPorts = []uint16{22, 10250}

// maxGuestPorts bounds the addresses and ports of simulated machines. Connections to others time out.
const maxGuestPorts = 2048

// boxAnswers are the addresses and ports at which the network answers machines that run containers, for load balancers and
// simulated machines, besides proxyPorts by TCP. guests are those of tcp that belong to simulated machines.
type boxAnswers struct{ tcp, udp, guests map[netip.AddrPort]bool }

func newBoxAnswers() boxAnswers {
	return boxAnswers{tcp: map[netip.AddrPort]bool{}, udp: map[netip.AddrPort]bool{}, guests: map[netip.AddrPort]bool{}}
}

// addGuests adds the simulated machines of a network, which are all that run no containers.
func (b *boxAnswers) addGuests(s *reach.Snapshot, boxes map[string]machine.Instance) {
	for r := range s.All {
		e, ok := r.(*reach.Interface)
		if !ok || e.Instance == "" || boxes[e.Instance].ID != "" {
			continue
		}
		for _, a := range e.Addresses {
			for _, at := range []netip.Addr{a.Private, a.Public} {
				for _, port := range guestPorts {
					if at.Is4() && len(b.guests) < maxGuestPorts {
						b.tcp[netip.AddrPortFrom(at, port)], b.guests[netip.AddrPortFrom(at, port)] = true, true
					}
				}
			}
		}
	}
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
						if !slices.Contains(proxyPorts, port) {
							b.tcp[netip.AddrPortFrom(at, port)] = true
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

// portsAt returns the ports at which this network answers for an address by TCP.
func (n *boxNetwork) portsAt(a netip.Addr) []uint16 {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := slices.Clone(proxyPorts)
	for at := range n.answers.tcp {
		if at.Addr() == a {
			out = append(out, at.Port())
		}
	}
	return out
}

// serveAnswers answers at the ports of load balancers and simulated machines. Those that are served once stay so until the run of the host ends.
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
		return n.machines.connectPackets(ctx, in, n.nameOf(in, d.Service.Addr()), d.Service.Port(), d.Remote.Port())
	}, answer)
}

// connectPackets returns a connection for an instance's datagrams to a target of a load balancer.
func (m *Machines) connectPackets(ctx context.Context, in machine.Instance, host string, port, from uint16) (net.Conn, error) {
	s, err := m.network.since(ctx, in.Account, in.Region, time.Now().Add(-recentEnough))
	if err != nil {
		return nil, err
	}
	v := s.CheckName(reach.Flow{From: reach.At(in.ID), Protocol: reach.UDP, Port: port}, host)
	if !v.Reachable {
		return nil, refusal(v, in, host, int(port))
	}
	client := in.PrivateIP
	for _, h := range v.Forward {
		if lb := s.LoadBalancerOf(h.ID); lb != nil {
			return m.cfg.Balancers.ConnectPackets(ctx, in.Account, in.Region, lb.Name, port, netip.AddrPortFrom(client, from))
		}
		if h.Out != nil {
			client = h.Out.Source
		}
	}
	return nil, refusal(v, in, host, int(port))
}
