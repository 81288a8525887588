package app

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestFleetsCallRunInstances: an instant fleet launches as its user, others under their
// service-linked role. Policies, faults and CloudTrail see these calls.
func TestFleetsCallRunInstances(t *testing.T) {
	ctx, info := t.Context(), startDaemon(t)
	admin := configFor(info, "test", "test")
	users, daemon := awsiam.NewFromConfig(admin), &api.Client{Daemon: info}
	policy := func(statements string) {
		t.Helper()
		testkit.Must(users.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{
			UserName: aws.String("fleets"), PolicyName: aws.String("p"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[` + statements + `]}`),
		}))(t)
	}
	const all, noRole = `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`, "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
	testkit.Must(users.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("fleets")}))(t)
	policy(all)
	key := testkit.Must(users.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("fleets")}))(t).AccessKey
	user := awsec2.NewFromConfig(configFor(info, *key.AccessKeyId, *key.SecretAccessKey))
	testkit.Must(user.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("template"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
		ImageId: aws.String("resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"), InstanceType: ec2types.InstanceTypeT3Micro,
	}}))(t)
	create := func(kind ec2types.FleetType) (*awsec2.CreateFleetOutput, error) {
		return user.CreateFleet(ctx, &awsec2.CreateFleetInput{
			Type:                        kind,
			TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand},
			LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
				LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("template"), Version: aws.String("$Latest")},
				Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{AvailabilityZone: aws.String("us-east-1a")}},
			}},
		})
	}
	throttle := func(count int64) {
		t.Helper()
		testkit.Must(daemon.SetFault(ctx, fault.Fault{Kind: fault.Throttle, Account: awsapi.DefaultAccount, Region: "us-east-1", Operation: "ec2:RunInstances", Count: count}))(t)
	}
	last := func(name string, n int) trailEvent {
		t.Helper()
		return events(t, admin, name, n)[0]
	}

	// As its user, after two throttles.
	throttle(2)
	if out := testkit.Must(create(ec2types.FleetTypeInstant))(t); len(out.Instances) != 1 || len(out.Errors) != 0 {
		t.Errorf("throttled twice: instances %v, errors %v", out.Instances, out.Errors)
	}
	e := last("RunInstances", 3)
	if id := e.UserIdentity; id.Type != "IAMUser" || id.UserName != "fleets" || id.InvokedBy != "ec2fleet.amazonaws.com" || e.SourceIPAddress != id.InvokedBy || e.UserAgent != id.InvokedBy || e.ErrorCode != "" {
		t.Errorf("launched by %+v from %s by %s: %s", id, e.SourceIPAddress, e.UserAgent, e.ErrorCode)
	}
	// For good: the fleet says so of its pool, as of all that EC2 refuses it.
	throttle(100)
	if out := testkit.Must(create(ec2types.FleetTypeInstant))(t); len(out.Instances) != 0 || len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "RequestLimitExceeded" {
		t.Errorf("throttled: instances %v, errors %v", out.Instances, out.Errors)
	}
	policy(all + `,{"Effect":"Deny","Action":"ec2:RunInstances","Resource":"*","Condition":{"ForAnyValue:StringEquals":{"aws:CalledVia":"ec2fleet.amazonaws.com"}}}`)
	testkit.Must(daemon.ClearFaults(ctx, api.Place{Account: awsapi.DefaultAccount, Region: "us-east-1"}, fault.Throttle))(t)
	if out := testkit.Must(create(ec2types.FleetTypeInstant))(t); len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "UnauthorizedOperation" || !strings.Contains(*out.Errors[0].ErrorMessage, "Encoded authorization failure message: ") {
		t.Errorf("denied: errors %v", out.Errors)
	}
	if e := last("RunInstances", 8); e.ErrorCode != "Client.UnauthorizedOperation" || e.UserIdentity.InvokedBy != "ec2fleet.amazonaws.com" {
		t.Errorf("denied: %+v", e)
	}

	// Under the service-linked role, which the first such fleet makes for its user.
	_, err := create(ec2types.FleetTypeMaintain)
	testkit.WantErrorWith(t, err, noRole, "The provided credentials do not have permission to create the service-linked role for EC2 Fleet.")
	policy(all + `,{"Effect":"Allow","Action":"iam:CreateServiceLinkedRole","Resource":"arn:aws:iam::*:role/aws-service-role/ec2fleet.amazonaws.com/AWSServiceRoleForEC2Fleet","Condition":{"StringEquals":{"iam:AWSServiceName":"ec2fleet.amazonaws.com"}}}`)
	fleet := testkit.Must(create(ec2types.FleetTypeMaintain))(t).FleetId
	if e := last("CreateServiceLinkedRole", 2); e.ErrorCode != "" || e.UserIdentity.UserName != "fleets" || e.UserIdentity.InvokedBy != "ec2.amazonaws.com" || e.RequestParameters["aWSServiceName"] != "ec2fleet.amazonaws.com" {
		t.Errorf("the role was made by %+v", e)
	}
	if e := last("RunInstances", 9); e.UserIdentity.ARN != "arn:aws:sts::000000000000:assumed-role/AWSServiceRoleForEC2Fleet/EC2Fleet" || e.UserIdentity.InvokedBy != "ec2fleet.amazonaws.com" {
		t.Errorf("launched by %+v", e.UserIdentity)
	}
	if got := deleteServiceRole(t, users, "AWSServiceRoleForEC2Fleet"); got != "FAILED" {
		t.Errorf("the role of a fleet in use is deleted: %s", got)
	}
	testkit.Must(user.DeleteFleets(ctx, &awsec2.DeleteFleetsInput{FleetIds: []string{*fleet}, TerminateInstances: aws.Bool(true)}))(t)
}

// deleteServiceRole tries to delete a service-linked role and returns how that ended.
func deleteServiceRole(t *testing.T, c *awsiam.Client, name string) string {
	t.Helper()
	task := testkit.Must(c.DeleteServiceLinkedRole(t.Context(), &awsiam.DeleteServiceLinkedRoleInput{RoleName: &name}))(t).DeletionTaskId
	return string(testkit.Must(c.GetServiceLinkedRoleDeletionStatus(t.Context(), &awsiam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: task}))(t).Status)
}
