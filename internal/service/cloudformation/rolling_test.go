package cloudformation_test

import (
	"regexp"
	"strings"
	"testing"

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
