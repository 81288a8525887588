package cloudformation

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// iamTagChanges returns the tags that an update sets, converted to IAM's type, and the keys
// of those that it removes.
func (r *request) iamTagChanges() (set []iamtypes.Tag, gone []string) {
	changed, gone := r.tagChanges()
	for _, t := range changed {
		set = append(set, iamtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	return set, gone
}

// gonePolicies returns the names of inline policies that an update removes.
func (r *request) gonePolicies() []string {
	now := r.members("Policies", "PolicyName")
	return slices.DeleteFunc(r.was.members("Policies", "PolicyName"), func(name string) bool { return slices.Contains(now, name) })
}

// updateRole makes the changes that settle does not: it changes the role itself and its
// tags, and removes policies.
func updateRole(r *request) error {
	if r.changed("AssumeRolePolicyDocument") {
		if _, err := call[awsiam.UpdateAssumeRolePolicyOutput](r, &awsiam.UpdateAssumeRolePolicyInput{RoleName: &r.id, PolicyDocument: aws.String(r.document("AssumeRolePolicyDocument"))}); err != nil {
			return err
		}
	}
	if r.changed("Description", "MaxSessionDuration") {
		in := &awsiam.UpdateRoleInput{RoleName: &r.id}
		if err := r.onlyChanged(in, "Description", "MaxSessionDuration"); err != nil {
			return err
		}
		if _, err := call[awsiam.UpdateRoleOutput](r, in); err != nil {
			return err
		}
	}
	if err := boundary(r, func(arn *string) (any, error) {
		if arn == nil {
			return call[awsiam.DeleteRolePermissionsBoundaryOutput](r, &awsiam.DeleteRolePermissionsBoundaryInput{RoleName: &r.id})
		}
		return call[awsiam.PutRolePermissionsBoundaryOutput](r, &awsiam.PutRolePermissionsBoundaryInput{RoleName: &r.id, PermissionsBoundary: arn})
	}); err != nil {
		return err
	}
	for _, policy := range r.goneFrom("ManagedPolicyArns") {
		if _, err := call[awsiam.DetachRolePolicyOutput](r, &awsiam.DetachRolePolicyInput{RoleName: &r.id, PolicyArn: &policy}); unlessGone(err) != nil {
			return err
		}
	}
	for _, policy := range r.gonePolicies() {
		if _, err := call[awsiam.DeleteRolePolicyOutput](r, &awsiam.DeleteRolePolicyInput{RoleName: &r.id, PolicyName: &policy}); unlessGone(err) != nil {
			return err
		}
	}
	set, gone := r.iamTagChanges()
	if len(gone) > 0 {
		if _, err := call[awsiam.UntagRoleOutput](r, &awsiam.UntagRoleInput{RoleName: &r.id, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := call[awsiam.TagRoleOutput](r, &awsiam.TagRoleInput{RoleName: &r.id, Tags: set})
	return err
}

// boundary calls set with the permissions boundary if it changed, or with nil if it was removed.
func boundary(r *request, set func(arn *string) (any, error)) error {
	if !r.changed("PermissionsBoundary") {
		return nil
	}
	_, err := set(nonEmpty(r.text("PermissionsBoundary")))
	return unlessGone(err)
}

func updateUser(r *request) error {
	if err := boundary(r, func(arn *string) (any, error) {
		if arn == nil {
			return call[awsiam.DeleteUserPermissionsBoundaryOutput](r, &awsiam.DeleteUserPermissionsBoundaryInput{UserName: &r.id})
		}
		return call[awsiam.PutUserPermissionsBoundaryOutput](r, &awsiam.PutUserPermissionsBoundaryInput{UserName: &r.id, PermissionsBoundary: arn})
	}); err != nil {
		return err
	}
	for _, group := range r.goneFrom("Groups") {
		if _, err := call[awsiam.RemoveUserFromGroupOutput](r, &awsiam.RemoveUserFromGroupInput{GroupName: &group, UserName: &r.id}); unlessGone(err) != nil {
			return err
		}
	}
	for _, policy := range r.goneFrom("ManagedPolicyArns") {
		if _, err := call[awsiam.DetachUserPolicyOutput](r, &awsiam.DetachUserPolicyInput{UserName: &r.id, PolicyArn: &policy}); unlessGone(err) != nil {
			return err
		}
	}
	for _, policy := range r.gonePolicies() {
		if _, err := call[awsiam.DeleteUserPolicyOutput](r, &awsiam.DeleteUserPolicyInput{UserName: &r.id, PolicyName: &policy}); unlessGone(err) != nil {
			return err
		}
	}
	set, gone := r.iamTagChanges()
	if len(gone) > 0 {
		if _, err := call[awsiam.UntagUserOutput](r, &awsiam.UntagUserInput{UserName: &r.id, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := call[awsiam.TagUserOutput](r, &awsiam.TagUserInput{UserName: &r.id, Tags: set})
	return err
}

func updateGroup(r *request) error {
	for _, policy := range r.goneFrom("ManagedPolicyArns") {
		if _, err := call[awsiam.DetachGroupPolicyOutput](r, &awsiam.DetachGroupPolicyInput{GroupName: &r.id, PolicyArn: &policy}); unlessGone(err) != nil {
			return err
		}
	}
	for _, policy := range r.gonePolicies() {
		if _, err := call[awsiam.DeleteGroupPolicyOutput](r, &awsiam.DeleteGroupPolicyInput{GroupName: &r.id, PolicyName: &policy}); unlessGone(err) != nil {
			return err
		}
	}
	return nil
}

// goneUsers returns the roles, groups and users that an update removes a policy from.
func (r *request) goneUsers() []policyUser {
	now := r.policyUsers()
	return slices.DeleteFunc(r.was.policyUsers(), func(u policyUser) bool { return slices.Contains(now, u) })
}

// updatePolicy removes the policy where it no longer belongs, then writes it again.
func updatePolicy(r *request) error {
	users := r.goneUsers()
	if r.changed("PolicyName") {
		users = r.was.policyUsers()
	}
	if err := r.deletePolicy(r.was.text("PolicyName"), users); err != nil {
		return err
	}
	return r.putPolicy()
}

// versionsOfPolicy is how many versions a managed policy can have.
const versionsOfPolicy = 5

func updateManagedPolicy(r *request) error {
	if err := r.detachPolicy(r.goneUsers()); err != nil || !r.changed("PolicyDocument") {
		return err
	}
	versions, err := call[awsiam.ListPolicyVersionsOutput](r, &awsiam.ListPolicyVersionsInput{PolicyArn: &r.id})
	if err != nil {
		return err
	}
	if list := versions.Versions; len(list) == versionsOfPolicy {
		slices.SortFunc(list, func(a, b iamtypes.PolicyVersion) int { return a.CreateDate.Compare(*b.CreateDate) })
		i := slices.IndexFunc(list, func(v iamtypes.PolicyVersion) bool { return !v.IsDefaultVersion })
		if _, err := call[awsiam.DeletePolicyVersionOutput](r, &awsiam.DeletePolicyVersionInput{PolicyArn: &r.id, VersionId: list[i].VersionId}); err != nil {
			return err
		}
	}
	_, err = call[awsiam.CreatePolicyVersionOutput](r, &awsiam.CreatePolicyVersionInput{PolicyArn: &r.id, PolicyDocument: aws.String(r.document("PolicyDocument")), SetAsDefault: true})
	return err
}

func updateOIDCProvider(r *request) error {
	if r.changed("ThumbprintList") {
		if _, err := call[awsiam.UpdateOpenIDConnectProviderThumbprintOutput](r, &awsiam.UpdateOpenIDConnectProviderThumbprintInput{OpenIDConnectProviderArn: &r.id, ThumbprintList: r.list("ThumbprintList")}); err != nil {
			return err
		}
	}
	for _, id := range r.newIn("ClientIdList") {
		if _, err := call[awsiam.AddClientIDToOpenIDConnectProviderOutput](r, &awsiam.AddClientIDToOpenIDConnectProviderInput{OpenIDConnectProviderArn: &r.id, ClientID: &id}); err != nil {
			return err
		}
	}
	for _, id := range r.goneFrom("ClientIdList") {
		if _, err := call[awsiam.RemoveClientIDFromOpenIDConnectProviderOutput](r, &awsiam.RemoveClientIDFromOpenIDConnectProviderInput{OpenIDConnectProviderArn: &r.id, ClientID: &id}); err != nil {
			return err
		}
	}
	set, gone := r.iamTagChanges()
	if len(gone) > 0 {
		if _, err := call[awsiam.UntagOpenIDConnectProviderOutput](r, &awsiam.UntagOpenIDConnectProviderInput{OpenIDConnectProviderArn: &r.id, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := call[awsiam.TagOpenIDConnectProviderOutput](r, &awsiam.TagOpenIDConnectProviderInput{OpenIDConnectProviderArn: &r.id, Tags: set})
	return err
}

// updateMembers adds users to a group before it removes others.
func updateMembers(r *request) error {
	if err := r.addMembers(); err != nil {
		return err
	}
	gone := r.goneFrom("Users")
	if r.changed("GroupName") {
		gone = r.was.list("Users")
	}
	return r.removeMembers(r.was.text("GroupName"), gone)
}
