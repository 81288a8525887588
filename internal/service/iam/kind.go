package iam

import (
	"context"

	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// A kind is one kind of identity: its records, and what differs between users,
// groups and roles.
type kind[T any] struct {
	ownerKind
	records  store.Collection[T]
	identity func(*T) *identity
	longest  int // name
	missing  func(name string) error
	locked   func(*T) error // refuses changes; nil: never
}

var (
	userKind = kind[user]{
		ownerKind: ofUser, records: users, longest: maxNameGiven, missing: noSuchUser,
		identity: func(u *user) *identity { return &u.identity },
	}
	groupKind = kind[group]{
		ownerKind: ofGroup, records: groups, longest: maxGroupName, missing: noSuchGroup,
		identity: func(g *group) *identity { return &g.identity },
	}
	roleKind = kind[role]{
		ownerKind: ofRole, records: roles, longest: maxRoleName, missing: noSuchRole,
		identity: func(r *role) *identity { return &r.identity },
		locked: func(r *role) error {
			if r.ServiceLinked != "" {
				return protectedRole(r.Name)
			}
			return nil
		},
	}
)

// name checks the name by which a request means one.
func (k kind[T]) name(c *checks, name string) { c.name(k.word+"Name", name, k.longest) }

// read returns what a request names.
func (k kind[T]) read(ctx context.Context, r store.Reader, name string) (T, error) {
	var c checks
	k.name(&c, name)
	if err := c.err(); err != nil {
		var none T
		return none, err
	}
	v, err := k.records.Get(r, nameKey(awsapi.CallFrom(ctx).Account, name))
	return v, orElse(err, k.missing(name))
}

// change changes what a request names, in a transaction of its own.
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

// changeAny is change for what AWS lets users do to its own roles too.
func (k kind[T]) changeAny(ctx context.Context, s *Service, name string, fn func(*store.Tx, *T) error) error {
	var c checks
	k.name(&c, name)
	if err := c.err(); err != nil {
		return err
	}
	key := nameKey(awsapi.CallFrom(ctx).Account, name)
	return s.store.Update(ctx, func(tx *store.Tx) error {
		return orElse(k.records.Update(tx, key, func(v *T) error { return fn(tx, v) }), k.missing(name))
	})
}

// changeIdentity is change for what all kinds have.
func (k kind[T]) changeIdentity(ctx context.Context, s *Service, name string, fn func(*store.Tx, *identity) error) error {
	return k.change(ctx, s, name, func(tx *store.Tx, v *T) error { return fn(tx, k.identity(v)) })
}

func (k kind[T]) putInline(ctx context.Context, s *Service, owner, name, document *string) error {
	var c checks
	k.name(&c, *owner)
	c.name("policyName", *name, maxPolicyName)
	c.document("policyDocument", *document)
	if err := c.err(); err != nil {
		return err
	}
	return k.changeIdentity(ctx, s, *owner, func(_ *store.Tx, id *identity) error {
		return id.putInline(k.ownerKind, *name, *document)
	})
}

// inline returns the owner's own name and the document of one of its inline
// policies.
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
	if err := want.check(); err != nil {
		return page[string]{}, err
	}
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
	var c checks
	k.name(&c, *owner)
	c.arn("policyArn", *policyARN)
	if err := c.err(); err != nil {
		return err
	}
	return k.changeIdentity(ctx, s, *owner, func(tx *store.Tx, id *identity) error {
		return id.attach(tx, k.ownerKind, awsapi.CallFrom(ctx).Account, *policyARN)
	})
}

func (k kind[T]) detach(ctx context.Context, s *Service, owner, policyARN *string) error {
	var c checks
	k.name(&c, *owner)
	c.arn("policyArn", *policyARN)
	if err := c.err(); err != nil {
		return err
	}
	return k.changeIdentity(ctx, s, *owner, func(_ *store.Tx, id *identity) error { return id.detach(*policyARN) })
}

func (k kind[T]) listAttached(ctx context.Context, s *Service, owner *string, want wants) (page[iamtypes.AttachedPolicy], error) {
	if err := want.check(); err != nil {
		return page[iamtypes.AttachedPolicy]{}, err
	}
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

// done answers an operation that has nothing to say but that it is done.
func done[Out any](err error) (*Out, error) {
	if err != nil {
		return nil, err
	}
	return new(Out), nil
}
