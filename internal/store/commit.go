package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxRefusals is how often etcd may refuse a transaction before Update returns ErrConflict.
	maxRefusals = 20
	// maxCompares keeps a transaction within the 128 comparisons that an etcd
	// allows by default.
	maxCompares = 100
	// eraseAtOnce is how many collections Reset empties in one transaction. It keeps within the same limit.
	eraseAtOnce = 50
	// goneBuckets bounds the number of keys that record deletions in a shared etcd.
	goneBuckets = 16
)

// errRefused means that etcd's state is not what the transaction read.
var errRefused = errors.New("refused")

// Update runs fn in a transaction and commits what it wrote. fn may run several times and must have no effects except
// through tx. An error of fn is returned unchanged and nothing is written. When Update returns nil, the writes are
// durable and visible to every later read.
//
// The errors are ErrTooLarge, ErrConflict, ErrUnavailable, ErrOutOfSpace and ErrClosed, with their causes, or ctx's.
// After ErrUnavailable or an error of ctx the writes may have happened or may still happen.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	for refusals := 0; ; refusals++ {
		err := s.tryUpdate(ctx, fn)
		if !errors.Is(err, errRefused) {
			return err
		}
		if refusals == maxRefusals {
			return fmt.Errorf("%w: gave up after %d tries", ErrConflict, refusals)
		}
		// Another process made a change that has not reached the view yet: wait for it.
		pause := time.Millisecond << min(refusals, 7)
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) tryUpdate(ctx context.Context, fn func(*Tx) error) error {
	tx, err := s.run(ctx, fn)
	if err != nil || len(tx.writes) == 0 {
		return err // a read-only transaction saw one snapshot, so there is nothing to check
	}
	p := s.lineup.enter(tx)
	committing := false
	defer func() {
		if !committing { // even if fn panics
			s.lineup.leave(p)
		}
	}()
	for {
		fresh, err := s.lineup.turn(ctx, p, s.view)
		if errors.Is(err, errStuck) {
			return s.explain(context.DeadlineExceeded)
		}
		if err != nil {
			return err
		}
		if fresh {
			break
		}
		if tx, err = s.run(ctx, fn); err != nil || len(tx.writes) == 0 {
			return err
		}
		s.lineup.rerun(p, tx)
	}
	if s.cfg.BeforeCommit != nil {
		if err := s.cfg.BeforeCommit(ctx); err != nil {
			return err
		}
	}
	committing = true
	if err := s.commit(ctx, p, s.operations(tx)); err != nil {
		return err
	}
	s.lineup.leave(p)
	return nil
}

func (s *Store) run(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	if s.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tx := newTx(s.view.snap.Load())
	if err := fn(tx); err != nil {
		return nil, err
	}
	if len(tx.writes) > MaxWrites {
		return nil, fmt.Errorf("%w: %d writes, but at most %d are allowed; split the change and make it visible with one last record",
			ErrTooLarge, len(tx.writes), MaxWrites)
	}
	return tx, nil
}

// Reset removes every record of an account, or of all accounts if account is empty. Readers see all records disappear
// at once.
func (s *Store) Reset(ctx context.Context, account string) error {
	prefix := ""
	if account != "" {
		prefix = account + "/"
	}
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	// The lineup holds back everything else in the account until it is empty.
	tx := newTx(s.view.snap.Load())
	tx.erased = []keyRange{{prefix: prefix}}
	p := s.lineup.enter(tx)
	if _, err := s.lineup.turn(ctx, p, s.view); err != nil {
		s.lineup.leave(p)
		if errors.Is(err, errStuck) {
			return s.explain(context.DeadlineExceeded)
		}
		return err
	}
	var ops []clientv3.Op
	snap := s.view.snap.Load()
	for coll, t := range snap.colls {
		if t.Len() == 0 || len(snap.list(coll, prefix)) == 0 {
			continue
		}
		start, end := s.etcdRange(keyRange{coll, prefix})
		ops = append(ops, clientv3.OpDelete(start, clientv3.WithRange(end)))
		if s.shared() {
			ops = append(ops, clientv3.OpPut(s.goneKey(coll, account), ""))
		}
	}
	// This takes one transaction unless there are more collections than etcd allows in one.
	for part := range slices.Chunk(ops, 2*eraseAtOnce) {
		t := transaction{then: part}
		if err := s.commit(ctx, p, t); err != nil {
			return err
		}
	}
	s.lineup.leave(p)
	return nil
}

