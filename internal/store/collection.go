package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// ErrNotFound is returned by reads of a key that is not there.
var ErrNotFound = errors.New("not found")

// IgnoreNotFound is err, or nil if what was looked for is not there.
func IgnoreNotFound(err error) error {
	return NotFoundAs(err, nil)
}

// NotFoundAs returns notFound if err is ErrNotFound, and err itself otherwise: what
// a caller hears as "does not exist" must never be a failure of the store.
func NotFoundAs(err, notFound error) error {
	if errors.Is(err, ErrNotFound) {
		return notFound
	}
	return err
}

// ErrExists is returned by Create for a key that is there.
var ErrExists = errors.New("exists already")

// A Key names one record of a collection. Global services (IAM) leave Region
// empty. ID may hold "/" to nest resources: "CLUSTER/NODEGROUP".
type Key struct {
	Account, Region, ID string
}

func (k Key) String() string { return k.Account + "/" + k.Region + "/" + k.ID }

// A Scope selects records: those of an account, a region, an ID prefix. The zero
// Scope selects all. Region is only looked at together with Account, Prefix only
// together with both; Global selects the records without a region.
type Scope struct {
	Account, Region string
	Global          bool
	Prefix          string
}

// An Item is a record with its key.
type Item[T any] struct {
	Key   Key
	Value T
	// Revision is the store revision of the record's last change.
	Revision int64
}

// A Collection is a typed set of records, one per kind of resource. It is a
// plain value: make it a package variable of the service that owns the resource.
//
// Values read are shared with every other reader: treat what they point to
// (slices, maps, pointers) as read-only. Tx.Update hands out a private copy.
type Collection[T any] struct {
	service, typ, full string
}

// NewCollection returns the collection of a service's resource type, e.g.
// NewCollection[Cluster]("eks", "cluster"). Records are JSON: fields added later
// are zero in old records.
func NewCollection[T any](service, typ string) Collection[T] {
	return Collection[T]{service, typ, service + "/" + typ}
}

// A Reader reads records: a *Store (the latest answered state) or a *Tx (that
// state as the transaction has changed it).
type Reader interface {
	get(coll, path string) (*entry, bool)
	list(coll, prefix string) []*entry
}

func (c Collection[T]) name() string { return c.full }

// path is the record's place in its collection.
func path(k Key) string { return k.Account + "/" + k.Region + "/" + k.ID }

func (c Collection[T]) prefix(s Scope) string {
	switch {
	case s.Account == "":
		return ""
	case s.Region == "" && !s.Global:
		return s.Account + "/"
	default:
		return s.Account + "/" + s.Region + "/" + s.Prefix
	}
}

// Get returns the record at k, or ErrNotFound.
func (c Collection[T]) Get(r Reader, k Key) (T, error) {
	e, ok := r.get(c.name(), path(k))
	if !ok {
		var zero T
		return zero, ErrNotFound
	}
	return decode[T](c, e)
}

// List returns the records in scope, ordered by account, region and ID.
func (c Collection[T]) List(r Reader, s Scope) ([]Item[T], error) {
	entries := r.list(c.name(), c.prefix(s))
	out := make([]Item[T], 0, len(entries))
	for _, e := range entries {
		v, err := decode[T](c, e)
		if err != nil {
			return nil, err
		}
		out = append(out, Item[T]{Key: e.key(), Value: v, Revision: e.rev})
	}
	return out, nil
}

// Scan calls fn for the records in scope whose IDs come after after, in the order
// of List, until fn returns false. The scope must name an account and a region
// (or Global). Unlike List it decodes and copies only what fn sees: a page of many.
func (c Collection[T]) Scan(r Reader, s Scope, after string, fn func(Key, T) bool) error {
	entries := r.list(c.name(), c.prefix(s))
	if after != "" {
		from := path(Key{s.Account, s.Region, after})
		entries = entries[sort.Search(len(entries), func(i int) bool { return entries[i].path > from }):]
	}
	for _, e := range entries {
		v, err := decode[T](c, e)
		if err != nil {
			return err
		}
		if !fn(e.key(), v) {
			return nil
		}
	}
	return nil
}

// Create writes a new record; ErrExists if k is taken.
func (c Collection[T]) Create(tx *Tx, k Key, v T) error {
	if _, ok := tx.get(c.name(), path(k)); ok {
		return ErrExists
	}
	return c.Put(tx, k, v)
}

// Put writes the record at k, new or not.
func (c Collection[T]) Put(tx *Tx, k Key, v T) error {
	if err := checkKey(k); err != nil {
		return err
	}
	if strings.Contains(c.service, "/") || strings.Contains(c.typ, "/") {
		return fmt.Errorf("bad collection name %q", c.name())
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", c.name(), k, err)
	}
	tx.put(c.name(), path(k), raw)
	return nil
}

// Update changes the record at k by fn, which receives a private copy. A change
// to what it is already writes nothing, so no reconciler is woken by it.
// ErrNotFound if it is not there.
func (c Collection[T]) Update(tx *Tx, k Key, fn func(*T) error) error {
	e, ok := tx.get(c.name(), path(k))
	if !ok {
		return ErrNotFound
	}
	var v T
	if err := json.Unmarshal(e.raw, &v); err != nil {
		return fmt.Errorf("decoding %s %s: %w", c.name(), k, err)
	}
	if err := fn(&v); err != nil {
		return err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", c.name(), k, err)
	}
	if !bytes.Equal(raw, e.raw) {
		tx.put(c.name(), path(k), raw)
	}
	return nil
}

// Delete removes the record at k. Removing what is not there does nothing.
func (c Collection[T]) Delete(tx *Tx, k Key) { tx.delete(c.name(), path(k)) }

// Watch returns a watcher of the records in scope.
func (c Collection[T]) Watch(s *Store, scope Scope) *Watcher {
	return s.view.watch(c.name(), c.prefix(scope))
}

// UpdateOne is a transaction that changes one record.
func (c Collection[T]) UpdateOne(ctx context.Context, s *Store, k Key, fn func(*T) error) error {
	return s.Update(ctx, func(tx *Tx) error { return c.Update(tx, k, fn) })
}

func decode[T any](c Collection[T], e *entry) (T, error) {
	if p := e.cached.Load(); p != nil {
		if v, ok := (*p).(T); ok {
			return v, nil
		}
	}
	var v T
	if err := json.Unmarshal(e.raw, &v); err != nil {
		return v, fmt.Errorf("decoding %s %s: %w", c.name(), e.key(), err)
	}
	boxed := any(v)
	e.cached.Store(&boxed)
	return v, nil
}

// checkKey refuses what could not be told apart in etcd.
func checkKey(k Key) error {
	if k.Account == "" || k.ID == "" || k.Region == "-" ||
		strings.Contains(k.Account, "/") || strings.Contains(k.Region, "/") || strings.ContainsRune(k.ID, 0) {
		return fmt.Errorf("bad store key %q", k)
	}
	return nil
}
