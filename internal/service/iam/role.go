package iam

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateRole creates a role.
func (s *Service) CreateRole(ctx context.Context, in *awsiam.CreateRoleInput) (*awsiam.CreateRoleOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	id, err := s.newIdentity("AROA", *in.RoleName, in.Path, in.Tags)
	if err != nil {
		return nil, err
	}
	r := role{identity: id, Trust: *in.AssumeRolePolicyDocument, Description: aws.ToString(in.Description), MaxSession: 3600}
	if in.MaxSessionDuration != nil {
		r.MaxSession = *in.MaxSessionDuration
	}
	err = roleKind.create(ctx, s, &r, func(tx *store.Tx) error {
		var err error
		if r.Trusted, err = checkTrust(tx, r.Trust); err != nil || in.PermissionsBoundary == nil {
			return err
		}
		return r.setBoundary(tx, acct, *in.PermissionsBoundary)
	})
	if err != nil {
		return nil, err
	}
	out := s.outRole(acct, &r)
	out.PermissionsBoundary, out.Tags = r.boundary(), outTags(r.Tags)
	if in.MaxSessionDuration == nil {
		out.MaxSessionDuration = nil // [recorded] LocalStack's tests/aws/services/iam/test_iam.snapshot.json, test_create_describe_role
	}
	return &awsiam.CreateRoleOutput{Role: out}, nil
}

// GetRole describes a role.
func (s *Service) GetRole(ctx context.Context, in *awsiam.GetRoleInput) (*awsiam.GetRoleOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	r, err := s.role(acct, *in.RoleName)
	if err != nil {
		return nil, err
	}
	out := s.outRole(acct, &r)
	out.PermissionsBoundary, out.Tags, out.RoleLastUsed = r.boundary(), outTags(r.Tags), s.roleLastUsed(acct, &r)
	return &awsiam.GetRoleOutput{Role: out}, nil
}

// role returns the role in a request.
func (s *Service) role(account, name string) (role, error) {
	r, err := roles.Get(s.store, nameKey(account, name))
	return r, store.NotFoundAs(err, noSuchRole(name))
}

// ListRoles lists the account's roles, without tags and boundaries, as IAM does.
func (s *Service) ListRoles(ctx context.Context, in *awsiam.ListRolesInput) (*awsiam.ListRolesOutput, error) {
	p, err := list(ctx, s, roles, wants{in.PathPrefix, in.Marker, in.MaxItems}, nil, s.outRole)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListRolesOutput{Roles: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// UpdateRole changes a role's description and maximum session duration.
func (s *Service) UpdateRole(ctx context.Context, in *awsiam.UpdateRoleInput) (*awsiam.UpdateRoleOutput, error) {
	// Only the description of service-linked roles can be changed.
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/edit-service-linked-role.html
	change := roleKind.change
	if in.MaxSessionDuration == nil {
		change = roleKind.changeAny
	}
	err := change(ctx, s, *in.RoleName, func(_ *store.Tx, r *role) error {
		if in.Description != nil {
			r.Description = *in.Description
		}
		if in.MaxSessionDuration != nil {
			r.MaxSession = *in.MaxSessionDuration
		}
		return nil
	})
	return done[awsiam.UpdateRoleOutput](err)
}

// UpdateRoleDescription changes a role's description.
func (s *Service) UpdateRoleDescription(ctx context.Context, in *awsiam.UpdateRoleDescriptionInput) (*awsiam.UpdateRoleDescriptionOutput, error) {
	if _, err := s.UpdateRole(ctx, &awsiam.UpdateRoleInput{RoleName: in.RoleName, Description: in.Description}); err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	r, err := s.role(acct, *in.RoleName)
	if err != nil {
		return nil, err
	}
	return &awsiam.UpdateRoleDescriptionOutput{Role: s.outRole(acct, &r)}, nil
}

// UpdateAssumeRolePolicy replaces a role's trust policy.
func (s *Service) UpdateAssumeRolePolicy(ctx context.Context, in *awsiam.UpdateAssumeRolePolicyInput) (*awsiam.UpdateAssumeRolePolicyOutput, error) {
	err := roleKind.change(ctx, s, *in.RoleName, func(tx *store.Tx, r *role) error {
		var err error
		r.Trust = *in.PolicyDocument
		r.Trusted, err = checkTrust(tx, r.Trust)
		return err
	})
	return done[awsiam.UpdateAssumeRolePolicyOutput](err)
}

// DeleteRole deletes a role without policies and instance profiles.
func (s *Service) DeleteRole(ctx context.Context, in *awsiam.DeleteRoleInput) (*awsiam.DeleteRoleOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	if _, err := s.role(acct, *in.RoleName); err != nil {
		return nil, err
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		r, err := roles.Get(tx, nameKey(acct, *in.RoleName))
		if err != nil {
			return store.NotFoundAs(err, noSuchRole(*in.RoleName))
		}
		holding := profilesOf(tx, acct, r.Name)
		switch {
		case r.ServiceLinked != "":
			return protectedRole(r.Name)
		case len(holding) > 0:
			return deleteConflict(mustRemoveRoles)
		case len(r.Attached) > 0:
			return deleteConflict(mustDetach)
		case len(r.Inline) > 0:
			return deleteConflict(mustDeletePolicies)
		}
		deleteRole(tx, acct, &r)
		return nil
	})
	return done[awsiam.DeleteRoleOutput](err)
}

func deleteRole(tx *store.Tx, account string, r *role) {
	roles.Delete(tx, nameKey(account, r.Name))
	lastUses.Delete(tx, roleUse(account, r.Name))
	forgetUses(tx, account, r.ID)
}

func (s *Service) outRole(account string, r *role) *iamtypes.Role {
	out := &iamtypes.Role{
		Arn: aws.String(r.arn(account)), RoleId: aws.String(r.ID), RoleName: aws.String(r.Name), Path: aws.String(r.Path),
		CreateDate: aws.Time(r.Created), AssumeRolePolicyDocument: escaped(s.shownTrust(r)), MaxSessionDuration: aws.Int32(r.MaxSession),
	}
	if r.Description != "" {
		out.Description = aws.String(r.Description)
	}
	return out
}
