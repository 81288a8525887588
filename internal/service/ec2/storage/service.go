// Package storage has volumes, their modifications and attachments, and their snapshots. The data of a root volume is
// the files that its instance has written. Other volumes have data if they were attached to an instance that runs containers.
package storage

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations on volumes and snapshots.
type Service struct {
	*resource.Core
	disks Disks
}

// New returns the service on top of core. If disks is nil, snapshots hold no data.
func New(core *resource.Core, disks Disks) *Service { return &Service{Core: core, disks: disks} }
