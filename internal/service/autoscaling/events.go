package autoscaling

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
)

// Events sends the events of launches and terminations, of lifecycle actions and of instance refreshes.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-event-reference.html
func (s *Service) Events(ctx context.Context, bus serviceevents.Bus) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return serviceevents.Follow(ctx, s.store, actions, s.log, func(k store.Key, r *activityRecord) error { return s.activityEvent(bus, k, r) })
	})
	g.Go(func() error {
		return serviceevents.Follow(ctx, s.store, members, s.log, func(k store.Key, m *memberRecord) error { return s.hookEvents(bus, k, m) })
	})
	g.Go(func() error {
		return serviceevents.Follow(ctx, s.store, refreshes, s.log, func(k store.Key, r *refreshRecord) error { return s.refreshEvent(bus, k, r) })
	})
	return g.Wait()
}

// The activities that there are events of, by the beginning of their description, which ends in the instance's ID.
var activityEvents = []struct {
	begin, name, origin, destination string
}{
	{intoPool, "EC2 Instance Launch", "EC2", "WarmPool"},
	{fromPool, "EC2 Instance Launch", "WarmPool", "AutoScalingGroup"},
	{backPool, "EC2 Instance Terminate", "AutoScalingGroup", "WarmPool"},
	{endPool, "EC2 Instance Terminate", "WarmPool", "EC2"},
	{"Launching a new EC2 instance", "EC2 Instance Launch", "EC2", "AutoScalingGroup"},
	{"Terminating EC2 instance", "EC2 Instance Terminate", "AutoScalingGroup", "EC2"},
}

// activityEvent sends the event of an activity that is over.
func (s *Service) activityEvent(bus serviceevents.Bus, key store.Key, r *activityRecord) error {
	thing := "autoscaling/activity/" + key.ID
	if r == nil {
		return bus.Forget(key.Account, key.Region, thing)
	}
	a := &r.Activity
	if a.EndTime == nil || s.clock.Since(*a.EndTime) > serviceevents.News {
		return nil
	}
	for _, of := range activityEvents {
		rest, ok := strings.CutPrefix(aws.ToString(a.Description), of.begin)
		if !ok {
			continue
		}
		rest, _, _ = strings.Cut(strings.TrimPrefix(rest, ": "), ".")
		resources, result := []string{aws.ToString(a.AutoScalingGroupARN)}, "Unsuccessful"
		if strings.HasPrefix(rest, "i-") {
			resources = append(resources, arn.New("ec2", key.Region, key.Account, "instance/"+rest))
		} else {
			rest = ""
		}
		if a.StatusCode == autoscalingtypes.ScalingActivityStatusCodeSuccessful {
			result = "Successful"
		}
		about := json.RawMessage(aws.ToString(a.Details))
		if !json.Valid(about) { // an imported one's
			about = json.RawMessage("{}")
		}
		return bus.EmitOnce(key.Account, key.Region, thing, string(a.StatusCode), &serviceevents.Event{
			DetailType: of.name + " " + result, Source: "aws.autoscaling", Resources: resources, Time: a.EndTime.UTC().Format(serviceevents.TimeForm),
			Detail: serviceevents.Detail(map[string]any{
				"ActivityId": a.ActivityId, "RequestId": a.ActivityId, "AutoScalingGroupName": a.AutoScalingGroupName, "EC2InstanceId": rest,
				"Description": a.Description, "Cause": a.Cause, "Details": about,
				"StatusCode": activityStatus(a.StatusCode), "StatusMessage": aws.ToString(a.StatusMessage),
				"StartTime": a.StartTime.UTC().Format(eventTime), "EndTime": a.EndTime.UTC().Format(eventTime), "Origin": of.origin, "Destination": of.destination,
			}),
		})
	}
	return nil
}

// eventTime is how details of events say times.
const eventTime = "2006-01-02T15:04:05.000Z"

// activityStatus is a status as events have it. That of a successful activity is still InProgress in AWS's examples.
func activityStatus(code autoscalingtypes.ScalingActivityStatusCode) string {
	if code == autoscalingtypes.ScalingActivityStatusCodeSuccessful {
		return string(autoscalingtypes.ScalingActivityStatusCodeInProgress)
	}
	return string(code)
}

