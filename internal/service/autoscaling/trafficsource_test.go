package autoscaling_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// balancers are load balancers. Every identifier exists, except nobody.
type balancers struct {
	mu         sync.Mutex
	registered map[string][]string
	sick       map[string]bool // instances
}

func (b *balancers) SourceExists(_, _, id string) bool { return !strings.HasSuffix(id, "nobody") }

func (b *balancers) RegisterInstances(_ context.Context, id string, instances []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.registered == nil {
		b.registered = map[string][]string{}
	}
	b.registered[id] = append(b.registered[id], instances...)
	return nil
}

func (b *balancers) DeregisterInstances(_ context.Context, id string, instances []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.registered[id] = slices.DeleteFunc(b.registered[id], func(i string) bool { return slices.Contains(instances, i) })
	return nil
}

// balancerPatience is after how long a failing instance is unhealthy.
const balancerPatience = 30 * time.Second

func (b *balancers) InstanceHealth(_ context.Context, _ string, instances []string) (passing, failing []string, after time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range instances {
		if b.sick[i] {
			failing = append(failing, i)
		} else {
			passing = append(passing, i)
		}
	}
	return passing, failing, balancerPatience, nil
}

func (b *balancers) sicken(instance string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sick = map[string]bool{instance: true}
}

// has waits until exactly n instances are registered.
func (b *balancers) has(t testing.TB, id string, n int) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.registered[id]) != n {
			return fmt.Errorf("%s has %v, want %d", id, b.registered[id], n)
		}
		return nil
	})
}

func (b *balancers) hasInstance(id, instance string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.registered[id], instance)
}

const targetGroup = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/web/0123456789abcdef"

// Classic load balancers and target groups are traffic sources, whichever call attaches them.
func TestTrafficSources(t *testing.T) {
	w := newWorld(t)
	ctx, name := t.Context(), aws.String("web")
	in := w.input("web", 0, 5, 2)
	in.LaunchTemplate, in.LoadBalancerNames = w.template("lt-web"), []string{"nobody"}
	_, err := w.CreateAutoScalingGroup(ctx, in)
	testkit.WantError(t, err, "ValidationError", "Provided Load Balancers may not be valid. Please ensure they exist and try again.")
	in.LoadBalancerNames = []string{"classic"}
	testkit.Must(w.CreateAutoScalingGroup(ctx, in))(t)
	w.balancers.has(t, "classic", 2)
	_, err = w.AttachLoadBalancers(ctx, &awsautoscaling.AttachLoadBalancersInput{AutoScalingGroupName: name, LoadBalancerNames: slices.Repeat([]string{"classic"}, 11)})
	testkit.WantErrorWith(t, err, "ValidationError", "classic]' at 'loadBalancerNames' failed to satisfy constraint: Member must have length less than or equal to 10")

	attach := func(sources ...autoscalingtypes.TrafficSourceIdentifier) error {
		_, err := w.AttachTrafficSources(ctx, &awsautoscaling.AttachTrafficSourcesInput{AutoScalingGroupName: name, TrafficSources: sources})
		return err
	}
	source := func(id string) autoscalingtypes.TrafficSourceIdentifier {
		return autoscalingtypes.TrafficSourceIdentifier{Identifier: &id}
	}
	testkit.WantError(t, attach(source(targetGroup+"nobody")), "ValidationError", "Provided Target Groups may not be valid. Please ensure they exist and try again.")
	if err := attach(source(targetGroup), source("second"), source("second")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"classic", "second", targetGroup} {
		w.balancers.has(t, id, 2)
	}
	g, _ := w.describe("web")
	if !slices.Equal(g.LoadBalancerNames, []string{"classic", "second"}) || !slices.Equal(g.TargetGroupARNs, []string{targetGroup}) || len(g.TrafficSources) != 3 {
		t.Errorf("%v %v %v", g.LoadBalancerNames, g.TargetGroupARNs, g.TrafficSources)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		var got []string
		for _, s := range testkit.Must(w.DescribeTrafficSources(ctx, &awsautoscaling.DescribeTrafficSourcesInput{AutoScalingGroupName: name}))(t).TrafficSources {
			got = append(got, *s.Type+" "+*s.State)
		}
		if want := []string{"elbv2 Added", "elb Added", "elb Added"}; !slices.Equal(got, want) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	})
	only := testkit.Must(w.DescribeTrafficSources(ctx, &awsautoscaling.DescribeTrafficSourcesInput{AutoScalingGroupName: name, TrafficSourceType: aws.String("elbv2")}))(t).TrafficSources
	if len(only) != 1 || *only[0].Identifier != targetGroup {
		t.Errorf("%+v", only)
	}

	_, err = w.DetachLoadBalancers(ctx, &awsautoscaling.DetachLoadBalancersInput{AutoScalingGroupName: name, LoadBalancerNames: []string{"third"}})
	testkit.WantError(t, err, "ValidationError", "Trying to remove Load Balancers that are not part of the group")
	_, err = w.DetachLoadBalancerTargetGroups(ctx, &awsautoscaling.DetachLoadBalancerTargetGroupsInput{AutoScalingGroupName: name, TargetGroupARNs: []string{targetGroup + "0"}})
	testkit.WantError(t, err, "ValidationError", "Trying to remove Target Groups that are not part of the group")
	testkit.Must(w.DetachLoadBalancers(ctx, &awsautoscaling.DetachLoadBalancersInput{AutoScalingGroupName: name, LoadBalancerNames: []string{"classic"}}))(t)
	testkit.Must(w.DetachTrafficSources(ctx, &awsautoscaling.DetachTrafficSourcesInput{AutoScalingGroupName: name, TrafficSources: []autoscalingtypes.TrafficSourceIdentifier{source(targetGroup)}}))(t)
	w.balancers.has(t, "classic", 0)
	w.balancers.has(t, targetGroup, 0)
	if left := testkit.Must(w.DescribeLoadBalancers(ctx, &awsautoscaling.DescribeLoadBalancersInput{AutoScalingGroupName: name}))(t).LoadBalancers; len(left) != 1 || *left[0].LoadBalancerName != "second" {
		t.Errorf("%+v", left)
	}

	// While adding instances is suspended, none are registered. Those that terminate are still
	// deregistered.
	testkit.Must(w.SuspendProcesses(ctx, &awsautoscaling.SuspendProcessesInput{AutoScalingGroupName: name, ScalingProcesses: []string{"AddToLoadBalancer"}}))(t)
	testkit.Must(w.SetDesiredCapacity(ctx, &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: name, DesiredCapacity: aws.Int32(3)}))(t)
	w.await("web", serving(3))
	w.balancers.has(t, "second", 2)
	g, _ = w.describe("web")
	late := slices.DeleteFunc(instanceIDs(g), func(i string) bool { return w.balancers.hasInstance("second", i) })
	testkit.Must(w.ResumeProcesses(ctx, &awsautoscaling.ResumeProcessesInput{AutoScalingGroupName: name, ScalingProcesses: []string{"AddToLoadBalancer"}}))(t)
	// Instances that came in the meantime are not registered now, but later ones are.
	testkit.Must(w.SetDesiredCapacity(ctx, &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: name, DesiredCapacity: aws.Int32(4)}))(t)
	w.await("web", serving(4))
	w.balancers.has(t, "second", 3)
	g, _ = w.describe("web")
	for _, i := range instanceIDs(g) {
		if added := w.balancers.hasInstance("second", i); added == slices.Contains(late, i) {
			t.Errorf("%s is registered: %t; %v came while none was to be", i, added, late)
		}
	}
	// The load balancer has its instances a moment before the group records it.
	testkit.Eventually(t, 20*time.Second, func() error {
		if s := testkit.Must(w.DescribeLoadBalancers(ctx, &awsautoscaling.DescribeLoadBalancersInput{AutoScalingGroupName: name}))(t).LoadBalancers; *s[0].State != "Added" {
			return fmt.Errorf("the load balancer is %s", *s[0].State)
		}
		return nil
	})
	// Attaching it again registers all instances.
	testkit.Must(w.DetachLoadBalancers(ctx, &awsautoscaling.DetachLoadBalancersInput{AutoScalingGroupName: name, LoadBalancerNames: []string{"second"}}))(t)
	w.balancers.has(t, "second", 0)
	testkit.Must(w.AttachLoadBalancers(ctx, &awsautoscaling.AttachLoadBalancersInput{AutoScalingGroupName: name, LoadBalancerNames: []string{"second"}}))(t)
	w.balancers.has(t, "second", 4)
	testkit.Must(w.DeleteAutoScalingGroup(ctx, &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: name, ForceDelete: aws.Bool(true)}))(t)
	w.balancers.has(t, "second", 0)
}

