// Package resource has what is the same for resources of all kinds: their tags, their
// updates, and what authorization knows of them by their names and ARNs.
package resource

import "github.com/drydock-dev/drydock/internal/service/eks/base"

// A Service answers the operations on tags and updates.
type Service struct{ *base.Service }

// New returns the part of EKS that knows resources of all kinds.
func New(b *base.Service) *Service { return &Service{b} }
