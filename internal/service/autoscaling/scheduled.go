package autoscaling

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/robfig/cron/v3"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxScheduled is the number of scheduled actions that a group can have.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-quotas.html
const maxScheduled = 125

// A scheduledRecord is a scheduled action. The StartTime of its description is when it is next due.
type scheduledRecord struct {
	Action autoscalingtypes.ScheduledUpdateGroupAction
}

// A recurrence is a parsed Unix cron expression.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/scheduled-scaling-cron.html
func recurrence(a autoscalingtypes.ScheduledUpdateGroupAction) (cron.Schedule, error) {
	text := aws.ToString(a.Recurrence)
	if text == "" {
		return nil, nil
	}
	zone := cmp.Or(aws.ToString(a.TimeZone), "UTC")
	if _, err := time.LoadLocation(zone); err != nil || strings.EqualFold(zone, "local") {
		return nil, errTimeZone(zone)
	}
	if strings.ContainsAny(text, "@=") {
		return nil, errRecurrence(text)
	}
	s, err := cron.ParseStandard("CRON_TZ=" + zone + " " + text)
	if err != nil || s.Next(time.Unix(0, 0)).IsZero() { // such as 30 February, which never comes
		return nil, errRecurrence(text)
	}
	return s, nil
}

// PutScheduledUpdateGroupAction stores a scheduled action. On an existing one it changes what is in the request.
func (s *Service) PutScheduledUpdateGroupAction(ctx context.Context, in *awsautoscaling.PutScheduledUpdateGroupActionInput) (*awsautoscaling.PutScheduledUpdateGroupActionOutput, error) {
	err := s.putScheduled(ctx, in.AutoScalingGroupName, in.ScheduledActionName, autoscalingtypes.ScheduledUpdateGroupAction{
		StartTime: cmp.Or(in.StartTime, in.Time), EndTime: in.EndTime, Recurrence: in.Recurrence, TimeZone: in.TimeZone,
		MinSize: in.MinSize, MaxSize: in.MaxSize, DesiredCapacity: in.DesiredCapacity,
	})
	return &awsautoscaling.PutScheduledUpdateGroupActionOutput{}, err
}

func (s *Service) putScheduled(ctx context.Context, group, name *string, want autoscalingtypes.ScheduledUpdateGroupAction) error {
	sc := scopeOf(ctx)
	return s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := s.group(tx, sc, group)
		switch {
		case err != nil:
			return err
		case g.Deleting:
			return errGroupPendingDelete
		}
		key := sc.group(g.name()).Below(*name)
		old, err := scheduled.Get(tx, key)
		switch {
		case store.IgnoreNotFound(err) != nil:
			return err
		case err != nil:
			if len(scheduled.All(tx, sc.group(g.name()).AllBelow())) >= maxScheduled {
				return errScheduledLimit()
			}
			old.Action = autoscalingtypes.ScheduledUpdateGroupAction{
				AutoScalingGroupName: group, ScheduledActionName: name,
				ScheduledActionARN: aws.String(arn.New("autoscaling", sc.Region, sc.Account, "scheduledUpdateGroupAction:"+ids.UUID()+":autoScalingGroupName/"+g.name()+":scheduledActionName/"+*name)),
			}
		}
		a := old.Action
		a.EndTime, a.Recurrence, a.TimeZone = cmp.Or(want.EndTime, a.EndTime), cmp.Or(want.Recurrence, a.Recurrence), cmp.Or(want.TimeZone, a.TimeZone)
		a.MinSize, a.MaxSize, a.DesiredCapacity = cmp.Or(want.MinSize, a.MinSize), cmp.Or(want.MaxSize, a.MaxSize), cmp.Or(want.DesiredCapacity, a.DesiredCapacity)
		if a.MinSize == nil && a.MaxSize == nil && a.DesiredCapacity == nil {
			return errScheduledSizes()
		}
		if a.MinSize != nil && a.MaxSize != nil && *a.MinSize > *a.MaxSize {
			return errBounds(*a.MinSize, *a.MaxSize)
		}
		every, err := recurrence(a)
		if err != nil {
			return err
		}
		now := s.now()
		switch {
		case want.StartTime != nil:
			if want.StartTime.Before(now) {
				return errStartPast()
			}
			a.StartTime = want.StartTime
		case every != nil && (a.StartTime == nil || want.Recurrence != nil || want.TimeZone != nil):
			a.StartTime = new(every.Next(now))
		case a.StartTime == nil:
			return errScheduledTime()
		}
		if a.EndTime != nil && !a.EndTime.After(*a.StartTime) {
			return errEndBeforeStart()
		}
		a.Time = a.StartTime
		return scheduled.Put(tx, key, scheduledRecord{a})
	})
}

