// Package endpoint manages VPC endpoints (gateway and interface), the services that they connect
// to, and EC2 Instance Connect endpoints. Package authz evaluates endpoint policies.
package endpoint

import (
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// Service handles the operations on endpoints.
type Service struct {
	*resource.Core
	interfaces *eni.Service
}

// New returns the service on top of core. Endpoints have network interfaces.
func New(core *resource.Core, interfaces *eni.Service) *Service {
	return &Service{Core: core, interfaces: interfaces}
}
