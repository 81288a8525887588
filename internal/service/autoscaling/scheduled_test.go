package autoscaling_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func (w *world) scheduled(group string) []autoscalingtypes.ScheduledUpdateGroupAction {
	w.Helper()
	return testkit.Must(w.DescribeScheduledActions(w.Context(), &awsautoscaling.DescribeScheduledActionsInput{AutoScalingGroupName: &group}))(w).ScheduledUpdateGroupActions
}

// A recurring action changes the group each time that it is due, in its own time zone and also after a restart; one
// that happens once is gone afterwards.
func TestScheduledActions(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.group("web", 1)
	name := aws.String("web")
	testkit.Must(w.UpdateAutoScalingGroup(ctx, &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: name, MinSize: aws.Int32(0), MaxSize: aws.Int32(5)}))(t)
	testkit.Must(w.PutScheduledUpdateGroupAction(ctx, &awsautoscaling.PutScheduledUpdateGroupActionInput{
		AutoScalingGroupName: name, ScheduledActionName: aws.String("morning"), Recurrence: aws.String("30 7 * * *"), TimeZone: aws.String("Asia/Tokyo"), DesiredCapacity: aws.Int32(3),
	}))(t)
	a := w.scheduled("web")[0]
	if due := a.StartTime.UTC(); due.Format("15:04:05") != "22:30:00" || !due.After(w.clock.Now()) || due.Sub(w.clock.Now()) > 24*time.Hour || !a.Time.Equal(due) {
		t.Errorf("due %v", due)
	}
	if !strings.HasSuffix(*a.ScheduledActionARN, ":autoScalingGroupName/web:scheduledActionName/morning") {
		t.Errorf("ARN %s", *a.ScheduledActionARN)
	}
	w.clock.SetTime(*a.StartTime)
	w.await("web", serving(3))
	act := testkit.Must(w.DescribeScalingActivities(ctx, &awsautoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: name}))(t).Activities[0]
	if want := "the scheduled action morning executed. Setting desired capacity from 1 to 3."; !strings.Contains(*act.Cause, want) {
		t.Errorf("cause %q lacks %q", *act.Cause, want)
	}
	next := w.scheduled("web")[0].StartTime
	if got := next.Sub(*a.StartTime); got != 24*time.Hour {
		t.Errorf("due again after %v", got)
	}

	// Suspended, it is skipped.
	testkit.Must(w.SuspendProcesses(ctx, &awsautoscaling.SuspendProcessesInput{AutoScalingGroupName: name, ScalingProcesses: []string{"ScheduledActions"}}))(t)
	testkit.Must(w.PutScheduledUpdateGroupAction(ctx, &awsautoscaling.PutScheduledUpdateGroupActionInput{AutoScalingGroupName: name, ScheduledActionName: aws.String("morning"), DesiredCapacity: aws.Int32(5)}))(t)
	w.clock.SetTime(*next)
	testkit.Eventually(t, 20*time.Second, func() error {
		if at := w.scheduled("web")[0].StartTime; !at.After(*next) {
			return fmt.Errorf("still due at %v", at)
		}
		return nil
	})
	if g, _ := w.describe("web"); *g.DesiredCapacity != 3 {
		t.Errorf("a suspended action set %d", *g.DesiredCapacity)
	}
	testkit.Must(w.ResumeProcesses(ctx, &awsautoscaling.ResumeProcessesInput{AutoScalingGroupName: name}))(t)
	testkit.Must(w.DeleteScheduledAction(ctx, &awsautoscaling.DeleteScheduledActionInput{AutoScalingGroupName: name, ScheduledActionName: aws.String("morning")}))(t)

	// Once, while the daemon was down.
	at := w.clock.Now().Add(time.Hour)
	testkit.Must(w.PutScheduledUpdateGroupAction(ctx, &awsautoscaling.PutScheduledUpdateGroupActionInput{
		AutoScalingGroupName: name, ScheduledActionName: aws.String("end"), StartTime: &at, MinSize: aws.Int32(0), MaxSize: aws.Int32(1), DesiredCapacity: aws.Int32(0),
	}))(t)
	w.stop()
	w.clock.SetTime(at.Add(time.Minute))
	w.restart()
	w.await("web", serving(0))
	testkit.Eventually(t, 20*time.Second, func() error {
		if all := w.scheduled("web"); len(all) > 0 {
			return fmt.Errorf("still there: %+v", all)
		}
		return nil
	})
}

