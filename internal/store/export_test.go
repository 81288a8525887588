package store

import (
	"context"
	"testing"

	"github.com/drydock-dev/drydock/internal/store/etcdserver"
)

// Maintenance is a maintainer driven by a test.
type Maintenance struct{ m *maintainer }

// NewMaintenance returns one in the state of a daemon that has just started.
func NewMaintenance(ctx context.Context, s *Store) Maintenance {
	return Maintenance{s.newMaintainer(ctx)}
}

// Compact and Space are the two things it does.
func (m Maintenance) Compact(ctx context.Context) { m.m.compact(ctx) }
func (m Maintenance) Space(ctx context.Context)   { m.m.space(ctx) }

// Server is the embedded etcd.
func (s *Store) Server() *etcdserver.Server { return s.server }

// SetWorthwhile lowers the size from which on the database is rewritten.
func (m Maintenance) SetWorthwhile(n int64) { m.m.worthwhile = n }

// Raw is a record as it is stored, SetRaw stores one as it is given.
func (s *Store) Raw(coll string, k Key) string {
	e, ok := s.get(coll, path(k))
	if !ok {
		return ""
	}
	return string(e.raw)
}

func (s *Store) SetRaw(t testing.TB, coll string, k Key, raw string) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx *Tx) error { tx.put(coll, path(k), []byte(raw)); return nil }); err != nil {
		t.Fatal(err)
	}
}

// SetDataVersion stores the data version of another Drydock.
func (s *Store) SetDataVersion(t testing.TB, raw string) {
	t.Helper()
	if _, err := s.client.Put(t.Context(), s.versionKey(), raw); err != nil {
		t.Fatal(err)
	}
}

// EraseDataVersion makes data look as it did before versions existed.
func EraseDataVersion(t testing.TB, cfg Config) {
	t.Helper()
	h, err := openHome(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	e, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: h.data(), Socket: h.socket, QuotaBytes: 1 << 30, Log: cfg.Log})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Client().Delete(t.Context(), DefaultPrefix+"/data-version"); err != nil {
		t.Fatal(err)
	}
}

// Form is the form of the collection's records.
func (c Collection[T]) Form() string { return c.d.Form() }
