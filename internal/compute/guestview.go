package compute

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reach"
)

// now returns the current network of an instance.
func (g *guests) now(ctx context.Context, in machine.Instance) (*reach.Snapshot, error) {
	return g.machines.network.since(ctx, in.Account, in.Region, g.machines.network.clock.Now())
}

// resolve resolves a name as the DNS server of an instance's VPC does.
func (g *guests) resolve(ctx context.Context, in machine.Instance, name string) ([]netip.Addr, error) {
	r, err := g.resolution(ctx, in, name)
	return r.Addresses, err
}

// resolution is resolve with more of the answer.
func (g *guests) resolution(ctx context.Context, in machine.Instance, name string) (reach.Resolution, error) {
	s, err := g.now(ctx, in)
	if err != nil {
		return reach.Resolution{}, err
	}
	r := s.Resolve(reach.At(in.ID), name)
	if r.Silent {
		return reach.Resolution{}, noAnswer(in.PrivateIP, name)
	}
	if len(r.Addresses) == 0 {
		return reach.Resolution{}, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return r, nil
}

// errNoEcho means that the network lets an echo through, but nothing answers it.
var errNoEcho = errors.New("no echo")

// sharedSpace is where VPCs have secondary ranges for pods, besides private addresses.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// ping returns a host's address, and an error if the host does not answer an ICMP echo from an instance. Public addresses
// never answer, because instances do not reach the internet.
func (g *guests) ping(ctx context.Context, in machine.Instance, host string) (netip.Addr, error) {
	s, err := g.now(ctx, in)
	if err != nil {
		return netip.Addr{}, err
	}
	v := s.CheckName(reach.Flow{From: reach.At(in.ID), Protocol: reach.ICMP}, host)
	switch {
	case v.Reachable && (v.Destination.IsPrivate() || sharedSpace.Contains(v.Destination)):
		return v.Destination, nil
	case v.Reachable:
		return v.Destination, errNoEcho
	}
	return v.Destination, os.ErrDeadlineExceeded
}

// subnet returns the IPv4 range of a subnet.
func (g *guests) subnet(in machine.Instance, id string) netip.Prefix {
	s, err := g.now(context.Background(), in)
	if err != nil {
		return netip.Prefix{}
	}
	if sn, ok := s.Get(id).(*reach.Subnet); ok {
		for _, p := range sn.CIDRs {
			if p.Addr().Is4() {
				return p
			}
		}
	}
	return netip.Prefix{}
}
