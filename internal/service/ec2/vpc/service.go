// Package vpc holds VPCs with their CIDR blocks and DHCP options, subnets, flow logs,
// zones and regions, and the default VPC that every account finds. The contents of a
// VPC are in the packages below; this one creates what a new VPC starts with.
package vpc

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations of VPCs and subnets.
type Service struct {
	*resource.Core
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }
