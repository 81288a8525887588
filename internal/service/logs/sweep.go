package logs

import (
	"bytes"
	"context"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// sweepPause is the interval between removals of expired events. Expired events are invisible
	// even before that.
	sweepPause = time.Hour
	// removeAtOnce is how many events are removed in one write.
	removeAtOnce = 5000
)

// Run removes expired events until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	if err := s.dropOrphans(); err != nil {
		return err
	}
	for {
		if err := s.sweep(); err != nil {
			s.log.Warn("logs: removing expired events", "err", err)
		}
		t := s.clock.NewTimer(sweepPause)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C():
		}
	}
}

// dropOrphans removes the events of groups and streams that no longer exist, left by a daemon that
// stopped while deleting them.
func (s *Service) dropOrphans() error {
	buckets := s.bytes.Buckets(kind)
	known := map[bytestore.Bucket]map[string]bool{}
	for _, g := range groups.All(s.store, store.Scope{}) {
		sc, named := scope{regional.At(g.Key.Account, g.Key.Region)}, map[string]bool{}
		for _, r := range streams.All(s.store, sc.Below(g.Value.ID)) {
			named[r.Value.ID] = true
		}
		known[sc.bucket(g.Value.ID)] = named
	}
	if len(groups.Unreadable(s.store, store.Scope{}))+len(streams.Unreadable(s.store, store.Scope{})) > 0 {
		return nil // they may belong to an unreadable group
	}
	for _, b := range buckets {
		named := known[b]
		if named == nil {
			if err := s.bytes.Do(bytestore.Drop(b)).Wait(); err != nil {
				return err
			}
			continue
		}
		state, err := s.statesOf(b)
		if err != nil {
			return err
		}
		for id := range state {
			if named[id] {
				continue
			}
			if err := s.removeStream(b, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep removes expired events.
func (s *Service) sweep() error {
	for _, g := range groups.All(s.store, store.Scope{}) {
		cutoff := g.Value.cutoff(s.now())
		if cutoff == 0 {
			continue
		}
		b := scope{regional.At(g.Key.Account, g.Key.Region)}.bucket(g.Value.ID)
		if _, err := s.remove(b, from(cutoff), 0, func(position) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}

// remove removes matching events before a key, oldest first, in several writes. It stops when it
// has removed enough bytes, or continues to the end if enough is 0. It returns the number of bytes
// removed.
func (s *Service) remove(b bytestore.Bucket, before []byte, enough int64, match func(position) bool) (freed int64, err error) {
	for start := from(0); start != nil; {
		var writes []bytestore.Write
		var next []byte
		err := s.bytes.Range(b, start, before, false, func(key []byte, value func() ([]byte, error)) bool {
			switch {
			case enough > 0 && freed >= enough:
				return false
			case len(writes) == removeAtOnce:
				next = bytes.Clone(key)
				return false
			case !match(positionOf(key)):
				return true
			}
			raw, _ := value() // damaged events are removed as well
			freed += int64(len(raw) + perEvent)
			writes = append(writes, bytestore.Delete(b, bytes.Clone(key)))
			return true
		})
		if err != nil {
			return freed, err
		}
		if err := s.bytes.Do(writes...).Wait(); err != nil {
			return freed, err
		}
		start = next
	}
	return freed, nil
}

// perEvent is the approximate size of an event on disk in addition to its message: its key and the
// byte store's overhead.
const perEvent = 150

// makeRoom keeps the events of an account within the limit. From time to time, it removes the
// oldest events of the account's largest group.
func (s *Service) makeRoom(sc scope, size int64) error {
	step := s.cfg.Limit / 16
	s.mu.Lock()
	s.written[sc.Account] += size
	due := s.written[sc.Account] >= step
	if due {
		s.written[sc.Account] = 0
	}
	s.mu.Unlock()
	for due {
		var total int64
		var largest bytestore.Bucket
		for _, b := range s.bytes.Buckets(kind) {
			if b.Account != sc.Account {
				continue
			}
			n := s.bytes.Size(b)
			if total += n; n > s.bytes.Size(largest) {
				largest = b
			}
		}
		if total <= s.cfg.Limit-step {
			break
		}
		removed, err := s.remove(largest, end, total-s.cfg.Limit+2*step, func(position) bool { return true })
		if err != nil {
			return err
		}
		if removed == 0 {
			break
		}
	}
	if s.bytes.Room(sc.Account, int(size)) != nil {
		return errFull()
	}
	return nil
}
