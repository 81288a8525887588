package autoscaling_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

const (
	launching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
	terminating = "autoscaling:EC2_INSTANCE_TERMINATING"
)

func (w *world) hook(group, name, transition, result string, seconds int32) {
	w.Helper()
	testkit.Must(w.PutLifecycleHook(w.Context(), &awsautoscaling.PutLifecycleHookInput{
		AutoScalingGroupName: &group, LifecycleHookName: &name, LifecycleTransition: &transition, DefaultResult: &result, HeartbeatTimeout: &seconds,
	}))(w)
}

func (w *world) complete(group, hook, id, result string) error {
	_, err := w.CompleteLifecycleAction(w.Context(), &awsautoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: &group, LifecycleHookName: &hook, InstanceId: &id, LifecycleActionResult: &result,
	})
	return err
}

func (w *world) desire(group string, n int32) {
	w.Helper()
	testkit.Must(w.SetDesiredCapacity(w.Context(), &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &group, DesiredCapacity: &n}))(w)
}

// An instance waits for its hook until the action is completed or the heartbeat times out.
// Heartbeats extend the wait.
func TestLifecycleHookTimeline(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.group("web", 0)
	w.hook("web", "start", launching, "ABANDON", 60)
	w.hook("web", "stop", terminating, "CONTINUE", 90)
	w.desire("web", 1)
	g := w.await("web", states(1, "Pending:Wait"))
	id := *g.Instances[0].InstanceId
	if a := w.activities("web")[0]; a.StatusCode != "MidLifecycleAction" || *a.Progress != 40 {
		t.Errorf("%+v", a)
	}
	for range 3 { // three heartbeats, each after 50 s
		w.clock.Step(50 * time.Second)
		testkit.Must(w.RecordLifecycleActionHeartbeat(ctx, &awsautoscaling.RecordLifecycleActionHeartbeatInput{
			AutoScalingGroupName: aws.String("web"), LifecycleHookName: aws.String("start"), InstanceId: &id,
		}))(t)
	}
	w.await("web", states(1, "Pending:Wait"))
	if err := w.complete("web", "start", id, "CONTINUE"); err != nil {
		t.Fatal(err)
	}
	w.await("web", serving(1))
	testkit.WantError(t, w.complete("web", "start", id, "CONTINUE"), "ValidationError", "No active Lifecycle Action found with instance ID "+id)

	// No one completes the terminating hook, so its default result applies after the timeout.
	w.desire("web", 0)
	w.await("web", states(1, "Terminating:Wait"))
	w.clock.Step(89 * time.Second)
	w.await("web", states(1, "Terminating:Wait"))
	if n := len(w.alive("web")); n != 1 {
		t.Errorf("%d instances live while a hook waits", n)
	}
	w.later(time.Second, func() error { g, _ := w.describe("web"); return serving(0)(g) })

	// No one completes a launching hook, so the instance is abandoned and another is launched.
	w.desire("web", 1)
	first := *w.await("web", states(1, "Pending:Wait")).Instances[0].InstanceId
	w.clock.Step(60 * time.Second)
	w.await("web", func(g autoscalingtypes.AutoScalingGroup) error {
		if slices.ContainsFunc(g.Instances, func(i autoscalingtypes.Instance) bool {
			return *i.InstanceId != first && i.LifecycleState == "Pending:Wait"
		}) {
			return nil
		}
		return errors.New("no successor")
	})
	for _, a := range w.activities("web") {
		if strings.HasPrefix(*a.Description, "Launching a new EC2 instance: "+first) {
			if a.StatusCode != "Cancelled" || !strings.Contains(*a.StatusMessage, "was abandoned: Heartbeat Timeout") {
				t.Errorf("%s: %+v", a.StatusCode, *a.StatusMessage)
			}
		}
	}
}

