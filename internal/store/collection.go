package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
)

// ErrNotFound is returned by reads of a key that does not exist.
var ErrNotFound = errors.New("not found")

// IsNotFound reports whether err means that the record does not exist.
func IsNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// IgnoreNotFound returns nil if err means that the record does not exist, and err otherwise.
func IgnoreNotFound(err error) error {
	return NotFoundAs(err, nil)
}

// NotFoundAs returns notFound if err is ErrNotFound, and err itself otherwise, so that a failure of the store is
// never reported to a caller as "does not exist".
func NotFoundAs(err, notFound error) error {
	if errors.Is(err, ErrNotFound) {
		return notFound
	}
	return err
}

// ErrExists is returned by Create for a key that already exists.
var ErrExists = errors.New("already exists")

// A Key names one record of a collection. Global services (IAM) leave Region
// empty. ID may hold "/" to nest resources: "CLUSTER/NODEGROUP".
type Key struct {
	Account, Region, ID string
}

func (k Key) String() string { return k.Account + "/" + k.Region + "/" + k.ID }

// Below is the key of what belongs to the resource at k: its ID is ID/….
func (k Key) Below(id string) Key {
	k.ID += "/" + id
	return k
}

// AllBelow is the scope of what belongs to the resource at k.
func (k Key) AllBelow() Scope {
	return Scope{Account: k.Account, Region: k.Region, Prefix: k.ID + "/"}
}

// Owner is the key of the resource, named by the first part of the ID, that k belongs to.
func (k Key) Owner() Key {
	k.ID, _, _ = strings.Cut(k.ID, "/")
	return k
}

// A Scope selects records by account, region and ID prefix. The zero Scope selects all. Region is used only together
// with Account, and Prefix only together with both; Global selects the records without a region.
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

// A Collection is a typed set of records, one per kind of resource. It is a plain value: make it a package variable
// of the service that owns the resource.
//
// Values read are shared with every other reader: treat what they point to (slices, maps, pointers) as read-only.
// Tx.Update passes a private copy.
type Collection[T any] struct{ d *Declaration }

// NewCollection declares the collection of a service's resource type, e.g. NewCollection[Cluster]("eks", "cluster").
// Records are JSON. Their version is 1 plus the number of migrations. Every change of the records' JSON needs a new
// migration, also a change by an update of the SDK. Never remove or reorder migrations, nor remove the declaration.
func NewCollection[T any](service, typ string, migrations ...Migration) Collection[T] {
	c := Collection[T]{&Declaration{Service: service, Type: typ, Record: reflect.TypeFor[T](), migrations: migrations}}
	c.d.check = func(e *entry) error {
		_, err := c.decode(e)
		return err
	}
	declare(c.d)
	return c
}

// A Reader reads records: a *Store (the latest committed state) or a *Tx (that state with the transaction's own
// changes).
type Reader interface {
	get(coll, path string) (*entry, bool)
	list(coll, prefix string) []*entry
	unreadable(*entry, *UnreadableError)
}

func (c Collection[T]) name() string { return c.d.Name() }

// path returns the record's place in its collection.
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

// read decodes a record and logs it if that fails.
func (c Collection[T]) read(r Reader, e *entry) (T, error) {
	v, err := c.decode(e)
	var bad *UnreadableError
	if errors.As(err, &bad) {
		r.unreadable(e, bad)
	}
	return v, err
}

// Get returns the record at k, or ErrNotFound. If the record exists but cannot be decoded, the error is an
// ErrUnreadable.
func (c Collection[T]) Get(r Reader, k Key) (T, error) {
	e, ok := r.get(c.name(), path(k))
	if !ok {
		var zero T
		return zero, ErrNotFound
	}
	return c.read(r, e)
}

// All returns the records in scope, ordered by account, region and ID. It leaves out records that cannot be decoded:
// see Unreadable.
func (c Collection[T]) All(r Reader, s Scope) []Item[T] {
	entries := r.list(c.name(), c.prefix(s))
	out := make([]Item[T], 0, len(entries))
	for _, e := range entries {
		v, err := c.read(r, e)
		if err != nil {
			continue
		}
		out = append(out, Item[T]{Key: e.key(), Value: v, Revision: e.rev})
	}
	return out
}

