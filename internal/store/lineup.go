package store

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// A lineup orders this process's conflicting transactions, so that etcd does
// not get commits that are known to fail, and so that none starves: of two that
// conflict, the one that came first goes first. All others go to etcd side by
// side and share its fsyncs.
type lineup struct {
	mu    sync.Mutex
	queue []*pending // by arrival
}

// A pending transaction waits for its turn or is being committed.
type pending struct {
	tx         *Tx
	committing bool
	left       chan struct{}
	// stuck is closed when etcd does not answer it, because there is no bound on
	// how long it takes.
	stuck chan struct{}
}

// errStuck: etcd does not answer a transaction ahead.
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

// stick tells those behind p that it may take as long as it likes. It is called once.
func (l *lineup) stick(p *pending) { close(p.stuck) }

// turn waits until nothing that conflicts with p is being committed or has come
// earlier; not for what is stuck: errStuck. Then, if what p read is still so, p counts as being committed and turn
// returns true; else p keeps its place and should be run again.
func (l *lineup) turn(ctx context.Context, p *pending, v *view) (bool, error) {
	for {
		l.mu.Lock()
		first := l.ahead(p)
		if first == nil {
			// Earlier commits are in the view, because leave comes after that.
			fresh := !p.tx.stale(v)
			p.committing = fresh
			l.mu.Unlock()
			return fresh, nil
		}
		l.mu.Unlock()
		select {
		case <-first.left:
		case <-first.stuck: // and has not left since
			return false, errStuck
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// ahead returns a transaction that p must wait for, if any. Waiting ones wait
// only for earlier ones and committing ones do not wait, so none waits forever.
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

// rerun replaces what p is after it was run again.
func (l *lineup) rerun(p *pending, tx *Tx) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.tx = tx
}
