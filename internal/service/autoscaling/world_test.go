package autoscaling_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is Auto Scaling behind an AWS API server, on a real EC2 whose calls can be made to fail.
// Auto Scaling's clock stands still until a test moves it.
type world struct {
	testing.TB
	*awsautoscaling.Client
	ec2     *awsec2.Client
	server  *testkit.Server
	account string
	clock   *clocktesting.FakeClock
	faults  *faultyEC2
	// balancers are the existing load balancers.
	balancers *balancers
	subnets   []ec2types.Subnet // default subnets, by zone
	image     string
	stop      func()
	svc       *autoscaling.Service
	// held and heldUntil are what a daemon says of a twin.
	held      atomic.Bool
	heldUntil atomic.Pointer[time.Time]
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, clock: clocktesting.NewFakeClock(time.Now()), faults: &faultyEC2{}, balancers: &balancers{}}
	w.heldUntil.Store(&time.Time{})
	var svc *autoscaling.Service
	w.server = testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		w.faults.Service = ec2.New(ec2.Config{Store: st, Timing: timing.Fast(), Log: testkit.Log(t)})
		svc = w.newService(st)
		return []awsapi.Service{svc.AWS(), w.faults.AWS()}
	}})
	w.account = w.server.Account(t)
	w.Client = awsautoscaling.NewFromConfig(w.server.AWSConfig(w.account))
	w.ec2 = awsec2.NewFromConfig(w.server.AWSConfig(w.account))
	img, ok := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "")
	if !ok {
		t.Fatal("no image")
	}
	w.image = img.ID
	w.subnets = testkit.Must(w.ec2.DescribeSubnets(t.Context(), &awsec2.DescribeSubnetsInput{}))(t).Subnets
	slices.SortFunc(w.subnets, func(a, b ec2types.Subnet) int { return strings.Compare(*a.AvailabilityZone, *b.AvailabilityZone) })
	testkit.Run(t, w.faults.Run)
	w.stop, w.svc = testkit.Run(t, svc.Run), svc
	return w
}

func (w *world) newService(st *store.Store) *autoscaling.Service {
	return autoscaling.New(autoscaling.Config{
		Store: st, EC2: w.faults, Instances: w.faults, Clock: w.clock, Log: testkit.Log(w),
		Sources: map[string]autoscaling.Sources{"elb": w.balancers, "elbv2": w.balancers},
		Held:    func(string) bool { return w.held.Load() }, HeldUntil: func(string) time.Time { return *w.heldUntil.Load() },
	})
}

// restart stops the reconciler and restarts it from the stored state, as after a kill.
func (w *world) restart() {
	w.stop()
	w.stop = testkit.Run(w, w.newService(w.server.Store).Run)
}

// faultyEC2 makes calls fail: before or after taking effect, or with EC2's own errors.
type faultyEC2 struct {
	*ec2.Service
	mu sync.Mutex
	// strike is called before and after each call.
	strike func(call string, after bool) error
	// refuse is EC2's error for launches.
	refuse func(*awsec2.RunInstancesInput) error
	ran    int
}

func (f *faultyEC2) ask(call string, after bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.strike == nil {
		return nil
	}
	return f.strike(call, after)
}

func (f *faultyEC2) set(strike func(string, bool) error, refuse func(*awsec2.RunInstancesInput) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.strike, f.refuse = strike, refuse
}

func (f *faultyEC2) RunInstances(ctx context.Context, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesOutput, error) {
	if awsapi.CallFrom(ctx).Principal.Type != awsapi.AWSService {
		return f.Service.RunInstances(ctx, in)
	}
	if err := f.ask("RunInstances", false); err != nil {
		return nil, err
	}
	f.mu.Lock()
	refuse := f.refuse
	f.ran++
	f.mu.Unlock()
	if refuse != nil {
		if err := refuse(in); err != nil {
			return nil, err
		}
	}
	out, err := f.Service.RunInstances(ctx, in)
	if after := f.ask("RunInstances", true); after != nil {
		return nil, after
	}
	return out, err
}

func (f *faultyEC2) TerminateInstances(ctx context.Context, in *awsec2.TerminateInstancesInput) (*awsec2.TerminateInstancesOutput, error) {
	if err := f.ask("TerminateInstances", false); err != nil {
		return nil, err
	}
	out, err := f.Service.TerminateInstances(ctx, in)
	if after := f.ask("TerminateInstances", true); after != nil {
		return nil, after
	}
	return out, err
}

func (f *faultyEC2) StartInstances(ctx context.Context, in *awsec2.StartInstancesInput) (*awsec2.StartInstancesOutput, error) {
	if err := f.ask("StartInstances", false); err != nil {
		return nil, err
	}
	out, err := f.Service.StartInstances(ctx, in)
	if after := f.ask("StartInstances", true); after != nil {
		return nil, after
	}
	return out, err
}

