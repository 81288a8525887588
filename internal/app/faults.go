package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/pages"
	"github.com/drydock-dev/drydock/internal/store"
)

// faultRecords are what `drydock fault` has set, by account, region and ID. What
// a restart finds here is in force again.
var faultRecords = store.NewCollection[fault.Fault]("fault", "fault")

// faults keeps the faults that the user sets: their records in the store, and the
// set of those in force, which everybody asks who has to fail.
type faults struct {
	store *store.Store
	set   *fault.Set
	clock clock.WithTicker
	log   *slog.Logger
	// interrupt takes an instance away from its user, for a fault that is due.
	interrupt func(ctx context.Context, f *fault.Fault) error

	counted    chan struct{} // a fault with a count was used
	refreshing sync.Mutex    // what is read last is what is in force
}

func newFaults(st *store.Store, clk clock.WithTicker, log *slog.Logger) *faults {
	f := &faults{store: st, clock: clk, log: log, counted: make(chan struct{}, 1)}
	f.set = fault.NewSet(fault.Config{Clock: clk, Counted: func() {
		select {
		case f.counted <- struct{}{}:
		default:
		}
	}})
	return f
}

// refresh makes what is in the store what is in force.
func (f *faults) refresh() error {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	items, err := faultRecords.List(f.store, store.Scope{})
	if err != nil {
		return fmt.Errorf("reading the faults: %w", err)
	}
	all := make([]fault.Fault, len(items))
	for i, it := range items {
		all[i] = it.Value
	}
	f.set.Replace(all)
	return nil
}

// add puts a fault in force, and gives it an ID. One that happens at once is
// over when add returns, and leaves no record.
func (f *faults) add(ctx context.Context, in fault.Fault) (fault.Fault, error) {
	in.ID, in.Since, in.Used = "F-"+ids.Hex(8), f.clock.Now().UTC(), 0
	if in.Kind.Once() && !in.Until.After(in.Since) {
		return in, f.interrupt(ctx, &in)
	}
	if !in.Until.IsZero() && !in.Until.After(in.Since) {
		return in, errors.New("a fault lasts longer than no time")
	}
	err := f.store.Update(ctx, func(tx *store.Tx) error {
		have, err := faultRecords.List(tx, store.Scope{Account: in.Account, Region: in.Region})
		if err != nil {
			return err
		}
		if len(have) >= fault.MaxPerRegion {
			return fmt.Errorf("there are %d faults in %s, which is the most; drydock fault clear mends them", len(have), in.Region)
		}
		return faultRecords.Create(tx, faultKey(in), in)
	})
	if err == nil {
		err = f.refresh()
	}
	return in, err
}

func faultKey(f fault.Fault) store.Key {
	return store.Key{Account: f.Account, Region: f.Region, ID: f.ID}
}

