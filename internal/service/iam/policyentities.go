package iam

import (
	"context"
	"slices"
	"strings"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// ListEntitiesForPolicy lists the groups, roles and users that have a managed policy attached or as
// their permissions boundary.
func (s *Service) ListEntitiesForPolicy(ctx context.Context, in *awsiam.ListEntitiesForPolicyInput) (*awsiam.ListEntitiesForPolicyOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	if err := checkManaged(s.store, acct, *in.PolicyArn, noSuchPolicy); err != nil {
		return nil, err
	}
	type entity struct {
		kind ownerKind
		id   *identity
	}
	var list []entity
	eachIdentity(s.store, acct, func(k ownerKind, id *identity) {
		attached, bounded := slices.Contains(id.Attached, *in.PolicyArn), id.Boundary == *in.PolicyArn
		switch in.PolicyUsageFilter {
		case iamtypes.PolicyUsageTypePermissionsPolicy:
			bounded = false
		case iamtypes.PolicyUsageTypePermissionsBoundary:
			attached = false
		}
		if (attached || bounded) && wanted(in.EntityFilter, k) && hasPathPrefix(id.Path, in.PathPrefix) {
			list = append(list, entity{k, id})
		}
	})
	// eachIdentity visits identities by kind and then by name, like the keys.
	p, err := paginate(list, func(e entity) string { return e.kind.word + "/" + strings.ToLower(e.id.Name) }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	out := &awsiam.ListEntitiesForPolicyOutput{
		PolicyGroups: []iamtypes.PolicyGroup{}, PolicyRoles: []iamtypes.PolicyRole{}, PolicyUsers: []iamtypes.PolicyUser{},
		IsTruncated: p.truncated, Marker: p.marker,
	}
	for _, e := range p.items {
		switch e.kind {
		case ofGroup:
			out.PolicyGroups = append(out.PolicyGroups, iamtypes.PolicyGroup{GroupId: &e.id.ID, GroupName: &e.id.Name})
		case ofRole:
			out.PolicyRoles = append(out.PolicyRoles, iamtypes.PolicyRole{RoleId: &e.id.ID, RoleName: &e.id.Name})
		case ofUser:
			out.PolicyUsers = append(out.PolicyUsers, iamtypes.PolicyUser{UserId: &e.id.ID, UserName: &e.id.Name})
		}
	}
	return out, nil
}

// wanted applies an entity filter. Filters on policies do not restrict entities.
func wanted(filter iamtypes.EntityType, k ownerKind) bool {
	switch filter {
	case iamtypes.EntityTypeUser:
		return k == ofUser
	case iamtypes.EntityTypeRole:
		return k == ofRole
	case iamtypes.EntityTypeGroup:
		return k == ofGroup
	}
	return true
}
