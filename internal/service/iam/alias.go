package iam

import (
	"context"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// changeAccount changes the record of the caller's account.
func (s *Service) changeAccount(ctx context.Context, fn func(*store.Tx, *account) error) error {
	acct := awsapi.CallFrom(ctx).Account
	if err := s.EnsureAccount(ctx, acct); err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		return accounts.Update(tx, store.Key{Account: acct, ID: accountID}, func(a *account) error { return fn(tx, a) })
	})
}

// CreateAccountAlias sets the account's alias, replacing any old one. An alias is unique among all
// accounts.
func (s *Service) CreateAccountAlias(ctx context.Context, in *awsiam.CreateAccountAliasInput) (*awsiam.CreateAccountAliasOutput, error) {
	return done[awsiam.CreateAccountAliasOutput](s.changeAccount(ctx, func(tx *store.Tx, a *account) error {
		for _, other := range accounts.All(tx, store.Scope{}) {
			if other.Value.Alias == *in.AccountAlias {
				return aliasTaken(*in.AccountAlias)
			}
		}
		a.Alias = *in.AccountAlias
		return nil
	}))
}

// DeleteAccountAlias removes the account's alias.
func (s *Service) DeleteAccountAlias(ctx context.Context, in *awsiam.DeleteAccountAliasInput) (*awsiam.DeleteAccountAliasOutput, error) {
	return done[awsiam.DeleteAccountAliasOutput](s.changeAccount(ctx, func(_ *store.Tx, a *account) error {
		if a.Alias != *in.AccountAlias {
			return noSuchAlias(*in.AccountAlias)
		}
		a.Alias = ""
		return nil
	}))
}

// ListAccountAliases lists the account's alias, if it has one.
func (s *Service) ListAccountAliases(ctx context.Context, in *awsiam.ListAccountAliasesInput) (*awsiam.ListAccountAliasesOutput, error) {
	a, err := s.account(ctx)
	if err != nil {
		return nil, err
	}
	var list []string
	if a.Alias != "" {
		list = append(list, a.Alias)
	}
	p, err := paginate(list, func(alias string) string { return alias }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListAccountAliasesOutput{AccountAliases: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// account returns the record of the caller's account, which is empty if the account was never used.
func (s *Service) account(ctx context.Context) (account, error) {
	a, err := accounts.Get(s.store, store.Key{Account: awsapi.CallFrom(ctx).Account, ID: accountID})
	return a, store.NotFoundAs(err, nil)
}
