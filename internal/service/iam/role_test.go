package iam_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestRoleLifecycle(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	name := aws.String("node-role")

	made := testkit.Must(c.CreateRole(ctx, &awsiam.CreateRoleInput{
		RoleName: name, Path: aws.String("/eks/nodes/"), AssumeRolePolicyDocument: aws.String(ec2Trust), Description: aws.String("nodes"),
		MaxSessionDuration: aws.Int32(7200), Tags: []iamtypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
		PermissionsBoundary: aws.String("arn:aws:iam::aws:policy/AdministratorAccess"),
	}))(t).Role
	arn := "arn:aws:iam::" + account + ":role/eks/nodes/node-role"
	if *made.Arn != arn || !strings.HasPrefix(*made.RoleId, "AROA") || len(*made.RoleId) != 21 {
		t.Errorf("made %s %s", *made.Arn, *made.RoleId)
	}
	got := testkit.Must(c.GetRole(ctx, &awsiam.GetRoleInput{RoleName: aws.String("Node-Role")}))(t).Role
	doc, err := url.PathUnescape(*got.AssumeRolePolicyDocument)
	check(t, err)
	if strings.ContainsAny(*got.AssumeRolePolicyDocument, `{" +:`) || doc != ec2Trust {
		t.Errorf("the document is answered as %s", *got.AssumeRolePolicyDocument)
	}
	if *got.MaxSessionDuration != 7200 || *got.Description != "nodes" || len(got.Tags) != 1 || *got.PermissionsBoundary.PermissionsBoundaryArn != "arn:aws:iam::aws:policy/AdministratorAccess" {
		t.Errorf("got %+v", got)
	}
	_, err = c.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: name, AssumeRolePolicyDocument: aws.String(ec2Trust)})
	testkit.WantError(t, err, "EntityAlreadyExists", "Role with name node-role already exists.")
	_, err = c.GetRole(ctx, &awsiam.GetRoleInput{RoleName: aws.String("other")})
	testkit.WantError(t, err, "NoSuchEntity", "The role with name other cannot be found.")

	// Look-ups by other services.
	role, err := w.iam.RoleByARN(ctx, arn)
	check(t, err)
	if !w.iam.TrustsService(role, "ec2.amazonaws.com") || w.iam.TrustsService(role, "eks.amazonaws.com") {
		t.Error("TrustsService does not follow the trust policy")
	}
	if _, err := w.iam.RoleByARN(ctx, "arn:aws:iam::"+account+":role/node-role"); !errors.Is(err, iam.ErrNoSuchRole) {
		t.Errorf("found without its path: %v", err)
	}

	_, err = c.UpdateAssumeRolePolicy(ctx, &awsiam.UpdateAssumeRolePolicyInput{RoleName: name, PolicyDocument: aws.String(strings.Replace(ec2Trust, "ec2.", "eks.", 1))})
	check(t, err)
	role, err = w.iam.RoleByName(ctx, account, "node-role")
	check(t, err)
	if !w.iam.TrustsService(role, "eks.amazonaws.com") {
		t.Error("the new trust policy is not in force")
	}

	// A role with attachments or inline policies cannot be deleted.
	eks := aws.String("arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy")
	_, err = c.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: name, PolicyArn: eks})
	check(t, err)
	attached := testkit.Must(c.ListAttachedRolePolicies(ctx, &awsiam.ListAttachedRolePoliciesInput{RoleName: name}))(t)
	if len(attached.AttachedPolicies) != 1 || *attached.AttachedPolicies[0].PolicyName != "AmazonEKSWorkerNodePolicy" {
		t.Errorf("attached: %+v", attached.AttachedPolicies)
	}
	_, err = c.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: name})
	testkit.WantError(t, err, "DeleteConflict", "Cannot delete entity, must detach all policies first.")
	_, err = c.DetachRolePolicy(ctx, &awsiam.DetachRolePolicyInput{RoleName: name, PolicyArn: eks})
	check(t, err)
	_, err = c.PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{RoleName: name, PolicyName: aws.String("p"), PolicyDocument: aws.String(readerDoc)})
	check(t, err)
	_, err = c.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: name})
	testkit.WantError(t, err, "DeleteConflict", "Cannot delete entity, must delete policies first.")
	inline := testkit.Must(c.GetRolePolicy(ctx, &awsiam.GetRolePolicyInput{RoleName: name, PolicyName: aws.String("p")}))(t)
	if doc, _ := url.PathUnescape(*inline.PolicyDocument); doc != readerDoc {
		t.Errorf("inline document: %s", doc)
	}
	_, err = c.DeleteRolePolicy(ctx, &awsiam.DeleteRolePolicyInput{RoleName: name, PolicyName: aws.String("p")})
	check(t, err)
	_, err = c.GetRolePolicy(ctx, &awsiam.GetRolePolicyInput{RoleName: name, PolicyName: aws.String("p")})
	testkit.WantError(t, err, "NoSuchEntity", "The role policy with name p cannot be found.")

	_, err = c.UntagRole(ctx, &awsiam.UntagRoleInput{RoleName: name, TagKeys: []string{"team"}})
	check(t, err)
	_, err = c.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: name})
	check(t, err)
	_, err = c.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: name})
	testkit.WantError(t, err, "NoSuchEntity", "The role with name node-role cannot be found.")
}

