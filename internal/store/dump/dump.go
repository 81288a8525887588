// Package dump writes the contents of a store's etcd as a compressed list of keys and values, and builds a store from
// such a list. Tests use it to keep data of older versions.
//
// The format is gzipped JSON, one line per key, in etcd's order. Keys that expire (events, leases of API servers) are
// left out. Only tools and tests import it, and only while no Drydock has the folder open.
package dump

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drydock-dev/drydock/internal/store/etcdserver"
)

// A Pair is a key with its value, which is in Text if it is valid text and in Bytes otherwise.
type Pair struct {
	Key   string  `json:"key"`
	Text  *string `json:"text,omitempty"`
	Bytes []byte  `json:"bytes,omitempty"`
}

// Value returns the value.
func (p Pair) Value() []byte {
	if p.Text != nil {
		return []byte(*p.Text)
	}
	return p.Bytes
}

// SetValue replaces the value.
func (p *Pair) SetValue(b []byte) {
	p.Text, p.Bytes = nil, b
	if utf8.Valid(b) {
		text := string(b)
		p.Text, p.Bytes = &text, nil
	}
}

// Read returns the pairs of a dump.
func Read(r io.Reader) ([]Pair, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	var out []Pair
	for d := json.NewDecoder(z); ; {
		var p Pair
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
}

// Write writes a dump.
func Write(w io.Writer, pairs []Pair) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(z)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	for _, p := range pairs {
		if err := e.Encode(p); err != nil {
			return err
		}
	}
	return errors.Join(b.Flush(), z.Close())
}

// page is how many keys are read at once, and batch how many are written.
const page, batch = 500, 100

// FromStore returns the contents of the store in a folder (DATA/store).
func FromStore(ctx context.Context, dir string) ([]Pair, error) {
	var out []Pair
	err := with(ctx, dir, func(c *clientv3.Client) error {
		for key := "\x00"; ; {
			resp, err := c.Get(ctx, key, clientv3.WithFromKey(), clientv3.WithLimit(page))
			if err != nil {
				return err
			}
			for _, kv := range resp.Kvs {
				if kv.Lease == 0 {
					p := Pair{Key: string(kv.Key)}
					p.SetValue(kv.Value)
					out = append(out, p)
				}
			}
			if !resp.More {
				return nil
			}
			key = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
		}
	})
	return out, err
}

// ToStore creates a store in a folder that must not have one.
func ToStore(ctx context.Context, dir string, pairs []Pair) error {
	if _, err := os.Stat(filepath.Join(dir, "etcd")); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s already has a store", dir)
	}
	return with(ctx, dir, func(c *clientv3.Client) error {
		for len(pairs) > 0 {
			n := min(batch, len(pairs))
			ops := make([]clientv3.Op, n)
			for i, p := range pairs[:n] {
				ops[i] = clientv3.OpPut(p.Key, string(p.Value()))
			}
			if _, err := c.Txn(ctx).Then(ops...).Commit(); err != nil {
				return err
			}
			pairs = pairs[n:]
		}
		return nil
	})
}

// with runs an etcd on the folder.
func with(ctx context.Context, dir string, fn func(*clientv3.Client) error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	run, err := os.MkdirTemp("", "drydock-dump-") // a short path, because socket paths are limited to about a hundred bytes
	if err != nil {
		return err
	}
	defer os.RemoveAll(run)
	s, err := etcdserver.Start(ctx, etcdserver.Config{
		Dir: filepath.Join(dir, "etcd"), Socket: filepath.Join(run, "etcd.sock"), QuotaBytes: 8 << 30, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return errors.Join(fn(s.Client()), s.Close())
}
