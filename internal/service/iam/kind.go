package iam

import (
	"context"

	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// A kind is a kind of identity: its records and the differences between users, groups and roles.
type kind[T any] struct {
	ownerKind
	records  store.Collection[T]
	identity func(*T) *identity
	plural   string // as in UsersPerAccount
	most     int    // per account
	missing  func(name string) error
	taken    func(name string) error
	locked   func(*T) error // rejects changes; nil means that changes are allowed
}

// Quotas are AWS's defaults.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html#reference_iam-quotas-entities
var (
	userKind = kind[user]{
		ownerKind: ofUser, records: users, missing: noSuchUser, taken: userExists,
		plural: "Users", most: 5000,
		identity: func(u *user) *identity { return &u.identity },
	}
	groupKind = kind[group]{
		ownerKind: ofGroup, records: groups, missing: noSuchGroup, taken: groupExists,
		plural: "Groups", most: 300,
		identity: func(g *group) *identity { return &g.identity },
	}
	roleKind = kind[role]{
		ownerKind: ofRole, records: roles, missing: noSuchRole, taken: roleExists,
		plural: "Roles", most: 1000,
		identity: func(r *role) *identity { return &r.identity },
		locked: func(r *role) error {
			if r.ServiceLinked != "" {
				return protectedRole(r.Name)
			}
			return nil
		},
	}
)

// read returns the record with the name in a request.
func (k kind[T]) read(ctx context.Context, r store.Reader, name string) (T, error) {
	v, err := k.records.Get(r, nameKey(awsapi.CallFrom(ctx).Account, name))
	return v, store.NotFoundAs(err, k.missing(name))
}

// create stores v, which complete may fill in first.
func (k kind[T]) create(ctx context.Context, s *Service, v *T, complete func(*store.Tx) error) error {
	acct := awsapi.CallFrom(ctx).Account
	if err := belowQuota(s, k.records, acct, k.plural, k.most); err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		if err := complete(tx); err != nil {
			return err
		}
		id := k.identity(v)
		if _, err := k.records.Get(tx, nameKey(acct, id.Name)); err == nil {
			return k.taken(id.Name)
		}
		return k.records.Create(tx, nameKey(acct, id.Name), *v)
	})
}

// belowQuota returns an error if the account has reached the quota. It counts before the
// transaction, because counting within it would make any two creations conflict. Concurrent
// creations may therefore exceed the quota.
func belowQuota[T any](s *Service, records store.Collection[T], account, plural string, most int) error {
	if len(records.All(s.store, within(account))) >= most {
		return quotaExceeded(plural+"PerAccount", most)
	}
	return nil
}

// rename changes the name and path of a record, unless they are nil. follow updates everything that
// refers to it by name.
func (k kind[T]) rename(ctx context.Context, s *Service, name string, newName, newPath *string, follow func(tx *store.Tx, v *T) error) error {
	acct := awsapi.CallFrom(ctx).Account
	return s.store.Update(ctx, func(tx *store.Tx) error {
		old := nameKey(acct, name)
		v, err := k.records.Get(tx, old)
		if err != nil {
			return store.NotFoundAs(err, k.missing(name))
		}
		id := k.identity(&v)
		if newPath != nil {
			id.Path = *newPath
		}
		if newName == nil || *newName == id.Name {
			return k.records.Put(tx, old, v)
		}
		key := nameKey(acct, *newName)
		if _, err := k.records.Get(tx, key); err == nil && key != old {
			return k.taken(*newName)
		}
		if err := follow(tx, &v); err != nil {
			return err
		}
		id.Name = *newName
		k.records.Delete(tx, old)
		return k.records.Put(tx, key, v)
	})
}

// change changes the record with the name in a request, in its own transaction.
func (k kind[T]) change(ctx context.Context, s *Service, name string, fn func(*store.Tx, *T) error) error {
	return k.changeAny(ctx, s, name, func(tx *store.Tx, v *T) error {
		if k.locked != nil {
			if err := k.locked(v); err != nil {
				return err
			}
		}
		return fn(tx, v)
	})
}

