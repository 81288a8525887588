package autoscaling

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	hookLaunching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
	hookTerminating = "autoscaling:EC2_INSTANCE_TERMINATING"
	resultContinue  = "CONTINUE"
	resultAbandon   = "ABANDON"
	// maxHooks is AWS's quota of hooks per group.
	maxHooks = 50
	// longestWait is the maximum time that an instance waits: 48 hours or a hundred heartbeats,
	// whichever is less.
	// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_LifecycleHook.html
	longestWait = 48 * time.Hour
)

// PutLifecycleHook creates or changes a hook.
func (s *Service) PutLifecycleHook(ctx context.Context, in *awsautoscaling.PutLifecycleHookInput) (*awsautoscaling.PutLifecycleHookOutput, error) {
	err := s.changeNamed(ctx, in.AutoScalingGroupName, func(_ *store.Tx, g *groupRecord) error {
		i := g.hook(aws.ToString(in.LifecycleHookName))
		var old *autoscalingtypes.LifecycleHook
		if i >= 0 {
			old = &g.Hooks[i]
		}
		h, err := newHook(g.name(), old, in)
		if err != nil {
			return err
		}
		if old == nil && len(g.Hooks) >= maxHooks {
			return errLimit("Lifecycle hook limit exceeded. You already have %d hooks.", len(g.Hooks)) // from memory
		}
		g.Hooks = putHook(g.Hooks, h)
		return nil
	})
	return &awsautoscaling.PutLifecycleHookOutput{}, err
}

func (g *groupRecord) hook(name string) int {
	return slices.IndexFunc(g.Hooks, func(h autoscalingtypes.LifecycleHook) bool { return *h.LifecycleHookName == name })
}

func putHook(hooks []autoscalingtypes.LifecycleHook, h autoscalingtypes.LifecycleHook) []autoscalingtypes.LifecycleHook {
	hooks = slices.DeleteFunc(slices.Clone(hooks), func(o autoscalingtypes.LifecycleHook) bool { return *o.LifecycleHookName == *h.LifecycleHookName })
	return append(hooks, h)
}

// newHook validates a hook. An update keeps values that the request leaves out.
func newHook(group string, old *autoscalingtypes.LifecycleHook, in *awsautoscaling.PutLifecycleHookInput) (autoscalingtypes.LifecycleHook, error) {
	h := autoscalingtypes.LifecycleHook{HeartbeatTimeout: aws.Int32(3600), DefaultResult: aws.String(resultAbandon)}
	if old != nil {
		h = *old
	}
	h.AutoScalingGroupName, h.LifecycleHookName = &group, in.LifecycleHookName
	for to, v := range map[**string]*string{
		&h.LifecycleTransition: in.LifecycleTransition, &h.DefaultResult: in.DefaultResult, &h.NotificationMetadata: in.NotificationMetadata,
		&h.NotificationTargetARN: in.NotificationTargetARN, &h.RoleARN: in.RoleARN,
	} {
		if v != nil {
			*to = v
		}
	}
	if in.HeartbeatTimeout != nil {
		h.HeartbeatTimeout = in.HeartbeatTimeout
	}
	if t := aws.ToString(h.LifecycleTransition); t != hookLaunching && t != hookTerminating {
		return h, errHookTransition(t)
	}
	if r := *h.DefaultResult; r != resultContinue && r != resultAbandon {
		return h, errHookResult(r)
	}
	if t := *h.HeartbeatTimeout; t < 30 || t > 7200 {
		return h, errHookTimeout(t)
	}
	h.GlobalTimeout = aws.Int32(min(100**h.HeartbeatTimeout, int32(longestWait/time.Second)))
	return h, nil
}

// DescribeLifecycleHooks lists a group's hooks.
func (s *Service) DescribeLifecycleHooks(ctx context.Context, in *awsautoscaling.DescribeLifecycleHooksInput) (*awsautoscaling.DescribeLifecycleHooksOutput, error) {
	g, err := s.group(s.store, scopeOf(ctx), in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	out := &awsautoscaling.DescribeLifecycleHooksOutput{LifecycleHooks: []autoscalingtypes.LifecycleHook{}}
	for _, h := range g.Hooks {
		if len(in.LifecycleHookNames) == 0 || slices.Contains(in.LifecycleHookNames, *h.LifecycleHookName) {
			out.LifecycleHooks = append(out.LifecycleHooks, h)
		}
	}
	return out, nil
}

// DeleteLifecycleHook deletes a hook. Instances that wait for it continue: launching instances are
// abandoned, terminating ones terminate.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_DeleteLifecycleHook.html
func (s *Service) DeleteLifecycleHook(ctx context.Context, in *awsautoscaling.DeleteLifecycleHookInput) (*awsautoscaling.DeleteLifecycleHookOutput, error) {
	sc := scopeOf(ctx)
	name := aws.ToString(in.LifecycleHookName)
	var waiting []string
	err := s.changeNamed(ctx, in.AutoScalingGroupName, func(tx *store.Tx, g *groupRecord) error {
		i := g.hook(name)
		if i < 0 {
			return errNoHook(name, g.name())
		}
		all := members.All(tx, sc.group(g.name()).AllBelow())
		waiting = nil
		for _, m := range all {
			if slices.ContainsFunc(m.Value.Waits, func(w hookWait) bool { return w.Hook == name }) {
				waiting = append(waiting, m.Value.ID)
			}
		}
		g.Hooks = slices.Delete(slices.Clone(g.Hooks), i, i+1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	group := sc.group(*in.AutoScalingGroupName)
	for chunk := range slices.Chunk(waiting, batch) {
		if err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, id := range chunk {
				if err := store.IgnoreNotFound(members.Update(tx, group.Below(id), func(m *memberRecord) error {
					m.complete(name, "", resultAbandon, s.now())
					return nil
				})); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return &awsautoscaling.DeleteLifecycleHookOutput{}, nil
}

// waits returns the lifecycle actions that an instance has to wait for in a transition.
func (g *groupRecord) waits(transition string, now time.Time) []hookWait {
	var out []hookWait
	for _, h := range g.Hooks {
		if *h.LifecycleTransition != transition {
			continue
		}
		beat := time.Duration(*h.HeartbeatTimeout) * time.Second
		out = append(out, hookWait{
			Hook: *h.LifecycleHookName, Token: ids.UUID(), Default: *h.DefaultResult, Heartbeat: beat, Deadline: now.Add(beat),
			Limit: now.Add(time.Duration(*h.GlobalTimeout) * time.Second),
		})
	}
	return out
}

// complete completes a hook's action with a result. If token is set, the action must have that
// token. It returns false if there is no such action.
func (m *memberRecord) complete(hook, token, result string, now time.Time) bool {
	i := m.wait(hook, token, now)
	if i < 0 {
		return false
	}
	// Without a heartbeat, a passed deadline means that the action was completed rather than timed
	// out.
	m.Waits[i].Default, m.Waits[i].Deadline, m.Waits[i].Heartbeat = result, now, 0
	return true
}

func (m *memberRecord) wait(hook, token string, now time.Time) int {
	return slices.IndexFunc(m.Waits, func(w hookWait) bool {
		return w.Hook == hook && (token == "" || w.Token == token) && now.Before(w.Deadline)
	})
}

// CompleteLifecycleAction completes a lifecycle action.
func (s *Service) CompleteLifecycleAction(ctx context.Context, in *awsautoscaling.CompleteLifecycleActionInput) (*awsautoscaling.CompleteLifecycleActionOutput, error) {
	result := aws.ToString(in.LifecycleActionResult)
	if result != resultContinue && result != resultAbandon {
		return nil, errHookResult(result)
	}
	err := s.changeWaiting(ctx, in.AutoScalingGroupName, in.LifecycleHookName, in.InstanceId, in.LifecycleActionToken, func(m *memberRecord) bool {
		return m.complete(aws.ToString(in.LifecycleHookName), aws.ToString(in.LifecycleActionToken), result, s.now())
	})
	return &awsautoscaling.CompleteLifecycleActionOutput{}, err
}

// CompleteLifecycleActions completes a hook's action for several instances, on behalf of a service
// that manages a group. It ignores instances that are not waiting.
func (s *Service) CompleteLifecycleActions(ctx context.Context, group, hook, result string, instanceIDs []string) error {
	key := scopeOf(ctx).group(group)
	for chunk := range slices.Chunk(instanceIDs, 3*batch) {
		if err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, id := range chunk {
				if err := store.IgnoreNotFound(members.Update(tx, key.Below(id), func(m *memberRecord) error {
					m.complete(hook, "", result, s.now())
					return nil
				})); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// RecordLifecycleActionHeartbeat extends the wait by another heartbeat.
func (s *Service) RecordLifecycleActionHeartbeat(ctx context.Context, in *awsautoscaling.RecordLifecycleActionHeartbeatInput) (*awsautoscaling.RecordLifecycleActionHeartbeatOutput, error) {
	err := s.changeWaiting(ctx, in.AutoScalingGroupName, in.LifecycleHookName, in.InstanceId, in.LifecycleActionToken, func(m *memberRecord) bool {
		now := s.now()
		i := m.wait(aws.ToString(in.LifecycleHookName), aws.ToString(in.LifecycleActionToken), now)
		if i < 0 {
			return false
		}
		w := &m.Waits[i]
		if w.Deadline = now.Add(w.Heartbeat); w.Deadline.After(w.Limit) {
			w.Deadline = w.Limit
		}
		return true
	})
	return &awsautoscaling.RecordLifecycleActionHeartbeatOutput{}, err
}

// changeWaiting changes the instance with an ID, or the one that is waiting with a token.
func (s *Service) changeWaiting(ctx context.Context, group, hook, instance, token *string, fn func(*memberRecord) bool) error {
	sc := scopeOf(ctx)
	return s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(tx, sc.group(aws.ToString(group))) // groups that are being deleted still have hooks
		if store.IsNotFound(err) {
			return errNoGroup(aws.ToString(group))
		}
		if err != nil {
			return err
		}
		if g.hook(aws.ToString(hook)) < 0 {
			return errNoHook(aws.ToString(hook), g.name())
		}
		id := aws.ToString(instance)
		if id == "" && aws.ToString(token) != "" {
			for _, m := range members.All(tx, sc.group(g.name()).AllBelow()) {
				if slices.ContainsFunc(m.Value.Waits, func(w hookWait) bool { return w.Token == *token }) {
					id = m.Value.ID
				}
			}
		}
		refused := errNoAction(id, aws.ToString(token))
		err = members.Update(tx, sc.group(g.name()).Below(id), func(m *memberRecord) error {
			if !fn(m) {
				return refused
			}
			return nil
		})
		if store.IsNotFound(err) {
			return refused
		}
		return err
	})
}
