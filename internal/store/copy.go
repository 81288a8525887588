package store

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// copyKeys and copyBytes limit the transactions of CopyCluster. etcd serves no other requests during a transaction,
// and rejects large transactions.
const copyKeys, copyBytes = 64, 512 << 10

// CopyCluster copies a cluster's Kubernetes state at a single revision to an ID that has no state. convert returns
// the value for the copy of a key, or false if the key is not copied. fromKey and toKey are full etcd keys.
// CopyCluster returns the number of copied keys.
func (s *Store) CopyCluster(ctx context.Context, from, to string, convert func(fromKey, toKey string, value []byte) ([]byte, bool, error)) (int, error) {
	start, end, err := s.clusterRange(from)
	if err != nil {
		return 0, err
	}
	target, _, err := s.clusterRange(to)
	if err != nil {
		return 0, err
	}
	copied, revision := 0, int64(0)
	for next := start; ; {
		resp, err := s.client.Get(ctx, next, clientv3.WithRange(end), clientv3.WithLimit(copyKeys), clientv3.WithRev(revision))
		if err != nil {
			return copied, s.explain(err)
		}
		if revision == 0 {
			revision = resp.Header.Revision
		}
		var puts []clientv3.Op
		size := 0
		flush := func() error {
			if len(puts) == 0 {
				return nil
			}
			if _, err := s.client.Txn(ctx).Then(puts...).Commit(); err != nil {
				return err
			}
			copied += len(puts)
			puts, size = nil, 0
			return nil
		}
		for _, kv := range resp.Kvs {
			key := string(kv.Key)
			toKey := target + strings.TrimPrefix(key, start)
			value, ok, err := convert(key, toKey, kv.Value)
			if err != nil {
				return copied, err
			}
			if !ok {
				continue
			}
			if size+len(value) > copyBytes {
				if err := flush(); err != nil {
					return copied, s.explain(err)
				}
			}
			puts, size = append(puts, clientv3.OpPut(toKey, string(value))), size+len(value)
		}
		if err := flush(); err != nil {
			return copied, s.explain(err)
		}
		if !resp.More {
			return copied, nil
		}
		next = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}