func TestCreateRoleRefuses(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	principal := func(p string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":` + p + `,"Action":"sts:AssumeRole"}]}`
	}
	for _, tt := range []struct {
		name          string
		in            awsiam.CreateRoleInput
		code, message string
	}{
		{"a long name", awsiam.CreateRoleInput{RoleName: aws.String(strings.Repeat("x", 65))}, "ValidationError",
			"1 validation error detected: Value '" + strings.Repeat("x", 65) + "' at 'roleName' failed to satisfy constraint: Member must have length less than or equal to 64"},
		{"a bad name", awsiam.CreateRoleInput{RoleName: aws.String("a b")}, "ValidationError",
			"The specified value for roleName is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-"},
		{"a bad path", awsiam.CreateRoleInput{Path: aws.String("eks")}, "ValidationError",
			"The specified value for path is invalid. It must begin and end with / and contain only alphanumeric characters and/or / characters."},
		{"a short session", awsiam.CreateRoleInput{MaxSessionDuration: aws.Int32(60)}, "ValidationError",
			"1 validation error detected: Value '60' at 'maxSessionDuration' failed to satisfy constraint: Member must have value greater than or equal to 3600"},
		{"no JSON", awsiam.CreateRoleInput{AssumeRolePolicyDocument: aws.String("{")}, "MalformedPolicyDocument", "This policy contains invalid Json"},
		{"a resource", awsiam.CreateRoleInput{AssumeRolePolicyDocument: aws.String(readerDoc)}, "MalformedPolicyDocument", "Has prohibited field Resource"},
		{"an unknown service", awsiam.CreateRoleInput{AssumeRolePolicyDocument: aws.String(principal(`{"Service":"eks"}`))}, "MalformedPolicyDocument", `Invalid principal in policy: "SERVICE":"eks"`},
		{"a missing user", awsiam.CreateRoleInput{AssumeRolePolicyDocument: aws.String(principal(`{"AWS":"arn:aws:iam::` + account + `:user/nobody"}`))}, "MalformedPolicyDocument",
			`Invalid principal in policy: "AWS":"arn:aws:iam::` + account + `:user/nobody"`},
		{"a missing boundary", awsiam.CreateRoleInput{PermissionsBoundary: aws.String("arn:aws:iam::" + account + ":policy/nope")}, "NoSuchEntity",
			"Scope ARN: arn:aws:iam::" + account + ":policy/nope does not exist or is not attachable."},
		{"a large trust policy", awsiam.CreateRoleInput{AssumeRolePolicyDocument: aws.String(principal(`{"AWS":["` + strings.Repeat(account+`","`, 200) + account + `"]}`))}, "LimitExceeded",
			"Cannot exceed quota for ACLSizePerRole: 2048"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The account's record exists, so a principal that is not in it is known to be missing.
			testkit.Must(c.GetUser(ctx, &awsiam.GetUserInput{}))(t)
			if tt.in.RoleName == nil {
				tt.in.RoleName = aws.String("r")
			}
			if tt.in.AssumeRolePolicyDocument == nil {
				tt.in.AssumeRolePolicyDocument = aws.String(ec2Trust)
			}
			_, err := c.CreateRole(ctx, &tt.in)
			testkit.WantError(t, err, tt.code, tt.message)
		})
	}
}

