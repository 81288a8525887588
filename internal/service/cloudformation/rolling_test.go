package cloudformation_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func rollingGroup(machine, policy string) string {
	return `
Parameters: {Image: {Type: String}}
Resources:
  V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  N: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref V, CidrBlock: 10.0.1.0/24}}
  L: {Type: AWS::EC2::LaunchTemplate, Properties: {LaunchTemplateData: {ImageId: !Ref Image, InstanceType: ` + machine + `}}}
  G:
    Type: AWS::AutoScaling::AutoScalingGroup
    UpdatePolicy: {AutoScalingRollingUpdate: ` + policy + `}
    Properties:
      MinSize: '1'
      MaxSize: '3'
      DesiredCapacity: '2'
      VPCZoneIdentifier: [!Ref N]
      LaunchTemplate: {LaunchTemplateId: !Ref L, Version: !GetAtt L.LatestVersionNumber}
Outputs:
  Group: {Value: !Ref G}
`
}

// TestRollingUpdate covers golden scenario 15: a launch template changes, and the group's
// instances are replaced.
func TestRollingUpdate(t *testing.T) {
	w := newWide(t)
	image, ok := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "")
	if !ok {
		t.Fatal("no image")
	}
	given := cloudformationtypes.Parameter{ParameterKey: aws.String("Image"), ParameterValue: &image.ID}
	withImage := func(in *awscloudformation.UpdateStackInput) {
		in.Parameters = []cloudformationtypes.Parameter{given}
	}
	id := w.create(t, "rolling", rollingGroup("t3.micro", "{MinInstancesInService: 1}"), func(in *awscloudformation.CreateStackInput) {
		in.Parameters = []cloudformationtypes.Parameter{given}
	})
	group := w.outputs(w.want(t, id, "CREATE_COMPLETE"))["Group"]
	_, script := w.update(t, id, rollingGroup("t3.small", "{MinInstancesInService: 1}"), "UPDATE_COMPLETE", withImage)
	script = regexp.MustCompile(`i-[0-9a-f]+`).ReplaceAllString(script, "i")
	wantScript(t, script, `S UPDATE_IN_PROGRESS User Initiated
L UPDATE_IN_PROGRESS
L UPDATE_COMPLETE
G UPDATE_IN_PROGRESS
G UPDATE_IN_PROGRESS Rolling update initiated. Terminating 2 obsolete instance(s) in batches of 1, while keeping at least 1 instance(s) in service.
G UPDATE_IN_PROGRESS Temporarily setting autoscaling group MinSize and DesiredCapacity to 2.
G UPDATE_IN_PROGRESS Terminating instance(s) [i]; replacing with 1 new instance(s).
G UPDATE_IN_PROGRESS Successfully terminated instance(s) [i] (Progress 50%).
G UPDATE_IN_PROGRESS Terminating instance(s) [i]; replacing with 1 new instance(s).
G UPDATE_IN_PROGRESS Successfully terminated instance(s) [i] (Progress 100%).
G UPDATE_COMPLETE
S UPDATE_COMPLETE_CLEANUP_IN_PROGRESS
S UPDATE_COMPLETE`)
	check := func(version string) {
		t.Helper()
		g := testkit.Must(awsautoscaling.NewFromConfig(w.cfg).DescribeAutoScalingGroups(t.Context(), &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{group}}))(t).AutoScalingGroups[0]
		if *g.MinSize != 1 || *g.DesiredCapacity != 2 || len(g.Instances) != 2 {
			t.Errorf("%+v", g)
		}
		for _, i := range g.Instances {
			if aws.ToString(i.LaunchTemplate.Version) != version {
				t.Errorf("%s has version %s, want %s", *i.InstanceId, aws.ToString(i.LaunchTemplate.Version), version)
			}
		}
	}
	check("2")

	// Without signals from the new instances, the update is rolled back, using the old policy.
	_, script = w.update(t, id, rollingGroup("t3.medium", "{MaxBatchSize: 2, WaitOnResourceSignals: true, PauseTime: PT1S}"), "UPDATE_ROLLBACK_COMPLETE", withImage)
	for _, want := range []string{
		"in batches of 2. Waiting on resource signals with a timeout of PT1S when new instances are added to the autoscaling group.\n",
		"New instance(s) added to autoscaling group - Waiting on 2 resource signal(s) with a timeout of PT1S.\n",
		"Failed to receive 2 resource signal(s) for the current batch.  Each resource signal timeout is counted as a FAILURE.\n",
		"G UPDATE_FAILED Received 0 SUCCESS signal(s) out of 2.  Unable to satisfy 100% MinSuccessfulInstancesPercent requirement\n",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("%s\nis not in\n%s", want, script)
		}
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
}

