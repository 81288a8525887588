// Package storage manages volumes, their modifications and attachments, and their snapshots. The data of a root volume are
// the files that its instance has written. Other volumes have data only if they were attached to an instance that runs
// containers.
package storage

import (
	"context"
	"time"

	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// Service handles the operations on volumes and snapshots.
type Service struct {
	*resource.Core
	disks Disks
}

// New returns the service on top of core. If disks is nil, snapshots hold no data.
func New(core *resource.Core, disks Disks) *Service { return &Service{Core: core, disks: disks} }

// Reconcilers returns what removes the data of a volume or snapshot once its record is gone, whether a call, the end of an instance
// or a reset deleted it.
func (s *Service) Reconcilers() []reconcile.Config {
	if s.disks == nil {
		return nil
	}
	return []reconcile.Config{
		{Name: "ec2/volume-data", Watcher: Volumes.Watch(s.Store, store.Scope{}), Reconcile: removeData(s, Volumes), Workers: 1},
		{Name: "ec2/snapshot-data", Watcher: Snapshots.Watch(s.Store, store.Scope{}), Reconcile: removeData(s, Snapshots), Workers: 1},
	}
}

func removeData[T any](s *Service, of resource.Kind[T]) func(context.Context, store.Key) (time.Duration, error) {
	return func(_ context.Context, k store.Key) (time.Duration, error) {
		_, err := of.Get(s.Store, k)
		if resource.NotFound(err) {
			return 0, s.disks.Remove(k.ID)
		}
		return 0, err
	}
}