// A transaction is an etcd transaction: comparisons and writes.
type transaction struct {
	compare []clientv3.Cmp
	then    []clientv3.Op
}

// operations translates a transaction into etcd's comparisons and operations.
//
// If no other process uses the etcd, the lineup has already checked everything and comparing single keys is only a
// safeguard. In a shared etcd the comparisons keep several processes apart, and lists are checked as well: no key in
// a listed range may be newer than the snapshot, and none may have been deleted since. Etcd cannot check for
// deletions. In a shared etcd every transaction that deletes therefore touches a key for the account's bucket of that
// collection, and that key must not be newer than the snapshot either.
func (s *Store) operations(tx *Tx) transaction {
	var t transaction
	ranges := tx.ranges
	if len(tx.reads)+3*len(ranges) <= maxCompares {
		for id, rev := range tx.reads {
			t.compare = append(t.compare, clientv3.Compare(clientv3.ModRevision(s.etcdKey(id)), "=", rev))
		}
	} else {
		ranges = append(ranges[:len(ranges):len(ranges)], spans(tx.reads)...)
	}
	if s.shared() {
		older := func(cmp clientv3.Cmp) {
			t.compare = append(t.compare, clientv3.Compare(cmp, "<", tx.snap.rev+1))
		}
		gone := map[string]bool{}
		for _, r := range ranges {
			start, end := s.etcdRange(r)
			older(clientv3.ModRevision(start).WithRange(end))
			account, _, one := strings.Cut(r.prefix, "/")
			if !one {
				older(clientv3.ModRevision(s.gonePrefix(r.coll)).WithPrefix())
				continue
			}
			gone[s.goneKey(r.coll, account)] = true
			gone[s.goneKey(r.coll, "")] = true
		}
		for k := range gone {
			older(clientv3.ModRevision(k))
		}
	}
	gone := map[string]bool{}
	for id, e := range tx.writes {
		if e.raw != nil {
			t.then = append(t.then, clientv3.OpPut(s.etcdKey(id), string(e.raw)))
			continue
		}
		t.then = append(t.then, clientv3.OpDelete(s.etcdKey(id)))
		if s.shared() {
			account, _, _ := strings.Cut(id.path, "/")
			gone[s.goneKey(id.coll, account)] = true
		}
	}
	for k := range gone {
		t.then = append(t.then, clientv3.OpPut(k, ""))
	}
	return t
}

