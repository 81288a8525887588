package compute

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/reach"
)

// Balancers carry the traffic of load balancers.
type Balancers interface {
	// Serves reports whether a port of a load balancer leads to programs. The name is an ARN, or that of a Classic Load
	// Balancer.
	Serves(account, region, name string, port uint16) bool
	// Connect connects a client to a port of a load balancer, which the network has let through. If its port is not known, it is 0.
	Connect(account, region, name string, port uint16, client netip.AddrPort) (net.Conn, error)
	// ConnectPackets returns a connection for the datagrams of a client, which the network has let through, to a target.
	ConnectPackets(ctx context.Context, account, region, name string, port uint16, client netip.AddrPort) (net.Conn, error)
	// Ports returns the ports of a load balancer at which it carries traffic.
	Ports(account, region, name string) (tcp, udp []uint16)
}

// throughBalancer connects a client to a load balancer if its connection leads to one that serves programs. v and err are
// what the network says about the connection.
func (m *Machines) throughBalancer(account, region string, port int, client netip.AddrPort, v *reach.Verdict, err error) (net.Conn, bool, error) {
	if m.cfg.Balancers == nil {
		return nil, false, nil
	}
	name := ""
	if why := node.DecisionOf(err); why != nil && (why.Code == reach.CodeNoTargets || why.Code == reach.CodeTargetHealth) {
		name = why.Component // rules may lead elsewhere than the default action
	}
	if err == nil {
		for i := range v.Forward {
			if h := &v.Forward[i]; h.Kind == reach.KindLoadBalancer {
				name = h.ID
			} else if name == "" && h.Out != nil {
				client = netip.AddrPortFrom(h.Out.Source, client.Port())
			}
		}
	}
	if name == "" || !m.cfg.Balancers.Serves(account, region, name, uint16(port)) {
		return nil, false, nil
	}
	c, err := m.cfg.Balancers.Connect(account, region, name, uint16(port), client)
	return c, err == nil, err
}

// RunsPrograms reports whether programs run behind a load balancer's target: it is a machine that runs containers, or a pod
// on one.
func (m *Machines) RunsPrograms(account, region string, to balancer.Destination) bool {
	_, ok := m.box(account, region, to)
	return ok
}

// RunsContainers reports whether an instance runs containers.
func (m *Machines) RunsContainers(instanceID string) bool {
	_, ok := m.boxes.Info(instanceID)
	return ok
}

// box returns the machine that runs containers and has the address of a load balancer's target.
func (m *Machines) box(account, region string, to balancer.Destination) (machine.Instance, bool) {
	if to.Instance != "" {
		in, err := m.Instance(to.Instance)
		return in, err == nil && m.boxes.Has(in.ID, in.PrivateIP)
	}
	return m.boxAt(account, region, to.Address)
}

// DialTarget connects a load balancer's network interface to a target, if the network lets it. If packets are dropped, it
// waits as long as a program would.
func (m *Machines) DialTarget(ctx context.Context, account, region string, to balancer.Destination) (net.Conn, error) {
	flow := reach.Flow{From: reach.At(to.Interface), To: reach.At(to.Instance), Protocol: reach.TCP, Port: to.Port}
	if to.Network == "udp" {
		flow.Protocol = reach.UDP
	}
	if to.Instance == "" {
		flow.To = reach.Addr(to.Address)
	}
	now := m.network.clock.Now()
	var v *reach.Verdict
	var own netip.Addr
	for _, t := range []time.Time{now.Add(-recentEnough), now} {
		s, err := m.network.since(ctx, account, region, t)
		if err != nil {
			return nil, err
		}
		if e, ok := s.Get(to.Interface).(*reach.Interface); ok && len(e.Addresses) > 0 {
			own = e.Addresses[0].Private
		}
		if v = s.CheckTarget(flow, to.Client.Addr()); v.Reachable {
			break
		}
	}
	if !v.Reachable {
		return nil, m.network.timeOut(ctx, refusal(v, machine.Instance{}, to.Host(), int(to.Port)))
	}
	if in, ok := m.box(account, region, to); ok {
		at := cmp.Or(to.Address, in.PrivateIP)
		if to.Instance != "" {
			at = in.PrivateIP
		}
		if to.Client.Addr().Is4() != at.Is4() {
			to.Client = netip.AddrPort{}
		}
		c, err := m.dialBox(ctx, inside.Socket{Network: to.Network, Interface: to.Interface, Address: netip.AddrPortFrom(at, to.Port), Client: to.Client})
		if tcp, ok := c.(*net.TCPConn); ok && err == nil && to.Client.IsValid() {
			return preserved{tcp, net.TCPAddrFromAddrPort(netip.AddrPortFrom(own, 0))}, nil
		}
		return c, err
	}
	if id, address, ok := instanceAt(v); ok && to.Network == "" {
		return m.enter(ctx, id, address, int(to.Port), v)
	}
	return nil, refusedBy(to.Host(), int(to.Port)) // no program runs there
}

// A preserved connection has the client's address in the network.
type preserved struct {
	*net.TCPConn
	own net.Addr
}

// LocalAddr returns the address of the load balancer's network interface.
func (c preserved) LocalAddr() net.Addr { return c.own }

// dialBox connects from a network interface that AWS manages to a machine that runs containers. An interface that the
// network does not have yet is new.
func (m *Machines) dialBox(ctx context.Context, s inside.Socket) (net.Conn, error) {
	c, err := m.boxNetwork.rt.Dial(ctx, s)
	var answer *inside.Error
	if errors.As(err, &answer) && answer.Unwrap() == nil {
		if err := m.boxNetwork.connect(ctx); err != nil {
			return nil, err
		}
		c, err = m.boxNetwork.rt.Dial(ctx, s)
	}
	if errors.As(err, &answer) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(s.Address), Err: cmp.Or(answer.Unwrap(), error(answer))}
	}
	return c, err
}

// Check decides a flow to a host name in the network of an account and region, which is as recent as for machines'
// connections. It goes no further than to a load balancer.
func (m *Machines) Check(ctx context.Context, account, region string, f reach.Flow, host string) (*reach.Verdict, error) {
	now := m.network.clock.Now()
	var v *reach.Verdict
	for _, t := range []time.Time{now.Add(-recentEnough), now} {
		s, err := m.network.since(ctx, account, region, t)
		if err != nil {
			return nil, err
		}
		if v = s.CheckName(f, host); v.Reachable {
			break
		}
	}
	return v, nil
}
