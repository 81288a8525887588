package iam

import (
	"context"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// A tagged resource has tags that can be changed.
type tagged func(change func(*[]tag) error) error

// add adds tags. kind names the resource in the error for too many tags.
func (t tagged) add(kind string, tags []iamtypes.Tag) error {
	return t(func(have *[]tag) error { return setTags(have, tags, kind) })
}

func (t tagged) remove(keys []string) error {
	return t(func(have *[]tag) error {
		unsetTags(have, keys)
		return nil
	})
}

func (s *Service) taggedUser(ctx context.Context, name *string) tagged {
	return func(change func(*[]tag) error) error {
		return userKind.change(ctx, s, *name, func(_ *store.Tx, u *user) error { return change(&u.Tags) })
	}
}

// taggedRole gives access to the tags of a role. Service-linked roles can be tagged as well:
// UnmodifiableEntity is not among TagRole's errors.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_TagRole.html
func (s *Service) taggedRole(ctx context.Context, name *string) tagged {
	return func(change func(*[]tag) error) error {
		return roleKind.changeAny(ctx, s, *name, func(_ *store.Tx, r *role) error { return change(&r.Tags) })
	}
}

func (s *Service) taggedPolicy(ctx context.Context, policyARN *string) tagged {
	return func(change func(*[]tag) error) error {
		return s.changePolicy(ctx, *policyARN, func(_ *store.Tx, p *managedPolicy) error { return change(&p.Tags) })
	}
}

func (s *Service) taggedProfile(ctx context.Context, name *string) tagged {
	return func(change func(*[]tag) error) error {
		return s.changeProfile(ctx, *name, func(_ *store.Tx, p *instanceProfile) error { return change(&p.Tags) })
	}
}

func (s *Service) taggedProvider(ctx context.Context, providerARN *string) tagged {
	return func(change func(*[]tag) error) error {
		return s.changeProvider(ctx, *providerARN, func(p *oidcProvider) error { return change(&p.Tags) })
	}
}

// TagUser adds tags to a user.
func (s *Service) TagUser(ctx context.Context, in *awsiam.TagUserInput) (*awsiam.TagUserOutput, error) {
	return done[awsiam.TagUserOutput](s.taggedUser(ctx, in.UserName).add("User", in.Tags))
}

// UntagUser removes tags from a user.
func (s *Service) UntagUser(ctx context.Context, in *awsiam.UntagUserInput) (*awsiam.UntagUserOutput, error) {
	return done[awsiam.UntagUserOutput](s.taggedUser(ctx, in.UserName).remove(in.TagKeys))
}

// ListUserTags lists a user's tags.
func (s *Service) ListUserTags(ctx context.Context, in *awsiam.ListUserTagsInput) (*awsiam.ListUserTagsOutput, error) {
	u, err := s.user(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	p, err := pageTags(u.Tags, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListUserTagsOutput{Tags: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// TagRole adds tags to a role.
func (s *Service) TagRole(ctx context.Context, in *awsiam.TagRoleInput) (*awsiam.TagRoleOutput, error) {
	return done[awsiam.TagRoleOutput](s.taggedRole(ctx, in.RoleName).add("Role", in.Tags))
}

// UntagRole removes tags from a role.
func (s *Service) UntagRole(ctx context.Context, in *awsiam.UntagRoleInput) (*awsiam.UntagRoleOutput, error) {
	return done[awsiam.UntagRoleOutput](s.taggedRole(ctx, in.RoleName).remove(in.TagKeys))
}

// ListRoleTags lists a role's tags.
func (s *Service) ListRoleTags(ctx context.Context, in *awsiam.ListRoleTagsInput) (*awsiam.ListRoleTagsOutput, error) {
	r, err := roleKind.read(ctx, s.store, *in.RoleName)
	if err != nil {
		return nil, err
	}
	p, err := pageTags(r.Tags, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListRoleTagsOutput{Tags: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// TagPolicy adds tags to a customer-managed policy.
func (s *Service) TagPolicy(ctx context.Context, in *awsiam.TagPolicyInput) (*awsiam.TagPolicyOutput, error) {
	return done[awsiam.TagPolicyOutput](s.taggedPolicy(ctx, in.PolicyArn).add("Policy", in.Tags))
}

// UntagPolicy removes tags from a customer-managed policy.
func (s *Service) UntagPolicy(ctx context.Context, in *awsiam.UntagPolicyInput) (*awsiam.UntagPolicyOutput, error) {
	return done[awsiam.UntagPolicyOutput](s.taggedPolicy(ctx, in.PolicyArn).remove(in.TagKeys))
}

// ListPolicyTags lists a customer-managed policy's tags.
func (s *Service) ListPolicyTags(ctx context.Context, in *awsiam.ListPolicyTagsInput) (*awsiam.ListPolicyTagsOutput, error) {
	pol, err := findPolicy(s.store, awsapi.CallFrom(ctx).Account, *in.PolicyArn)
	if err != nil {
		return nil, err
	}
	p, err := pageTags(pol.Tags, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListPolicyTagsOutput{Tags: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// TagInstanceProfile adds tags to an instance profile.
func (s *Service) TagInstanceProfile(ctx context.Context, in *awsiam.TagInstanceProfileInput) (*awsiam.TagInstanceProfileOutput, error) {
	return done[awsiam.TagInstanceProfileOutput](s.taggedProfile(ctx, in.InstanceProfileName).add("InstanceProfile", in.Tags))
}

// UntagInstanceProfile removes tags from an instance profile.
func (s *Service) UntagInstanceProfile(ctx context.Context, in *awsiam.UntagInstanceProfileInput) (*awsiam.UntagInstanceProfileOutput, error) {
	return done[awsiam.UntagInstanceProfileOutput](s.taggedProfile(ctx, in.InstanceProfileName).remove(in.TagKeys))
}

// ListInstanceProfileTags lists an instance profile's tags.
func (s *Service) ListInstanceProfileTags(ctx context.Context, in *awsiam.ListInstanceProfileTagsInput) (*awsiam.ListInstanceProfileTagsOutput, error) {
	prof, err := s.profile(awsapi.CallFrom(ctx).Account, *in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	p, err := pageTags(prof.Tags, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListInstanceProfileTagsOutput{Tags: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// TagOpenIDConnectProvider adds tags to a provider.
func (s *Service) TagOpenIDConnectProvider(ctx context.Context, in *awsiam.TagOpenIDConnectProviderInput) (*awsiam.TagOpenIDConnectProviderOutput, error) {
	return done[awsiam.TagOpenIDConnectProviderOutput](s.taggedProvider(ctx, in.OpenIDConnectProviderArn).add("OpenIDConnectProvider", in.Tags))
}

// UntagOpenIDConnectProvider removes tags from a provider.
func (s *Service) UntagOpenIDConnectProvider(ctx context.Context, in *awsiam.UntagOpenIDConnectProviderInput) (*awsiam.UntagOpenIDConnectProviderOutput, error) {
	return done[awsiam.UntagOpenIDConnectProviderOutput](s.taggedProvider(ctx, in.OpenIDConnectProviderArn).remove(in.TagKeys))
}

// ListSAMLProviderTags lists a provider's tags.
func (s *Service) ListSAMLProviderTags(ctx context.Context, in *awsiam.ListSAMLProviderTagsInput) (*awsiam.ListSAMLProviderTagsOutput, error) {
	prov, err := s.samlProvider(ctx, *in.SAMLProviderArn)
	if err != nil {
		return nil, err
	}
	p, err := pageTags(prov.Tags, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListSAMLProviderTagsOutput{Tags: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// ListOpenIDConnectProviderTags lists a provider's tags.
func (s *Service) ListOpenIDConnectProviderTags(ctx context.Context, in *awsiam.ListOpenIDConnectProviderTagsInput) (*awsiam.ListOpenIDConnectProviderTagsOutput, error) {
	prov, err := s.provider(ctx, *in.OpenIDConnectProviderArn)
	if err != nil {
		return nil, err
	}
	p, err := pageTags(prov.Tags, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListOpenIDConnectProviderTagsOutput{Tags: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}
