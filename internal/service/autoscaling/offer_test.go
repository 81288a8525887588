package autoscaling_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// mixed gives a group's request a mixed instances policy with overrides.
func (w *world) mixed(overrides ...autoscalingtypes.LaunchTemplateOverrides) func(*awsautoscaling.CreateAutoScalingGroupInput) {
	return func(in *awsautoscaling.CreateAutoScalingGroupInput) {
		in.MixedInstancesPolicy = &autoscalingtypes.MixedInstancesPolicy{LaunchTemplate: &autoscalingtypes.LaunchTemplate{
			LaunchTemplateSpecification: in.LaunchTemplate, Overrides: overrides,
		}}
		in.LaunchTemplate = nil
	}
}

func weighted(kind, weight string) autoscalingtypes.LaunchTemplateOverrides {
	return autoscalingtypes.LaunchTemplateOverrides{InstanceType: &kind, WeightedCapacity: &weight}
}

// make creates a group, without waiting for its instances.
func (w *world) make(name string, desired int32, edit ...func(*awsautoscaling.CreateAutoScalingGroupInput)) error {
	in := w.input(name, 0, 100, desired)
	in.LaunchTemplate = w.template("lt-" + name)
	for _, e := range edit {
		e(in)
	}
	_, err := w.CreateAutoScalingGroup(w.Context(), in)
	return err
}

// A group with weights counts capacity in units. It may have more than it wants, but never less.
func TestWeightedCapacity(t *testing.T) {
	w := newWorld(t)
	if err := w.make("web", 6, w.mixed(weighted("m5.large", "2"), weighted("m5.xlarge", "4"))); err != nil {
		t.Fatal(err)
	}
	g := w.await("web", serving(3))
	for _, i := range g.Instances {
		if *i.InstanceType != "m5.large" || aws.ToString(i.WeightedCapacity) != "2" {
			t.Errorf("instance %s of weight %s", *i.InstanceType, aws.ToString(i.WeightedCapacity))
		}
	}
	wantCause(t, w.activities("web")[0], `At … a user request created an AutoScalingGroup changing the desired capacity from 0 to 6\.  At … an instance was started in response to a difference between desired and actual capacity, increasing the capacity from 0 to 6\.`)

	w.desire("web", 7) // 8 units: one more than desired
	w.await("web", serving(4))
	for range 5 {
		w.clock.Step(time.Minute)
		w.await("web", serving(4))
	}
	w.clock.Step(time.Second)
	w.desire("web", 5) // without another instance there would be 4
	w.await("web", serving(3))
	wantCause(t, w.activities("web")[0], `At … a user request explicitly set group desired capacity changing the desired capacity from 7 to 5\.  At … an instance was taken out of service in response to a difference between desired and actual capacity, shrinking the capacity from 8 to 6\.  At … instance i-\w+ was selected for termination\.`)

	// A missing type makes the group launch fewer, heavier instances.
	w.faults.set(nil, func(in *awsec2.RunInstancesInput) error {
		if in.InstanceType == "m5.large" {
			return capacity("m5.large")
		}
		return nil
	})
	w.desire("web", 10)
	w.await("web", serving(4))
	w.faults.set(nil, nil)
	id := *g.Instances[0].InstanceId
	for _, i := range w.await("web", serving(4)).Instances {
		if *i.InstanceType == "m5.xlarge" {
			id = *i.InstanceId
		}
	}
	w.clock.Step(time.Second)
	testkit.Must(w.TerminateInstanceInAutoScalingGroup(t.Context(), &awsautoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: aws.Bool(true)}))(t)
	w.await("web", serving(3))
	if g, _ := w.describe("web"); *g.DesiredCapacity != 6 {
		t.Errorf("%d desired after 4 of 10 units left", *g.DesiredCapacity)
	}
}

