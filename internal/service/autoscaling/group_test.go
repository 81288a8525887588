package autoscaling_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/testkit"
)

const at = `At \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ `

func wantCause(t *testing.T, a autoscalingtypes.Activity, pattern string) {
	t.Helper()
	if !regexp.MustCompile("^" + strings.ReplaceAll(pattern, "At … ", at) + "$").MatchString(*a.Cause) {
		t.Errorf("cause of %q:\n%s\nwant\n%s", *a.Description, *a.Cause, pattern)
	}
}

func TestGroupLife(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	g := w.group("web", 2, func(in *awsautoscaling.CreateAutoScalingGroupInput) {
		in.Tags = []autoscalingtypes.Tag{
			{Key: aws.String("Name"), Value: aws.String("web"), PropagateAtLaunch: aws.Bool(true)},
			{Key: aws.String("team"), Value: aws.String("a"), PropagateAtLaunch: aws.Bool(false)},
		}
	})
	if !regexp.MustCompile(`^arn:aws:autoscaling:us-east-1:\d{12}:autoScalingGroup:[0-9a-f-]{36}:autoScalingGroupName/web$`).MatchString(*g.AutoScalingGroupARN) {
		t.Error(*g.AutoScalingGroupARN)
	}
	zones := []string{*g.Instances[0].AvailabilityZone, *g.Instances[1].AvailabilityZone}
	slices.Sort(zones)
	if diff := cmp.Diff([]string{"us-east-1a", "us-east-1b"}, zones); diff != "" {
		t.Error(diff)
	}
	if *g.Instances[0].LaunchTemplate.Version != "1" || *g.LaunchTemplate.Version != "$Latest" || *g.LaunchTemplate.LaunchTemplateName != "lt-web" {
		t.Errorf("templates: %+v, of the instance %+v", g.LaunchTemplate, g.Instances[0].LaunchTemplate)
	}
	for _, i := range w.alive("web") {
		tags := map[string]string{}
		for _, tag := range i.Tags {
			tags[*tag.Key] = *tag.Value
		}
		if tags["Name"] != "web" || tags["team"] != "" {
			t.Errorf("tags %v", tags)
		}
	}
	for _, a := range w.activities("web") {
		wantCause(t, a, `At … a user request created an AutoScalingGroup changing the desired capacity from 0 to 2\.  At … an instance was started in response to a difference between desired and actual capacity, increasing the capacity from 0 to 2\.`)
		if !strings.HasPrefix(*a.Description, "Launching a new EC2 instance: i-") || a.StatusCode != "Successful" || *a.Progress != 100 || a.EndTime == nil ||
			!strings.HasPrefix(*a.Details, `{"Subnet ID":"subnet-`) {
			t.Errorf("%+v", a)
		}
	}

	w.clock.Step(time.Second)
	testkit.Must(w.UpdateAutoScalingGroup(ctx, &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), MinSize: aws.Int32(1), DesiredCapacity: aws.Int32(3)}))(t)
	w.await("web", serving(3))
	wantCause(t, w.activities("web")[0], `At … a user request update of AutoScalingGroup constraints to min: 1, max: 10, desired: 3 changing the desired capacity from 2 to 3\.  At … an instance was started in response to a difference between desired and actual capacity, increasing the capacity from 2 to 3\.`)

	w.clock.Step(time.Second)
	testkit.Must(w.SetDesiredCapacity(ctx, &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("web"), DesiredCapacity: aws.Int32(1)}))(t)
	w.await("web", serving(1))
	if n := len(w.alive("web")); n != 1 {
		t.Errorf("%d instances live", n)
	}
	a := w.activities("web")[0]
	if !strings.HasPrefix(*a.Description, "Terminating EC2 instance: i-") {
		t.Error(*a.Description)
	}
	wantCause(t, a, `At … a user request explicitly set group desired capacity changing the desired capacity from 3 to 1\.  At … an instance was taken out of service in response to a difference between desired and actual capacity, shrinking the capacity from 3 to 1\.  At … instance i-\w+ was selected for termination\.  At … instance i-\w+ was selected for termination\.`)

	_, err := w.DeleteAutoScalingGroup(ctx, &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("web")})
	testkit.WantError(t, err, "ResourceInUse", "You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) still in the group.")
	testkit.Must(w.DeleteAutoScalingGroup(ctx, &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), ForceDelete: aws.Bool(true)}))(t)
	waiter := awsautoscaling.NewGroupNotExistsWaiter(w.Client)
	if err := waiter.Wait(ctx, &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"web"}}, 20*time.Second); err != nil {
		t.Error(err)
	}
	if n := len(w.alive("web")); n != 0 {
		t.Errorf("%d instances live", n)
	}
	_, err = w.DeleteAutoScalingGroup(ctx, &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("web")})
	testkit.WantError(t, err, "ValidationError", "AutoScalingGroup name not found - AutoScalingGroup web not found")
	if left := w.activities("web"); len(left) != 6 || aws.ToString(left[0].AutoScalingGroupState) != "Deleted" {
		t.Errorf("%d activities of the deleted group", len(left))
	}
}

