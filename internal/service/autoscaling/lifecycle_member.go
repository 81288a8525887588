package autoscaling

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
)

// A verdict is the next step for an instance of a group.
type verdict int

const (
	stay    verdict = iota
	serve           // the instance runs: bring it into service
	hold            // the instance runs: make it wait for the launching hooks
	abandon         // a launching hook abandoned it or timed out
	sicken          // the health check failed, but the instance is not to be replaced
	replace         // the health check failed: replace the instance
	proceed         // the terminating hooks are done
	kill            // have EC2 terminate it
	bury            // EC2 has terminated it: remove it
	ready           // its hooks are done: let it rest in the warm pool
	halt            // have EC2 stop it, for the warm pool
	rest            // it rests in the warm pool
	start           // have EC2 start it
	revive          // the terminating hooks are done: return it to the warm pool
)

// gone reports whether EC2 has terminated an instance or is terminating it.
func gone(state string, known bool) bool {
	return !known || state == "terminated" || state == "shutting-down"
}

// decide returns the next step for an instance whose state in EC2 is state.
func decide(g *groupRecord, m *memberRecord, state string, known bool, now time.Time) verdict {
	if m.warm() {
		return decideWarm(g, m, state, known, now)
	}
	if m.Starting && m.State == autoscalingtypes.LifecycleStatePending && !m.Unhealthy {
		switch state {
		case "stopped":
			return start
		case "stopping":
			return stay
		}
	}
	switch m.State {
	case autoscalingtypes.LifecycleStatePending, autoscalingtypes.LifecycleStatePendingProceed, autoscalingtypes.LifecycleStatePendingWait,
		autoscalingtypes.LifecycleStateInService:
		if sick(g, m, state, known) {
			switch {
			case g.runs("ReplaceUnhealthy") && g.runs("Terminate") && !(g.launchesFirst() && m.State == autoscalingtypes.LifecycleStateInService && !gone(state, known)):
				return replace
			case !m.Unhealthy:
				return sicken
			}
			return stay
		}
		switch {
		case m.State == autoscalingtypes.LifecycleStatePending && state == "running":
			if len(g.waits(hookLaunching, now)) > 0 {
				return hold
			}
			return serve
		case m.State == autoscalingtypes.LifecycleStatePendingWait:
			over, abandoned := m.hooksOver(now)
			switch {
			case abandoned:
				return abandon
			case over:
				return serve
			}
		case m.State == autoscalingtypes.LifecycleStatePendingProceed:
			return serve
		}
	case autoscalingtypes.LifecycleStateTerminatingWait:
		if over, abandoned := m.hooksOver(now); over || abandoned || gone(state, known) {
			return proceed
		}
	case autoscalingtypes.LifecycleStateTerminating, autoscalingtypes.LifecycleStateTerminatingProceed:
		switch {
		case !known || state == "terminated":
			return bury
		case m.Reuse && state != "shutting-down":
			return revive
		case state != "shutting-down":
			return kill
		}
	case autoscalingtypes.LifecycleStateStandby: // instances in Standby are not health-checked, but terminated ones are removed
		if gone(state, known) {
			return bury
		}
	}
	return stay
}

// sick reports whether an instance is unhealthy, by EC2's health check, which any instance fails
// that is stopping or gone, or because someone set its health.
func sick(g *groupRecord, m *memberRecord, state string, known bool) bool {
	if m.Unhealthy {
		return true
	}
	return g.runs("HealthCheck") && (gone(state, known) || state == "stopping" || state == "stopped")
}

// hooksOver reports whether all hooks that an instance waits for are done, and whether one of them
// abandoned it.
func (m *memberRecord) hooksOver(now time.Time) (over, abandoned bool) {
	over = true
	for _, w := range m.Waits {
		switch {
		case now.Before(w.Deadline):
			over = false
		case w.Default == resultAbandon:
			abandoned = true
		}
	}
	return over, abandoned
}

// follow takes the next step for each instance and returns the time until the next hook times out.
func (w *work) follow(ctx context.Context) (time.Duration, error) {
	all := w.members()
	now := w.s.now()
	var moving []memberRecord
	var doomed, starting, stopping []string
	var again time.Duration
	for _, m := range all {
		state, known := w.s.cfg.Instances.InstanceState(w.key.Account, w.key.Region, m.ID)
		switch v := decide(&w.g, &m, state, known, now); v {
		case stay:
			for _, h := range m.Waits {
				again = earlier(again, max(h.Deadline.Sub(now), time.Millisecond))
			}
		case kill:
			doomed = append(doomed, m.ID)
		case start:
			starting = append(starting, m.ID)
		case halt:
			stopping = append(stopping, m.ID)
		default:
			moving = append(moving, m)
		}
	}
	for chunk := range slices.Chunk(moving, batch) {
		if err := w.move(ctx, chunk, now); err != nil {
			return 0, err
		}
	}
	for chunk := range slices.Chunk(doomed, 200) {
		if err := w.terminate(chunk); err != nil {
			return 0, err
		}
	}
	if err := w.startInstances(ctx, starting); err != nil {
		return 0, err
	}
	return again, w.stopInstances(stopping)
}

