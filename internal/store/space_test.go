package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

func large(id string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		return things.Put(tx, key(id), thing{Name: strings.Repeat("x", 256<<10)})
	}
}

// TestQuota fills the database, is refused, makes room, and writes again.
func TestQuota(t *testing.T) {
	s := open(t, func(c *store.Config) { c.QuotaBytes = 24 << 20 })
	ctx := t.Context()
	m := store.NewMaintenance(ctx, s)
	var err error
	wrote := 0
	for ; err == nil; wrote++ {
		if wrote > 1000 {
			t.Fatal("never full")
		}
		err = s.Update(ctx, large(fmt.Sprint(wrote)))
	}
	if !errors.Is(err, store.ErrOutOfSpace) {
		t.Fatalf("after %d writes: %v", wrote, err)
	}
	oneLine(t, err, "24 MiB", "drydock reset")
	if items := things.All(s, store.Scope{}); len(items) < wrote-1 {
		t.Errorf("%d records of %d", len(items), wrote-1)
	}
	// Maintenance reclaims a little, but nearly everything is in use.
	m.Space(ctx)
	for i := 0; err == nil || i == 0; i++ {
		if i == 50 {
			t.Fatal("no longer full, but nothing was deleted")
		}
		err = s.Update(ctx, large(fmt.Sprint("more", i)))
	}
	if !errors.Is(err, store.ErrOutOfSpace) {
		t.Fatal(err)
	}
	if err := s.Reset(ctx, account); err != nil {
		t.Fatalf("deleting when full: %v", err)
	}
	// The store's own maintainer was woken by the refusals and may come first.
	eventually(t, func() error {
		m.Space(ctx)
		return s.Update(ctx, large("again"))
	})
	if size, inUse := s.Server().Size(); size > 16<<20 {
		t.Errorf("database is %d MiB, %d in use", size>>20, inUse>>20)
	}
}

// TestDiskAlmostFull: writes are refused before the disk is full, including those of API servers, and resume when
// there is room.
func TestDiskAlmostFull(t *testing.T) {
	s := open(t, func(c *store.Config) { c.MinFreeBytes, c.Log = 1<<60, testlog.New(t, "writes are refused") })
	ctx := t.Context()
	store.NewMaintenance(ctx, s).Space(ctx)
	err := s.Update(ctx, large("a"))
	if !errors.Is(err, store.ErrOutOfSpace) {
		t.Fatalf("got %v", err)
	}
	oneLine(t, err, "MiB left")
	if _, err := dialEtcd(t, endpointOf(s)).Put(ctx, s.ClusterPrefix("one")+"/x", "x"); err == nil {
		t.Error("an API server could write")
	}
	if err := s.Update(ctx, func(tx *store.Tx) error { things.Delete(tx, key("a")); return nil }); err != nil {
		t.Errorf("deleting: %v", err)
	}
}

func TestDefragment(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	for i := range 80 {
		if err := s.Update(ctx, large(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Reset(ctx, ""); err != nil {
		t.Fatal(err)
	}
	m := store.NewMaintenance(ctx, s)
	m.SetWorthwhile(8 << 20)
	m.Compact(ctx)
	eventually(t, func() error {
		put(t, s, key("small"), thing{}) // the database counts pages as free at the next write
		m.Space(ctx)
		if size, inUse := s.Server().Size(); size > 8<<20 {
			return fmt.Errorf("database is %d MiB, %d in use", size>>20, inUse>>20)
		}
		return nil
	})
	if err := s.Update(ctx, large("after")); err != nil {
		t.Fatal(err)
	}
}
