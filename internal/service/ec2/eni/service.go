// Package eni holds network interfaces and the Elastic IP addresses that are
// associated with them: those that users make, those that AWS's services manage, and
// those that pods get. How an instance uses its interfaces is in the instance
// package.
package eni

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations of network interfaces and Elastic IP addresses.
type Service struct {
	*resource.Core
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }
