package iam_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/google/go-cmp/cmp"
)

func TestAccountAlias(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	one, account := w.root(t)
	two, _ := w.root(t)
	alias := aws.String("acme-" + account)
	create := func(c *awsiam.Client, alias *string) error {
		_, err := c.CreateAccountAlias(ctx, &awsiam.CreateAccountAliasInput{AccountAlias: alias})
		return err
	}
	for _, bad := range []string{"ab", "-acme", "acme-", "ac--me", "Acme", strings.Repeat("a", 64)} {
		testkit.WantError(t, create(one, &bad), "ValidationError", "")
	}
	check(t, create(one, alias))
	testkit.WantError(t, create(two, alias), "EntityAlreadyExists", "The account alias "+*alias+" already exists.")
	check(t, create(one, aws.String(*alias+"-2"))) // replaces the first
	got := testkit.Must(one.ListAccountAliases(ctx, &awsiam.ListAccountAliasesInput{}))(t)
	if diff := cmp.Diff([]string{*alias + "-2"}, got.AccountAliases); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	check(t, create(two, alias))
	_, err := one.DeleteAccountAlias(ctx, &awsiam.DeleteAccountAliasInput{AccountAlias: alias})
	testkit.WantError(t, err, "NoSuchEntity", "")
}

func TestPasswords(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	ann := aws.String("ann")
	_, err := c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: ann})
	check(t, err)
	_, err = c.GetAccountPasswordPolicy(ctx, &awsiam.GetAccountPasswordPolicyInput{})
	testkit.WantError(t, err, "NoSuchEntity", "The Password Policy with domain name "+account+" cannot be found.")
	_, err = c.GetLoginProfile(ctx, &awsiam.GetLoginProfileInput{UserName: ann})
	testkit.WantError(t, err, "NoSuchEntity", "Login Profile for User ann cannot be found.")
	create := func(password string) error {
		_, err := c.CreateLoginProfile(ctx, &awsiam.CreateLoginProfileInput{UserName: ann, Password: &password, PasswordResetRequired: true})
		return err
	}
	testkit.WantError(t, create("aB1"), "PasswordPolicyViolation", "Password should have a minimum length of 8")
	testkit.WantError(t, create("abcdefgh1"), "PasswordPolicyViolation", "Password should meet 1 more of the following requirements: Password should have at least one uppercase letter, Password should have at least one symbol")
	_, err = c.UpdateAccountPasswordPolicy(ctx, &awsiam.UpdateAccountPasswordPolicyInput{MinimumPasswordLength: aws.Int32(10), RequireSymbols: true, MaxPasswordAge: aws.Int32(90)})
	check(t, err)
	testkit.WantError(t, create("abcdefgH1"), "PasswordPolicyViolation", "Password should have a minimum length of 10")
	testkit.WantError(t, create("abcdefgH12"), "PasswordPolicyViolation", "Password should have at least one symbol")
	err = create("secret\x00\x01")
	testkit.WantError(t, err, "ValidationError", "")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the answer repeats the password: %v", err)
	}
	check(t, create("abcdefgH1!"))
	testkit.WantError(t, create("abcdefgH1!"), "EntityAlreadyExists", "Login Profile for user ann already exists.")
	p := testkit.Must(c.GetLoginProfile(ctx, &awsiam.GetLoginProfileInput{UserName: ann}))(t).LoginProfile
	if *p.UserName != "ann" || !p.PasswordResetRequired {
		t.Errorf("%+v", p)
	}
	policy := testkit.Must(c.GetAccountPasswordPolicy(ctx, &awsiam.GetAccountPasswordPolicyInput{}))(t).PasswordPolicy
	if *policy.MinimumPasswordLength != 10 || !policy.ExpirePasswords || !policy.RequireSymbols || policy.RequireNumbers {
		t.Errorf("%+v", policy)
	}
	_, err = c.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: ann})
	testkit.WantError(t, err, "DeleteConflict", "Cannot delete entity, must delete login profile first.")
	_, err = c.DeleteLoginProfile(ctx, &awsiam.DeleteLoginProfileInput{UserName: ann})
	check(t, err)
	_, err = c.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: ann})
	check(t, err)
}

