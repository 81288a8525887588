package organizations_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awsorg "github.com/aws/aws-sdk-go-v2/service/organizations"
	orgtypes "github.com/aws/aws-sdk-go-v2/service/organizations/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/organizations"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is IAM, KMS and Organizations behind an AWS API server, with an organization that has one unit and one
// member in it.
type world struct {
	*testing.T
	*awsorg.Client
	*testkit.Server
	management, member, unit, root string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t}
	var users *iam.Service
	var authorizer *authz.Authorizer
	w.Server = testkit.NewServer(t, testkit.Config{
		Services: func(st *store.Store) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			orgs := organizations.New(organizations.Config{Store: st, CreateAccount: users.CreateMemberAccount})
			keys := kms.New(kms.Config{Store: st})
			authorizer = authz.New(authz.Config{
				Services: []awsapi.Service{users.AWS(), orgs.AWS(), keys.AWS()},
				Policies: users.PoliciesOf, Controls: orgs.Controls, Organization: orgs.Organization, Resolvers: map[string]authz.Resolver{"iam": users.Authz()}, Store: st,
			})
			authorizer.Register("organizations", orgs.Module().Resolver)
			authorizer.Register("kms", keys.Module().Resolver)
			return []awsapi.Service{users.AWS(), orgs.AWS(), keys.AWS()}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
	})
	w.management = w.Account(t)
	w.Client = awsorg.NewFromConfig(w.AWSConfig(w.management))
	testkit.Must(w.CreateOrganization(t.Context(), &awsorg.CreateOrganizationInput{}))(t)
	w.root = *testkit.Must(w.ListRoots(t.Context(), &awsorg.ListRootsInput{}))(t).Roots[0].Id
	w.unit = *testkit.Must(w.CreateOrganizationalUnit(t.Context(), &awsorg.CreateOrganizationalUnitInput{Name: aws.String("workloads"), ParentId: &w.root}))(t).OrganizationalUnit.Id
	made := testkit.Must(w.CreateAccount(t.Context(), &awsorg.CreateAccountInput{AccountName: aws.String("dev"), Email: aws.String("dev@example.com")}))(t)
	status := testkit.Must(w.DescribeCreateAccountStatus(t.Context(), &awsorg.DescribeCreateAccountStatusInput{CreateAccountRequestId: made.CreateAccountStatus.Id}))(t)
	if status.CreateAccountStatus.State != orgtypes.CreateAccountStateSucceeded {
		t.Fatalf("%+v", status.CreateAccountStatus)
	}
	w.member = *status.CreateAccountStatus.AccountId
	testkit.Must(w.MoveAccount(t.Context(), &awsorg.MoveAccountInput{AccountId: &w.member, SourceParentId: &w.root, DestinationParentId: &w.unit}))(t)
	return w
}

func (w *world) iam(account string) *awsiam.Client { return awsiam.NewFromConfig(w.AWSConfig(account)) }

func (w *world) enable(kind orgtypes.PolicyType) {
	w.Helper()
	testkit.Must(w.EnablePolicyType(w.Context(), &awsorg.EnablePolicyTypeInput{PolicyType: kind, RootId: &w.root}))(w)
}

// policy creates a policy and attaches it.
func (w *world) policy(name string, kind orgtypes.PolicyType, target, content string) string {
	w.Helper()
	id := testkit.Must(w.CreatePolicy(w.Context(), &awsorg.CreatePolicyInput{Name: &name, Description: aws.String(""), Type: kind, Content: &content}))(w).Policy.PolicySummary.Id
	testkit.Must(w.AttachPolicy(w.Context(), &awsorg.AttachPolicyInput{PolicyId: id, TargetId: &target}))(w)
	return *id
}