// hookEvents sends the events of the lifecycle actions that an instance has begun to wait for.
func (s *Service) hookEvents(bus serviceevents.Bus, key store.Key, m *memberRecord) error {
	thing := "autoscaling/instance/" + key.ID
	last := bus.Emitted(key.Account, key.Region, thing)
	if m == nil || len(m.Waits) == 0 {
		if last == "" {
			return nil
		}
		return bus.Forget(key.Account, key.Region, thing)
	}
	g, err := groups.Get(s.store, key.Owner())
	if err != nil {
		return store.IgnoreNotFound(err)
	}
	sent := strings.Fields(last)
	for _, w := range m.Waits {
		i := g.hook(w.Hook)
		if i < 0 || slices.Contains(sent, w.Token) {
			continue
		}
		h := &g.Hooks[i]
		name := "EC2 Instance-launch Lifecycle Action"
		if *h.LifecycleTransition == hookTerminating {
			name = "EC2 Instance-terminate Lifecycle Action"
		}
		origin, destination := m.path(*h.LifecycleTransition)
		detail := map[string]any{
			"LifecycleActionToken": w.Token, "AutoScalingGroupName": g.name(), "LifecycleHookName": w.Hook, "EC2InstanceId": m.ID,
			"LifecycleTransition": h.LifecycleTransition, "Origin": origin, "Destination": destination,
		}
		if h.NotificationMetadata != nil {
			detail["NotificationMetadata"] = h.NotificationMetadata
		}
		sent = append(sent, w.Token)
		if err := bus.EmitOnce(key.Account, key.Region, thing, strings.Join(sent, " "), &serviceevents.Event{
			DetailType: name, Source: "aws.autoscaling", Resources: []string{aws.ToString(g.Group.AutoScalingGroupARN)}, Detail: serviceevents.Detail(detail),
		}); err != nil {
			return err
		}
	}
	return nil
}

// refreshEvent sends the event of an instance refresh that has started, has reached a checkpoint, is rolled back or is over.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/instance-refresh-eventbridge.html
func (s *Service) refreshEvent(bus serviceevents.Bus, key store.Key, r *refreshRecord) error {
	thing := "autoscaling/refresh/" + key.ID
	if r == nil {
		return bus.Forget(key.Account, key.Region, thing)
	}
	f := &r.Refresh
	detail := map[string]any{"InstanceRefreshId": f.InstanceRefreshId, "AutoScalingGroupName": f.AutoScalingGroupName}
	name := map[autoscalingtypes.InstanceRefreshStatus]string{
		autoscalingtypes.InstanceRefreshStatusInProgress: "Started", autoscalingtypes.InstanceRefreshStatusSuccessful: "Succeeded",
		autoscalingtypes.InstanceRefreshStatusFailed: "Failed", autoscalingtypes.InstanceRefreshStatusCancelled: "Cancelled",
		autoscalingtypes.InstanceRefreshStatusRollbackInProgress: "Rollback Started", autoscalingtypes.InstanceRefreshStatusRollbackSuccessful: "Rollback Succeeded",
		autoscalingtypes.InstanceRefreshStatusRollbackFailed: "Rollback Failed",
	}[f.Status]
	state := name
	if name == "Started" && r.Reached > 0 {
		percent := f.Preferences.CheckpointPercentages[r.Reached-1]
		name, state = "Checkpoint Reached", fmt.Sprint("Checkpoint ", percent)
		detail["CheckpointPercentage"], detail["CheckpointDelay"] = fmt.Sprint(percent), fmt.Sprint(*f.Preferences.CheckpointDelay)
	}
	if name == "" || f.EndTime != nil && s.clock.Since(*f.EndTime) > serviceevents.News {
		return nil
	}
	group, err := groups.Get(s.store, key.Owner())
	if err != nil {
		return store.IgnoreNotFound(err)
	}
	return bus.EmitOnce(key.Account, key.Region, thing, state, &serviceevents.Event{
		DetailType: "EC2 Auto Scaling Instance Refresh " + name, Source: "aws.autoscaling", Resources: []string{aws.ToString(group.Group.AutoScalingGroupARN)},
		Detail: serviceevents.Detail(detail),
	})
}
