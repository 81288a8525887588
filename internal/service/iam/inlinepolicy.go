package iam

import (
	"context"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
)

// PutUserPolicy sets an inline policy of a user.
func (s *Service) PutUserPolicy(ctx context.Context, in *awsiam.PutUserPolicyInput) (*awsiam.PutUserPolicyOutput, error) {
	return done[awsiam.PutUserPolicyOutput](userKind.putInline(ctx, s, in.UserName, in.PolicyName, in.PolicyDocument))
}

// PutGroupPolicy sets an inline policy of a group.
func (s *Service) PutGroupPolicy(ctx context.Context, in *awsiam.PutGroupPolicyInput) (*awsiam.PutGroupPolicyOutput, error) {
	return done[awsiam.PutGroupPolicyOutput](groupKind.putInline(ctx, s, in.GroupName, in.PolicyName, in.PolicyDocument))
}

// PutRolePolicy sets an inline policy of a role.
func (s *Service) PutRolePolicy(ctx context.Context, in *awsiam.PutRolePolicyInput) (*awsiam.PutRolePolicyOutput, error) {
	return done[awsiam.PutRolePolicyOutput](roleKind.putInline(ctx, s, in.RoleName, in.PolicyName, in.PolicyDocument))
}

// GetUserPolicy returns an inline policy of a user.
func (s *Service) GetUserPolicy(ctx context.Context, in *awsiam.GetUserPolicyInput) (*awsiam.GetUserPolicyOutput, error) {
	name, doc, err := userKind.inline(ctx, s, in.UserName, in.PolicyName)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetUserPolicyOutput{PolicyDocument: doc, PolicyName: in.PolicyName, UserName: name}, nil
}

// GetGroupPolicy returns an inline policy of a group.
func (s *Service) GetGroupPolicy(ctx context.Context, in *awsiam.GetGroupPolicyInput) (*awsiam.GetGroupPolicyOutput, error) {
	name, doc, err := groupKind.inline(ctx, s, in.GroupName, in.PolicyName)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetGroupPolicyOutput{PolicyDocument: doc, PolicyName: in.PolicyName, GroupName: name}, nil
}

// GetRolePolicy returns an inline policy of a role.
func (s *Service) GetRolePolicy(ctx context.Context, in *awsiam.GetRolePolicyInput) (*awsiam.GetRolePolicyOutput, error) {
	name, doc, err := roleKind.inline(ctx, s, in.RoleName, in.PolicyName)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetRolePolicyOutput{PolicyDocument: doc, PolicyName: in.PolicyName, RoleName: name}, nil
}

// ListUserPolicies lists the names of a user's inline policies.
func (s *Service) ListUserPolicies(ctx context.Context, in *awsiam.ListUserPoliciesInput) (*awsiam.ListUserPoliciesOutput, error) {
	p, err := userKind.listInline(ctx, s, in.UserName, wants{marker: in.Marker, most: in.MaxItems})
	if err != nil {
		return nil, err
	}
	return &awsiam.ListUserPoliciesOutput{PolicyNames: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// ListGroupPolicies lists the names of a group's inline policies.
func (s *Service) ListGroupPolicies(ctx context.Context, in *awsiam.ListGroupPoliciesInput) (*awsiam.ListGroupPoliciesOutput, error) {
	p, err := groupKind.listInline(ctx, s, in.GroupName, wants{marker: in.Marker, most: in.MaxItems})
	if err != nil {
		return nil, err
	}
	return &awsiam.ListGroupPoliciesOutput{PolicyNames: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// ListRolePolicies lists the names of a role's inline policies.
func (s *Service) ListRolePolicies(ctx context.Context, in *awsiam.ListRolePoliciesInput) (*awsiam.ListRolePoliciesOutput, error) {
	p, err := roleKind.listInline(ctx, s, in.RoleName, wants{marker: in.Marker, most: in.MaxItems})
	if err != nil {
		return nil, err
	}
	return &awsiam.ListRolePoliciesOutput{PolicyNames: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// DeleteUserPolicy deletes an inline policy of a user.
func (s *Service) DeleteUserPolicy(ctx context.Context, in *awsiam.DeleteUserPolicyInput) (*awsiam.DeleteUserPolicyOutput, error) {
	return done[awsiam.DeleteUserPolicyOutput](userKind.deleteInline(ctx, s, in.UserName, in.PolicyName))
}

// DeleteGroupPolicy deletes an inline policy of a group.
func (s *Service) DeleteGroupPolicy(ctx context.Context, in *awsiam.DeleteGroupPolicyInput) (*awsiam.DeleteGroupPolicyOutput, error) {
	return done[awsiam.DeleteGroupPolicyOutput](groupKind.deleteInline(ctx, s, in.GroupName, in.PolicyName))
}

// DeleteRolePolicy deletes an inline policy of a role.
func (s *Service) DeleteRolePolicy(ctx context.Context, in *awsiam.DeleteRolePolicyInput) (*awsiam.DeleteRolePolicyOutput, error) {
	return done[awsiam.DeleteRolePolicyOutput](roleKind.deleteInline(ctx, s, in.RoleName, in.PolicyName))
}
