// Package vpc has VPCs with their CIDR blocks and DHCP options, subnets, flow logs, zones and
// regions, and the default VPC of every account. The packages below handle what is inside a VPC;
// this one creates the initial contents of a new VPC.
package vpc

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations on VPCs and subnets.
type Service struct {
	*resource.Core
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }
