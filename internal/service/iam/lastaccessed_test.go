package iam_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// An accessWorld has a group with a policy and two users, of whom zoe calls IAM.
type accessWorld struct {
	*world
	*testing.T
	root            *awsiam.Client
	clock           *testingclock.FakeClock
	account, policy string
	key             *iamtypes.AccessKey
}

func newAccessWorld(t *testing.T) *accessWorld {
	w := &accessWorld{T: t, clock: testingclock.NewFakeClock(time.Now())}
	w.world = newWorldAt(t, w.clock)
	w.root, w.account = w.world.root(t)
	ctx, team := t.Context(), aws.String("team")
	check(t, errorOf(w.root.CreateGroup(ctx, &awsiam.CreateGroupInput{GroupName: team})))
	w.policy = *testkit.Must(w.root.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("p"), PolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["iam:*","eks:Describe*","lambda:InvokeFunction"],"Resource":"*"},{"Effect":"Deny","Action":"s3:*","Resource":"*"}]}`)}))(t).Policy.Arn
	check(t, errorOf(w.root.AttachGroupPolicy(ctx, &awsiam.AttachGroupPolicyInput{GroupName: team, PolicyArn: &w.policy})))
	for _, name := range []string{"ann", "zoe"} {
		check(t, errorOf(w.root.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name})))
		check(t, errorOf(w.root.AddUserToGroup(ctx, &awsiam.AddUserToGroupInput{GroupName: team, UserName: &name})))
	}
	w.key = testkit.Must(w.root.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("zoe")}))(t).AccessKey
	testkit.Must(w.as(*w.key.AccessKeyId, *w.key.SecretAccessKey).GetUser(ctx, &awsiam.GetUserInput{}))(t)
	return w
}

func (w *accessWorld) arn(resource string) string {
	return "arn:aws:iam::" + w.account + ":" + resource
}

// generate returns the job ID of a new report.
func (w *accessWorld) generate(entity string) *string {
	w.Helper()
	return testkit.Must(w.root.GenerateServiceLastAccessedDetails(w.Context(), &awsiam.GenerateServiceLastAccessedDetailsInput{Arn: &entity}))(w.T).JobId
}

// services lists a report's services: how many principals called each, who was last, and where.
func (w *accessWorld) services(job *string) string {
	w.Helper()
	out := testkit.Must(w.root.GetServiceLastAccessedDetails(w.Context(), &awsiam.GetServiceLastAccessedDetailsInput{JobId: job}))(w.T)
	if out.JobStatus != "COMPLETED" {
		w.Error(out.JobStatus)
	}
	var list []string
	for _, s := range out.ServicesLastAccessed {
		line := fmt.Sprint(*s.ServiceNamespace, " ", *s.TotalAuthenticatedEntities)
		if s.LastAuthenticated != nil {
			line += " " + strings.TrimPrefix(*s.LastAuthenticatedEntity, w.arn("user/")) + " " + *s.LastAuthenticatedRegion
		}
		list = append(list, line)
	}
	return strings.Join(list, ", ")
}

// entities lists a report's entities and which of them called a service.
func (w *accessWorld) entities(job *string, service string) string {
	w.Helper()
	out := testkit.Must(w.root.GetServiceLastAccessedDetailsWithEntities(w.Context(), &awsiam.GetServiceLastAccessedDetailsWithEntitiesInput{JobId: job, ServiceNamespace: &service}))(w.T)
	var list []string
	for _, e := range out.EntityDetailsList {
		line := fmt.Sprint(e.EntityInfo.Type, " ", *e.EntityInfo.Name)
		if e.LastAuthenticated != nil {
			line += " called"
		}
		list = append(list, line)
	}
	return strings.Join(list, ", ")
}

// stop makes IAM store the uses that it remembers.
func (w *accessWorld) stop() {
	w.Helper()
	ending, cancel := context.WithCancel(w.Context())
	cancel()
	check(w.T, w.iam.Run(ending))
}

// TestServiceLastAccessed checks that reports have the services that an entity's policies allow, and who called them last.
func TestServiceLastAccessed(t *testing.T) {
	w := newAccessWorld(t)
	const services = "eks 0, iam 1 zoe us-east-1, lambda 0"
	for _, tt := range []struct{ entity, services, entities string }{
		{w.arn("group/team"), services, "USER ann, USER zoe called"},
		{w.policy, services, "USER ann, USER zoe called"},
		{w.arn("user/zoe"), services, "USER zoe called"},
		{w.arn("user/ann"), "eks 0, iam 0, lambda 0", "USER ann"},
	} {
		job := w.generate(tt.entity)
		if got := w.services(job); got != tt.services {
			t.Errorf("%s: services %s", tt.entity, got)
		}
		if got := w.entities(job, "iam"); got != tt.entities {
			t.Errorf("%s: entities %s", tt.entity, got)
		}
		if got := w.entities(job, "s3"); got != "" {
			t.Errorf("%s: entities of a denied service %s", tt.entity, got)
		}
	}
	ctx := t.Context()
	out := testkit.Must(w.root.GetServiceLastAccessedDetails(ctx, &awsiam.GetServiceLastAccessedDetailsInput{JobId: w.generate(w.policy), MaxItems: aws.Int32(1)}))(t)
	if !out.IsTruncated || len(out.ServicesLastAccessed) != 1 || *out.ServicesLastAccessed[0].ServiceName != "Amazon Elastic Kubernetes Service" {
		t.Errorf("the first page: %+v", out)
	}
	_, err := w.root.GetServiceLastAccessedDetails(ctx, &awsiam.GetServiceLastAccessedDetailsInput{JobId: aws.String("5cbdf6ae-9d5d-4a0d-8b61-b8a2d7c6b7f1")})
	testkit.WantError(t, err, "NoSuchEntity", "")
	_, err = w.root.GenerateServiceLastAccessedDetails(ctx, &awsiam.GenerateServiceLastAccessedDetailsInput{Arn: aws.String(w.arn("user/nobody"))})
	testkit.WantError(t, err, "NoSuchEntity", "")
	_, err = w.root.GenerateServiceLastAccessedDetails(ctx, &awsiam.GenerateServiceLastAccessedDetailsInput{Arn: &w.policy, Granularity: "ACTION_LEVEL"})
	testkit.WantError(t, err, "NotImplemented", "")
}

// Last uses follow a user that gets another name, whether they are stored already or not, and go when it is deleted.
func TestLastAccessedFollowsTheUser(t *testing.T) {
	for _, storedBefore := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored before %t", storedBefore), func(t *testing.T) {
			w, ctx, yan := newAccessWorld(t), t.Context(), aws.String("yan")
			if storedBefore {
				w.stop()
			}
			check(t, errorOf(w.root.UpdateUser(ctx, &awsiam.UpdateUserInput{UserName: aws.String("zoe"), NewUserName: yan})))
			w.stop()
			if got := w.services(w.generate(w.arn("user/yan"))); got != "eks 0, iam 1 yan us-east-1, lambda 0" {
				t.Errorf("after renaming: %s", got)
			}
			stored := func() int {
				return len(store.NewCollection[map[string]any]("iam", "last-use").All(w.Store, store.Scope{Account: w.account}))
			}
			if n := stored(); n != 2 {
				t.Errorf("%d uses are stored, of the key and of IAM", n)
			}
			check(t, errorOf(w.root.DeleteAccessKey(ctx, &awsiam.DeleteAccessKeyInput{UserName: yan, AccessKeyId: w.key.AccessKeyId})))
			check(t, errorOf(w.root.RemoveUserFromGroup(ctx, &awsiam.RemoveUserFromGroupInput{GroupName: aws.String("team"), UserName: yan})))
			check(t, errorOf(w.root.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: yan})))
			if n := stored(); n != 0 {
				t.Errorf("%d uses are left of a deleted user", n)
			}
		})
	}
}

// The last uses of a role go when it is deleted.
func TestLastAccessedOfDeletedRoles(t *testing.T) {
	w, ctx := newAccessWorld(t), t.Context()
	role := testkit.Must(w.root.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("Runner"), AssumeRolePolicyDocument: aws.String(ec2Trust)}))(t).Role
	check(t, errorOf(w.root.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: role.RoleName, PolicyArn: &w.policy})))
	call := &awsapi.Call{Service: "eks", Account: w.account, Region: "eu-west-1", Time: w.clock.Now(), Principal: awsapi.Principal{
		Type: awsapi.AssumedRole, Account: w.account, Name: *role.RoleName, UserID: *role.RoleId + ":session",
	}}
	check(t, w.iam.RecordUse(ctx, call))
	w.stop()
	if got := w.entities(w.generate(*role.Arn), "eks"); got != "ROLE Runner called" {
		t.Errorf("entities %s", got)
	}
	check(t, errorOf(w.root.DetachRolePolicy(ctx, &awsiam.DetachRolePolicyInput{RoleName: role.RoleName, PolicyArn: &w.policy})))
	check(t, errorOf(w.root.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: role.RoleName})))
	check(t, w.iam.RecordUse(ctx, call)) // by a session that goes on
	w.stop()
	for _, u := range store.NewCollection[map[string]any]("iam", "last-use").All(w.Store, store.Scope{Account: w.account}) {
		if u.Value["Owner"] == *role.RoleId {
			t.Errorf("%s is left", u.Key)
		}
	}
}

// Reports can be read for seven days, and an account has room for 500.
func TestLastAccessedReportsGo(t *testing.T) {
	w, ctx := newAccessWorld(t), t.Context()
	read := func(job *string) error {
		_, err := w.root.GetServiceLastAccessedDetails(ctx, &awsiam.GetServiceLastAccessedDetailsInput{JobId: job})
		return err
	}
	old := w.generate(w.policy)
	w.clock.Step(7*24*time.Hour - 2*time.Second)
	check(t, read(old))
	w.clock.Step(2 * time.Second)
	testkit.WantError(t, read(old), "NoSuchEntity", "")

	first := w.generate(w.policy)
	w.clock.Step(time.Second)
	second := w.generate(w.policy)
	for range 498 {
		w.generate(w.policy)
	}
	check(t, read(first))
	w.generate(w.policy)
	testkit.WantError(t, read(first), "NoSuchEntity", "")
	check(t, read(second))
	if n := len(store.NewCollection[map[string]any]("iam", "access-report").All(w.Store, store.Scope{Account: w.account})); n != 500 {
		t.Errorf("%d reports are stored", n)
	}
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
