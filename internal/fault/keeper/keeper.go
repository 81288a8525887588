// Package keeper manages the faults that users inject with `drydock fault`: it checks that a fault can have an
// effect, keeps it in the store, activates it and ends it when it is over. Package fault defines what a fault is and
// what it applies to; the code that has to fail consults the active fault.Set. Only app imports it.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// faultRecords are the faults that `drydock fault` has set, by account, region and ID. After a restart they are
// active again.
var faultRecords = store.NewCollection[fault.Fault]("fault", "fault", store.Same) // version 2 has Cluster

// Config is what a Keeper needs.
type Config struct {
	Store *store.Store
	Clock clock.WithTicker
	// Set holds the faults in force.
	Set *fault.Set
	// Interrupt interrupts an instance, or does what else a fault of a kind that happens once asks for, when it is due.
	// It is called again after an error, unless the error is ErrMoot. Calls for several faults run at the same time.
	Interrupt func(ctx context.Context, f *fault.Fault) error
	// Notice is called again and again for such a fault before it is due, with the time
	// that is left, and says when to call it next at the latest. Nil: there is no notice.
	Notice func(ctx context.Context, f *fault.Fault, left time.Duration) time.Duration
	// Cleared is called for such a fault that a user has ended before it was due. It may be nil.
	Cleared func(f *fault.Fault) error
	Log     *slog.Logger
}

// ErrMoot is the error of a fault that can no longer happen, because what it would affect is gone or is as it would leave
// it.
var ErrMoot = errors.New("the fault can no longer happen")

// Moot makes an error ErrMoot.
func Moot(err error) error { return mootError{err} }

type mootError struct{ error }

func (mootError) Is(target error) bool { return target == ErrMoot }

// maxAtOnce is how many faults interrupt or give notice at the same time.
const maxAtOnce = 16

// A Keeper manages the faults that users set: their records in the store, and
// the set of active ones, which the code that has to fail consults.
type Keeper struct {
	cfg        Config
	set        *fault.Set
	refreshing sync.Mutex // serializes reading the records and putting them in force
}

// New returns a Keeper. No fault is in force before Refresh, which reads them.
func New(cfg Config) *Keeper { return &Keeper{cfg: cfg, set: cfg.Set} }

// Refresh puts the faults in the store in force.
func (k *Keeper) Refresh() {
	k.refreshing.Lock()
	defer k.refreshing.Unlock()
	items := faultRecords.All(k.cfg.Store, store.Scope{})
	all := make([]fault.Fault, len(items))
	for i, it := range items {
		all[i] = it.Value
	}
	k.set.Replace(all)
}

// add puts a fault in force, and gives it an ID. A fault that happens at once is over when add returns, and leaves no
// record.
func (k *Keeper) add(ctx context.Context, in fault.Fault) (fault.Fault, error) {
	in.ID, in.Since, in.Used = "F-"+ids.Hex(8), k.cfg.Clock.Now().UTC(), 0
	if in.Kind.Once() && !in.Until.After(in.Since) {
		return in, k.cfg.Interrupt(ctx, &in)
	}
	if !in.Until.IsZero() && !in.Until.After(in.Since) {
		return in, errors.New("the fault would end at once: set a later end")
	}
	err := k.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		have := faultRecords.All(tx, store.Scope{Account: in.Account, Region: in.Region})
		if len(have) >= fault.MaxPerRegion {
			return fmt.Errorf("there are already %d faults in %s, the maximum; end some with drydock fault clear", len(have), in.Region)
		}
		return faultRecords.Create(tx, faultKey(in), in)
	})
	if err == nil {
		k.Refresh()
	}
	return in, err
}

func faultKey(f fault.Fault) store.Key {
	return store.Key{Account: f.Account, Region: f.Region, ID: f.ID}
}

