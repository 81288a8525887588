package autoscaling

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
)

// decideWarm returns the next step for an instance in the warm pool.
func decideWarm(g *groupRecord, m *memberRecord, state string, known bool, now time.Time) verdict {
	stopped := g.Group.WarmPoolConfiguration == nil || g.Group.WarmPoolConfiguration.PoolState != autoscalingtypes.WarmPoolStateRunning
	switch m.State {
	case autoscalingtypes.LifecycleStateWarmedTerminatingWait:
		if over, abandoned := m.hooksOver(now); over || abandoned || gone(state, known) {
			return proceed
		}
		return stay
	case autoscalingtypes.LifecycleStateWarmedTerminating, autoscalingtypes.LifecycleStateWarmedTerminatingProceed:
		switch {
		case !known || state == "terminated":
			return bury
		case state != "shutting-down":
			return kill
		}
		return stay
	}
	down := m.State == autoscalingtypes.LifecycleStateWarmedRunning && (state == "stopping" || state == "stopped")
	if m.Unhealthy || gone(state, known) || down {
		return replace
	}
	switch m.State {
	case autoscalingtypes.LifecycleStateWarmedPending:
		switch {
		case state != "running":
		case len(g.waits(hookLaunching, now)) > 0:
			return hold
		default:
			return ready
		}
	case autoscalingtypes.LifecycleStateWarmedPendingWait:
		switch over, abandoned := m.hooksOver(now); {
		case abandoned:
			return abandon
		case over:
			return ready
		}
	case autoscalingtypes.LifecycleStateWarmedPendingProceed:
		switch {
		case stopped && state == "running":
			return halt
		case stopped && state == "stopped", !stopped && state == "running":
			return rest
		case !stopped && state == "stopped":
			return start
		}
	}
	return stay
}

// startInstances and stopInstances have EC2 start and stop instances. An instance in another state than expected is left
// alone: its next change triggers the next reconciliation. An instance that cannot be started is replaced.
func (w *work) startInstances(ctx context.Context, instanceIDs []string) error {
	for _, id := range instanceIDs {
		_, err := w.s.cfg.EC2.StartInstances(w.svc, &awsec2.StartInstancesInput{InstanceIds: []string{id}})
		switch code := awserr.CodeOf(err); {
		case err == nil, code == "IncorrectInstanceState", code == "InvalidInstanceID.NotFound":
		case elsewhere(code):
			err := members.UpdateOne(ctx, w.s.store, w.key.Below(id), func(m *memberRecord) error { m.Unhealthy = true; return nil })
			if store.IgnoreNotFound(err) != nil {
				return err
			}
		default:
			return fmt.Errorf("starting instances: %w", err)
		}
	}
	return nil
}

func (w *work) stopInstances(instanceIDs []string) error {
	for _, id := range instanceIDs {
		_, err := w.s.cfg.EC2.StopInstances(w.svc, &awsec2.StopInstancesInput{InstanceIds: []string{id}})
		if code := awserr.CodeOf(err); err != nil && code != "IncorrectInstanceState" && code != "InvalidInstanceID.NotFound" {
			return fmt.Errorf("stopping instances: %w", err)
		}
	}
	return nil
}

// firstReady returns up to n instances of the warm pool that are ready for the group: the oldest ones in the zones where the
// group has the fewest.
func firstReady(all, serving []memberRecord, n int) (out []memberRecord) {
	rested := slices.DeleteFunc(slices.Clone(all), func(m memberRecord) bool { return !m.rested() || m.Unhealthy })
	slices.SortFunc(rested, func(a, b memberRecord) int { return a.Launched.Compare(b.Launched) })
	zones := map[string]int{}
	for _, m := range serving {
		zones[m.Zone]++
	}
	for len(out) < n && len(rested) > 0 {
		next := 0
		for i, m := range rested {
			if zones[m.Zone] < zones[rested[next].Zone] {
				next = i
			}
		}
		zones[rested[next].Zone]++
		out = append(out, rested[next])
		rested = slices.Delete(rested, next, next+1)
	}
	return out
}