// BatchPutScheduledUpdateGroupAction stores several actions and lists those that failed.
func (s *Service) BatchPutScheduledUpdateGroupAction(ctx context.Context, in *awsautoscaling.BatchPutScheduledUpdateGroupActionInput) (*awsautoscaling.BatchPutScheduledUpdateGroupActionOutput, error) {
	out := &awsautoscaling.BatchPutScheduledUpdateGroupActionOutput{FailedScheduledUpdateGroupActions: []autoscalingtypes.FailedScheduledUpdateGroupActionRequest{}}
	if _, err := s.group(s.store, scopeOf(ctx), in.AutoScalingGroupName); err != nil {
		return nil, err
	}
	for _, a := range in.ScheduledUpdateGroupActions {
		err := s.putScheduled(ctx, in.AutoScalingGroupName, a.ScheduledActionName, autoscalingtypes.ScheduledUpdateGroupAction{
			StartTime: a.StartTime, EndTime: a.EndTime, Recurrence: a.Recurrence, TimeZone: a.TimeZone, MinSize: a.MinSize, MaxSize: a.MaxSize, DesiredCapacity: a.DesiredCapacity,
		})
		if err := failedAction(&out.FailedScheduledUpdateGroupActions, a.ScheduledActionName, err); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// failedAction adds an action to a batch's failures, unless the error is not the client's.
func failedAction(list *[]autoscalingtypes.FailedScheduledUpdateGroupActionRequest, name *string, err error) error {
	code := awserr.CodeOf(err)
	if err == nil || code == "" {
		return err
	}
	*list = append(*list, autoscalingtypes.FailedScheduledUpdateGroupActionRequest{ScheduledActionName: name, ErrorCode: &code, ErrorMessage: aws.String(awserr.TextOf(err))})
	return nil
}

// DeleteScheduledAction deletes an action.
func (s *Service) DeleteScheduledAction(ctx context.Context, in *awsautoscaling.DeleteScheduledActionInput) (*awsautoscaling.DeleteScheduledActionOutput, error) {
	return &awsautoscaling.DeleteScheduledActionOutput{}, s.deleteScheduled(ctx, in.AutoScalingGroupName, aws.ToString(in.ScheduledActionName))
}

func (s *Service) deleteScheduled(ctx context.Context, group *string, name string) error {
	sc := scopeOf(ctx)
	return s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := s.group(tx, sc, group)
		if err != nil {
			return err
		}
		key := sc.group(g.name()).Below(name)
		if _, err := scheduled.Get(tx, key); err != nil {
			if store.IsNotFound(err) {
				return errNoScheduled(name)
			}
			return err
		}
		scheduled.Delete(tx, key)
		return nil
	})
}

