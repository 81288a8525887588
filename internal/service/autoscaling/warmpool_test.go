package autoscaling_test

import (
	"fmt"
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

func (w *world) putPool(group string, edit ...func(*awsautoscaling.PutWarmPoolInput)) {
	w.Helper()
	in := &awsautoscaling.PutWarmPoolInput{AutoScalingGroupName: &group}
	for _, e := range edit {
		e(in)
	}
	testkit.Must(w.PutWarmPool(w.Context(), in))(w)
}

// pool waits until the instances of a group's warm pool are in the given states, and returns their IDs.
func (w *world) pool(group string, want inPool) (ids []string) {
	w.Helper()
	testkit.Eventually(w, 20*time.Second, func() error {
		now := w.pooled(group)
		ids = nil
		for _, i := range now {
			ids = append(ids, *i.InstanceId)
		}
		return want.are(now)
	})
	return ids
}

func (w *world) pooled(group string) (out []autoscalingtypes.Instance) {
	w.Helper()
	pages := awsautoscaling.NewDescribeWarmPoolPaginator(w.Client, &awsautoscaling.DescribeWarmPoolInput{AutoScalingGroupName: &group})
	for pages.HasMorePages() {
		out = append(out, testkit.Must(pages.NextPage(w.Context()))(w).Instances...)
	}
	return out
}

// inPool counts instances by their state.
type inPool map[autoscalingtypes.LifecycleState]int

// are returns an error unless the instances are in these states.
func (want inPool) are(all []autoscalingtypes.Instance) error {
	have := inPool{}
	for _, i := range all {
		have[i.LifecycleState]++
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		return fmt.Errorf("the pool has %v, want %v", have, want)
	}
	return nil
}

// state returns the state of an instance in EC2.
func (w *world) state(id string) string {
	w.Helper()
	return string(testkit.Must(w.ec2.DescribeInstances(w.Context(), &awsec2.DescribeInstancesInput{InstanceIds: []string{id}}))(w).Reservations[0].Instances[0].State.Name)
}

// described reports whether there is an activity with the given beginning about an instance.
func (w *world) described(group, begin, id string) bool {
	return slices.ContainsFunc(w.activities(group), func(a autoscalingtypes.Activity) bool {
		return strings.HasPrefix(*a.Description, begin+": "+id) && a.StatusCode == "Successful"
	})
}

// A stopped pool is filled to the group's maximum, and the group takes its instances before it launches others.
func TestWarmPool(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.group("web", 1, func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.MaxSize = aws.Int32(3) })
	w.putPool("web")
	ids := w.pool("web", inPool{"Warmed:Stopped": 2})
	for _, id := range ids {
		if got := w.state(id); got != "stopped" || !w.described("web", "Launching a new EC2 instance into warm pool", id) {
			t.Errorf("%s is %s", id, got)
		}
	}
	g, _ := w.describe("web")
	if len(g.Instances) != 1 || *g.WarmPoolSize != 2 || g.WarmPoolConfiguration.PoolState != "Stopped" {
		t.Errorf("%d instances, %v, %+v", len(g.Instances), g.WarmPoolSize, g.WarmPoolConfiguration)
	}
	if all := testkit.Must(w.DescribeAutoScalingInstances(ctx, &awsautoscaling.DescribeAutoScalingInstancesInput{InstanceIds: ids}))(t).AutoScalingInstances; len(all) != 2 || *all[0].LifecycleState != "Warmed:Stopped" {
		t.Errorf("%+v", all)
	}

	w.desire("web", 3)
	g = w.await("web", serving(3))
	for _, id := range ids {
		if !slices.Contains(instanceIDs(g), id) || w.state(id) != "running" || !w.described("web", "Launching a new EC2 instance from warm pool", id) {
			t.Errorf("%s has not left the pool", id)
		}
	}
	if all := w.activities("web"); !slices.ContainsFunc(all, func(a autoscalingtypes.Activity) bool {
		return strings.HasPrefix(*a.Description, "Launching a new EC2 instance from warm pool") && strings.Contains(*a.Cause, "increasing the capacity from 1 to 3")
	}) {
		t.Errorf("%d activities without the cause", len(all))
	}
	w.pool("web", inPool{})

	// The pool is filled again after scale-in, by new instances: there is no reuse policy.
	w.desire("web", 1)
	w.await("web", serving(1))
	again := w.pool("web", inPool{"Warmed:Stopped": 2})
	if slices.ContainsFunc(again, func(id string) bool { return slices.Contains(ids, id) }) {
		t.Errorf("%v is in the pool again", again)
	}

	// A terminated instance of the pool is replaced. A smaller pool loses instances.
	testkit.Must(w.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: again[:1]}))(t)
	testkit.Eventually(t, 20*time.Second, func() error {
		if now := w.pool("web", inPool{"Warmed:Stopped": 2}); slices.Contains(now, again[0]) {
			return fmt.Errorf("%s is still there", again[0])
		}
		return nil
	})
	w.putPool("web", func(in *awsautoscaling.PutWarmPoolInput) { in.MaxGroupPreparedCapacity = aws.Int32(2) })
	w.pool("web", inPool{"Warmed:Stopped": 1})
	w.putPool("web", func(in *awsautoscaling.PutWarmPoolInput) {
		in.MinSize, in.MaxGroupPreparedCapacity = aws.Int32(3), aws.Int32(-1)
	})
	w.pool("web", inPool{"Warmed:Stopped": 3})

	// The pool survives a restart of the daemon, and is terminated before it is gone.
	w.restart()
	w.pool("web", inPool{"Warmed:Stopped": 3})
	testkit.Must(w.DeleteWarmPool(ctx, &awsautoscaling.DeleteWarmPoolInput{AutoScalingGroupName: aws.String("web")}))(t)
	testkit.Eventually(t, 20*time.Second, func() error {
		if c := testkit.Must(w.DescribeWarmPool(ctx, &awsautoscaling.DescribeWarmPoolInput{AutoScalingGroupName: aws.String("web")}))(t).WarmPoolConfiguration; c != nil {
			return fmt.Errorf("the pool is still there: %+v", c)
		}
		return nil
	})
	w.pool("web", inPool{})
	w.await("web", serving(1))
	_, err := w.DeleteWarmPool(ctx, &awsautoscaling.DeleteWarmPoolInput{AutoScalingGroupName: aws.String("web")})
	testkit.WantError(t, err, "ValidationError", "")
}