// A service control policy of any level binds a member account, its root user too, but not the management account.
func TestServiceControlPolicies(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	list := func(account string) error {
		_, err := w.iam(account).ListUsers(ctx, &awsiam.ListUsersInput{})
		return err
	}
	if err := list(w.member); err != nil {
		t.Fatal(err)
	}
	_, err := w.AttachPolicy(ctx, &awsorg.AttachPolicyInput{PolicyId: aws.String("p-FullAWSAccess"), TargetId: &w.unit})
	testkit.WantError(t, err, "PolicyTypeNotEnabledException", "This operation can be performed only for enabled policy types.")
	w.enable(orgtypes.PolicyTypeServiceControlPolicy)
	if err := list(w.member); err != nil {
		t.Fatal(err)
	}

	who := "User: arn:aws:iam::" + w.member + ":root is not authorized to perform: iam:ListUsers on resource: arn:aws:iam::" + w.member + ":user/ "
	deny := w.policy("no-users", orgtypes.PolicyTypeServiceControlPolicy, w.root, `{"Version":"2012-10-17","Statement":[{"Sid":"NoUsers","Effect":"Deny","Action":"iam:ListUsers","Resource":"*"}]}`)
	testkit.WantError(t, list(w.member), "AccessDenied", who+"with an explicit deny in a service control policy")
	if err := list(w.management); err != nil {
		t.Errorf("the management account is bound: %v", err)
	}
	if _, err := w.iam(w.member).ListRoles(ctx, &awsiam.ListRolesInput{}); err != nil {
		t.Errorf("another action: %v", err)
	}
	_, err = w.DeletePolicy(ctx, &awsorg.DeletePolicyInput{PolicyId: &deny})
	testkit.WantError(t, err, "PolicyInUseException", "The policy is attached to one or more entities. You must detach it from all roots, organizational units (OUs), and accounts before performing this operation.")
	targets := testkit.Must(w.ListTargetsForPolicy(ctx, &awsorg.ListTargetsForPolicyInput{PolicyId: &deny}))(t).Targets
	if len(targets) != 1 || *targets[0].TargetId != w.root || targets[0].Type != orgtypes.TargetTypeRoot {
		t.Errorf("targets %+v", targets)
	}
	testkit.Must(w.DetachPolicy(ctx, &awsorg.DetachPolicyInput{PolicyId: &deny, TargetId: &w.root}))(t)
	if err := list(w.member); err != nil {
		t.Errorf("after the policy was detached: %v", err)
	}
	testkit.Must(w.DeletePolicy(ctx, &awsorg.DeletePolicyInput{PolicyId: &deny}))(t)

	// An allow list on the unit: every level must allow.
	allow := w.policy("kms-only", orgtypes.PolicyTypeServiceControlPolicy, w.unit, `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"kms:*","Resource":"*"}]}`)
	if err := list(w.member); err != nil {
		t.Errorf("with FullAWSAccess beside it: %v", err)
	}
	testkit.Must(w.DetachPolicy(ctx, &awsorg.DetachPolicyInput{PolicyId: aws.String("p-FullAWSAccess"), TargetId: &w.unit}))(t)
	testkit.WantError(t, list(w.member), "AccessDenied", who+"because no service control policy allows the iam:ListUsers action")
	_, err = w.DetachPolicy(ctx, &awsorg.DetachPolicyInput{PolicyId: &allow, TargetId: &w.unit})
	if code := awserr.CodeOf(err); code != "ConstraintViolationException" {
		t.Errorf("the last policy was detached: %v", err)
	}
	testkit.Must(w.UpdatePolicy(ctx, &awsorg.UpdatePolicyInput{PolicyId: &allow, Content: aws.String(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["kms:*","iam:List*"],"Resource":"*"}}`)}))(t)
	if err := list(w.member); err != nil {
		t.Errorf("after the policy was changed: %v", err)
	}

	// A disabled type is out of force, and enabling it again starts with FullAWSAccess.
	testkit.Must(w.DisablePolicyType(ctx, &awsorg.DisablePolicyTypeInput{PolicyType: orgtypes.PolicyTypeServiceControlPolicy, RootId: &w.root}))(t)
	w.enable(orgtypes.PolicyTypeServiceControlPolicy)
	have := testkit.Must(w.ListPoliciesForTarget(ctx, &awsorg.ListPoliciesForTargetInput{TargetId: &w.unit, Filter: orgtypes.PolicyTypeServiceControlPolicy}))(t).Policies
	if len(have) != 1 || *have[0].Id != "p-FullAWSAccess" || !have[0].AwsManaged || *have[0].Arn != "arn:aws:organizations::aws:policy/service_control_policy/p-FullAWSAccess" {
		t.Errorf("%+v", have)
	}
}

// A policy, a unit or a member whose record cannot be read denies everything: what it denied is not known.
func TestUnreadableControlsDeny(t *testing.T) {
	for _, collection := range []string{"policy", "unit", "member"} {
		t.Run(collection, func(t *testing.T) {
			w := newWorld(t)
			ctx := t.Context()
			w.enable(orgtypes.PolicyTypeServiceControlPolicy)
			deny := w.policy("no-roles", orgtypes.PolicyTypeServiceControlPolicy, w.unit, `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"iam:ListRoles","Resource":"*"}]}`)
			if _, err := w.iam(w.member).ListUsers(ctx, &awsiam.ListUsersInput{}); err != nil {
				t.Fatal(err)
			}
			k := map[string]store.Key{
				"policy": {Account: w.management, ID: deny}, "unit": {Account: w.management, ID: w.unit}, "member": {Account: w.member, ID: "organization"},
			}[collection]
			damaged := store.NewCollection[string]("organizations", collection)
			if err := w.Store.Update(ctx, func(tx *store.Tx) error { return damaged.Put(tx, k, "not an object") }); err != nil {
				t.Fatal(err)
			}
			_, err := w.iam(w.member).ListUsers(ctx, &awsiam.ListUsersInput{})
			if code := awserr.CodeOf(err); code != "AccessDenied" {
				t.Errorf("got %v", err)
			}
			if _, err := w.iam(w.management).ListUsers(ctx, &awsiam.ListUsersInput{}); err != nil {
				t.Errorf("the management account: %v", err)
			}
		})
	}
}

// The management account is never bound, also if its own membership cannot be read. A twin, which has the organization's
// record in its own account, is a member: it is denied everything then.
func TestUnreadableMembershipOfTheManagementAccount(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.enable(orgtypes.PolicyTypeServiceControlPolicy)
	damaged := store.NewCollection[string]("organizations", "member")
	ofTwin := store.NewCollection[map[string]any]("organizations", "organization")
	if err := w.Store.Update(ctx, func(tx *store.Tx) error {
		for _, account := range []string{w.management, w.member} {
			if err := damaged.Put(tx, store.Key{Account: account, ID: "organization"}, "not an object"); err != nil {
				return err
			}
		}
		return ofTwin.Put(tx, store.Key{Account: w.member, ID: "organization"}, map[string]any{"ID": "o-twin", "Root": "r-twin", "Types": []string{"SERVICE_CONTROL_POLICY"}})
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.iam(w.management).ListUsers(ctx, &awsiam.ListUsersInput{}); err != nil {
		t.Errorf("the management account: %v", err)
	}
	_, err := w.iam(w.member).ListUsers(ctx, &awsiam.ListUsersInput{})
	if code := awserr.CodeOf(err); code != "AccessDenied" {
		t.Errorf("a twin: %v", err)
	}
}

// A resource control policy restricts access to a member's resources.
func TestResourceControlPolicies(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.enable(orgtypes.PolicyTypeResourceControlPolicy)
	c := awskms.NewFromConfig(w.AWSConfig(w.member))
	key := testkit.Must(c.CreateKey(ctx, &awskms.CreateKeyInput{}))(t).KeyMetadata.Arn
	w.policy("keep-keys", orgtypes.PolicyTypeResourceControlPolicy, w.unit, `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"kms:ScheduleKeyDeletion","Resource":"*"}]}`)
	_, err := c.ScheduleKeyDeletion(ctx, &awskms.ScheduleKeyDeletionInput{KeyId: key})
	testkit.WantError(t, err, "AccessDeniedException", "User: arn:aws:iam::"+w.member+":root is not authorized to perform: kms:ScheduleKeyDeletion on resource: "+*key+" with an explicit deny in a resource control policy")
	if _, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: key}); err != nil {
		t.Error(err)
	}
	_, err = w.CreatePolicy(ctx, &awsorg.CreatePolicyInput{Name: aws.String("grants"), Description: aws.String(""), Type: orgtypes.PolicyTypeResourceControlPolicy,
		Content: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"kms:*","Resource":"*"}]}`)})
	if awserr.CodeOf(err) != "MalformedPolicyDocumentException" {
		t.Errorf("an allowing policy: %v", err)
	}
}

