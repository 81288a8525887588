package store_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// benchStores runs fn on a durable store and on an ephemeral one.
func benchStores(b *testing.B, fn func(*testing.B, *store.Store)) {
	b.Run("durable", func(b *testing.B) {
		dir := b.TempDir()
		fn(b, open(b, func(c *store.Config) { c.Ephemeral, c.Dir = false, dir }))
	})
	b.Run("ephemeral", func(b *testing.B) { fn(b, open(b)) })
}

// fill writes n records the size of an instance's.
func fill(b *testing.B, s *store.Store, n int) {
	b.Helper()
	v := thing{Name: strings.Repeat("x", 1500), Tags: map[string]string{"Name": "n", "eks:cluster-name": "c"}}
	for at := 0; at < n; at += store.MaxWrites {
		err := s.Update(b.Context(), func(tx *store.Tx) error {
			for i := at; i < min(n, at+store.MaxWrites); i++ {
				if err := things.Put(tx, key(fmt.Sprintf("%03d/%03d", i/100, i%100)), v); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b)
	fill(b, s, 10000)
	for b.Loop() {
		if _, err := things.Get(s, key("050/050")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList100(b *testing.B) {
	s := open(b)
	fill(b, s, 10000)
	for b.Loop() {
		items := things.All(s, store.Scope{Account: account, Region: region, Prefix: "050/"})
		if len(items) != 100 {
			b.Fatal(len(items))
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	benchStores(b, func(b *testing.B, s *store.Store) {
		fill(b, s, 10000)
		for b.Loop() {
			if err := things.UpdateOne(b.Context(), s, key("050/050"), func(v *thing) error { v.Count++; return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkUpdate64 is 64 writers of different records at once.
func BenchmarkUpdate64(b *testing.B) {
	benchStores(b, func(b *testing.B, s *store.Store) {
		fill(b, s, 10000)
		var writer atomic.Int64
		b.SetParallelism(32) // times GOMAXPROCS
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			k := key(fmt.Sprintf("%03d/000", writer.Add(1)%100))
			for pb.Next() {
				if err := things.UpdateOne(b.Context(), s, k, func(v *thing) error { v.Count++; return nil }); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// BenchmarkUpdateHot is 64 writers of one record.
func BenchmarkUpdateHot(b *testing.B) {
	s := open(b)
	fill(b, s, 100)
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := things.UpdateOne(b.Context(), s, key("000/000"), func(v *thing) error { v.Count++; return nil }); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		s, err := store.Open(b.Context(), store.Config{Ephemeral: true, Log: testlog.New(b)})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
