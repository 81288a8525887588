package elbv2

import (
	"context"

	"github.com/drydock-dev/drydock/internal/store"
)

// A kind is a kind of resource that requests identify by ARN.
type kind[T any] struct {
	records store.Collection[T]
	// resource is the first part of the resource in ARNs. what and name are used in errors.
	resource, what, name string
	key                  func(id string) string // key of the record, given the part of the ARN after resource
	arn                  func(*T) string
	tags                 func(*T) *tags
	missing              func(arn string) error
}

var (
	loadBalancerKind = kind[loadBalancerRecord]{
		records: loadBalancers, resource: "loadbalancer", what: "load balancer", name: "load balancer",
		key: func(id string) string { return part(id, 1) }, missing: errNoLoadBalancer,
		arn: (*loadBalancerRecord).arn, tags: func(r *loadBalancerRecord) *tags { return &r.Tags },
	}
	targetGroupKind = kind[targetGroupRecord]{
		records: targetGroups, resource: "targetgroup", what: "target group", name: "target group",
		key: func(id string) string { return part(id, 0) }, missing: errNoTargetGroup,
		arn: (*targetGroupRecord).arn, tags: func(r *targetGroupRecord) *tags { return &r.Tags },
	}
	listenerKind = kind[listenerRecord]{
		records: listeners, resource: "listener", what: "listener", name: "listener",
		key: func(id string) string { return id }, missing: func(string) error { return errNoListeners() },
		arn: (*listenerRecord).arn, tags: func(r *listenerRecord) *tags { return &r.Tags },
	}
	// Default rules have no records of their own.
	ruleKind = kind[ruleRecord]{
		records: rules, resource: "listener-rule", what: "rule", name: "listener rule",
		key: func(id string) string { return id }, missing: func(string) error { return errNoRules() },
		arn: (*ruleRecord).arn, tags: func(r *ruleRecord) *tags { return &r.Tags },
	}
)

// get returns the record with an ARN, and its key.
func (k *kind[T]) get(r store.Reader, sc scope, a *string) (v T, key store.Key, err error) {
	if text(a) == "" {
		return v, key, errMissing(k.what + " ARN")
	}
	id := idOf(k.resource, *a)
	if id == "" {
		return v, key, errARN(*a, k.name)
	}
	key = sc.Key(k.key(id))
	found, err := k.records.Get(r, key)
	if store.IsNotFound(err) || err == nil && k.arn(&found) != *a {
		return v, key, k.missing(*a)
	}
	return found, key, err
}

// change changes the record with an ARN.
func (k *kind[T]) change(ctx context.Context, s *Service, a *string, fn func(*store.Tx, *T) error) (out T, err error) {
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		v, key, err := k.get(tx, scopeOf(ctx), a)
		if err != nil {
			return err
		}
		if err := fn(tx, &v); err != nil {
			return err
		}
		out = v
		return k.records.Put(tx, key, v)
	})
	return out, err
}

// retag calls fn with the tags of the resource with an ARN, and stores the result unless tx is nil.
func (k *kind[T]) retag(r store.Reader, tx *store.Tx, sc scope, a *string, fn func(tags) (tags, error)) error {
	v, key, err := k.get(r, sc, a)
	if err != nil {
		return err
	}
	return retagRecord(tx, k.records, key, &v, k.tags(&v), fn)
}

// retagRecord calls fn with tags of a record, and stores the record unless tx is nil.
func retagRecord[T any](tx *store.Tx, records store.Collection[T], key store.Key, v *T, t *tags, fn func(tags) (tags, error)) (err error) {
	if *t, err = fn(*t); err != nil || tx == nil {
		return err
	}
	return records.Put(tx, key, *v)
}
