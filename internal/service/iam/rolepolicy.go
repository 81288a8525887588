package iam

import (
	"context"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// PutRolePolicy sets an inline policy of a role.
func (s *Service) PutRolePolicy(ctx context.Context, in *awsiam.PutRolePolicyInput) (*awsiam.PutRolePolicyOutput, error) {
	var c checks
	c.name("roleName", *in.RoleName, maxRoleName)
	c.name("policyName", *in.PolicyName, maxPolicyName)
	c.document("policyDocument", *in.PolicyDocument)
	if err := c.err(); err != nil {
		return nil, err
	}
	err := s.changeRole(ctx, awsapi.CallFrom(ctx).Account, *in.RoleName, func(_ *store.Tx, r *role) error {
		return r.putInline(ofRole, *in.PolicyName, *in.PolicyDocument)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.PutRolePolicyOutput{}, nil
}

// GetRolePolicy returns an inline policy of a role.
func (s *Service) GetRolePolicy(ctx context.Context, in *awsiam.GetRolePolicyInput) (*awsiam.GetRolePolicyOutput, error) {
	r, err := s.role(awsapi.CallFrom(ctx).Account, *in.RoleName)
	if err != nil {
		return nil, err
	}
	doc, err := r.inline(ofRole, *in.PolicyName)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetRolePolicyOutput{PolicyDocument: doc, PolicyName: in.PolicyName, RoleName: &r.Name}, nil
}

// ListRolePolicies names the inline policies of a role.
func (s *Service) ListRolePolicies(ctx context.Context, in *awsiam.ListRolePoliciesInput) (*awsiam.ListRolePoliciesOutput, error) {
	var c checks
	c.page(in.Marker, in.MaxItems)
	if err := c.err(); err != nil {
		return nil, err
	}
	r, err := s.role(awsapi.CallFrom(ctx).Account, *in.RoleName)
	if err != nil {
		return nil, err
	}
	p, err := paginate(r.inlineNames(), func(n string) string { return n }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListRolePoliciesOutput{PolicyNames: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// DeleteRolePolicy removes an inline policy of a role.
func (s *Service) DeleteRolePolicy(ctx context.Context, in *awsiam.DeleteRolePolicyInput) (*awsiam.DeleteRolePolicyOutput, error) {
	err := s.changeRole(ctx, awsapi.CallFrom(ctx).Account, *in.RoleName, func(_ *store.Tx, r *role) error {
		return r.deleteInline(ofRole, *in.PolicyName)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.DeleteRolePolicyOutput{}, nil
}

// AttachRolePolicy attaches a managed policy to a role.
func (s *Service) AttachRolePolicy(ctx context.Context, in *awsiam.AttachRolePolicyInput) (*awsiam.AttachRolePolicyOutput, error) {
	var c checks
	c.name("roleName", *in.RoleName, maxRoleName)
	c.arn("policyArn", *in.PolicyArn)
	if err := c.err(); err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	err := s.changeRole(ctx, acct, *in.RoleName, func(tx *store.Tx, r *role) error {
		return r.attach(tx, ofRole, acct, *in.PolicyArn)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.AttachRolePolicyOutput{}, nil
}

// DetachRolePolicy detaches a managed policy from a role.
func (s *Service) DetachRolePolicy(ctx context.Context, in *awsiam.DetachRolePolicyInput) (*awsiam.DetachRolePolicyOutput, error) {
	var c checks
	c.name("roleName", *in.RoleName, maxRoleName)
	c.arn("policyArn", *in.PolicyArn)
	if err := c.err(); err != nil {
		return nil, err
	}
	err := s.changeRole(ctx, awsapi.CallFrom(ctx).Account, *in.RoleName, func(_ *store.Tx, r *role) error {
		return r.detach(*in.PolicyArn)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.DetachRolePolicyOutput{}, nil
}

// ListAttachedRolePolicies lists the managed policies of a role.
func (s *Service) ListAttachedRolePolicies(ctx context.Context, in *awsiam.ListAttachedRolePoliciesInput) (*awsiam.ListAttachedRolePoliciesOutput, error) {
	var c checks
	c.pathPrefix(in.PathPrefix)
	c.page(in.Marker, in.MaxItems)
	if err := c.err(); err != nil {
		return nil, err
	}
	r, err := s.role(awsapi.CallFrom(ctx).Account, *in.RoleName)
	if err != nil {
		return nil, err
	}
	p, err := r.attachedPage(in.PathPrefix, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListAttachedRolePoliciesOutput{AttachedPolicies: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}
