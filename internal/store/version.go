package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// A Migration turns the JSON of a record of one version into that of the next version.
type Migration func(old json.RawMessage) (json.RawMessage, error)

// Same is the migration for a change that leaves old records valid, such as a new field that is zero in old records.
// It still makes a new version, because an older Drydock would drop the field.
func Same(old json.RawMessage) (json.RawMessage, error) { return old, nil }

// Convert makes a Migration from a function between two Go types.
func Convert[Old, New any](fn func(Old) (New, error)) Migration {
	return func(raw json.RawMessage) (json.RawMessage, error) {
		var old Old
		if err := json.Unmarshal(raw, &old); err != nil {
			return nil, err
		}
		v, err := fn(old)
		if err != nil {
			return nil, err
		}
		return json.Marshal(v)
	}
}

// A Declaration describes a collection as NewCollection declared it.
type Declaration struct {
	Service, Type string
	// Record is the Go type of the records.
	Record     reflect.Type
	migrations []Migration
	// check decodes an entry and caches the result for later readers.
	check func(*entry) error
	// outside reports that the records are not in the store (Form).
	outside bool
}

// Name returns SERVICE/TYPE.
func (d *Declaration) Name() string { return d.Service + "/" + d.Type }

// Version is the version of the records that it writes: 1 plus the number of migrations.
func (d *Declaration) Version() int { return 1 + len(d.migrations) }

var declared struct {
	sync.Mutex
	byName map[string]*Declaration
}

// Declared returns the collections of all packages in this program, by name.
func Declared() []*Declaration {
	declared.Lock()
	defer declared.Unlock()
	out := make([]*Declaration, 0, len(declared.byName))
	for _, d := range declared.byName {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *Declaration) int { return cmp.Compare(a.Name(), b.Name()) })
	return out
}

// declare registers d unless the name is taken, because tests read other packages' records with types of their own.
func declare(d *Declaration) {
	declared.Lock()
	defer declared.Unlock()
	if declared.byName == nil {
		declared.byName = map[string]*Declaration{}
	}
	if declared.byName[d.Name()] == nil {
		declared.byName[d.Name()] = d
	}
}

// Records of version 1 are plain JSON, as before versions existed. Later ones start with their version: v2{…}. JSON
// never starts with a v.

func (d *Declaration) encode(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil || d.Version() == 1 {
		return raw, err
	}
	return append(fmt.Appendf(nil, "v%d", d.Version()), raw...), nil
}

// A Form encodes values that are stored outside the store, with the versions and migrations of a Collection. They are
// part of the data version.
type Form[T any] struct{ d *Declaration }

// NewForm declares the form of values that a service stores outside the store.
func NewForm[T any](service, typ string, migrations ...Migration) Form[T] {
	f := Form[T]{&Declaration{Service: service, Type: typ, Record: reflect.TypeFor[T](), migrations: migrations, outside: true}}
	declare(f.d)
	return f
}

// Encode returns the stored form of v.
func (f Form[T]) Encode(v T) ([]byte, error) { return f.d.encode(v) }

// Decode reads what Encode returned, possibly in an older Drydock.
func (f Form[T]) Decode(raw []byte) (v T, err error) {
	err = f.d.decode(raw, &v)
	return v, err
}

// versionOf splits a stored record into its version and its JSON.
func versionOf(raw []byte) (version int, body []byte, err error) {
	if len(raw) == 0 || raw[0] != 'v' {
		return 1, raw, nil
	}
	body = bytes.TrimLeft(raw[1:], "0123456789")
	if _, err := fmt.Sscanf(string(raw[1:len(raw)-len(body)]), "%d", &version); err != nil || version < 2 {
		return 0, nil, errors.New("invalid record version")
	}
	return version, body, nil
}

// latest returns a stored record's JSON, migrated to d's version.
func (d *Declaration) latest(raw []byte) (json.RawMessage, error) {
	version, body, err := versionOf(raw)
	if err != nil {
		return nil, err
	}
	if version > d.Version() {
		return nil, fmt.Errorf("it has version %d, and this Drydock reads up to version %d", version, d.Version())
	}
	for i, migrate := range d.migrations[version-1:] {
		if body, err = migrate(body); err != nil {
			return nil, fmt.Errorf("migrating it from version %d to %d: %w", version+i, version+i+1, err)
		}
	}
	return body, nil
}

// decode reads a stored record into v.
func (d *Declaration) decode(raw []byte, v any) error {
	body, err := d.latest(raw)
	if err != nil {
		return err
	}
	if bytes.Equal(bytes.TrimSpace(body), []byte("null")) {
		return errors.New("it is null")
	}
	return json.Unmarshal(body, v)
}

// ErrUnreadable is in the error chain of reads of a record that exists but cannot be decoded.
var ErrUnreadable = errors.New("unreadable record")

// An UnreadableError identifies a record that cannot be decoded.
type UnreadableError struct {
	Collection string
	Key        Key
	Reason     error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("record %s %s cannot be read: %v", e.Collection, e.Key, e.Reason)
}

func (e *UnreadableError) Unwrap() []error { return []error{ErrUnreadable, e.Reason} }

// damage collects the unreadable records found so far, so that each is logged only once.
type damage struct {
	mu   sync.Mutex
	seen map[recordID]met
}

type met struct {
	rev int64
	err *UnreadableError
}

