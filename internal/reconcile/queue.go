package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/store"
)

// A Queue calls a function for the keys that are added to it, with Run's guarantees: never concurrently for one key,
// again after an error with growing delay, and a panic counts as an error. Run uses one for the store's records. Code
// that reconciles something else creates its own.
type Queue[K comparable] struct {
	name      string
	reconcile func(context.Context, K) (again time.Duration, err error)
	queue     workqueue.TypedRateLimitingInterface[K]
	log       *slog.Logger
}

// NewQueue returns a queue that calls nothing before Run. The name is for the log.
func NewQueue[K comparable](name string, reconcile func(context.Context, K) (time.Duration, error), c clock.WithTicker, log *slog.Logger) *Queue[K] {
	return &Queue[K]{
		name: name, reconcile: reconcile, log: log,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.NewTypedItemExponentialFailureRateLimiter[K](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[K]{Clock: c}),
	}
}

// ShutDown ends a queue on which Run may not have been called.
func (q *Queue[K]) ShutDown() { q.queue.ShutDown() }

// Add queues a key.
func (q *Queue[K]) Add(key K) { q.queue.Add(key) }

// Run calls the function for up to workers keys at once, until ctx ends and every call has returned.
func (q *Queue[K]) Run(ctx context.Context, workers int) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				key, done := q.queue.Get()
				if done {
					return
				}
				if ctx.Err() == nil { // the queue is emptied before it ends
					q.one(ctx, key)
				}
				q.queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	q.queue.ShutDown()
	wg.Wait()
}

// one reconciles a key and schedules its next call.
func (q *Queue[K]) one(ctx context.Context, key K) {
	again, err := q.call(ctx, key)
	switch {
	case ctx.Err() != nil: // the error most likely comes from that
	case errors.Is(err, store.ErrUnreadable): // the store has reported it, and retrying does not help
		q.queue.Forget(key)
	case err != nil:
		attrs := []any{"what", q.name, "key", fmt.Sprint(key), "err", err, "tries", q.queue.NumRequeues(key) + 1}
		var p *panicError
		if errors.As(err, &p) {
			q.log.Error("reconcile", append(attrs, "stack", string(p.stack))...)
		} else {
			q.log.Warn("reconcile", attrs...)
		}
		q.queue.AddRateLimited(key)
	default:
		q.queue.Forget(key)
		if again > 0 {
			q.queue.AddAfter(key, again)
		}
	}
}

// A panicError is a panic of a Reconcile function: a bug with one record must not stop the reconciliation of all
// others.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func (q *Queue[K]) call(ctx context.Context, key K) (again time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			again, err = 0, &panicError{r, debug.Stack()}
		}
	}()
	return q.reconcile(ctx, key)
}