// spans returns, per collection, the smallest range that covers every read.
func spans(reads map[recordID]int64) []keyRange {
	colls := map[string]string{}
	for id := range reads {
		prefix, ok := colls[id.coll]
		if !ok {
			prefix = id.path
		}
		for !strings.HasPrefix(id.path, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
		colls[id.coll] = prefix
	}
	out := make([]keyRange, 0, len(colls))
	for coll, prefix := range colls {
		// Cut at a whole path element, as lists do.
		out = append(out, keyRange{coll, prefix[:strings.LastIndexByte(prefix, '/')+1]})
	}
	return out
}

func (s *Store) gonePrefix(coll string) string { return s.root + "/gone/" + coll + "/" }

// goneKey returns the key that is touched when a record of the account is deleted, or when all records are if account
// is empty.
func (s *Store) goneKey(coll, account string) string {
	if account == "" {
		return s.gonePrefix(coll) + "all"
	}
	h := fnv.New32a()
	h.Write([]byte(account))
	return fmt.Sprintf("%s%02x", s.gonePrefix(coll), h.Sum32()%goneBuckets)
}

// shared reports whether other processes may write records. They cannot write to the embedded etcd, whose folder is
// locked.
func (s *Store) shared() bool { return s.server == nil }

// commit sends a transaction and waits until the view shows it. If it fails, p leaves the lineup once it is certain
// that the transaction either is in the view or never will be.
func (s *Store) commit(ctx context.Context, p *pending, t transaction) error {
	cctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)()
	resp, err := s.client.Txn(cctx).If(t.compare...).Then(t.then...).Commit()
	if err != nil {
		s.settle(p, err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.explain(err)
	}
	if !resp.Succeeded {
		s.lineup.leave(p)
		return errRefused
	}
	changed := false
	for _, r := range resp.Responses {
		changed = changed || r.GetResponsePut() != nil || r.GetResponseDeleteRange().GetDeleted() > 0
	}
	if !changed {
		return nil
	}
	if err := s.view.wait(cctx, resp.Header.Revision); err != nil {
		s.settle(p, err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.explain(err)
	}
	return nil
}

// settle removes p from the lineup once it is certain that p's writes either are in the view or never will be. A
// transaction without an answer may still be in etcd's log, and those behind p must not be checked against a view
// without it.
func (s *Store) settle(p *pending, err error) {
	// In a shared etcd the comparisons detect such a write.
	if s.shared() || rejected(err) || !s.spawn(func() {
		defer s.lineup.leave(p)
		begin, stuck := time.Now(), false
		for s.alive.Err() == nil && !s.settled(p) {
			if !stuck && time.Since(begin) >= commitTimeout {
				s.lineup.stick(p)
				stuck = true
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-s.alive.Done():
			}
		}
	}) {
		s.lineup.leave(p)
	}
}

func (s *Store) settled(p *pending) bool {
	ctx, cancel := context.WithTimeout(s.alive, commitTimeout)
	defer cancel()
	// Etcd applies its log in order, so once this request is answered, every earlier one has been applied. It deletes
	// nothing, but goes through the log because etcd does not know that beforehand.
	if _, err := s.client.Delete(ctx, s.root+"/barrier"); err != nil {
		return false
	}
	snap := s.view.snap.Load()
	for id := range p.tx.writes {
		resp, err := s.client.Get(ctx, s.etcdKey(id), clientv3.WithKeysOnly())
		if err != nil {
			return false
		}
		var stored, shown int64
		if len(resp.Kvs) > 0 {
			stored = resp.Kvs[0].ModRevision
		}
		if e, ok := snap.get(id.coll, id.path); ok {
			shown = e.rev
		}
		if stored != shown {
			return false
		}
	}
	for _, r := range p.tx.erased {
		for coll := range snap.colls {
			start, end := s.etcdRange(keyRange{coll, r.prefix})
			resp, err := s.client.Get(ctx, start, clientv3.WithRange(end), clientv3.WithCountOnly())
			if err != nil || resp.Count != int64(len(snap.list(coll, r.prefix))) {
				return false
			}
		}
	}
	return true
}

// rejected reports whether etcd refused a transaction before writing it to its log.
func rejected(err error) bool {
	return errors.Is(err, rpctypes.ErrRequestTooLarge) || errors.Is(err, rpctypes.ErrTooManyOps) ||
		errors.Is(err, rpctypes.ErrDuplicateKey) || errors.Is(err, rpctypes.ErrPermissionDenied)
}

// explain turns an etcd error into one of the store's errors.
func (s *Store) explain(err error) error {
	switch {
	case s.Err() != nil:
		return s.Err()
	case s.ctx.Err() != nil:
		return ErrClosed
	case errors.Is(err, rpctypes.ErrNoSpace):
		return s.outOfSpace()
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps),
		status.Code(err) == codes.ResourceExhausted:
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, rpctypes.ErrTimeout):
		return fmt.Errorf("%w: etcd at %s did not answer within %s", ErrUnavailable,
			strings.Join(s.access.Endpoints, ", "), commitTimeout)
	default:
		return fmt.Errorf("%w: etcd at %s: %w", ErrUnavailable, strings.Join(s.access.Endpoints, ", "), err)
	}
}
