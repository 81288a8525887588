package iam_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestCustomerManagedPolicies(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	arn := aws.String("arn:aws:iam::" + account + ":policy/team/reader")
	_, err := c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("reader"), PolicyDocument: aws.String(strings.Replace(readerDoc, "2012-10-17", "2008-10-17", 1))})
	testkit.WantError(t, err, "MalformedPolicyDocument", "Policy document must be version 2012-10-17 or greater.")
	made := testkit.Must(c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("reader"), Path: aws.String("/team/"), PolicyDocument: aws.String(readerDoc)}))(t).Policy
	if *made.Arn != *arn || *made.DefaultVersionId != "v1" {
		t.Errorf("made %s %s", *made.Arn, *made.DefaultVersionId)
	}
	_, err = c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("Reader"), PolicyDocument: aws.String(readerDoc)})
	testkit.WantError(t, err, "EntityAlreadyExists", "A policy called Reader already exists. Duplicate names are not allowed.")
	_, err = c.GetPolicy(ctx, &awsiam.GetPolicyInput{PolicyArn: aws.String("arn:aws:iam::" + account + ":policy/reader")})
	testkit.WantError(t, err, "NoSuchEntity", "Policy arn:aws:iam::"+account+":policy/reader was not found.")

	for usage, want := range map[iamtypes.PolicyUsageType]int{"": 1, iamtypes.PolicyUsageTypePermissionsPolicy: 1, iamtypes.PolicyUsageTypePermissionsBoundary: 0} {
		list := testkit.Must(c.ListPolicies(ctx, &awsiam.ListPoliciesInput{Scope: iamtypes.PolicyScopeTypeLocal, PolicyUsageFilter: usage}))(t).Policies
		if len(list) != want {
			t.Errorf("the filter %q returns %d policies of one that is not attached", usage, len(list))
		}
	}
	if list := testkit.Must(c.ListPolicies(ctx, &awsiam.ListPoliciesInput{Scope: iamtypes.PolicyScopeTypeLocal, OnlyAttached: true}))(t).Policies; len(list) > 0 {
		t.Errorf("attached: %v", list)
	}

	// A change of the version in force applies to users at once.
	_, err = c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("u")})
	check(t, err)
	key := testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("u")}))(t).AccessKey
	u := w.as(*key.AccessKeyId, *key.SecretAccessKey)
	_, err = c.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: aws.String("u"), PolicyArn: arn})
	check(t, err)
	_, err = u.ListUsers(ctx, &awsiam.ListUsersInput{})
	check(t, err)
	v2 := testkit.Must(c.CreatePolicyVersion(ctx, &awsiam.CreatePolicyVersionInput{PolicyArn: arn, PolicyDocument: aws.String(strings.ReplaceAll(readerDoc, "iam:", "eks:")), SetAsDefault: true}))(t)
	if *v2.PolicyVersion.VersionId != "v2" {
		t.Errorf("second version is %s", *v2.PolicyVersion.VersionId)
	}
	_, err = u.ListUsers(ctx, &awsiam.ListUsersInput{})
	testkit.WantError(t, err, "AccessDenied", "")
	_, err = c.SetDefaultPolicyVersion(ctx, &awsiam.SetDefaultPolicyVersionInput{PolicyArn: arn, VersionId: aws.String("v1")})
	check(t, err)
	_, err = u.ListUsers(ctx, &awsiam.ListUsersInput{})
	check(t, err)

	// Versions: at most five, the default cannot be deleted, and numbers are not reused.
	for range 3 {
		_, err = c.CreatePolicyVersion(ctx, &awsiam.CreatePolicyVersionInput{PolicyArn: arn, PolicyDocument: aws.String(readerDoc)})
		check(t, err)
	}
	_, err = c.CreatePolicyVersion(ctx, &awsiam.CreatePolicyVersionInput{PolicyArn: arn, PolicyDocument: aws.String(readerDoc)})
	testkit.WantError(t, err, "LimitExceeded", "A managed policy can have up to 5 versions. Before you create a new version, you must delete an existing version.")
	_, err = c.DeletePolicyVersion(ctx, &awsiam.DeletePolicyVersionInput{PolicyArn: arn, VersionId: aws.String("v1")})
	testkit.WantError(t, err, "DeleteConflict", "Cannot delete the default version of a policy.")
	for _, v := range []string{"v3", "v4", "v5"} {
		_, err = c.DeletePolicyVersion(ctx, &awsiam.DeletePolicyVersionInput{PolicyArn: arn, VersionId: &v})
		check(t, err)
	}
	_, err = c.CreatePolicyVersion(ctx, &awsiam.CreatePolicyVersionInput{PolicyArn: arn, PolicyDocument: aws.String(readerDoc)})
	check(t, err)
	var got []string
	for _, v := range testkit.Must(c.ListPolicyVersions(ctx, &awsiam.ListPolicyVersionsInput{PolicyArn: arn}))(t).Versions {
		got = append(got, *v.VersionId)
	}
	if diff := cmp.Diff([]string{"v6", "v2", "v1"}, got); diff != "" {
		t.Errorf("versions (-want +got)\n%s", diff)
	}

	users := testkit.Must(c.ListEntitiesForPolicy(ctx, &awsiam.ListEntitiesForPolicyInput{PolicyArn: arn}))(t)
	if len(users.PolicyUsers) != 1 || len(users.PolicyRoles)+len(users.PolicyGroups) != 0 {
		t.Errorf("entities: %+v", users)
	}

	// Delete the policy.
	_, err = c.DeletePolicy(ctx, &awsiam.DeletePolicyInput{PolicyArn: arn})
	testkit.WantError(t, err, "DeleteConflict", "Cannot delete a policy attached to entities.")
	_, err = c.DetachUserPolicy(ctx, &awsiam.DetachUserPolicyInput{UserName: aws.String("u"), PolicyArn: arn})
	check(t, err)
	_, err = c.DeletePolicy(ctx, &awsiam.DeletePolicyInput{PolicyArn: arn})
	testkit.WantError(t, err, "DeleteConflict", "This policy has more than one version. Before you delete a policy, you must delete the policy's versions. The default version is deleted with the policy.")
	for _, v := range []string{"v2", "v6"} {
		_, err = c.DeletePolicyVersion(ctx, &awsiam.DeletePolicyVersionInput{PolicyArn: arn, VersionId: &v})
		check(t, err)
	}
	_, err = c.DeletePolicy(ctx, &awsiam.DeletePolicyInput{PolicyArn: arn})
	check(t, err)
}