// Unreadable returns the keys in scope that All leaves out. Code that removes everything that has no record must
// call it too.
func (c Collection[T]) Unreadable(r Reader, s Scope) []Key {
	var out []Key
	for _, e := range r.list(c.name(), c.prefix(s)) {
		if _, err := c.read(r, e); err != nil {
			out = append(out, e.key())
		}
	}
	return out
}

// Scan calls fn for each record in scope whose ID sorts after the given one, in the order of All, until fn returns
// false. The scope must name an account and a region (or Global). Unlike All it decodes and copies only the records
// that fn sees, which suits paging.
func (c Collection[T]) Scan(r Reader, s Scope, after string, fn func(Key, T) bool) {
	entries := r.list(c.name(), c.prefix(s))
	if after != "" {
		from := path(Key{s.Account, s.Region, after})
		entries = entries[sort.Search(len(entries), func(i int) bool { return entries[i].path > from }):]
	}
	for _, e := range entries {
		v, err := c.read(r, e)
		if err != nil {
			continue
		}
		if !fn(e.key(), v) {
			return
		}
	}
}

// Create writes a new record. It returns ErrExists if k exists.
func (c Collection[T]) Create(tx *Tx, k Key, v T) error {
	if _, ok := tx.get(c.name(), path(k)); ok {
		return ErrExists
	}
	return c.Put(tx, k, v)
}

// Put writes the record at k, whether or not it exists. It does not replace a record that cannot be decoded.
func (c Collection[T]) Put(tx *Tx, k Key, v T) error {
	if err := checkKey(k); err != nil {
		return err
	}
	if strings.Contains(c.d.Service, "/") || strings.Contains(c.d.Type, "/") {
		return fmt.Errorf("bad collection name %q", c.name())
	}
	if e, ok := tx.peek(c.name(), path(k)); ok {
		if bad := e.bad(); bad != nil {
			return bad
		}
	}
	raw, err := c.d.encode(v)
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", c.name(), k, err)
	}
	tx.put(c.name(), path(k), raw)
	return nil
}

// Update changes the record at k with fn, which receives a private copy. If fn leaves the record as it was, nothing
// is written, so no reconciler wakes up. It returns ErrNotFound if the record does not exist.
func (c Collection[T]) Update(tx *Tx, k Key, fn func(*T) error) error {
	e, ok := tx.get(c.name(), path(k))
	if !ok {
		return ErrNotFound
	}
	var v T
	if err := c.d.decode(e.raw, &v); err != nil {
		_, err := c.read(tx, e)
		return err
	}
	if err := fn(&v); err != nil {
		return err
	}
	raw, err := c.d.encode(v)
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", c.name(), k, err)
	}
	if !bytes.Equal(raw, e.raw) {
		tx.put(c.name(), path(k), raw)
	}
	return nil
}

// Delete removes the record at k. It does nothing if the record does not exist.
func (c Collection[T]) Delete(tx *Tx, k Key) { tx.delete(c.name(), path(k)) }

// Watch returns a watcher of the records in scope.
func (c Collection[T]) Watch(s *Store, scope Scope) *Watcher {
	return s.view.watch(c.name(), c.prefix(scope))
}

// UpdateOne updates one record in its own transaction.
func (c Collection[T]) UpdateOne(ctx context.Context, s *Store, k Key, fn func(*T) error) error {
	return s.Update(ctx, func(tx *Tx) error { return c.Update(tx, k, fn) })
}

// decode returns the entry's value or an UnreadableError. The first reader decodes the value and later ones share it.
func (c Collection[T]) decode(e *entry) (T, error) {
	var v T
	if p := e.cached.Load(); p != nil {
		switch known := (*p).(type) {
		case T:
			return known, nil
		case *UnreadableError:
			return v, known
		}
	}
	if err := c.d.decode(e.raw, &v); err != nil {
		bad := &UnreadableError{c.name(), e.key(), err}
		boxed := any(bad)
		e.cached.Store(&boxed)
		var zero T
		return zero, bad
	}
	boxed := any(v)
	e.cached.Store(&boxed)
	return v, nil
}

// checkKey rejects keys that would be ambiguous in etcd.
func checkKey(k Key) error {
	if k.Account == "" || k.ID == "" || k.Region == "-" ||
		strings.Contains(k.Account, "/") || strings.Contains(k.Region, "/") || strings.ContainsRune(k.ID, 0) {
		return fmt.Errorf("bad store key %q", k)
	}
	return nil
}
