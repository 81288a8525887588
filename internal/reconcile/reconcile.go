// Package reconcile runs level-triggered reconcilers over the store. For every record that exists or changes, it
// calls a function that brings the world into the state that the record describes. The function is never called
// concurrently for one key and must be safe to repeat. After an error it is called again, with growing delays.
//
// It keeps no state: after a restart every record is reconciled again. Services, controlplane and node use it; it
// does not depend on what is reconciled.
package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/store"
)

// The delays after an error: the first one, which doubles each time up to the last.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// holdWait is how long a record is held before Config.Hold is asked again.
const holdWait = 500 * time.Millisecond

// Config says what to reconcile.
type Config struct {
	// Name is for the log: "eks/cluster".
	Name string
	// Watcher provides the records to reconcile. Run stops it.
	Watcher *store.Watcher
	// Related are records of other kinds whose changes trigger Reconcile for one of Watcher's records: the instances
	// of a group. Run stops their watchers too.
	Related []Related
	// Reconcile brings the world up to date with one record, including a record that was deleted. A duration above
	// zero asks to be called again after that time. An error does so after a growing delay. In any case, a change of
	// the record triggers a call at once. A panic counts as an error.
	Reconcile func(ctx context.Context, key store.Key) (again time.Duration, err error)
	// Hold reports whether to leave a record as it is for now. Run asks again after holdWait. Nil means that no record
	// is held.
	Hold func(key store.Key) bool
	// Workers is how many keys are reconciled at once; 0 means 4.
	Workers int
	Log     *slog.Logger     // nil means slog.Default()
	Clock   clock.WithTicker // for the delays; required, so that the configured clock cannot be forgotten
}

// Related says which record to reconcile when another one changes.
type Related struct {
	Watcher *store.Watcher
	// Of returns the key to reconcile for a changed record, or false if there is none.
	Of func(changed store.Key) (store.Key, bool)
}

// Run reconciles until ctx ends, and returns when every call has returned. It returns nil, or the reason why it ended
// before ctx did (store.ErrClosed). If one reconciler ends early, all do.
func Run(ctx context.Context, cfgs ...Config) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, cfg := range cfgs {
		group.Go(func() error { return run(ctx, cfg) })
	}
	return group.Wait()
}

func run(ctx context.Context, cfg Config) error {
	if cfg.Clock == nil {
		return fmt.Errorf("reconciling %s: no clock", cfg.Name)
	}
	defer cfg.Watcher.Stop()
	for _, r := range cfg.Related {
		defer r.Watcher.Stop()
	}
	if cfg.Workers == 0 {
		cfg.Workers = 4
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	reconcile := cfg.Reconcile
	if cfg.Hold != nil {
		reconcile = func(ctx context.Context, key store.Key) (time.Duration, error) {
			if cfg.Hold(key) {
				return holdWait, nil
			}
			return cfg.Reconcile(ctx, key)
		}
	}
	queue := NewQueue(cfg.Name, reconcile, cfg.Clock, cfg.Log)
	calls, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	workers.Go(func() { queue.Run(calls, cfg.Workers) })
	var watchers sync.WaitGroup
	for _, r := range cfg.Related {
		watchers.Go(func() { r.feed(calls, queue) })
	}
	var err error
	for err == nil {
		var keys []store.Key
		keys, err = cfg.Watcher.Next(ctx)
		for _, k := range keys {
			queue.Add(k)
		}
	}
	cancel()
	watchers.Wait()
	workers.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// feed queues the records related to each change until ctx or the watcher ends. If the store ends, Run's own watcher
// ends Run.
func (r Related) feed(ctx context.Context, queue *Queue[store.Key]) {
	for {
		keys, err := r.Watcher.Next(ctx)
		if err != nil {
			return
		}
		for _, changed := range keys {
			if k, ok := r.Of(changed); ok {
				queue.Add(k)
			}
		}
	}
}
