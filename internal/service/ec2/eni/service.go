// Package eni manages network interfaces and the Elastic IP addresses associated with them:
// interfaces created by users, those managed by AWS services, and those for pods. Package instance
// handles how an instance uses its interfaces.
package eni

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations on network interfaces and Elastic IP addresses.
type Service struct {
	*resource.Core
	detached *detachments
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core, detached: &detachments{}} }
