package bytestore

import (
	"encoding/binary"
	"fmt"
	"maps"

	"go.etcd.io/bbolt"
)

const (
	// maxBatch and maxBatchBytes limit one transaction.
	maxBatch      = 1024
	maxBatchBytes = 16 << 20
)

// run commits requested writes until the store closes. Writes requested while a transaction is being synced share the
// next one.
func (s *Store) run() {
	defer close(s.ended)
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.closing {
			s.wake.Wait()
		}
		n, bytes := 0, 0
		for n < len(s.queue) && n < maxBatch && bytes < maxBatchBytes {
			for _, w := range s.queue[n].writes {
				bytes += len(w.key) + len(w.value)
			}
			n++
		}
		batch := s.queue[:n:n]
		s.queue = s.queue[n:]
		s.mu.Unlock()
		if n == 0 {
			return // closing, and nothing is left to write
		}
		err := s.commit(batch)
		for _, c := range batch {
			c.err = err
			close(c.done)
		}
	}
}

func (s *Store) commit(batch []*Commit) error {
	t := &transaction{was: s.used, used: map[Bucket]int64{}} // only run changes s.used
	err := s.db.Update(func(tx *bbolt.Tx) error {
		t.tx = tx
		for _, c := range batch {
			for i := range c.writes {
				if err := t.write(&c.writes[i]); err != nil {
					return err
				}
			}
		}
		return t.writeUsed()
	})
	if err != nil {
		return fmt.Errorf("writing to %s: %w", s.db.Path(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for b, n := range t.used {
		s.total[b.Account] += max(n, 0) - s.used[b]
		if s.used[b] = n; n == dropped {
			delete(s.used, b)
		}
	}
	return nil
}

// A transaction applies writes and counts bytes.
type transaction struct {
	tx *bbolt.Tx
	// was holds the sizes of buckets before, used those of changed buckets.
	was, used map[Bucket]int64
}

// dropped is the size of a removed bucket.
const dropped = -1

func (t *transaction) write(w *Write) error {
	if w.drop {
		return t.drop(w.bucket)
	}
	bucket := find(t.tx, w.bucket)
	if bucket == nil {
		if w.value == nil {
			return nil
		}
		var err error
		if bucket, err = t.create(w.bucket); err != nil {
			return err
		}
	}
	n, changed := t.used[w.bucket]
	if !changed {
		n = t.was[w.bucket]
	}
	n = max(n, 0)
	if old := bucket.Get(w.key); old != nil {
		n -= size(w.key, old)
	}
	if w.value == nil {
		t.used[w.bucket] = n
		return bucket.Delete(w.key)
	}
	raw := seal(w.value)
	t.used[w.bucket] = n + size(w.key, raw)
	return bucket.Put(w.key, raw)
}

func size(key, raw []byte) int64 { return int64(len(key) + len(raw) + overhead) }

func (t *transaction) create(b Bucket) (*bbolt.Bucket, error) {
	if b.Account == "" || b.Kind == "" || b.Name == "" || b.Account == string(metaBucket) || b.Account == string(usedBucket) {
		return nil, fmt.Errorf("invalid bucket %q", b)
	}
	account, err := t.tx.CreateBucketIfNotExists([]byte(b.Account))
	if err != nil {
		return nil, err
	}
	kind, err := account.CreateBucketIfNotExists([]byte(b.Kind))
	if err != nil {
		return nil, err
	}
	return kind.CreateBucketIfNotExists([]byte(b.Name))
}

// drop removes the buckets that b selects.
func (t *transaction) drop(b Bucket) error {
	all := maps.Clone(t.was)
	maps.Copy(all, t.used)
	for bucket, n := range all {
		if n == dropped || b != (Bucket{}) && bucket != b && (b.Kind != "" || bucket.Account != b.Account) {
			continue
		}
		if err := t.tx.Bucket([]byte(bucket.Account)).Bucket([]byte(bucket.Kind)).DeleteBucket([]byte(bucket.Name)); err != nil {
			return err
		}
		t.used[bucket] = dropped
	}
	return nil
}

func (t *transaction) writeUsed() error {
	used := t.tx.Bucket(usedBucket)
	for b, n := range t.used {
		if n == dropped {
			if err := used.Delete(b.usedKey()); err != nil {
				return err
			}
			continue
		}
		if err := used.Put(b.usedKey(), binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
			return err
		}
	}
	return nil
}
