package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// external opens a store on another's etcd, as on a user's.
func external(t testing.TB, endpoint string, mod ...func(*store.Config)) *store.Store {
	t.Helper()
	return open(t, append([]func(*store.Config){func(c *store.Config) {
		c.Ephemeral, c.Endpoints = false, []string{endpoint}
	}}, mod...)...)
}

func endpointOf(s *store.Store) string { return s.EtcdAccess().Endpoints[0] }

func TestSharedEtcd(t *testing.T) {
	host := open(t, func(c *store.Config) { c.Prefix = "/host" })
	a, b := external(t, endpointOf(host)), external(t, endpointOf(host))
	apart := external(t, endpointOf(host), func(c *store.Config) { c.Prefix = "another/" })
	put(t, apart, key("apart"), thing{})

	t.Run("no lost updates", func(t *testing.T) {
		put(t, a, key("counter"), thing{})
		eventually(t, func() error { _, err := things.Get(b, key("counter")); return err })
		var wg sync.WaitGroup
		for _, s := range []*store.Store{a, b, a, b} {
			wg.Go(func() {
				for range 20 {
					if err := things.UpdateOne(t.Context(), s, key("counter"), func(v *thing) error { v.Count++; return nil }); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		eventually(t, func() error {
			for _, s := range []*store.Store{a, b} {
				if v, _ := things.Get(s, key("counter")); v.Count != 80 {
					return fmt.Errorf("counted %d", v.Count)
				}
			}
			return nil
		})
	})

	// Each moves the only record to a place of its own, if it is the only one: creations and deletions in a listed
	// range must be noticed.
	for name, scope := range map[string]store.Scope{
		"region": {Account: account, Region: region}, "account": {Account: account}, "all": {},
	} {
		t.Run("lists/"+name, func(t *testing.T) {
			if err := a.Update(t.Context(), func(tx *store.Tx) error { return others.Put(tx, key("token0"), thing{}) }); err != nil {
				t.Fatal(err)
			}
			// b learns of it a little later, and an error of fn is final.
			eventually(t, func() error { _, err := others.Get(b, key("token0")); return err })
			var wg sync.WaitGroup
			for i, s := range []*store.Store{a, b} {
				wg.Go(func() {
					for n := range 20 {
						err := s.Update(t.Context(), func(tx *store.Tx) error {
							items := others.All(tx, scope)
							if len(items) != 1 {
								return fmt.Errorf("%d tokens: %v", len(items), items)
							}
							others.Delete(tx, items[0].Key)
							return others.Create(tx, key(fmt.Sprintf("token%d-%d", i, n)), thing{})
						})
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if err := a.Reset(t.Context(), account); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error {
				if items := others.All(b, store.Scope{}); len(items) != 0 {
					return fmt.Errorf("left: %v", items)
				}
				return nil
			})
		})
	}

	if items := things.All(apart, store.Scope{}); len(items) != 1 {
		t.Errorf("the store under another prefix has %v", items)
	}
}

// TestManyReads reads more records in a transaction than etcd can compare.
func TestManyReads(t *testing.T) {
	host := open(t, func(c *store.Config) { c.Prefix = "/host" })
	for name, s := range map[string]*store.Store{"embedded": open(t), "external": external(t, endpointOf(host))} {
		t.Run(name, func(t *testing.T) {
			sum := func(tx *store.Tx) error {
				n := 0
				for i := range 300 {
					v, _ := things.Get(tx, key(fmt.Sprint("r", i)))
					n += v.Count
				}
				return others.Put(tx, key("sum"), thing{Count: n})
			}
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() { put(t, s, key(fmt.Sprint("r", i*10)), thing{Count: 1}) })
				wg.Go(func() {
					if err := s.Update(t.Context(), sum); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if err := s.Update(t.Context(), sum); err != nil {
				t.Fatal(err)
			}
			if v, _ := others.Get(s, key("sum")); v.Count != 20 {
				t.Errorf("sum %d", v.Count)
			}
		})
	}
}

// TestLostWatch cuts the connection, changes and compacts everything without the store noticing, and connects again.
func TestLostWatch(t *testing.T) {
	host := open(t, func(c *store.Config) { c.Prefix = "/drydock" })
	line := cutLine(t, endpointOf(host))
	s := external(t, line.endpoint)
	put(t, host, key("changed"), thing{})
	put(t, host, key("deleted"), thing{})
	put(t, host, key("same"), thing{})
	eventually(t, func() error { _, err := things.Get(s, key("same")); return err })
	w := things.Watch(s, store.Scope{})
	defer w.Stop()
	if _, err := w.Next(t.Context()); err != nil {
		t.Fatal(err)
	}

	line.cut()
	put(t, host, key("changed"), thing{Count: 1})
	put(t, host, key("new"), thing{})
	if err := host.Update(t.Context(), func(tx *store.Tx) error { things.Delete(tx, key("deleted")); return nil }); err != nil {
		t.Fatal(err)
	}
	direct, err := clientv3.New(clientv3.Config{Endpoints: []string{endpointOf(host)}})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	now, err := direct.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Compact(t.Context(), now.Header.Revision); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = s.Update(ctx, func(tx *store.Tx) error { return things.Put(tx, key("cut off"), thing{}) })
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Update without a connection: %v", err)
	}
	line.heal()
	told := map[string]bool{}
	wctx, wcancel := context.WithTimeout(t.Context(), time.Minute)
	defer wcancel()
	for !told["changed"] || !told["deleted"] || !told["new"] {
		keys, err := w.Next(wctx)
		if err != nil {
			t.Fatalf("told only of %v: %v", told, err)
		}
		for _, k := range keys {
			told[k.ID] = true
		}
	}
	if told["same"] {
		t.Error("told of a record that did not change")
	}
	if v, err := things.Get(s, key("changed")); err != nil || v.Count != 1 {
		t.Errorf("changed: %v %v", v, err)
	}
	if _, err := things.Get(s, key("deleted")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	put(t, s, key("after"), thing{})
}

func TestNoEtcd(t *testing.T) {
	_, err := store.Open(t.Context(), store.Config{Endpoints: []string{"unix://" + filepath.Join(t.TempDir(), "none")}, Log: testlog.New(t)})
	if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

// A line is a connection to an etcd that can be cut.
type line struct {
	target   string
	endpoint string
	mu       sync.Mutex
	down     bool
	conns    map[net.Conn]struct{}
}

func cutLine(t testing.TB, endpoint string) *line {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "line")
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l := serveLine(t, lis, endpoint)
	l.endpoint = "unix://" + socket
	return l
}

// serveLine connects clients of the listener to an etcd, until the test ends.
func serveLine(t testing.TB, lis net.Listener, endpoint string) *line {
	l := &line{target: strings.TrimPrefix(endpoint, "unix://"), conns: map[net.Conn]struct{}{}}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		lis.Close()
		l.cut()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { l.carry(c) })
		}
	})
	return l
}

func (l *line) carry(c net.Conn) {
	defer c.Close()
	up, err := (&net.Dialer{}).DialContext(context.Background(), "unix", l.target)
	if err != nil {
		return
	}
	defer up.Close()
	l.mu.Lock()
	if l.down {
		l.mu.Unlock()
		return
	}
	l.conns[c], l.conns[up] = struct{}{}, struct{}{}
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(up, c)
		up.Close()
	}()
	_, _ = io.Copy(c, up)
	c.Close()
	<-done
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

func (l *line) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}
