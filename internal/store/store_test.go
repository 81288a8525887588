package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

type thing struct {
	Name  string
	Count int
	Tags  map[string]string
}

var (
	things = store.NewCollection[thing]("test", "thing")
	others = store.NewCollection[thing]("test", "other")
)

const account, region = "111111111111", "us-east-1"

func key(id string) store.Key { return store.Key{Account: account, Region: region, ID: id} }

// open opens an ephemeral store that is closed with the test.
func open(t testing.TB, mod ...func(*store.Config)) *store.Store {
	t.Helper()
	cfg := store.Config{Ephemeral: true, Log: testlog.New(t)}
	for _, m := range mod {
		m(&cfg)
	}
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t testing.TB, s *store.Store, k store.Key, v thing) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx *store.Tx) error { return things.Put(tx, k, v) }); err != nil {
		t.Fatal(err)
	}
}

func TestCollection(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	k := key("a")
	update := func(fn func(*store.Tx) error) error { return s.Update(ctx, fn) }

	if _, err := things.Get(s, k); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Get of nothing: %v", err)
	}
	if err := update(func(tx *store.Tx) error { return things.Create(tx, k, thing{Name: "a"}) }); err != nil {
		t.Fatal(err)
	}
	if err := update(func(tx *store.Tx) error { return things.Create(tx, k, thing{Name: "b"}) }); !errors.Is(err, store.ErrExists) {
		t.Fatalf("Create twice: %v", err)
	}
	if err := things.UpdateOne(ctx, s, k, func(v *thing) error { v.Count++; v.Tags = map[string]string{"x": "y"}; return nil }); err != nil {
		t.Fatal(err)
	}
	got, err := things.Get(s, k)
	if diff := cmp.Diff(thing{Name: "a", Count: 1, Tags: map[string]string{"x": "y"}}, got); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	revision := func() int64 {
		items := things.All(s, store.Scope{})
		if len(items) != 1 {
			t.Fatal(items)
		}
		return items[0].Revision
	}
	before := revision()
	if err := things.UpdateOne(ctx, s, k, func(v *thing) error { v.Name = "a"; return nil }); err != nil || revision() != before {
		t.Fatalf("a change to what it is already: revision %d after %d, %v", revision(), before, err)
	}
	boom := errors.New("boom")
	err = update(func(tx *store.Tx) error {
		things.Delete(tx, k)
		if _, err := things.Get(tx, k); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a transaction does not see its own delete: %v", err)
		}
		return boom
	})
	if err != boom { //nolint:errorlint // "returned as it is" is the contract
		t.Fatalf("fn's error became %v", err)
	}
	if _, err := things.Get(s, k); err != nil {
		t.Fatalf("a failed transaction wrote: %v", err)
	}
	if err := things.UpdateOne(ctx, s, key("none"), func(*thing) error { return nil }); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Update of nothing: %v", err)
	}
	if err := update(func(tx *store.Tx) error { things.Delete(tx, k); return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := things.Get(s, k); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("after delete: %v", err)
	}
}

