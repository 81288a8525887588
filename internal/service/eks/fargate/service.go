// Package fargate keeps Fargate profiles, chooses the profile of a new pod, and says how
// its machine is launched. The machines are internal/compute's.
package fargate

import (
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
)

// A Service answers the operations on Fargate profiles and reconciles them.
type Service struct {
	*base.Service
	access *access.Service
}

// New returns the part of EKS that keeps Fargate profiles.
func New(b *base.Service, a *access.Service) *Service { return &Service{b, a} }
