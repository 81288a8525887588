package compute

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/serialconsole"
	"github.com/drydock-dev/drydock/internal/reach"
)

// ConnectFrom connects a client that is not on a machine to a TCP port of an instance, if the network of the account and
// region allows it. from is the client's address on the internet, or an Instance Connect endpoint together with that
// address. to is an instance ID, an address or a name. If the network refuses the connection, the error is a
// *node.Refusal. If packets are dropped, ConnectFrom waits as long as a program would before it gives up. A client may
// also connect to the serial console of a Region, by its name.
func (m *Machines) ConnectFrom(ctx context.Context, account, region string, from reach.Endpoint, to string, port int) (net.Conn, error) {
	if r, ok := serialconsole.Region(to); ok && port == 22 {
		return m.console.Dial(r)
	}
	v, err := m.network.admit(ctx, account, region, from, to, port)
	if c, ok, err := m.throughBalancer(account, region, port, netip.AddrPortFrom(from.Address, 0), v, err); ok || err != nil {
		return c, err
	}
	if err != nil {
		return nil, err
	}
	id, address, ok := instanceAt(v)
	if n := len(v.Forward); !ok && n > 0 && v.Forward[n-1].Kind == reach.KindInternet { // no host of the internet answers
		return nil, m.network.timeOut(ctx, refusal(v, machine.Instance{}, to, port))
	}
	if !ok {
		return nil, refusedBy(to, port) // hosts that AWS manages do not accept such connections in Drydock
	}
	conn, err := m.enter(ctx, id, address, port, v)
	if err != nil {
		return nil, err
	}
	return m.network.track(conn, machine.Instance{Account: account, Region: region}, to, v), nil
}

// ConsoleInUse reports whether the serial console of an instance has a session.
func (m *Machines) ConsoleInUse(instanceID string) bool { return m.console.InUse(instanceID) }

// admit returns the verdict that allows a client's connection, or an error if the network does not allow it.
func (n *guestNetwork) admit(ctx context.Context, account, region string, from reach.Endpoint, to string, port int) (*reach.Verdict, error) {
	flow := reach.Flow{From: from, Protocol: reach.TCP, Port: uint16(port)}
	check := func(s *reach.Snapshot) *reach.Verdict { return s.CheckName(flow, to) }
	if address, err := netip.ParseAddr(to); err == nil {
		flow.To = reach.Addr(address)
		check = func(s *reach.Snapshot) *reach.Verdict { return s.Check(flow) }
	} else if strings.HasPrefix(to, "i-") && !strings.Contains(to, ".") {
		flow.To = reach.At(to)
		check = func(s *reach.Snapshot) *reach.Verdict { return s.Check(flow) }
	}
	now := n.clock.Now()
	var v *reach.Verdict
	for _, t := range []time.Time{now.Add(-recentEnough), now} {
		s, err := n.since(ctx, account, region, t)
		if err != nil {
			return nil, err
		}
		v = check(s)
		if n.through != nil {
			if v, err = n.through(ctx, account, region, s, v); err != nil {
				return nil, err
			}
		}
		if v.Reachable {
			return v, nil
		}
	}
	err := refusal(v, machine.Instance{}, to, port)
	return nil, n.timeOut(ctx, err)
}

// instanceAt returns the instance at the end of a connection's path, and its private address.
func instanceAt(v *reach.Verdict) (id string, address netip.Addr, ok bool) {
	if len(v.Forward) == 0 {
		return "", address, false
	}
	last := v.Forward[len(v.Forward)-1]
	if last.Kind != reach.KindInstance || last.In == nil {
		return "", address, false
	}
	return last.ID, last.In.Destination, true
}

// enter connects to a port of an instance. The network has already let the connection through.
func (m *Machines) enter(ctx context.Context, id string, address netip.Addr, port int, v *reach.Verdict) (net.Conn, error) {
	computer, ok := m.runtime.Machine(id)
	if !ok {
		return nil, refusedBy(address.String(), port)
	}
	ctx = machine.WithSource(ctx, netip.AddrPortFrom(v.Forward[len(v.Forward)-1].In.Source, 0))
	conn, err := computer.Dial(ctx, address.String(), port)
	if errors.Is(err, machine.ErrBooting) || errors.Is(err, machine.ErrOff) {
		err = refusedBy(address.String(), port) // nothing listens yet, or nothing listens any more
	}
	return conn, err
}

func refusedBy(host string, port int) error {
	a, _ := netip.ParseAddr(host)
	return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, uint16(port))), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}
