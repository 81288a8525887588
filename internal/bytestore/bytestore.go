// Package bytestore keeps payloads in the data folder: the messages of queues, log
// events and, later, what other services store for their users. Metadata belongs in internal/store.
//
// A bucket holds the keys and values of one resource of an account. Concurrent writes share a transaction, which is
// on disk when Wait returns. Everything is in one bbolt file; bbolt keeps its pages consistent through crashes. Each
// value has a checksum, because bbolt's pages have none.
package bytestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// ErrNotFound is returned by Get for a key that does not exist.
var ErrNotFound = errors.New("not found")

// ErrFull is returned by Room if an account has no room for more.
var ErrFull = errors.New("the account's room for bytes in the data folder is full")

// ErrDamaged is in the error chain if a value is not what was written.
var ErrDamaged = errors.New("damaged value")

// Config configures a store.
type Config struct {
	// Dir is the store's folder, which Open creates.
	Dir string
	// Ephemeral stores do not sync, because they are removed when the program ends.
	Ephemeral bool
	// Room is how many bytes an account may store; 0 means DefaultRoom.
	Room int64
	// CompactAbove is how large the file has to be for Open to compact it; 0 means 64 MiB.
	CompactAbove int64
}

// DefaultRoom is how many bytes an account may store by default.
const DefaultRoom = 2 << 30

// overhead is roughly what a key and its value take besides their bytes.
const overhead = 64

// A Bucket identifies the payloads of one resource.
type Bucket struct {
	Account string
	Kind    string // the service: sqs
	Name    string
}

// A Write changes one key or drops a bucket; see Put, Delete and Drop.
type Write struct {
	bucket Bucket
	key    []byte
	value  []byte
	drop   bool
}

// Put sets a key. The caller must not change key or value afterwards.
func Put(b Bucket, key, value []byte) Write { return Write{bucket: b, key: key, value: value} }

// Delete removes a key. It does nothing if the key does not exist.
func Delete(b Bucket, key []byte) Write { return Write{bucket: b, key: key} }

// Drop removes a bucket. A Bucket without a kind means everything of the account, and the zero Bucket means
// everything.
func Drop(b Bucket) Write { return Write{bucket: b, drop: true} }

// A Store is an open store. Its methods may be called concurrently.
type Store struct {
	cfg Config
	db  *bbolt.DB

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []*Commit
	closing bool
	used    map[Bucket]int64
	total   map[string]int64 // by account
	ended   chan struct{}
}

// A Commit is a set of writes on their way to the disk.
type Commit struct {
	writes []Write
	done   chan struct{}
	err    error
}

// Wait returns when the writes are on disk: all of them, or none if it returns an error.
func (c *Commit) Wait() error {
	<-c.done
	return c.err
}

// The file has the buckets meta and used, and one bucket for each account.
var (
	metaBucket = []byte("meta")
	usedBucket = []byte("used")
	formatKey  = []byte("format")
)

// Format is the version of the file's format.
const Format = 1

// Open opens the store, or creates it.
func Open(cfg Config) (*Store, error) {
	if cfg.Room == 0 {
		cfg.Room = DefaultRoom
	}
	if cfg.CompactAbove == 0 {
		cfg.CompactAbove = 64 << 20
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(cfg.Dir, "bytes.db")
	if err := check(path); err != nil {
		return nil, err
	}
	if err := compact(path, cfg.CompactAbove); err != nil {
		return nil, fmt.Errorf("compacting %s: %w", path, err)
	}
	db, err := open(path, cfg.Ephemeral)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, db: db, used: map[Bucket]int64{}, total: map[string]int64{}, ended: make(chan struct{})}
	s.wake = sync.NewCond(&s.mu)
	if err := s.load(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	go s.run()
	return s, nil
}

func open(path string, ephemeral bool) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true, NoSync: ephemeral,
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is in use by another program; stop it, or choose another folder with --data-dir", path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w; restore a copy of the data, or remove the file and with it all messages", path, err)
	}
	return db, nil
}

// check rejects a file that is shorter than its pages, which bbolt would only notice by a memory fault. A crash does
// not leave such a file, because pages are synced before anything points to them.
func check(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return nil // the program ended before it wrote anything
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		if errors.Is(err, bolterrors.ErrTimeout) {
			return fmt.Errorf("%s is in use by another program; stop it, or choose another folder with --data-dir", path)
		}
		return fmt.Errorf("opening %s: %w; restore a copy of the data, or remove the file and with it all messages", path, err)
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("%s is damaged: it has %d of %d bytes; restore a copy of the data, or remove the file and with it all messages", path, info.Size(), tx.Size())
		}
		return nil
	})
}

// compact rewrites a file if more than half of it is free, because bbolt never returns space.
func compact(path string, above int64) error {
	tmp := path + ".compact"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() < above {
		return nil //nolint:nilerr // there is nothing to compact
	}
	src, err := open(path, false)
	if err != nil {
		return err
	}
	if free := int64(src.Stats().FreePageN) * int64(src.Info().PageSize); free < info.Size()/2 {
		return src.Close()
	}
	dst, err := open(tmp, false)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	err = errors.Join(bbolt.Compact(dst, src, 16<<20), dst.Close(), src.Close())
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, path) // a crash before this line leaves the old file in place
}

