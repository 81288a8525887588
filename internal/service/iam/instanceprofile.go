package iam

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateInstanceProfile creates an instance profile without a role.
func (s *Service) CreateInstanceProfile(ctx context.Context, in *awsiam.CreateInstanceProfileInput) (*awsiam.CreateInstanceProfileOutput, error) {
	tags, err := newTags(in.Tags)
	if err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	p := instanceProfile{Name: *in.InstanceProfileName, Path: pathOr(in.Path), ID: ids.IAM("AIPA"), Created: s.now(), Tags: tags}
	if err := belowQuota(s, profiles, acct, "InstanceProfiles", 1000); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := profiles.Get(tx, nameKey(acct, p.Name)); err == nil {
			return instanceProfileExists(p.Name)
		}
		return profiles.Create(tx, nameKey(acct, p.Name), p)
	})
	if err != nil {
		return nil, err
	}
	out, err := s.outProfile(acct, &p)
	if err != nil {
		return nil, err
	}
	out.Tags = outTags(p.Tags)
	return &awsiam.CreateInstanceProfileOutput{InstanceProfile: out}, nil
}

// GetInstanceProfile describes an instance profile and its role.
func (s *Service) GetInstanceProfile(ctx context.Context, in *awsiam.GetInstanceProfileInput) (*awsiam.GetInstanceProfileOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	p, err := s.profile(acct, *in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	out, err := s.outProfile(acct, &p)
	if err != nil {
		return nil, err
	}
	out.Tags = outTags(p.Tags)
	return &awsiam.GetInstanceProfileOutput{InstanceProfile: out}, nil
}

// profile returns the instance profile in a request.
func (s *Service) profile(account, name string) (instanceProfile, error) {
	p, err := profiles.Get(s.store, nameKey(account, name))
	return p, store.NotFoundAs(err, noSuchInstanceProfile(name))
}

// ListInstanceProfiles lists the account's instance profiles.
func (s *Service) ListInstanceProfiles(ctx context.Context, in *awsiam.ListInstanceProfilesInput) (*awsiam.ListInstanceProfilesOutput, error) {
	list, p, err := s.listProfiles(ctx, wants{in.PathPrefix, in.Marker, in.MaxItems}, nil)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListInstanceProfilesOutput{InstanceProfiles: list, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// ListInstanceProfilesForRole lists the instance profiles that contain a role.
func (s *Service) ListInstanceProfilesForRole(ctx context.Context, in *awsiam.ListInstanceProfilesForRoleInput) (*awsiam.ListInstanceProfilesForRoleOutput, error) {
	r, err := roleKind.read(ctx, s.store, *in.RoleName)
	if err != nil {
		return nil, err
	}
	holds := func(p *instanceProfile) bool { return strings.EqualFold(p.Role, r.Name) }
	list, p, err := s.listProfiles(ctx, wants{marker: in.Marker, most: in.MaxItems}, holds)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListInstanceProfilesForRoleOutput{InstanceProfiles: list, IsTruncated: p.truncated, Marker: p.marker}, nil
}

func (s *Service) listProfiles(ctx context.Context, want wants, keep func(*instanceProfile) bool) ([]iamtypes.InstanceProfile, page[store.Item[instanceProfile]], error) {
	p, err := pageOf(ctx, s, profiles, want, keep)
	if err != nil {
		return nil, p, err
	}
	list := []iamtypes.InstanceProfile{}
	for i := range p.items {
		out, err := s.outProfile(awsapi.CallFrom(ctx).Account, &p.items[i].Value)
		if err != nil {
			return nil, p, err
		}
		list = append(list, *out)
	}
	return list, p, nil
}

// profilesOf returns the instance profiles that contain a role.
func profilesOf(r store.Reader, account, roleName string) []store.Item[instanceProfile] {
	return slices.DeleteFunc(profiles.All(r, within(account)), func(i store.Item[instanceProfile]) bool { return !strings.EqualFold(i.Value.Role, roleName) })
}

// DeleteInstanceProfile deletes an instance profile without a role.
func (s *Service) DeleteInstanceProfile(ctx context.Context, in *awsiam.DeleteInstanceProfileInput) (*awsiam.DeleteInstanceProfileOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		key := nameKey(acct, *in.InstanceProfileName)
		p, err := profiles.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, noSuchInstanceProfile(*in.InstanceProfileName))
		}
		if p.Role != "" {
			return deleteConflict(mustRemoveRoles)
		}
		profiles.Delete(tx, key)
		return nil
	})
	return done[awsiam.DeleteInstanceProfileOutput](err)
}

// AddRoleToInstanceProfile adds a role to an instance profile, which can contain only one.
func (s *Service) AddRoleToInstanceProfile(ctx context.Context, in *awsiam.AddRoleToInstanceProfileInput) (*awsiam.AddRoleToInstanceProfileOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	err := s.changeProfile(ctx, *in.InstanceProfileName, func(tx *store.Tx, p *instanceProfile) error {
		r, err := roles.Get(tx, nameKey(acct, *in.RoleName))
		switch {
		case err != nil:
			return store.NotFoundAs(err, noSuchRole(*in.RoleName))
		case r.ServiceLinked != "":
			return protectedRole(r.Name)
		case p.Role != "":
			return quotaExceeded("InstanceSessionsPerInstanceProfile", 1)
		}
		p.Role = r.Name
		return nil
	})
	return done[awsiam.AddRoleToInstanceProfileOutput](err)
}

// RemoveRoleFromInstanceProfile removes a role from an instance profile.
func (s *Service) RemoveRoleFromInstanceProfile(ctx context.Context, in *awsiam.RemoveRoleFromInstanceProfileInput) (*awsiam.RemoveRoleFromInstanceProfileOutput, error) {
	err := s.changeProfile(ctx, *in.InstanceProfileName, func(_ *store.Tx, p *instanceProfile) error {
		if !strings.EqualFold(p.Role, *in.RoleName) {
			return noSuchRole(*in.RoleName)
		}
		p.Role = ""
		return nil
	})
	return done[awsiam.RemoveRoleFromInstanceProfileOutput](err)
}

// changeProfile changes an instance profile of the caller's account.
func (s *Service) changeProfile(ctx context.Context, name string, fn func(*store.Tx, *instanceProfile) error) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		key := nameKey(awsapi.CallFrom(ctx).Account, name)
		return store.NotFoundAs(profiles.Update(tx, key, func(p *instanceProfile) error { return fn(tx, p) }), noSuchInstanceProfile(name))
	})
}

func (s *Service) outProfile(account string, p *instanceProfile) (*iamtypes.InstanceProfile, error) {
	out := &iamtypes.InstanceProfile{
		Arn: aws.String(p.arn(account)), InstanceProfileId: aws.String(p.ID), InstanceProfileName: aws.String(p.Name),
		Path: aws.String(p.Path), CreateDate: aws.Time(p.Created), Roles: []iamtypes.Role{},
	}
	if p.Role != "" {
		r, err := roles.Get(s.store, nameKey(account, p.Role))
		if err != nil {
			return nil, err // DeleteRole fails while an instance profile contains the role
		}
		out.Roles = append(out.Roles, *s.outRole(account, &r))
	}
	return out, nil
}
