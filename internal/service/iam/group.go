package iam

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	maxGroupsPerUser = 10
)

// CreateGroup creates a group of users.
func (s *Service) CreateGroup(ctx context.Context, in *awsiam.CreateGroupInput) (*awsiam.CreateGroupOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	id, err := s.newIdentity("AGPA", *in.GroupName, in.Path, nil)
	if err != nil {
		return nil, err
	}
	g := group{identity: id}
	err = groupKind.create(ctx, s, &g, func(*store.Tx) error { return nil })
	if err != nil {
		return nil, err
	}
	return &awsiam.CreateGroupOutput{Group: outGroup(acct, &g)}, nil
}

// GetGroup describes a group and lists its users.
func (s *Service) GetGroup(ctx context.Context, in *awsiam.GetGroupInput) (*awsiam.GetGroupOutput, error) {
	g, err := groupKind.read(ctx, s.store, *in.GroupName)
	if err != nil {
		return nil, err
	}
	member := func(u *user) bool { return slices.Contains(u.Groups, g.Name) }
	p, err := list(ctx, s, users, wants{marker: in.Marker, most: in.MaxItems}, member, outUser)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetGroupOutput{
		Group: outGroup(awsapi.CallFrom(ctx).Account, &g), Users: p.items, IsTruncated: p.truncated, Marker: p.marker,
	}, nil
}

// groupMembers returns the users in a group.
func groupMembers(r store.Reader, account, name string) []store.Item[user] {
	return slices.DeleteFunc(users.All(r, within(account)), func(u store.Item[user]) bool { return !slices.Contains(u.Value.Groups, name) })
}

// ListGroups lists the account's groups.
func (s *Service) ListGroups(ctx context.Context, in *awsiam.ListGroupsInput) (*awsiam.ListGroupsOutput, error) {
	p, err := list(ctx, s, groups, wants{in.PathPrefix, in.Marker, in.MaxItems}, nil, outGroup)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListGroupsOutput{Groups: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// ListGroupsForUser lists the groups that a user is in.
func (s *Service) ListGroupsForUser(ctx context.Context, in *awsiam.ListGroupsForUserInput) (*awsiam.ListGroupsForUserOutput, error) {
	u, err := s.user(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	joined := func(g *group) bool { return slices.Contains(u.Groups, g.Name) }
	p, err := list(ctx, s, groups, wants{marker: in.Marker, most: in.MaxItems}, joined, outGroup)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListGroupsForUserOutput{Groups: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// UpdateGroup changes a group's name or path. Its users stay in it.
func (s *Service) UpdateGroup(ctx context.Context, in *awsiam.UpdateGroupInput) (*awsiam.UpdateGroupOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	return done[awsiam.UpdateGroupOutput](groupKind.rename(ctx, s, *in.GroupName, in.NewGroupName, in.NewPath, func(tx *store.Tx, g *group) error {
		members := groupMembers(tx, acct, g.Name)
		for _, m := range members {
			err := users.Update(tx, m.Key, func(u *user) error {
				u.Groups[slices.Index(u.Groups, g.Name)] = *in.NewGroupName
				slices.Sort(u.Groups)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// DeleteGroup deletes a group without users and policies.
func (s *Service) DeleteGroup(ctx context.Context, in *awsiam.DeleteGroupInput) (*awsiam.DeleteGroupOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(tx, nameKey(acct, *in.GroupName))
		if err != nil {
			return store.NotFoundAs(err, noSuchGroup(*in.GroupName))
		}
		members := groupMembers(tx, acct, g.Name)
		switch {
		case len(members) > 0:
			return deleteConflict(mustLeaveGroups)
		case len(g.Attached) > 0:
			return deleteConflict(mustDetach)
		case len(g.Inline) > 0:
			return deleteConflict(mustDeletePolicies)
		}
		groups.Delete(tx, nameKey(acct, g.Name))
		return nil
	})
	return done[awsiam.DeleteGroupOutput](err)
}

// AddUserToGroup adds a user to a group. It is not an error if the user is already in it.
func (s *Service) AddUserToGroup(ctx context.Context, in *awsiam.AddUserToGroupInput) (*awsiam.AddUserToGroupOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	err := userKind.change(ctx, s, *in.UserName, func(tx *store.Tx, u *user) error {
		g, err := groups.Get(tx, nameKey(acct, *in.GroupName))
		switch {
		case err != nil:
			return store.NotFoundAs(err, noSuchGroup(*in.GroupName))
		case slices.Contains(u.Groups, g.Name):
			return nil
		case len(u.Groups) >= maxGroupsPerUser:
			return quotaExceeded("GroupsPerUser", maxGroupsPerUser)
		}
		u.Groups = append(u.Groups, g.Name)
		slices.Sort(u.Groups)
		return nil
	})
	return done[awsiam.AddUserToGroupOutput](err)
}

// RemoveUserFromGroup removes a user from a group.
func (s *Service) RemoveUserFromGroup(ctx context.Context, in *awsiam.RemoveUserFromGroupInput) (*awsiam.RemoveUserFromGroupOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	err := userKind.change(ctx, s, *in.UserName, func(tx *store.Tx, u *user) error {
		if _, err := groups.Get(tx, nameKey(acct, *in.GroupName)); err != nil {
			return store.NotFoundAs(err, noSuchGroup(*in.GroupName))
		}
		u.Groups = slices.DeleteFunc(u.Groups, func(g string) bool { return strings.EqualFold(g, *in.GroupName) })
		return nil
	})
	return done[awsiam.RemoveUserFromGroupOutput](err)
}

func outGroup(account string, g *group) *iamtypes.Group {
	return &iamtypes.Group{
		Arn: aws.String(g.arn(account)), GroupId: aws.String(g.ID), GroupName: aws.String(g.Name), Path: aws.String(g.Path), CreateDate: aws.Time(g.Created),
	}
}
