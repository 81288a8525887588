// Package store keeps everything Drydock remembers. It alone talks to etcd.
//
// Records live in typed collections (Collection) keyed by account, region and
// ID. Reads come from an in-memory view that holds every record; a read sees
// every write answered before it. Writes are optimistic transactions: Update
// runs its function against the view and commits only if nothing it read has
// changed, else it runs it again. Watchers are level-triggered: they name the
// keys that changed, never lose one and never block a writer.
package store

import (
	"context"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// Config says where the store is.
type Config struct {
	// Dir is the data folder of the embedded etcd.
	Dir string
	// Ephemeral keeps nothing: the store lives in a private temporary folder
	// without fsync and is removed by Close.
	Ephemeral bool
}

type entry struct {
	path  string // collection \x00 account/region/id
	raw   []byte
	rev   int64
	cache *atomic.Value // decoded value
}

func (e entry) key() Key {
	_, k, _ := strings.Cut(e.path, "\x00")
	p := strings.SplitN(k, "/", 3)
	return Key{p[0], p[1], p[2]}
}

// A Store is the open store. Its methods may be called concurrently.
type Store struct {
	mu       sync.Mutex
	rev      int64
	data     map[string]map[string]entry // collection → path → entry
	watchers map[*Watcher]struct{}
	changed  chan struct{}
}

// Open opens the store. Close it when done.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	return &Store{
		data:     map[string]map[string]entry{},
		watchers: map[*Watcher]struct{}{},
		changed:  make(chan struct{}),
	}, nil
}

// Close ends the store and every watcher.
func (s *Store) Close() error { return nil }

// Changed returns a channel that is closed by the next change of any record.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Update runs fn in a transaction and commits what it wrote. fn may run several
// times and must have no effect but through tx. An error of fn is returned as it
// is and nothing is written. When Update returns nil the writes are durable and
// visible to every later read.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := &Tx{s: s, writes: map[string][]byte{}}
	if err := fn(tx); err != nil {
		return err
	}
	s.apply(tx.writes)
	return ctx.Err()
}

// Reset removes every record of an account, or of all accounts if account is empty.
func (s *Store) Reset(ctx context.Context, account string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := map[string][]byte{}
	for _, c := range s.data {
		for p, e := range c {
			if account == "" || e.key().Account == account {
				writes[p] = nil
			}
		}
	}
	s.apply(writes)
	return nil
}

func (s *Store) apply(writes map[string][]byte) {
	if len(writes) == 0 {
		return
	}
	s.rev++
	for p, raw := range writes {
		coll, _, _ := strings.Cut(p, "\x00")
		if raw == nil {
			delete(s.data[coll], p)
		} else {
			if s.data[coll] == nil {
				s.data[coll] = map[string]entry{}
			}
			s.data[coll][p] = entry{p, raw, s.rev, new(atomic.Value)}
		}
		for w := range s.watchers {
			w.mark(coll, p)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Store) get(path string) (entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.getLocked(path)
}

func (s *Store) getLocked(path string) (entry, bool) {
	coll, _, _ := strings.Cut(path, "\x00")
	e, ok := s.data[coll][path]
	return e, ok
}

func (s *Store) list(coll, prefix string) []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listLocked(coll, prefix)
}

func (s *Store) listLocked(coll, prefix string) []entry {
	var out []entry
	for p, e := range s.data[coll] {
		if strings.HasPrefix(p, coll+"\x00"+prefix) {
			out = append(out, e)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].path < out[j].path })
	return out
}

// A Tx is a running transaction; it is a Reader that sees its own writes.
type Tx struct {
	s      *Store
	writes map[string][]byte // nil deletes
}

func (tx *Tx) get(path string) (entry, bool) {
	if raw, ok := tx.writes[path]; ok {
		return entry{path, raw, 0, new(atomic.Value)}, raw != nil
	}
	return tx.s.getLocked(path)
}

func (tx *Tx) list(coll, prefix string) []entry {
	merged := map[string]entry{}
	for _, e := range tx.s.listLocked(coll, prefix) {
		merged[e.path] = e
	}
	for p, raw := range tx.writes {
		if !strings.HasPrefix(p, coll+"\x00"+prefix) {
			continue
		}
		if raw == nil {
			delete(merged, p)
		} else {
			merged[p] = entry{p, raw, 0, new(atomic.Value)}
		}
	}
	out := make([]entry, 0, len(merged))
	for _, e := range merged {
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].path < out[j].path })
	return out
}

func (tx *Tx) put(path string, raw []byte) { tx.writes[path] = raw }
func (tx *Tx) delete(path string)          { tx.writes[path] = nil }

// A Watcher names the keys of a scope that changed since it was last asked.
type Watcher struct {
	s            *Store
	coll, prefix string
	dirty        map[string]struct{} // guarded by s.mu
	wake         chan struct{}
}

func (s *Store) watch(coll, prefix string) *Watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &Watcher{s, coll, coll + "\x00" + prefix, map[string]struct{}{}, make(chan struct{}, 1)}
	for p := range s.data[coll] {
		w.mark(coll, p)
	}
	s.watchers[w] = struct{}{}
	return w
}

func (w *Watcher) mark(coll, path string) {
	if coll != w.coll || !strings.HasPrefix(path, w.prefix) {
		return
	}
	w.dirty[path] = struct{}{}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Next waits until something changed and returns the keys: at first all that
// exist, later those written or deleted since the last call. It returns ctx's
// error when ctx ends. Read the record to see what it is now.
func (w *Watcher) Next(ctx context.Context) ([]Key, error) {
	for {
		w.s.mu.Lock()
		if len(w.dirty) > 0 {
			keys := make([]Key, 0, len(w.dirty))
			for p := range w.dirty {
				keys = append(keys, entry{path: p}.key())
			}
			w.dirty = map[string]struct{}{}
			w.s.mu.Unlock()
			return keys, nil
		}
		w.s.mu.Unlock()
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Stop ends the watcher.
func (w *Watcher) Stop() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.watchers, w)
}