// An instance that EC2 terminates or stops, or that the user makes unhealthy, is replaced.
func TestReplacement(t *testing.T) {
	ctx := t.Context()
	for _, tt := range []struct {
		name  string
		end   func(w *world, id string) error
		cause string
	}{
		{"terminated", func(w *world, id string) error {
			_, err := w.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{id}})
			return err
		}, "an EC2 health check indicating it has been terminated or stopped"},
		{"stopped", func(w *world, id string) error {
			_, err := w.ec2.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{id}})
			return err
		}, "an EC2 health check indicating it has been terminated or stopped"},
		{"called unhealthy", func(w *world, id string) error {
			_, err := w.SetInstanceHealth(ctx, &awsautoscaling.SetInstanceHealthInput{InstanceId: &id, HealthStatus: aws.String("Unhealthy")})
			return err
		}, "a user health-check"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			old := w.group("web", 2)
			victim := *old.Instances[0].InstanceId
			w.clock.Step(time.Second)
			if err := tt.end(w, victim); err != nil {
				t.Fatal(err)
			}
			w.await("web", func(g autoscalingtypes.AutoScalingGroup) error {
				if slices.Contains(instanceIDs(g), victim) {
					return errors.New("it is still there")
				}
				return serving(2)(g)
			})
			var launched, ended int
			for _, a := range w.activities("web")[:2] {
				if *a.Description == "Terminating EC2 instance: "+victim {
					ended++
					wantCause(t, a, "At … an instance was taken out of service in response to "+tt.cause+`\.`)
				} else {
					launched++
					wantCause(t, a, `At … an instance was launched in response to an unhealthy instance needing to be replaced\.`)
				}
			}
			if launched != 1 || ended != 1 {
				t.Errorf("%d launches, %d ends", launched, ended)
			}
		})
	}
}

func TestHealthWithinTheGracePeriod(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	id := w.group("web", 1).Instances[0].InstanceId
	testkit.Must(w.UpdateAutoScalingGroup(ctx, &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), HealthCheckGracePeriod: aws.Int32(36000)}))(t)
	_, err := w.SetInstanceHealth(ctx, &awsautoscaling.SetInstanceHealthInput{InstanceId: id, HealthStatus: aws.String("ill")})
	testkit.WantError(t, err, "ValidationError", "Valid instance health states are: [Healthy, Unhealthy].")
	_, err = w.SetInstanceHealth(ctx, &awsautoscaling.SetInstanceHealthInput{InstanceId: id, HealthStatus: aws.String("Unhealthy")})
	if err == nil || !strings.Contains(err.Error(), "ValidationError: The age of the instance (") || !strings.HasSuffix(err.Error(), " seconds) is less than the configured grace period of 36000 seconds") {
		t.Error(err)
	}
	testkit.Must(w.SetInstanceHealth(ctx, &awsautoscaling.SetInstanceHealthInput{InstanceId: id, HealthStatus: aws.String("Unhealthy"), ShouldRespectGracePeriod: aws.Bool(false)}))(t)
}