func TestListsArePaged(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, _ := w.root(t)
	var want []string
	for i := range 7 {
		name, path := fmt.Sprintf("r%d", i), "/in/"
		if i == 3 {
			path = "/out/"
		} else {
			want = append(want, name)
		}
		_, err := c.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, Path: &path, AssumeRolePolicyDocument: aws.String(ec2Trust)})
		check(t, err)
	}
	var got []string
	pages := awsiam.NewListRolesPaginator(c, &awsiam.ListRolesInput{PathPrefix: aws.String("/in/"), MaxItems: aws.Int32(2)})
	for pages.HasMorePages() {
		p := testkit.Must(pages.NextPage(ctx))(t)
		if len(p.Roles) > 2 {
			t.Errorf("a page of %d", len(p.Roles))
		}
		for _, r := range p.Roles {
			got = append(got, *r.RoleName)
		}
		// Roles deleted between pages neither hide nor repeat others.
		if len(got) == 2 {
			_, err := c.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: &got[0]})
			check(t, err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	_, err := c.ListRoles(ctx, &awsiam.ListRolesInput{MaxItems: aws.Int32(1001)})
	testkit.WantError(t, err, "ValidationError", "1 validation error detected: Value '1001' at 'maxItems' failed to satisfy constraint: Member must have value less than or equal to 1000")
	_, err = c.ListRoles(ctx, &awsiam.ListRolesInput{Marker: aws.String("%%%")})
	testkit.WantError(t, err, "ValidationError", "Invalid Marker.")
}

// Every list operation checks the page size, whichever parameters it checks itself.
func TestPageSizes(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, _ := w.root(t)
	name := aws.String("x")
	tags := []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("1")}, {Key: aws.String("b"), Value: aws.String("2")}}
	testkit.Must(c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: name, Tags: tags}))(t)
	testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: name}))(t)
	testkit.Must(c.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: name, AssumeRolePolicyDocument: aws.String(ec2Trust), Tags: tags}))(t)
	testkit.Must(c.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: name, Tags: tags}))(t)
	pol := testkit.Must(c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: name, PolicyDocument: aws.String(readerDoc), Tags: tags}))(t).Policy
	provider := testkit.Must(c.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: aws.String("https://example.com/id"), Tags: tags}))(t)
	for list, call := range map[string]func(n *int32) error{
		"ListAccessKeys": func(n *int32) error {
			_, err := c.ListAccessKeys(ctx, &awsiam.ListAccessKeysInput{UserName: name, MaxItems: n})
			return err
		},
		"ListUserTags": func(n *int32) error {
			_, err := c.ListUserTags(ctx, &awsiam.ListUserTagsInput{UserName: name, MaxItems: n})
			return err
		},
		"ListRoleTags": func(n *int32) error {
			_, err := c.ListRoleTags(ctx, &awsiam.ListRoleTagsInput{RoleName: name, MaxItems: n})
			return err
		},
		"ListInstanceProfileTags": func(n *int32) error {
			_, err := c.ListInstanceProfileTags(ctx, &awsiam.ListInstanceProfileTagsInput{InstanceProfileName: name, MaxItems: n})
			return err
		},
		"ListPolicyTags": func(n *int32) error {
			_, err := c.ListPolicyTags(ctx, &awsiam.ListPolicyTagsInput{PolicyArn: pol.Arn, MaxItems: n})
			return err
		},
		"ListOpenIDConnectProviderTags": func(n *int32) error {
			_, err := c.ListOpenIDConnectProviderTags(ctx, &awsiam.ListOpenIDConnectProviderTagsInput{OpenIDConnectProviderArn: provider.OpenIDConnectProviderArn, MaxItems: n})
			return err
		},
	} {
		t.Run(list, func(t *testing.T) {
			const failed = "1 validation error detected: Value '%d' at 'maxItems' failed to satisfy constraint: Member must have value "
			testkit.WantError(t, call(aws.Int32(-1)), "ValidationError", fmt.Sprintf(failed, -1)+"greater than or equal to 1")
			testkit.WantError(t, call(aws.Int32(0)), "ValidationError", fmt.Sprintf(failed, 0)+"greater than or equal to 1")
			testkit.WantError(t, call(aws.Int32(1001)), "ValidationError", fmt.Sprintf(failed, 1001)+"less than or equal to 1000")
			check(t, call(aws.Int32(1)))
		})
	}
}

