// Package addon installs add-ons: it applies their objects, follows the health of their
// pods, scales CoreDNS, and removes what an update or deletion leaves out. The add-ons
// are defined in internal/catalog/addons.
package addon

import (
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/podidentity"
)

// A Service answers the operations on add-ons and reconciles them.
type Service struct {
	*base.Service
	identities *podidentity.Service
}

// New returns the part of EKS that installs add-ons.
func New(b *base.Service, identities *podidentity.Service) *Service { return &Service{b, identities} }