// TestGroupSignals covers golden scenario 16: a group whose creation waits for the signals of its instances, and whose
// rolling update does.
func TestGroupSignals(t *testing.T) {
	w, ctx := newWide(t), t.Context()
	image, ok := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "")
	if !ok {
		t.Fatal("no image")
	}
	given := []cloudformationtypes.Parameter{{ParameterKey: aws.String("Image"), ParameterValue: &image.ID}}
	body := func(machine string) string {
		return strings.Replace(rollingGroup(machine, "{MinInstancesInService: 1, WaitOnResourceSignals: true, PauseTime: PT1H}"), "    UpdatePolicy:", "    CreationPolicy: {ResourceSignal: {Count: 2, Timeout: PT1H}}\n    UpdatePolicy:", 1)
	}
	create := func(name string) string {
		return w.create(t, name, body("t3.micro"), func(in *awscloudformation.CreateStackInput) { in.Parameters = given })
	}
	ofGroup := func(script string) string {
		var out []string
		for line := range strings.Lines(regexp.MustCompile(`i-[0-9a-f]+`).ReplaceAllString(script, "i")) {
			if strings.HasPrefix(line, "G ") || strings.HasPrefix(line, "S ") {
				out = append(out, strings.TrimSuffix(line, "\n"))
			}
		}
		return strings.Join(out, "\n")
	}
	instances := func(id string) (out []string) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, func() error {
			r, err := w.DescribeStackResource(ctx, &awscloudformation.DescribeStackResourceInput{StackName: &id, LogicalResourceId: aws.String("G")})
			if err != nil || r.StackResourceDetail.PhysicalResourceId == nil {
				return fmt.Errorf("the group has not been created: %w", err)
			}
			groups, err := awsautoscaling.NewFromConfig(w.cfg).DescribeAutoScalingGroups(ctx, &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{*r.StackResourceDetail.PhysicalResourceId}})
			if err != nil || len(groups.AutoScalingGroups) == 0 || len(groups.AutoScalingGroups[0].Instances) < 2 {
				return fmt.Errorf("the group has no instances: %w", err)
			}
			out = nil
			for _, i := range groups.AutoScalingGroups[0].Instances {
				out = append(out, *i.InstanceId)
			}
			return nil
		})
		return out
	}
	bad := create("bad")
	list := instances(bad)
	w.signal(t, bad, "G", list[0], "SUCCESS")
	w.signal(t, bad, "G", list[1], "FAILURE")
	w.want(t, bad, "ROLLBACK_COMPLETE")
	wantScript(t, ofGroup(w.script(t, bad)), `S CREATE_IN_PROGRESS User Initiated
G CREATE_IN_PROGRESS
G CREATE_IN_PROGRESS Resource creation Initiated
G CREATE_IN_PROGRESS Received SUCCESS signal with UniqueId i
G CREATE_FAILED Received FAILURE signal with UniqueId i
S ROLLBACK_IN_PROGRESS The following resource(s) failed to create: [G]. Rollback requested by user.
G DELETE_IN_PROGRESS
G DELETE_COMPLETE
S ROLLBACK_COMPLETE`)

	good := create("good")
	list = instances(good)
	for _, i := range list {
		w.signal(t, good, "G", i, "SUCCESS")
	}
	w.want(t, good, "CREATE_COMPLETE")
	_, err := w.SignalResource(ctx, &awscloudformation.SignalResourceInput{StackName: &good, LogicalResourceId: aws.String("G"), UniqueId: &list[0], Status: "FAILURE"})
	testkit.WantError(t, err, "ValidationError", "Stack "+good+" is in CREATE_COMPLETE state and cannot be signaled")

	before := w.script(t, good)
	testkit.Must(w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &good, TemplateBody: aws.String(body("t3.small")), Parameters: given}))(t)
	signalled := map[string]bool{list[0]: true, list[1]: true}
	for range 2 { // one batch after the other
		testkit.Eventually(t, 20*time.Second, func() error {
			if n := strings.Count(w.script(t, good), "New instance(s) added to autoscaling group"); n < len(signalled)-1 {
				return fmt.Errorf("%d batches have begun", n)
			}
			for _, i := range instances(good) {
				if !signalled[i] {
					signalled[i] = true
					w.signal(t, good, "G", i, "SUCCESS")
					return nil
				}
			}
			return errors.New("there is no new instance")
		})
	}
	w.want(t, good, "UPDATE_COMPLETE")
	wantScript(t, ofGroup(strings.TrimPrefix(w.script(t, good), before+"\n")), `S UPDATE_IN_PROGRESS User Initiated
G UPDATE_IN_PROGRESS
G UPDATE_IN_PROGRESS Rolling update initiated. Terminating 2 obsolete instance(s) in batches of 1, while keeping at least 1 instance(s) in service. Waiting on resource signals with a timeout of PT1H when new instances are added to the autoscaling group.
G UPDATE_IN_PROGRESS Temporarily setting autoscaling group MinSize and DesiredCapacity to 2.
G UPDATE_IN_PROGRESS Terminating instance(s) [i]; replacing with 1 new instance(s).
G UPDATE_IN_PROGRESS Successfully terminated instance(s) [i] (Progress 50%).
G UPDATE_IN_PROGRESS New instance(s) added to autoscaling group - Waiting on 1 resource signal(s) with a timeout of PT1H.
G UPDATE_IN_PROGRESS Received SUCCESS signal with UniqueId i
G UPDATE_IN_PROGRESS Terminating instance(s) [i]; replacing with 1 new instance(s).
G UPDATE_IN_PROGRESS Successfully terminated instance(s) [i] (Progress 100%).
G UPDATE_IN_PROGRESS New instance(s) added to autoscaling group - Waiting on 1 resource signal(s) with a timeout of PT1H.
G UPDATE_IN_PROGRESS Received SUCCESS signal with UniqueId i
G UPDATE_COMPLETE
S UPDATE_COMPLETE_CLEANUP_IN_PROGRESS
S UPDATE_COMPLETE`)
}
