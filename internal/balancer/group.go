package balancer

import (
	"cmp"
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// A Group is a target group, or the instances of a Classic Load Balancer.
type Group struct {
	ID string
	// Protocol to the targets: HTTP, HTTPS, TCP, TLS or SSL. ProtocolVersion is HTTP1, HTTP2 or GRPC.
	Protocol, ProtocolVersion string
	Targets                   []Target
	Check                     Check
	// FailOpen sends traffic to all targets if none is healthy.
	FailOpen bool
	// Algorithm is round_robin, least_outstanding_requests or weighted_random.
	Algorithm string
	Sticky    Sticky
	// PreserveClient lets targets see the client's address. Proxy is the version of the proxy protocol, or 0.
	PreserveClient bool
	Proxy          int
	// Deregistration is how long connections to a removed target go on.
	Deregistration time.Duration
}

// A Target receives traffic.
type Target struct {
	TargetID
	To Destination
	// CheckPort is the port for its health checks.
	CheckPort uint16
}

// A TargetID identifies a target of a group.
type TargetID struct {
	ID   string
	Port uint16
}

// A Check is how targets are checked.
type Check struct {
	// Protocol is HTTP, HTTPS, TCP, SSL or TLS.
	Protocol, Path    string
	Codes             func(int) bool // of HTTP
	Interval, Timeout time.Duration
	Healthy           int
	Unhealthy         int
}

// Sticky says how clients stay with a target.
type Sticky struct {
	// Kind is empty, source_ip, lb_cookie or app_cookie.
	Kind string
	// Cookie is the application's.
	Cookie   string
	Duration time.Duration // 0 lets the cookie end with the browser's session
}

// A group is a group that runs.
type group struct {
	id     string
	b      *running
	ctx    context.Context
	cancel context.CancelFunc
	kick   chan struct{} // the targets have changed

	mu      sync.Mutex
	cfg     Group
	targets map[TargetID]*target
	leaving map[TargetID]*target
	turn    uint64
}

// A target is a target that runs. What follows transport is guarded by group.mu.
type target struct {
	Target
	g         *group
	checkPort atomic.Uint32 // Target has what it was at first
	transport *http.Transport

	state       elbv2types.TargetHealthStateEnum // empty if it is not checked
	reason      elbv2types.TargetHealthReasonEnum
	description string
	good, bad   int // in a row
	due         time.Time
	checking    bool
	conns       map[net.Conn]struct{}
	requests    int
}

func newGroup(b *running, id string) *group {
	g := &group{id: id, b: b, kick: make(chan struct{}, 1), targets: map[TargetID]*target{}, leaving: map[TargetID]*target{}}
	g.ctx, g.cancel = context.WithCancel(b.ctx)
	return g
}

func (g *group) close() {
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.targets {
		t.cut()
	}
	for _, t := range g.leaving {
		t.cut()
	}
}

// cut closes the connections to a target. The caller holds mu.
func (t *target) cut() {
	for c := range t.conns {
		_ = c.Close()
	}
}

// set changes the group. Targets that stay keep their health.
func (g *group) set(want Group) {
	gone := g.replace(want)
	for _, t := range gone {
		t.transport.CloseIdleConnections() // which takes mu
		g.leave(t)
	}
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// replace changes the group and returns the targets that are no longer in it.
func (g *group) replace(want Group) (gone []*target) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.cfg
	g.cfg = want
	now := map[TargetID]*target{}
	for _, w := range want.Targets {
		t := g.targets[w.TargetID]
		if t != nil && t.To == w.To {
			t.checkPort.Store(uint32(w.CheckPort))
		}
		if t == nil || t.To != w.To || old.Protocol != want.Protocol || old.ProtocolVersion != want.ProtocolVersion {
			fresh := newTarget(g, w)
			if t != nil {
				fresh.state, fresh.reason, fresh.description, fresh.good, fresh.bad = t.state, t.reason, t.description, t.good, t.bad
				gone = append(gone, t)
			}
			t = fresh
		}
		now[w.TargetID] = t
	}
	for id, t := range g.targets {
		if now[id] == nil {
			gone = append(gone, t)
		}
	}
	for _, t := range gone {
		g.leaving[t.TargetID] = t
	}
	g.targets = now
	return gone
}

// leave lets the connections to a target end by themselves, but not for longer than the deregistration delay.
func (g *group) leave(t *target) {
	over := func() {
		t.cut()
		if g.leaving[t.TargetID] == t {
			delete(g.leaving, t.TargetID)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(t.conns) == 0 && t.requests == 0 {
		over()
		return
	}
	delay := g.cfg.Deregistration
	g.b.do(func() {
		wait := time.NewTimer(delay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-g.ctx.Done():
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		over()
	})
}

func (g *group) draining() []TargetID {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []TargetID
	for id, t := range g.leaving {
		if g.targets[id] == nil && len(t.conns)+t.requests > 0 {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b TargetID) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Port, b.Port)) })
	return out
}

// A choice is a target and the settings of its group at the time.
type choice struct {
	*target
	Group
}

// candidates returns the targets that may be chosen, in order. The caller holds mu.
func (g *group) candidates() []*target {
	var healthy, other []*target
	for _, w := range g.cfg.Targets {
		t := g.targets[w.TargetID]
		switch {
		case t.state == elbv2types.TargetHealthStateEnumHealthy:
			healthy = append(healthy, t)
		case t.state == "" || g.cfg.FailOpen:
			other = append(other, t)
		}
	}
	if len(healthy) > 0 {
		return healthy
	}
	return other
}

// pick chooses a target for a client, or returns false if there is none. If want is not nil, a target for which it returns
// true is preferred.
func (g *group) pick(client netip.AddrPort, want func(*target) bool) (choice, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.candidates()
	if len(all) == 0 {
		return choice{}, false
	}
	if want != nil {
		if i := slices.IndexFunc(all, want); i >= 0 {
			return choice{all[i], g.cfg}, true
		}
	}
	g.turn++
	t := all[g.turn%uint64(len(all))]
	switch {
	case g.cfg.Sticky.Kind == "source_ip":
		t = slices.MaxFunc(all, func(a, b *target) int { return cmp.Compare(a.weight(client.Addr()), b.weight(client.Addr())) })
	case g.cfg.Algorithm == "least_outstanding_requests":
		t = slices.MinFunc(all, func(a, b *target) int { return cmp.Compare(a.requests, b.requests) })
	case g.cfg.Algorithm == "weighted_random":
		t = all[rand.IntN(len(all))] //nolint:gosec // not a secret
	}
	return choice{t, g.cfg}, true
}

// weight is a number by which a client prefers a target, so that it keeps it when others come and go.
func (t *target) weight(client netip.Addr) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(client.AsSlice())
	_, _ = h.Write([]byte{byte(t.Port), byte(t.Port >> 8)})
	_, _ = h.Write([]byte(t.ID))
	return h.Sum64()
}

