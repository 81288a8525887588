// Package resource treats resources of all kinds alike: it tags them, lists their updates,
// and finds them by name or ARN for authorization.
package resource

import "github.com/drydock-dev/drydock/internal/service/eks/base"

// A Service answers the operations on tags and updates.
type Service struct{ *base.Service }

// New returns the part of EKS that knows resources of all kinds.
func New(b *base.Service) *Service { return &Service{b} }
