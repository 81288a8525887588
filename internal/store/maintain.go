package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// compactRevKey is the key where kube-apiserver's compactor stores the revision up to which it has compacted. Its
	// watch cache watches the key to drop what can no longer be listed:
	// k8s.io/apiserver/pkg/storage/etcd3/compact.go.
	compactRevKey = "compact_rev_key"
	// compactEvery is upstream's interval. History is kept at least that long.
	compactEvery = 5 * time.Minute
	// firstCompact is when history from before Open is dropped from the embedded etcd, for daemons that never run for
	// five minutes. Nothing can be watching it.
	firstCompact = time.Minute
	// spaceEvery is how often the remaining space is checked.
	spaceEvery = 5 * time.Second

	// worthwhile is the size from which a half empty database file is rewritten.
	worthwhile = 64 << 20
	// quietRevisions is the maximum number of writes between two checks at which the database is rewritten, because
	// all writes wait for a rewrite.
	quietRevisions = 100
)

// A maintainer bounds the history and the size of etcd.
//
// API servers must not compact: each would compact the whole of etcd, so they
// run with --etcd-compaction-interval=0 and the store does it for all.
type maintainer struct {
	s *Store
	// version and rev are upstream's "logical time" and the revision of the last
	// round.
	version, rev int64
	seen         int64 // revision at the last space check
	reclaimed    int64 // revision at the last attempt to reclaim space
	worthwhile   int64 // tests change it
}

func (s *Store) maintain() {
	m := s.newMaintainer(s.alive)
	ticker := s.cfg.Clock.NewTicker(spaceEvery)
	defer ticker.Stop()
	due := s.cfg.Clock.Now().Add(compactEvery)
	if s.server != nil {
		due = s.cfg.Clock.Now().Add(firstCompact)
	}
	for {
		m.space(s.alive)
		select {
		case <-s.alive.Done():
			return
		case <-s.spaceCheck:
		case now := <-ticker.C():
			if !now.Before(due) {
				due = now.Add(compactEvery)
				m.compact(s.alive)
			}
		}
	}
}

func (s *Store) newMaintainer(ctx context.Context) *maintainer {
	m := &maintainer{s: s, worthwhile: worthwhile}
	if s.server == nil {
		return m // as upstream does: the first round only learns the current state
	}
	if resp, err := s.client.Get(ctx, compactRevKey); err == nil {
		m.rev = resp.Header.Revision
		if len(resp.Kvs) > 0 {
			m.version = resp.Kvs[0].Version
		}
	}
	return m
}

// compact is one round of upstream's algorithm. If nobody else has changed the key since this process's last round,
// this process compacts up to the revision of that round. Otherwise it waits for the next round.
func (m *maintainer) compact(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	resp, err := m.s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.Version(compactRevKey), "=", m.version)).
		Then(clientv3.OpPut(compactRevKey, strconv.FormatInt(m.rev, 10))).
		Else(clientv3.OpGet(compactRevKey)).
		Commit()
	if err != nil {
		m.failed(ctx, "compaction", err)
		return
	}
	upTo := m.rev
	m.rev = resp.Header.Revision
	if !resp.Succeeded {
		if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
			m.version = kvs[0].Version
		} else {
			m.version = 0
		}
		return
	}
	m.version++
	if upTo == 0 {
		return
	}
	if _, err := m.s.client.Compact(ctx, upTo); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		m.failed(ctx, "compaction", err)
	}
}

func (m *maintainer) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		m.s.log.Warn("store: "+what+" failed", "err", err)
	}
}

// space keeps the embedded etcd from running out of space. An external etcd is its owner's responsibility.
func (m *maintainer) space(ctx context.Context) {
	s := m.s
	if s.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	rev := s.server.Revision()
	quiet := rev-m.seen < quietRevisions
	m.seen = rev

	size, inUse := s.server.Size()
	wasteful := size > m.worthwhile && inUse < size/2
	switch {
	case s.server.Full():
		if m.reclaimed != rev {
			m.reclaim(ctx)
			m.reclaimed = s.server.Revision()
		}
		size, _ = s.server.Size()
		// Require more than the minimum, so that the alarm does not flap.
		if s.free() > s.cfg.MinFreeBytes+s.cfg.MinFreeBytes/2 && size < s.cfg.QuotaBytes/20*19 {
			if err := s.server.SetFull(ctx, false); err != nil {
				m.failed(ctx, "clearing the space alarm", err)
				return
			}
			s.log.Info("store: there is space again, writes resume")
		}
	case s.free() < s.cfg.MinFreeBytes:
		// Raise the alarm before the disk is really full: then etcd could only exit.
		if err := s.server.SetFull(ctx, true); err != nil {
			m.failed(ctx, "the space alarm", err)
		}
		s.log.Error("store: writes are refused", "err", s.outOfSpace())
	case wasteful && (quiet || size > s.cfg.QuotaBytes/5*4):
		m.defragment(ctx)
	}
}

// reclaim frees as much space as possible by dropping all history.
func (m *maintainer) reclaim(ctx context.Context) {
	_, err := m.s.client.Compact(ctx, m.s.server.Revision(), clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		m.failed(ctx, "compaction", err)
		return
	}
	m.defragment(ctx)
}

// defragment rewrites the database if the disk has room for the copy.
func (m *maintainer) defragment(context.Context) {
	before, inUse := m.s.server.Size()
	if m.s.free() < inUse+m.s.cfg.MinFreeBytes/2 {
		return
	}
	start := time.Now()
	if err := m.s.server.Defragment(); err != nil {
		m.s.log.Warn("store: defragmentation failed", "err", err)
		return
	}
	after, _ := m.s.server.Size()
	m.s.log.Debug("store: defragmented", "before", before, "after", after, "took", time.Since(start))
}

// free returns how much can still be written to the disk of the embedded etcd, or a very large number if that is
// unknown.
func (s *Store) free() int64 {
	free, err := freeBytes(s.home.dir)
	if err != nil {
		return 1 << 62
	}
	return free
}

// outOfSpace says why etcd refuses writes and what to do.
func (s *Store) outOfSpace() error {
	select {
	case s.spaceCheck <- struct{}{}: // some space may be reclaimable
	default:
	}
	if s.server == nil {
		return fmt.Errorf("%w: etcd at %s refuses writes; compact and defragment it, then run `etcdctl alarm disarm`",
			ErrOutOfSpace, strings.Join(s.access.Endpoints, ", "))
	}
	if free := s.free(); free < s.cfg.MinFreeBytes+s.cfg.MinFreeBytes/2 {
		return fmt.Errorf("%w: the disk of %s has %d MiB left; free some space, and writes resume automatically",
			ErrOutOfSpace, s.home.dir, free>>20)
	}
	return fmt.Errorf("%w: its database has reached its limit of %d MiB; delete clusters, or run `drydock reset --all` to start over",
		ErrOutOfSpace, s.cfg.QuotaBytes>>20)
}
