package app

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestServiceRolesInUse: the role of Auto Scaling cannot be deleted while there are groups.
func TestServiceRolesInUse(t *testing.T) {
	var groups *autoscaling.Service
	s := testkit.NewServer(t, testkit.Config{Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
		identities, instances := iam.New(iam.Config{Store: st}), ec2.New(ec2.Config{Store: st})
		groups = autoscaling.New(autoscaling.Config{
			Store: st, EC2: awscall.EC2{API: front}, Instances: instances, EnsureServiceRole: awscall.IAM{API: front}.EnsureServiceRole,
		})
		identities.Register(groups.Module().RoleUsage...)
		return []awsapi.Service{identities.AWS(), instances.AWS(), groups.AWS()}
	}})
	account := s.Account(t)
	ctx, cfg := t.Context(), s.AWSConfig(account)
	roles, scaling := awsiam.NewFromConfig(cfg), awsautoscaling.NewFromConfig(cfg)
	zones, err := awsec2.NewFromConfig(cfg).DescribeAvailabilityZones(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := awsec2.NewFromConfig(cfg).CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("template"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: aws.String("resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"), InstanceType: ec2types.InstanceTypeT3Micro},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := scaling.CreateAutoScalingGroup(ctx, &awsautoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), MinSize: aws.Int32(0), MaxSize: aws.Int32(0), AvailabilityZones: []string{*zones.AvailabilityZones[0].ZoneName},
		LaunchTemplate: &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateName: aws.String("template")},
	}); err != nil {
		t.Fatal(err)
	}
	if got := deleteServiceRole(t, roles, "AWSServiceRoleForAutoScaling"); got != "FAILED" {
		t.Errorf("with a group: %s", got)
	}
	for i := range 100 { // more than a page
		if _, err := groups.CreateAutoScalingGroup(awsapi.WithCall(ctx, &awsapi.Call{Account: account, Region: testkit.Region}), &awsautoscaling.CreateAutoScalingGroupInput{
			AutoScalingGroupName: aws.String(fmt.Sprint("g", i)), MinSize: aws.Int32(0), MaxSize: aws.Int32(0), AvailabilityZones: []string{*zones.AvailabilityZones[0].ZoneName},
			LaunchTemplate: &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateName: aws.String("template")},
		}); err != nil {
			t.Fatal(err)
		}
	}
	usage := func(account, principal string) []string {
		t.Helper()
		return groups.Module().RoleUsage[0](account, principal)[testkit.Region]
	}
	if got := usage(account, "autoscaling.amazonaws.com"); len(got) != 101 {
		t.Errorf("%d groups need the role, want 101", len(got))
	}
	if _, err := scaling.DeleteAutoScalingGroup(ctx, &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("g"), ForceDelete: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	if len(usage("999999999999", "autoscaling.amazonaws.com")) != 0 {
		t.Error("another account's groups count")
	}
	if len(usage(account, "spot.amazonaws.com")) != 0 {
		t.Error("a service that keeps nothing")
	}
}
