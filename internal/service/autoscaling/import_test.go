package autoscaling_test

import (
	"encoding/json"
	"fmt"
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
	answer := func(operation string, out any) recording.Answer {
		service := "autoscaling"
		if operation == "DescribeSubnets" {
			service = "ec2"
		}
		return recording.Answer{Service: service, Operation: operation, Input: json.RawMessage("{}"), Pages: []json.RawMessage{testkit.Must(json.Marshal(out))(t)}}
	}
	w.held.Store(true)
	writes, gaps, err := w.svc.Module().Import(&recording.Recording{
		Source: recording.Source{Account: w.account, Region: testkit.Region, Started: now},
		Answers: []recording.Answer{
			answer("DescribeSubnets", awsec2.DescribeSubnetsOutput{Subnets: w.subnets}),
			answer("DescribeAutoScalingGroups", groups),
			answer("DescribePolicies", awsautoscaling.DescribePoliciesOutput{ScalingPolicies: []autoscalingtypes.ScalingPolicy{{AutoScalingGroupName: name, PolicyName: aws.String("cpu"), PolicyARN: aws.String("arn:aws:x")}}}),
			answer("DescribeScheduledActions", awsautoscaling.DescribeScheduledActionsOutput{ScheduledUpdateGroupActions: []autoscalingtypes.ScheduledUpdateGroupAction{
				action("once", now.Add(-48*time.Hour), nil, 5), action("hourly", now.Add(-24*time.Hour), hourly, 3), action("soon", now.Add(time.Minute), nil, 4), odd,
			}}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(gaps) != 2 || gaps[0].String() != `scaling policy "cpu" of group "web" was not copied: it has no type, or an ARN of another one` || gaps[1].String() != `scheduled action "odd" of group "web" was not copied: it has no time, or an ARN of another one` {
		t.Errorf("gaps %v", gaps)
	}
	err = w.server.Store.Update(ctx, func(tx *store.Tx) error {
		for _, write := range writes {
			if err := write.Put(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
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