func TestInstancesComeAndGoByTheirUsersWill(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	name := aws.String("web")
	g := w.group("web", 2)
	first, second := *g.Instances[0].InstanceId, *g.Instances[1].InstanceId

	w.clock.Step(time.Second)
	testkit.Must(w.EnterStandby(ctx, &awsautoscaling.EnterStandbyInput{AutoScalingGroupName: name, InstanceIds: []string{first}, ShouldDecrementDesiredCapacity: aws.Bool(true)}))(t)
	w.await("web", counts(map[autoscalingtypes.LifecycleState]int{"Standby": 1, "InService": 1}))
	a := w.activities("web")[0]
	wantCause(t, a, `At … instance `+first+` was moved to standby in response to a user request, shrinking the capacity from 2 to 1\.`)
	testkit.Must(w.ExitStandby(ctx, &awsautoscaling.ExitStandbyInput{AutoScalingGroupName: name, InstanceIds: []string{first}}))(t)
	w.await("web", serving(2))

	out := testkit.Must(w.TerminateInstanceInAutoScalingGroup(ctx, &awsautoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &first, ShouldDecrementDesiredCapacity: aws.Bool(true)}))(t)
	wantCause(t, *out.Activity, `At … an instance was taken out of service in response to a user request, shrinking the capacity from 2 to 1\.`)
	w.await("web", serving(1))
	_, err := w.TerminateInstanceInAutoScalingGroup(ctx, &awsautoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: aws.String("i-0123456789abcdef0"), ShouldDecrementDesiredCapacity: aws.Bool(true)})
	testkit.WantError(t, err, "ValidationError", "Instance Id not found - No managed instance found for instance ID: i-0123456789abcdef0")

	testkit.Must(w.SetInstanceProtection(ctx, &awsautoscaling.SetInstanceProtectionInput{AutoScalingGroupName: name, InstanceIds: []string{second}, ProtectedFromScaleIn: aws.Bool(true)}))(t)
	w.desire("web", 0)
	for range 10 {
		w.clock.Step(time.Minute)
		w.await("web", serving(1))
	}
	testkit.Must(w.DetachInstances(ctx, &awsautoscaling.DetachInstancesInput{AutoScalingGroupName: name, InstanceIds: []string{second}, ShouldDecrementDesiredCapacity: aws.Bool(false)}))(t)
	w.await("web", serving(0))
	if n := len(w.alive("web")); n != 0 { // its tag is gone
		t.Errorf("%d instances carry the tag", n)
	}
	testkit.Must(w.AttachInstances(ctx, &awsautoscaling.AttachInstancesInput{AutoScalingGroupName: name, InstanceIds: []string{second}}))(t)
	g = w.await("web", serving(1))
	if *g.DesiredCapacity != 1 || *g.Instances[0].InstanceId != second || len(w.alive("web")) != 1 {
		t.Errorf("attached: %d desired, %v", *g.DesiredCapacity, instanceIDs(g))
	}
	_, err = w.AttachInstances(ctx, &awsautoscaling.AttachInstancesInput{AutoScalingGroupName: name, InstanceIds: []string{second}})
	testkit.WantError(t, err, "ValidationError", "The Instance: "+second+" is already part of AutoScalingGroup:web")
	third := testkit.Must(w.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{ImageId: &w.image, InstanceType: "t3.micro", MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}))(t).Instances[0].InstanceId
	testkit.Eventually(t, 10*time.Second, func() error {
		if got := testkit.Must(w.ec2.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{InstanceIds: []string{*third}}))(t); got.Reservations[0].Instances[0].State.Name != "running" {
			return errors.New("not running")
		}
		return nil
	})
	testkit.Must(w.UpdateAutoScalingGroup(ctx, &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: name, MaxSize: aws.Int32(1)}))(t)
	_, err = w.AttachInstances(ctx, &awsautoscaling.AttachInstancesInput{AutoScalingGroupName: name, InstanceIds: []string{*third}})
	testkit.WantError(t, err, "ValidationError", "AutoScalingGroup web has min-size=0, max-size=1, and desired-size=1. To attach 1 instance, please update the AutoScalingGroup sizes appropriately.")
	_, err = w.DetachInstances(ctx, &awsautoscaling.DetachInstancesInput{AutoScalingGroupName: name, InstanceIds: slices.Repeat([]string{second}, 21), ShouldDecrementDesiredCapacity: aws.Bool(true)})
	testkit.WantError(t, err, "ValidationError", "List exceeds the maximum number of instances to detach. Please retry your request with fewer instances.")
	_, err = w.EnterStandby(ctx, &awsautoscaling.EnterStandbyInput{AutoScalingGroupName: name, InstanceIds: slices.Repeat([]string{second}, 21), ShouldDecrementDesiredCapacity: aws.Bool(true)})
	testkit.WantErrorWith(t, err, "ValidationError", second+"]' at 'instanceIds' failed to satisfy constraint: Member must have length less than or equal to 20")
	details := testkit.Must(w.DescribeAutoScalingInstances(ctx, &awsautoscaling.DescribeAutoScalingInstancesInput{InstanceIds: []string{second, "i-0123456789abcdef0"}}))(t).AutoScalingInstances
	if len(details) != 1 || *details[0].HealthStatus != "HEALTHY" || *details[0].LifecycleState != "InService" {
		t.Errorf("%+v", details)
	}
}

