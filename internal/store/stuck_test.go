package store

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A transaction behind one that etcd does not answer gets an error instead of waiting as long as its caller does.
func TestNobodyWaitsBehindAStuckTransaction(t *testing.T) {
	var l lineup
	v := newView(nil)
	everything := func() *Tx {
		tx := newTx(v.snap.Load())
		tx.erased = []keyRange{{}}
		return tx
	}
	first, second := l.enter(everything()), l.enter(everything())
	if fresh, err := l.turn(t.Context(), first, v); !fresh || err != nil {
		t.Fatalf("%v, %v", fresh, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		_, err := l.turn(ctx, second, v)
		answer <- err
	}()
	l.stick(first)
	if err := <-answer; !errors.Is(err, errStuck) {
		t.Errorf("error %v", err)
	}
	if _, err := l.turn(ctx, l.enter(everything()), v); !errors.Is(err, errStuck) {
		t.Errorf("one that comes later: %v", err)
	}
	l.leave(first) // etcd has answered at last
	if fresh, err := l.turn(ctx, second, v); !fresh || err != nil {
		t.Errorf("%v, %v", fresh, err)
	}
}

// Reads of an etcd that waits for its disk end when their callers give up.
func TestReadsEndWithTheirContext(t *testing.T) {
	s, err := Open(t.Context(), Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.within(ctx, func() (int64, error) { <-hang; return 1, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(hang)
	if n, err := s.CountKeys(t.Context()); err != nil || n < 0 {
		t.Errorf("%d keys, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.CountKeys(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