// changeAny is change, and also allows changes to service-linked roles.
func (k kind[T]) changeAny(ctx context.Context, s *Service, name string, fn func(*store.Tx, *T) error) error {
	key := nameKey(awsapi.CallFrom(ctx).Account, name)
	return s.store.Update(ctx, func(tx *store.Tx) error {
		return store.NotFoundAs(k.records.Update(tx, key, func(v *T) error { return fn(tx, v) }), k.missing(name))
	})
}

// changeIdentity is change for the fields that all kinds have.
func (k kind[T]) changeIdentity(ctx context.Context, s *Service, name string, fn func(*store.Tx, *identity) error) error {
	return k.change(ctx, s, name, func(tx *store.Tx, v *T) error { return fn(tx, k.identity(v)) })
}

func (k kind[T]) putInline(ctx context.Context, s *Service, owner, name, document *string) error {
	return k.changeIdentity(ctx, s, *owner, func(_ *store.Tx, id *identity) error {
		return id.putInline(k.ownerKind, *name, *document)
	})
}

// inline returns the owner's name as stored, and the document of an inline policy.
func (k kind[T]) inline(ctx context.Context, s *Service, owner, name *string) (is, document *string, err error) {
	v, err := k.read(ctx, s.store, *owner)
	if err != nil {
		return nil, nil, err
	}
	id := k.identity(&v)
	document, err = id.inline(k.ownerKind, *name)
	return &id.Name, document, err
}

func (k kind[T]) listInline(ctx context.Context, s *Service, owner *string, want wants) (page[string], error) {
	v, err := k.read(ctx, s.store, *owner)
	if err != nil {
		return page[string]{}, err
	}
	return paginate(k.identity(&v).inlineNames(), func(n string) string { return n }, want.marker, want.most)
}

func (k kind[T]) deleteInline(ctx context.Context, s *Service, owner, name *string) error {
	return k.changeIdentity(ctx, s, *owner, func(_ *store.Tx, id *identity) error {
		return id.deleteInline(k.ownerKind, *name)
	})
}

func (k kind[T]) attach(ctx context.Context, s *Service, owner, policyARN *string) error {
	return k.changeIdentity(ctx, s, *owner, func(tx *store.Tx, id *identity) error {
		return id.attach(tx, k.ownerKind, awsapi.CallFrom(ctx).Account, *policyARN)
	})
}

func (k kind[T]) detach(ctx context.Context, s *Service, owner, policyARN *string) error {
	return k.changeIdentity(ctx, s, *owner, func(_ *store.Tx, id *identity) error { return id.detach(*policyARN) })
}

func (k kind[T]) listAttached(ctx context.Context, s *Service, owner *string, want wants) (page[iamtypes.AttachedPolicy], error) {
	v, err := k.read(ctx, s.store, *owner)
	if err != nil {
		return page[iamtypes.AttachedPolicy]{}, err
	}
	return paginate(k.identity(&v).attached(want.prefix), func(p iamtypes.AttachedPolicy) string { return *p.PolicyArn }, want.marker, want.most)
}

// setBoundary sets the permissions boundary, or removes it if policyARN is nil.
func (k kind[T]) setBoundary(ctx context.Context, s *Service, owner, policyARN *string) error {
	return k.changeIdentity(ctx, s, *owner, func(tx *store.Tx, id *identity) error {
		if policyARN == nil {
			id.Boundary = ""
			return nil
		}
		return id.setBoundary(tx, awsapi.CallFrom(ctx).Account, *policyARN)
	})
}

// done returns the empty output of an operation that succeeded.
func done[Out any](err error) (*Out, error) {
	if err != nil {
		return nil, err
	}
	return new(Out), nil
}
