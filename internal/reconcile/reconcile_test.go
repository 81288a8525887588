package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

type thing struct{ Want, Is int }

var things = store.NewCollection[thing]("test", "thing")

func key(id string) store.Key { return store.Key{Account: "111111111111", Region: "r", ID: id} }

func open(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Ephemeral: true, Log: testlog.New(t)})
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

func put(t *testing.T, s *store.Store, k store.Key, v thing) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx *store.Tx) error { return things.Put(tx, k, v) }); err != nil {
		t.Fatal(err)
	}
}

type fn = func(context.Context, store.Key) (time.Duration, error)

// run starts a reconciler. The returned function ends it and waits.
func run(t *testing.T, s *store.Store, c clock.WithTicker, log *slog.Logger, reconcileKey fn) (stop func()) {
	t.Helper()
	if log == nil {
		log = testlog.New(t)
	}
	if c == nil {
		c = clock.RealClock{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	w := things.Watch(s, store.Scope{})
	go func() {
		done <- reconcile.Run(ctx, reconcile.Config{
			Name: "test/thing", Watcher: w, Reconcile: reconcileKey, Workers: 8, Log: log, Clock: c,
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, fn func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
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

// TestConverges: the world reaches the last desired state of every record, whether or not it existed before, and a
// key is never in two calls at once.
func TestConverges(t *testing.T) {
	s := open(t)
	for i := range 10 {
		put(t, s, key(fmt.Sprint(i)), thing{Want: 1})
	}
	var mu sync.Mutex
	busy := map[store.Key]bool{}
	run(t, s, nil, nil, func(ctx context.Context, k store.Key) (time.Duration, error) {
		mu.Lock()
		if busy[k] {
			t.Errorf("%v is reconciled twice at once", k)
		}
		busy[k] = true
		mu.Unlock()
		defer func() {
			mu.Lock()
			delete(busy, k)
			mu.Unlock()
		}()
		return 0, things.UpdateOne(ctx, s, k, func(v *thing) error { v.Is = v.Want; return nil })
	})
	for want := 2; want < 10; want++ {
		for i := range 15 {
			err := s.Update(t.Context(), func(tx *store.Tx) error {
				v, _ := things.Get(tx, key(fmt.Sprint(i)))
				v.Want = want
				return things.Put(tx, key(fmt.Sprint(i)), v)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, func() error {
		for _, it := range things.All(s, store.Scope{}) {
			if it.Value.Is != 9 {
				return fmt.Errorf("%v is %+v", it.Key, it.Value)
			}
		}
		return nil
	})
}

func TestRetriesWithGrowingDelay(t *testing.T) {
	s := open(t)
	put(t, s, key("a"), thing{})
	c := clocktesting.NewFakeClock(time.Now())
	var calls atomic.Int64
	run(t, s, c, nil, func(context.Context, store.Key) (time.Duration, error) {
		if calls.Add(1) <= 4 {
			return 0, errors.New("not yet")
		}
		return 0, nil
	})
	start := c.Now()
	delay := 50 * time.Millisecond
	for n := int64(1); n <= 4; n++ {
		waitCalls(t, &calls, n)
		stepUntil(t, c, &calls, n+1)
		if passed := c.Since(start); passed < delay {
			t.Errorf("call %d came after %v, want %v", n+1, passed, delay)
		}
		start = c.Now()
		delay *= 2
	}
}

func waitCalls(t *testing.T, calls *atomic.Int64, n int64) {
	t.Helper()
	eventually(t, func() error {
		if got := calls.Load(); got != n {
			return fmt.Errorf("%d calls, want %d", got, n)
		}
		return nil
	})
}

// stepUntil lets time pass in small steps until the n-th call.
func stepUntil(t *testing.T, c *clocktesting.FakeClock, calls *atomic.Int64, n int64) {
	t.Helper()
	eventually(t, func() error {
		if calls.Load() >= n {
			return nil
		}
		c.Step(5 * time.Millisecond)
		return fmt.Errorf("%d calls, want %d", calls.Load(), n)
	})
}

func TestAgainAfter(t *testing.T) {
	s := open(t)
	put(t, s, key("a"), thing{})
	c := clocktesting.NewFakeClock(time.Now())
	var calls atomic.Int64
	run(t, s, c, nil, func(context.Context, store.Key) (time.Duration, error) {
		if calls.Add(1) == 1 {
			return time.Second, nil
		}
		return 0, nil
	})
	waitCalls(t, &calls, 1)
	start := c.Now()
	stepUntil(t, c, &calls, 2)
	if passed := c.Since(start); passed < time.Second {
		t.Errorf("called again after %v", passed)
	}
	// A change does not wait for any delay.
	put(t, s, key("a"), thing{Want: 1})
	waitCalls(t, &calls, 3)
}

// TestRelated: a change of another kind of record reconciles the one it belongs to.
func TestRelated(t *testing.T) {
	s := open(t)
	put(t, s, key("a"), thing{})
	parts := store.NewCollection[thing]("test", "part")
	var calls, strangers atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	w, related := things.Watch(s, store.Scope{}), parts.Watch(s, store.Scope{})
	go func() {
		done <- reconcile.Run(ctx, reconcile.Config{
			Name: "test/thing", Watcher: w, Log: testlog.New(t), Clock: clock.RealClock{},
			Related: []reconcile.Related{{Watcher: related, Of: func(k store.Key) (store.Key, bool) {
				owner, _, ok := strings.Cut(k.ID, "/")
				return key(owner), ok
			}}},
			Reconcile: func(_ context.Context, k store.Key) (time.Duration, error) {
				if k != key("a") {
					strangers.Add(1)
				}
				calls.Add(1)
				return 0, nil
			},
		})
	}()
	waitCalls(t, &calls, 1)
	write := func(id string) {
		if err := s.Update(t.Context(), func(tx *store.Tx) error { return parts.Put(tx, key(id), thing{}) }); err != nil {
			t.Fatal(err)
		}
	}
	write("nobody")
	write("a/1")
	waitCalls(t, &calls, 2)
	cancel()
	if err := <-done; err != nil || strangers.Load() != 0 {
		t.Errorf("Run: %v; %d strangers", err, strangers.Load())
	}
}

func TestPanicIsAnError(t *testing.T) {
	s := open(t)
	put(t, s, key("bad"), thing{})
	put(t, s, key("good"), thing{})
	var log syncBuffer
	var bad, good atomic.Int64
	run(t, s, nil, slog.New(slog.NewTextHandler(&log, nil)), func(_ context.Context, k store.Key) (time.Duration, error) {
		if k.ID == "bad" && bad.Add(1) == 1 {
			panic("a bug")
		}
		if k.ID == "good" {
			good.Add(1)
		}
		return 0, nil
	})
	waitCalls(t, &bad, 2)
	waitCalls(t, &good, 1)
	for _, want := range []string{"level=ERROR", "a bug", "TestPanicIsAnError", "test/thing"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log does not say %q: %s", want, log.String())
		}
	}
}

// TestRunWaits: Run returns only when every call has, and calls nothing after.
func TestRunWaits(t *testing.T) {
	s := open(t)
	for i := range 50 {
		put(t, s, key(fmt.Sprint(i)), thing{})
	}
	var running, ended atomic.Int64
	var late atomic.Bool
	var stopping atomic.Bool
	stop := run(t, s, nil, nil, func(ctx context.Context, _ store.Key) (time.Duration, error) {
		if stopping.Load() && ctx.Err() != nil {
			late.Store(true)
		}
		running.Add(1)
		<-ctx.Done()
		ended.Add(1)
		return 0, ctx.Err()
	})
	waitCalls(t, &running, 8) // all workers
	stopping.Store(true)
	stop()
	if running.Load() != 8 || ended.Load() != 8 || late.Load() {
		t.Errorf("%d calls began, %d ended when Run returned; late: %v", running.Load(), ended.Load(), late.Load())
	}
}

func TestStoreCloses(t *testing.T) {
	s := open(t)
	put(t, s, key("a"), thing{})
	called := make(chan struct{}, 1)
	done := make(chan error)
	go func() {
		done <- reconcile.Run(t.Context(), reconcile.Config{
			Watcher: things.Watch(s, store.Scope{}), Clock: clock.RealClock{},
			Reconcile: func(ctx context.Context, _ store.Key) (time.Duration, error) {
				called <- struct{}{}
				<-ctx.Done()
				return 0, ctx.Err()
			},
			Log: testlog.New(t),
		})
	}()
	<-called
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, store.ErrClosed) {
		t.Errorf("Run: %v", err)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestAClockIsRequired: a reconciler without its service's clock would wait by another clock than the one that its
// tests control.
func TestAClockIsRequired(t *testing.T) {
	err := reconcile.Run(t.Context(), reconcile.Config{Name: "test/thing"})
	if err == nil || !strings.Contains(err.Error(), "no clock") {
		t.Errorf("got %v", err)
	}
}

// A record that cannot be read stays unreadable: the store has reported it, and retrying forever would only fill the
// log.
func TestUnreadableRecordsAreNotTriedAgain(t *testing.T) {
	s := open(t)
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		return store.NewCollection[string]("test", "thing").Put(tx, key("bad"), "not an object")
	})
	if err != nil {
		t.Fatal(err)
	}
	c := clocktesting.NewFakeClock(time.Now())
	var bad, good atomic.Int64
	run(t, s, c, nil, func(_ context.Context, k store.Key) (time.Duration, error) {
		if k == key("bad") {
			defer bad.Add(1)
		} else {
			defer good.Add(1)
		}
		_, err := things.Get(s, k)
		return 10 * time.Millisecond, err
	})
	eventually(t, func() error {
		if bad.Load() == 0 {
			return errors.New("not reconciled")
		}
		return nil
	})
	put(t, s, key("good"), thing{})
	stepUntil(t, c, &good, 100)
	if n := bad.Load(); n != 1 {
		t.Errorf("tried %d times", n)
	}
}
