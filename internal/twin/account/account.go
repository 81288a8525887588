// Package account keeps twins: accounts of Drydock whose records come from a recording of an AWS account. It loads
// recordings through the declarations of the services' modules, marks the accounts, and keeps what could not be
// read.
package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A Twin marks an account as a twin.
type Twin struct {
	Source recording.Source
	// Loading is set until all records have been written.
	Loading bool `json:",omitempty"`
	// Changed is set by the first change that somebody makes. Until then, nothing in the account acts by itself.
	Changed bool `json:",omitempty"`
	// ChangedAt is when Changed was set.
	ChangedAt time.Time `json:",omitzero"`
	Loaded    time.Time
	Answers   int
	Gaps      int
}

// The record of an account is kept under twinID, without a region. Gaps are kept in pages under numbers.
var (
	twins = store.NewCollection[Twin]("twin", "account", store.Same, store.Same, store.Same, store.Same) // version 2 has Changed, version 3 what was kept of IAM, version 4 whether Secrets were read, version 5 ChangedAt and whether Kubernetes was
	gaps  = store.NewCollection[gapPage]("twin", "gaps", store.Convert(placed))                          // version 2 has clusters and resources of their own
)

const twinID = "twin"

// A gapPage holds some of the gaps of a twin.
type gapPage struct{ Gaps []recording.Gap }

const gapsPerPage = 200

// placed gives the gaps of the first version their clusters and resources.
func placed(p gapPage) (gapPage, error) {
	for i, g := range p.Gaps {
		p.Gaps[i] = g.Placed()
	}
	return p, nil
}

func key(account string) store.Key { return store.Key{Account: account, ID: twinID} }

// Of returns the twin of an account, or false if the account is no twin.
func Of(r store.Reader, account string) (Twin, bool) {
	t, err := twins.Get(r, key(account))
	return t, err == nil
}

// All returns the twins.
func All(r store.Reader) []Twin {
	var out []Twin
	for _, i := range twins.All(r, store.Scope{}) {
		out = append(out, i.Value)
	}
	return out
}

// Gaps returns what could not be read from a twin's source. It is empty for an account that is no twin.
func Gaps(r store.Reader, account string) []recording.Gap {
	var out []recording.Gap
	for _, i := range gaps.All(r, store.Scope{Account: account, Global: true}) {
		out = append(out, i.Value.Gaps...)
	}
	return out
}

// ErrNotATwin means that an import would overwrite an account that is no twin.
var ErrNotATwin = errors.New("is not a twin, and importing would delete what it holds")

// ErrTwin means that an import would overwrite a twin that it must not.
var ErrTwin = errors.New("is a twin that this import may not replace")

// Expect says what an account may be that is loaded into. The zero value allows an account that is not in use, and any twin.
type Expect struct {
	// Any allows every account, and what follows does not matter.
	Any bool
	// Unchanged allows a twin only if nothing was changed in it, and it was read with the same choices.
	Unchanged bool
	// Absent allows no twin.
	Absent bool
}

// check returns an error if the account of a source may not be loaded into.
func (l *Loader) check(s recording.Source, e Expect) error {
	old, ok := Of(l.Store, s.Account)
	switch {
	case e.Any:
	case !ok && l.InUse(s.Account):
		return fmt.Errorf("account %s %w", s.Account, ErrNotATwin)
	case ok && (e.Absent || e.Unchanged && (old.Changed || !old.Source.SameScope(s))):
		return fmt.Errorf("account %s %w", s.Account, ErrTwin)
	}
	return nil
}

// A Loader loads recordings.
type Loader struct {
	Store *store.Store
	// Modules returns the modules of all services.
	Modules func() []module.Module
	// Reset empties an account, as `drydock reset` does.
	Reset func(ctx context.Context, account string) error
	// InUse reports whether an account that is not a twin is in use.
	InUse func(account string) bool
	Now   func() time.Time
	// Dir is the folder for the Kubernetes objects of twins.
	Dir string
}

// writesPerTransaction leaves room below store.MaxWrites.
const writesPerTransaction = 90

