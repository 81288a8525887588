// Package instancetype describes instance types, where they are offered, which ones
// meet requirements, and what they cost. The facts come from the catalog.
package instancetype

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations of instance types and Spot prices.
type Service struct {
	*resource.Core
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }
