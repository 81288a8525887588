package accountnet

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
)

// balancers returns the load balancers of an account and region as the network sees them.
func (n *Network) balancers(account, region string) []*reach.LoadBalancer {
	classic := elb.Endpoints(n.cfg.Store, account, region)
	newer := elbv2.Endpoints(n.cfg.Store, account, region)
	out := make([]*reach.LoadBalancer, 0, len(classic)+len(newer))
	for _, e := range slices.Concat(newer, classic) {
		out = append(out, &reach.LoadBalancer{DNSName: strings.ToLower(e.DNSName), Name: e.Name, Internal: e.Internal, Interfaces: e.Interfaces})
	}
	return out
}

// Balanced is a Network that knows what its load balancers do with connections.
type Balanced struct {
	*Network
	ELB   ELB
	ELBv2 ELBv2
}

// ELB is the part of Elastic Load Balancing's first version that is needed here.
type ELB interface {
	Serve(ctx context.Context, account, region, name string, port uint16) (elb.Way, error)
}

// ELBv2 is the part of Elastic Load Balancing's second version that is needed here.
type ELBv2 interface {
	Serve(ctx context.Context, account, region, arn string, port uint16) (elbv2.Way, error)
}

// A balancing is what a load balancer does with a connection to one of its ports.
type balancing struct {
	listener string // a description; empty if there is no listener
	// answer is the load balancer's own answer, if it does not forward.
	answer  string
	targets []balancedTarget
	// The explanation codes if there is no listener or no target.
	noListener, noTargets string
	group                 string // the ARN of the target group
}

type balancedTarget struct {
	what      string // i-… or an address
	to        reach.Endpoint
	from      string // the interface of the load balancer
	port      uint16
	checked   uint16 // the port of the health checks
	healthy   bool
	why       string // why it is not healthy
	keepsAddr bool   // the target sees the client's address
}

// balance asks the service that owns a load balancer.
func (n *Balanced) balance(ctx context.Context, account, region string, lb *reach.LoadBalancer, port uint16) (balancing, error) {
	if !strings.HasPrefix(lb.Name, "arn:") {
		w, err := n.ELB.Serve(ctx, account, region, lb.Name, port)
		b := balancing{
			listener: w.Listener, noListener: reach.CodeClassicListeners, noTargets: reach.CodeTargetHealth,
		}
		for _, t := range w.Targets {
			b.targets = append(b.targets, balancedTarget{
				what: t.Instance, to: reach.At(t.Instance), from: t.Interface, port: t.Port, checked: t.CheckPort, healthy: t.Healthy, why: t.Why,
			})
		}
		return b, err
	}
	w, err := n.ELBv2.Serve(ctx, account, region, lb.Name, port)
	b := balancing{
		listener: w.Listener, answer: w.Answer, noListener: reach.CodeListeners, noTargets: reach.CodeNoTargets,
		group: w.Group,
	}
	for _, t := range w.Targets {
		bt := balancedTarget{
			what: t.ID, to: reach.At(t.Probe.Instance), from: t.Probe.Interface, port: t.Port, checked: t.Probe.Port,
			healthy: t.Healthy, why: t.Why, keepsAddr: t.KeepsAddress,
		}
		if t.Probe.Instance == "" {
			bt.to = reach.Addr(t.Probe.Address)
		}
		b.targets = append(b.targets, bt)
	}
	return b, err
}

// Through extends the verdict on a connection that reaches a load balancer's interface: to its listener, and to a
// healthy target. It returns other verdicts unchanged.
func (n *Balanced) Through(ctx context.Context, account, region string, s *reach.Snapshot, v *reach.Verdict) (*reach.Verdict, error) {
	if !v.Reachable || v.Flow.Protocol != reach.TCP {
		return v, nil
	}
	i := slices.IndexFunc(v.Forward, func(h reach.Hop) bool { return h.Kind == reach.KindInterface && s.LoadBalancerOf(h.ID) != nil })
	if i < 0 {
		return v, nil
	}
	lb := s.LoadBalancerOf(v.Forward[i].ID)
	if v.Flow.From.ID == v.Forward[i].ID { // the connection is the load balancer's own
		return v, nil
	}
	b, err := n.balance(ctx, account, region, lb, v.Flow.Port)
	if err != nil {
		return nil, fmt.Errorf("load balancer %s: %w", lb.Name, err)
	}
	return b.through(s, lb, v), nil
}

func (b *balancing) through(s *reach.Snapshot, lb *reach.LoadBalancer, v *reach.Verdict) *reach.Verdict {
	hop := reach.BalancerHop(lb, b.listener)
	refuse := func(code, format string, args ...any) *reach.Verdict {
		h := hop.Refuse(code, format, args...)
		h.Explanation.Ports, h.Explanation.TargetGroup = reach.Ports{{From: v.Flow.Port, To: v.Flow.Port}}, b.group
		return v.Through(h, nil)
	}
	switch {
	case b.listener == "":
		return refuse(b.noListener, "%s has no listener at port %d", lb.Name, v.Flow.Port)
	case b.answer != "":
		hop.Note += ", " + b.answer
		return v.Through(hop, nil)
	case len(b.targets) == 0:
		return refuse(b.noTargets, "%s has no targets", b.listener)
	}
	client := v.Source
	for _, h := range v.Forward { // use its public address if it comes through a gateway
		if h.Out != nil {
			client = h.Out.Source
		}
	}
	decide := func(t *balancedTarget) *reach.Verdict {
		seen := netip.Addr{}
		if t.keepsAddr {
			seen = client
		}
		return s.CheckTarget(reach.Flow{From: reach.At(t.from), To: t.to, Protocol: reach.TCP, Port: t.port}, seen)
	}
	// Take the first healthy target, so that the same question gets the same answer, or another one if that is its own client:
	// the load balancer may choose any.
	t := &b.targets[0]
	if i := slices.IndexFunc(b.targets, func(t balancedTarget) bool { return t.healthy }); i >= 0 {
		t = &b.targets[i]
		ownClient := func(v *reach.Verdict) bool {
			return len(v.Explanations) == 1 && v.Explanations[0].Code == reach.CodeUnsupported
		}
		if t.keepsAddr && t.from != "" && ownClient(decide(t)) {
			if j := slices.IndexFunc(b.targets, func(t balancedTarget) bool { return t.healthy && t.from != "" && decide(&t).Reachable }); j >= 0 {
				t = &b.targets[j]
			}
		}
	}
	if t.to == (reach.Endpoint{}) || t.from == "" {
		if t.healthy { // a load balancer behind a load balancer answers for itself
			hop.Note += ", forwarded to " + t.what
			return v.Through(hop, nil)
		}
		return refuse(reach.CodeTargetHealth, "no target of %s is healthy: %s: %s", b.listener, t.what, t.why)
	}
	if !t.healthy {
		// Whatever blocks the health checks also blocks other connections.
		if c := s.CheckTarget(reach.Flow{From: reach.At(t.from), To: t.to, Protocol: reach.TCP, Port: t.checked}, netip.Addr{}); !c.Reachable {
			hop.Note += ", no target of which is healthy: " + t.what + ": " + t.why
			return v.Through(hop, c)
		}
		return refuse(reach.CodeTargetHealth, "no target of %s is healthy: %s port %d: %s", b.listener, t.what, t.checked, t.why)
	}
	hop.Note += ", forwarded to " + t.what + ", which is healthy"
	return v.Through(hop, decide(t))
}
