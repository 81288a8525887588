package elbv2

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// TrafficKey identifies a load balancer by its ARN to what carries its traffic.
func TrafficKey(account, region, arn string) store.Key {
	return regional.At(account, region).Key("v2/" + part(idOf("loadbalancer", arn), 1))
}

// traffic returns the reconciler that keeps traffic as the records say.
func (s *Service) traffic() reconcile.Config {
	ofListener := func(k store.Key) (store.Key, bool) {
		name := part(k.ID, 1)
		return regional.At(k.Account, k.Region).Key(name), name != ""
	}
	ofGroup := func(k store.Key) (store.Key, bool) {
		sc := regional.At(k.Account, k.Region)
		g, err := targetGroups.Get(s.Store, k)
		if err != nil {
			return store.Key{}, false
		}
		for _, lb := range users(s.Store, sc)[g.arn()] { // at most one
			return sc.Key(part(idOf("loadbalancer", lb), 1)), true
		}
		return store.Key{}, false
	}
	return reconcile.Config{
		Name: "elbv2/traffic", Watcher: loadBalancers.Watch(s.Store, store.Scope{}), Log: s.Log, Clock: s.Clock, Reconcile: s.reconcileTraffic, Hold: s.Held,
		Related: []reconcile.Related{
			{Watcher: listeners.Watch(s.Store, store.Scope{}), Of: ofListener},
			{Watcher: rules.Watch(s.Store, store.Scope{}), Of: ofListener},
			{Watcher: targetGroups.Watch(s.Store, store.Scope{}), Of: ofGroup},
			{Watcher: targetSets.Watch(s.Store, store.Scope{}), Of: ofGroup},
		},
	}
}

// reconcileTraffic makes a load balancer carry traffic as its records say, or end with them.
func (s *Service) reconcileTraffic(ctx context.Context, key store.Key) (time.Duration, error) {
	sc := regional.At(key.Account, key.Region)
	lb, err := loadBalancers.Get(s.Store, key)
	if store.IsNotFound(err) {
		return 0, s.Traffic.Remove(ctx, sc.Key("v2/"+key.ID))
	}
	if err != nil || lb.LB.State.Code != elbv2types.LoadBalancerStateEnumActive || len(lb.Interfaces) == 0 {
		return 0, err
	}
	want, err := s.carried(ctx, sc, &lb)
	if err != nil {
		return 0, err
	}
	return balancer.Recheck(&want), s.Traffic.Put(ctx, sc.Key("v2/"+key.ID), want)
}

// carried returns what a load balancer does.
func (s *Service) carried(ctx context.Context, sc scope, lb *loadBalancerRecord) (balancer.LoadBalancer, error) {
	out := balancer.LoadBalancer{DNSName: *lb.LB.DNSName}
	groups := map[string]bool{}
	var deaf []balancer.Listener
	rule := func(conditions []elbv2types.RuleCondition, actions []elbv2types.Action) balancer.Rule {
		for _, g := range forwardedTo(actions) {
			groups[g] = true
		}
		last := actions[len(actions)-1]
		if len(actions) > 1 { // what comes before the last one authenticates the client, and nothing here can
			last = actions[0]
		}
		return balancer.Rule{Conditions: conditions, Action: last}
	}
	for _, item := range listeners.All(s.Store, sc.Below(lb.id())) {
		l := &item.Value
		to := balancer.Listener{Port: uint16(*l.Listener.Port), Protocol: string(l.Listener.Protocol)} //nolint:gosec // a port
		both := to.Protocol == "TCP_UDP"
		if both {
			to.Protocol = "TCP"
		}
		if to.Protocol == "QUIC" {
			to.Fault = "listeners for " + to.Protocol + " carry no traffic in Drydock"
			deaf = append(deaf, to)
			continue
		}
		all := rules.All(s.Store, sc.Below(item.Key.ID))
		slices.SortFunc(all, func(a, b store.Item[ruleRecord]) int {
			return strings.Compare(orderOf(a.Value.Rule), orderOf(b.Value.Rule))
		})
		for _, r := range all {
			to.Rules = append(to.Rules, rule(r.Value.Rule.Conditions, r.Value.Rule.Actions))
		}
		to.Rules = append(to.Rules, rule(nil, l.Listener.DefaultActions))
		if lb.application() {
			to.Web = web(lb, l)
		}
		s.secure(ctx, sc, l, &to)
		out.Listeners = append(out.Listeners, to)
		if both {
			to.Protocol = "UDP"
			out.Listeners = append(out.Listeners, to)
		}
	}
	for _, l := range deaf { // one for TCP may be at the same port
		if !slices.ContainsFunc(out.Listeners, func(o balancer.Listener) bool { return o.Port == l.Port }) {
			out.Listeners = append(out.Listeners, l)
		}
	}
	for id := range groups {
		g, err := s.group(ctx, sc, lb, id)
		if _, no := errors.AsType[*elbv2types.TargetGroupNotFoundException](err); no { // a twin has no target group that could not be read
			continue
		}
		if err != nil {
			return out, err
		}
		out.Groups = append(out.Groups, g)
	}
	return out, nil
}

