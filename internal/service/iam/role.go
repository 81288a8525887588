package iam

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

const maxRoleName = 64

// CreateRole makes a role.
func (s *Service) CreateRole(ctx context.Context, in *awsiam.CreateRoleInput) (*awsiam.CreateRoleOutput, error) {
	var c checks
	c.name("roleName", *in.RoleName, maxRoleName)
	c.path("path", in.Path)
	c.description(in.Description)
	c.between("maxSessionDuration", in.MaxSessionDuration, 3600, 43200)
	c.document("assumeRolePolicyDocument", *in.AssumeRolePolicyDocument)
	c.tags(in.Tags)
	if err := c.err(); err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	id, err := s.newIdentity("AROA", *in.RoleName, in.Path, in.Tags)
	if err != nil {
		return nil, err
	}
	r := role{identity: id, Trust: *in.AssumeRolePolicyDocument, Description: str(in.Description), MaxSession: 3600}
	if in.MaxSessionDuration != nil {
		r.MaxSession = *in.MaxSessionDuration
	}
	err = roleKind.create(ctx, s, &r, func(tx *store.Tx) error {
		if err := checkTrust(tx, r.Trust); err != nil || in.PermissionsBoundary == nil {
			return err
		}
		return r.setBoundary(tx, acct, *in.PermissionsBoundary)
	})
	if err != nil {
		return nil, err
	}
	out := outRole(acct, &r)
	out.PermissionsBoundary, out.Tags = r.boundary(), outTags(r.Tags)
	return &awsiam.CreateRoleOutput{Role: out}, nil
}

// checkTrust judges a trust policy. As IAM does, it refuses principals that do
// not exist; of accounts that nobody has used yet nothing is known.
func checkTrust(r store.Reader, document string) error {
	if policyBytes(document) > maxTrustBytes {
		return quotaExceeded("ACLSizePerRole", maxTrustBytes)
	}
	doc, err := policy.Parse(policy.Trust, document)
	if err != nil {
		return malformedDocument(err)
	}
	for _, st := range doc.Statements {
		for _, ps := range []*policy.Principals{st.Principals, st.NotPrincipals} {
			if ps == nil {
				continue
			}
			for _, name := range ps.Service {
				if !strings.HasSuffix(name, ".amazonaws.com") && !strings.HasSuffix(name, ".amazon.com") {
					return invalidPrincipal("SERVICE", name)
				}
			}
			for _, name := range ps.AWS {
				if !principalExists(r, name) {
					return invalidPrincipal("AWS", name)
				}
			}
		}
	}
	return nil
}

func principalExists(r store.Reader, name string) bool {
	if isAccount(name) || strings.HasPrefix(name, "AIDA") || strings.HasPrefix(name, "AROA") {
		return true
	}
	a, err := arn.Parse(name)
	if err != nil || a.Partition != awsapi.Partition || a.Region != "" || !isAccount(a.Account) {
		return false
	}
	typ, _, _ := strings.Cut(a.Resource, "/")
	switch a.Service + " " + typ {
	case "iam root", "sts assumed-role", "sts federated-user":
		return true
	case "iam user", "iam role":
	default:
		return false
	}
	if _, err := accounts.Get(r, store.Key{Account: a.Account, ID: accountID}); err != nil {
		return true
	}
	_, path, n, _ := arnName(name, typ)
	if typ == "user" {
		u, err := users.Get(r, nameKey(a.Account, n))
		return err == nil && u.Path == path
	}
	role, err := roles.Get(r, nameKey(a.Account, n))
	return err == nil && role.Path == path
}

func isAccount(s string) bool { return len(s) == 12 && strings.Trim(s, "0123456789") == "" }

// GetRole describes a role.
func (s *Service) GetRole(ctx context.Context, in *awsiam.GetRoleInput) (*awsiam.GetRoleOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	r, err := s.role(acct, *in.RoleName)
	if err != nil {
		return nil, err
	}
	out := outRole(acct, &r)
	out.PermissionsBoundary, out.Tags, out.RoleLastUsed = r.boundary(), outTags(r.Tags), s.roleLastUsed(acct, &r)
	return &awsiam.GetRoleOutput{Role: out}, nil
}