func TestInstanceProfiles(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	prof, role := aws.String("prof"), aws.String("r")
	_, err := c.GetInstanceProfile(ctx, &awsiam.GetInstanceProfileInput{InstanceProfileName: prof})
	testkit.WantError(t, err, "NoSuchEntity", "Instance Profile prof cannot be found.")
	made := testkit.Must(c.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: prof, Path: aws.String("/karpenter/")}))(t).InstanceProfile
	arn := "arn:aws:iam::" + account + ":instance-profile/karpenter/prof"
	if *made.Arn != arn || !strings.HasPrefix(*made.InstanceProfileId, "AIPA") {
		t.Errorf("made %s %s", *made.Arn, *made.InstanceProfileId)
	}
	_, err = c.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: prof})
	testkit.WantError(t, err, "EntityAlreadyExists", "Instance Profile prof already exists.")
	_, err = c.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: prof, RoleName: role})
	testkit.WantError(t, err, "NoSuchEntity", "The role with name r cannot be found.")
	_, err = c.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: role, AssumeRolePolicyDocument: aws.String(ec2Trust)})
	check(t, err)
	if _, _, err := w.iam.InstanceProfileRole(ctx, account, "prof"); !errors.Is(err, iam.ErrNoSuchRole) {
		t.Errorf("a profile without a role: %v", err)
	}
	_, err = c.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: prof, RoleName: role})
	check(t, err)
	_, err = c.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: prof, RoleName: role})
	testkit.WantError(t, err, "LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
	for _, name := range []string{"prof", arn} {
		p, r, err := w.iam.InstanceProfileRole(ctx, account, name)
		if err != nil || p.ARN != arn || r.Name != "r" {
			t.Errorf("InstanceProfileRole(%s) = %+v, %+v, %v", name, p, r, err)
		}
	}
	if _, _, err := w.iam.InstanceProfileRole(ctx, "999999999999", arn); !errors.Is(err, iam.ErrNoSuchInstanceProfile) {
		t.Errorf("another account's: %v", err)
	}
	list := testkit.Must(c.ListInstanceProfilesForRole(ctx, &awsiam.ListInstanceProfilesForRoleInput{RoleName: role}))(t)
	if len(list.InstanceProfiles) != 1 || len(list.InstanceProfiles[0].Roles) != 1 {
		t.Errorf("profiles of the role: %+v", list.InstanceProfiles)
	}
	_, err = c.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: role})
	testkit.WantError(t, err, "DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	_, err = c.DeleteInstanceProfile(ctx, &awsiam.DeleteInstanceProfileInput{InstanceProfileName: prof})
	testkit.WantError(t, err, "DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	_, err = c.RemoveRoleFromInstanceProfile(ctx, &awsiam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: prof, RoleName: role})
	check(t, err)
	_, err = c.DeleteInstanceProfile(ctx, &awsiam.DeleteInstanceProfileInput{InstanceProfileName: prof})
	check(t, err)
	_, err = c.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: role})
	check(t, err)
}

