package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/drydock-dev/drydock/internal/store"
)

// dialEtcd connects as an API server does.
func dialEtcd(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestClusterState(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	c := dialEtcd(t, endpointOf(s))
	if diff := s.EtcdAccess(); diff.CAFile != "" || diff.CertFile != "" || diff.NeedsPassword {
		t.Errorf("access %+v", diff)
	}
	const keys = 1234
	for i := range keys {
		if _, err := c.Put(ctx, fmt.Sprintf("%s/pods/%d", s.ClusterPrefix("one"), i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Put(ctx, s.ClusterPrefix("one-more")+"/pods/1", "x"); err != nil {
		t.Fatal(err)
	}
	put(t, s, key("record"), thing{})
	if ids, err := s.ClusterIDs(ctx); err != nil || !slices.Equal(ids, []string{"one", "one-more"}) && !slices.Equal(ids, []string{"one-more", "one"}) {
		t.Errorf("clusters %q, %v", ids, err)
	}
	if n, err := s.CountClusterKeys(ctx, "one"); err != nil || n != keys {
		t.Errorf("%d keys, %v", n, err)
	}
	if v, err := s.ClusterValue(ctx, "one", "/pods/7"); err != nil || string(v) != "x" {
		t.Errorf("value %q, %v", v, err)
	}
	if _, err := s.ClusterValue(ctx, "one-more", "/pods/7"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a value that is another cluster's: %v", err)
	}
	if err := s.DeleteClusterPrefix(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.CountClusterKeys(ctx, "one"); err != nil || n != 0 {
		t.Errorf("%d keys left, %v", n, err)
	}
	if n, err := s.CountClusterKeys(ctx, "one-more"); err != nil || n != 1 {
		t.Errorf("the other cluster has %d keys, %v", n, err)
	}
	if err := s.DeleteClusterPrefix(ctx, ""); err == nil {
		t.Error("deleted every cluster")
	}
	if n, err := s.CountKeys(ctx); err != nil || n != 2 {
		t.Errorf("%d keys in all, %v", n, err)
	}
}

func TestCompactionAsUpstream(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	c := dialEtcd(t, endpointOf(s))
	revOf := func() int64 {
		r, err := c.Get(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
	for round := range 3 {
		// Each round is a daemon that starts, and compacts the earlier history.
		old := revOf()
		put(t, s, key("a"), thing{Count: round})
		m := store.NewMaintenance(ctx, s)
		start := revOf()
		put(t, s, key("a"), thing{Count: round})
		m.Compact(ctx)
		r, err := c.Get(ctx, "compact_rev_key")
		if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != fmt.Sprint(start) {
			t.Fatalf("round %d: compact_rev_key %v, %v; want %d", round, r.Kvs, err, start)
		}
		if _, err := c.Get(ctx, "x", clientv3.WithRev(old)); err == nil {
			t.Errorf("round %d: revision %d can still be read", round, old)
		}
		if _, err := c.Get(ctx, "x", clientv3.WithRev(start)); err != nil {
			t.Errorf("round %d: revision %d: %v", round, start, err)
		}
	}
	// Of two compactors the one that is late only learns the current state.
	one, two := store.NewMaintenance(ctx, s), store.NewMaintenance(ctx, s)
	one.Compact(ctx)
	before, _ := c.Get(ctx, "compact_rev_key")
	two.Compact(ctx)
	after, _ := c.Get(ctx, "compact_rev_key")
	if before.Kvs[0].Version != after.Kvs[0].Version {
		t.Error("two compactors in one round")
	}
	one = two // the first dies; the second goes on
	one.Compact(ctx)
	after, _ = c.Get(ctx, "compact_rev_key")
	if after.Kvs[0].Version != before.Kvs[0].Version+1 {
		t.Error("nobody compacts after the first has died")
	}
	put(t, s, key("a"), thing{})
}