// An override can have its own launch template, and instance requirements instead of a type.
func TestOverrides(t *testing.T) {
	w := newWorld(t)
	own := w.template("own")
	if err := w.make("arm", 2, w.mixed(autoscalingtypes.LaunchTemplateOverrides{InstanceType: aws.String("m5.large"), LaunchTemplateSpecification: own})); err != nil {
		t.Fatal(err)
	}
	for _, i := range w.await("arm", serving(2)).Instances {
		if *i.LaunchTemplate.LaunchTemplateId != *own.LaunchTemplateId || *i.LaunchTemplate.Version != "1" {
			t.Errorf("launched from %+v", i.LaunchTemplate)
		}
	}

	requirements := &autoscalingtypes.InstanceRequirements{
		VCpuCount: &autoscalingtypes.VCpuCountRequest{Min: aws.Int32(4), Max: aws.Int32(4)}, MemoryMiB: &autoscalingtypes.MemoryMiBRequest{Min: aws.Int32(16384), Max: aws.Int32(16384)},
		InstanceGenerations: []autoscalingtypes.InstanceGeneration{"current"},
	}
	if err := w.make("abs", 8, w.mixed(autoscalingtypes.LaunchTemplateOverrides{InstanceRequirements: requirements}), func(in *awsautoscaling.CreateAutoScalingGroupInput) {
		in.DesiredCapacityType = aws.String("vcpu")
	}); err != nil {
		t.Fatal(err)
	}
	g := w.await("abs", serving(2))
	if aws.ToString(g.DesiredCapacityType) != "vcpu" || *g.MixedInstancesPolicy.InstancesDistribution.OnDemandAllocationStrategy != "lowest-price" ||
		*g.MixedInstancesPolicy.LaunchTemplate.Overrides[0].InstanceRequirements.VCpuCount.Min != 4 {
		t.Errorf("%+v", g.MixedInstancesPolicy)
	}
	for _, i := range g.Instances {
		if aws.ToString(i.WeightedCapacity) != "4" {
			t.Errorf("%s weighs %s", *i.InstanceType, aws.ToString(i.WeightedCapacity))
		}
	}

	none := *requirements
	none.CpuManufacturers = []autoscalingtypes.CpuManufacturer{"amazon-web-services"} // the image is for Intel and AMD
	if err := w.make("none", 1, w.mixed(autoscalingtypes.LaunchTemplateOverrides{InstanceRequirements: &none})); err != nil {
		t.Fatal(err)
	}
	w.later(time.Second, func() error {
		if all := w.activities("none"); len(all) == 0 || all[0].StatusCode != autoscalingtypes.ScalingActivityStatusCodeFailed || !strings.Contains(aws.ToString(all[0].StatusMessage), "No instance types match") {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})
}

// An instance that has reached the group's maximum lifetime is replaced.
func TestMaxInstanceLifetime(t *testing.T) {
	w := newWorld(t)
	g := w.group("web", 1, func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.MaxInstanceLifetime = aws.Int32(86400) })
	if *g.MaxInstanceLifetime != 86400 {
		t.Errorf("%+v", g)
	}
	w.clock.Step(86300 * time.Second)
	w.await("web", serving(1))
	w.clock.Step(200 * time.Second)
	w.later(time.Second, func() error {
		now, _ := w.describe("web")
		if err := serving(1)(now); err != nil {
			return err
		}
		if *now.Instances[0].InstanceId == *g.Instances[0].InstanceId {
			return fmt.Errorf("still the first instance")
		}
		return nil
	})
	for _, a := range w.activities("web") {
		if strings.HasPrefix(*a.Description, "Terminating") {
			wantCause(t, a, `At … an instance was taken out of service in response to the maximum instance lifetime of the group\.  At … instance i-\w+ was selected for termination\.`)
		}
	}
	testkit.Must(w.UpdateAutoScalingGroup(t.Context(), &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), MaxInstanceLifetime: aws.Int32(0)}))(t)
	if g, _ := w.describe("web"); g.MaxInstanceLifetime != nil {
		t.Errorf("lifetime %d after it was cleared", *g.MaxInstanceLifetime)
	}
}