func TestInstanceRefresh(t *testing.T) {
	for _, percent := range []int32{50, 100} {
		t.Run(fmt.Sprint(percent, "% healthy"), func(t *testing.T) {
			w := newWorld(t)
			ctx := t.Context()
			name := aws.String("web")
			g := w.group("web", 4)
			old := instanceIDs(g)
			testkit.Must(w.ec2.CreateLaunchTemplateVersion(ctx, &awsec2.CreateLaunchTemplateVersionInput{
				LaunchTemplateName: g.LaunchTemplate.LaunchTemplateName, SourceVersion: aws.String("1"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "t3.medium"},
			}))(t)
			w.clock.Step(time.Second)
			prefs := &autoscalingtypes.RefreshPreferences{MinHealthyPercentage: &percent, InstanceWarmup: aws.Int32(0), SkipMatching: aws.Bool(true)}
			// Nothing launches, so nothing terminates before the second start is refused.
			launching := make(chan struct{})
			w.faults.set(nil, func(*awsec2.RunInstancesInput) error {
				<-launching
				return nil
			})
			started := testkit.Must(w.StartInstanceRefresh(ctx, &awsautoscaling.StartInstanceRefreshInput{AutoScalingGroupName: name, Preferences: prefs}))(t)
			_, err := w.StartInstanceRefresh(ctx, &awsautoscaling.StartInstanceRefreshInput{AutoScalingGroupName: name})
			close(launching)
			testkit.WantError(t, err, "InstanceRefreshInProgress", "An Instance Refresh is already in progress and blocks the execution of this Instance Refresh.")
			fewest := 4
			testkit.Eventually(t, 20*time.Second, func() error {
				g, _ := w.describe("web")
				n := 0
				for _, i := range g.Instances {
					if i.LifecycleState == "InService" {
						n++
					}
				}
				fewest = min(fewest, n)
				r := testkit.Must(w.DescribeInstanceRefreshes(ctx, &awsautoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: name, InstanceRefreshIds: []string{*started.InstanceRefreshId}}))(t).InstanceRefreshes[0]
				if r.Status != "Successful" {
					return fmt.Errorf("%s, %d%%", r.Status, *r.PercentageComplete)
				}
				return nil
			})
			if fewest < int(percent)*4/100 {
				t.Errorf("only %d served at a time", fewest)
			}
			g = w.await("web", serving(4))
			for _, i := range g.Instances {
				if slices.Contains(old, *i.InstanceId) || *i.LaunchTemplate.Version != "2" || *i.InstanceType != "t3.medium" {
					t.Errorf("%s of version %s", *i.InstanceId, *i.LaunchTemplate.Version)
				}
			}
			_, err = w.CancelInstanceRefresh(ctx, &awsautoscaling.CancelInstanceRefreshInput{AutoScalingGroupName: name})
			testkit.WantError(t, err, "ActiveInstanceRefreshNotFound", "No in progress, baking, pending, or cancelling Instance Refresh found for Auto Scaling group web")
		})
	}
}

