package autoscaling

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/store"
)

// Sources are the traffic sources of one type, with which a group registers its instances. They are
// called with a context like EC2's.
type Sources interface {
	// SourceExists reports whether there is a source with an identifier.
	SourceExists(account, region, id string) bool
	RegisterInstances(ctx context.Context, id string, instances []string) error
	DeregisterInstances(ctx context.Context, id string, instances []string) error
	// InstanceHealth returns the instances that currently pass and those that fail the health
	// checks, and after how long a failing instance is unhealthy. Instances with unknown health are
	// in neither list.
	InstanceHealth(ctx context.Context, id string, instances []string) (passing, failing []string, after time.Duration, err error)
}

const processAddToLoadBalancer = "AddToLoadBalancer"

// withheld returns the traffic sources with which an instance that comes into service now is not
// registered, not even after AddToLoadBalancer is resumed.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/understand-how-suspending-processes-affects-other-processes.html
func (g *groupRecord) withheld() []string {
	if g.runs(processAddToLoadBalancer) {
		return nil
	}
	var out []string
	for _, src := range g.Group.TrafficSources {
		out = append(out, *src.Identifier)
	}
	return out
}

// checkSources returns an error if a traffic source does not exist.
func (s *Service) checkSources(sc scope, sources []trafficSource) error {
	for _, src := range sources {
		to := s.cfg.Sources[*src.Type]
		if *src.Type == groupSource && !strings.HasPrefix(*src.Identifier, "arn:") || to != nil && !to.SourceExists(sc.Account, sc.Region, *src.Identifier) {
			return errNoSource(*src.Type)
		}
	}
	return nil
}

// registeredWith returns the Sources of an identifier, which implies the type.
func (s *Service) registeredWith(id string) Sources {
	if strings.HasPrefix(id, "arn:") {
		return s.cfg.Sources[groupSource]
	}
	return s.cfg.Sources[classicSource]
}

// targets registers the instances in service with the group's traffic sources and deregisters those
// that it registered and that are no longer in service. The group's record has its registrations,
// because others may register instances, too.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/attach-load-balancer-asg.html
func (w *work) targets(ctx context.Context) error {
	if len(w.s.cfg.Sources) == 0 || len(w.g.Group.TrafficSources)+len(w.g.Registered) == 0 {
		return nil
	}
	all := w.members()
	var serving []string
	unadded := map[string][]string{}
	for _, m := range all {
		if m.State == autoscalingtypes.LifecycleStateInService {
			serving, unadded[m.ID] = append(serving, m.ID), m.Unadded
		}
	}
	attached := func(id string) bool {
		return slices.ContainsFunc(w.g.Group.TrafficSources, func(src trafficSource) bool { return *src.Identifier == id })
	}
	now := map[string][]string{}
	for id, have := range w.g.Registered {
		gone := slices.DeleteFunc(slices.Clone(have), func(i string) bool { return slices.Contains(serving, i) && attached(id) })
		if to := w.s.registeredWith(id); to != nil && len(gone) > 0 {
			if err := w.passing(to.DeregisterInstances(w.svc, id, gone)); err != nil {
				return err
			}
		}
		if left := slices.DeleteFunc(slices.Clone(have), func(i string) bool { return slices.Contains(gone, i) }); len(left) > 0 {
			now[id] = left
		}
	}
	for _, src := range w.g.Group.TrafficSources {
		id, to := *src.Identifier, w.s.cfg.Sources[*src.Type]
		fresh := slices.DeleteFunc(slices.Clone(serving), func(i string) bool {
			return slices.Contains(w.g.Registered[id], i) || slices.Contains(unadded[i], id)
		})
		if to == nil || len(fresh) == 0 || !w.g.runs(processAddToLoadBalancer) {
			continue
		}
		if err := w.passing(to.RegisterInstances(w.svc, id, fresh)); err != nil {
			return err
		}
		now[id] = slices.Sorted(slices.Values(append(now[id], fresh...)))
	}
	if maps.EqualFunc(now, w.g.Registered, slices.Equal) {
		return nil
	}
	return store.IgnoreNotFound(groups.UpdateOne(ctx, w.s.store, w.key, func(g *groupRecord) error {
		g.Registered = now
		return nil
	}))
}

// passing ignores errors that mean that there is nothing left to do, because a load balancer was
// deleted or an instance terminated in the meantime.
func (w *work) passing(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorFault() == smithy.FaultClient {
		w.s.log.Debug("autoscaling: targets of a load balancer", "group", w.key.String(), "err", err)
		return nil
	}
	return err
}

// balancerStep is the interval between load balancer health checks of a group's instances.
const balancerStep = 2 * time.Second

// mindsBalancers reports whether the group uses load balancer health checks.
func (g *groupRecord) mindsBalancers() bool {
	return slices.Contains(strings.Split(aws.ToString(g.Group.HealthCheckType), ","), "ELB") && len(g.Group.TrafficSources) > 0
}

// checkup replaces instances that have failed a load balancer's health checks for long enough to be
// unhealthy, after their grace period.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/health-checks-overview.html#elastic-load-balancing-health-checks
//
// AWS deviation: an instance that is not a node of a cluster is not replaced. Drydock does not know
// what runs on it, so every replacement would fail in the same way.
func (w *work) checkup(ctx context.Context) (time.Duration, error) {
	if !w.g.mindsBalancers() || !w.g.runs("HealthCheck") || w.g.Deleting {
		return 0, nil
	}
	all := w.members()
	grace := time.Duration(aws.ToInt32(w.g.Group.HealthCheckGracePeriod)) * time.Second
	now := w.s.now()
	asked := map[string]memberRecord{}
	for _, m := range all {
		if m.State == autoscalingtypes.LifecycleStateInService && !m.Unhealthy && now.Sub(m.InService) >= grace {
			asked[m.ID] = m
		}
	}
	failing, over := map[string]map[string]time.Time{}, map[string]bool{}
	for _, src := range w.g.Group.TrafficSources {
		id, to := *src.Identifier, w.s.cfg.Sources[*src.Type]
		registered := slices.DeleteFunc(slices.Clone(w.g.Registered[id]), func(i string) bool { _, ok := asked[i]; return !ok })
		if to == nil || len(registered) == 0 {
			continue
		}
		_, ids, after, err := to.InstanceHealth(w.svc, id, registered)
		if err := w.passing(err); err != nil {
			return 0, err
		}
		after /= time.Duration(max(1, w.s.cfg.Timing.HealthCheckPatience))
		for _, i := range ids {
			since, before := asked[i].Failing[id]
			if !before {
				since = now
			}
			if failing[i] == nil {
				failing[i] = map[string]time.Time{}
			}
			failing[i][id] = since
			over[i] = over[i] || before && now.Sub(since) >= after
		}
	}
	for _, id := range sortedKeys(asked) {
		if maps.EqualFunc(failing[id], asked[id].Failing, time.Time.Equal) && !over[id] {
			continue
		}
		err := store.IgnoreNotFound(members.UpdateOne(ctx, w.s.store, w.key.Below(id), func(m *memberRecord) error {
			if m.State == autoscalingtypes.LifecycleStateInService {
				m.Failing, m.Unhealthy, m.ByBalancer = failing[id], m.Unhealthy || over[id], over[id]
			}
			return nil
		}))
		if err != nil {
			return 0, err
		}
	}
	return balancerStep, nil
}