// clear ends the faults of an account and region that match, and returns them. If
// one of the IDs is not among them, none ends.
func (f *faults) clear(ctx context.Context, account, region string, match func(fault.Fault) bool, ids ...string) ([]fault.Fault, error) {
	var gone []fault.Fault
	err := f.store.Update(ctx, func(tx *store.Tx) error {
		gone = []fault.Fault{}
		items, err := faultRecords.List(tx, store.Scope{Account: account, Region: region})
		if err != nil {
			return err
		}
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
	if err := f.refresh(); err != nil {
		return nil, err
	}
	if len(gone) == maxCleared { // one transaction takes no more
		rest, err := f.clear(ctx, account, region, match)
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

// maxCleared bounds one transaction.
const maxCleared = 64

// countEvery is how often the use of faults with a count is written down. A crash
// forgets the uses since.
const countEvery = time.Second

// run ends faults whose time or count is over, and does what is due, until ctx ends.
func (f *faults) run(ctx context.Context) error {
	w := faultRecords.Watch(f.store, store.Scope{})
	defer w.Stop()
	ctx, stop := context.WithCancel(ctx)
	changed := make(chan error, 1)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer stop() // first of the three
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
		if err := f.refresh(); err != nil {
			return err
		}
		next, err := f.settle(ctx)
		if err != nil && ctx.Err() == nil {
			f.log.Warn("faults", "err", err)
			next = min(next, countEvery)
		}
		t := f.clock.NewTimer(next)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case err := <-changed:
			if err != nil && ctx.Err() == nil {
				return err
			}
		case <-f.counted:
			t.Stop()
			if !f.pause(ctx) {
				return nil
			}
		case <-t.C():
		}
		t.Stop()
	}
}

// pause bounds how often counts are written.
func (f *faults) pause(ctx context.Context) bool {
	t := f.clock.NewTimer(countEvery)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// settle does what is due of all faults, and says when something will be.
func (f *faults) settle(ctx context.Context) (time.Duration, error) {
	items, err := faultRecords.List(f.store, store.Scope{})
	if err != nil {
		return time.Second, err
	}
	now, next := f.clock.Now(), time.Hour
	used := f.set.Used()
	var errs []error
	unlessCleared := func(err error) { // meanwhile
		if !errors.Is(err, store.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	for _, it := range items {
		r := it.Value
		spent := r.Count > 0 && used[r.ID] >= r.Count
		switch left := r.Until.Sub(now); {
		case spent, !r.Until.IsZero() && left <= 0:
			if r.Kind.Once() {
				if err := f.interrupt(ctx, &r); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", r.ID, err))
					next = min(next, time.Second)
					continue
				}
			}
			unlessCleared(f.store.Update(ctx, func(tx *store.Tx) error {
				faultRecords.Delete(tx, it.Key)
				return nil
			}))
			continue
		case !r.Until.IsZero():
			next = min(next, left)
		}
		if n := used[r.ID]; n > r.Used {
			unlessCleared(faultRecords.UpdateOne(ctx, f.store, it.Key, func(r *fault.Fault) error {
				r.Used = n
				return nil
			}))
		}
	}
	return next, errors.Join(append(errs, f.refresh())...)
}

// handleFaults are the pages of `drydock fault`: what the user breaks on purpose.
func (d *daemon) handleFaults(mux *http.ServeMux) {
	mux.HandleFunc("GET /_drydock/faults", d.getFaults)
	mux.HandleFunc("GET /_drydock/faults/targets", d.getFaultTargets)
	mux.HandleFunc("POST /_drydock/faults", d.postFault)
	mux.HandleFunc("DELETE /_drydock/faults", d.deleteFaults)
}

// getFaults answers the faults in force of ?account= and ?region=; without
// a region those of all.
func (d *daemon) getFaults(w http.ResponseWriter, r *http.Request) {
	account, region := r.URL.Query().Get("account"), r.URL.Query().Get("region")
	if account == "" {
		account = awsapi.DefaultAccount
	}
	out := d.faults.set.List(account, region)
	if out == nil {
		out = []fault.Fault{}
	}
	pages.Answer(w, out)
}

// postFault sets a fault and answers it with its ID.
func (d *daemon) postFault(w http.ResponseWriter, r *http.Request) {
	var in fault.Fault
	body := json.NewDecoder(r.Body)
	body.DisallowUnknownFields() // a mistyped filter would make the fault one of all
	if err := body.Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := d.completeFault(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := d.faults.add(r.Context(), in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pages.Answer(w, out)
}

// deleteFaults ends the faults with ?id= (any number of times), or all of ?kind=,
// or all, of ?account= in ?region=, and answers them.
func (d *daemon) deleteFaults(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	account, region := q.Get("account"), q.Get("region")
	if account == "" {
		account = awsapi.DefaultAccount
	}
	if region == "" || pages.CheckAccount(account) != nil {
		http.Error(w, "account must be 12 digits, and region must be given", http.StatusBadRequest)
		return
	}
	wanted, kind := q["id"], fault.Kind(q.Get("kind"))
	gone, err := d.faults.clear(r.Context(), account, region, func(f fault.Fault) bool {
		return (len(wanted) == 0 || slices.Contains(wanted, f.ID)) && (kind == "" || f.Kind == kind)
	}, wanted...)
	if err != nil {
		status := http.StatusInternalServerError
		if _, ok := errors.AsType[*noFaultError](err); ok {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	pages.Answer(w, gone)
}
