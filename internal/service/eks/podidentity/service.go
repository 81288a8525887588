// Package podidentity gives pods the roles of their service accounts: EKS Pod Identity
// associations, the webhook that puts tokens and variables into pods, and the review of
// these tokens. Credentials themselves are issued by STS and EKS Auth.
package podidentity

import "github.com/drydock-dev/drydock/internal/service/eks/base"

// A Service answers the operations on Pod Identity associations.
type Service struct{ *base.Service }

// New returns the part of EKS that gives pods identities.
func New(b *base.Service) *Service { return &Service{b} }
