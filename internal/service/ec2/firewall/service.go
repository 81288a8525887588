// Package firewall manages security groups and their rules, network ACLs, and the prefix lists
// that rules and routes refer to. Package reach decides whether a packet gets through.
package firewall

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations on security groups, network ACLs and prefix lists.
type Service struct {
	*resource.Core
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }
