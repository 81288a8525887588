package store

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// A lineup orders this process's conflicting transactions, so that none is sent to etcd that is known to fail, and
// none starves: of two that conflict, the one that came first goes first. Transactions that do not conflict go to
// etcd in parallel and share its fsyncs.
type lineup struct {
	mu    sync.Mutex
	queue []*pending // in order of arrival
}

// A pending transaction waits for its turn or is being committed.
type pending struct {
	tx         *Tx
	committing bool
	left       chan struct{}
	// stuck is closed when etcd does not answer the transaction, because there is no bound on how long it takes.
	stuck chan struct{}
}

// errStuck means that etcd does not answer a transaction ahead of this one.
var errStuck = errors.New("stuck")

func (l *lineup) enter(tx *Tx) *pending {
	p := &pending{tx: tx, left: make(chan struct{}), stuck: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, p)
	return p
}

func (l *lineup) leave(p *pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, p); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		close(p.left)
	}
}

// stick tells the transactions behind p that there is no bound on how long p takes. It is called once.
func (l *lineup) stick(p *pending) { close(p.stuck) }

// turn waits until no conflicting transaction is being committed or came earlier. It returns errStuck instead of
// waiting for one that is stuck. If nothing that p read has changed, p then counts as being committed and turn
// returns true. Otherwise p keeps its place and must be run again.
func (l *lineup) turn(ctx context.Context, p *pending, v *view) (bool, error) {
	for {
		l.mu.Lock()
		first := l.ahead(p)
		if first == nil {
			// Transactions leave after their commit is in the view, so the view has all earlier ones.
			fresh := !p.tx.stale(v)
			p.committing = fresh
			l.mu.Unlock()
			return fresh, nil
		}
		l.mu.Unlock()
		select {
		case <-first.left:
		case <-first.stuck: // and it has not left since
			return false, errStuck
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// ahead returns a transaction that p must wait for, if any. Waiting transactions wait only for earlier ones and
// committing ones do not wait, so no transaction waits forever.
func (l *lineup) ahead(p *pending) *pending {
	earlier := true
	for _, o := range l.queue {
		if o == p {
			earlier = false
			continue
		}
		if (earlier || o.committing) && p.tx.conflicts(&o.tx.footprint) {
			return o
		}
	}
	return nil
}

// rerun replaces p's transaction after it was run again.
func (l *lineup) rerun(p *pending, tx *Tx) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.tx = tx
}