func TestScheduledActionBatches(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.group("web", 0)
	name := aws.String("web")
	every := aws.String("0 0 1 1,6,12 *")
	out := testkit.Must(w.BatchPutScheduledUpdateGroupAction(ctx, &awsautoscaling.BatchPutScheduledUpdateGroupActionInput{
		AutoScalingGroupName: name, ScheduledUpdateGroupActions: []autoscalingtypes.ScheduledUpdateGroupActionRequest{
			{ScheduledActionName: aws.String("a"), Recurrence: every, MinSize: aws.Int32(0)}, {ScheduledActionName: aws.String("b"), Recurrence: aws.String("0 0 *"), MinSize: aws.Int32(0)},
		},
	}))(t)
	if f := out.FailedScheduledUpdateGroupActions; len(f) != 1 || *f[0].ScheduledActionName != "b" || *f[0].ErrorCode != "ValidationError" {
		t.Errorf("failed: %+v", f)
	}
	if got := w.scheduled("web"); len(got) != 1 || *got[0].Recurrence != *every {
		t.Errorf("scheduled: %+v", got)
	}
	gone := testkit.Must(w.BatchDeleteScheduledAction(ctx, &awsautoscaling.BatchDeleteScheduledActionInput{AutoScalingGroupName: name, ScheduledActionNames: []string{"a", "b"}}))(t)
	if f := gone.FailedScheduledActions; len(f) != 1 || *f[0].ScheduledActionName != "b" {
		t.Errorf("failed: %+v", f)
	}
}

func TestScheduledActionErrors(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.group("web", 0)
	past, soon := w.clock.Now().Add(-time.Minute), w.clock.Now().Add(time.Minute)
	size := aws.Int32(0)
	for name, tt := range map[string]struct {
		in   awsautoscaling.PutScheduledUpdateGroupActionInput
		want string
	}{
		"past":              {awsautoscaling.PutScheduledUpdateGroupActionInput{StartTime: &past, MinSize: size}, "Given start time is in the past"},
		"end before start":  {awsautoscaling.PutScheduledUpdateGroupActionInput{StartTime: &soon, EndTime: &past, MinSize: size}, "Given end time is before start time"},
		"no time":           {awsautoscaling.PutScheduledUpdateGroupActionInput{MinSize: size}, ""},
		"no size":           {awsautoscaling.PutScheduledUpdateGroupActionInput{StartTime: &soon}, ""},
		"min above max":     {awsautoscaling.PutScheduledUpdateGroupActionInput{StartTime: &soon, MinSize: aws.Int32(2), MaxSize: aws.Int32(1)}, ""},
		"six fields":        {awsautoscaling.PutScheduledUpdateGroupActionInput{Recurrence: aws.String("0 0 * * * *"), MinSize: size}, "Given recurrence string:0 0 * * * * is invalid"},
		"not cron":          {awsautoscaling.PutScheduledUpdateGroupActionInput{Recurrence: aws.String("@every 1s"), MinSize: size}, "Given recurrence string:@every 1s is invalid"},
		"never":             {awsautoscaling.PutScheduledUpdateGroupActionInput{Recurrence: aws.String("0 0 30 2 *"), MinSize: size}, "Given recurrence string:0 0 30 2 * is invalid"},
		"unknown time zone": {awsautoscaling.PutScheduledUpdateGroupActionInput{Recurrence: aws.String("0 0 * * *"), TimeZone: aws.String("Mars/Olympus"), MinSize: size}, "Given time zone:Mars/Olympus is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.in.AutoScalingGroupName, tt.in.ScheduledActionName = aws.String("web"), aws.String("a")
			_, err := w.PutScheduledUpdateGroupAction(ctx, &tt.in)
			testkit.WantError(t, err, "ValidationError", tt.want)
		})
	}
	_, err := w.DeleteScheduledAction(ctx, &awsautoscaling.DeleteScheduledActionInput{AutoScalingGroupName: aws.String("web"), ScheduledActionName: aws.String("a")})
	testkit.WantError(t, err, "ValidationError", "Scheduled action name not found - scheduled action a not found")
}
