package iam

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

const maxAccessKeys = 2

// CreateAccessKey creates an access key. Only its response contains the secret.
func (s *Service) CreateAccessKey(ctx context.Context, in *awsiam.CreateAccessKeyInput) (*awsiam.CreateAccessKeyOutput, error) {
	name, err := userName(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	id := s.NewAccessKeyID("AKIA", acct)
	var k accessKey
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		u, err := users.Get(tx, nameKey(acct, name))
		if err != nil {
			return store.NotFoundAs(err, noSuchUser(name))
		}
		owned := userKeys(tx, acct, &u)
		if len(owned) >= maxAccessKeys {
			return quotaExceeded("AccessKeysPerUser", maxAccessKeys)
		}
		k = accessKey{User: u.Name, UserID: u.ID, Secret: newSecret(), Active: true, Created: s.now()}
		return keys.Create(tx, store.Key{Account: acct, ID: id}, k)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.CreateAccessKeyOutput{AccessKey: &iamtypes.AccessKey{
		AccessKeyId: &id, SecretAccessKey: &k.Secret, Status: iamtypes.StatusTypeActive, UserName: &k.User, CreateDate: &k.Created,
	}}, nil
}

// ListAccessKeys lists a user's keys, or the caller's.
func (s *Service) ListAccessKeys(ctx context.Context, in *awsiam.ListAccessKeysInput) (*awsiam.ListAccessKeysOutput, error) {
	u, err := s.user(ctx, in.UserName)
	if err != nil {
		return nil, err
	}
	owned := userKeys(s.store, awsapi.CallFrom(ctx).Account, &u)
	var list []iamtypes.AccessKeyMetadata
	for _, k := range owned {
		list = append(list, iamtypes.AccessKeyMetadata{
			AccessKeyId: aws.String(k.Key.ID), CreateDate: aws.Time(k.Value.Created),
			Status: status(k.Value.Active), UserName: aws.String(k.Value.User),
		})
	}
	p, err := paginate(list, func(k iamtypes.AccessKeyMetadata) string { return *k.AccessKeyId }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListAccessKeysOutput{AccessKeyMetadata: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// UpdateAccessKey activates or deactivates a key, starting with the next request.
func (s *Service) UpdateAccessKey(ctx context.Context, in *awsiam.UpdateAccessKeyInput) (*awsiam.UpdateAccessKeyOutput, error) {
	err := s.changeKey(ctx, in.UserName, *in.AccessKeyId, func(tx *store.Tx, key store.Key, k accessKey) error {
		k.Active = in.Status == iamtypes.StatusTypeActive
		return keys.Put(tx, key, k)
	})
	return done[awsiam.UpdateAccessKeyOutput](err)
}

// DeleteAccessKey deletes a key.
func (s *Service) DeleteAccessKey(ctx context.Context, in *awsiam.DeleteAccessKeyInput) (*awsiam.DeleteAccessKeyOutput, error) {
	err := s.changeKey(ctx, in.UserName, *in.AccessKeyId, func(tx *store.Tx, key store.Key, _ accessKey) error {
		keys.Delete(tx, key)
		lastUses.Delete(tx, keyUse(key.Account, key.ID))
		return nil
	})
	return done[awsiam.DeleteAccessKeyOutput](err)
}

// changeKey runs fn on an access key of the user in the request, or of the caller.
func (s *Service) changeKey(ctx context.Context, name *string, id string, fn func(*store.Tx, store.Key, accessKey) error) error {
	n, err := userName(ctx, name)
	if err != nil {
		return err
	}
	acct := awsapi.CallFrom(ctx).Account
	return s.store.Update(ctx, func(tx *store.Tx) error {
		u, err := users.Get(tx, nameKey(acct, n))
		if err != nil {
			return store.NotFoundAs(err, noSuchUser(n))
		}
		key := store.Key{Account: acct, ID: id}
		k, err := keys.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, noSuchAccessKey(id))
		}
		if k.UserID != u.ID {
			return noSuchAccessKey(id)
		}
		return fn(tx, key, k)
	})
}

// userKeys returns a user's access keys, by ID.
func userKeys(r store.Reader, account string, u *user) []store.Item[accessKey] {
	return slices.DeleteFunc(keys.All(r, within(account)), func(k store.Item[accessKey]) bool { return k.Value.UserID != u.ID })
}

func status(active bool) iamtypes.StatusType {
	if active {
		return iamtypes.StatusTypeActive
	}
	return iamtypes.StatusTypeInactive
}
