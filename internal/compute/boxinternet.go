package compute

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/dialout"
	"github.com/drydock-dev/drydock/internal/egress"
	"github.com/drydock-dev/drydock/internal/fabric"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reach"
)

// Internet is the way of machines that run containers to the real internet.
type Internet struct {
	// Dial connects to an address there. It must refuse those of this machine and its networks.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Lookup returns the IPv4 addresses of a name. Its errors are those of net.Resolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
}

// internetPatience bounds an attempt to connect, after which clients have usually given up.
const internetPatience = 30 * time.Second

// RealInternet is the internet that this machine reaches, with the names that its DNS servers know.
func RealInternet() *Internet {
	return &Internet{
		Dial: dialout.Internet(internetPatience).DialContext,
		Lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
			all, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", name+".") // without the domains that this machine searches
			if err != nil {
				return nil, err
			}
			all = slices.DeleteFunc(all, func(a netip.Addr) bool { return dialout.OnInternet(a) != nil })
			if len(all) == 0 {
				return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
			}
			return all, nil
		},
	}
}

var wholeInternet = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}

// insideOf returns the addresses that do not lead to the internet, sorted: those that the internet does not route, and those that
// AWS and the networks have.
func insideOf(snapshots map[[2]string]*reach.Snapshot) []netip.Prefix {
	out := dialout.Special()
	for s := range maps.Values(snapshots) {
		out = append(out, s.Owned()...)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// leave lets packets leave for the internet until the run of the host ends, if there is an internet. Without one, the network
// drops them. The caller holds apply.
func (n *boxNetwork) leave(ctx context.Context, done <-chan struct{}) {
	n.leaves = false
	way := n.machines.cfg.Internet
	if way == nil {
		return
	}
	device, err := n.rt.Leave(ctx)
	if err != nil {
		n.log.Warn("machines that run containers do not reach the internet: see drydock doctor containers", "err", err)
		return
	}
	n.leaves = true
	run, end := context.WithCancel(context.Background())
	go func() {
		<-done
		end()
	}()
	go func() {
		defer end()
		if err := egress.Run(run, egress.Config{Device: device, MTU: fabric.MTU, Dial: way.Dial}); err != nil {
			select {
			case <-done: // the device went with the network
			default:
				n.log.Warn("machines that run containers no longer reach the internet", "err", err)
			}
		}
	}()
}

// resolve returns what the VPC's DNS server answers an instance, and whether the addresses are the internet's.
func (n *boxNetwork) resolve(ctx context.Context, in machine.Instance, name string) (all []netip.Addr, outside bool, err error) {
	r, err := n.guests.resolution(ctx, in, name)
	if err != nil || n.machines.cfg.Internet == nil || r.Outside == "" {
		return r.Addresses, false, err
	}
	all, err = n.machines.cfg.Internet.Lookup(ctx, r.Outside)
	return all, true, err
}