// clear ends the faults of an account and region that match, and returns them. If one of the IDs does not exist, it
// ends none.
func (k *Keeper) clear(ctx context.Context, account, region string, match func(fault.Fault) bool, ids ...string) ([]fault.Fault, error) {
	var gone []fault.Fault
	err := k.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		gone = []fault.Fault{}
		items := faultRecords.All(tx, store.Scope{Account: account, Region: region})
		items = slices.DeleteFunc(items, func(it store.Item[fault.Fault]) bool { return !match(it.Value) })
		var missing []string
		for _, id := range ids {
			if !slices.ContainsFunc(items, func(it store.Item[fault.Fault]) bool { return it.Value.ID == id }) {
				missing = append(missing, id)
			}
		}
		if len(missing) > 0 {
			return &noFaultError{missing, region}
		}
		for _, it := range items[:min(len(items), maxCleared)] {
			faultRecords.Delete(tx, it.Key)
			gone = append(gone, it.Value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	k.Refresh()
	if k.cfg.Cleared != nil {
		for i := range gone {
			if !gone[i].Kind.Once() {
				continue
			}
			if err := k.cfg.Cleared(&gone[i]); err != nil {
				k.cfg.Log.Warn("clearing a fault", "fault", gone[i].ID, "err", err)
			}
		}
	}
	if len(gone) == maxCleared { // the limit of one transaction
		rest, err := k.clear(ctx, account, region, match)
		return append(gone, rest...), err
	}
	return gone, nil
}

// A noFaultError names faults that are not set.
type noFaultError struct {
	ids    []string
	region string
}

func (e *noFaultError) Error() string {
	return "no fault " + strings.Join(e.ids, ", ") + " is set in " + e.region
}

// maxCleared is how many faults are cleared in one transaction.
const maxCleared = 64

// countEvery is how often the use of faults with a count is stored. A crash loses the uses since.
const countEvery = time.Second

// Run ends faults whose time or count is over, and triggers those that are due, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	w := faultRecords.Watch(k.cfg.Store, store.Scope{})
	defer w.Stop()
	ctx, stop := context.WithCancel(ctx)
	changed := make(chan error, 1)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer stop() // runs before the other two
	watcher.Go(func() {
		for {
			_, err := w.Next(ctx)
			select {
			case changed <- err:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	for {
		// A reset, or another daemon on the same store, changes records, too.
		k.Refresh()
		next, err := k.settle(ctx)
		if err != nil && ctx.Err() == nil {
			k.cfg.Log.Warn("faults", "err", err)
			next = min(next, countEvery)
		}
		t := k.cfg.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case err := <-changed:
			if err != nil && ctx.Err() == nil {
				return err
			}
		case <-k.set.Counted():
			t.Stop()
			if !k.pause(ctx) {
				return nil
			}
		case <-t.C():
		}
		t.Stop()
	}
}

// pause limits how often counts are stored.
func (k *Keeper) pause(ctx context.Context) bool {
	return timing.Sleep(ctx, k.cfg.Clock, countEvery)
}

// settle does what is due for all faults, and returns when something will be due next.
func (k *Keeper) settle(ctx context.Context) (time.Duration, error) {
	items := faultRecords.All(k.cfg.Store, store.Scope{})
	now, next := k.cfg.Clock.Now(), time.Hour
	used := k.set.Used()
	var errs []error
	unlessCleared := func(err error) { // it was cleared in the meantime
		if !errors.Is(err, store.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	did := k.once(ctx, items, now)
	for i, it := range items {
		r := it.Value
		spent := r.Count > 0 && used[r.ID] >= r.Count
		switch left := r.Until.Sub(now); {
		case spent, !r.Until.IsZero() && left <= 0:
			if err := did[i].err; errors.Is(err, ErrMoot) {
				k.cfg.Log.Info("a fault is over before it happened", "fault", r.ID, "kind", r.Kind, "why", err)
			} else if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", r.ID, err))
				next = min(next, time.Second)
				continue
			}
			unlessCleared(k.cfg.Store.Update(ctx, func(tx *store.Tx) error {
				faultRecords.Delete(tx, it.Key)
				return nil
			}))
			continue
		case !r.Until.IsZero():
			next = min(next, left)
			if did[i].noticed {
				next = min(next, did[i].next)
			}
		}
		if n := used[r.ID]; n > r.Used {
			unlessCleared(faultRecords.UpdateOne(ctx, k.cfg.Store, it.Key, func(r *fault.Fault) error {
				r.Used = n
				return nil
			}))
		}
	}
	k.Refresh()
	return next, errors.Join(errs...)
}

// An outcome is what came of a fault that happens once: its error if it is due, or when to give notice again.
type outcome struct {
	err     error
	noticed bool
	next    time.Duration
}

// once lets the faults that happen once and are due happen, and gives notice of the others. They do not wait for each
// other, because some ask a control plane, which may be slow.
func (k *Keeper) once(ctx context.Context, items []store.Item[fault.Fault], now time.Time) []outcome {
	out := make([]outcome, len(items))
	var g errgroup.Group
	g.SetLimit(maxAtOnce)
	for i := range items {
		f := items[i].Value
		if !f.Kind.Once() || f.Until.IsZero() {
			continue
		}
		g.Go(func() error {
			switch left := f.Until.Sub(now); {
			case left <= 0:
				out[i].err = k.cfg.Interrupt(ctx, &f)
			case k.cfg.Notice != nil:
				out[i].noticed, out[i].next = true, k.cfg.Notice(ctx, &f, left)
			}
			return nil
		})
	}
	_ = g.Wait() // out has the errors
	return out
}
