package iam

import (
	"context"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
)

// AttachUserPolicy attaches a managed policy to a user.
func (s *Service) AttachUserPolicy(ctx context.Context, in *awsiam.AttachUserPolicyInput) (*awsiam.AttachUserPolicyOutput, error) {
	return done[awsiam.AttachUserPolicyOutput](userKind.attach(ctx, s, in.UserName, in.PolicyArn))
}

// AttachGroupPolicy attaches a managed policy to a group.
func (s *Service) AttachGroupPolicy(ctx context.Context, in *awsiam.AttachGroupPolicyInput) (*awsiam.AttachGroupPolicyOutput, error) {
	return done[awsiam.AttachGroupPolicyOutput](groupKind.attach(ctx, s, in.GroupName, in.PolicyArn))
}

// AttachRolePolicy attaches a managed policy to a role.
func (s *Service) AttachRolePolicy(ctx context.Context, in *awsiam.AttachRolePolicyInput) (*awsiam.AttachRolePolicyOutput, error) {
	return done[awsiam.AttachRolePolicyOutput](roleKind.attach(ctx, s, in.RoleName, in.PolicyArn))
}

// DetachUserPolicy detaches a managed policy from a user.
func (s *Service) DetachUserPolicy(ctx context.Context, in *awsiam.DetachUserPolicyInput) (*awsiam.DetachUserPolicyOutput, error) {
	return done[awsiam.DetachUserPolicyOutput](userKind.detach(ctx, s, in.UserName, in.PolicyArn))
}

// DetachGroupPolicy detaches a managed policy from a group.
func (s *Service) DetachGroupPolicy(ctx context.Context, in *awsiam.DetachGroupPolicyInput) (*awsiam.DetachGroupPolicyOutput, error) {
	return done[awsiam.DetachGroupPolicyOutput](groupKind.detach(ctx, s, in.GroupName, in.PolicyArn))
}

// DetachRolePolicy detaches a managed policy from a role.
func (s *Service) DetachRolePolicy(ctx context.Context, in *awsiam.DetachRolePolicyInput) (*awsiam.DetachRolePolicyOutput, error) {
	return done[awsiam.DetachRolePolicyOutput](roleKind.detach(ctx, s, in.RoleName, in.PolicyArn))
}

// ListAttachedUserPolicies lists the managed policies of a user.
func (s *Service) ListAttachedUserPolicies(ctx context.Context, in *awsiam.ListAttachedUserPoliciesInput) (*awsiam.ListAttachedUserPoliciesOutput, error) {
	p, err := userKind.listAttached(ctx, s, in.UserName, wants{in.PathPrefix, in.Marker, in.MaxItems})
	if err != nil {
		return nil, err
	}
	return &awsiam.ListAttachedUserPoliciesOutput{AttachedPolicies: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// ListAttachedGroupPolicies lists the managed policies of a group.
func (s *Service) ListAttachedGroupPolicies(ctx context.Context, in *awsiam.ListAttachedGroupPoliciesInput) (*awsiam.ListAttachedGroupPoliciesOutput, error) {
	p, err := groupKind.listAttached(ctx, s, in.GroupName, wants{in.PathPrefix, in.Marker, in.MaxItems})
	if err != nil {
		return nil, err
	}
	return &awsiam.ListAttachedGroupPoliciesOutput{AttachedPolicies: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// ListAttachedRolePolicies lists the managed policies of a role.
func (s *Service) ListAttachedRolePolicies(ctx context.Context, in *awsiam.ListAttachedRolePoliciesInput) (*awsiam.ListAttachedRolePoliciesOutput, error) {
	p, err := roleKind.listAttached(ctx, s, in.RoleName, wants{in.PathPrefix, in.Marker, in.MaxItems})
	if err != nil {
		return nil, err
	}
	return &awsiam.ListAttachedRolePoliciesOutput{AttachedPolicies: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// PutUserPermissionsBoundary sets a managed policy as a user's permissions boundary.
func (s *Service) PutUserPermissionsBoundary(ctx context.Context, in *awsiam.PutUserPermissionsBoundaryInput) (*awsiam.PutUserPermissionsBoundaryOutput, error) {
	return done[awsiam.PutUserPermissionsBoundaryOutput](userKind.setBoundary(ctx, s, in.UserName, in.PermissionsBoundary))
}

// PutRolePermissionsBoundary sets a managed policy as a role's permissions boundary.
func (s *Service) PutRolePermissionsBoundary(ctx context.Context, in *awsiam.PutRolePermissionsBoundaryInput) (*awsiam.PutRolePermissionsBoundaryOutput, error) {
	return done[awsiam.PutRolePermissionsBoundaryOutput](roleKind.setBoundary(ctx, s, in.RoleName, in.PermissionsBoundary))
}

// DeleteUserPermissionsBoundary removes a user's permissions boundary.
func (s *Service) DeleteUserPermissionsBoundary(ctx context.Context, in *awsiam.DeleteUserPermissionsBoundaryInput) (*awsiam.DeleteUserPermissionsBoundaryOutput, error) {
	return done[awsiam.DeleteUserPermissionsBoundaryOutput](userKind.setBoundary(ctx, s, in.UserName, nil))
}

// DeleteRolePermissionsBoundary removes a role's permissions boundary.
func (s *Service) DeleteRolePermissionsBoundary(ctx context.Context, in *awsiam.DeleteRolePermissionsBoundaryInput) (*awsiam.DeleteRolePermissionsBoundaryOutput, error) {
	return done[awsiam.DeleteRolePermissionsBoundaryOutput](roleKind.setBoundary(ctx, s, in.RoleName, nil))
}
