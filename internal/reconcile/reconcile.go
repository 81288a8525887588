// Package reconcile runs level-triggered reconcilers over the store: for every
// record that exists or changes it calls a function that brings the world to
// what the record says. A function is never run twice at once for one key, is
// run again after an error with growing delay, and must be safe to repeat.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/drydock-dev/drydock/internal/store"
)

// Config says what to reconcile.
type Config struct {
	// Name is for the log: "eks/cluster".
	Name string
	// Watcher names the records to look at. Run stops it.
	Watcher *store.Watcher
	// Reconcile brings one record's world up to date. A duration above zero asks
	// to be called again after it; an error, after a growing delay.
	Reconcile func(ctx context.Context, key store.Key) (again time.Duration, err error)
	// Workers is how many keys are reconciled at once; 0 means 4.
	Workers int
	Log     *slog.Logger
}

// Run reconciles until ctx ends, and returns when every call has returned.
func Run(ctx context.Context, cfg Config) error {
	defer cfg.Watcher.Stop()
	if cfg.Workers == 0 {
		cfg.Workers = 4
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[store.Key](50*time.Millisecond, 30*time.Second)
	queue := workqueue.NewTypedRateLimitingQueue(limiter)
	var wg sync.WaitGroup
	for range cfg.Workers {
		wg.Go(func() {
			for {
				key, done := queue.Get()
				if done {
					return
				}
				again, err := cfg.Reconcile(ctx, key)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					cfg.Log.Warn("reconcile", "what", cfg.Name, "key", key.String(), "err", err)
					queue.AddRateLimited(key)
				default:
					queue.Forget(key)
					if again > 0 {
						queue.AddAfter(key, again)
					}
				}
				queue.Done(key)
			}
		})
	}
	var err error
	for err == nil {
		var keys []store.Key
		keys, err = cfg.Watcher.Next(ctx)
		for _, k := range keys {
			queue.Add(k)
		}
	}
	queue.ShutDown()
	wg.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