// draw takes up to n instances from the warm pool into the group, and returns how many it took.
func (w *work) draw(ctx context.Context, all []memberRecord, n int) (taken int, err error) {
	serving := slices.DeleteFunc(slices.Clone(all), func(m memberRecord) bool { return !m.capacity() })
	if r := w.s.activeRefresh(w.s.store, w.key); r != nil { // it replaces these
		all = slices.DeleteFunc(slices.Clone(all), func(m memberRecord) bool { return m.warm() && slices.Contains(r.Value.Targets, m.ID) })
	}
	ready := firstReady(all, serving, min(n, batch))
	if len(ready) == 0 {
		return 0, nil
	}
	now := w.s.now()
	err = w.s.store.Update(ctx, func(tx *store.Tx) error {
		taken = 0
		g, err := groups.Get(tx, w.key)
		if err != nil || g.Deleting || g.desired() != w.g.desired() {
			return store.IgnoreNotFound(err)
		}
		var causes []string
		for _, o := range g.orders(len(ready), g.units(serving), "", now) {
			causes = append(causes, slices.Repeat([]string{o.cause}, o.n)...)
		}
		for i, r := range ready {
			err := members.Update(tx, w.key.Below(r.ID), func(m *memberRecord) error {
				if !m.rested() {
					return nil
				}
				taken++
				m.State, m.Starting = autoscalingtypes.LifecycleStatePending, true
				m.Activity, err = begin(tx, w.key, &g, fromPool+": "+m.ID, causes[i], subnet{m.Subnet, m.Zone, m.ZoneID}, now)
				return err
			})
			if store.IgnoreNotFound(err) != nil {
				return err
			}
		}
		g.Causes, g.LastActivity = nil, now
		return groups.Put(tx, w.key, g)
	})
	return taken, err
}

// keepPool launches and terminates instances so that the warm pool has its size, and forgets a deleted pool.
func (w *work) keepPool(ctx context.Context, all []memberRecord, waiting []store.Item[planRecord]) (time.Duration, error) {
	if w.g.Group.WarmPoolConfiguration == nil {
		return 0, nil
	}
	var warm []memberRecord
	leaving, have := 0, 0
	for _, m := range all {
		switch {
		case m.warm() && m.terminating():
			leaving++
		case m.warm(), m.Reuse:
			warm = append(warm, m)
		}
	}
	for _, p := range waiting {
		if p.Value.Warm {
			have += p.Value.Count
		}
	}
	planned := have
	have += len(warm)
	want, now := w.g.poolSize(), w.s.now()
	switch {
	case have < want && w.g.runs("Launch"):
		if wait := w.g.RetryAt.Sub(now); wait > 0 {
			return wait, nil
		}
		return 0, w.planFor(ctx, all, want-have, poolCause(stamp(now), have, want), true)
	case have > want && w.g.runs("Terminate"):
		surplus := slices.DeleteFunc(warm, func(m memberRecord) bool { return m.Reuse })
		slices.SortFunc(surplus, func(a, b memberRecord) int { return a.Launched.Compare(b.Launched) })
		return 0, w.end(ctx, surplus[:min(len(surplus), have-want)], func(*groupRecord, *memberRecord) string { return poolCause(stamp(now), have, want) }, false)
	case w.g.Group.WarmPoolConfiguration.Status == autoscalingtypes.WarmPoolStatusPendingDelete && len(warm)+leaving+planned == 0:
		return 0, groups.UpdateOne(ctx, w.s.store, w.key, func(g *groupRecord) error {
			if c := g.Group.WarmPoolConfiguration; c != nil && c.Status != "" {
				g.Group.WarmPoolConfiguration = nil
			}
			return nil
		})
	}
	return 0, nil
}

// reuse marks instances that leave the group as returning to the warm pool.
func (w *work) reuse(ctx context.Context, leave []memberRecord) error {
	for _, m := range leave {
		err := members.UpdateOne(ctx, w.s.store, w.key.Below(m.ID), func(m *memberRecord) error {
			m.Reuse = !m.terminating() && !m.Unhealthy
			return nil
		})
		if store.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// path returns where an instance comes from and where it goes in a lifecycle transition, as events say it.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/warm-pools-eventbridge-events.html
func (m *memberRecord) path(transition string) (origin, destination string) {
	origin, destination = "EC2", "AutoScalingGroup"
	switch {
	case m.warm():
		destination = "WarmPool"
	case m.Starting:
		origin = "WarmPool"
	}
	if transition == hookTerminating {
		switch origin, destination = "AutoScalingGroup", "EC2"; {
		case m.warm():
			origin = "WarmPool"
		case m.Reuse:
			destination = "WarmPool"
		}
	}
	return origin, destination
}

// warmed returns the state of the same name of an instance in the warm pool.
func warmed(state autoscalingtypes.LifecycleState) autoscalingtypes.LifecycleState {
	return autoscalingtypes.LifecycleState("Warmed:" + strings.TrimPrefix(string(state), "Warmed:"))
}

// like returns a state, in the form for the warm pool if the instance is there.
func (m *memberRecord) like(state autoscalingtypes.LifecycleState) autoscalingtypes.LifecycleState {
	if m.warm() {
		return warmed(state)
	}
	return state
}
