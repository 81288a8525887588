package authz_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// profile makes an instance profile with a role of the same name.
func (w *world) profile(t *testing.T, root caller, name string) {
	t.Helper()
	ctx := t.Context()
	must[*awsiam.CreateRoleOutput](t)(root.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(ec2Trust)}))
	must[*awsiam.CreateInstanceProfileOutput](t)(root.iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: &name}))
	must[*awsiam.AddRoleToInstanceProfileOutput](t)(root.iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &name}))
}

// TestRolesOfLaterLaunches: to have AWS launch instances with a role, the caller must be allowed to pass the role.
func TestRolesOfLaterLaunches(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root, account := w.root(t)
	for _, name := range []string{"admin", "node"} {
		w.profile(t, root, name)
	}
	image := must[*awsec2.DescribeImagesOutput](t)(root.ec2.DescribeImages(ctx, &awsec2.DescribeImagesInput{Owners: []string{"amazon"}})).Images[0].ImageId
	for _, name := range []string{"admin", "node"} {
		must[*awsec2.CreateLaunchTemplateOutput](t)(root.ec2.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
			LaunchTemplateName: &name,
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
				ImageId: image, InstanceType: "m5.large", IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &name},
			},
		}))
	}
	u := w.user(t, root, "dev", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":["autoscaling:*","ec2:*"],"Resource":"*"},
		{"Effect":"Allow","Action":"iam:PassRole","Resource":"arn:aws:iam::`+account+`:role/node"}]}`)
	scaling := awsautoscaling.NewFromConfig(u.cfg)
	configs := func(name string) []ec2types.FleetLaunchTemplateConfigRequest {
		return []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &name, Version: aws.String("$Latest")},
		}}
	}
	capacity := &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(0), DefaultTargetCapacityType: "on-demand"}
	fleet := must[*awsec2.CreateFleetOutput](t)(root.ec2.CreateFleet(ctx, &awsec2.CreateFleetInput{Type: "maintain", LaunchTemplateConfigs: configs("node"), TargetCapacitySpecification: capacity})).FleetId
	for name, call := range map[string]func(profile string) error{
		"CreateLaunchConfiguration": func(profile string) error {
			_, err := scaling.CreateLaunchConfiguration(ctx, &awsautoscaling.CreateLaunchConfigurationInput{
				LaunchConfigurationName: &profile, IamInstanceProfile: &profile, ImageId: image, InstanceType: aws.String("m5.large"),
			})
			return err
		},
		"CreateLaunchConfiguration by ARN": func(profile string) error {
			_, err := scaling.CreateLaunchConfiguration(ctx, &awsautoscaling.CreateLaunchConfigurationInput{
				LaunchConfigurationName: aws.String("arn-" + profile), IamInstanceProfile: aws.String("arn:aws:iam::" + account + ":instance-profile/" + profile), ImageId: image, InstanceType: aws.String("m5.large"),
			})
			return err
		},
		"CreateFleet request": func(profile string) error {
			_, err := u.ec2.CreateFleet(ctx, &awsec2.CreateFleetInput{Type: "request", LaunchTemplateConfigs: configs(profile), TargetCapacitySpecification: capacity})
			return err
		},
		"CreateFleet maintain": func(profile string) error {
			_, err := u.ec2.CreateFleet(ctx, &awsec2.CreateFleetInput{LaunchTemplateConfigs: configs(profile), TargetCapacitySpecification: capacity})
			return err
		},
		"ModifyFleet": func(profile string) error {
			_, err := u.ec2.ModifyFleet(ctx, &awsec2.ModifyFleetInput{FleetId: fleet, LaunchTemplateConfigs: configs(profile), TargetCapacitySpecification: capacity})
			return err
		},
	} {
		if err := call("node"); err != nil {
			t.Errorf("%s with a role that may be passed: %v", name, err)
		}
		if got := code(call("admin")); got != "AccessDenied" && got != "UnauthorizedOperation" {
			t.Errorf("%s with another role: %q", name, got)
		}
	}
}

// TestClusterAutoscalersPolicy: its published policy allows its calls for the groups of its cluster, and no others.
// https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
func TestClusterAutoscalersPolicy(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- w.ec2.Run(run) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	root, _ := w.root(t)
	admin := awsautoscaling.NewFromConfig(root.cfg)
	image := must[*awsec2.DescribeImagesOutput](t)(root.ec2.DescribeImages(ctx, &awsec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []ec2types.Filter{{Name: aws.String("architecture"), Values: []string{"x86_64"}}}})).Images[0].ImageId
	member := map[string]string{}
	for _, group := range []string{"demo", "a group/other"} {
		i := must[*awsec2.RunInstancesOutput](t)(root.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{ImageId: image, InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})).Instances[0]
		must[*awsautoscaling.CreateLaunchConfigurationOutput](t)(admin.CreateLaunchConfiguration(ctx, &awsautoscaling.CreateLaunchConfigurationInput{
			LaunchConfigurationName: &group, ImageId: image, InstanceType: aws.String("m5.large"),
		}))
		in := &awsautoscaling.CreateAutoScalingGroupInput{
			AutoScalingGroupName: &group, LaunchConfigurationName: &group, MinSize: aws.Int32(0), MaxSize: aws.Int32(5), AvailabilityZones: []string{*i.Placement.AvailabilityZone},
		}
		if group == "demo" {
			in.Tags = []autoscalingtypes.Tag{{Key: aws.String("k8s.io/cluster-autoscaler/demo"), Value: aws.String("owned")}}
		}
		must[*awsautoscaling.CreateAutoScalingGroupOutput](t)(admin.CreateAutoScalingGroup(ctx, in))
		testkit.Eventually(t, 10*time.Second, func() error {
			_, err := admin.AttachInstances(ctx, &awsautoscaling.AttachInstancesInput{AutoScalingGroupName: &group, InstanceIds: []string{*i.InstanceId}})
			return err
		})
		member[group] = *i.InstanceId
	}
	u := w.user(t, root, "autoscaler", `{"Version":"2012-10-17","Statement":[{
		"Effect":"Allow","Action":["autoscaling:SetDesiredCapacity","autoscaling:TerminateInstanceInAutoScalingGroup","autoscaling:SetInstanceHealth"],"Resource":"*",
		"Condition":{"StringEquals":{"aws:ResourceTag/k8s.io/cluster-autoscaler/demo":"owned"}}}]}`)
	scaling := awsautoscaling.NewFromConfig(u.cfg)
	for group, want := range map[string]string{"demo": "", "a group/other": "AccessDenied"} {
		_, health := scaling.SetInstanceHealth(ctx, &awsautoscaling.SetInstanceHealthInput{InstanceId: aws.String(member[group]), HealthStatus: aws.String("Healthy")})
		_, end := scaling.TerminateInstanceInAutoScalingGroup(ctx, &awsautoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: aws.String(member[group]), ShouldDecrementDesiredCapacity: aws.Bool(true)})
		if code(health) != want || code(end) != want {
			t.Errorf("%s: %v, %v; want %q", group, health, end, want)
		}
	}
}

// TestWhatRequestsNameIsChecked: members that name a resource other than by its ID do not bypass the policy on it.
func TestWhatRequestsNameIsChecked(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root, account := w.root(t)
	deny := func(resource string, actions string) string {
		return fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},
			{"Effect":"Deny","Action":%q,"Resource":%q}]}`, actions, resource)
	}
	arn := func(kind, id string) string {
		return "arn:aws:ec2:" + testkit.Region + ":" + account + ":" + kind + "/" + id
	}
	n := 0
	denied := func(name, resource, action string, call func(caller) error) {
		t.Helper()
		n++
		u := w.user(t, root, fmt.Sprintf("u%d", n), deny(resource, action))
		if got := code(call(u)); got != "UnauthorizedOperation" && got != "AccessDenied" {
			t.Errorf("%s is not denied on %s: %q", name, resource, got)
		}
	}

	for _, name := range []string{"mine", "other"} {
		must[*awsec2.CreateKeyPairOutput](t)(root.ec2.CreateKeyPair(ctx, &awsec2.CreateKeyPairInput{KeyName: &name}))
	}
	other := must[*awsec2.DescribeKeyPairsOutput](t)(root.ec2.DescribeKeyPairs(ctx, &awsec2.DescribeKeyPairsInput{KeyNames: []string{"other"}})).KeyPairs[0].KeyPairId
	must[*awsec2.CreateKeyPairOutput](t)(root.ec2.CreateKeyPair(ctx, &awsec2.CreateKeyPairInput{KeyName: other})) // a name like that ID
	denied("DeleteKeyPair", arn("key-pair", "other"), "ec2:DeleteKeyPair", func(u caller) error {
		_, err := u.ec2.DeleteKeyPair(ctx, &awsec2.DeleteKeyPairInput{KeyName: aws.String("mine"), KeyPairId: other})
		return err
	})

	sn := must[*awsec2.DescribeSubnetsOutput](t)(root.ec2.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{})).Subnets[0]
	group := must[*awsec2.CreateSecurityGroupOutput](t)(root.ec2.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String("open"), Description: aws.String("open"), VpcId: sn.VpcId})).GroupId
	eni := must[*awsec2.CreateNetworkInterfaceOutput](t)(root.ec2.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: sn.SubnetId})).NetworkInterface
	denied("ModifyNetworkInterfaceAttribute", arn("security-group", *group), "ec2:ModifyNetworkInterfaceAttribute", func(u caller) error {
		_, err := u.ec2.ModifyNetworkInterfaceAttribute(ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: eni.NetworkInterfaceId, Groups: []string{*group}})
		return err
	})
	image := must[*awsec2.DescribeImagesOutput](t)(root.ec2.DescribeImages(ctx, &awsec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []ec2types.Filter{{Name: aws.String("architecture"), Values: []string{"x86_64"}}}})).Images[0].ImageId
	w.profile(t, root, "node")
	i := must[*awsec2.RunInstancesOutput](t)(root.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
		ImageId: image, InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String("node")},
	})).Instances[0]
	denied("ModifyInstanceAttribute", arn("security-group", *group), "ec2:ModifyInstanceAttribute", func(u caller) error {
		_, err := u.ec2.ModifyInstanceAttribute(ctx, &awsec2.ModifyInstanceAttributeInput{InstanceId: i.InstanceId, Groups: []string{*group}})
		return err
	})
	denied("DetachNetworkInterface", arn("instance", *i.InstanceId), "ec2:DetachNetworkInterface", func(u caller) error {
		_, err := u.ec2.DetachNetworkInterface(ctx, &awsec2.DetachNetworkInterfaceInput{AttachmentId: i.NetworkInterfaces[0].Attachment.AttachmentId})
		return err
	})
	association := must[*awsec2.DescribeIamInstanceProfileAssociationsOutput](t)(root.ec2.DescribeIamInstanceProfileAssociations(ctx, &awsec2.DescribeIamInstanceProfileAssociationsInput{})).IamInstanceProfileAssociations[0].AssociationId
	denied("DisassociateIamInstanceProfile", arn("instance", *i.InstanceId), "ec2:DisassociateIamInstanceProfile", func(u caller) error {
		_, err := u.ec2.DisassociateIamInstanceProfile(ctx, &awsec2.DisassociateIamInstanceProfileInput{AssociationId: association})
		return err
	})
	denied("ReplaceIamInstanceProfileAssociation", arn("instance", *i.InstanceId), "ec2:ReplaceIamInstanceProfileAssociation", func(u caller) error {
		_, err := u.ec2.ReplaceIamInstanceProfileAssociation(ctx, &awsec2.ReplaceIamInstanceProfileAssociationInput{AssociationId: association, IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String("node")}})
		return err
	})
	ip := must[*awsec2.AllocateAddressOutput](t)(root.ec2.AllocateAddress(ctx, &awsec2.AllocateAddressInput{}))
	linked := must[*awsec2.AssociateAddressOutput](t)(root.ec2.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: ip.AllocationId, NetworkInterfaceId: eni.NetworkInterfaceId}))
	denied("DisassociateAddress", arn("elastic-ip", *ip.AllocationId), "ec2:DisassociateAddress", func(u caller) error {
		_, err := u.ec2.DisassociateAddress(ctx, &awsec2.DisassociateAddressInput{AssociationId: linked.AssociationId})
		return err
	})
	denied("DisassociateAddress", arn("network-interface", *eni.NetworkInterfaceId), "ec2:DisassociateAddress", func(u caller) error {
		_, err := u.ec2.DisassociateAddress(ctx, &awsec2.DisassociateAddressInput{PublicIp: ip.PublicIp})
		return err
	})
	vpc := must[*awsec2.DescribeVpcsOutput](t)(root.ec2.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{})).Vpcs[0]
	denied("DisassociateVpcCidrBlock", arn("vpc", *vpc.VpcId), "ec2:DisassociateVpcCidrBlock", func(u caller) error {
		_, err := u.ec2.DisassociateVpcCidrBlock(ctx, &awsec2.DisassociateVpcCidrBlockInput{AssociationId: vpc.CidrBlockAssociationSet[0].AssociationId})
		return err
	})
	acl := must[*awsec2.DescribeNetworkAclsOutput](t)(root.ec2.DescribeNetworkAcls(ctx, &awsec2.DescribeNetworkAclsInput{})).NetworkAcls[0]
	denied("ReplaceNetworkAclAssociation", arn("subnet", *acl.Associations[0].SubnetId), "ec2:ReplaceNetworkAclAssociation", func(u caller) error {
		_, err := u.ec2.ReplaceNetworkAclAssociation(ctx, &awsec2.ReplaceNetworkAclAssociationInput{AssociationId: acl.Associations[0].NetworkAclAssociationId, NetworkAclId: acl.NetworkAclId})
		return err
	})
	denied("DeleteFlowLogs", arn("vpc-flow-log", "fl-1"), "ec2:DeleteFlowLogs", func(u caller) error {
		_, err := u.ec2.DeleteFlowLogs(ctx, &awsec2.DeleteFlowLogsInput{FlowLogIds: []string{"fl-1"}})
		return err
	})
	configured := []ec2types.SubnetConfiguration{{SubnetId: sn.SubnetId}}
	denied("CreateVpcEndpoint", arn("subnet", *sn.SubnetId), "ec2:CreateVpcEndpoint", func(u caller) error {
		_, err := u.ec2.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{VpcId: sn.VpcId, VpcEndpointType: "Interface", ServiceName: aws.String("com.amazonaws." + testkit.Region + ".sts"), SubnetConfigurations: configured})
		return err
	})
	denied("ModifyVpcEndpoint", arn("subnet", *sn.SubnetId), "ec2:ModifyVpcEndpoint", func(u caller) error {
		_, err := u.ec2.ModifyVpcEndpoint(ctx, &awsec2.ModifyVpcEndpointInput{VpcEndpointId: aws.String("vpce-1"), SubnetConfigurations: configured})
		return err
	})
	denied("ModifyVpcEndpoint", arn("route-table", "rtb-1"), "ec2:ModifyVpcEndpoint", func(u caller) error {
		_, err := u.ec2.ModifyVpcEndpoint(ctx, &awsec2.ModifyVpcEndpointInput{VpcEndpointId: aws.String("vpce-1"), AddRouteTableIds: []string{"rtb-1"}})
		return err
	})
	denied("DeletePolicy", "arn:aws:autoscaling:*:*:autoScalingGroup:*:autoScalingGroupName/demo", "autoscaling:DeletePolicy", func(u caller) error {
		_, err := awsautoscaling.NewFromConfig(u.cfg).DeletePolicy(ctx, &awsautoscaling.DeletePolicyInput{
			AutoScalingGroupName: aws.String("mine"), PolicyName: aws.String("arn:aws:autoscaling:" + testkit.Region + ":" + account + ":scalingPolicy:1:autoScalingGroupName/demo:policyName/p"),
		})
		return err
	})

	w.user(t, root, "owner", "")
	key := must[*awsiam.ListAccessKeysOutput](t)(root.iam.ListAccessKeys(ctx, &awsiam.ListAccessKeysInput{UserName: aws.String("owner")})).AccessKeyMetadata[0].AccessKeyId
	denied("GetAccessKeyLastUsed", "arn:aws:iam::"+account+":user/owner", "iam:GetAccessKeyLastUsed", func(u caller) error {
		_, err := u.iam.GetAccessKeyLastUsed(ctx, &awsiam.GetAccessKeyLastUsedInput{AccessKeyId: key})
		return err
	})
	if _, err := root.iam.GetAccessKeyLastUsed(ctx, &awsiam.GetAccessKeyLastUsedInput{AccessKeyId: key}); err != nil {
		t.Error(errors.Unwrap(err))
	}
}