// role reads the role a request names.
func (s *Service) role(account, name string) (role, error) {
	var c checks
	c.name("roleName", name, maxRoleName)
	if err := c.err(); err != nil {
		return role{}, err
	}
	r, err := roles.Get(s.store, nameKey(account, name))
	return r, orElse(err, noSuchRole(name))
}

// ListRoles lists the account's roles, without tags and boundaries, as IAM does.
func (s *Service) ListRoles(ctx context.Context, in *awsiam.ListRolesInput) (*awsiam.ListRolesOutput, error) {
	p, err := list(ctx, s, roles, wants{in.PathPrefix, in.Marker, in.MaxItems}, nil, outRole)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListRolesOutput{Roles: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// UpdateRole changes a role's description and longest session.
func (s *Service) UpdateRole(ctx context.Context, in *awsiam.UpdateRoleInput) (*awsiam.UpdateRoleOutput, error) {
	var c checks
	c.name("roleName", *in.RoleName, maxRoleName)
	c.description(in.Description)
	c.between("maxSessionDuration", in.MaxSessionDuration, 3600, 43200)
	if err := c.err(); err != nil {
		return nil, err
	}
	// Of AWS's own roles, the description alone can be edited.
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
	if err != nil {
		return nil, err
	}
	return &awsiam.UpdateRoleOutput{}, nil
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
	return &awsiam.UpdateRoleDescriptionOutput{Role: outRole(acct, &r)}, nil
}

// UpdateAssumeRolePolicy replaces a role's trust policy.
func (s *Service) UpdateAssumeRolePolicy(ctx context.Context, in *awsiam.UpdateAssumeRolePolicyInput) (*awsiam.UpdateAssumeRolePolicyOutput, error) {
	var c checks
	c.name("roleName", *in.RoleName, maxRoleName)
	c.document("policyDocument", *in.PolicyDocument)
	if err := c.err(); err != nil {
		return nil, err
	}
	err := roleKind.change(ctx, s, *in.RoleName, func(tx *store.Tx, r *role) error {
		r.Trust = *in.PolicyDocument
		return checkTrust(tx, r.Trust)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.UpdateAssumeRolePolicyOutput{}, nil
}

// DeleteRole removes a role that has no policies and no instance profile.
func (s *Service) DeleteRole(ctx context.Context, in *awsiam.DeleteRoleInput) (*awsiam.DeleteRoleOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	if _, err := s.role(acct, *in.RoleName); err != nil {
		return nil, err
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		r, err := roles.Get(tx, nameKey(acct, *in.RoleName))
		if err != nil {
			return orElse(err, noSuchRole(*in.RoleName))
		}
		holding, err := profilesOf(tx, acct, r.Name)
		switch {
		case err != nil:
			return err
		case r.ServiceLinked != "":
			return protectedRole(r.Name)
		case len(holding) > 0:
			return deleteConflict(mustRemoveRoles)
		case len(r.Attached) > 0:
			return deleteConflict(mustDetach)
		case len(r.Inline) > 0:
			return deleteConflict(mustDeletePolicies)
		}
		roles.Delete(tx, nameKey(acct, r.Name))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.DeleteRoleOutput{}, nil
}

func outRole(account string, r *role) *iamtypes.Role {
	out := &iamtypes.Role{
		Arn: aws.String(r.arn(account)), RoleId: aws.String(r.ID), RoleName: aws.String(r.Name), Path: aws.String(r.Path),
		CreateDate: aws.Time(r.Created), AssumeRolePolicyDocument: escaped(r.Trust), MaxSessionDuration: aws.Int32(r.MaxSession),
	}
	if r.Description != "" {
		out.Description = aws.String(r.Description)
	}
	return out
}