func TestSuspendedProcesses(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	g := w.group("web", 2)
	name := aws.String("web")
	suspend := func(p ...string) {
		t.Helper()
		testkit.Must(w.SuspendProcesses(ctx, &awsautoscaling.SuspendProcessesInput{AutoScalingGroupName: name, ScalingProcesses: p}))(t)
	}
	resume := func(p ...string) {
		t.Helper()
		testkit.Must(w.ResumeProcesses(ctx, &awsautoscaling.ResumeProcessesInput{AutoScalingGroupName: name, ScalingProcesses: p}))(t)
	}
	quiet := func(n int, state autoscalingtypes.LifecycleState) { // nothing changes, however much time passes
		t.Helper()
		for range 20 {
			w.clock.Step(time.Minute)
			if g, _ := w.describe("web"); states(n, state)(g) != nil {
				t.Fatal(states(n, state)(g))
			}
		}
	}
	suspend("Launch")
	testkit.Must(w.SetDesiredCapacity(ctx, &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: name, DesiredCapacity: aws.Int32(3)}))(t)
	quiet(2, "InService")
	resume("Launch")
	w.await("web", serving(3))

	suspend("Terminate")
	testkit.Must(w.SetDesiredCapacity(ctx, &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: name, DesiredCapacity: aws.Int32(2)}))(t)
	quiet(3, "InService")
	resume()
	w.await("web", serving(2))

	g, _ = w.describe("web")
	suspend("ReplaceUnhealthy")
	victim := *g.Instances[0].InstanceId
	testkit.Must(w.ec2.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{victim}}))(t)
	w.await("web", func(g autoscalingtypes.AutoScalingGroup) error {
		if *g.Instances[0].HealthStatus != "Unhealthy" {
			return errors.New("still healthy")
		}
		return nil
	})
	quiet(2, "InService")
	resume("ReplaceUnhealthy")
	w.await("web", func(g autoscalingtypes.AutoScalingGroup) error {
		if slices.Contains(instanceIDs(g), victim) {
			return errors.New("not replaced")
		}
		return serving(2)(g)
	})
	_, err := w.SuspendProcesses(ctx, &awsautoscaling.SuspendProcessesInput{AutoScalingGroupName: name, ScalingProcesses: []string{"Sleep"}})
	testkit.WantError(t, err, "ValidationError", "Invalid scaling process: Sleep")
}

func TestFailedLaunchesAreToldAndTriedAgain(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.faults.set(nil, func(in *awsec2.RunInstancesInput) error {
		if aws.ToBool(in.DryRun) {
			return nil
		}
		return capacity("t3.small")
	})
	in := w.input("web", 0, 5, 1)
	in.LaunchTemplate = w.template("tmpl")
	testkit.Must(w.CreateAutoScalingGroup(ctx, in))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		if len(w.activities("web")) == 0 {
			return errors.New("no activity")
		}
		return nil
	})
	a := w.activities("web")[0]
	const why = "We currently do not have sufficient t3.small capacity. Launching EC2 instance failed."
	if a.StatusCode != "Failed" || *a.StatusMessage != why || *a.Description != "Launching a new EC2 instance.  Status Reason: "+why || *a.Progress != 100 {
		t.Errorf("%+v", a)
	}
	w.faults.set(nil, nil)
	w.later(time.Second, func() error { g, _ := w.describe("web"); return serving(1)(g) })
}

// If a pool has no capacity, the next type is tried, then the next zone.
func TestMixedInstances(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	zone := *w.subnets[0].SubnetId
	w.faults.set(nil, func(in *awsec2.RunInstancesInput) error {
		if aws.ToBool(in.DryRun) {
			return nil
		}
		if in.InstanceType == "m5.large" || aws.ToString(in.SubnetId) == zone && in.InstanceMarketOptions != nil {
			return capacity(string(in.InstanceType))
		}
		return nil
	})
	in := w.input("mixed", 0, 20, 6)
	in.MixedInstancesPolicy = &autoscalingtypes.MixedInstancesPolicy{
		LaunchTemplate: &autoscalingtypes.LaunchTemplate{LaunchTemplateSpecification: w.template("tmpl"), Overrides: []autoscalingtypes.LaunchTemplateOverrides{
			{InstanceType: aws.String("m5.large")}, {InstanceType: aws.String("c5.large")},
		}},
		InstancesDistribution: &autoscalingtypes.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(2), OnDemandPercentageAboveBaseCapacity: aws.Int32(50)},
	}
	in.CapacityRebalance = aws.Bool(true)
	testkit.Must(w.CreateAutoScalingGroup(ctx, in))(t)
	w.await("mixed", func(g autoscalingtypes.AutoScalingGroup) error {
		if len(g.Instances) < 6 {
			return fmt.Errorf("%d instances", len(g.Instances))
		}
		return nil
	})
	spots := 0
	for _, i := range w.alive("mixed") {
		if i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot {
			spots++
			if *i.SubnetId == zone {
				t.Error("a spot instance where there is no capacity")
			}
		}
		if i.InstanceType != "c5.large" {
			t.Errorf("%s", i.InstanceType)
		}
	}
	if spots != 2 { // 2 + half of 4
		t.Errorf("%d spot instances, want 2", spots)
	}
	g, _ := w.describe("mixed")
	if d := g.MixedInstancesPolicy.InstancesDistribution; *d.OnDemandAllocationStrategy != "prioritized" || *d.SpotAllocationStrategy != "lowest-price" || *d.SpotInstancePools != 2 {
		t.Errorf("%+v", d)
	}
}

