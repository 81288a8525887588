package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// loadPage is how many records are read from etcd at once.
	loadPage = 1000
	// followRetry is the pause before the view is reloaded.
	followRetry = 100 * time.Millisecond
)

// records is the key prefix of all records.
func (s *Store) records() string { return s.root + "/aws/" }

func (s *Store) etcdKey(id recordID) string { return s.records() + id.coll + "/" + etcdPath(id.path) }

// etcdPath writes the empty region of a path, or of a path prefix, as "-".
func etcdPath(path string) string {
	account, rest, ok := strings.Cut(path, "/")
	if ok && strings.HasPrefix(rest, "/") {
		return account + "/-" + rest
	}
	return path
}

func (s *Store) etcdRange(r keyRange) (start, end string) {
	start = s.records() + r.coll + "/" + etcdPath(r.prefix)
	return start, clientv3.GetPrefixRangeEnd(start)
}

// record turns an etcd key and value into a change. ok is false if the key is not a record's.
func (s *Store) record(kv *mvccpb.KeyValue, deleted bool) (c change, ok bool) {
	service, rest, ok1 := strings.Cut(strings.TrimPrefix(string(kv.Key), s.records()), "/")
	typ, path, ok2 := strings.Cut(rest, "/")
	account, rest, ok3 := strings.Cut(path, "/")
	region, id, ok4 := strings.Cut(rest, "/")
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return change{}, false
	}
	if region == "-" {
		path = account + "//" + id
	}
	e := &entry{path: path, rev: kv.ModRevision}
	if !deleted {
		e.raw = kv.Value
		if e.raw == nil {
			e.raw = []byte{}
		}
	}
	return change{service + "/" + typ, e}, true
}

// load reads all records into the view and returns the revision read.
func (s *Store) load(ctx context.Context) (int64, error) {
	key, end := s.records(), clientv3.GetPrefixRangeEnd(s.records())
	var records []change
	var rev int64
	for {
		ctx, cancel := context.WithTimeout(ctx, commitTimeout)
		resp, err := s.client.Get(ctx, key, clientv3.WithRange(end), clientv3.WithLimit(loadPage), clientv3.WithRev(rev))
		cancel()
		if err != nil {
			return 0, err
		}
		if rev == 0 {
			rev = resp.Header.Revision // read the other pages at the same revision
		}
		for _, kv := range resp.Kvs {
			if c, ok := s.record(kv, false); ok {
				records = append(records, c)
			}
		}
		if !resp.More {
			s.view.replace(rev, records)
			return rev, nil
		}
		key = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// follow keeps the view up to date with etcd, starting after revision rev.
func (s *Store) follow(rev int64) {
	for {
		err := s.watchFrom(rev + 1)
		for s.alive.Err() == nil {
			if errors.Is(err, rpctypes.ErrCompacted) {
				s.log.Debug("store: the watch fell behind a compaction, reloading")
			} else {
				s.log.Warn("store: lost the watch, reloading", "err", err)
			}
			if rev, err = s.load(s.alive); err == nil {
				break
			}
			select {
			case <-time.After(followRetry):
			case <-s.alive.Done():
			}
		}
		if s.alive.Err() != nil {
			return
		}
	}
}

// watchFrom applies the watch's changes to the view until the watch breaks.
func (s *Store) watchFrom(rev int64) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.alive))
	defer cancel()
	for resp := range s.client.Watch(ctx, s.records(), clientv3.WithPrefix(), clientv3.WithRev(rev),
		clientv3.WithFragment(), clientv3.WithProgressNotify()) {
		if err := resp.Err(); err != nil {
			return err
		}
		if resp.IsProgressNotify() {
			s.view.publish(resp.Header.Revision, nil)
			continue
		}
		// A response holds all changes of a revision, and often of several revisions.
		changes := make([]change, 0, len(resp.Events))
		var last int64
		for _, ev := range resp.Events {
			last = max(last, ev.Kv.ModRevision)
			if c, ok := s.record(ev.Kv, ev.Type == mvccpb.DELETE); ok {
				changes = append(changes, c)
			}
		}
		if last > 0 {
			s.view.publish(last, changes)
		}
	}
	return errors.New("the watch ended")
}
