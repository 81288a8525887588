package compute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/reach"
)

// recentEnough is how long a snapshot of the network may be used to allow connections. A refusal always reflects the
// current state. On AWS a changed rule takes longer to take effect.
const recentEnough = 100 * time.Millisecond

// forgetAfter is how long an unused network of a region is cached: test suites use an account per test, and each
// network is large.
const forgetAfter = 10 * time.Second

// guestNetwork decides what instances may connect to, by the network of their account and region.
type guestNetwork struct {
	// network returns the current network of an account and region.
	network func(ctx context.Context, account, region string) (*reach.Snapshot, error)
	// through extends the verdict on a connection that reaches a load balancer. Nil means that there are no load
	// balancers.
	through func(ctx context.Context, account, region string, s *reach.Snapshot, v *reach.Verdict) (*reach.Verdict, error)
	// patience is how long a program waits for an answer to its first packet.
	patience time.Duration
	clock    clocks.Clock

	mu     sync.Mutex
	recent map[[2]string]*recentNetwork // by account and region
	conns  map[*guestConn]struct{}
}

// recentNetwork is the last known network of a region. Building the next one costs more than deciding by one, and a
// thousand instances may ask at once.
type recentNetwork struct {
	asked time.Time // guarded by guestNetwork.mu

	mu       sync.Mutex
	at       time.Time
	snapshot *reach.Snapshot
	// reachable caches what the snapshot has allowed, because the programs of an image ask for the same few hosts at
	// once.
	reachable map[target]*reach.Verdict
}

// A target is a host and port, as seen from an instance.
type target struct {
	instance, host string
	port           int
	pod            netip.Addr // that connects, if it is one
}

func newGuestNetwork(network func(ctx context.Context, account, region string) (*reach.Snapshot, error), patience time.Duration, c clocks.Clock) *guestNetwork {
	return &guestNetwork{network: network, patience: patience, clock: c, recent: map[[2]string]*recentNetwork{}, conns: map[*guestConn]struct{}{}}
}

// since returns the network as of time t or later.
func (n *guestNetwork) since(ctx context.Context, account, region string, t time.Time) (*reach.Snapshot, error) {
	r := n.recently(account, region)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snapshot != nil && !r.at.Before(t) {
		return r.snapshot, nil
	}
	began := n.clock.Now()
	s, err := n.network(ctx, account, region)
	if err != nil {
		return nil, err
	}
	r.snapshot, r.at, r.reachable = s, began, map[target]*reach.Verdict{}
	return s, nil
}

// recently returns the cache for a region, and drops regions that have not been used lately.
func (n *guestNetwork) recently(account, region string) *recentNetwork {
	now := n.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.recent, func(_ [2]string, r *recentNetwork) bool { return now.Sub(r.asked) > forgetAfter })
	r := n.recent[[2]string{account, region}]
	if r == nil {
		r = &recentNetwork{}
		n.recent[[2]string{account, region}] = r
	}
	r.asked = now
	return r
}

// verdict returns the cached verdict for a target if its snapshot is still the
// latest.
func (n *guestNetwork) verdict(s *reach.Snapshot, account, region string, t target) *reach.Verdict {
	r := n.recently(account, region)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snapshot != s {
		return nil
	}
	return r.reachable[t]
}

// know caches a verdict for as long as its snapshot is the latest.
func (n *guestNetwork) know(s *reach.Snapshot, account, region string, t target, v *reach.Verdict) {
	r := n.recently(account, region)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snapshot == s && v.Reachable {
		r.reachable[t] = v
	}
}

// check decides a TCP connection from an instance to a host name or address. Those to load balancers in its VPC are decided by the
// address of machine.WithSource, such as a pod's.
func (n *guestNetwork) check(ctx context.Context, in machine.Instance, host string, port int) (*reach.Verdict, error) {
	now := n.clock.Now()
	for _, t := range []time.Time{now.Add(-recentEnough), now} {
		s, err := n.since(ctx, in.Account, in.Region, t)
		if err != nil {
			return nil, err
		}
		to := target{in.ID, host, port, machine.SourceFrom(ctx).Addr()}
		if to.pod == in.PrivateIP {
			to.pod = netip.Addr{}
		}
		if v := n.verdict(s, in.Account, in.Region, to); v != nil {
			return v, nil
		}
		v, err := n.checkIn(ctx, s, in, to.pod, host, port)
		if err != nil {
			return nil, err
		}
		if v.Reachable || t == now {
			n.know(s, in.Account, in.Region, to, v)
			return v, nil
		}
	}
	return nil, errors.ErrUnsupported // unreachable
}