// A zone that was removed and added again gets its share before surplus instances in the others
// terminate.
func TestRebalancing(t *testing.T) {
	w := newWorld(t)
	lost := *w.subnets[1].SubnetId
	w.faults.set(nil, func(in *awsec2.RunInstancesInput) error {
		if !aws.ToBool(in.DryRun) && aws.ToString(in.SubnetId) == lost {
			return capacity("zone")
		}
		return nil
	})
	w.group("web", 4)
	zones := func() map[string]int {
		out := map[string]int{}
		for _, i := range w.alive("web") {
			out[*i.SubnetId]++
		}
		return out
	}
	if z := zones(); z[lost] != 0 {
		t.Fatalf("%v", z)
	}
	w.faults.set(nil, nil)
	w.later(time.Second, func() error {
		if z := zones(); z[lost] != 2 || len(w.alive("web")) != 4 {
			return fmt.Errorf("%v", z)
		}
		return nil
	})
}

// A group of fifty grows, shrinks and is deleted while EC2's calls fail before or after taking
// effect and the reconciler restarts at any moment. No launch is duplicated or lost. Half of the groups have a warm pool.
func TestCrashesDoubleAndLoseNothing(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t)
			r := rand.New(rand.NewPCG(seed, 1))
			left := 0
			strike := func(string, bool) error {
				if left == 0 || r.IntN(2) == 0 {
					return nil
				}
				left--
				return errors.New("injected fault")
			}
			w.group("web", 0, func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.MaxSize = aws.Int32(100) })
			prepared := 0
			if seed%2 == 1 {
				prepared = 75
				w.putPool("web", func(in *awsautoscaling.PutWarmPoolInput) {
					in.MaxGroupPreparedCapacity, in.InstanceReusePolicy = aws.Int32(75), &autoscalingtypes.InstanceReusePolicy{ReuseOnScaleIn: aws.Bool(seed%4 == 1)}
				})
			}
			for _, size := range []int32{70, 20, 50} {
				w.faults.mu.Lock()
				w.faults.strike, left = strike, 6
				restarts := r.IntN(4)
				w.faults.mu.Unlock()
				w.desire("web", size)
				for range restarts {
					w.clock.Step(10 * time.Millisecond)
					w.restart()
				}
				w.later(50*time.Millisecond, func() error {
					g, _ := w.describe("web")
					if err := serving(int(size))(g); err != nil || prepared == 0 {
						return err
					}
					if err := (inPool{"Warmed:Stopped": prepared - int(size)}).are(w.pooled("web")); err != nil {
						return err
					}
					if n := len(w.alive("web")); n != int(size) { // the group may be balancing its zones
						return fmt.Errorf("%d instances live, want %d", n, size)
					}
					return nil
				})
				if n := len(w.alive("web")); prepared == 0 && n != int(size) {
					t.Fatalf("%d instances live, want %d", n, size)
				}
			}
			testkit.Must(w.DeleteAutoScalingGroup(t.Context(), &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), ForceDelete: aws.Bool(true)}))(t)
			w.restart()
			w.later(50*time.Millisecond, func() error {
				if _, there := w.describe("web"); there {
					return errors.New("still there")
				}
				return nil
			})
			if n := len(w.alive("web")); n != 0 {
				t.Errorf("%d instances live", n)
			}
			launched := 0
			for _, a := range w.activities("web") {
				if strings.HasPrefix(*a.Description, "Launching") && a.StatusCode == "Failed" {
					t.Errorf("%s", *a.Description)
				}
				launched++
			}
			if launched == 0 {
				t.Error("nothing is told")
			}
		})
	}
}

func TestAThousandInstances(t *testing.T) {
	w := newWorld(t)
	begin := time.Now()
	w.group("big", 1000, func(in *awsautoscaling.CreateAutoScalingGroupInput) {
		in.MaxSize, in.LaunchTemplate = aws.Int32(1000), nil
		in.MixedInstancesPolicy = &autoscalingtypes.MixedInstancesPolicy{LaunchTemplate: &autoscalingtypes.LaunchTemplate{
			LaunchTemplateSpecification: w.template("small"), Overrides: []autoscalingtypes.LaunchTemplateOverrides{{InstanceType: aws.String("t2.micro")}}, // with one vCPU each: the quota is 1,152
		}}
	})
	launched := time.Since(begin)
	w.desire("big", 0)
	w.await("big", serving(0))
	t.Logf("1,000 instances in service after %v, gone after another %v", launched, time.Since(begin)-launched)
	if launched > time.Minute {
		t.Errorf("launching took %v", launched)
	}
}