func TestLastUsed(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, _ := w.root(t)
	ann := aws.String("ann")
	_, err := c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: ann})
	check(t, err)
	key := testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: ann}))(t).AccessKey
	last := func() *iamtypes.AccessKeyLastUsed {
		t.Helper()
		out := testkit.Must(c.GetAccessKeyLastUsed(ctx, &awsiam.GetAccessKeyLastUsedInput{AccessKeyId: key.AccessKeyId}))(t)
		if *out.UserName != "ann" {
			t.Errorf("the key is %s's", *out.UserName)
		}
		return out.AccessKeyLastUsed
	}
	if got := last(); got.LastUsedDate != nil || *got.ServiceName != "N/A" || *got.Region != "N/A" {
		t.Errorf("never used: %+v", got)
	}
	_, err = w.as(*key.AccessKeyId, *key.SecretAccessKey).GetUser(ctx, &awsiam.GetUserInput{})
	testkit.WantError(t, err, "AccessDenied", "") // a refused call counts as a use
	used := last()
	if used.LastUsedDate == nil || *used.ServiceName != "iam" || *used.Region != "us-east-1" {
		t.Fatalf("used: %+v", used)
	}
	// The use is stored when the service stops.
	ending, cancel := context.WithCancel(ctx)
	cancel()
	check(t, w.iam.Run(ending))
	if got := last(); !got.LastUsedDate.Equal(*used.LastUsedDate) {
		t.Errorf("written down: %+v", got)
	}
	// A deactivated key is rejected at the next request.
	_, err = c.UpdateAccessKey(ctx, &awsiam.UpdateAccessKeyInput{UserName: ann, AccessKeyId: key.AccessKeyId, Status: iamtypes.StatusTypeInactive})
	check(t, err)
	_, err = w.as(*key.AccessKeyId, *key.SecretAccessKey).GetUser(ctx, &awsiam.GetUserInput{})
	testkit.WantError(t, err, "InvalidClientTokenId", "The security token included in the request is invalid.")
}

func TestAuthorizationDetails(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	local := testkit.Must(c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("local"), PolicyDocument: aws.String(readerDoc)}))(t).Policy.Arn
	read := aws.String("arn:aws:iam::aws:policy/IAMReadOnlyAccess")
	_, err := c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ann"), PermissionsBoundary: read})
	check(t, err)
	_, err = c.CreateGroup(ctx, &awsiam.CreateGroupInput{GroupName: aws.String("devs")})
	check(t, err)
	_, err = c.AddUserToGroup(ctx, &awsiam.AddUserToGroupInput{GroupName: aws.String("devs"), UserName: aws.String("ann")})
	check(t, err)
	_, err = c.AttachGroupPolicy(ctx, &awsiam.AttachGroupPolicyInput{GroupName: aws.String("devs"), PolicyArn: local})
	check(t, err)
	_, err = c.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("node"), AssumeRolePolicyDocument: aws.String(ec2Trust)})
	check(t, err)
	_, err = c.PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{RoleName: aws.String("node"), PolicyName: aws.String("p"), PolicyDocument: aws.String(readerDoc)})
	check(t, err)
	_, err = c.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("node")})
	check(t, err)
	_, err = c.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("node"), RoleName: aws.String("node")})
	check(t, err)

	var got []string
	pages := awsiam.NewGetAccountAuthorizationDetailsPaginator(c, &awsiam.GetAccountAuthorizationDetailsInput{MaxItems: aws.Int32(2)})
	for pages.HasMorePages() {
		out := testkit.Must(pages.NextPage(ctx))(t)
		for _, u := range out.UserDetailList {
			got = append(got, "user "+*u.UserName+" in "+u.GroupList[0]+" bounded by "+*u.PermissionsBoundary.PermissionsBoundaryArn)
		}
		for _, g := range out.GroupDetailList {
			got = append(got, "group "+*g.GroupName+" with "+*g.AttachedManagedPolicies[0].PolicyName)
		}
		for _, r := range out.RoleDetailList {
			got = append(got, "role "+*r.RoleName+" with "+*r.RolePolicyList[0].PolicyName+" in "+*r.InstanceProfileList[0].InstanceProfileName)
		}
		for _, p := range out.Policies {
			got = append(got, "policy "+*p.Arn+" with "+*p.PolicyVersionList[0].VersionId)
		}
	}
	want := []string{
		"user ann in devs bounded by " + *read, "group devs with local", "role node with p in node",
		"policy arn:aws:iam::" + account + ":policy/local with v1",
	}
	if diff := cmp.Diff(want, got[:4]); diff != "" || len(got) != 5 || !strings.HasPrefix(got[4], "policy "+*read) {
		t.Errorf("(-want +got)\n%s\n%v", diff, got)
	}
	out := testkit.Must(c.GetAccountAuthorizationDetails(ctx, &awsiam.GetAccountAuthorizationDetailsInput{Filter: []iamtypes.EntityType{iamtypes.EntityTypeRole}}))(t)
	if len(out.RoleDetailList) != 1 || len(out.UserDetailList)+len(out.GroupDetailList)+len(out.Policies) != 0 {
		t.Errorf("filtered: %+v", out)
	}
}

