package iam

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateUser creates a user without credentials or permissions.
func (s *Service) CreateUser(ctx context.Context, in *awsiam.CreateUserInput) (*awsiam.CreateUserOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	id, err := s.newIdentity("AIDA", *in.UserName, in.Path, in.Tags)
	if err != nil {
		return nil, err
	}
	u := user{identity: id}
	err = userKind.create(ctx, s, &u, func(tx *store.Tx) error {
		if in.PermissionsBoundary == nil {
			return nil
		}
		return u.setBoundary(tx, acct, *in.PermissionsBoundary)
	})
	if err != nil {
		return nil, err
	}
	out := outUser(acct, &u)
	out.Tags, out.PermissionsBoundary = outTags(u.Tags), u.boundary()
	return &awsiam.CreateUserOutput{User: out}, nil
}

// GetUser describes a user. If the request has no name, it describes the caller, who may be root.
func (s *Service) GetUser(ctx context.Context, in *awsiam.GetUserInput) (*awsiam.GetUserOutput, error) {
	call := awsapi.CallFrom(ctx)
	if in.UserName == nil && call.Principal.Type == awsapi.Root {
		if err := s.EnsureAccount(ctx, call.Account); err != nil {
			return nil, err
		}
		acct, err := accounts.Get(s.store, store.Key{Account: call.Account, ID: accountID})
		if err != nil {
			return nil, err
		}
		return &awsiam.GetUserOutput{User: &iamtypes.User{
			Arn: aws.String(rootARN(call.Account)), UserId: aws.String(call.Account),
			Path: aws.String("/"), UserName: aws.String("root"), CreateDate: &acct.Created,
		}}, nil
	}
	u, err := s.user(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	out := outUser(call.Account, &u)
	out.PermissionsBoundary, out.Tags = u.boundary(), outTags(u.Tags)
	return &awsiam.GetUserOutput{User: out}, nil
}

// user returns the user in the request, or the caller.
func (s *Service) user(ctx context.Context, name *string) (user, error) {
	n, err := userName(ctx, name)
	if err != nil {
		return user{}, err
	}
	u, err := users.Get(s.store, nameKey(awsapi.CallFrom(ctx).Account, n))
	return u, store.NotFoundAs(err, noSuchUser(n))
}

// userName returns the name of the user in the request, or of the caller.
func userName(ctx context.Context, name *string) (string, error) {
	if name == nil {
		p := awsapi.CallFrom(ctx).Principal
		if p.Type != awsapi.IAMUser {
			return "", callerIsNoUser()
		}
		return p.Name, nil
	}
	return *name, nil
}

// ListUsers lists the account's users.
func (s *Service) ListUsers(ctx context.Context, in *awsiam.ListUsersInput) (*awsiam.ListUsersOutput, error) {
	p, err := list(ctx, s, users, wants{in.PathPrefix, in.Marker, in.MaxItems}, nil, outUser)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListUsersOutput{Users: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// UpdateUser changes a user's name or path. Access keys and group memberships follow.
func (s *Service) UpdateUser(ctx context.Context, in *awsiam.UpdateUserInput) (*awsiam.UpdateUserOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	return done[awsiam.UpdateUserOutput](userKind.rename(ctx, s, *in.UserName, in.NewUserName, in.NewPath, func(tx *store.Tx, u *user) error {
		owned := userKeys(tx, acct, u)
		for _, k := range owned {
			k.Value.User = *in.NewUserName
			if err := keys.Put(tx, k.Key, k.Value); err != nil {
				return err
			}
		}
		return nil
	}))
}

// DeleteUser deletes a user that no longer has any dependents.
func (s *Service) DeleteUser(ctx context.Context, in *awsiam.DeleteUserInput) (*awsiam.DeleteUserOutput, error) {
	name, err := userName(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		u, err := users.Get(tx, nameKey(acct, name))
		if err != nil {
			return store.NotFoundAs(err, noSuchUser(name))
		}
		owned := userKeys(tx, acct, &u)
		switch {
		case len(owned) > 0:
			return deleteConflict(mustDeleteKeys)
		case u.Login != nil:
			return deleteConflict(mustDeleteLogin)
		case len(devicesOf(tx, acct, u.ID)) > 0:
			return deleteConflict(mustDeleteMFA)
		case hasOtherCredentials(tx, acct, u.ID):
			return deleteConflict(mustRemoveObjects)
		case len(u.Attached) > 0:
			return deleteConflict(mustDetach)
		case len(u.Inline) > 0:
			return deleteConflict(mustDeletePolicies)
		case len(u.Groups) > 0:
			return deleteConflict(mustLeaveGroups)
		}
		users.Delete(tx, nameKey(acct, name))
		forgetUses(tx, acct, u.ID)
		return nil
	})
	return done[awsiam.DeleteUserOutput](err)
}

func outUser(account string, u *user) *iamtypes.User {
	return &iamtypes.User{
		Arn: aws.String(u.arn(account)), UserId: aws.String(u.ID), UserName: aws.String(u.Name),
		Path: aws.String(u.Path), CreateDate: aws.Time(u.Created),
	}
}
