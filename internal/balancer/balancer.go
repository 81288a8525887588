// Package balancer carries the traffic of load balancers of both generations: it accepts connections, chooses healthy
// targets and forwards bytes or HTTP requests to them.
//
//	service/elbv2, service/elb ── Put(key, LoadBalancer) ──► Plane ── Config.Dial ──► targets
//	a client on this machine ── 127.0.0.1:PORT ──► Config.Admit ──► a listener
//	a client in a VPC ── Plane.Connect ──► a listener
//
// Each listener has a port on 127.0.0.1, which is stored, so that it stays the same after a restart if it is still
// free. The client is this machine as AWS sees it: Admit decides whether the network lets it connect to the load
// balancer. Config.Dial connects from the load balancer's network interface, so the network decides about targets,
// too.
//
// The package does not depend on the services. It uses the types of Elastic Load Balancing version 2 for rules and
// health. Version 1 has no rules; here, its listeners have a single one.
package balancer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what a Plane needs.
type Config struct {
	Store *store.Store
	// Client is the address of this machine as AWS sees it.
	Client netip.Addr
	// Patience divides the time between health checks.
	Patience int
	Log      *slog.Logger // nil means slog.Default
}

// A Network is between clients, load balancers and targets. Dial and Runs are required.
type Network struct {
	// Dial connects from a load balancer's network interface to a target. The connection's local address is that of the
	// interface, whatever the target sees. Its errors are those of net.Dial. If the network drops the packets, it waits before
	// it returns an error that is a timeout.
	Dial func(ctx context.Context, account, region string, to Destination) (net.Conn, error)
	// Runs reports whether programs run behind a target. Targets behind which none run are not checked.
	Runs func(account, region string, to Destination) bool
	// Admit returns why the network does not let this machine connect to a port of a load balancer, or nil.
	// The network is tcp or udp.
	Admit func(ctx context.Context, account, region, dnsName, network string, port uint16) error
}

// A LoadBalancer is what its owner wants it to do.
type LoadBalancer struct {
	DNSName   string
	Listeners []Listener
	Groups    []Group
}

// A Listener accepts connections to a port of the load balancer.
type Listener struct {
	Port uint16
	// Protocol is TCP, TLS, SSL, HTTP, HTTPS or UDP. There may be one for UDP at the port of another one.
	Protocol string
	// Fault says why the listener carries nothing, or is empty.
	Fault string
	// TLS has the certificates, the default one first, of protocols that are encrypted.
	TLS *tls.Config
	// ClientCertificates passes the client's certificate to targets in a header.
	ClientCertificates bool
	// Rules are tried in order. The last one has no conditions. A listener of layer 4 has only that one.
	Rules []Rule
	// Web are the settings of listeners for HTTP.
	Web Web
}

// Recheck returns how long the settings of a load balancer hold: its certificates may be imported again, and no record of
// a load balancer changes with them. 0 means that they hold until a record changes.
func Recheck(lb *LoadBalancer) time.Duration {
	if slices.ContainsFunc(lb.Listeners, func(l Listener) bool { return l.Protocol == "TLS" || l.Protocol == "SSL" || l.Protocol == "HTTPS" }) {
		return 15 * time.Second
	}
	return 0
}

// layer7 reports whether the listener is for HTTP.
func (l *Listener) layer7() bool { return l.Protocol == "HTTP" || l.Protocol == "HTTPS" }

// A Rule says what is done with requests that meet its conditions. The last of its actions counts.
type Rule struct {
	Conditions []elbv2types.RuleCondition
	Action     elbv2types.Action
}

// Web are settings of listeners for HTTP, by attributes of load balancers and listeners.
type Web struct {
	// Classic load balancers write fewer headers, and answer in other words.
	Classic bool
	HTTP2   bool
	// Idle is how long a connection may be idle.
	Idle time.Duration
	// ForwardedFor is append, preserve or remove.
	ForwardedFor string
	ClientPort   bool // in X-Forwarded-For
	// TLSHeaders adds the version and the cipher suite.
	TLSHeaders bool
	// DropInvalid removes header fields whose names are not valid.
	DropInvalid bool
	NoServer    bool // removes the header Server
	// Headers are set in all answers.
	Headers map[string]string
}

// A Plane carries the traffic of all load balancers.
type Plane struct {
	cfg     Config
	network Network // of Run
	log     *slog.Logger
	started chan struct{}

	mu        sync.Mutex
	ctx       context.Context // of Run
	balancers map[store.Key]*running
	tasks     sync.WaitGroup
}