// Every read and write of the tree, in the management account and in a member.
func TestTree(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	o := testkit.Must(w.DescribeOrganization(ctx, &awsorg.DescribeOrganizationInput{}))(t).Organization
	if *o.MasterAccountId != w.management || *o.Arn != "arn:aws:organizations::"+w.management+":organization/"+*o.Id || o.FeatureSet != orgtypes.OrganizationFeatureSetAll {
		t.Errorf("%+v", o)
	}
	_, err := w.CreateOrganization(ctx, &awsorg.CreateOrganizationInput{})
	testkit.WantError(t, err, "AlreadyInOrganizationException", "The provided account is already a member of an organization.")
	_, err = w.DeleteOrganization(ctx, &awsorg.DeleteOrganizationInput{})
	testkit.WantError(t, err, "OrganizationNotEmptyException", "To delete an organization you must first remove all member accounts (except the master).")

	var ids []string
	for _, a := range testkit.Must(w.ListAccounts(ctx, &awsorg.ListAccountsInput{}))(t).Accounts {
		ids = append(ids, *a.Name)
	}
	if len(ids) != 2 || !strings.Contains(strings.Join(ids, " "), "dev") {
		t.Errorf("accounts %v", ids)
	}
	a := testkit.Must(w.DescribeAccount(ctx, &awsorg.DescribeAccountInput{AccountId: &w.member}))(t).Account
	if *a.Arn != "arn:aws:organizations::"+w.management+":account/"+*o.Id+"/"+w.member || a.JoinedMethod != orgtypes.AccountJoinedMethodCreated {
		t.Errorf("%+v", a)
	}
	if in := testkit.Must(w.ListAccountsForParent(ctx, &awsorg.ListAccountsForParentInput{ParentId: &w.unit}))(t).Accounts; len(in) != 1 || *in[0].Id != w.member {
		t.Errorf("in the unit: %+v", in)
	}
	parents := testkit.Must(w.ListParents(ctx, &awsorg.ListParentsInput{ChildId: &w.member}))(t).Parents
	if diff := cmp.Diff(w.unit, *parents[0].Id); diff != "" || parents[0].Type != orgtypes.ParentTypeOrganizationalUnit {
		t.Error(diff, parents[0].Type)
	}
	if c := testkit.Must(w.ListChildren(ctx, &awsorg.ListChildrenInput{ParentId: &w.root, ChildType: orgtypes.ChildTypeOrganizationalUnit}))(t).Children; len(c) != 1 || *c[0].Id != w.unit {
		t.Errorf("%+v", c)
	}
	if u := testkit.Must(w.ListOrganizationalUnitsForParent(ctx, &awsorg.ListOrganizationalUnitsForParentInput{ParentId: &w.root}))(t).OrganizationalUnits; len(u) != 1 || *u[0].Name != "workloads" {
		t.Errorf("%+v", u)
	}
	testkit.Must(w.UpdateOrganizationalUnit(ctx, &awsorg.UpdateOrganizationalUnitInput{OrganizationalUnitId: &w.unit, Name: aws.String("apps")}))(t)
	if u := testkit.Must(w.DescribeOrganizationalUnit(ctx, &awsorg.DescribeOrganizationalUnitInput{OrganizationalUnitId: &w.unit}))(t).OrganizationalUnit; *u.Name != "apps" {
		t.Errorf("%+v", u)
	}
	_, err = w.DeleteOrganizationalUnit(ctx, &awsorg.DeleteOrganizationalUnitInput{OrganizationalUnitId: &w.unit})
	testkit.WantError(t, err, "OrganizationalUnitNotEmptyException", "The specified OU is not empty. Move all accounts to another root or to other OUs, remove all child OUs, and try the operation again.")

	testkit.Must(w.TagResource(ctx, &awsorg.TagResourceInput{ResourceId: &w.unit, Tags: []orgtypes.Tag{{Key: aws.String("a"), Value: aws.String("1")}, {Key: aws.String("b"), Value: aws.String("2")}}}))(t)
	testkit.Must(w.UntagResource(ctx, &awsorg.UntagResourceInput{ResourceId: &w.unit, TagKeys: []string{"a"}}))(t)
	if tags := testkit.Must(w.ListTagsForResource(ctx, &awsorg.ListTagsForResourceInput{ResourceId: &w.unit}))(t).Tags; len(tags) != 1 || *tags[0].Key != "b" {
		t.Errorf("tags %+v", tags)
	}
	p := testkit.Must(w.DescribePolicy(ctx, &awsorg.DescribePolicyInput{PolicyId: aws.String("p-FullAWSAccess")}))(t).Policy
	if !strings.Contains(*p.Content, `"Allow"`) {
		t.Errorf("%+v", p)
	}
	if list := testkit.Must(w.ListPolicies(ctx, &awsorg.ListPoliciesInput{Filter: orgtypes.PolicyTypeServiceControlPolicy}))(t).Policies; len(list) != 1 {
		t.Errorf("%+v", list)
	}
	_, err = w.CreatePolicy(ctx, &awsorg.CreatePolicyInput{Name: aws.String("x"), Description: aws.String(""), Type: orgtypes.PolicyTypeServiceControlPolicy, Content: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}]}`)})
	testkit.WantError(t, err, "MalformedPolicyDocumentException", "The provided policy document does not meet the requirements of the specified policy type. Policy document should not specify a principal.")

	inMember := awsorg.NewFromConfig(w.AWSConfig(w.member))
	if got := testkit.Must(inMember.DescribeOrganization(ctx, &awsorg.DescribeOrganizationInput{}))(t).Organization; *got.Id != *o.Id {
		t.Errorf("%+v", got)
	}
	_, err = inMember.ListAccounts(ctx, &awsorg.ListAccountsInput{})
	testkit.WantError(t, err, "AccessDeniedException", "You don't have permissions to access this resource.")
	role := testkit.Must(w.iam(w.member).GetRole(ctx, &awsiam.GetRoleInput{RoleName: aws.String("OrganizationAccountAccessRole")}))(t).Role
	if !strings.Contains(*role.AssumeRolePolicyDocument, w.management) {
		t.Errorf("%s", *role.AssumeRolePolicyDocument)
	}

	testkit.Must(w.RemoveAccountFromOrganization(ctx, &awsorg.RemoveAccountFromOrganizationInput{AccountId: &w.member}))(t)
	_, err = inMember.DescribeOrganization(ctx, &awsorg.DescribeOrganizationInput{})
	testkit.WantError(t, err, "AWSOrganizationsNotInUseException", "Your account is not a member of an organization.")
	testkit.Must(w.DeleteOrganizationalUnit(ctx, &awsorg.DeleteOrganizationalUnitInput{OrganizationalUnitId: &w.unit}))(t)
	testkit.Must(w.DeleteOrganization(ctx, &awsorg.DeleteOrganizationInput{}))(t)
}

// A user of the management account needs permission for what the request names.
func TestPermissions(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c := w.iam(w.management)
	testkit.Must(c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ann")}))(t)
	testkit.Must(c.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("ann"), PolicyName: aws.String("p"),
		PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"organizations:Describe*","Resource":"arn:aws:organizations::` + w.management + `:ou/*"}]}`)}))(t)
	k := testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("ann")}))(t).AccessKey
	ann := awsorg.NewFromConfig(w.AWSConfig(w.management), func(o *awsorg.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: *k.AccessKeyId, SecretAccessKey: *k.SecretAccessKey}, nil
		})
	})
	if _, err := ann.DescribeOrganizationalUnit(ctx, &awsorg.DescribeOrganizationalUnitInput{OrganizationalUnitId: &w.unit}); err != nil {
		t.Error(err)
	}
	_, err := ann.DescribeAccount(ctx, &awsorg.DescribeAccountInput{AccountId: &w.member})
	if awserr.CodeOf(err) != "AccessDeniedException" || !strings.Contains(err.Error(), "organizations:DescribeAccount on resource: arn:aws:organizations::"+w.management+":account/o-") {
		t.Error(err)
	}
}
