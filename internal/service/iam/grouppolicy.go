package iam

import (
	"context"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// PutGroupPolicy sets an inline policy of a group.
func (s *Service) PutGroupPolicy(ctx context.Context, in *awsiam.PutGroupPolicyInput) (*awsiam.PutGroupPolicyOutput, error) {
	var c checks
	c.name("groupName", *in.GroupName, maxNameGiven)
	c.name("policyName", *in.PolicyName, maxPolicyName)
	c.document("policyDocument", *in.PolicyDocument)
	if err := c.err(); err != nil {
		return nil, err
	}
	err := s.changeGroup(ctx, awsapi.CallFrom(ctx).Account, *in.GroupName, func(_ *store.Tx, g *group) error {
		return g.putInline(ofGroup, *in.PolicyName, *in.PolicyDocument)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.PutGroupPolicyOutput{}, nil
}

// GetGroupPolicy returns an inline policy of a group.
func (s *Service) GetGroupPolicy(ctx context.Context, in *awsiam.GetGroupPolicyInput) (*awsiam.GetGroupPolicyOutput, error) {
	g, err := s.group(awsapi.CallFrom(ctx).Account, *in.GroupName)
	if err != nil {
		return nil, err
	}
	doc, err := g.inline(ofGroup, *in.PolicyName)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetGroupPolicyOutput{PolicyDocument: doc, PolicyName: in.PolicyName, GroupName: &g.Name}, nil
}

// ListGroupPolicies names the inline policies of a group.
func (s *Service) ListGroupPolicies(ctx context.Context, in *awsiam.ListGroupPoliciesInput) (*awsiam.ListGroupPoliciesOutput, error) {
	var c checks
	c.page(in.Marker, in.MaxItems)
	if err := c.err(); err != nil {
		return nil, err
	}
	g, err := s.group(awsapi.CallFrom(ctx).Account, *in.GroupName)
	if err != nil {
		return nil, err
	}
	p, err := paginate(g.inlineNames(), func(n string) string { return n }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListGroupPoliciesOutput{PolicyNames: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// DeleteGroupPolicy removes an inline policy of a group.
func (s *Service) DeleteGroupPolicy(ctx context.Context, in *awsiam.DeleteGroupPolicyInput) (*awsiam.DeleteGroupPolicyOutput, error) {
	err := s.changeGroup(ctx, awsapi.CallFrom(ctx).Account, *in.GroupName, func(_ *store.Tx, g *group) error {
		return g.deleteInline(ofGroup, *in.PolicyName)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.DeleteGroupPolicyOutput{}, nil
}

// AttachGroupPolicy attaches a managed policy to a group.
func (s *Service) AttachGroupPolicy(ctx context.Context, in *awsiam.AttachGroupPolicyInput) (*awsiam.AttachGroupPolicyOutput, error) {
	var c checks
	c.name("groupName", *in.GroupName, maxNameGiven)
	c.arn("policyArn", *in.PolicyArn)
	if err := c.err(); err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	err := s.changeGroup(ctx, acct, *in.GroupName, func(tx *store.Tx, g *group) error {
		return g.attach(tx, ofGroup, acct, *in.PolicyArn)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.AttachGroupPolicyOutput{}, nil
}

// DetachGroupPolicy detaches a managed policy from a group.
func (s *Service) DetachGroupPolicy(ctx context.Context, in *awsiam.DetachGroupPolicyInput) (*awsiam.DetachGroupPolicyOutput, error) {
	var c checks
	c.name("groupName", *in.GroupName, maxNameGiven)
	c.arn("policyArn", *in.PolicyArn)
	if err := c.err(); err != nil {
		return nil, err
	}
	err := s.changeGroup(ctx, awsapi.CallFrom(ctx).Account, *in.GroupName, func(_ *store.Tx, g *group) error {
		return g.detach(*in.PolicyArn)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.DetachGroupPolicyOutput{}, nil
}

// ListAttachedGroupPolicies lists the managed policies of a group.
func (s *Service) ListAttachedGroupPolicies(ctx context.Context, in *awsiam.ListAttachedGroupPoliciesInput) (*awsiam.ListAttachedGroupPoliciesOutput, error) {
	var c checks
	c.pathPrefix(in.PathPrefix)
	c.page(in.Marker, in.MaxItems)
	if err := c.err(); err != nil {
		return nil, err
	}
	g, err := s.group(awsapi.CallFrom(ctx).Account, *in.GroupName)
	if err != nil {
		return nil, err
	}
	p, err := g.attachedPage(in.PathPrefix, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListAttachedGroupPoliciesOutput{AttachedPolicies: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}