// unreadable logs a record that a reader could not decode.
func (s *Store) unreadable(e *entry, err *UnreadableError) {
	id := recordID{err.Collection, e.path}
	s.damage.mu.Lock()
	old, known := s.damage.seen[id]
	known = known && old.rev == e.rev
	if s.damage.seen == nil {
		s.damage.seen = map[recordID]met{}
	}
	s.damage.seen[id] = met{e.rev, err}
	s.damage.mu.Unlock()
	if !known {
		s.log.Warn("store: skipping an unreadable record", "collection", err.Collection, "key", err.Key.String(), "err", err.Reason)
	}
}

// Unreadable returns the records that cannot be decoded, ordered by collection and key.
func (s *Store) Unreadable() []*UnreadableError {
	s.damage.mu.Lock()
	defer s.damage.mu.Unlock()
	var out []*UnreadableError
	for id, m := range s.damage.seen {
		if e, ok := s.get(id.coll, id.path); ok && e.rev == m.rev {
			out = append(out, m.err)
		}
	}
	slices.SortFunc(out, func(a, b *UnreadableError) int {
		return cmp.Or(cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return out
}

// A DataVersion says which programs can read the records.
type DataVersion struct {
	// Format is the version of the key layout.
	Format int `json:"format"`
	// Drydock is the version of the program that first wrote this data version.
	Drydock string `json:"drydock"`
	// Collections holds the version of each collection's records.
	Collections map[string]int `json:"collections"`
}

// format is the version of the key layout that this program reads and writes.
const format = 1

// Number grows by one with each collection and with each new version of one.
func (v DataVersion) Number() int {
	n := 0
	for _, c := range v.Collections {
		n += c
	}
	return n
}

// ErrNewerData is returned by Open for data written by a newer Drydock.
var ErrNewerData = errors.New("the data is newer than this Drydock")

// DataVersion returns the version of the data.
func (s *Store) DataVersion() DataVersion { return s.version }

func (s *Store) versionKey() string { return s.root + "/data-version" }

// checkVersion compares the version of the data with what this program declares. It refuses data of a newer Drydock
// before anything is written.
func (s *Store) checkVersion(ctx context.Context) error {
	s.version = DataVersion{Format: format, Drydock: s.cfg.Version, Collections: map[string]int{}}
	for _, d := range Declared() {
		s.version.Collections[d.Name()] = d.Version()
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.versionKey())
	if err != nil {
		return fmt.Errorf("reading the version of the data: %w", s.explain(err))
	}
	var was DataVersion
	if len(resp.Kvs) > 0 {
		if err := json.Unmarshal(resp.Kvs[0].Value, &was); err != nil {
			return fmt.Errorf("the version of the data in %s is damaged: %w; restore a copy of the data, or choose another folder with --data-dir", s.place(), err)
		}
		if err := s.readable(was); err != nil {
			return err
		}
	}
	// A collection without records does not keep an older Drydock from reading the data.
	same := was.Format == format && len(was.Collections) == len(s.version.Collections)
	for name, version := range s.version.Collections {
		same = same && was.Collections[name] == version
	}
	if same {
		s.version = was
		return nil
	}
	raw, err := json.Marshal(s.version)
	if err != nil {
		return err
	}
	if _, err := s.client.Put(ctx, s.versionKey(), string(raw)); err != nil {
		return fmt.Errorf("writing the version of the data: %w", s.explain(err))
	}
	return nil
}

// readable returns an error if this program cannot read records of that version.
func (s *Store) readable(was DataVersion) error {
	var newer []string
	if was.Format > format {
		newer = append(newer, fmt.Sprintf("format %d", was.Format))
	}
	outside := map[string]bool{}
	for _, d := range Declared() {
		outside[d.Name()] = d.outside
	}
	for name, version := range was.Collections {
		if version > s.version.Collections[name] && (outside[name] || len(s.list(name, "")) > 0) {
			newer = append(newer, fmt.Sprintf("%s version %d", name, version))
		}
	}
	if newer == nil {
		return nil
	}
	slices.Sort(newer)
	return fmt.Errorf("%w: %s was written by Drydock %s (%s) and this is Drydock %s; use Drydock %s or later, or choose another folder with --data-dir",
		ErrNewerData, s.place(), was.Drydock, strings.Join(newer, ", "), cmp.Or(s.cfg.Version, "of an unknown version"), was.Drydock)
}

// place says where the data is.
func (s *Store) place() string {
	if s.home != nil {
		return s.home.dir
	}
	return strings.Join(s.cfg.Endpoints, ", ")
}

// migrateAtOnce is how many records are rewritten in one transaction.
const migrateAtOnce = 50

// migrate decodes every record, so that unreadable ones are known from the start, and rewrites those of older
// versions. Records that cannot be written now keep their version, because readers migrate what they read.
func (s *Store) migrate(ctx context.Context) {
	for _, d := range Declared() {
		var old []*entry
		for _, e := range s.list(d.Name(), "") {
			if err := d.check(e); err != nil {
				var bad *UnreadableError
				if errors.As(err, &bad) {
					s.unreadable(e, bad)
				}
			} else if version, _, _ := versionOf(e.raw); version < d.Version() {
				old = append(old, e)
			}
		}
		for chunk := range slices.Chunk(old, migrateAtOnce) {
			err := s.Update(ctx, func(tx *Tx) error {
				for _, e := range chunk {
					now, ok := tx.get(d.Name(), e.path)
					if !ok || now.rev != e.rev {
						continue // another process migrated it first
					}
					body, err := d.latest(e.raw)
					if err != nil {
						return err
					}
					tx.put(d.Name(), e.path, append(fmt.Appendf(nil, "v%d", d.Version()), body...))
				}
				return nil
			})
			if err != nil {
				s.log.Warn("store: records stay at an older version for now", "collection", d.Name(), "err", err)
				break
			}
		}
	}
}
