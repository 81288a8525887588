package reach

import "maps"

const shards = 512

// A sharded is an immutable map; edit makes the next one. Copying it copies the shards that change and shares the
// others.
type sharded[K comparable, V any] struct {
	hash  func(K) uint32
	parts [shards]map[K]V
}

func newSharded[K comparable, V any](hash func(K) uint32) *sharded[K, V] {
	return &sharded[K, V]{hash: hash}
}

func (m *sharded[K, V]) get(k K) (V, bool) {
	v, ok := m.parts[m.hash(k)%shards][k]
	return v, ok
}

func (m *sharded[K, V]) all(yield func(K, V) bool) {
	for _, p := range m.parts {
		for k, v := range p {
			if !yield(k, v) {
				return
			}
		}
	}
}

// A shardedEdit is a sharded that is being changed.
type shardedEdit[K comparable, V any] struct {
	m    *sharded[K, V]
	mine [shards]bool // the shards that are not shared
}

func (m *sharded[K, V]) edit() *shardedEdit[K, V] {
	next := *m
	return &shardedEdit[K, V]{m: &next}
}

func (e *shardedEdit[K, V]) part(k K) map[K]V {
	i := e.m.hash(k) % shards
	if !e.mine[i] {
		e.mine[i] = true
		if e.m.parts[i] = maps.Clone(e.m.parts[i]); e.m.parts[i] == nil {
			e.m.parts[i] = map[K]V{}
		}
	}
	return e.m.parts[i]
}

func (e *shardedEdit[K, V]) set(k K, v V) { e.part(k)[k] = v }

func (e *shardedEdit[K, V]) delete(k K) {
	if _, ok := e.m.get(k); ok {
		delete(e.part(k), k)
	}
}

// fnv returns the FNV-1a hash.
func fnv(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}
