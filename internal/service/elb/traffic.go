package elb

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// TrafficKey identifies a load balancer by its name to what carries its traffic.
func TrafficKey(account, region, name string) store.Key {
	return regional.At(account, region).Key("v1/" + name)
}

// traffic returns the reconciler that keeps traffic as the records say.
func (s *Service) traffic() reconcile.Config {
	return reconcile.Config{Name: "elb/traffic", Watcher: loadBalancers.Watch(s.Store, store.Scope{}), Log: s.Log, Clock: s.Clock, Reconcile: s.reconcileTraffic, Hold: s.Held}
}

// reconcileTraffic makes a load balancer carry traffic as its record says, or end with it.
func (s *Service) reconcileTraffic(ctx context.Context, key store.Key) (time.Duration, error) {
	r, err := loadBalancers.Get(s.Store, key)
	if store.IsNotFound(err) {
		return 0, s.Traffic.Remove(ctx, TrafficKey(key.Account, key.Region, key.ID))
	}
	if err != nil || len(r.Interfaces) == 0 {
		return 0, err
	}
	want, err := s.carried(ctx, regional.At(key.Account, key.Region), &r)
	if err != nil {
		return 0, err
	}
	return balancer.Recheck(&want), s.Traffic.Put(ctx, TrafficKey(key.Account, key.Region, key.ID), want)
}

// carried returns what a load balancer does: one rule for each listener, and a group for each, because the policies of
// listeners and instance ports differ.
func (s *Service) carried(ctx context.Context, sc scope, r *loadBalancerRecord) (balancer.LoadBalancer, error) {
	out := balancer.LoadBalancer{DNSName: r.DNSName}
	check, err := parseTarget(text(r.HealthCheck.Target))
	if err != nil {
		return out, err
	}
	for i := range r.Listeners {
		l := &r.Listeners[i].Listener
		group := strconv.Itoa(int(l.LoadBalancerPort))
		to := balancer.Listener{
			Port: uint16(l.LoadBalancerPort), Protocol: strings.ToUpper(text(l.Protocol)), //nolint:gosec // a port
			Rules: []balancer.Rule{{Action: elbv2types.Action{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: &group}}},
			Web:   balancer.Web{Classic: true, Idle: time.Minute},
		}
		if st := r.Attributes.ConnectionSettings; st != nil && st.IdleTimeout != nil {
			to.Web.Idle = time.Duration(*st.IdleTimeout) * time.Second
		}
		if secure(to.Protocol) {
			if to.TLS, err = s.TLS(ctx, sc, []string{text(l.SSLCertificateId)}, "ELBSecurityPolicy-2016-08", "http/1.1"); err != nil {
				to.Fault = err.Error()
			}
		}
		out.Listeners = append(out.Listeners, to)
		g := balancer.Group{
			ID: group, Protocol: strings.ToUpper(text(l.InstanceProtocol)), Sticky: r.sticky(&r.Listeners[i]), Proxy: r.proxy(aws.ToInt32(l.InstancePort)),
			Check: balancer.Check{
				Protocol: check.protocol, Path: check.path, Codes: func(code int) bool { return code == 200 },
				Interval: time.Duration(aws.ToInt32(r.HealthCheck.Interval)) * time.Second, Timeout: time.Duration(aws.ToInt32(r.HealthCheck.Timeout)) * time.Second,
				Healthy: int(aws.ToInt32(r.HealthCheck.HealthyThreshold)), Unhealthy: int(aws.ToInt32(r.HealthCheck.UnhealthyThreshold)),
			},
		}
		if d := r.Attributes.ConnectionDraining; d != nil && d.Enabled {
			g.Deregistration = time.Duration(aws.ToInt32(d.Timeout)) * time.Second
		}
		for _, id := range r.Instances {
			i, ok, err := s.Network.Instance(s.AsService(ctx, sc), id)
			if err != nil {
				return out, err
			}
			if !ok || i.Placement == nil || r.Interfaces[text(i.Placement.AvailabilityZone)] == "" {
				continue
			}
			port := uint16(aws.ToInt32(l.InstancePort)) //nolint:gosec // a port
			d := balancer.Destination{Interface: r.Interfaces[text(i.Placement.AvailabilityZone)], Instance: id, Port: port}
			d.Address, _ = netip.ParseAddr(text(i.PrivateIpAddress)) // a terminated instance has none
			g.Targets = append(g.Targets, balancer.Target{TargetID: balancer.TargetID{ID: id, Port: port}, To: d, CheckPort: check.port})
		}
		out.Groups = append(out.Groups, g)
	}
	return out, nil
}

// sticky returns how clients of a listener stay with an instance.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/elb-sticky-sessions.html
func (r *loadBalancerRecord) sticky(l *listenerRecord) balancer.Sticky {
	for _, name := range l.Policies {
		for _, p := range r.LBCookies {
			if text(p.PolicyName) == name {
				return balancer.Sticky{Kind: "AWSELB", Duration: time.Duration(aws.ToInt64(p.CookieExpirationPeriod)) * time.Second}
			}
		}
		for _, p := range r.AppCookies {
			if text(p.PolicyName) == name {
				return balancer.Sticky{Kind: "AWSELB", Cookie: text(p.CookieName)}
			}
		}
	}
	return balancer.Sticky{}
}

// proxy returns the version of the proxy protocol at an instance port, or 0.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/enable-proxy-protocol.html
func (r *loadBalancerRecord) proxy(port int32) int {
	for _, name := range r.Backends[port] {
		for _, p := range r.Policies {
			if text(p.PolicyName) != name || text(p.PolicyTypeName) != "ProxyProtocolPolicyType" {
				continue
			}
			for _, a := range p.PolicyAttributeDescriptions {
				if text(a.AttributeName) == "ProxyProtocol" && strings.EqualFold(text(a.AttributeValue), "true") {
					return 1
				}
			}
		}
	}
	return 0
}

// live returns the health of an instance by the health checks that are made, or nil if none is.
func (s *Service) live(sc scope, r *loadBalancerRecord, id string) *elbv2types.TargetHealth {
	if s.Traffic == nil || len(r.Listeners) == 0 {
		return nil
	}
	l := &r.Listeners[0].Listener
	return s.Traffic.Health(TrafficKey(sc.Account, sc.Region, r.Name), strconv.Itoa(int(l.LoadBalancerPort)), balancer.TargetID{ID: id, Port: uint16(aws.ToInt32(l.InstancePort))}) //nolint:gosec // a port
}