func TestScopes(t *testing.T) {
	s := open(t)
	all := []store.Key{
		{Account: "1", Region: "", ID: "global"},
		{Account: "1", Region: "eu-west-1", ID: "a"},
		{Account: "1", Region: "eu-west-1", ID: "a/1"},
		{Account: "1", Region: "eu-west-1", ID: "a/2"},
		{Account: "1", Region: "eu-west-1", ID: "ab"},
		{Account: "1", Region: "eu-west-10", ID: "b"},
		{Account: "12", Region: "eu-west-1", ID: "a"},
	}
	for _, k := range all {
		put(t, s, k, thing{Name: k.String()})
	}
	put(t, s, store.Key{Account: "9", ID: "x"}, thing{})
	for name, tc := range map[string]struct {
		scope store.Scope
		want  []store.Key
	}{
		"account": {store.Scope{Account: "1"}, all[:6]},
		"region":  {store.Scope{Account: "1", Region: "eu-west-1"}, all[1:5]},
		"nested":  {store.Scope{Account: "1", Region: "eu-west-1", Prefix: "a/"}, all[2:4]},
		"global":  {store.Scope{Account: "1", Global: true}, all[:1]},
		"nothing": {store.Scope{Account: "2"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(r store.Reader) {
				items := things.All(r, tc.scope)
				var got []store.Key
				for _, it := range items {
					got = append(got, it.Key)
					if it.Value.Name != it.Key.String() || it.Revision == 0 {
						t.Errorf("%v has value %v, revision %d", it.Key, it.Value, it.Revision)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
			}
			check(s)
			if err := s.Update(t.Context(), func(tx *store.Tx) error { check(tx); return nil }); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTxSeesItsWritesInLists(t *testing.T) {
	s := open(t)
	for _, id := range []string{"b", "d", "f"} {
		put(t, s, key(id), thing{})
	}
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		for _, id := range []string{"a", "c", "d", "g"} {
			if err := things.Put(tx, key(id), thing{Count: 1}); err != nil {
				return err
			}
		}
		things.Delete(tx, key("f"))
		things.Delete(tx, key("nothing"))
		items := things.All(tx, store.Scope{Account: account, Region: region})
		got := ""
		for _, it := range items {
			got += fmt.Sprint(it.Key.ID, it.Value.Count, " ")
		}
		if want := "a1 b0 c1 d1 g1 "; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRefusedTransactions(t *testing.T) {
	s := open(t)
	many := func(n int) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			for i := range n {
				if err := things.Put(tx, key(fmt.Sprint(i)), thing{}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := s.Update(t.Context(), many(store.MaxWrites)); err != nil {
		t.Errorf("%d writes: %v", store.MaxWrites, err)
	}
	if err := s.Update(t.Context(), many(store.MaxWrites+1)); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("%d writes: %v", store.MaxWrites+1, err)
	}
	huge := func(tx *store.Tx) error {
		return things.Put(tx, key("huge"), thing{Name: strings.Repeat("x", 9<<20)})
	}
	if err := s.Update(t.Context(), huge); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("9 MiB: %v", err)
	}
	for _, k := range []store.Key{
		{}, {Account: "1"}, {ID: "x"}, {Account: "1/2", ID: "x"}, {Account: "1", Region: "a/b", ID: "x"},
		{Account: "1", Region: "-", ID: "x"}, {Account: "1", ID: "a\x00b"},
	} {
		if err := s.Update(t.Context(), func(tx *store.Tx) error { return things.Put(tx, k, thing{}) }); err == nil {
			t.Errorf("key %q was accepted", k)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Update(ctx, many(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

func TestHotRecord(t *testing.T) {
	s := open(t)
	put(t, s, key("counter"), thing{})
	const writers, each = 16, 25
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := things.UpdateOne(t.Context(), s, key("counter"), func(v *thing) error { v.Count++; return nil }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if v, _ := things.Get(s, key("counter")); v.Count != writers*each {
		t.Errorf("counted %d of %d", v.Count, writers*each)
	}
}

// TestListIsPartOfTheTransaction: of many transactions that each create a record only while there are fewer than a
// limit, no more than the limit succeed.
func TestListIsPartOfTheTransaction(t *testing.T) {
	s := open(t)
	full := errors.New("full")
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			err := s.Update(t.Context(), func(tx *store.Tx) error {
				items := things.All(tx, store.Scope{Account: account, Region: region})
				if len(items) >= 10 {
					return full
				}
				return things.Create(tx, key(fmt.Sprint(i)), thing{})
			})
			if err != nil && !errors.Is(err, full) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if items := things.All(s, store.Scope{}); len(items) != 10 {
		t.Errorf("%d records, want 10", len(items))
	}
}

func TestReset(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	for i := range 250 {
		put(t, s, key(fmt.Sprint(i)), thing{})
	}
	keep := store.Key{Account: "2", Region: region, ID: "kept"}
	if err := s.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(others.Put(tx, store.Key{Account: account, ID: "global"}, thing{}), things.Put(tx, keep, thing{}))
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Reset(ctx, account); err != nil {
		t.Fatal(err)
	}
	left := things.All(s, store.Scope{})
	if len(left) != 1 || left[0].Key != keep {
		t.Errorf("left: %v", left)
	}
	if left := others.All(s, store.Scope{}); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if err := s.Reset(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if n, err := s.CountKeys(ctx); err != nil || n != 0 {
		t.Errorf("%d keys left, %v", n, err)
	}
}

func TestWatcher(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	put(t, s, key("a"), thing{})
	put(t, s, key("b"), thing{})
	w := things.Watch(s, store.Scope{Account: account, Region: region})
	next := func(want ...string) {
		t.Helper()
		keys, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range keys {
			got = append(got, k.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	next("a", "b")
	changed := s.Changed()
	put(t, s, store.Key{Account: "2", ID: "elsewhere"}, thing{})
	<-changed
	put(t, s, key("c"), thing{})
	put(t, s, key("c"), thing{Count: 1})
	if err := s.Update(ctx, func(tx *store.Tx) error { things.Delete(tx, key("a")); return nil }); err != nil {
		t.Fatal(err)
	}
	next("a", "c")

	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := w.Next(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	w.Stop()
	w.Stop()
	if _, err := w.Next(ctx); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after Stop: %v", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	start := time.Now()
	s, err := store.Open(t.Context(), store.Config{Ephemeral: true, Log: testlog.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	opened := time.Since(start)
	put(t, s, key("a"), thing{Name: "a"})
	w := things.Watch(s, store.Scope{})
	if _, err := w.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := w.Next(t.Context())
		done <- err
	}()
	start = time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("open %v, close %v", opened, time.Since(start))
	if err := <-done; !errors.Is(err, store.ErrClosed) {
		t.Errorf("watcher: %v", err)
	}
	err = s.Update(t.Context(), func(tx *store.Tx) error { return things.Put(tx, key("b"), thing{}) })
	if !errors.Is(err, store.ErrClosed) {
		t.Errorf("Update: %v", err)
	}
	if err := s.Reset(t.Context(), ""); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Reset: %v", err)
	}
	if v, err := things.Get(s, key("a")); err != nil || v.Name != "a" {
		t.Errorf("reads end with the store: %v %v", v, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close twice: %v", err)
	}
	eventually(t, func() error {
		if n := runtime.NumGoroutine(); n > before {
			buf := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines, %d before\n%s", n, before, buf[:runtime.Stack(buf, true)])
		}
		return nil
	})
}

// eventually polls until fn returns nil.
func eventually(t testing.TB, fn func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := fn()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}
