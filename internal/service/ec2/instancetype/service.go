// Package instancetype describes instance types: their attributes, offerings and prices, and which
// ones meet requirements. The data comes from the catalog.
package instancetype

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations on instance types and Spot prices.
type Service struct {
	*resource.Core
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }
