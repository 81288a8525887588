package iam_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestServiceLastAccessed checks that reports have the services that an entity's policies allow, and who called them last.
func TestServiceLastAccessed(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c, account := w.root(t)
	team, ann, zoe := aws.String("team"), aws.String("ann"), aws.String("zoe")
	check(t, errorOf(c.CreateGroup(ctx, &awsiam.CreateGroupInput{GroupName: team})))
	policy := testkit.Must(c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("p"), PolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["iam:*","eks:Describe*","lambda:InvokeFunction"],"Resource":"*"},{"Effect":"Deny","Action":"s3:*","Resource":"*"}]}`)}))(t).Policy.Arn
	check(t, errorOf(c.AttachGroupPolicy(ctx, &awsiam.AttachGroupPolicyInput{GroupName: team, PolicyArn: policy})))
	for _, name := range []*string{ann, zoe} {
		check(t, errorOf(c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: name})))
		check(t, errorOf(c.AddUserToGroup(ctx, &awsiam.AddUserToGroupInput{GroupName: team, UserName: name})))
	}
	key := testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: zoe}))(t).AccessKey
	testkit.Must(w.as(*key.AccessKeyId, *key.SecretAccessKey).GetUser(ctx, &awsiam.GetUserInput{}))(t)

	userARN := "arn:aws:iam::" + account + ":user/"
	for entity, want := range map[string]string{
		"arn:aws:iam::" + account + ":group/team": "eks 0, iam 1 zoe us-east-1, lambda 0",
		*policy:         "eks 0, iam 1 zoe us-east-1, lambda 0",
		userARN + "zoe": "eks 0, iam 1 zoe us-east-1, lambda 0",
		userARN + "ann": "eks 0, iam 0, lambda 0",
	} {
		t.Run(entity[strings.LastIndexByte(entity, ':')+1:], func(t *testing.T) {
			job := testkit.Must(c.GenerateServiceLastAccessedDetails(ctx, &awsiam.GenerateServiceLastAccessedDetailsInput{Arn: &entity}))(t).JobId
			out := testkit.Must(c.GetServiceLastAccessedDetails(ctx, &awsiam.GetServiceLastAccessedDetailsInput{JobId: job}))(t)
			var got []string
			for _, s := range out.ServicesLastAccessed {
				line := *s.ServiceNamespace + " " + string(rune('0'+*s.TotalAuthenticatedEntities))
				if s.LastAuthenticated != nil {
					line += " " + strings.TrimPrefix(*s.LastAuthenticatedEntity, userARN) + " " + *s.LastAuthenticatedRegion
				}
				got = append(got, line)
			}
			if strings.Join(got, ", ") != want || out.JobStatus != "COMPLETED" || *out.ServicesLastAccessed[0].ServiceName != "Amazon Elastic Kubernetes Service" {
				t.Errorf("%s, %q", out.JobStatus, got)
			}
			with := testkit.Must(c.GetServiceLastAccessedDetailsWithEntities(ctx, &awsiam.GetServiceLastAccessedDetailsWithEntitiesInput{JobId: job, ServiceNamespace: aws.String("iam")}))(t)
			for _, e := range with.EntityDetailsList {
				if called := *e.EntityInfo.Name == "zoe"; called != (e.LastAuthenticated != nil) || e.EntityInfo.Type != "USER" {
					t.Errorf("%+v", e)
				}
			}
		})
	}
	_, err := c.GetServiceLastAccessedDetails(ctx, &awsiam.GetServiceLastAccessedDetailsInput{JobId: aws.String("5cbdf6ae-9d5d-4a0d-8b61-b8a2d7c6b7f1")})
	testkit.WantError(t, err, "NoSuchEntity", "")
	missing := userARN + "nobody"
	_, err = c.GenerateServiceLastAccessedDetails(ctx, &awsiam.GenerateServiceLastAccessedDetailsInput{Arn: &missing})
	testkit.WantError(t, err, "NoSuchEntity", "")
	_, err = c.GenerateServiceLastAccessedDetails(ctx, &awsiam.GenerateServiceLastAccessedDetailsInput{Arn: policy, Granularity: "ACTION_LEVEL"})
	testkit.WantError(t, err, "NotImplemented", "")
}

func TestSecurityTokenServicePreferences(t *testing.T) {
	c, _ := newWorld(t).root(t)
	ctx := t.Context()
	version := func() int32 {
		return testkit.Must(c.GetAccountSummary(ctx, &awsiam.GetAccountSummaryInput{}))(t).SummaryMap["GlobalEndpointTokenVersion"]
	}
	if got := version(); got != 1 {
		t.Errorf("at first: %d", got)
	}
	check(t, errorOf(c.SetSecurityTokenServicePreferences(ctx, &awsiam.SetSecurityTokenServicePreferencesInput{GlobalEndpointTokenVersion: "v2Token"})))
	if got := version(); got != 2 {
		t.Errorf("version %d", got)
	}
}

// Answers as LocalStack's tests recorded them from AWS
// (https://github.com/localstack/localstack, tests/aws/services/iam/test_iam.snapshot.json).
func TestCreationsAsRecorded(t *testing.T) {
	c, _ := newWorld(t).root(t)
	ctx := t.Context()
	role := testkit.Must(c.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("r"), AssumeRolePolicyDocument: aws.String(ec2Trust)}))(t).Role
	if role.MaxSessionDuration != nil {
		t.Errorf("CreateRole answers the maximum session duration %d", *role.MaxSessionDuration)
	}
	user := testkit.Must(c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("u"), PermissionsBoundary: aws.String("arn:aws:iam::aws:policy/ReadOnlyAccess")}))(t).User
	if b := user.PermissionsBoundary; b == nil || b.PermissionsBoundaryType != "Policy" {
		t.Errorf("the new user's boundary: %+v", b)
	}
	linked := testkit.Must(c.CreateServiceLinkedRole(ctx, &awsiam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String("elasticfilesystem.amazonaws.com")}))(t).Role
	if *linked.RoleName != "AWSServiceRoleForAmazonElasticFileSystem" {
		t.Errorf("the role of EFS is %s", *linked.RoleName)
	}
}