// checkIn is check in a given network. pod is the zero Addr if the instance itself connects.
func (n *guestNetwork) checkIn(ctx context.Context, s *reach.Snapshot, in machine.Instance, pod netip.Addr, host string, port int) (*reach.Verdict, error) {
	flow := reach.Flow{From: reach.At(in.ID), Protocol: reach.TCP, Port: uint16(port)}
	v := s.CheckName(flow, host)
	if r := v.Resolution; r != nil && r.LoadBalancer != "" && asPod(s, in, pod, v.Destination) {
		flow.From.Address = pod
		v = s.CheckName(flow, host)
	}
	if n.through == nil {
		return v, nil
	}
	return n.through(ctx, in.Account, in.Region, s, v)
}

// allow returns the verdict that lets an instance connect. Otherwise it returns a *node.Refusal, after the time in
// which a program would have given up.
func (n *guestNetwork) allow(ctx context.Context, in machine.Instance, host string, port int) (*reach.Verdict, error) {
	v, refused := n.decide(ctx, in, host, port)
	if refused == nil {
		return v, nil
	}
	return nil, n.timeOut(ctx, refused)
}

// asPod reports whether packets of a pod of an instance have the pod's own address. Those that leave the VPC have the instance's.
func asPod(s *reach.Snapshot, in machine.Instance, pod, to netip.Addr) bool {
	v, ok := s.Get(in.VPCID).(*reach.VPC)
	return ok && pod.IsValid() && pod != in.PrivateIP && slices.ContainsFunc(v.CIDRs, func(c netip.Prefix) bool { return c.Contains(to) })
}

// drops reports whether an instance's packets get no answer, whichever of its pods sends them. Targets of load balancers may
// decide by the address of the pod.
func drops(v *reach.Verdict, in machine.Instance, host string, port int) bool {
	behind := func(h reach.Hop) bool { return h.Kind == reach.KindLoadBalancer && h.Explanation == nil }
	return !v.Reachable && !slices.ContainsFunc(v.Forward, behind) && silent(refusal(v, in, host, port))
}

// silent reports whether a refusal means that packets are dropped.
func silent(refused error) bool {
	ne, ok := errors.AsType[net.Error](refused)
	return ok && ne.Timeout()
}

// timeOut returns a refusal. If packets are dropped, it first waits as long as a program would before it gives up.
func (n *guestNetwork) timeOut(ctx context.Context, refused error) error {
	if silent(refused) && !clock.Sleep(ctx, n.clock, n.patience) {
		return ctx.Err()
	}
	return refused
}

// decide is allow without waiting.
func (n *guestNetwork) decide(ctx context.Context, in machine.Instance, host string, port int) (*reach.Verdict, error) {
	v, err := n.check(ctx, in, host, port)
	if err != nil || v.Reachable {
		return v, err
	}
	return nil, refusal(v, in, host, port)
}

// refusal returns a Go program's error for a verdict: a name that does not resolve, or packets that get no answer.
// Security groups, network ACLs and routes drop everything that they do not allow.
func refusal(v *reach.Verdict, in machine.Instance, host string, port int) *node.Refusal {
	out := &node.Refusal{Decision: node.Decision{
		By: node.ByNetwork, Text: "there is no route to " + host, Connection: &node.Connection{From: in.ID, Host: host, Port: port},
	}}
	if len(v.Explanations) > 0 {
		x := v.Explanations[0]
		out.Decision.Code, out.Decision.Component, out.Decision.Text = x.Code, x.Component, x.Text
		if x.Code == reach.CodeFault {
			out.Decision.By = node.ByFault
		}
	}
	if v.Resolution != nil && len(v.Resolution.Addresses) == 0 {
		de := &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		if v.Resolution.Silent {
			de = noAnswer(in.PrivateIP, host)
		}
		out.Err = &net.OpError{Op: "dial", Net: "tcp", Err: de}
		return out
	}
	if x := out.Decision.Code; x == reach.CodeNoTargets || x == reach.CodeTargetHealth {
		out.Err = io.EOF // the load balancer accepts the connection but can only close it
		return out
	}
	out.Err = &net.OpError{
		Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(v.Destination, uint16(port))), Err: os.ErrDeadlineExceeded,
	}
	return out
}

// A guestConn is a connection of an instance, with the verdict that allowed it.
type guestConn struct {
	net.Conn
	n       *guestNetwork
	in      machine.Instance
	name    string
	verdict *reach.Verdict
}

// Route implements node.Routed.
func (c *guestConn) Route() node.Route {
	r := node.Route{Name: c.name, Address: c.verdict.Destination}
	if c.verdict.Resolution != nil {
		r.By = c.verdict.Resolution.By
	}
	return r
}

// Close implements net.Conn.
func (c *guestConn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets tunnels close one direction.
func (c *guestConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// track registers a connection for as long as it is open.
func (n *guestNetwork) track(conn net.Conn, in machine.Instance, name string, v *reach.Verdict) net.Conn {
	c := &guestConn{Conn: conn, n: n, in: in, name: name, verdict: v}
	n.mu.Lock()
	n.conns[c] = struct{}{}
	n.mu.Unlock()
	return c
}

// cut closes the connections that the current network does not allow, and returns their number. Security groups let
// established connections continue; network ACLs and routes do not.
func (n *guestNetwork) cut(ctx context.Context) (int, error) {
	n.mu.Lock()
	open := map[[2]string][]*guestConn{}
	for c := range n.conns {
		k := [2]string{c.in.Account, c.in.Region}
		open[k] = append(open[k], c)
	}
	n.mu.Unlock()
	var closed int
	for k, conns := range open {
		s, err := n.since(ctx, k[0], k[1], n.clock.Now())
		if err != nil {
			return closed, fmt.Errorf("the network of %s in %s: %w", k[0], k[1], err)
		}
		for _, c := range conns {
			made, ok := c.verdict.Established()
			if ok && !s.Continues(made).Reachable {
				_ = c.Close() // the connection's programs notice it
				closed++
			}
		}
	}
	return closed, nil
}

// run cuts connections when the network has changed, until ctx ends. It uses at most a twentieth of the time.
func (n *guestNetwork) run(ctx context.Context, changed func() <-chan struct{}) error {
	for {
		wake := changed()
		began := n.clock.Now()
		if _, err := n.cut(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if !clock.Sleep(ctx, n.clock, max(500*time.Millisecond, 20*n.clock.Since(began))) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
	}
}

// origin returns how an instance's calls reached the AWS API server: the address, and the VPC endpoint if there is
// one.
func (c *guestConn) origin() Origin {
	o := Origin{Endpoint: endpointOf(c.in, c.verdict), Address: c.verdict.Source}
	for _, h := range c.verdict.Forward {
		if h.Out != nil {
			o.Address = h.Out.Source // use the public address, if it goes through a gateway
		}
	}
	return o
}

// endpointOf returns the VPC endpoint that an instance's connection goes through, if any.
func endpointOf(in machine.Instance, v *reach.Verdict) awsapi.VPCEndpoint {
	if v.Endpoint == "" {
		return awsapi.VPCEndpoint{}
	}
	return awsapi.VPCEndpoint{ID: v.Endpoint, VPCID: in.VPCID, Account: in.Account, Region: in.Region}
}

// An Origin says where a guest's call comes from.
type Origin struct {
	Endpoint awsapi.VPCEndpoint // if it came through one
	Address  netip.Addr
}

// Origins are those of guests' open connections to the AWS API server, by their remote address as the AWS API server
// sees it.
type Origins struct {
	mu  sync.Mutex
	all map[string]Origin
}

// Of returns the origin of a guest's connection.
func (o *Origins) Of(remote string) (endpoint awsapi.VPCEndpoint, address netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.all[remote]
	return g.Endpoint, g.Address
}

// Has reports whether a connection belongs to a guest, although it comes from this machine.
func (o *Origins) Has(remote string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.all[remote]
	return ok
}

// add registers a connection until it is closed.
func (o *Origins) add(c net.Conn, g Origin) net.Conn {
	o.Set(c.LocalAddr().String(), g)
	return &originConn{Conn: c, o: o}
}

// Set sets the origin of the calls on a connection until Forget. The connection is identified by its remote address
// as the AWS API server sees it.
func (o *Origins) Set(remote string, g Origin) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[string]Origin{}
	}
	o.all[remote] = g
}

// Forget removes a connection.
func (o *Origins) Forget(remote string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, remote)
}

type originConn struct {
	net.Conn
	o *Origins
}

func (c *originConn) Close() error {
	c.o.Forget(c.Conn.LocalAddr().String())
	return c.Conn.Close()
}