// New returns a Plane. Nothing is accepted before Run.
func New(cfg Config) *Plane {
	cfg.Patience = max(1, cfg.Patience)
	return &Plane{cfg: cfg, log: cmp.Or(cfg.Log, slog.Default()), started: make(chan struct{}), balancers: map[store.Key]*running{}}
}

// Run owns everything that the plane does in a network, until ctx ends. It returns when all connections are closed.
func (p *Plane) Run(ctx context.Context, network Network) error {
	p.mu.Lock()
	p.ctx, p.network = ctx, network
	p.mu.Unlock()
	close(p.started)
	<-ctx.Done()
	p.mu.Lock()
	all := p.balancers
	p.balancers = map[store.Key]*running{}
	p.mu.Unlock()
	for _, b := range all {
		b.close()
	}
	p.tasks.Wait()
	return nil
}

// running is a load balancer that runs.
type running struct {
	plane     *Plane
	key       store.Key
	name      string // in DNS
	ctx       context.Context
	cancel    context.CancelFunc
	listeners map[uint16]*listener
	packets   map[uint16]*packetListener
	groups    map[string]*group
}

// do runs a task of the load balancer, which must end soon after its context.
func (b *running) do(task func()) { b.plane.tasks.Go(task) }

func (b *running) close() {
	b.cancel()
	for _, l := range b.listeners {
		l.close()
	}
	for _, l := range b.packets {
		l.close()
	}
	for _, g := range b.groups {
		g.close()
	}
}

// Put makes a load balancer as its owner wants it. Connections go on where their listener and target stay.
func (p *Plane) Put(ctx context.Context, key store.Key, want LoadBalancer) error {
	select {
	case <-p.started:
	case <-ctx.Done():
		return ctx.Err()
	}
	ports, err := p.remembered(key)
	if err != nil {
		return err
	}
	now, err := p.change(key, want, ports)
	if err != nil || maps.Equal(now, ports) {
		return err
	}
	return p.remember(ctx, key, now)
}

// change is Put without the store. It returns the ports on this machine, by port of the load balancer.
func (p *Plane) change(key store.Key, want LoadBalancer, old map[uint16]uint16) (map[uint16]uint16, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil, p.ctx.Err()
	}
	b := p.balancers[key]
	if b != nil && b.name != want.DNSName { // a new load balancer with the name of an old one
		b.close()
		b = nil
	}
	if b == nil {
		b = &running{plane: p, key: key, name: want.DNSName, listeners: map[uint16]*listener{}, packets: map[uint16]*packetListener{}, groups: map[string]*group{}}
		b.ctx, b.cancel = context.WithCancel(p.ctx)
		p.balancers[key] = b
	}
	b.setGroups(want.Groups)
	if err := b.setListeners(want.Listeners, old); err != nil {
		return nil, err
	}
	now := map[uint16]uint16{}
	for port, l := range b.listeners {
		if local := cmp.Or(l.local, old[port]); local != 0 { // it may carry something again
			now[port] = local
		}
	}
	local := maps.Clone(old)
	if local == nil {
		local = map[uint16]uint16{}
	}
	maps.Copy(local, now)
	if err := b.setPackets(want.Listeners, local); err != nil {
		return nil, err
	}
	for port, l := range b.packets {
		now[port] = cmp.Or(now[port], l.local)
	}
	return now, nil
}

func (b *running) setGroups(want []Group) {
	for id, g := range b.groups {
		if !slices.ContainsFunc(want, func(w Group) bool { return w.ID == id }) {
			g.close()
			delete(b.groups, id)
		}
	}
	for _, w := range want {
		g := b.groups[w.ID]
		if g == nil {
			g = newGroup(b, w.ID)
			b.groups[w.ID] = g
			b.do(g.run)
		}
		g.set(w)
	}
}

func (b *running) setListeners(want []Listener, ports map[uint16]uint16) error {
	for port, l := range b.listeners {
		i := slices.IndexFunc(want, func(w Listener) bool { return w.Port == port && !w.packets() })
		if i < 0 || l.ln == nil || !l.same(&want[i]) {
			l.close()
			delete(b.listeners, port)
		}
	}
	for i := range want {
		w := &want[i]
		if w.packets() {
			continue
		}
		l := b.listeners[w.Port]
		switch live := l != nil && l.ln != nil; {
		case live && w.Fault != "":
			continue // another one at this port carries traffic
		case !live && w.Fault == "":
			var err error
			if l, err = b.listen(w, ports[w.Port]); err != nil {
				return fmt.Errorf("a port for %s:%d: %w", b.name, w.Port, err)
			}
		case l == nil:
			l = &listener{b: b}
		}
		l.want.Store(w)
		b.listeners[w.Port] = l
	}
	return nil
}

