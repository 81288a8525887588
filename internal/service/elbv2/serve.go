package elbv2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/store"
)

// Endpoints returns the endpoints of the load balancers in an account and region.
func Endpoints(r store.Reader, account, region string) []elbnet.Endpoint {
	all := loadBalancers.All(r, regional.At(account, region).All())
	out := make([]elbnet.Endpoint, 0, len(all))
	for i := range all {
		lb := &all[i].Value
		e := elbnet.Endpoint{Name: lb.arn(), DNSName: *lb.LB.DNSName, Internal: lb.LB.Scheme == elbv2types.LoadBalancerSchemeEnumInternal}
		for _, z := range lb.LB.AvailabilityZones {
			if id := lb.Interfaces[*z.ZoneName]; id != "" {
				e.Interfaces = append(e.Interfaces, id)
			}
		}
		out = append(out, e)
	}
	return out
}

// A Way describes what a load balancer does with TCP connections to one of its ports.
type Way struct {
	// Listener describes the listener that accepts them, or is empty if there is none.
	Listener    string
	Application bool
	// Answer describes the response if the load balancer itself responds.
	Answer string
	// Group is the target group to which they are forwarded.
	Group   string
	Targets []WayTarget
}

// A WayTarget is a target and its health.
type WayTarget struct {
	ID string
	// Probe is its health check. If that has no destination, the target is another load balancer.
	Probe   elbnet.Probe
	Port    uint16
	Healthy bool
	Why     string // why it is not healthy
	// KeepsAddress reports whether the target sees the client's address.
	KeepsAddress bool
}

// Serve returns what a load balancer does with TCP connections to a port. It considers only the
// listener's default action, because rules depend on the request.
func (s *Service) Serve(ctx context.Context, account, region, name string, port uint16) (Way, error) {
	sc := regional.At(account, region)
	lb, err := loadBalancer(s.Store, sc, &name)
	if err != nil {
		return Way{}, err
	}
	all := listeners.All(s.Store, sc.Below(lb.id()))
	w := Way{Application: lb.application()}
	ask := s.Network.Prober(ctx, sc.Account, sc.Region)
	for i := range all {
		l := &all[i].Value.Listener
		if *l.Port != int32(port) || l.Protocol == elbv2types.ProtocolEnumUdp {
			continue
		}
		w.Listener = fmt.Sprintf("listener %s:%d", l.Protocol, port)
		if err := s.follow(ctx, sc, &w, &lb, all[i].Key, l, ask); err != nil {
			return Way{}, err
		}
	}
	return w, nil
}

// follow records the result of a listener's default action.
func (s *Service) follow(ctx context.Context, sc scope, w *Way, lb *loadBalancerRecord, key store.Key, l *elbv2types.Listener, ask elbnet.Prober) error {
	if below := rules.All(s.Store, sc.Below(key.ID)); len(below) > 0 {
		w.Listener += fmt.Sprintf(" (by its default action; %d rules may send requests elsewhere)", len(below))
	}
	switch last := l.DefaultActions[len(l.DefaultActions)-1]; last.Type {
	case elbv2types.ActionTypeEnumFixedResponse:
		w.Answer = "which answers " + text(last.FixedResponseConfig.StatusCode)
	case elbv2types.ActionTypeEnumRedirect:
		w.Answer = "which redirects (" + strings.TrimPrefix(string(last.RedirectConfig.StatusCode), "HTTP_") + ")"
	}
	var names []string
	for _, a := range forwardedTo(l.DefaultActions) {
		g, err := targetGroup(s.Store, sc, &a)
		if _, no := errors.AsType[*elbv2types.TargetGroupNotFoundException](err); no { // a twin has no target group that could not be read
			names = append(names, part(idOf(targetGroupKind.resource, a), 0))
			continue
		}
		if err != nil {
			return err
		}
		names = append(names, g.name())
		w.Group = cmp.Or(w.Group, a)
		set, err := targetSets.Get(s.Store, sc.Key(g.name()))
		if err != nil {
			return err
		}
		c := &check{s: s, sc: sc, group: &g, balancers: []loadBalancerRecord{*lb}, ask: ask}
		for _, t := range set.Targets {
			got, err := c.way(ctx, lb, t)
			if err != nil {
				return err
			}
			w.Targets = append(w.Targets, got)
		}
	}
	if len(names) > 0 {
		w.Listener += ", target group " + strings.Join(names, ", ")
	}
	return nil
}

func (c *check) way(ctx context.Context, lb *loadBalancerRecord, t targetRecord) (WayTarget, error) {
	out := WayTarget{ID: t.ID, Port: uint16(t.Port), KeepsAddress: lb.network() && c.group.attribute("preserve_client_ip.enabled") == "true"} //nolint:gosec // a port
	h, err := c.target(ctx, t)
	if err != nil {
		return out, err
	}
	if out.Healthy = h.State == elbv2types.TargetHealthStateEnumHealthy; !out.Healthy {
		out.Why = fmt.Sprintf("%s (%s)", text(h.Description), cmp.Or(string(h.Reason), string(h.State)))
	}
	p, zone, _, err := c.aim(ctx, t)
	if err == nil {
		p.Interface = lb.near(&p, zone)
		out.Probe = p
	}
	return out, err
}

// Places returns the accounts and regions that have load balancers.
func Places(r store.Reader) [][2]string { return elbnet.Places(r, loadBalancers) }