// dial connects to a target by a Destination's network, and keeps the connection until it is closed.
func (t *target) dial(ctx context.Context, network string, client netip.AddrPort) (net.Conn, error) {
	to := t.To
	to.Client, to.Network = client, network
	c, err := t.g.b.dial(ctx, to)
	if err != nil {
		return nil, err
	}
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	if t.g.ctx.Err() != nil {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	t.conns[c] = struct{}{}
	return c, nil
}

// dial connects to a destination.
func (b *running) dial(ctx context.Context, to Destination) (net.Conn, error) {
	if to.Balancer == "" {
		return b.plane.network.Dial(ctx, b.key.Account, b.key.Region, to)
	}
	other := b.key
	other.ID = to.Balancer
	client := to.Client
	if !client.IsValid() {
		client = netip.AddrPortFrom(b.plane.cfg.Client, 0)
	}
	return b.plane.Connect(other, to.Port, client)
}

// done closes a connection of dial.
func (t *target) done(c net.Conn) error {
	t.g.mu.Lock()
	delete(t.conns, c)
	t.g.mu.Unlock()
	return c.Close()
}

// busy counts a request, until the function that it returns is called.
func (t *target) busy() (end func()) {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	t.requests++
	return func() {
		t.g.mu.Lock()
		defer t.g.mu.Unlock()
		t.requests--
	}
}
