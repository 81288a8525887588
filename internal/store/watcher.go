package store

import (
	"context"
	"slices"
	"strings"
)

// A Watcher returns the keys in a scope that have changed since the previous call.
type Watcher struct {
	v            *view
	coll, prefix string
	dirty        map[string]struct{} // paths; guarded by v.mu
	wake         chan struct{}
	ended        chan struct{}
}

func (v *view) watch(coll, prefix string) *Watcher {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := &Watcher{
		v: v, coll: coll, prefix: prefix,
		dirty: map[string]struct{}{},
		wake:  make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	for _, e := range v.snap.Load().list(coll, prefix) {
		w.mark(e.path)
	}
	if v.closed {
		w.end()
		return w
	}
	if v.watchers[coll] == nil {
		v.watchers[coll] = map[*Watcher]struct{}{}
	}
	v.watchers[coll][w] = struct{}{}
	return w
}

// mark and end are called with v.mu held.
func (w *Watcher) mark(path string) {
	if !strings.HasPrefix(path, w.prefix) {
		return
	}
	w.dirty[path] = struct{}{}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watcher) end() {
	select {
	case <-w.ended:
	default:
		close(w.ended)
	}
}

// Next waits until something changes and returns the sorted keys: at first all that exist, later those written or
// deleted since the last call. It returns ctx's error if ctx ends, and ErrClosed if the watcher or the store has
// ended. Read the record to see its current state.
func (w *Watcher) Next(ctx context.Context) ([]Key, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		select {
		case <-w.ended:
			return nil, ErrClosed
		default:
		}
		if keys := w.take(); len(keys) > 0 {
			return keys, nil
		}
		select {
		case <-w.wake:
		case <-w.ended:
		case <-ctx.Done():
		}
	}
}

// Changed is Next without waiting: it returns the keys that Next would return, or none.
func (w *Watcher) Changed() []Key { return w.take() }

func (w *Watcher) take() []Key {
	w.v.mu.Lock()
	dirty := w.dirty
	w.dirty = map[string]struct{}{}
	w.v.mu.Unlock()
	paths := make([]string, 0, len(dirty))
	for p := range dirty {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	keys := make([]Key, len(paths))
	for i, p := range paths {
		keys[i] = keyOf(p)
	}
	return keys
}

// Stop ends the watcher.
func (w *Watcher) Stop() {
	w.v.mu.Lock()
	defer w.v.mu.Unlock()
	delete(w.v.watchers[w.coll], w)
	w.end()
}
