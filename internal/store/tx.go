package store

import (
	"slices"
	"strings"
)

// A recordID identifies a record of any collection.
type recordID struct {
	coll, path string
}

// A keyRange is the records of a collection whose paths have a prefix, or those of every collection if coll is empty.
type keyRange struct {
	coll, prefix string
}

func (r keyRange) contains(id recordID) bool {
	return (r.coll == "" || r.coll == id.coll) && strings.HasPrefix(id.path, r.prefix)
}

func (r keyRange) overlaps(o keyRange) bool {
	return (r.coll == "" || o.coll == "" || r.coll == o.coll) &&
		(strings.HasPrefix(r.prefix, o.prefix) || strings.HasPrefix(o.prefix, r.prefix))
}

// A Tx is a running transaction: a Reader that sees its own writes. It reads one snapshot and must not be used by
// several goroutines at once.
type Tx struct {
	snap *snapshot
	footprint
}

// A footprint is what a transaction read and wrote.
type footprint struct {
	reads  map[recordID]int64 // revision seen, 0 if the record did not exist
	ranges []keyRange         // listed
	writes map[recordID]*entry
	// erased is set only by Reset: everything in these ranges is deleted.
	erased []keyRange
}

func newTx(snap *snapshot) *Tx {
	return &Tx{snap, footprint{reads: map[recordID]int64{}, writes: map[recordID]*entry{}}}
}

func (tx *Tx) get(coll, path string) (*entry, bool) {
	id := recordID{coll, path}
	e, ok := tx.peek(coll, path)
	if _, mine := tx.writes[id]; mine || tx.listed(id) {
		return e, ok
	}
	if ok {
		tx.reads[id] = e.rev
	} else {
		tx.reads[id] = 0
	}
	return e, ok
}

// peek is like get but does not add to the footprint.
func (tx *Tx) peek(coll, path string) (*entry, bool) {
	if e, ok := tx.writes[recordID{coll, path}]; ok {
		return e, e.raw != nil
	}
	return tx.snap.get(coll, path)
}

func (tx *Tx) unreadable(e *entry, err *UnreadableError) { tx.snap.report(e, err) }

func (tx *Tx) listed(id recordID) bool {
	return slices.ContainsFunc(tx.ranges, func(r keyRange) bool { return r.contains(id) })
}

func (tx *Tx) list(coll, prefix string) []*entry {
	r := keyRange{coll, prefix}
	if !slices.Contains(tx.ranges, r) {
		tx.ranges = append(tx.ranges, r)
	}
	entries := tx.snap.list(coll, prefix)
	var mine []*entry
	for id, e := range tx.writes {
		if r.contains(id) {
			mine = append(mine, e)
		}
	}
	if len(mine) == 0 {
		return entries
	}
	slices.SortFunc(mine, func(a, b *entry) int { return strings.Compare(a.path, b.path) })
	out := make([]*entry, 0, len(entries)+len(mine))
	for _, e := range entries {
		for len(mine) > 0 && mine[0].path < e.path {
			out = appendLive(out, mine[0])
			mine = mine[1:]
		}
		if len(mine) > 0 && mine[0].path == e.path {
			e, mine = mine[0], mine[1:]
		}
		out = appendLive(out, e)
	}
	for _, e := range mine {
		out = appendLive(out, e)
	}
	return out
}

func appendLive(out []*entry, e *entry) []*entry {
	if e.raw == nil {
		return out
	}
	return append(out, e)
}

func (tx *Tx) put(coll, path string, raw []byte) {
	tx.writes[recordID{coll, path}] = &entry{path: path, raw: raw}
}

func (tx *Tx) delete(coll, path string) {
	tx.writes[recordID{coll, path}] = &entry{path: path}
}

// conflicts reports whether it matters which of the two is committed first.
func (f *footprint) conflicts(o *footprint) bool {
	return f.disturbs(o) || o.disturbs(f)
}

// disturbs reports whether f writes anything that o reads or writes.
func (f *footprint) disturbs(o *footprint) bool {
	for id := range f.writes {
		if _, ok := o.reads[id]; ok {
			return true
		}
		if _, ok := o.writes[id]; ok {
			return true
		}
		for _, r := range o.ranges {
			if r.contains(id) {
				return true
			}
		}
	}
	for _, r := range f.erased {
		for id := range o.reads {
			if r.contains(id) {
				return true
			}
		}
		for id := range o.writes {
			if r.contains(id) {
				return true
			}
		}
		if slices.ContainsFunc(o.ranges, r.overlaps) || slices.ContainsFunc(o.erased, r.overlaps) {
			return true
		}
	}
	return false
}

// stale reports whether anything that the transaction read has changed since.
func (tx *Tx) stale(v *view) bool {
	now := v.snap.Load()
	if now.rev == tx.snap.rev {
		return false
	}
	for id, rev := range tx.reads {
		var is int64
		if e, ok := now.get(id.coll, id.path); ok {
			is = e.rev
		}
		if is != rev {
			return true
		}
	}
	return len(tx.ranges) > 0 && v.changedSince(tx.snap.rev, tx.ranges)
}