// With a maintenance policy of 100 %, the replacement of an unhealthy instance is in service before it
// is terminated.
func TestLaunchBeforeTerminating(t *testing.T) {
	w := newWorld(t)
	g := w.group("web", 2, func(in *awsautoscaling.CreateAutoScalingGroupInput) {
		in.InstanceMaintenancePolicy = &autoscalingtypes.InstanceMaintenancePolicy{MinHealthyPercentage: aws.Int32(100), MaxHealthyPercentage: aws.Int32(150)}
	})
	w.hook("web", "start", launching, "ABANDON", 60)
	sick := *g.Instances[0].InstanceId
	w.clock.Step(time.Second)
	testkit.Must(w.SetInstanceHealth(t.Context(), &awsautoscaling.SetInstanceHealthInput{InstanceId: &sick, HealthStatus: aws.String("Unhealthy")}))(t)
	g = w.await("web", counts(map[autoscalingtypes.LifecycleState]int{"InService": 2, "Pending:Wait": 1}))
	for _, i := range g.Instances {
		if i.LifecycleState == "Pending:Wait" {
			if err := w.complete("web", "start", *i.InstanceId, "CONTINUE"); err != nil {
				t.Fatal(err)
			}
		}
	}
	g = w.await("web", serving(2))
	for _, i := range g.Instances {
		if *i.InstanceId == sick {
			t.Error("the unhealthy instance is still there")
		}
	}
	for _, a := range w.activities("web") {
		if strings.HasPrefix(*a.Description, "Terminating") {
			wantCause(t, a, `At … an instance was taken out of service in response to a user health-check\.  At … instance i-\w+ was selected for termination\.`)
		}
	}
}

// A group that stays balanced at any price launches nothing elsewhere when a zone has no capacity.
func TestBalancedOnly(t *testing.T) {
	w := newWorld(t)
	w.faults.set(nil, func(in *awsec2.RunInstancesInput) error {
		if !aws.ToBool(in.DryRun) && aws.ToString(in.SubnetId) == *w.subnets[0].SubnetId {
			return capacity("t3.small")
		}
		return nil
	})
	if err := w.make("web", 2, func(in *awsautoscaling.CreateAutoScalingGroupInput) {
		in.AvailabilityZoneDistribution = &autoscalingtypes.AvailabilityZoneDistribution{CapacityDistributionStrategy: autoscalingtypes.CapacityDistributionStrategyBalancedOnly}
	}); err != nil {
		t.Fatal(err)
	}
	w.await("web", serving(1))
	w.await("web", func(autoscalingtypes.AutoScalingGroup) error {
		for _, a := range w.activities("web") {
			if a.StatusCode == "Failed" {
				return nil
			}
		}
		return fmt.Errorf("no failed activity")
	})
	w.await("web", serving(1))
	w.faults.set(nil, nil)
	w.later(time.Second, func() error { g, _ := w.describe("web"); return serving(2)(g) })
}

func TestSettingsOfReplacementsAreChecked(t *testing.T) {
	w := newWorld(t)
	type request = awsautoscaling.CreateAutoScalingGroupInput
	for _, tt := range []struct {
		name string
		edit func(*request)
		want string
	}{
		{"a lifetime of an hour", func(in *request) { in.MaxInstanceLifetime = aws.Int32(3600) }, "MaxInstanceLifetime must be equal to 0 or between 86400 and 31536000 seconds."},
		{"half a policy", func(in *request) {
			in.InstanceMaintenancePolicy = &autoscalingtypes.InstanceMaintenancePolicy{MinHealthyPercentage: aws.Int32(90)}
		}, "InstanceMaintenancePolicy must have both MinHealthyPercentage and MaxHealthyPercentage. To clear it, set both to -1."},
		{"a wide policy", func(in *request) {
			in.InstanceMaintenancePolicy = &autoscalingtypes.InstanceMaintenancePolicy{MinHealthyPercentage: aws.Int32(50), MaxHealthyPercentage: aws.Int32(151)}
		}, "MinHealthyPercentage must be between 0 and 100, MaxHealthyPercentage between 100 and 200, and they may differ by 100 at most."},
		{"some weights", w.mixed(weighted("m5.large", "2"), autoscalingtypes.LaunchTemplateOverrides{InstanceType: aws.String("m5.xlarge")}),
			"If you specify WeightedCapacity for one instance type, you must specify it for all of them."},
		{"a great weight", w.mixed(weighted("m5.large", "1000")), "Invalid WeightedCapacity: 1000. It must be a whole number between 1 and 999."},
		{"vCPUs of types", func(in *request) { in.DesiredCapacityType = aws.String("vcpu") }, "DesiredCapacityType vcpu is only supported for attribute-based instance type selection."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.WantError(t, w.make("g-"+strings.ReplaceAll(tt.name, " ", "-"), 0, tt.edit), "ValidationError", tt.want)
		})
	}
}
