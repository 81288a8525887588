// Package storage has volumes, their modifications and their attachments. Volumes are records
// without data, so there are no snapshots.
package storage

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations on volumes.
type Service struct {
	*resource.Core
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }
