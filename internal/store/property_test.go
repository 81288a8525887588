package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/store"
)

// TestOracle runs random transactions in many accounts concurrently, each compared with a plain map, while watchers
// keep copies and readers check an invariant: money moved between accounts is neither lost nor doubled.
func TestOracle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const workers, purses = 8, 6
	steps := 250
	if testing.Short() {
		steps = 60
	}

	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	purse := func(i int) store.Key {
		return store.Key{Account: fmt.Sprint(i), Region: region, ID: "purse"}
	}
	for i := range purses {
		if err := s.Update(ctx, func(tx *store.Tx) error { return others.Put(tx, purse(i), thing{Count: 100}) }); err != nil {
			t.Fatal(err)
		}
	}

	var background, writers sync.WaitGroup
	// Watchers that only know the keys that they are told about.
	copies := make([]map[store.Key]thing, 3)
	var copyMu sync.Mutex
	for i := range copies {
		copies[i] = map[store.Key]thing{}
		w := things.Watch(s, store.Scope{})
		defer w.Stop()
		background.Go(func() {
			for {
				keys, err := w.Next(ctx)
				if err != nil {
					return
				}
				copyMu.Lock()
				for _, k := range keys {
					if v, err := things.Get(s, k); err == nil {
						copies[i][k] = v
					} else {
						delete(copies[i], k)
					}
				}
				copyMu.Unlock()
			}
		})
	}
	total := func(r store.Reader) (sum int) {
		items := others.All(r, store.Scope{})
		for _, it := range items {
			sum += it.Value.Count
		}
		return sum
	}
	background.Go(func() {
		for ctx.Err() == nil {
			changed := s.Changed()
			if sum := total(s); sum != purses*100 {
				t.Errorf("a reader saw %d in all purses", sum)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})

	oracles := make([]map[store.Key]thing, workers)
	for w := range workers {
		oracles[w] = map[store.Key]thing{}
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			for range steps {
				if random.IntN(3) == 0 {
					move(t, s, random, purse, purses, total)
					continue
				}
				randomStep(t, s, random, fmt.Sprintf("%012d", w), oracles[w])
			}
		})
	}
	writers.Wait()
	want := map[store.Key]thing{}
	for _, o := range oracles {
		for k, v := range o {
			want[k] = v
		}
	}
	items := things.All(s, store.Scope{})
	got := map[store.Key]thing{}
	for _, it := range items {
		got[it.Key] = it.Value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i := range copies {
		eventually(t, func() error {
			copyMu.Lock()
			defer copyMu.Unlock()
			if diff := cmp.Diff(want, copies[i]); diff != "" {
				return fmt.Errorf("watcher %d: %s", i, diff)
			}
			return nil
		})
	}
	cancel()
	background.Wait()
}

func move(t *testing.T, s *store.Store, random *rand.Rand, purse func(int) store.Key, purses int, total func(store.Reader) int) {
	from, to, amount := random.IntN(purses), random.IntN(purses), random.IntN(30)
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		if err := others.Update(tx, purse(from), func(v *thing) error { v.Count -= amount; return nil }); err != nil {
			return err
		}
		if err := others.Update(tx, purse(to), func(v *thing) error { v.Count += amount; return nil }); err != nil {
			return err
		}
		if sum := total(tx); sum != purses*100 {
			return fmt.Errorf("a transaction saw %d in all purses", sum)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// randomStep changes a few records of the account in the store and the oracle,
// sometimes failing on purpose, and checks that its writes can be read.
func randomStep(t *testing.T, s *store.Store, random *rand.Rand, account string, oracle map[store.Key]thing) {
	type op struct {
		k   store.Key
		v   thing
		del bool
	}
	ops := make([]op, 1+random.IntN(5))
	for i := range ops {
		k := store.Key{Account: account, Region: []string{"", "a", "b"}[random.IntN(3)], ID: fmt.Sprint(random.IntN(12))}
		ops[i] = op{k, thing{Count: random.Int()}, random.IntN(3) == 0}
	}
	fail := random.IntN(10) == 0
	boom := errors.New("on purpose")
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		for _, o := range ops {
			if _, err := things.Get(tx, o.k); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if o.del {
				things.Delete(tx, o.k)
			} else if err := things.Put(tx, o.k, o.v); err != nil {
				return err
			}
		}
		if fail {
			return boom
		}
		return nil
	})
	if fail {
		if !errors.Is(err, boom) {
			t.Error(err)
		}
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	for _, o := range ops {
		if o.del {
			delete(oracle, o.k)
		} else {
			oracle[o.k] = o.v
		}
	}
	for _, o := range ops {
		got, err := things.Get(s, o.k)
		want, ok := oracle[o.k]
		if (err == nil) != ok || ok && !cmp.Equal(got, want) {
			t.Errorf("%v: read %v, %v after writing %v", o.k, got, err, want)
		}
	}
}