// secure adds what listeners for TLS have.
func (s *Service) secure(ctx context.Context, sc scope, l *listenerRecord, to *balancer.Listener) {
	if len(l.Listener.Certificates) == 0 {
		return
	}
	certificates := []string{text(l.Listener.Certificates[0].CertificateArn)}
	for _, c := range l.Certificates {
		if c != certificates[0] {
			certificates = append(certificates, c)
		}
	}
	var protocols []string
	switch {
	case to.Web.HTTP2:
		protocols = []string{"h2", "http/1.1"}
	case to.Protocol == "HTTPS":
		protocols = []string{"http/1.1"}
	case len(l.Listener.AlpnPolicy) > 0:
		// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-listeners.html#alpn-policies
		protocols = map[string][]string{
			"HTTP1Only": {"http/1.1", "http/1.0"}, "HTTP2Only": {"h2"}, "HTTP2Optional": {"http/1.1", "http/1.0", "h2"}, "HTTP2Preferred": {"h2", "http/1.1", "http/1.0"},
		}[l.Listener.AlpnPolicy[0]]
	}
	var err error
	if to.TLS, err = s.TLS(ctx, sc, certificates, text(l.Listener.SslPolicy), protocols...); err != nil {
		to.Fault = err.Error()
		return
	}
	if m := l.Listener.MutualAuthentication; m != nil && text(m.Mode) == "passthrough" {
		to.ClientCertificates, to.TLS.ClientAuth = true, tls.RequestClientCert
	}
}

// web returns the settings of a listener for HTTP.
func web(lb *loadBalancerRecord, l *listenerRecord) balancer.Web {
	get := map[string]string{}
	for _, v := range values(lb.attributes(), lb.Attributes) {
		get[v.key] = v.value
	}
	for _, v := range values(l.attributes(), l.Attributes) {
		get[v.key] = v.value
	}
	seconds, _ := strconv.Atoi(get["idle_timeout.timeout_seconds"]) // checked when it was set
	out := balancer.Web{
		HTTP2: get["routing.http2.enabled"] == "true", Idle: time.Duration(seconds) * time.Second,
		ForwardedFor: get["routing.http.xff_header_processing.mode"], ClientPort: get["routing.http.xff_client_port.enabled"] == "true",
		TLSHeaders:  get["routing.http.x_amzn_tls_version_and_cipher_suite.enabled"] == "true",
		DropInvalid: get["routing.http.drop_invalid_header_fields.enabled"] == "true", NoServer: get["routing.http.response.server.enabled"] == "false",
		Headers: map[string]string{},
	}
	const before, after = "routing.http.response.", ".header_value"
	for k, v := range get {
		name, ok := strings.CutSuffix(k, after)
		if name, of := strings.CutPrefix(name, before); ok && of && v != "" {
			out.Headers[strings.ReplaceAll(name, "_", "-")] = v
		}
	}
	return out
}

