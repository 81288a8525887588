package iam

import (
	"context"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// PutUserPolicy sets an inline policy of a user.
func (s *Service) PutUserPolicy(ctx context.Context, in *awsiam.PutUserPolicyInput) (*awsiam.PutUserPolicyOutput, error) {
	var c checks
	c.name("userName", *in.UserName, maxNameGiven)
	c.name("policyName", *in.PolicyName, maxPolicyName)
	c.document("policyDocument", *in.PolicyDocument)
	if err := c.err(); err != nil {
		return nil, err
	}
	err := s.changeUser(ctx, awsapi.CallFrom(ctx).Account, *in.UserName, func(_ *store.Tx, u *user) error {
		return u.putInline(ofUser, *in.PolicyName, *in.PolicyDocument)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.PutUserPolicyOutput{}, nil
}

// GetUserPolicy returns an inline policy of a user.
func (s *Service) GetUserPolicy(ctx context.Context, in *awsiam.GetUserPolicyInput) (*awsiam.GetUserPolicyOutput, error) {
	u, err := s.user(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	doc, err := u.inline(ofUser, *in.PolicyName)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetUserPolicyOutput{PolicyDocument: doc, PolicyName: in.PolicyName, UserName: &u.Name}, nil
}

// ListUserPolicies names the inline policies of a user.
func (s *Service) ListUserPolicies(ctx context.Context, in *awsiam.ListUserPoliciesInput) (*awsiam.ListUserPoliciesOutput, error) {
	var c checks
	c.page(in.Marker, in.MaxItems)
	if err := c.err(); err != nil {
		return nil, err
	}
	u, err := s.user(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	p, err := paginate(u.inlineNames(), func(n string) string { return n }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListUserPoliciesOutput{PolicyNames: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// DeleteUserPolicy removes an inline policy of a user.
func (s *Service) DeleteUserPolicy(ctx context.Context, in *awsiam.DeleteUserPolicyInput) (*awsiam.DeleteUserPolicyOutput, error) {
	err := s.changeUser(ctx, awsapi.CallFrom(ctx).Account, *in.UserName, func(_ *store.Tx, u *user) error {
		return u.deleteInline(ofUser, *in.PolicyName)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.DeleteUserPolicyOutput{}, nil
}

// AttachUserPolicy attaches a managed policy to a user.
func (s *Service) AttachUserPolicy(ctx context.Context, in *awsiam.AttachUserPolicyInput) (*awsiam.AttachUserPolicyOutput, error) {
	var c checks
	c.name("userName", *in.UserName, maxNameGiven)
	c.arn("policyArn", *in.PolicyArn)
	if err := c.err(); err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	err := s.changeUser(ctx, acct, *in.UserName, func(tx *store.Tx, u *user) error {
		return u.attach(tx, ofUser, acct, *in.PolicyArn)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.AttachUserPolicyOutput{}, nil
}

// DetachUserPolicy detaches a managed policy from a user.
func (s *Service) DetachUserPolicy(ctx context.Context, in *awsiam.DetachUserPolicyInput) (*awsiam.DetachUserPolicyOutput, error) {
	var c checks
	c.name("userName", *in.UserName, maxNameGiven)
	c.arn("policyArn", *in.PolicyArn)
	if err := c.err(); err != nil {
		return nil, err
	}
	err := s.changeUser(ctx, awsapi.CallFrom(ctx).Account, *in.UserName, func(_ *store.Tx, u *user) error {
		return u.detach(*in.PolicyArn)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.DetachUserPolicyOutput{}, nil
}

// ListAttachedUserPolicies lists the managed policies of a user.
func (s *Service) ListAttachedUserPolicies(ctx context.Context, in *awsiam.ListAttachedUserPoliciesInput) (*awsiam.ListAttachedUserPoliciesOutput, error) {
	var c checks
	c.pathPrefix(in.PathPrefix)
	c.page(in.Marker, in.MaxItems)
	if err := c.err(); err != nil {
		return nil, err
	}
	u, err := s.user(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	p, err := u.attachedPage(in.PathPrefix, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListAttachedUserPoliciesOutput{AttachedPolicies: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}