func TestLaunchConfiguration(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	name := aws.String("lc")
	make := func() error {
		_, err := w.CreateLaunchConfiguration(ctx, &awsautoscaling.CreateLaunchConfigurationInput{
			LaunchConfigurationName: name, ImageId: &w.image, InstanceType: aws.String("t3.micro"), AssociatePublicIpAddress: aws.Bool(false),
			UserData:            aws.String("IyEvYmluL3NoCg=="),
			BlockDeviceMappings: []autoscalingtypes.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), Ebs: &autoscalingtypes.Ebs{VolumeSize: aws.Int32(40), VolumeType: aws.String("gp2"), Encrypted: aws.Bool(true)}}, {DeviceName: aws.String("/dev/sdc"), VirtualName: aws.String("ephemeral0")}},
		})
		return err
	}
	if err := make(); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, make(), "AlreadyExists", "Launch Configuration by this name already exists - A launch configuration already exists with the name lc")
	in := w.input("web", 1, 2, 1)
	in.LaunchConfigurationName = name
	testkit.Must(w.CreateAutoScalingGroup(ctx, in))(t)
	g := w.await("web", serving(1))
	if *g.Instances[0].LaunchConfigurationName != "lc" || g.Instances[0].LaunchTemplate != nil {
		t.Errorf("%+v", g.Instances[0])
	}
	if d := testkit.Must(w.DescribeLaunchConfigurations(ctx, &awsautoscaling.DescribeLaunchConfigurationsInput{}))(t).LaunchConfigurations[0].BlockDeviceMappings; len(d) != 2 || aws.ToString(d[1].VirtualName) != "ephemeral0" {
		t.Errorf("devices %+v", d)
	}
	if i := w.alive("web")[0]; len(i.BlockDeviceMappings) != 1 || i.PublicIpAddress != nil || i.InstanceType != "t3.micro" || i.Monitoring.State != "enabled" {
		t.Errorf("%+v", i)
	}
	_, err := w.DeleteLaunchConfiguration(ctx, &awsautoscaling.DeleteLaunchConfigurationInput{LaunchConfigurationName: name})
	testkit.WantError(t, err, "ResourceInUse", "Cannot delete launch configuration lc because it is attached to AutoScalingGroup web")
	testkit.Must(w.DeleteAutoScalingGroup(ctx, &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("web"), ForceDelete: aws.Bool(true)}))(t)
	w.await("web", func(g autoscalingtypes.AutoScalingGroup) error {
		if g.AutoScalingGroupName != nil {
			return errors.New("still there")
		}
		return nil
	})
	testkit.Must(w.DeleteLaunchConfiguration(ctx, &awsautoscaling.DeleteLaunchConfigurationInput{LaunchConfigurationName: name}))(t)
	if left := testkit.Must(w.DescribeLaunchConfigurations(ctx, &awsautoscaling.DescribeLaunchConfigurationsInput{}))(t).LaunchConfigurations; len(left) != 0 {
		t.Errorf("%d left", len(left))
	}
}

func TestGroupPendingDeleteIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.group("web", 1)
	name := aws.String("web")
	w.stop() // otherwise its reconciler would terminate the group
	testkit.Must(w.DeleteAutoScalingGroup(ctx, &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: name, ForceDelete: aws.Bool(true)}))(t)
	_, err := w.UpdateAutoScalingGroup(ctx, &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: name, MaxSize: aws.Int32(2)})
	testkit.WantError(t, err, "ValidationError", "The AutoScaling group may not be modified while it is pending delete")
	_, err = w.SuspendProcesses(ctx, &awsautoscaling.SuspendProcessesInput{AutoScalingGroupName: name})
	testkit.WantError(t, err, "ValidationError", "Processes may not be suspended while the AutoScaling group is pending delete")
	w.restart()
	w.await("web", func(g autoscalingtypes.AutoScalingGroup) error {
		if g.AutoScalingGroupName != nil {
			return errors.New("still there")
		}
		return nil
	})
}

func TestCreateRefuses(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	lt := w.template("tmpl")
	template := func(name string, data *ec2types.RequestLaunchTemplateData) *autoscalingtypes.LaunchTemplateSpecification {
		data.ImageId, data.InstanceType = &w.image, "t3.small"
		made := testkit.Must(w.ec2.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: data}))(t).LaunchTemplate
		return &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: made.LaunchTemplateId}
	}
	for _, tt := range []struct {
		name          string
		edit          func(*awsautoscaling.CreateAutoScalingGroupInput)
		code, message string
	}{
		{"no source", func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.LaunchTemplate = nil }, "ValidationError",
			"Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or MixedInstancesPolicy parameter."},
		{"no place", func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.VPCZoneIdentifier = nil }, "ValidationError",
			"At least one Availability Zone or VPC Subnet is required."},
		{"an unknown subnet", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.VPCZoneIdentifier = aws.String("subnet-0123456789abcdef0")
		}, "ValidationError", "The subnet ID 'subnet-0123456789abcdef0' does not exist"},
		{"other zones", func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.AvailabilityZones = []string{"us-east-1f"} }, "ValidationError",
			"The availability zones of the specified subnets and the Auto Scaling group do not match"},
		{"bounds", func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.MinSize = aws.Int32(5) }, "ValidationError",
			"Max bound, 3, must be greater than or equal to min bound, 5"},
		{"negative sizes", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.MinSize, in.DefaultCooldown = aws.Int32(-1), aws.Int32(-2)
		}, "ValidationError", "2 validation errors detected: Value '-2' at 'defaultCooldown' failed to satisfy constraint: Member must have value greater than or equal to 0; " +
			"Value '-1' at 'minSize' failed to satisfy constraint: Member must have value greater than or equal to 0"},
		{"a negative base", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.MixedInstancesPolicy = &autoscalingtypes.MixedInstancesPolicy{InstancesDistribution: &autoscalingtypes.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(-1)}}
		}, "ValidationError", "1 validation error detected: Value '-1' at 'mixedInstancesPolicy.instancesDistribution.onDemandBaseCapacity' failed to satisfy constraint: Member must have value greater than or equal to 0"},
		{"desired", func(in *awsautoscaling.CreateAutoScalingGroupInput) { in.DesiredCapacity = aws.Int32(9) }, "ValidationError",
			"Desired capacity:9 must be between the specified min size:0 and max size:3"},
		{"an unknown configuration", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate, in.LaunchConfigurationName = nil, aws.String("no")
		}, "ValidationError", "Launch configuration name not found - A launch configuration with the name: no does not exist"},
		{"a template by ID and name", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: lt.LaunchTemplateId, LaunchTemplateName: aws.String("tmpl")}
		}, "ValidationError", "Valid requests must contain either launchTemplateId or LaunchTemplateName"},
		{"a type that is none", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = nil
			in.MixedInstancesPolicy = &autoscalingtypes.MixedInstancesPolicy{LaunchTemplate: &autoscalingtypes.LaunchTemplate{
				LaunchTemplateSpecification: lt, Overrides: []autoscalingtypes.LaunchTemplateOverrides{{InstanceType: aws.String("m5.medium")}},
			}}
		}, "ValidationError", "You must use a valid fully-formed launch template. Invalid value 'm5.medium' for InstanceType."},
		{"a type twice", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = nil
			large := autoscalingtypes.LaunchTemplateOverrides{InstanceType: aws.String("m5.large")}
			in.MixedInstancesPolicy = &autoscalingtypes.MixedInstancesPolicy{LaunchTemplate: &autoscalingtypes.LaunchTemplate{
				LaunchTemplateSpecification: lt, Overrides: []autoscalingtypes.LaunchTemplateOverrides{large, large, large},
			}}
		}, "ValidationError", "Cannot add same instance type override more than once. Remove these duplicates from the request and try again: [m5.large]"},
		{"a Spot strategy that is none", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = nil
			in.MixedInstancesPolicy = &autoscalingtypes.MixedInstancesPolicy{
				LaunchTemplate:        &autoscalingtypes.LaunchTemplate{LaunchTemplateSpecification: lt},
				InstancesDistribution: &autoscalingtypes.InstancesDistribution{SpotAllocationStrategy: aws.String("diversified")},
			}
		}, "ValidationError", "SpotAllocationStrategy is not valid. Valid options are: [lowest-price, capacity-optimized, capacity-optimized-prioritized, price-capacity-optimized]."},
		{"an on-demand strategy that is none", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = nil
			in.MixedInstancesPolicy = &autoscalingtypes.MixedInstancesPolicy{
				LaunchTemplate:        &autoscalingtypes.LaunchTemplate{LaunchTemplateSpecification: lt},
				InstancesDistribution: &autoscalingtypes.InstancesDistribution{OnDemandAllocationStrategy: aws.String("lowestPrice")},
			}
		}, "ValidationError", "OnDemandAllocationStrategy is not valid. Valid options are: [prioritized, lowest-price]."},
		{"a version that is none", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: lt.LaunchTemplateId, Version: aws.String("latest")}
		}, "ValidationError", "Invalid launch template version: either '$Default', '$Latest', or a numeric version are allowed."},
		{"groups beside an interface", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = template("beside", &ec2types.RequestLaunchTemplateData{
				SecurityGroupIds: []string{"sg-0123456789abcdef0"}, NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: aws.Int32(0)}},
			})
		}, "InvalidQueryParameter", "Invalid launch template: When a network interface is provided, the security groups must be a part of it."},
		{"a Spot template for mixed instances", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = nil
			spot := template("spot", &ec2types.RequestLaunchTemplateData{InstanceMarketOptions: &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: "spot"}})
			in.MixedInstancesPolicy = &autoscalingtypes.MixedInstancesPolicy{LaunchTemplate: &autoscalingtypes.LaunchTemplate{LaunchTemplateSpecification: spot}}
		}, "InvalidQueryParameter", "Incompatible launch template: You cannot use a launch template that is set to request Spot Instances (InstanceMarketOptions) when you configure an Auto Scaling group with a mixed instances policy. Add a different launch template to the group and try again."},
		{"Spot pools of another strategy", func(in *awsautoscaling.CreateAutoScalingGroupInput) {
			in.LaunchTemplate = nil
			in.MixedInstancesPolicy = &autoscalingtypes.MixedInstancesPolicy{
				LaunchTemplate:        &autoscalingtypes.LaunchTemplate{LaunchTemplateSpecification: lt},
				InstancesDistribution: &autoscalingtypes.InstancesDistribution{SpotAllocationStrategy: aws.String("capacity-optimized"), SpotInstancePools: aws.Int32(2)},
			}
		}, "ValidationError", "SpotInstancePools option is only available with the lowest-price allocation strategy."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := w.input("web", 0, 3, 1)
			in.LaunchTemplate = lt
			tt.edit(in)
			_, err := w.CreateAutoScalingGroup(ctx, in)
			if tt.message == "" {
				if err == nil || !strings.Contains(err.Error(), tt.code) {
					t.Errorf("got %v", err)
				}
				return
			}
			testkit.WantError(t, err, tt.code, tt.message)
			if _, made := w.describe("web"); made {
				t.Error("it was made")
			}
		})
	}
	in := w.input("web", 0, 3, 0)
	in.LaunchTemplate = lt
	testkit.Must(w.CreateAutoScalingGroup(ctx, in))(t)
	_, err := w.CreateAutoScalingGroup(ctx, in)
	testkit.WantError(t, err, "AlreadyExists", "AutoScalingGroup by this name already exists - A group with the name web already exists")
	_, err = w.SetDesiredCapacity(ctx, &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("web"), DesiredCapacity: aws.Int32(4)})
	testkit.WantError(t, err, "ValidationError", "New SetDesiredCapacity value 4 is above max value 3 for the AutoScalingGroup.")
}