func (w *work) terminate(instanceIDs []string) error {
	_, err := w.s.cfg.EC2.TerminateInstances(w.svc, &awsec2.TerminateInstancesInput{InstanceIds: instanceIDs})
	if awserr.CodeOf(err) == "InvalidInstanceID.NotFound" {
		if len(instanceIDs) == 1 {
			return nil // deleted in the meantime
		}
		for _, id := range instanceIDs {
			if err := w.terminate([]string{id}); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("terminating instances: %w", err)
	}
	return nil
}

// move takes the next step for some instances, in one transaction.
func (w *work) move(ctx context.Context, some []memberRecord, now time.Time) error {
	return store.IgnoreNotFound(w.s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(tx, w.key)
		if err != nil {
			return err
		}
		g.Owed = maps.Clone(g.Owed)
		changed := false
		for _, old := range some {
			k := w.key.Below(old.ID)
			m, err := members.Get(tx, k)
			if store.IsNotFound(err) {
				continue
			}
			if err != nil {
				return err
			}
			m.Waits = slices.Clone(m.Waits)
			state, known := w.s.cfg.Instances.InstanceState(w.key.Account, w.key.Region, m.ID)
			v := decide(&g, &m, state, known, now)
			if v == bury {
				members.Delete(tx, k)
				owners.Delete(tx, w.scope().Key(m.ID))
				if err := end(tx, w.key, m.Activity, autoscalingtypes.ScalingActivityStatusCodeSuccessful, "", now); err != nil {
					return err
				}
				continue
			}
			changed = changed || v == replace
			if err := w.turn(tx, &g, &m, v, gone(state, known), now); err != nil {
				return err
			}
			if err := members.Put(tx, k, m); err != nil {
				return err
			}
		}
		if !changed {
			return nil
		}
		g.LastActivity = now
		return groups.Put(tx, w.key, g)
	}))
}

// turn applies a verdict to one instance.
func (w *work) turn(tx *store.Tx, g *groupRecord, m *memberRecord, v verdict, dead bool, now time.Time) error {
	at := "At " + stamp(now) + " "
	switch v {
	case hold:
		m.State, m.Waits = m.like(autoscalingtypes.LifecycleStatePendingWait), g.waits(hookLaunching, now)
		return progress(tx, w.key, m.Activity, autoscalingtypes.ScalingActivityStatusCodeMidLifecycleAction, 40)
	case serve:
		m.State, m.InService, m.Waits, m.Surplus = autoscalingtypes.LifecycleStateInService, now, nil, false
		m.Unadded, m.Starting = g.withheld(), false
		activity := m.Activity
		m.Activity = ""
		return end(tx, w.key, activity, autoscalingtypes.ScalingActivityStatusCodeSuccessful, "", now)
	case abandon:
		why := "Lifecycle Action Completed with ABANDON Result"
		token := ""
		for _, h := range m.Waits {
			if h.Default == resultAbandon && !now.Before(h.Deadline) {
				token = h.Token
				if h.Heartbeat > 0 {
					why = "Heartbeat Timeout"
				}
			}
		}
		if err := end(tx, w.key, m.Activity, autoscalingtypes.ScalingActivityStatusCodeCancelled,
			fmt.Sprintf("Instance failed to complete user's Lifecycle Action: Lifecycle Action with token %s was abandoned: %s", token, why), now); err != nil {
			return err
		}
		return w.s.beginEnd(tx, w.key, g, m, at+abandonedCause, false)
	case sicken:
		m.Unhealthy = true
	case replace:
		cause := m.failedCheck()
		m.Unhealthy = true
		if m.capacity() {
			if g.Owed == nil {
				g.Owed = map[string]int{}
			}
			g.Owed[unhealthyOwed] += g.weight(m)
		}
		return w.s.beginEnd(tx, w.key, g, m, at+cause, !dead)
	case proceed:
		m.State, m.Waits = m.like(autoscalingtypes.LifecycleStateTerminatingProceed), nil
	case ready:
		m.State, m.Waits = autoscalingtypes.LifecycleStateWarmedPendingProceed, nil
	case revive:
		m.State, m.Waits, m.Reuse, m.InService = autoscalingtypes.LifecycleStateWarmedPendingProceed, nil, false, time.Time{}
	case rest:
		m.State = autoscalingtypes.LifecycleStateWarmedStopped
		if c := g.Group.WarmPoolConfiguration; c != nil && c.PoolState == autoscalingtypes.WarmPoolStateRunning {
			m.State = autoscalingtypes.LifecycleStateWarmedRunning
		}
		activity := m.Activity
		m.Activity = ""
		return end(tx, w.key, activity, autoscalingtypes.ScalingActivityStatusCodeSuccessful, "", now)
	}
	return nil
}

// beginEnd starts the termination of an instance: it begins an activity and, if hooks is set, makes
// the instance wait for the terminating hooks.
func (s *Service) beginEnd(tx *store.Tx, group store.Key, g *groupRecord, m *memberRecord, cause string, hooks bool) error {
	now := s.now()
	if err := end(tx, group, m.Activity, autoscalingtypes.ScalingActivityStatusCodeCancelled, "", now); err != nil {
		return err
	}
	what := "Terminating EC2 instance"
	switch {
	case m.warm():
		what = endPool
	case m.Reuse:
		what = backPool
	}
	id, err := begin(tx, group, g, what+": "+m.ID, cause, subnet{m.Subnet, m.Zone, m.ZoneID}, now)
	if err != nil {
		return err
	}
	m.Activity, m.State, m.Waits, m.Surplus, m.Starting = id, m.like(autoscalingtypes.LifecycleStateTerminating), nil, false, false
	if hooks {
		if m.Waits = g.waits(hookTerminating, now); len(m.Waits) > 0 {
			m.State = m.like(autoscalingtypes.LifecycleStateTerminatingWait)
			return progress(tx, group, id, autoscalingtypes.ScalingActivityStatusCodeMidLifecycleAction, 60)
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