// load reads the format version and the size of each bucket.
func (s *Store) load() error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		used, err := tx.CreateBucketIfNotExists(usedBucket)
		if err != nil {
			return err
		}
		if was := meta.Get(formatKey); was == nil {
			if err := meta.Put(formatKey, []byte{Format}); err != nil {
				return err
			}
		} else if was[0] > Format {
			return fmt.Errorf("%s has format %d and this Drydock reads up to %d; use a later Drydock, or choose another folder with --data-dir", s.db.Path(), was[0], Format)
		}
		return used.ForEach(func(k, v []byte) error {
			f := strings.SplitN(string(k), "\x00", 3)
			if len(f) != 3 || len(v) != 8 {
				return fmt.Errorf("%s: %w: the size of %q", s.db.Path(), ErrDamaged, k)
			}
			b, n := Bucket{f[0], f[1], f[2]}, int64(binary.BigEndian.Uint64(v))
			s.used[b] = n
			s.total[b.Account] += n
			return nil
		})
	})
}

func (b Bucket) usedKey() []byte { return []byte(b.Account + "\x00" + b.Kind + "\x00" + b.Name) }

// Close finishes the requested writes and closes the store.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closing = true
	s.wake.Signal()
	s.mu.Unlock()
	<-s.ended
	return s.db.Close()
}

// Room returns ErrFull if an account has no room for n more bytes. Call it before storing more; changes and removals
// need no room.
func (s *Store) Room(account string, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total[account]+int64(n) > s.cfg.Room {
		return ErrFull
	}
	return nil
}

// Used returns how many bytes an account uses.
func (s *Store) Used(account string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total[account]
}

// Size returns how many bytes a bucket holds.
func (s *Store) Size(b Bucket) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[b]
}

// Buckets returns the buckets of a kind in all accounts.
func (s *Store) Buckets(kind string) []Bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Bucket
	for b := range s.used {
		if b.Kind == kind {
			out = append(out, b)
		}
	}
	return out
}

// Do requests writes in one transaction. Transactions happen in the order in which they were requested.
func (s *Store) Do(writes ...Write) *Commit {
	c := &Commit{writes: writes, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		c.err = errors.New("the store of bytes is closed")
		close(c.done)
		return c
	}
	s.queue = append(s.queue, c)
	s.wake.Signal()
	return c
}

// Reset removes everything that an account has stored, or that all accounts have if account is empty.
func (s *Store) Reset(_ context.Context, account string) error {
	return s.Do(Drop(Bucket{Account: account})).Wait()
}

// Get returns a copy of a key's value.
func (s *Store) Get(b Bucket, key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		bucket := find(tx, b)
		if bucket == nil {
			return ErrNotFound
		}
		raw := bucket.Get(key)
		if raw == nil {
			return ErrNotFound
		}
		v, err := unseal(raw)
		if err != nil {
			return fmt.Errorf("%v %x: %w", b, key, err)
		}
		value = append([]byte(nil), v...)
		return nil
	})
	return value, err
}

// Scan calls fn, in order, for the keys of a bucket that start with prefix. A damaged value comes with an error. fn
// must not keep key or value.
func (s *Store) Scan(b Bucket, prefix []byte, fn func(key, value []byte, err error) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		bucket := find(tx, b)
		if bucket == nil {
			return nil
		}
		c := bucket.Cursor()
		for k, raw := c.Seek(prefix); k != nil && strings.HasPrefix(string(k), string(prefix)); k, raw = c.Next() {
			v, err := unseal(raw)
			if err := fn(k, v, err); err != nil {
				return err
			}
		}
		return nil
	})
}

// Range calls fn for the keys of a bucket from from (inclusive) to to (exclusive), or in reverse order, until fn
// returns false. value reads the key's value. fn must keep neither key nor value.
func (s *Store) Range(b Bucket, from, to []byte, backwards bool, fn func(key []byte, value func() ([]byte, error)) bool) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		bucket := find(tx, b)
		if bucket == nil {
			return nil
		}
		c := bucket.Cursor()
		step, k, raw := c.Next, []byte(nil), []byte(nil)
		if backwards {
			step = c.Prev
			if k, _ = c.Seek(to); k == nil {
				k, raw = c.Last()
			} else {
				k, raw = c.Prev()
			}
		} else {
			k, raw = c.Seek(from)
		}
		for ; k != nil && bytes.Compare(k, from) >= 0 && bytes.Compare(k, to) < 0; k, raw = step() {
			if !fn(k, func() ([]byte, error) { return unseal(raw) }) {
				return nil
			}
		}
		return nil
	})
}

func find(tx *bbolt.Tx, b Bucket) *bbolt.Bucket {
	account := tx.Bucket([]byte(b.Account))
	if account == nil {
		return nil
	}
	kind := account.Bucket([]byte(b.Kind))
	if kind == nil {
		return nil
	}
	return kind.Bucket([]byte(b.Name))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seal(value []byte) []byte {
	out := make([]byte, 4, 4+len(value))
	binary.BigEndian.PutUint32(out, crc32.Checksum(value, castagnoli))
	return append(out, value...)
}

func unseal(raw []byte) ([]byte, error) {
	if len(raw) < 4 || binary.BigEndian.Uint32(raw) != crc32.Checksum(raw[4:], castagnoli) {
		return nil, ErrDamaged
	}
	return raw[4:], nil
}