func TestServiceLinkedRoles(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	service := aws.String("eks-nodegroup.amazonaws.com")
	made := testkit.Must(c.CreateServiceLinkedRole(ctx, &awsiam.CreateServiceLinkedRoleInput{AWSServiceName: service}))(t).Role
	if made.Description != nil {
		t.Errorf("the role has the description %q, and the request none", *made.Description)
	}
	if want := "arn:aws:iam::" + account + ":role/aws-service-role/eks-nodegroup.amazonaws.com/AWSServiceRoleForAmazonEKSNodegroup"; *made.Arn != want {
		t.Errorf("got %s, want %s", *made.Arn, want)
	}
	_, err := c.CreateServiceLinkedRole(ctx, &awsiam.CreateServiceLinkedRoleInput{AWSServiceName: service, CustomSuffix: aws.String("two")})
	testkit.WantError(t, err, "InvalidInput", "Custom suffix is not allowed for eks-nodegroup.amazonaws.com")
	_, err = c.CreateServiceLinkedRole(ctx, &awsiam.CreateServiceLinkedRoleInput{AWSServiceName: service})
	testkit.WantError(t, err, "InvalidInput", "Service role name AWSServiceRoleForAmazonEKSNodegroup has been taken in this account, please try a different suffix.")
	_, err = c.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: made.RoleName})
	testkit.WantError(t, err, "UnmodifiableEntity", "Cannot perform the operation on the protected role 'AWSServiceRoleForAmazonEKSNodegroup' - this role is only modifiable by AWS")
	_, err = c.CreateServiceLinkedRole(ctx, &awsiam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String("lex.amazonaws.com")})
	testkit.WantError(t, err, "NotImplemented", "")
	for _, s := range []string{"eks.amazonaws.com", "eks-fargate.amazonaws.com", "autoscaling.amazonaws.com", "spot.amazonaws.com", "spotfleet.amazonaws.com", "ec2fleet.amazonaws.com", "elasticloadbalancing.amazonaws.com",
		// Terraform's aws_iam_service_linked_role: TestAccIAMServiceLinkedRole_basic and _CustomSuffix_diffSuppressFunc.
		"inspector.amazonaws.com", "custom-resource.application-autoscaling.amazonaws.com",
		"config.amazonaws.com", "dynamodb.application-autoscaling.amazonaws.com", "ecs.amazonaws.com", "ecs.application-autoscaling.amazonaws.com", "elasticache.amazonaws.com", "es.amazonaws.com",
		"guardduty.amazonaws.com", "opensearchservice.amazonaws.com", "pullthroughcache.ecr.amazonaws.com", "rds.amazonaws.com", "replication.ecr.amazonaws.com", "ssm.amazonaws.com"} {
		r := testkit.Must(c.CreateServiceLinkedRole(ctx, &awsiam.CreateServiceLinkedRoleInput{AWSServiceName: &s}))(t).Role
		attached := testkit.Must(c.ListAttachedRolePolicies(ctx, &awsiam.ListAttachedRolePoliciesInput{RoleName: r.RoleName}))(t).AttachedPolicies
		testkit.Must(c.GetPolicy(ctx, &awsiam.GetPolicyInput{PolicyArn: attached[0].PolicyArn}))(t)
	}
	// As long as the service needs the role, it stays, and the status says what needs it.
	cluster := "arn:aws:eks:us-east-1:" + account + ":cluster/dev"
	w.usage = map[string][]string{"us-east-1": {cluster}}
	kept := testkit.Must(c.DeleteServiceLinkedRole(ctx, &awsiam.DeleteServiceLinkedRoleInput{RoleName: made.RoleName}))(t).DeletionTaskId
	failed := testkit.Must(c.GetServiceLinkedRoleDeletionStatus(ctx, &awsiam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: kept}))(t)
	if failed.Status != iamtypes.DeletionTaskStatusTypeFailed || failed.Reason.RoleUsageList[0].Resources[0] != cluster {
		t.Errorf("%+v", failed)
	}
	_, err = c.GetRole(ctx, &awsiam.GetRoleInput{RoleName: made.RoleName})
	check(t, err)
	w.usage = nil

	task := testkit.Must(c.DeleteServiceLinkedRole(ctx, &awsiam.DeleteServiceLinkedRoleInput{RoleName: made.RoleName}))(t).DeletionTaskId
	status := testkit.Must(c.GetServiceLinkedRoleDeletionStatus(ctx, &awsiam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: task}))(t)
	if status.Status != iamtypes.DeletionTaskStatusTypeSucceeded {
		t.Errorf("deletion is %s", status.Status)
	}
}

func TestOpenIDConnectProviders(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, account := w.root(t)
	issuer := "oidc.eks.us-east-1.amazonaws.com/id/ABC"
	_, err := c.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: aws.String("http://" + issuer)})
	testkit.WantError(t, err, "ValidationError", "Invalid Open ID Connect Provider URL")
	made := testkit.Must(c.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{
		Url: aws.String("https://" + issuer), ClientIDList: []string{"sts.amazonaws.com"}, ThumbprintList: []string{strings.Repeat("a", 40)},
	}))(t)
	if want := "arn:aws:iam::" + account + ":oidc-provider/" + issuer; *made.OpenIDConnectProviderArn != want {
		t.Errorf("got %s, want %s", *made.OpenIDConnectProviderArn, want)
	}
	_, err = c.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: aws.String("https://" + issuer)})
	testkit.WantError(t, err, "EntityAlreadyExists", "Provider with url https://"+issuer+" already exists.")
	_, err = c.AddClientIDToOpenIDConnectProvider(ctx, &awsiam.AddClientIDToOpenIDConnectProviderInput{OpenIDConnectProviderArn: made.OpenIDConnectProviderArn, ClientID: aws.String("other")})
	check(t, err)
	got := testkit.Must(c.GetOpenIDConnectProvider(ctx, &awsiam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: made.OpenIDConnectProviderArn}))(t)
	if diff := cmp.Diff([]string{"sts.amazonaws.com", "other"}, got.ClientIDList); diff != "" || *got.Url != issuer {
		t.Errorf("%s\n%s", *got.Url, diff)
	}
	_, err = c.DeleteOpenIDConnectProvider(ctx, &awsiam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: made.OpenIDConnectProviderArn})
	check(t, err)
	_, err = c.GetOpenIDConnectProvider(ctx, &awsiam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: made.OpenIDConnectProviderArn})
	testkit.WantError(t, err, "NoSuchEntity", "OpenIDConnect Provider not found for arn "+*made.OpenIDConnectProviderArn)
}
