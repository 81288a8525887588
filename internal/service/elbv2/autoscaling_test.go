package elbv2_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// An Auto Scaling group registers its instances with its attached target groups, and with no
// others.
func TestAutoScalingTargets(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	scaling := awsautoscaling.NewFromConfig(w.server.AWSConfig(w.account))
	first, second := w.group("first", elbv2types.ProtocolEnumTcp, 80, ""), w.group("second", elbv2types.ProtocolEnumTcp, 81, "")
	own := w.instance(w.subnets[0])
	testkit.Must(w.RegisterTargets(ctx, &awselbv2.RegisterTargetsInput{TargetGroupArn: &second, Targets: []elbv2types.TargetDescription{{Id: &own}}}))(t)
	img, ok := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "")
	if !ok {
		t.Fatal("no image")
	}
	testkit.Must(w.ec2.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("workers"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
		ImageId: &img.ID, InstanceType: "m5.large",
	}}))(t)
	nobody := first + "0"
	in := &awsautoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("workers"), MinSize: aws.Int32(0), MaxSize: aws.Int32(5), DesiredCapacity: aws.Int32(2),
		VPCZoneIdentifier: &w.subnets[0], TargetGroupARNs: []string{nobody}, LaunchTemplate: launchTemplate("workers"),
	}
	_, err := scaling.CreateAutoScalingGroup(ctx, in)
	testkit.WantErrorWith(t, err, "ValidationError", "Provided Target Groups may not be valid. Please ensure they exist and try again.")
	in.TargetGroupARNs = []string{first}
	testkit.Must(scaling.CreateAutoScalingGroup(ctx, in))(t)
	expect := func(group string, n int) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, func() error {
			out := testkit.Must(w.DescribeTargetHealth(context.Background(), &awselbv2.DescribeTargetHealthInput{TargetGroupArn: &group}))(t)
			if len(out.TargetHealthDescriptions) != n {
				return fmt.Errorf("%d targets, want %d", len(out.TargetHealthDescriptions), n)
			}
			return nil
		})
	}
	expect(first, 2)
	testkit.Must(scaling.AttachLoadBalancerTargetGroups(ctx, &awsautoscaling.AttachLoadBalancerTargetGroupsInput{AutoScalingGroupName: in.AutoScalingGroupName, TargetGroupARNs: []string{second}}))(t)
	expect(second, 3)
	testkit.Must(scaling.SetDesiredCapacity(ctx, &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: in.AutoScalingGroupName, DesiredCapacity: aws.Int32(1)}))(t)
	expect(first, 1)
	testkit.Must(scaling.DetachLoadBalancerTargetGroups(ctx, &awsautoscaling.DetachLoadBalancerTargetGroupsInput{AutoScalingGroupName: in.AutoScalingGroupName, TargetGroupARNs: []string{second}}))(t)
	expect(second, 1) // the one that is not attached to the group
	testkit.Must(scaling.DeleteAutoScalingGroup(ctx, &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: in.AutoScalingGroupName, ForceDelete: aws.Bool(true)}))(t)
	expect(first, 0)
}

func launchTemplate(name string) *autoscalingtypes.LaunchTemplateSpecification {
	return &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateName: &name}
}
