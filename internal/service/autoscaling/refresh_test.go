package autoscaling_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// numbered creates a group of four on version 1 of its launch template, and version 2, which it returns.
func (w *world) numbered(name string) (autoscalingtypes.AutoScalingGroup, *autoscalingtypes.LaunchTemplateSpecification) {
	w.Helper()
	g := w.group(name, 4, func(in *awsautoscaling.CreateAutoScalingGroupInput) {
		in.LaunchTemplate.Version = aws.String("1")
	})
	testkit.Must(w.ec2.CreateLaunchTemplateVersion(w.Context(), &awsec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateName: g.LaunchTemplate.LaunchTemplateName, SourceVersion: aws.String("1"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "t3.medium"},
	}))(w)
	w.clock.Step(time.Second)
	return g, &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: g.LaunchTemplate.LaunchTemplateId, Version: aws.String("2")}
}

func (w *world) refresh(name string, to *autoscalingtypes.LaunchTemplateSpecification, prefs autoscalingtypes.RefreshPreferences) {
	w.Helper()
	w.clock.Step(time.Second)
	prefs.InstanceWarmup = aws.Int32(0)
	in := &awsautoscaling.StartInstanceRefreshInput{AutoScalingGroupName: &name, Preferences: &prefs}
	if to != nil {
		in.DesiredConfiguration = &autoscalingtypes.DesiredConfiguration{LaunchTemplate: to}
	}
	testkit.Must(w.StartInstanceRefresh(w.Context(), in))(w)
}

// refreshed returns a condition: the latest refresh of a group has a status.
func (w *world) refreshed(name string, want autoscalingtypes.InstanceRefreshStatus) func() error {
	return func() error {
		r := w.latestRefresh(name)
		if r.Status != want {
			return fmt.Errorf("%s, %d%%, %s", r.Status, *r.PercentageComplete, aws.ToString(r.StatusReason))
		}
		return nil
	}
}

func (w *world) latestRefresh(name string) autoscalingtypes.InstanceRefresh {
	w.Helper()
	return testkit.Must(w.DescribeInstanceRefreshes(w.Context(), &awsautoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: &name}))(w).InstanceRefreshes[0]
}

// versions counts a group's instances by the version of their launch template.
func (w *world) versions(name string) map[string]int {
	w.Helper()
	out := map[string]int{}
	g, _ := w.describe(name)
	for _, i := range g.Instances {
		out[*i.LaunchTemplate.Version]++
	}
	return out
}

// A refresh deploys its desired configuration, pauses at checkpoints and for the bake time, and changes the group at its end only.
func TestRefreshToADesiredConfiguration(t *testing.T) {
	w := newWorld(t)
	_, two := w.numbered("web")
	w.refresh("web", two, autoscalingtypes.RefreshPreferences{
		MinHealthyPercentage: aws.Int32(50), CheckpointPercentages: []int32{25, 100}, CheckpointDelay: aws.Int32(600), BakeTime: aws.Int32(300),
	})
	testkit.Eventually(t, 20*time.Second, func() error {
		if r, v := w.latestRefresh("web"), w.versions("web"); *r.PercentageComplete != 25 || v["1"] != 3 || v["2"] != 1 {
			return fmt.Errorf("%d%%, %v", *r.PercentageComplete, v)
		}
		return nil
	})
	_, err := w.UpdateAutoScalingGroup(t.Context(), &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), LaunchTemplate: two})
	testkit.WantError(t, err, "ValidationError", "An active instance refresh with a desired configuration exists. All configuration options derived from the desired configuration are not available for update while the instance refresh is active.")
	w.clock.Step(5 * time.Minute)
	w.desire("web", 5) // grows by the desired configuration
	w.await("web", serving(5))
	if v := w.versions("web"); v["1"] != 3 || v["2"] != 2 {
		t.Errorf("the checkpoint did not hold: %v", v)
	}
	w.clock.Step(6 * time.Minute)
	testkit.Eventually(t, 20*time.Second, w.refreshed("web", "Baking"))
	if g, _ := w.describe("web"); *g.LaunchTemplate.Version != "1" {
		t.Errorf("the group has version %s before the refresh ends", *g.LaunchTemplate.Version)
	}
	w.clock.Step(6 * time.Minute)
	testkit.Eventually(t, 20*time.Second, w.refreshed("web", "Successful"))
	if g, _ := w.describe("web"); *g.LaunchTemplate.Version != "2" || w.versions("web")["2"] != 5 {
		t.Errorf("version %s, instances %v", *g.LaunchTemplate.Version, w.versions("web"))
	}
}