// Load makes the account of a recording its twin. Every service converts its part before anything is written, so that a
// recording that cannot be loaded changes nothing. An account that is not as expected is an ErrNotATwin or ErrTwin. If
// writing fails, the account is left empty.
func (l *Loader) Load(ctx context.Context, r *recording.Recording, e Expect) (_ Twin, err error) {
	account := r.Source.Account
	if err := l.check(r.Source, e); err != nil {
		return Twin{}, err
	}
	if err := checkObjects(r); err != nil {
		return Twin{}, err
	}
	writes, err := observe(r)
	if err != nil {
		return Twin{}, err
	}
	unknown := r.Gaps()
	for _, m := range l.Modules() {
		if m.Import == nil {
			continue
		}
		w, g, err := convert(m, r)
		if err != nil {
			return Twin{}, err
		}
		writes, unknown = append(writes, w...), append(unknown, g...)
	}
	t := Twin{Source: r.Source, Loading: true, Loaded: l.Now().UTC().Truncate(time.Second), Answers: len(r.Answers), Gaps: len(unknown)}
	writes = append(writes, gapPages(account, 0, unknown)...)
	if err := l.write(ctx, writes, true); err != nil {
		return Twin{}, fmt.Errorf("the source's answers cannot be kept: %w", err)
	}
	if err := l.check(r.Source, e); err != nil { // again, as converting takes a while
		return Twin{}, err
	}
	if err := l.Reset(ctx, account); err != nil {
		return Twin{}, fmt.Errorf("emptying account %s: %w", account, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Reset(context.WithoutCancel(ctx), account))
		}
	}()
	if err := l.keepObjects(r); err != nil {
		return Twin{}, err
	}
	if err := l.mark(ctx, t); err != nil {
		return Twin{}, err
	}
	if err := l.write(ctx, writes, false); err != nil {
		return Twin{}, fmt.Errorf("writing account %s: %w", account, err)
	}
	err = twins.UpdateOne(ctx, l.Store, key(account), func(kept *Twin) error { // which may have changed in the meantime
		kept.Loading = false
		t = *kept
		return nil
	})
	return t, err
}

// convert returns a service's writes for a recording. Whoever wrote the recording, a mistake of the service's in reading it must not
// end the daemon.
func convert(m module.Module, r *recording.Recording) (_ []module.Write, _ []recording.Gap, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the source's answers about %s cannot be converted: %v", m.Service.Name, p)
		}
	}()
	return m.Import(r)
}

func (l *Loader) mark(ctx context.Context, t Twin) error {
	return l.Store.Update(ctx, func(tx *store.Tx) error { return twins.Put(tx, key(t.Source.Account), t) })
}

// errTried ends a transaction that only tries.
var errTried = errors.New("tried")

// write writes everything in order, in transactions that are as large as possible. With try, nothing is kept: whether the keys and values
// can be written is known before the account is emptied.
func (l *Loader) write(ctx context.Context, writes []module.Write, try bool) error {
	for len(writes) > 0 {
		n, records := 0, 0
		for n < len(writes) && (n == 0 || records+max(writes[n].Records, 1) <= writesPerTransaction) {
			records += max(writes[n].Records, 1)
			n++
		}
		batch := writes[:n]
		writes = writes[n:]
		err := l.Store.Update(ctx, func(tx *store.Tx) error {
			for _, w := range batch {
				if err := w.Put(tx); err != nil {
					return err
				}
			}
			if try {
				return errTried
			}
			return nil
		})
		if err != nil && !errors.Is(err, errTried) {
			return err
		}
	}
	return nil
}

// Clean empties accounts whose load was interrupted by the end of the daemon, and removes what interrupted commands have read and is too old
// to be continued.
func (l *Loader) Clean(ctx context.Context) error {
	if err := twin.CleanScratches(l.Dir, l.Now().Add(-twin.Resumable), nil); err != nil {
		return err
	}
	for _, t := range All(l.Store) {
		if t.Loading {
			if err := l.Reset(ctx, t.Source.Account); err != nil {
				return err
			}
		}
	}
	return nil
}