// group returns what a load balancer does with a target group.
func (s *Service) group(ctx context.Context, sc scope, lb *loadBalancerRecord, id string) (balancer.Group, error) {
	g, err := targetGroup(s.Store, sc, &id)
	if err != nil {
		return balancer.Group{}, err
	}
	set, err := targetSets.Get(s.Store, sc.Key(g.name()))
	if err != nil {
		return balancer.Group{}, err
	}
	seconds := func(key string) time.Duration {
		n, _ := strconv.Atoi(g.attribute(key)) // checked when it was set
		return time.Duration(n) * time.Second
	}
	out := balancer.Group{
		ID: id, Protocol: string(g.Group.Protocol), ProtocolVersion: text(g.Group.ProtocolVersion), FailOpen: true,
		Algorithm: g.attribute("load_balancing.algorithm.type"), PreserveClient: lb.network() && g.attribute("preserve_client_ip.enabled") == "true",
		Deregistration: seconds("deregistration_delay.timeout_seconds"),
		Check: balancer.Check{
			Protocol: string(g.Group.HealthCheckProtocol), Path: text(g.Group.HealthCheckPath), Codes: codes(g.Group.Matcher),
			Interval: time.Duration(aws.ToInt32(g.Group.HealthCheckIntervalSeconds)) * time.Second, Timeout: time.Duration(aws.ToInt32(g.Group.HealthCheckTimeoutSeconds)) * time.Second,
			Healthy: int(aws.ToInt32(g.Group.HealthyThresholdCount)), Unhealthy: int(aws.ToInt32(g.Group.UnhealthyThresholdCount)),
		},
	}
	if g.attribute("proxy_protocol_v2.enabled") == "true" {
		out.Proxy = 2
	}
	if g.attribute("stickiness.enabled") == "true" {
		out.Sticky = balancer.Sticky{Kind: g.attribute("stickiness.type"), Duration: seconds("stickiness.lb_cookie.duration_seconds")}
		if out.Sticky.Kind == "app_cookie" {
			out.Sticky.Cookie, out.Sticky.Duration = g.attribute("stickiness.app_cookie.cookie_name"), seconds("stickiness.app_cookie.duration_seconds")
		}
	}
	c := &check{s: s, sc: sc, group: &g}
	for _, t := range set.Targets {
		to, ok, err := s.destination(ctx, c, lb, t)
		if err != nil {
			return out, err
		}
		if ok {
			out.Targets = append(out.Targets, balancer.Target{TargetID: t.id(), To: to, CheckPort: uint16(c.port(t))}) //nolint:gosec // a port
		}
	}
	return out, nil
}

func (t targetRecord) id() balancer.TargetID {
	return balancer.TargetID{ID: t.ID, Port: uint16(t.Port)}
} //nolint:gosec // a port

// destination returns where a load balancer connects to for a target, or false if it does not use the target.
func (s *Service) destination(ctx context.Context, c *check, lb *loadBalancerRecord, t targetRecord) (balancer.Destination, bool, error) {
	to := balancer.Destination{Port: uint16(t.Port)} //nolint:gosec // a port
	switch c.group.Group.TargetType {
	case elbv2types.TargetTypeEnumAlb:
		to.Balancer = "v2/" + part(idOf("loadbalancer", t.ID), 1)
		return to, true, nil
	case elbv2types.TargetTypeEnumInstance:
		i, ok, err := s.Network.Instance(s.AsService(ctx, c.sc), t.ID)
		if err != nil || !ok || i.Placement == nil {
			return to, false, err
		}
		to.Instance = t.ID
		to.Address, _ = netip.ParseAddr(text(i.PrivateIpAddress)) // a terminated instance has none
		to.Interface = lb.near(&elbnet.Probe{Instance: t.ID}, text(i.Placement.AvailabilityZone))
	default:
		a, err := netip.ParseAddr(t.ID)
		if err != nil {
			return to, false, nil
		}
		to.Address, to.Interface = a, lb.near(&elbnet.Probe{Address: a}, t.Zone)
	}
	return to, to.Interface != "", nil
}

// codes returns which HTTP or gRPC statuses a matcher accepts: 200,202 or 200-299.
func codes(m *elbv2types.Matcher) func(int) bool {
	var want string
	if m != nil {
		want = text(m.HttpCode)
		if m.GrpcCode != nil {
			want = *m.GrpcCode
		}
	}
	return func(code int) bool {
		for _, r := range strings.Split(want, ",") {
			from, to, ranged := strings.Cut(r, "-")
			if !ranged {
				to = from
			}
			lowest, err := strconv.Atoi(strings.TrimSpace(from))
			highest, err2 := strconv.Atoi(strings.TrimSpace(to))
			if err == nil && err2 == nil && code >= lowest && code <= highest {
				return true
			}
		}
		return false
	}
}

// live returns the health of a target by the health checks that load balancers have made, or nil if none is made.
func (c *check) live(t targetRecord) *elbv2types.TargetHealth {
	if c.s.Traffic == nil {
		return nil
	}
	for i := range c.balancers {
		if h := c.s.Traffic.Health(TrafficKey(c.sc.Account, c.sc.Region, c.balancers[i].arn()), c.group.arn(), t.id()); h != nil {
			return h
		}
	}
	return nil
}

// draining returns the targets that have been removed from the group and still have connections.
func (c *check) draining() (out []balancer.TargetID) {
	if c.s.Traffic == nil {
		return nil
	}
	for i := range c.balancers {
		out = append(out, c.s.Traffic.Draining(TrafficKey(c.sc.Account, c.sc.Region, c.balancers[i].arn()), c.group.arn())...)
	}
	return out
}
