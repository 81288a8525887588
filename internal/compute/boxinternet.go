package compute

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/dialout"
	"github.com/drydock-dev/drydock/internal/egress"
	"github.com/drydock-dev/drydock/internal/fabric"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2"
)

// Internet connects machines that run containers to the real internet.
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
// AWS and the networks have, or may be assigned: an address that an instance has released must not lead to a stranger.
func insideOf(snapshots map[[2]string]*reach.Snapshot) []netip.Prefix {
	out := append(dialout.Special(), ec2.PublicRanges()...)
	for s := range maps.Values(snapshots) {
		out = append(out, s.Owned()...)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// leave lets packets leave for the internet until the run of the host ends, if there is an internet. Without one, the network
// drops them. The caller holds apply.
func (n *boxNetwork) leave(ctx context.Context, done <-chan struct{}) {
	n.leaves.Store(false)
	way := n.machines.cfg.Internet
	if way == nil {
		return
	}
	device, err := n.rt.Leave(ctx)
	n.leaves.Store(err == nil)
	run, end := context.WithCancel(context.Background())
	go func() {
		<-done
		end()
	}()
	go func() {
		defer end()
		w := wayOut{
			carry: func(device io.ReadWriteCloser) error {
				return egress.Run(run, egress.Config{Device: device, MTU: fabric.MTU, Dial: way.Dial, Log: n.log})
			},
			open:    func() (io.ReadWriteCloser, error) { return n.rt.Leave(run) },
			changed: func(leaves bool) { n.changeLeaves(run, done, leaves) },
			clock:   n.machines.cfg.Clock, log: n.log,
		}
		w.keep(run, device, err)
	}()
}

// changeLeaves changes the network of a run of the host when packets leave, or no longer do.
func (n *boxNetwork) changeLeaves(ctx context.Context, done <-chan struct{}, leaves bool) {
	n.apply.Lock()
	current := n.done == done
	if current {
		n.leaves.Store(leaves)
	}
	n.apply.Unlock()
	if !current || len(n.running()) == 0 {
		return
	}
	if err := n.connect(ctx); err != nil && ctx.Err() == nil {
		n.log.Warn("the network of machines that run containers could not be changed", "err", err)
	}
}

// A wayOut carries packets to the internet, with a new device whenever one fails.
type wayOut struct {
	carry   func(io.ReadWriteCloser) error // until the device fails, or the context of keep ends
	open    func() (io.ReadWriteCloser, error)
	changed func(leaves bool)
	clock   clocks.Clock
	log     *slog.Logger
}

// leaveAgain is how long a wayOut waits after a failure.
const leaveAgain = 10 * time.Second

// keep carries packets until ctx ends. It begins with the result of open. It calls changed when packets leave again, or no longer do.
func (w *wayOut) keep(ctx context.Context, device io.ReadWriteCloser, err error) {
	if err != nil {
		w.log.Warn("machines that run containers do not reach the internet: it is tried again; see drydock doctor containers", "err", err)
	}
	for {
		if err == nil {
			err = w.carry(device)
			if ctx.Err() != nil {
				return
			}
			w.log.Warn("machines that run containers no longer reach the internet: it is tried again", "err", err)
			w.changed(false)
		}
		if !clock.Sleep(ctx, w.clock, leaveAgain) {
			return
		}
		if device, err = w.open(); err == nil {
			w.log.Info("machines that run containers reach the internet")
			w.changed(true)
		}
	}
}

// resolve returns what the VPC's DNS server answers an instance, and whether the addresses are the internet's. Of names there, it asks only for
// IPv4 addresses, if the query does.
func (n *boxNetwork) resolve(ctx context.Context, in machine.Instance, name string, ipv4 bool) (all []netip.Addr, outside bool, err error) {
	r, err := n.guests.resolution(ctx, in, name)
	if err != nil || !n.leaves.Load() || r.Outside == "" {
		return r.Addresses, false, err
	}
	if ipv4 {
		all, err = n.machines.cfg.Internet.Lookup(ctx, r.Outside)
	}
	return all, true, err
}