// A refresh replaces the warm pool after the group, which takes no old instances from the pool meanwhile.
func TestRefreshOfAWarmPool(t *testing.T) {
	w := newWorld(t)
	g, two := w.numbered("web")
	testkit.Must(w.UpdateAutoScalingGroup(t.Context(), &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: g.AutoScalingGroupName, MaxSize: aws.Int32(6)}))(t)
	w.putPool("web", func(in *awsautoscaling.PutWarmPoolInput) { in.MaxGroupPreparedCapacity = aws.Int32(6) })
	old := append(w.pool("web", inPool{"Warmed:Stopped": 2}), instanceIDs(g)...)
	replaced := func(status autoscalingtypes.InstanceRefreshStatus, version string) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, w.refreshed("web", status))
		if err := (inPool{"Warmed:Stopped": 2}).are(w.pooled("web")); err != nil {
			t.Errorf("when the refresh has ended, %v", err)
		}
		now := append(instanceIDs(w.await("web", serving(4))), w.pool("web", inPool{"Warmed:Stopped": 2})...)
		for _, id := range old {
			if slices.Contains(now, id) {
				t.Errorf("%s is left", id)
			}
		}
		for _, i := range w.pooled("web") {
			if *i.LaunchTemplate.Version != version {
				t.Errorf("%s in the pool has version %s, want %s", *i.InstanceId, *i.LaunchTemplate.Version, version)
			}
		}
		if v := w.versions("web"); v[version] != 4 {
			t.Errorf("versions %v", v)
		}
		old = now
	}
	w.refresh("web", two, autoscalingtypes.RefreshPreferences{MinHealthyPercentage: aws.Int32(50)})
	replaced("Successful", "2")
	if r := w.latestRefresh("web"); *r.PercentageComplete != 100 || *r.InstancesToUpdate != 0 {
		t.Errorf("%d%%, %d instances", *r.PercentageComplete, *r.InstancesToUpdate)
	}

	w.refresh("web", nil, autoscalingtypes.RefreshPreferences{SkipMatching: aws.Bool(true)})
	testkit.Eventually(t, 20*time.Second, w.refreshed("web", "Successful"))
	if now := append(instanceIDs(w.await("web", serving(4))), w.pool("web", inPool{"Warmed:Stopped": 2})...); len(now) != 6 || slices.ContainsFunc(now, func(id string) bool { return !slices.Contains(old, id) }) {
		t.Errorf("instances that match are replaced: %v, then %v", old, now)
	}
}

// A rollback replaces what the refresh has launched and leaves the group as it was.
func TestRollbackOfARefresh(t *testing.T) {
	w := newWorld(t)
	g, two := w.numbered("web")
	name := g.AutoScalingGroupName
	_, err := w.RollbackInstanceRefresh(t.Context(), &awsautoscaling.RollbackInstanceRefreshInput{AutoScalingGroupName: name})
	testkit.WantError(t, err, "ActiveInstanceRefreshNotFound", "No in progress, baking, pending, or cancelling Instance Refresh found for Auto Scaling group web")
	_, err = w.StartInstanceRefresh(t.Context(), &awsautoscaling.StartInstanceRefreshInput{AutoScalingGroupName: name, Preferences: &autoscalingtypes.RefreshPreferences{AutoRollback: aws.Bool(true)}})
	testkit.WantError(t, err, "ValidationError", "The request isn't valid. The AutoRollback parameter cannot be set to true when the DesiredConfiguration parameter is empty. Set AutoRollback to false or specify a desired configuration and try again.")
	w.refresh("web", two, autoscalingtypes.RefreshPreferences{MinHealthyPercentage: aws.Int32(50), CheckpointPercentages: []int32{50}})
	testkit.Eventually(t, 20*time.Second, w.refreshed("web", "Successful")) // the last checkpoint is the end
	if v := w.versions("web"); v["1"] != 2 || v["2"] != 2 {
		t.Errorf("%v", v)
	}

	g, two = w.numbered("api")
	name = g.AutoScalingGroupName
	old := instanceIDs(g)
	w.refresh("api", two, autoscalingtypes.RefreshPreferences{MinHealthyPercentage: aws.Int32(50), CheckpointPercentages: []int32{50, 100}})
	testkit.Eventually(t, 20*time.Second, func() error {
		if r := w.latestRefresh("api"); *r.PercentageComplete != 50 {
			return fmt.Errorf("%d%%", *r.PercentageComplete)
		}
		return nil
	})
	testkit.Must(w.RollbackInstanceRefresh(t.Context(), &awsautoscaling.RollbackInstanceRefreshInput{AutoScalingGroupName: name}))(t)
	testkit.Eventually(t, 20*time.Second, w.refreshed("api", "RollbackSuccessful"))
	g = w.await("api", serving(4))
	kept := 0
	for _, i := range g.Instances {
		if slices.Contains(old, *i.InstanceId) {
			kept++
		}
	}
	r := w.latestRefresh("api")
	if *g.LaunchTemplate.Version != "1" || w.versions("api")["1"] != 4 || kept != 2 || *r.PercentageComplete != 0 || *r.RollbackDetails.PercentageCompleteOnRollback != 50 || *r.InstancesToUpdate != 2 {
		t.Errorf("%v, %d kept, %+v", w.versions("api"), kept, r)
	}
}

// By default a refresh waits an hour for instances that are protected or in standby.
func TestRefreshWaits(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	g, two := w.numbered("web")
	name, first := g.AutoScalingGroupName, *g.Instances[0].InstanceId
	protect := func(on bool) {
		testkit.Must(w.SetInstanceProtection(ctx, &awsautoscaling.SetInstanceProtectionInput{AutoScalingGroupName: name, InstanceIds: []string{first}, ProtectedFromScaleIn: &on}))(t)
	}
	protect(true)
	half := autoscalingtypes.RefreshPreferences{MinHealthyPercentage: aws.Int32(50), AutoRollback: aws.Bool(true)}
	most := func() error {
		if r := w.latestRefresh("web"); *r.PercentageComplete != 75 {
			return fmt.Errorf("%s, %d%%", r.Status, *r.PercentageComplete)
		}
		return nil
	}
	w.refresh("web", two, half)
	testkit.Eventually(t, 20*time.Second, most)
	protect(false)
	testkit.Eventually(t, 20*time.Second, w.refreshed("web", "Successful"))

	first = instanceIDs(w.await("web", serving(4)))[0]
	protect(true)
	half.AutoRollback = nil
	w.refresh("web", nil, half)
	testkit.Eventually(t, 20*time.Second, most)
	w.clock.Step(61 * time.Minute)
	testkit.Eventually(t, 20*time.Second, w.refreshed("web", "Failed"))

	protect(false)
	testkit.Must(w.EnterStandby(ctx, &awsautoscaling.EnterStandbyInput{AutoScalingGroupName: name, InstanceIds: []string{first}, ShouldDecrementDesiredCapacity: aws.Bool(true)}))(t)
	w.clock.Step(time.Second)
	half.StandbyInstances = autoscalingtypes.StandbyInstancesTerminate
	w.refresh("web", nil, half)
	testkit.Eventually(t, 20*time.Second, w.refreshed("web", "Successful"))
	if g := w.await("web", serving(3)); slices.Contains(instanceIDs(g), first) {
		t.Errorf("%s in standby was not terminated", first)
	}
}

// A refresh that cannot go on rolls itself back if it was asked to.
func TestRefreshRollsItselfBack(t *testing.T) {
	w := newWorld(t)
	g, two := w.numbered("web")
	w.faults.set(nil, func(in *awsec2.RunInstancesInput) error {
		if !aws.ToBool(in.DryRun) && *in.LaunchTemplate.Version == "2" {
			return capacity("t3.medium")
		}
		return nil
	})
	w.refresh("web", two, autoscalingtypes.RefreshPreferences{MinHealthyPercentage: aws.Int32(75), AutoRollback: aws.Bool(true)})
	w.await("web", serving(3))
	w.clock.Step(61 * time.Minute)
	w.later(time.Minute, w.refreshed("web", "RollbackSuccessful"))
	now := instanceIDs(w.await("web", serving(4)))
	kept := slices.DeleteFunc(instanceIDs(g), func(id string) bool { return !slices.Contains(now, id) })
	if v := w.versions("web"); v["1"] != 4 || len(kept) != 3 {
		t.Errorf("%v, %d kept", v, len(kept))
	}
}