// Remove ends a load balancer and its connections.
func (p *Plane) Remove(ctx context.Context, key store.Key) error {
	p.mu.Lock()
	b := p.balancers[key]
	delete(p.balancers, key)
	p.mu.Unlock()
	if b != nil {
		b.close()
	}
	return p.forget(ctx, key)
}

// at returns the listener at a port of a load balancer that carries traffic.
func (p *Plane) at(key store.Key, port uint16) (*listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.balancers[key]
	if b == nil {
		return nil, ErrNoListener
	}
	l := b.listeners[port]
	if l == nil {
		return nil, ErrNoListener
	}
	if w := l.want.Load(); w.Fault != "" {
		return nil, errors.New(w.Fault)
	}
	return l, nil
}

// ErrNoListener says that a load balancer has no listener at a port.
var ErrNoListener = errors.New("the load balancer has no listener at this port")

// Connect connects a client to a port of a load balancer. The network has let it through.
func (p *Plane) Connect(key store.Key, port uint16, client netip.AddrPort) (net.Conn, error) {
	l, err := p.at(key, port)
	if err != nil {
		return nil, err
	}
	near, far, err := pair()
	if err != nil {
		return nil, err
	}
	l.serve(far, client)
	return near, nil
}

// Serves reports whether a port of a load balancer leads to programs, or to an answer of the load balancer itself.
func (p *Plane) Serves(key store.Key, port uint16) bool {
	l, err := p.at(key, port)
	if err != nil {
		return false
	}
	for _, r := range l.want.Load().Rules {
		if r.Action.Type != elbv2types.ActionTypeEnumForward {
			return true
		}
		ids, _, _ := weights(r.Action)
		for _, id := range ids {
			if g := p.group(key, id); g != nil && g.checked() {
				return true
			}
		}
	}
	return false
}

// An Open listener is one with a port on this machine.
type Open struct {
	Port     uint16 // of the load balancer
	Protocol string
	// Local is the port on 127.0.0.1, or 0 if the listener carries nothing, for the reason in Fault.
	Local uint16
	Fault string
}

// Open returns the listeners of a load balancer, by port.
func (p *Plane) Open(key store.Key) []Open {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Open
	if b := p.balancers[key]; b != nil {
		for port, l := range b.listeners {
			w := l.want.Load()
			out = append(out, Open{port, w.Protocol, l.local, w.Fault})
		}
		for port, l := range b.packets {
			out = append(out, Open{port, l.want.Load().Protocol, l.local, ""})
		}
	}
	slices.SortFunc(out, func(a, b Open) int { return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol)) })
	return out
}

// group returns a target group of a load balancer, or nil.
func (p *Plane) group(key store.Key, id string) *group {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.balancers[key]; b != nil {
		return b.groups[id]
	}
	return nil
}

// Health returns the health of a target by its health checks, or nil if it is not checked.
func (p *Plane) Health(key store.Key, group string, t TargetID) *elbv2types.TargetHealth {
	if g := p.group(key, group); g != nil {
		return g.health(t)
	}
	return nil
}

// Draining returns the targets of a group that have been removed from it and still have connections.
func (p *Plane) Draining(key store.Key, group string) []TargetID {
	if g := p.group(key, group); g != nil {
		return g.draining()
	}
	return nil
}

// rules returns the rules of a listener.
func (p *Plane) rules(key store.Key, o Open) ([]Rule, error) {
	if o.Protocol != "UDP" {
		l, err := p.at(key, o.Port)
		if err != nil {
			return nil, err
		}
		return l.want.Load().Rules, nil
	}
	l := p.packetsAt(key, o.Port)
	if l == nil {
		return nil, ErrNoListener
	}
	return l.want.Load().Rules, nil
}

// Problem says why clients of a listener get no answer from a target, or nothing.
func (p *Plane) Problem(key store.Key, o Open) string {
	rules, err := p.rules(key, o)
	if err != nil {
		return err.Error()
	}
	said := ""
	for _, r := range rules {
		if r.Action.Type != elbv2types.ActionTypeEnumForward {
			return ""
		}
		ids, _, _ := weights(r.Action)
		for _, id := range ids {
			g := p.group(key, id)
			if g == nil {
				continue
			}
			problem := g.problem()
			if problem == "" {
				return ""
			}
			said = problem
		}
	}
	return said
}
