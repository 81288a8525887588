package store

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/btree"
)

// An entry is one record at one revision; it never changes.
type entry struct {
	path string // account/region/id
	raw  []byte // nil if deleted (only in a transaction's writes and in changes)
	rev  int64
	// cached is the decoded value, or an *UnreadableError. The first reader sets it.
	cached atomic.Pointer[any]
}

// bad returns why the record cannot be decoded, or nil if no reader has failed to.
func (e *entry) bad() *UnreadableError {
	if p := e.cached.Load(); p != nil {
		bad, _ := (*p).(*UnreadableError)
		return bad
	}
	return nil
}

func (e *entry) key() Key { return keyOf(e.path) }

func keyOf(path string) Key {
	account, rest, _ := strings.Cut(path, "/")
	region, id, _ := strings.Cut(rest, "/")
	return Key{account, region, id}
}

// A snapshot holds every record as of one revision of etcd. It never changes, so reading it takes no lock.
type snapshot struct {
	rev   int64
	colls map[string]*btree.BTreeG[*entry]
	// report is called for entries that readers cannot decode.
	report func(*entry, *UnreadableError)
}

func (s *snapshot) get(coll, path string) (*entry, bool) {
	t := s.colls[coll]
	if t == nil {
		return nil, false
	}
	return t.Get(&entry{path: path})
}

func (s *snapshot) list(coll, prefix string) []*entry {
	t := s.colls[coll]
	if t == nil {
		return nil
	}
	var out []*entry
	if prefix == "" {
		out = make([]*entry, 0, t.Len())
	}
	t.AscendGreaterOrEqual(&entry{path: prefix}, func(e *entry) bool {
		if !strings.HasPrefix(e.path, prefix) {
			return false
		}
		out = append(out, e)
		return true
	})
	return out
}

// A change is the new state of one record; entry.raw is nil if it was deleted.
type change struct {
	coll  string
	entry *entry
}

// A touch records which record changed, without its new state.
type touch struct {
	rev int64
	id  recordID
}

// recentChanges is the minimum number of changes that the view remembers for transactions that began before them.
// Older transactions run again.
const recentChanges = 4096

// A view holds the latest snapshot and wakes those who wait for a change. Only the follower writes it.
type view struct {
	snap atomic.Pointer[snapshot]

	mu       sync.Mutex // serializes publish; guards the fields below
	watchers map[string]map[*Watcher]struct{}
	changed  chan struct{}
	waiting  []waiter
	recent   []touch // oldest first
	// forgotten is the revision up to which recent may be incomplete.
	forgotten int64
	closed    bool
}

type waiter struct {
	rev  int64
	done chan struct{}
}

func newView(report func(*entry, *UnreadableError)) *view {
	v := &view{watchers: map[string]map[*Watcher]struct{}{}, changed: make(chan struct{})}
	v.snap.Store(&snapshot{colls: map[string]*btree.BTreeG[*entry]{}, report: report})
	return v
}

// publish applies the changes and makes the result, the state of revision rev, the one that readers see.
func (v *view) publish(rev int64, changes []change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.snap.Load()
	if rev < old.rev {
		return
	}
	next := &snapshot{rev: rev, colls: old.colls, report: old.report}
	if len(changes) > 0 {
		next.colls = maps.Clone(old.colls)
		cloned := map[string]bool{}
		for _, c := range changes {
			t := next.colls[c.coll]
			switch {
			case t == nil:
				t = btree.NewG(32, func(a, b *entry) bool { return a.path < b.path })
			case !cloned[c.coll]:
				t = t.Clone() // shares its nodes with the old tree until they change
			}
			cloned[c.coll] = true
			if c.entry.raw == nil {
				t.Delete(c.entry)
			} else {
				t.ReplaceOrInsert(c.entry)
			}
			next.colls[c.coll] = t
		}
	}
	v.snap.Store(next)

	for _, c := range changes {
		v.recent = append(v.recent, touch{c.entry.rev, recordID{c.coll, c.entry.path}})
	}
	if cut := len(v.recent) - recentChanges; cut > recentChanges {
		v.forgotten = v.recent[cut-1].rev
		v.recent = append([]touch(nil), v.recent[cut:]...)
	}
	for _, c := range changes {
		for w := range v.watchers[c.coll] {
			w.mark(c.entry.path)
		}
	}
	if len(changes) > 0 {
		close(v.changed)
		v.changed = make(chan struct{})
	}
	still := v.waiting[:0]
	for _, w := range v.waiting {
		if w.rev <= rev {
			close(w.done)
		} else {
			still = append(still, w)
		}
	}
	clear(v.waiting[len(still):])
	v.waiting = still
}

// replace makes a freshly loaded state of revision rev the one that readers see.
func (v *view) replace(rev int64, records []change) {
	old := v.snap.Load()
	seen := make(map[recordID]bool, len(records))
	var changes []change
	for _, c := range records {
		seen[recordID{c.coll, c.entry.path}] = true
		if e, ok := old.get(c.coll, c.entry.path); !ok || e.rev != c.entry.rev {
			changes = append(changes, c)
		}
	}
	for coll, t := range old.colls {
		t.Ascend(func(e *entry) bool {
			if !seen[recordID{coll, e.path}] {
				changes = append(changes, change{coll, &entry{path: e.path, rev: rev}})
			}
			return true
		})
	}
	// The changes in between are unknown, so transactions that began before run again.
	v.mu.Lock()
	v.recent, v.forgotten = nil, rev
	v.mu.Unlock()
	v.publish(rev, changes)
}

// changedSince reports whether a record under any of the prefixes has changed after revision rev. It returns true if
// it cannot know.
func (v *view) changedSince(rev int64, ranges []keyRange) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if rev < v.forgotten {
		return true
	}
	for i := len(v.recent) - 1; i >= 0 && v.recent[i].rev > rev; i-- {
		for _, r := range ranges {
			if r.contains(v.recent[i].id) {
				return true
			}
		}
	}
	return false
}

// wait returns when the view has reached revision rev.
func (v *view) wait(ctx context.Context, rev int64) error {
	v.mu.Lock()
	if v.snap.Load().rev >= rev {
		v.mu.Unlock()
		return nil
	}
	if v.closed {
		v.mu.Unlock()
		return ErrClosed
	}
	w := waiter{rev, make(chan struct{})}
	v.waiting = append(v.waiting, w)
	v.mu.Unlock()
	select {
	case <-w.done:
		if v.snap.Load().rev < rev {
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends all waits and watchers.
func (v *view) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return
	}
	v.closed = true
	for _, w := range v.waiting {
		close(w.done)
	}
	v.waiting = nil
	for _, ws := range v.watchers {
		for w := range ws {
			w.end()
		}
	}
	clear(v.watchers)
}
