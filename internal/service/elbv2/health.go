package elbv2

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/elbnet"
)

// DescribeTargetHealth returns the current health of targets.
func (s *Service) DescribeTargetHealth(ctx context.Context, in *awselbv2.DescribeTargetHealthInput) (*awselbv2.DescribeTargetHealthOutput, error) {
	sc := scopeOf(ctx)
	return s.targetHealth(ctx, sc, in, s.Network.Prober(ctx, sc.Account, sc.Region))
}

func (s *Service) targetHealth(ctx context.Context, sc scope, in *awselbv2.DescribeTargetHealthInput, ask elbnet.Prober) (*awselbv2.DescribeTargetHealthOutput, error) {
	g, err := targetGroup(s.Store, sc, in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	set, err := targetSets.Get(s.Store, sc.Key(g.name()))
	if err != nil {
		return nil, err
	}
	users := users(s.Store, sc)
	c := &check{s: s, sc: sc, group: &g, ask: ask}
	for _, a := range users[g.arn()] {
		if lb, err := loadBalancer(s.Store, sc, &a); err == nil {
			c.balancers = append(c.balancers, lb)
		}
	}
	chosen := set.Targets
	if len(in.Targets) > 0 {
		chosen = nil
		for _, d := range in.Targets {
			chosen = append(chosen, targetRecord{ID: text(d.Id), Port: or(d.Port, *g.Group.Port), Zone: text(d.AvailabilityZone)})
		}
	}
	out := &awselbv2.DescribeTargetHealthOutput{TargetHealthDescriptions: []elbv2types.TargetHealthDescription{}}
	leaving := c.draining()
	if len(in.Targets) == 0 {
		for _, l := range leaving {
			chosen = append(slices.Clone(chosen), targetRecord{ID: l.ID, Port: int32(l.Port)})
		}
	}
	for _, t := range chosen {
		d := elbv2types.TargetHealthDescription{Target: &elbv2types.TargetDescription{Id: &t.ID, Port: &t.Port}}
		if t.Zone != "" {
			d.Target.AvailabilityZone = &t.Zone
		}
		if !slices.ContainsFunc(set.Targets, t.same) {
			d.TargetHealth = health(elbv2types.TargetHealthStateEnumUnused, elbv2types.TargetHealthReasonEnumNotRegistered, "Target is not registered to the target group")
			if slices.Contains(leaving, t.id()) {
				d.TargetHealth = health(elbv2types.TargetHealthStateEnumDraining, elbv2types.TargetHealthReasonEnumDeregistrationInProgress, "Target deregistration is in progress")
			}
			out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, d)
			continue
		}
		d.HealthCheckPort = aws.String(strconv.Itoa(int(c.port(t))))
		if d.TargetHealth, err = c.target(ctx, t); err != nil {
			return nil, err
		}
		out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, d)
	}
	return out, nil
}

// settledHealth reports whether no target is still being registered. Until then, responses to
// waiters are delayed.
func settledHealth(out *awselbv2.DescribeTargetHealthOutput) bool {
	return !slices.ContainsFunc(out.TargetHealthDescriptions, func(d elbv2types.TargetHealthDescription) bool {
		return d.TargetHealth.State == elbv2types.TargetHealthStateEnumInitial
	})
}

func health(state elbv2types.TargetHealthStateEnum, reason elbv2types.TargetHealthReasonEnum, description string) *elbv2types.TargetHealth {
	h := &elbv2types.TargetHealth{State: state, Reason: reason}
	if description != "" {
		h.Description = &description
	}
	return h
}

// A check determines the health of the targets of one group.
type check struct {
	s         *Service
	sc        scope
	group     *targetGroupRecord
	balancers []loadBalancerRecord
	ask       elbnet.Prober
}

// port returns the port for a target's health check.
func (c *check) port(t targetRecord) int32 {
	if n, err := strconv.Atoi(text(c.group.Group.HealthCheckPort)); err == nil {
		return int32(n) //nolint:gosec // checked when it was set
	}
	return t.Port
}

// target determines the health of one target. The reasons and descriptions are from
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetHealth.html;
// descriptions that are not shown there are from memory.
func (c *check) target(ctx context.Context, t targetRecord) (*elbv2types.TargetHealth, error) {
	if len(c.balancers) == 0 {
		return health(elbv2types.TargetHealthStateEnumUnused, elbv2types.TargetHealthReasonEnumNotInUse, "Target group is not configured to receive traffic from the load balancer"), nil
	}
	if c.group.Group.TargetType == elbv2types.TargetTypeEnumAlb { // the target is a load balancer
		return c.behind(&t)
	}
	p, zone, unused, err := c.aim(ctx, t)
	if err != nil || unused != nil {
		return unused, err
	}
	if h := c.live(t); h != nil {
		return h, nil
	}
	return c.probe(ctx, p, zone), nil
}

