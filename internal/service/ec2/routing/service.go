// Package routing manages route tables and the targets of routes: internet gateways,
// egress-only internet gateways, NAT gateways and peering connections. Package endpoint adds
// the routes of gateway endpoints.
package routing

import (
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// Service handles the operations on route tables, gateways and peering connections.
type Service struct {
	*resource.Core
	interfaces *eni.Service
}

// New returns the service on top of core. NAT gateways have network interfaces.
func New(core *resource.Core, interfaces *eni.Service) *Service {
	return &Service{Core: core, interfaces: interfaces}
}