func TestGroupsAreRenamedWithTheirUsers(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	for _, g := range []string{"devs", "ops"} {
		_, err := c.CreateGroup(ctx, &awsiam.CreateGroupInput{GroupName: &g})
		check(t, err)
	}
	_, err := c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ann")})
	check(t, err)
	_, err = c.AddUserToGroup(ctx, &awsiam.AddUserToGroupInput{GroupName: aws.String("devs"), UserName: aws.String("ann")})
	check(t, err)
	_, err = c.UpdateGroup(ctx, &awsiam.UpdateGroupInput{GroupName: aws.String("devs"), NewGroupName: aws.String("ops")})
	testkit.WantError(t, err, "EntityAlreadyExists", "Group with name ops already exists.")
	_, err = c.UpdateGroup(ctx, &awsiam.UpdateGroupInput{GroupName: aws.String("devs"), NewGroupName: aws.String("makers"), NewPath: aws.String("/x/")})
	check(t, err)
	got := testkit.Must(c.ListGroupsForUser(ctx, &awsiam.ListGroupsForUserInput{UserName: aws.String("ann")}))(t).Groups
	if len(got) != 1 || *got[0].Arn != "arn:aws:iam::"+account+":group/x/makers" {
		t.Errorf("%+v", got)
	}
}

func TestUsersHaveNoOtherCredentials(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, _ := w.root(t)
	nobody := aws.String("nobody")
	for name, list := range map[string]func() error{
		"mfa": func() error {
			_, err := c.ListMFADevices(ctx, &awsiam.ListMFADevicesInput{UserName: nobody})
			return err
		},
		"ssh": func() error {
			_, err := c.ListSSHPublicKeys(ctx, &awsiam.ListSSHPublicKeysInput{UserName: nobody})
			return err
		},
		"certificates": func() error {
			_, err := c.ListSigningCertificates(ctx, &awsiam.ListSigningCertificatesInput{UserName: nobody})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.WantError(t, list(), "NoSuchEntity", "The user with name nobody cannot be found.")
		})
	}
	if out := testkit.Must(c.ListMFADevices(ctx, &awsiam.ListMFADevicesInput{}))(t); len(out.MFADevices) != 0 {
		t.Errorf("%+v", out)
	}
}

func TestPoliciesGrantingServiceAccess(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	_, err := c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ann"), Path: aws.String("/a/")})
	check(t, err)
	_, err = c.CreateGroup(ctx, &awsiam.CreateGroupInput{GroupName: aws.String("devs")})
	check(t, err)
	_, err = c.AddUserToGroup(ctx, &awsiam.AddUserToGroupInput{GroupName: aws.String("devs"), UserName: aws.String("ann")})
	check(t, err)
	_, err = c.PutGroupPolicy(ctx, &awsiam.PutGroupPolicyInput{GroupName: aws.String("devs"), PolicyName: aws.String("read"), PolicyDocument: aws.String(readerDoc)})
	check(t, err)
	_, err = c.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: aws.String("ann"), PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")})
	check(t, err)
	out := testkit.Must(c.ListPoliciesGrantingServiceAccess(ctx, &awsiam.ListPoliciesGrantingServiceAccessInput{
		Arn: aws.String("arn:aws:iam::" + account + ":user/a/ann"), ServiceNamespaces: []string{"iam", "ec2", "sqs"},
	}))(t)
	var got []string
	for _, e := range out.PoliciesGrantingServiceAccess {
		for _, p := range e.Policies {
			got = append(got, *e.ServiceNamespace+": "+string(p.PolicyType)+" "+*p.PolicyName+" "+aws.ToString(p.EntityName)+string(p.EntityType)+aws.ToString(p.PolicyArn))
		}
	}
	want := []string{
		"ec2: MANAGED AmazonEKSClusterPolicy arn:aws:iam::aws:policy/AmazonEKSClusterPolicy",
		"iam: MANAGED AmazonEKSClusterPolicy arn:aws:iam::aws:policy/AmazonEKSClusterPolicy", "iam: INLINE read devsGROUP",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
