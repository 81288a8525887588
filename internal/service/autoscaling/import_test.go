package autoscaling_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// What was due before the first change of a twin does not happen then. It happens the next time that it is due. One policy or action that
// cannot be copied does not prevent the others.
func TestScheduledActionsOfATwin(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.group("web", 1)
	name := aws.String("web")
	testkit.Must(w.UpdateAutoScalingGroup(ctx, &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: name, MinSize: aws.Int32(0), MaxSize: aws.Int32(5)}))(t)
	w.await("web", serving(1))
	groups := testkit.Must(w.DescribeAutoScalingGroups(ctx, &awsautoscaling.DescribeAutoScalingGroupsInput{}))(t)
	action := func(name string, due time.Time, every *string, size int32) autoscalingtypes.ScheduledUpdateGroupAction {
		return autoscalingtypes.ScheduledUpdateGroupAction{
			AutoScalingGroupName: aws.String("web"), ScheduledActionName: &name, StartTime: &due, Time: &due, Recurrence: every, DesiredCapacity: &size,
			ScheduledActionARN: aws.String("arn:aws:autoscaling:us-east-1:111122223333:scheduledUpdateGroupAction:1:autoScalingGroupName/web:scheduledActionName/" + name),
		}
	}
	now := w.clock.Now()
	later := now.Add(time.Hour).UTC()
	hourly := aws.String(fmt.Sprintf("%d * * * *", later.Minute()))
	odd := action("odd", now, nil, 5)
	odd.StartTime = nil
	w.held.Store(true)
	gaps := w.imports(map[string]any{
		"DescribeSubnets": awsec2.DescribeSubnetsOutput{Subnets: w.subnets}, "DescribeAutoScalingGroups": groups,
		"DescribePolicies": awsautoscaling.DescribePoliciesOutput{ScalingPolicies: []autoscalingtypes.ScalingPolicy{{AutoScalingGroupName: name, PolicyName: aws.String("cpu"), PolicyARN: aws.String("arn:aws:x")}}},
		"DescribeScheduledActions": awsautoscaling.DescribeScheduledActionsOutput{ScheduledUpdateGroupActions: []autoscalingtypes.ScheduledUpdateGroupAction{
			action("once", now.Add(-48*time.Hour), nil, 5), action("hourly", now.Add(-24*time.Hour), hourly, 3), action("soon", now.Add(time.Minute), nil, 4), odd,
		}},
	})
	if len(gaps) != 2 || gaps[0].String() != `scaling policy "cpu" of group "web" was not copied: it has no type, or an ARN of another one` || gaps[1].String() != `scheduled action "odd" of group "web" was not copied: it has no time, or an ARN of another one` {
		t.Errorf("gaps %v", gaps)
	}

	// The first change: every action is due.
	changed := now.Add(10 * time.Minute)
	w.clock.SetTime(changed)
	w.heldUntil.Store(&changed)
	w.held.Store(false)
	testkit.Eventually(t, 20*time.Second, func() error {
		if all := w.scheduled("web"); len(all) != 1 || *all[0].ScheduledActionName != "hourly" || !all[0].StartTime.After(changed) {
			return fmt.Errorf("there are %+v", all)
		}
		return nil
	})
	if g, _ := w.describe("web"); *g.DesiredCapacity != 1 {
		t.Errorf("an action of the past set %d", *g.DesiredCapacity)
	}
	w.clock.SetTime(*w.scheduled("web")[0].StartTime)
	w.await("web", serving(3))
}

// A group whose subnets were not imported says so when it cannot launch.
func TestAGroupOfATwinWithoutSubnets(t *testing.T) {
	w := newWorld(t)
	w.group("web", 1)
	groups := testkit.Must(w.DescribeAutoScalingGroups(t.Context(), &awsautoscaling.DescribeAutoScalingGroupsInput{}))(t)
	groups.AutoScalingGroups[0].DesiredCapacity, groups.AutoScalingGroups[0].MaxSize = aws.Int32(2), aws.Int32(2)
	w.imports(map[string]any{"DescribeAutoScalingGroups": groups})
	testkit.Eventually(t, 20*time.Second, func() error {
		for _, a := range w.activities("web") {
			if a.StatusCode == autoscalingtypes.ScalingActivityStatusCodeFailed && strings.Contains(aws.ToString(a.StatusMessage), "did not allow ec2:DescribeSubnets") {
				return nil
			}
		}
		return fmt.Errorf("activities %+v", w.activities("web"))
	})
	testkit.Must(w.UpdateAutoScalingGroup(t.Context(), &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), DesiredCapacity: aws.Int32(1)}))(t)
}

// imports imports what AWS answered to operations, and returns the gaps.
func (w *world) imports(answers map[string]any) []recording.Gap {
	w.Helper()
	r := &recording.Recording{Source: recording.Source{Account: w.account, Region: testkit.Region, Started: w.clock.Now()}}
	for operation, out := range answers {
		service := "autoscaling"
		if operation == "DescribeSubnets" {
			service = "ec2"
		}
		r.Answers = append(r.Answers, recording.Answer{Service: service, Operation: operation, Input: json.RawMessage("{}"), Pages: []json.RawMessage{testkit.Must(json.Marshal(out))(w)}})
	}
	writes, gaps, err := w.svc.Module().Import(r)
	if err != nil {
		w.Fatal(err)
	}
	err = w.server.Store.Update(w.Context(), func(tx *store.Tx) error {
		for _, write := range writes {
			if err := write.Put(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return gaps
}
