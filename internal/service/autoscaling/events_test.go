package autoscaling_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/serviceevents/eventstest"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestEvents follows an instance from its launch to its end through the events that Auto Scaling sends.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	bus := &eventstest.Bus{}
	svc := w.newService(w.server.Store)
	stop := testkit.Run(t, func(ctx context.Context) error { return svc.Events(ctx, bus) })
	w.group("web", 0)
	g, _ := w.describe("web")
	w.hook("web", "start", launching, "ABANDON", 60)
	w.hook("web", "stop", terminating, "CONTINUE", 90)
	w.desire("web", 1)
	type detail struct {
		LifecycleActionToken, AutoScalingGroupName, LifecycleHookName, EC2InstanceID, LifecycleTransition, Origin, Destination string
		StatusCode, StatusMessage, Cause, Description, InstanceRefreshID                                                       string
		Details                                                                                                                map[string]string
	}
	next := func(name string) (d detail, resources []string) {
		t.Helper()
		e := bus.Next(t, name)
		if err := json.Unmarshal(e.Detail, &d); err != nil || e.Source != "aws.autoscaling" || e.Account != w.account || e.Region != testkit.Region || e.Resources[0] != *g.AutoScalingGroupARN {
			t.Errorf("%v: %+v", err, e)
		}
		return d, e.Resources
	}
	begun, _ := next("EC2 Instance-launch Lifecycle Action")
	if begun.LifecycleHookName != "start" || begun.LifecycleTransition != launching || begun.Destination != "AutoScalingGroup" {
		t.Errorf("%+v", begun)
	}
	id := begun.EC2InstanceID
	// The token of the event completes the action.
	testkit.Must(w.CompleteLifecycleAction(t.Context(), &awsautoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: aws.String("web"), LifecycleHookName: aws.String("start"), LifecycleActionToken: &begun.LifecycleActionToken, LifecycleActionResult: aws.String("CONTINUE"),
	}))(t)
	launched, resources := next("EC2 Instance Launch Successful")
	if launched.EC2InstanceID != id || launched.Details["Availability Zone"] == "" || launched.Cause == "" ||
		!slices.Equal(resources, []string{*g.AutoScalingGroupARN, "arn:aws:ec2:us-east-1:" + w.account + ":instance/" + id}) {
		t.Errorf("%+v of %v", launched, resources)
	}
	w.desire("web", 0)
	if d, _ := next("EC2 Instance-terminate Lifecycle Action"); d.EC2InstanceID != id || d.Origin != "AutoScalingGroup" || d.LifecycleActionToken == begun.LifecycleActionToken {
		t.Errorf("%+v", d)
	}
	if err := w.complete("web", "stop", id, "CONTINUE"); err != nil {
		t.Fatal(err)
	}
	if d, _ := next("EC2 Instance Terminate Successful"); d.EC2InstanceID != id {
		t.Errorf("%+v", d)
	}

	w.faults.set(nil, func(*awsec2.RunInstancesInput) error { return capacity("m5.large") })
	w.desire("web", 1)
	if d, resources := next("EC2 Instance Launch Unsuccessful"); d.StatusCode != "Failed" || !strings.Contains(d.StatusMessage, "m5.large capacity") || len(resources) != 1 {
		t.Errorf("%+v of %v", d, resources)
	}
	w.faults.set(nil, nil)
	w.desire("web", 0)
	refresh := testkit.Must(w.StartInstanceRefresh(t.Context(), &awsautoscaling.StartInstanceRefreshInput{AutoScalingGroupName: aws.String("web"), Strategy: autoscalingtypes.RefreshStrategyRolling}))(t)
	if d, _ := next("EC2 Auto Scaling Instance Refresh Succeeded"); d.InstanceRefreshID != *refresh.InstanceRefreshId {
		t.Errorf("%+v", d)
	}

	// Another daemon on the same store repeats nothing.
	stop()
	left := len(bus.Left())
	testkit.Run(t, func(ctx context.Context) error { return svc.Events(ctx, bus) })
	w.group("marker", 1)
	bus.Next(t, "EC2 Instance Launch Successful")
	if again := bus.Left(); len(again) > left {
		t.Errorf("after a restart: %q", again)
	}
}

// TestWarmPoolEvents checks where events say that the instances of a warm pool come from and go.
func TestWarmPoolEvents(t *testing.T) {
	w := newWorld(t)
	bus := &eventstest.Bus{}
	svc := w.newService(w.server.Store)
	testkit.Run(t, func(ctx context.Context) error { return svc.Events(ctx, bus) })
	w.group("web", 0, func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.MaxSize = aws.Int32(1) })
	w.hook("web", "start", launching, "ABANDON", 60)
	w.hook("web", "stop", terminating, "CONTINUE", 60)
	moves := func(name, origin, destination string) (id string) {
		t.Helper()
		var d struct{ EC2InstanceID, Origin, Destination string }
		if err := json.Unmarshal(bus.Next(t, name).Detail, &d); err != nil || d.Origin != origin || d.Destination != destination {
			t.Errorf("%s: %+v, %v, want from %s to %s", name, d, err, origin, destination)
		}
		return d.EC2InstanceID
	}
	through := func(kind, hook, origin, destination string) {
		t.Helper()
		id := moves("EC2 Instance-"+kind+" Lifecycle Action", origin, destination)
		if err := w.complete("web", hook, id, "CONTINUE"); err != nil {
			t.Fatal(err)
		}
		moves("EC2 Instance "+strings.ToUpper(kind[:1])+kind[1:]+" Successful", origin, destination)
	}
	w.putPool("web", func(in *awsautoscaling.PutWarmPoolInput) {
		in.InstanceReusePolicy = &autoscalingtypes.InstanceReusePolicy{ReuseOnScaleIn: aws.Bool(true)}
	})
	through("launch", "start", "EC2", "WarmPool")
	w.desire("web", 1)
	through("launch", "start", "WarmPool", "AutoScalingGroup")
	w.desire("web", 0)
	through("terminate", "stop", "AutoScalingGroup", "WarmPool")
	testkit.Must(w.DeleteWarmPool(t.Context(), &awsautoscaling.DeleteWarmPoolInput{AutoScalingGroupName: aws.String("web")}))(t)
	through("terminate", "stop", "WarmPool", "EC2")
}