// An instance that a load balancer finds unhealthy is replaced after its grace period if the group
// uses those health checks.
func TestLoadBalancersHealthChecks(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	minds := func(kind string) func(*awsautoscaling.CreateAutoScalingGroupInput) {
		return func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.HealthCheckType, in.HealthCheckGracePeriod, in.LoadBalancerNames = &kind, aws.Int32(60), []string{"lb-" + *in.AutoScalingGroupName}
		}
	}
	blind, seeing := w.group("blind", 1, minds("EC2")), w.group("seeing", 2, minds("ELB"))
	w.balancers.has(t, "lb-blind", 1)
	w.balancers.has(t, "lb-seeing", 2)
	state := func(group string) string {
		return *testkit.Must(w.DescribeLoadBalancers(ctx, &awsautoscaling.DescribeLoadBalancersInput{AutoScalingGroupName: &group}))(t).LoadBalancers[0].State
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if a, b := state("blind"), state("seeing"); a != "Added" || b != "InService" {
			return fmt.Errorf("%s, %s", a, b)
		}
		return nil
	})
	sick := *seeing.Instances[0].InstanceId
	w.balancers.sicken(sick)
	began := w.clock.Now()
	w.later(5*time.Second, func() error {
		g, _ := w.describe("seeing")
		if slices.Contains(instanceIDs(g), sick) {
			return fmt.Errorf("%s is still there", sick)
		}
		return serving(2)(g)
	})
	if took := w.clock.Since(began); took < time.Minute+balancerPatience {
		t.Errorf("replaced after %s, within the grace period or before it is unhealthy", took)
	}
	w.balancers.has(t, "lb-seeing", 2)
	i := slices.IndexFunc(w.activities("seeing"), func(a autoscalingtypes.Activity) bool { return *a.Description == "Terminating EC2 instance: "+sick })
	wantCause(t, w.activities("seeing")[i], `At … an instance was taken out of service in response to an ELB system health check failure\.`)
	w.balancers.sicken(*blind.Instances[0].InstanceId)
	w.clock.Step(time.Minute)
	if g, _ := w.describe("blind"); *g.Instances[0].HealthStatus != "Healthy" {
		t.Errorf("%+v", g.Instances)
	}
}
