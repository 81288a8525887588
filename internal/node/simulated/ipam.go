package simulated

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// An IPAM is the VPC CNI plugin's daemon for a node whose pods really run: it gets addresses for them from EC2 as for those of
// a simulated node, by the same targets, and with the same errors. It never gives any back.
type IPAM struct{ d *ipamd }

// NewIPAM returns the daemon of an instance with the environment of the container aws-node.
func NewIPAM(cfg node.Config, now clock.WithTicker, in machine.Instance, maxPods int, env map[string]string) *IPAM {
	return &IPAM{&ipamd{
		m: &instance{rt: &Runtime{cfg: cfg, clock: now}, in: in}, maxPods: maxPods, pool: newPool(), cfg: parseCNI(env),
		log: func(string, ...any) {}, denied: func(string) {},
		eniConfig: func(context.Context) (string, []string, error) {
			return "", nil, errors.New("eniconfig: eniconfig is not available")
		},
	}}
}

// Start gets the first addresses. Even if it succeeds, there may be none yet.
func (p *IPAM) Start(ctx context.Context) error { return p.d.start(ctx) }

// Follow gets more addresses if those that are not in use are fewer than the targets. Problem says why that failed.
func (p *IPAM) Follow(ctx context.Context, used map[netip.Addr]bool) error {
	d := p.d
	for _, a := range d.pool.order {
		switch {
		case used[a.ip]:
			d.pool.claim(a.ip, inUse)
		case a.uid != "":
			d.pool.release(a.ip, a.uid, d.m.rt.clock.Now())
		}
	}
	if !d.tooLow() {
		return nil
	}
	if err := d.increase(ctx); err != nil {
		return err
	}
	return d.problem
}

// inUse is what every address in use belongs to: which pod has it, only the node knows.
const inUse = types.UID("in use")

// Interfaces returns the instance's network interfaces whose addresses pods get, with the addresses of each.
func (p *IPAM) Interfaces() map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for _, e := range p.d.usable() {
		out[e.ID] = nil
	}
	for _, a := range p.d.pool.order {
		if a.known {
			out[a.eni] = append(out[a.eni], a.ip)
		}
	}
	return out
}

// Devices returns the device numbers of the instance's network interfaces.
func (p *IPAM) Devices() map[string]int {
	out := map[string]int{}
	for _, e := range p.d.enis {
		out[e.ID] = e.Device
	}
	return out
}

// Addresses returns all addresses for pods.
func (p *IPAM) Addresses() []netip.Addr {
	return slices.Concat(slices.Collect(maps.Values(p.Interfaces()))...)
}

// Has describes what the daemon has for pods.
func (p *IPAM) Has() string { return p.d.has() }
