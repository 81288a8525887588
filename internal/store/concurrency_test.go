package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/store"
)

// TestAbandonedWrites: callers give up at random moments of a commit. They do not know what became of their writes,
// but later transactions do.
func TestAbandonedWrites(t *testing.T) {
	s := open(t)
	const limit = 20
	full := errors.New("full")
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(2000))*time.Microsecond)
				err := s.Update(ctx, func(tx *store.Tx) error {
					items := things.All(tx, store.Scope{Account: account})
					if len(items) > limit {
						t.Errorf("a transaction saw %d records", len(items))
					}
					if len(items) == limit {
						// Make room now and then, so that there is always something to do.
						if i%4 == 0 {
							things.Delete(tx, items[0].Key)
							return nil
						}
						return full
					}
					return things.Create(tx, key(fmt.Sprintf("%d-%d", w, i)), thing{})
				})
				cancel()
				if err != nil && !errors.Is(err, full) && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// Everything has settled, so a transaction that conflicts with all others gets its turn.
	if err := s.Reset(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	if n, err := s.CountKeys(t.Context()); err != nil || n != 0 {
		t.Errorf("%d keys left, %v", n, err)
	}
}

// TestPanicInTransaction: a panic in a transaction that is run again does not
// hold up those that come after it.
func TestPanicInTransaction(t *testing.T) {
	s := open(t)
	put(t, s, key("a"), thing{})
	runs := 0
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = s.Update(t.Context(), func(tx *store.Tx) error {
			if runs++; runs == 2 {
				panic("a bug")
			}
			if _, err := things.Get(tx, key("a")); err != nil {
				return err
			}
			put(t, s, key("a"), thing{Count: 1}) // makes it run again
			return things.Put(tx, key("a"), thing{Count: 2})
		})
	}()
	put(t, s, key("a"), thing{Count: 3})
	if v, _ := things.Get(s, key("a")); v.Count != 3 || runs != 2 {
		t.Errorf("count %d after %d runs", v.Count, runs)
	}
}

func TestEphemeralLeavesNothing(t *testing.T) {
	s := open(t)
	dir := filepath.Dir(strings.TrimPrefix(endpointOf(s), "unix://"))
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Fatalf("%v %v", st, err)
	}
	put(t, s, key("a"), thing{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("folder after Close: %v", err)
	}

	// A store whose process was killed is removed by the next one; a store in use is not.
	old := time.Now().Add(-time.Hour)
	base := filepath.Dir(dir)
	var dirs [2]string
	for i := range dirs {
		d, err := os.MkdirTemp(base, "drydock-store-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(d)
		f, err := os.Create(filepath.Join(d, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if i == 1 {
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(d, old, old); err != nil {
			t.Fatal(err)
		}
		dirs[i] = d
	}
	open(t)
	if _, err := os.Stat(dirs[0]); !os.IsNotExist(err) {
		t.Errorf("abandoned store: %v", err)
	}
	if _, err := os.Stat(dirs[1]); err != nil {
		t.Errorf("store in use: %v", err)
	}
}
