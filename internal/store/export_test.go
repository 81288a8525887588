package store

import (
	"context"

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
