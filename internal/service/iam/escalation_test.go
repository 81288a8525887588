package iam_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A user who may read everything and put roles into instance profiles gains no other permissions by
// that.
func TestNobodyRaisesOneself(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	admin := aws.String("arn:aws:iam::aws:policy/AdministratorAccess")
	ann := aws.String("ann")
	_, err := c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: ann, PermissionsBoundary: admin})
	check(t, err)
	_, err = c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("boss")})
	check(t, err)
	_, err = c.CreateGroup(ctx, &awsiam.CreateGroupInput{GroupName: aws.String("bosses")})
	check(t, err)
	_, err = c.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("node"), AssumeRolePolicyDocument: aws.String(ec2Trust)})
	check(t, err)
	_, err = c.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("node")})
	check(t, err)
	own := testkit.Must(c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("own"), PolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["iam:Get*","iam:List*","iam:AddRoleToInstanceProfile"],"Resource":"*"}]}`)}))(t).Policy.Arn
	all := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`
	_, err = c.CreatePolicyVersion(ctx, &awsiam.CreatePolicyVersionInput{PolicyArn: own, PolicyDocument: &all})
	check(t, err)
	_, err = c.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: ann, PolicyArn: own})
	check(t, err)
	key := testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: ann}))(t).AccessKey
	a := w.as(*key.AccessKeyId, *key.SecretAccessKey)
	_, err = a.GetUser(ctx, &awsiam.GetUserInput{})
	check(t, err)

	denied := func(action, resource string) string {
		return "User: arn:aws:iam::" + account + ":user/ann is not authorized to perform: iam:" + action + " on resource: " + resource +
			" because no identity-based policy allows the iam:" + action + " action"
	}
	user, role := "arn:aws:iam::"+account+":user/", "arn:aws:iam::"+account+":role/node"
	for _, tt := range []struct {
		action, resource string
		call             func() error
	}{
		{"SetDefaultPolicyVersion", "policy " + *own, func() error {
			_, err := a.SetDefaultPolicyVersion(ctx, &awsiam.SetDefaultPolicyVersionInput{PolicyArn: own, VersionId: aws.String("v2")})
			return err
		}},
		{"CreatePolicyVersion", "policy " + *own, func() error {
			_, err := a.CreatePolicyVersion(ctx, &awsiam.CreatePolicyVersionInput{PolicyArn: own, PolicyDocument: &all, SetAsDefault: true})
			return err
		}},
		{"CreateAccessKey", "user boss", func() error {
			_, err := a.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("boss")})
			return err
		}},
		{"CreateLoginProfile", "user boss", func() error {
			_, err := a.CreateLoginProfile(ctx, &awsiam.CreateLoginProfileInput{UserName: aws.String("boss"), Password: aws.String("abcdefG1!")})
			return err
		}},
		{"AttachUserPolicy", "user ann", func() error {
			_, err := a.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: ann, PolicyArn: admin})
			return err
		}},
		{"PutUserPolicy", "user ann", func() error {
			_, err := a.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: ann, PolicyName: aws.String("p"), PolicyDocument: &all})
			return err
		}},
		{"DeleteUserPermissionsBoundary", "user ann", func() error {
			_, err := a.DeleteUserPermissionsBoundary(ctx, &awsiam.DeleteUserPermissionsBoundaryInput{UserName: ann})
			return err
		}},
		{"AddUserToGroup", "group bosses", func() error {
			_, err := a.AddUserToGroup(ctx, &awsiam.AddUserToGroupInput{UserName: ann, GroupName: aws.String("bosses")})
			return err
		}},
		{"UpdateAssumeRolePolicy", "role node", func() error {
			_, err := a.UpdateAssumeRolePolicy(ctx, &awsiam.UpdateAssumeRolePolicyInput{RoleName: aws.String("node"), PolicyDocument: aws.String(ec2Trust)})
			return err
		}},
		{"PassRole", role, func() error {
			_, err := a.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("node"), RoleName: aws.String("node")})
			return err
		}},
	} {
		t.Run(tt.action, func(t *testing.T) {
			resource := map[string]string{
				"user boss": user + "boss", "user ann": user + "ann", "group bosses": "arn:aws:iam::" + account + ":group/bosses", "role node": role,
			}[tt.resource]
			if resource == "" {
				resource = tt.resource
			}
			testkit.WantError(t, tt.call(), "AccessDenied", denied(tt.action, resource))
		})
	}
}
