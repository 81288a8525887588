package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/controlplane"
)

// passSpareDelay steps the clock when the Manager waits before it starts spares. The other timer is for certificates.
func (w *world) passSpareDelay() {
	if clock := w.cfg.Clock.(*testclock.FakeClock); clock.Waiters() > 1 {
		clock.Step(controlplane.SpareDelay)
	}
}

// awaitSpares waits for n spares that are ready and returns their IDs.
func (w *world) awaitSpares(n int) []string {
	w.t.Helper()
	var ready []string
	eventually(w.t, func() error {
		w.passSpareDelay()
		spares := controlplane.Spares(w.Manager)
		ready = ready[:0]
		for id, state := range spares {
			if state == controlplane.Ready {
				ready = append(ready, id)
			}
		}
		if len(spares) != n || len(ready) != n {
			return fmt.Errorf("spares %v, want %d ready", spares, n)
		}
		return nil
	})
	return ready
}

func TestASpareOfTheLastKeyIsKeptWarm(t *testing.T) {
	w := newWorld(t, func(cfg *config) {
		cfg.WarmSpares = 1
		cfg.Clock = testclock.NewFakeClock(time.Now())
	})
	if got := controlplane.Spares(w.Manager); len(got) != 0 {
		t.Fatalf("spares before the first claim: %v", got)
	}
	w.claim("first", account)
	spare := w.awaitSpares(1)[0]
	if _, err := w.Get(spare); !errors.Is(err, controlplane.ErrNotFound) {
		t.Errorf("a spare is shown: %v", err)
	}
	pid := w.pid(spare)

	// Account and name do not matter to a spare; they are bound by the claim.
	same := account
	same.Account, same.Name = "444455556666", "prod"
	p := w.claim("second", same)
	if p.ID != spare || p.Key != same || p.Owner != "second" {
		t.Errorf("claimed %+v, want the spare %s", p, spare)
	}
	if got := w.pid(p.ID); got != pid {
		t.Error("the spare's process was started again")
	}
	next := w.awaitSpares(1)[0]

	// A spare of another kind does not fit, and is replaced by one that does.
	other := account
	other.Version = "1.36"
	if p := w.claim("third", other); p.ID == next {
		t.Error("a spare of another version was claimed")
	}
	eventually(t, func() error {
		w.passSpareDelay()
		if _, err := w.Status(next); err == nil {
			return errors.New("the spare that fits nothing is still there")
		}
		return nil
	})
	last := w.awaitSpares(1)[0]

	w.reopen()
	if got := w.awaitSpares(1)[0]; got != last {
		t.Errorf("after a restart the spare is %s, want %s", got, last)
	}
	w.cfg.WarmSpares = 0
	w.reopen()
	eventually(t, func() error {
		w.passSpareDelay()
		if got := controlplane.Spares(w.Manager); len(got) > 0 {
			return fmt.Errorf("spares nobody wants: %v", got)
		}
		return nil
	})
}

func TestNoSpareStartsWhileAClusterDoes(t *testing.T) {
	if controlplane.SpareDelay < time.Second {
		t.Errorf("a spare starts %s after a cluster, whose user is busy then", controlplane.SpareDelay)
	}
	w := newWorld(t, func(cfg *config) {
		cfg.WarmSpares = 1
		cfg.Clock = testclock.NewFakeClock(time.Now()) // the delay does not pass while the test looks
	})
	p, err := w.Claim(t.Context(), "o", account)
	if err != nil {
		t.Fatal(err)
	}
	if got := controlplane.Spares(w.Manager); len(got) != 0 {
		t.Errorf("spares: %v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.WaitReady(ctx, p.ID); err != nil {
		t.Fatal(err)
	}
}