func (f *faultyEC2) StopInstances(ctx context.Context, in *awsec2.StopInstancesInput) (*awsec2.StopInstancesOutput, error) {
	if err := f.ask("StopInstances", false); err != nil {
		return nil, err
	}
	out, err := f.Service.StopInstances(ctx, in)
	if after := f.ask("StopInstances", true); after != nil {
		return nil, after
	}
	return out, err
}

func capacity(what string) error {
	return awserr.New("InsufficientInstanceCapacity", "We currently do not have sufficient "+what+" capacity.")
}

// template creates a launch template.
func (w *world) template(name string) *autoscalingtypes.LaunchTemplateSpecification {
	w.Helper()
	lt := testkit.Must(w.ec2.CreateLaunchTemplate(w.Context(), &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: &w.image, InstanceType: "t3.small"},
	}))(w).LaunchTemplate
	return &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: lt.LaunchTemplateId, Version: aws.String("$Latest")}
}

// input returns a request for a group in the first two zones.
func (w *world) input(name string, minimum, maximum, desired int32) *awsautoscaling.CreateAutoScalingGroupInput {
	return &awsautoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &name, MinSize: &minimum, MaxSize: &maximum, DesiredCapacity: &desired,
		VPCZoneIdentifier: aws.String(*w.subnets[0].SubnetId + "," + *w.subnets[1].SubnetId),
	}
}

// group creates a group with a launch template and waits for its instances.
func (w *world) group(name string, desired int32, edit ...func(*awsautoscaling.CreateAutoScalingGroupInput)) autoscalingtypes.AutoScalingGroup {
	w.Helper()
	in := w.input(name, 0, 10, desired)
	in.LaunchTemplate = w.template("lt-" + name)
	for _, e := range edit {
		e(in)
	}
	testkit.Must(w.CreateAutoScalingGroup(w.Context(), in))(w)
	return w.await(name, serving(int(desired)))
}

func (w *world) describe(name string) (autoscalingtypes.AutoScalingGroup, bool) {
	w.Helper()
	out := testkit.Must(w.DescribeAutoScalingGroups(w.Context(), &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}}))(w)
	if len(out.AutoScalingGroups) == 0 {
		return autoscalingtypes.AutoScalingGroup{}, false
	}
	return out.AutoScalingGroups[0], true
}

// await waits until a group meets a condition.
func (w *world) await(name string, good func(autoscalingtypes.AutoScalingGroup) error) autoscalingtypes.AutoScalingGroup {
	w.Helper()
	var g autoscalingtypes.AutoScalingGroup
	testkit.Eventually(w, 20*time.Second, func() error {
		g, _ = w.describe(name)
		return good(g)
	})
	return g
}

// serving requires exactly n instances, all in service.
func serving(n int) func(autoscalingtypes.AutoScalingGroup) error {
	return states(n, autoscalingtypes.LifecycleStateInService)
}

// states requires exactly n instances, all in one state.
func states(n int, state autoscalingtypes.LifecycleState) func(autoscalingtypes.AutoScalingGroup) error {
	return func(g autoscalingtypes.AutoScalingGroup) error {
		var is []string
		bad := len(g.Instances) != n
		for _, i := range g.Instances {
			is = append(is, *i.InstanceId+" "+string(i.LifecycleState)+" "+*i.HealthStatus)
			bad = bad || i.LifecycleState != state
		}
		if bad {
			return fmt.Errorf("want %d %s, have %d: %v", n, state, len(is), is[:min(len(is), 12)])
		}
		return nil
	}
}

// counts requires a number of instances in each state.
func counts(want map[autoscalingtypes.LifecycleState]int) func(autoscalingtypes.AutoScalingGroup) error {
	return func(g autoscalingtypes.AutoScalingGroup) error {
		have := map[autoscalingtypes.LifecycleState]int{}
		for _, i := range g.Instances {
			have[i.LifecycleState]++
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			return fmt.Errorf("have %v, want %v", have, want)
		}
		return nil
	}
}

func instanceIDs(g autoscalingtypes.AutoScalingGroup) []string {
	var out []string
	for _, i := range g.Instances {
		out = append(out, *i.InstanceId)
	}
	return out
}

func (w *world) activities(name string) []autoscalingtypes.Activity {
	w.Helper()
	return testkit.Must(w.DescribeScalingActivities(w.Context(), &awsautoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &name, IncludeDeletedGroups: aws.Bool(true)}))(w).Activities
}

// alive returns the instances in EC2 with a group's tag that are pending or running.
func (w *world) alive(group string) []ec2types.Instance {
	w.Helper()
	out := testkit.Must(w.ec2.DescribeInstances(w.Context(), &awsec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag:aws:autoscaling:groupName"), Values: []string{group}},
		{Name: aws.String("instance-state-name"), Values: []string{"pending", "running"}},
	}}))(w)
	var all []ec2types.Instance
	for _, r := range out.Reservations {
		all = append(all, r.Instances...)
	}
	return all
}

// later advances the clock in steps until a condition holds.
func (w *world) later(step time.Duration, good func() error) {
	w.Helper()
	testkit.Eventually(w, 20*time.Second, func() error {
		err := good()
		if err != nil {
			w.clock.Step(step)
		}
		return err
	})
}