// aim returns a target's health check, without the interface that it comes from, and the target's
// zone. If the target is not checked, unused is its health.
func (c *check) aim(ctx context.Context, t targetRecord) (p elbnet.Probe, zone string, unused *elbv2types.TargetHealth, err error) {
	p = elbnet.Probe{Protocol: string(c.group.Group.HealthCheckProtocol), Port: uint16(c.port(t)), Path: text(c.group.Group.HealthCheckPath)} //nolint:gosec // a port
	switch c.group.Group.TargetType {
	case elbv2types.TargetTypeEnumInstance:
		i, ok, err := c.s.Network.Instance(c.s.AsService(ctx, c.sc), t.ID)
		switch {
		case err != nil:
			return p, "", nil, err
		case !ok || i.State.Name == ec2types.InstanceStateNameTerminated:
			unused = health(elbv2types.TargetHealthStateEnumUnused, elbv2types.TargetHealthReasonEnumInvalidState, "Target is in the terminated state")
		case i.State.Name != ec2types.InstanceStateNameRunning && i.State.Name != ec2types.InstanceStateNamePending:
			unused = health(elbv2types.TargetHealthStateEnumUnused, elbv2types.TargetHealthReasonEnumInvalidState, "Target is in the stopped state")
		}
		p.Instance = t.ID
		if i.Placement != nil {
			zone = text(i.Placement.AvailabilityZone)
		}
		return p, zone, unused, nil
	case elbv2types.TargetTypeEnumIp:
		p.Address, err = netip.ParseAddr(t.ID)
	}
	return p, t.Zone, nil, err
}

// near returns the load balancer's interface from which a target is checked, or "" if it is not
// checked. Even cross-zone balancing reaches an instance only if its zone is enabled.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/how-elastic-load-balancing-works.html#availability-zones
func (r *loadBalancerRecord) near(p *elbnet.Probe, zone string) string {
	eni := r.Interfaces[zone]
	if p.Instance != "" {
		return eni
	}
	for _, az := range r.LB.AvailabilityZones {
		eni = cmp.Or(eni, r.Interfaces[*az.ZoneName])
	}
	return eni
}

// behind returns the health of an Application Load Balancer as a target. It is healthy if it is
// active and has a listener on the port.
func (c *check) behind(t *targetRecord) (*elbv2types.TargetHealth, error) {
	lb, err := loadBalancer(c.s.Store, c.sc, &t.ID)
	if _, gone := errors.AsType[*elbv2types.LoadBalancerNotFoundException](err); gone {
		return health(elbv2types.TargetHealthStateEnumUnused, elbv2types.TargetHealthReasonEnumInvalidState, "Target is in the deleted state"), nil
	}
	if err != nil {
		return nil, err
	}
	for _, l := range listeners.All(c.s.Store, c.sc.Below(lb.id())) {
		if *l.Value.Listener.Port == t.Port && lb.LB.State.Code == elbv2types.LoadBalancerStateEnumActive {
			return health(elbv2types.TargetHealthStateEnumHealthy, "", ""), nil
		}
	}
	return health(elbv2types.TargetHealthStateEnumUnhealthy, elbv2types.TargetHealthReasonEnumFailedHealthChecks, "Health checks failed"), nil
}

// probe checks a target from the nearest interface of each load balancer. The target is healthy if
// one of the checks succeeds.
func (c *check) probe(ctx context.Context, p elbnet.Probe, zone string) *elbv2types.TargetHealth {
	initial, outside := false, true
	worst := elbnet.Answers
	for _, lb := range c.balancers {
		if lb.LB.State.Code == elbv2types.LoadBalancerStateEnumProvisioning || len(lb.Interfaces) == 0 {
			initial, outside = true, false
			continue
		}
		eni := lb.near(&p, zone)
		if eni == "" {
			continue
		}
		outside = false
		p.Interface = eni
		finding := c.ask(ctx, p)
		if finding == elbnet.Answers {
			return health(elbv2types.TargetHealthStateEnumHealthy, "", "")
		}
		worst = finding
	}
	switch {
	case outside:
		return health(elbv2types.TargetHealthStateEnumUnused, elbv2types.TargetHealthReasonEnumNotInUse, "Target is in an Availability Zone that is not enabled for the load balancer")
	case initial && worst == elbnet.Answers:
		return health(elbv2types.TargetHealthStateEnumInitial, elbv2types.TargetHealthReasonEnumRegistrationInProgress, "Target registration is in progress")
	case worst == elbnet.TimedOut:
		return health(elbv2types.TargetHealthStateEnumUnhealthy, elbv2types.TargetHealthReasonEnumTimeout, "Request timed out")
	case worst == elbnet.Unknown:
		return health(elbv2types.TargetHealthStateEnumUnavailable, elbv2types.TargetHealthReasonEnumInternalError, "Health checks could not be decided")
	}
	return health(elbv2types.TargetHealthStateEnumUnhealthy, elbv2types.TargetHealthReasonEnumFailedHealthChecks, "Health checks failed")
}