// BatchDeleteScheduledAction deletes several actions and lists those that failed.
func (s *Service) BatchDeleteScheduledAction(ctx context.Context, in *awsautoscaling.BatchDeleteScheduledActionInput) (*awsautoscaling.BatchDeleteScheduledActionOutput, error) {
	out := &awsautoscaling.BatchDeleteScheduledActionOutput{FailedScheduledActions: []autoscalingtypes.FailedScheduledUpdateGroupActionRequest{}}
	if _, err := s.group(s.store, scopeOf(ctx), in.AutoScalingGroupName); err != nil {
		return nil, err
	}
	for _, name := range in.ScheduledActionNames {
		if err := failedAction(&out.FailedScheduledActions, &name, s.deleteScheduled(ctx, in.AutoScalingGroupName, name)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// DescribeScheduledActions lists actions that have not been carried out for the last time. The times in the request
// are ignored when it has names.
func (s *Service) DescribeScheduledActions(ctx context.Context, in *awsautoscaling.DescribeScheduledActionsInput) (*awsautoscaling.DescribeScheduledActionsOutput, error) {
	sc := scopeOf(ctx)
	where := sc.All()
	if in.AutoScalingGroupName != nil {
		where = sc.group(*in.AutoScalingGroupName).AllBelow()
	}
	found, next, err := describe(s.store, scheduled, where, func(r scheduledRecord) bool {
		a := r.Action
		if len(in.ScheduledActionNames) > 0 {
			return slices.Contains(in.ScheduledActionNames, *a.ScheduledActionName)
		}
		return (in.StartTime == nil || !a.StartTime.Before(*in.StartTime)) && (in.EndTime == nil || !a.StartTime.After(*in.EndTime))
	}, in.MaxRecords, in.NextToken)
	out := &awsautoscaling.DescribeScheduledActionsOutput{NextToken: next, ScheduledUpdateGroupActions: []autoscalingtypes.ScheduledUpdateGroupAction{}}
	for _, r := range found {
		out.ScheduledUpdateGroupActions = append(out.ScheduledUpdateGroupActions, r.Value.Action)
	}
	return out, err
}

// carryOut changes a group's sizes when an action is due, and returns how long it is until the action is due again. An
// action that will not be due again is deleted. One that was due while the daemon was down is carried out once. What was due while the
// account was held has happened, or not, at its source, and is left out.
func (s *Service) carryOut(ctx context.Context, key store.Key) (time.Duration, error) {
	r, err := scheduled.Get(s.store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	if left := r.Action.StartTime.Sub(s.clock.Now()); left > 0 {
		return left, nil
	}
	sc, held := scope{regional.At(key.Account, key.Region)}, s.heldUntil(key.Account)
	return 0, s.store.Update(ctx, func(tx *store.Tx) error {
		r, err := scheduled.Get(tx, key)
		if err != nil {
			return store.IgnoreNotFound(err)
		}
		a, now := r.Action, s.now()
		if a.StartTime.After(now) {
			return nil
		}
		err = groups.Update(tx, sc.group(*a.AutoScalingGroupName), func(g *groupRecord) error {
			if g.Deleting || !g.runs("ScheduledActions") || a.StartTime.Before(held) {
				return nil
			}
			if was := *g; s.applyScheduled(g, a) != nil {
				*g = was // AWS does not carry out an action that contradicts the group's sizes
			}
			return nil
		})
		if err != nil && !store.IsNotFound(err) {
			return err
		}
		every, err := recurrence(a)
		if err != nil || every == nil {
			scheduled.Delete(tx, key)
			return nil
		}
		next := every.Next(now)
		if next.IsZero() || a.EndTime != nil && next.After(*a.EndTime) {
			scheduled.Delete(tx, key)
			return nil
		}
		a.StartTime = &next
		a.Time = a.StartTime
		return scheduled.Put(tx, key, scheduledRecord{a})
	})
}

// applyScheduled changes a group's sizes. The cause is worded as in activities of AWS that users quote.
func (s *Service) applyScheduled(g *groupRecord, a autoscalingtypes.ScheduledUpdateGroupAction) error {
	was := *g.Group.DesiredCapacity
	var changes strings.Builder
	set := func(what string, to **int32, v *int32) {
		if v != nil && **to != *v {
			changes.WriteString(scheduledChange(what, **to, *v))
			*to = v
		}
	}
	set("min size", &g.Group.MinSize, a.MinSize)
	set("max size", &g.Group.MaxSize, a.MaxSize)
	desired := a.DesiredCapacity
	if desired == nil {
		desired = aws.Int32(min(max(was, *g.Group.MinSize), *g.Group.MaxSize))
	}
	set("desired capacity", &g.Group.DesiredCapacity, desired)
	if *g.Group.DesiredCapacity != was {
		g.note("At %s the scheduled action %s executed.%s", stamp(s.now()), *a.ScheduledActionName, changes.String())
	}
	g.fresh()
	return checkSizes(&g.Group)
}
