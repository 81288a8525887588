// Package vpc manages VPCs with their CIDR blocks and DHCP options, subnets, flow logs, zones
// and regions, and the default VPC of every account. The packages below handle what is inside a
// VPC; this one creates the initial contents of a new VPC.
package vpc

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations on VPCs and subnets.
type Service struct {
	*resource.Core

	bucket func(name string) bool
}

// New returns the service on top of core. bucket reports whether S3 has a bucket with a name; nil means that it has all.
func New(core *resource.Core, bucket func(name string) bool) *Service {
	return &Service{Core: core, bucket: bucket}
}