// With a reuse policy, instances return to the pool on scale-in.
func TestWarmPoolReuse(t *testing.T) {
	w := newWorld(t)
	w.group("web", 2, func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.MaxSize = aws.Int32(2) })
	w.putPool("web", func(in *awsautoscaling.PutWarmPoolInput) {
		in.PoolState, in.InstanceReusePolicy = autoscalingtypes.WarmPoolStateRunning, &autoscalingtypes.InstanceReusePolicy{ReuseOnScaleIn: aws.Bool(true)}
	})
	before := instanceIDs(w.await("web", serving(2)))
	w.desire("web", 1)
	after := instanceIDs(w.await("web", serving(1)))
	pooled := w.pool("web", inPool{"Warmed:Running": 1})
	if !slices.Contains(before, pooled[0]) || slices.Contains(after, pooled[0]) || w.state(pooled[0]) != "running" || !w.described("web", "Returning EC2 instance to warm pool", pooled[0]) {
		t.Errorf("before %v, after %v, pooled %v", before, after, pooled)
	}
	w.desire("web", 2)
	if now := instanceIDs(w.await("web", serving(2))); !slices.Contains(now, pooled[0]) {
		t.Errorf("%v serve, not %s", now, pooled[0])
	}

	// An instance of the pool that somebody stops is replaced, because the pool's instances run.
	w.desire("web", 1)
	w.await("web", serving(1))
	pooled = w.pool("web", inPool{"Warmed:Running": 1})
	testkit.Must(w.ec2.StopInstances(t.Context(), &awsec2.StopInstancesInput{InstanceIds: pooled}))(t)
	testkit.Eventually(t, 20*time.Second, func() error {
		if now := w.pool("web", inPool{"Warmed:Running": 1}); now[0] == pooled[0] {
			return fmt.Errorf("%s is still there", now[0])
		}
		return nil
	})
	testkit.Must(w.DeleteAutoScalingGroup(t.Context(), &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), ForceDelete: aws.Bool(true)}))(t)
	testkit.Eventually(t, 20*time.Second, func() error {
		if _, there := w.describe("web"); there || len(w.alive("web")) > 0 {
			return fmt.Errorf("the group is still there, or %d instances", len(w.alive("web")))
		}
		return nil
	})
}

// Hooks run when an instance enters the pool and when it leaves it for the group.
func TestWarmPoolHooks(t *testing.T) {
	w := newWorld(t)
	w.group("web", 0, func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.MaxSize = aws.Int32(1) })
	w.hook("web", "start", launching, "ABANDON", 60)
	w.hook("web", "stop", terminating, "CONTINUE", 60)
	w.putPool("web")
	id := w.pool("web", inPool{"Warmed:Pending:Wait": 1})[0]
	if err := w.complete("web", "start", id, "CONTINUE"); err != nil {
		t.Fatal(err)
	}
	w.pool("web", inPool{"Warmed:Stopped": 1})
	w.desire("web", 1)
	w.await("web", states(1, "Pending:Wait"))
	if err := w.complete("web", "start", id, "CONTINUE"); err != nil {
		t.Fatal(err)
	}
	if g := w.await("web", serving(1)); *g.Instances[0].InstanceId != id {
		t.Errorf("%v serves", instanceIDs(g))
	}
	w.desire("web", 0)
	w.await("web", states(1, "Terminating:Wait"))
	second := w.pool("web", inPool{"Warmed:Pending:Wait": 1})[0]
	if err := w.complete("web", "stop", id, "CONTINUE"); err != nil {
		t.Fatal(err)
	}
	if err := w.complete("web", "start", second, "ABANDON"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if now := w.pool("web", inPool{"Warmed:Pending:Wait": 1}); now[0] == second {
			return fmt.Errorf("the abandoned instance is still there")
		}
		return nil
	})
}

func TestRefusedWarmPools(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.group("plain", 0)
	put := func(group string, edit func(*awsautoscaling.PutWarmPoolInput)) error {
		in := &awsautoscaling.PutWarmPoolInput{AutoScalingGroupName: &group}
		edit(in)
		_, err := w.PutWarmPool(ctx, in)
		return err
	}
	same := func(*awsautoscaling.PutWarmPoolInput) {}
	testkit.WantError(t, put("none", same), "ValidationError", "AutoScalingGroup name not found - AutoScalingGroup none not found")
	testkit.WantError(t, put("plain", func(in *awsautoscaling.PutWarmPoolInput) { in.PoolState = autoscalingtypes.WarmPoolStateHibernated }), "NotImplemented", "")
	in := w.input("spot", 0, 1, 0)
	lt := testkit.Must(w.ec2.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("spot"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: &w.image, InstanceType: "t3.small", InstanceMarketOptions: &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: "spot"},
		},
	}))(t).LaunchTemplate
	in.LaunchTemplate = &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: lt.LaunchTemplateId, Version: aws.String("$Latest")}
	testkit.Must(w.CreateAutoScalingGroup(ctx, in))(t)
	testkit.WantErrorWith(t, put("spot", same), "ValidationError", "requests Spot Instances")
	if out := testkit.Must(w.DescribeWarmPool(ctx, &awsautoscaling.DescribeWarmPoolInput{AutoScalingGroupName: aws.String("plain")}))(t); out.WarmPoolConfiguration != nil || len(out.Instances) != 0 {
		t.Errorf("%+v", out)
	}
}
