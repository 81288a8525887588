package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsorg "github.com/aws/aws-sdk-go-v2/service/organizations"
	orgtypes "github.com/aws/aws-sdk-go-v2/service/organizations/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestOrganizationsBindMembers: policies of an organization restrict role sessions of its member, with AWS's text and
// an event in CloudTrail, and not the management account.
func TestOrganizationsBindMembers(t *testing.T) {
	ctx, info := t.Context(), startDaemon(t)
	admin := configFor(info, "test", "test")
	c := awsorg.NewFromConfig(admin)
	org := testkit.Must(c.CreateOrganization(ctx, &awsorg.CreateOrganizationInput{}))(t).Organization
	root := testkit.Must(c.ListRoots(ctx, &awsorg.ListRootsInput{}))(t).Roots[0].Id
	member := *testkit.Must(c.CreateAccount(ctx, &awsorg.CreateAccountInput{AccountName: aws.String("dev"), Email: aws.String("dev@example.com")}))(t).CreateAccountStatus.AccountId
	control := func(name string, kind orgtypes.PolicyType, statement string) {
		t.Helper()
		testkit.Must(c.EnablePolicyType(ctx, &awsorg.EnablePolicyTypeInput{RootId: root, PolicyType: kind}))(t)
		p := testkit.Must(c.CreatePolicy(ctx, &awsorg.CreatePolicyInput{Name: &name, Description: aws.String(""), Type: kind, Content: aws.String(`{"Version":"2012-10-17","Statement":[` + statement + `]}`)}))(t)
		testkit.Must(c.AttachPolicy(ctx, &awsorg.AttachPolicyInput{PolicyId: p.Policy.PolicySummary.Id, TargetId: root}))(t)
	}
	control("guardrails", orgtypes.PolicyTypeServiceControlPolicy,
		`{"Effect":"Deny","Action":["sqs:ListQueues","ec2:CreateVpc","ec2:RunInstances"],"Resource":"*","Condition":{"StringEquals":{"aws:PrincipalOrgID":"`+*org.Id+`"}}}`)
	// A typical data perimeter keeps everyone outside the organization out.
	control("perimeter", orgtypes.PolicyTypeResourceControlPolicy,
		`{"Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"*","Condition":{"StringNotEqualsIfExists":{"aws:PrincipalOrgID":"`+*org.Id+`"},"BoolIfExists":{"aws:PrincipalIsAWSService":"false"}}}`)

	made := testkit.Must(awssts.NewFromConfig(admin).AssumeRole(ctx, &awssts.AssumeRoleInput{
		RoleArn: aws.String("arn:aws:iam::" + member + ":role/OrganizationAccountAccessRole"), RoleSessionName: aws.String("me"),
	}))(t).Credentials
	session := configFor(info, "", "")
	session.Credentials = credentials.NewStaticCredentialsProvider(*made.AccessKeyId, *made.SecretAccessKey, *made.SessionToken)

	// The role session, and the management account, whose ListQueues is allowed.
	who := "arn:aws:sts::" + member + ":assumed-role/OrganizationAccountAccessRole/me"
	queues := awssqs.NewFromConfig(session)
	_, err := queues.ListQueues(ctx, &awssqs.ListQueuesInput{})
	testkit.WantError(t, err, "AccessDenied", "User: "+who+" is not authorized to perform: sqs:ListQueues on resource: * with an explicit deny in a service control policy")
	if _, err := awssqs.NewFromConfig(admin).ListQueues(ctx, &awssqs.ListQueuesInput{}); err != nil {
		t.Errorf("the management account is bound: %v", err)
	}
	// EC2's denials are encoded, and the event has them.
	_, err = awsec2.NewFromConfig(session).CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.9.0.0/16")})
	testkit.WantErrorWith(t, err, "UnauthorizedOperation", "with an explicit deny in a service control policy. Encoded authorization failure message: ")
	e := events(t, session, "CreateVpc", 1)[0]
	if e.ErrorCode != "Client.UnauthorizedOperation" || e.UserIdentity.ARN != who || !strings.Contains(e.UserIdentity.SessionContext.SessionIssuer.ARN, "OrganizationAccountAccessRole") {
		t.Errorf("the event of the denial: %+v", e)
	}

	// A fleet that launches as its user is denied, one that launches under its service-linked role is not.
	ec2 := awsec2.NewFromConfig(session)
	testkit.Must(ec2.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("template"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
		ImageId: aws.String("resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"), InstanceType: ec2types.InstanceTypeT3Micro,
	}}))(t)
	fleet := func(kind ec2types.FleetType) *awsec2.CreateFleetOutput {
		return testkit.Must(ec2.CreateFleet(ctx, &awsec2.CreateFleetInput{
			Type:                        kind,
			TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand},
			LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
				LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("template"), Version: aws.String("$Latest")},
				Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{AvailabilityZone: aws.String("us-east-1a")}},
			}},
		}))(t)
	}
	if out := fleet(ec2types.FleetTypeInstant); len(out.Errors) != 1 || !strings.Contains(*out.Errors[0].ErrorMessage, "with an explicit deny in a service control policy") {
		t.Errorf("as the session: %+v", out)
	}
	maintained := fleet(ec2types.FleetTypeMaintain).FleetId
	testkit.Eventually(t, 10*time.Second, func() error {
		out, err := ec2.DescribeFleetInstances(ctx, &awsec2.DescribeFleetInstancesInput{FleetId: maintained})
		if err == nil && len(out.ActiveInstances) != 1 {
			err = fmt.Errorf("%d instances under the service-linked role, want 1", len(out.ActiveInstances))
		}
		return err
	})

	// A queue whose policy lets everybody in: the organization's accounts come in, others do not.
	queue := testkit.Must(queues.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: aws.String("open"), Attributes: map[string]string{
		string(sqstypes.QueueAttributeNamePolicy): `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage","Resource":"*"}]}`,
	}}))(t).QueueUrl
	send := func(account string) error {
		_, err := awssqs.NewFromConfig(configFor(info, account, "test")).SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("m")})
		return err
	}
	if err := send("test"); err != nil {
		t.Errorf("from the organization: %v", err)
	}
	testkit.WantErrorWith(t, send("999988887777"), "AccessDenied", "with an explicit deny in a resource control policy")
}