func TestAWSManagedPolicies(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	arn := aws.String("arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
	p := testkit.Must(c.GetPolicy(ctx, &awsiam.GetPolicyInput{PolicyArn: arn}))(t).Policy
	v := testkit.Must(c.GetPolicyVersion(ctx, &awsiam.GetPolicyVersionInput{PolicyArn: arn, VersionId: p.DefaultVersionId}))(t).PolicyVersion
	if doc, _ := url.PathUnescape(*v.Document); !strings.Contains(doc, "ec2:DescribeInstances") {
		t.Errorf("document: %s", doc)
	}
	_, err := c.DeletePolicy(ctx, &awsiam.DeletePolicyInput{PolicyArn: arn})
	testkit.WantError(t, err, "AccessDenied", "User: arn:aws:iam::"+account+":root is not authorized to perform: iam:DeletePolicy on resource: policy "+*arn)
	n := 0
	pages := awsiam.NewListPoliciesPaginator(c, &awsiam.ListPoliciesInput{Scope: iamtypes.PolicyScopeTypeAws, MaxItems: aws.Int32(500)})
	for pages.HasMorePages() {
		n += len(testkit.Must(pages.NextPage(ctx))(t).Policies)
	}
	if n < 1485 {
		t.Errorf("%d AWS-managed policies listed", n)
	}
}

func TestInlinePolicyQuota(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, _ := w.root(t)
	_, err := c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("u")})
	check(t, err)
	long := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["eks:` + strings.Repeat("x", 2000) + `"],"Resource":"*"}]}`
	_, err = c.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("u"), PolicyName: aws.String("p"), PolicyDocument: &long})
	testkit.WantError(t, err, "LimitExceeded", "Maximum policy size of 2048 bytes exceeded for user u")
	_, err = c.GetUserPolicy(ctx, &awsiam.GetUserPolicyInput{UserName: aws.String("u"), PolicyName: aws.String("p")})
	testkit.WantError(t, err, "NoSuchEntity", "The user policy with name p cannot be found.")
}

// The budget for one decision is 50 µs. All reads come from the store's view.
func BenchmarkAuthorize(b *testing.B) {
	ctx := context.Background()
	st, err := store.Open(ctx, store.Config{Ephemeral: true})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	s := iam.New(iam.Config{Store: st})
	_, p, err := s.LookupAccessKey(ctx, iam.DefaultAccessKey)
	if err != nil {
		b.Fatal(err)
	}
	as := awsapi.WithCall(ctx, &awsapi.Call{Account: p.Account, Principal: p})
	for _, name := range []string{"AmazonEKSClusterPolicy", "ReadOnlyAccess", "AmazonEC2FullAccess", "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy"} {
		_, err := s.AttachUserPolicy(as, &awsiam.AttachUserPolicyInput{UserName: aws.String("admin"), PolicyArn: aws.String("arn:aws:iam::aws:policy/" + name)})
		if err != nil {
			b.Fatal(err)
		}
	}
	az := authz.New(authz.Config{Services: []awsapi.Service{s.AWS()}, Policies: s.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": s.Authz()}, Store: st})
	in := &awseks.DeleteClusterInput{Name: aws.String("dev")}
	call := &awsapi.Call{Service: "eks", Operation: "DeleteCluster", Account: p.Account, Region: "us-east-1", Principal: p}
	b.ReportAllocs()
	for b.Loop() {
		if err := az.Authorize(ctx, call, in); err != nil {
			b.Fatal(err)
		}
	}
}
